#import "StraitClient.h"
#import "StraitFailure.h"
#import "StraitOpening.h"
#import "StraitSession.h"
#import "StraitURI.h"
#import "StraitValues.h"
#import "StraitWire.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// Of a copy from or to a local file.
enum { CopyBytes = 1 << 20 };

@interface StraitClient ()
- (BOOL)readAttributes:(NSDictionary **)attributes ifAnyAtPath:(NSString *)path error:(NSError **)error;
@end

@implementation StraitClient

+ (StraitClient *)clientWithAddress:(NSString *)address error:(NSError **)error {
    return [self clientWithAddress:address options:nil error:error];
}

+ (StraitClient *)clientWithAddress:(NSString *)address options:(StraitOptions *)options error:(NSError **)error {
    StraitURI *uri = [StraitURI URIWithAddress:address error:error];
    if (!uri)
        return nil;
    if ([uri store] && [options store] && ![[uri store] isEqualToString:[options store]]) {
        NSString *message =
            [NSString stringWithFormat:@"two stores are named: %@ and %@", [uri store], [options store]];
        return StraitNone(error, StraitFailure(StraitInvalidArgumentError, message, nil, NO));
    }
    StraitOptions *known = options ?: [StraitOptions options];
    StraitSession *session = [[[StraitSession alloc] initWithURI:uri options:known error:error] autorelease];
    if (!session)
        return nil;
    StraitClient *client = [[[self alloc] init] autorelease];
    client->_session = [session retain];
    return client;
}

- (void)dealloc {
    [_session release];
    [super dealloc];
}

- (void)close {
    [_session close];
}

- (NSString *)user {
    return [_session user];
}

- (NSString *)token {
    return [_session token];
}

- (NSString *)storeName {
    return [_session storeName];
}

- (NSString *)storeURI {
    return [_session storeURI];
}

- (NSSet *)capabilities {
    return [_session capabilities];
}

// ----------------------------------------------------------------------------------------------------- whole files

- (NSData *)dataAtPath:(NSString *)path error:(NSError **)error {
    StraitReader *reader = [self readerAtPath:path error:error];
    NSData *data = [reader readDataToEndOfFileAndReturnError:error];
    [reader close];
    return data;
}

- (BOOL)writeData:(NSData *)data toPath:(NSString *)path error:(NSError **)error {
    StraitWriter *writer = [self writerAtPath:path overwrite:YES error:error];
    if (!writer)
        return NO;
    if ([writer writeData:data error:error] && [writer closeAndReturnError:error])
        return YES;
    [writer abandon];
    return NO;
}

/** One piece of a copy: an empty one is its end, nil an error. */
static NSData *LocalPiece(int file, NSString *path, NSError **error) {
    NSMutableData *piece = [NSMutableData dataWithLength:CopyBytes];
    ssize_t count;
    do
        count = read(file, [piece mutableBytes], CopyBytes);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return StraitNone(error, StraitLocalFailure(path));
    [piece setLength:count];
    return piece;
}

static BOOL WriteLocalPiece(int file, NSData *piece, NSString *path, NSError **error) {
    for (NSUInteger written = 0; written < [piece length];) {
        ssize_t count = write(file, (char *)[piece bytes] + written, [piece length] - written);
        if (count < 0 && errno != EINTR)
            return StraitFail(error, StraitLocalFailure(path));
        written += MAX(count, 0);
    }
    return YES;
}

/** Copies until the end, from a local file or to it, with memory for one piece. */
static BOOL Copy(id remote, int file, NSString *localPath, BOOL isUpload, NSError **error) {
    for (BOOL isEnd = NO; !isEnd;) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSError *why = nil;
        NSData *piece = isUpload ? LocalPiece(file, localPath, &why) : [remote readDataUpToLength:CopyBytes error:&why];
        BOOL isDone =
            piece && (isUpload ? [remote writeData:piece error:&why] : WriteLocalPiece(file, piece, localPath, &why));
        isEnd = [piece length] == 0;
        [why retain];
        [pool release];
        [why autorelease];
        if (!isDone)
            return StraitFail(error, why);
    }
    return YES;
}

- (BOOL)copyItemAtPath:(NSString *)path
           toLocalPath:(NSString *)localPath
             overwrite:(BOOL)overwrite
                 error:(NSError **)error {
    const char *target = [localPath fileSystemRepresentation];
    if (!overwrite && access(target, F_OK) == 0)
        return StraitFail(error, StraitFailure(StraitAlreadyExistsError, @"the file is there already", localPath, NO));
    StraitReader *reader = [self readerAtPath:path error:error];
    if (!reader)
        return NO;
    NSString *name = [@".strait-get-" stringByAppendingString:StraitNewName()];
    NSString *directory = [localPath stringByDeletingLastPathComponent];
    const char *temporary = [[directory stringByAppendingPathComponent:name] fileSystemRepresentation];
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return StraitFail(error, StraitLocalFailure(localPath));
    BOOL isCopied = Copy(reader, file, localPath, NO, error);
    [reader close];
    if (close(file) != 0 && isCopied)
        isCopied = StraitFail(error, StraitLocalFailure(localPath));
    if (isCopied && rename(temporary, target) != 0)
        isCopied = StraitFail(error, StraitLocalFailure(localPath));
    if (!isCopied)
        unlink(temporary);
    return isCopied;
}

- (BOOL)copyItemAtLocalPath:(NSString *)localPath
                     toPath:(NSString *)path
                  overwrite:(BOOL)overwrite
                      error:(NSError **)error {
    NSDictionary *there;
    if (![self readAttributes:&there ifAnyAtPath:path error:error])
        return NO;
    if ([[there fileType] isEqualToString:NSFileTypeDirectory]) {
        path =
            [NSString stringWithFormat:[path hasSuffix:@"/"] ? @"%@%@" : @"%@/%@", path, [localPath lastPathComponent]];
        if (![self readAttributes:&there ifAnyAtPath:path error:error])
            return NO;
    }
    if (there && !overwrite)
        return StraitFail(error, StraitFailure(StraitAlreadyExistsError, @"the path is taken", path, NO));
    if ([[there fileType] isEqualToString:NSFileTypeDirectory])
        return StraitFail(error, StraitFailure(StraitIsADirectoryError, @"the target is a directory", path, NO));
    int file = open([localPath fileSystemRepresentation], O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return StraitFail(error, StraitLocalFailure(localPath));
    NSRange slash = [path rangeOfString:@"/" options:NSBackwardsSearch | NSLiteralSearch];
    NSString *directory = [path substringToIndex:NSMaxRange(slash)];
    NSString *temporary = [NSString stringWithFormat:@"%@.strait-put-%@", directory, StraitNewName()];
    NSError *why = nil;
    StraitWriter *writer = [self writerAtPath:temporary overwrite:NO error:&why];
    BOOL isDone = writer && Copy(writer, file, localPath, YES, &why) && [writer closeAndReturnError:&why];
    close(file);
    if (!isDone)
        [writer abandon];
    BOOL canReplace = [[self capabilities] containsObject:@"rename_replace"];
    if (isDone && there && !canReplace)
        isDone = [self removeItemAtPath:path recursive:NO error:&why];
    if (isDone && [self moveItemAtPath:temporary toPath:path overwrite:overwrite && canReplace error:&why])
        return YES;
    [_session tidy:@"removePath" request:[StraitMessage messageWithFields:4, StraitText(temporary), 0]];
    if ([[[why userInfo] objectForKey:NSFilePathErrorKey] isEqual:temporary]) { // which nobody knows
        NSString *message = [[why localizedDescription] stringByReplacingOccurrencesOfString:temporary withString:path];
        BOOL isRetrySafe = [[[why userInfo] objectForKey:StraitRetrySafeErrorKey] boolValue];
        why = StraitFailure(StraitErrorCodeOf([why code]), message, path, isRetrySafe);
    }
    return StraitFail(error, why);
}

// ------------------------------------------------------------------------------------------------------ open files

- (StraitReader *)readerAtPath:(NSString *)path error:(NSError **)error {
    return [[[StraitReader alloc] initWithSession:_session path:path error:error] autorelease];
}

- (StraitWriter *)writerBy:(NSString *)method
                   request:(StraitMessage *)request
                      path:(NSString *)path
                     error:(NSError **)error {
    return [[[StraitWriter alloc] initWithSession:_session method:method request:request path:path
                                            error:error] autorelease];
}

- (StraitWriter *)writerAtPath:(NSString *)path overwrite:(BOOL)overwrite error:(NSError **)error {
    return [self writerAtPath:path overwrite:overwrite attributes:nil error:error];
}

- (StraitWriter *)writerAtPath:(NSString *)path
                     overwrite:(BOOL)overwrite
                    attributes:(NSDictionary *)attributes
                         error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 5, StraitFlag(overwrite), 0];
    [request setField:6 to:StraitOptional(StraitI32, [attributes objectForKey:NSFilePosixPermissions])];
    [request setField:7 to:StraitOptional(StraitI16, [attributes objectForKey:StraitFileReplication])];
    [request setField:8 to:StraitOptional(StraitI64, [attributes objectForKey:StraitFileBlockSize])];
    return [self writerBy:@"createFile" request:request path:path error:error];
}

- (StraitWriter *)appendingWriterAtPath:(NSString *)path error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 0];
    return [self writerBy:@"appendFile" request:request path:path error:error];
}

// ----------------------------------------------------------------------------------------------------------- items

- (NSDictionary *)attributesOfItemAtPath:(NSString *)path error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:2, StraitText(path), 0];
    StraitMessage *reply = [_session query:@"getFileInfo" request:request path:path error:error];
    if (!reply)
        return nil;
    if (![reply messageIn:1]) {
        NSString *message = @"stat: the gateway's reply has no file status (a defect of the gateway)";
        return StraitNone(error, StraitFailure(StraitInternalError, message, path, NO));
    }
    return StraitAttributes([reply messageIn:1]);
}

/** Nil attributes without an error: nothing is there. */
- (BOOL)readAttributes:(NSDictionary **)attributes ifAnyAtPath:(NSString *)path error:(NSError **)error {
    NSError *why = nil;
    *attributes = [self attributesOfItemAtPath:path error:&why];
    return *attributes || [why isStraitError:StraitNotFoundError] || StraitFail(error, why);
}

- (BOOL)fileExistsAtPath:(NSString *)path error:(NSError **)error {
    NSError *why = nil;
    if ([self attributesOfItemAtPath:path error:&why])
        return YES;
    BOOL isMissing = [why isStraitError:StraitNotFoundError] || [why isStraitError:StraitNotADirectoryError];
    return StraitFail(error, isMissing ? nil : why);
}

- (BOOL)setAttributes:(NSDictionary *)attributes ofItemAtPath:(NSString *)path error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 0];
    [request setField:5 to:StraitOptional(StraitI32, [attributes objectForKey:NSFilePosixPermissions])];
    [request setField:6 to:StraitText([attributes objectForKey:NSFileOwnerAccountName])];
    [request setField:7 to:StraitText([attributes objectForKey:NSFileGroupOwnerAccountName])];
    [request setField:8 to:StraitMilliseconds([attributes objectForKey:NSFileModificationDate])];
    [request setField:9 to:StraitMilliseconds([attributes objectForKey:StraitFileAccessDate])];
    [request setField:10 to:StraitOptional(StraitI16, [attributes objectForKey:StraitFileReplication])];
    return [_session change:@"setAttributes" request:request path:path error:error] != nil;
}

- (StraitDirectoryEnumerator *)enumeratorAtPath:(NSString *)path pageSize:(NSUInteger)pageSize error:(NSError **)error {
    StraitDirectoryEnumerator *enumerator = [StraitDirectoryEnumerator alloc];
    return [[enumerator initWithSession:_session path:path pageSize:pageSize error:error] autorelease];
}

- (NSArray *)contentsOfDirectoryAtPath:(NSString *)path error:(NSError **)error {
    StraitDirectoryEnumerator *enumerator = [self enumeratorAtPath:path pageSize:0 error:error];
    NSArray *names = [enumerator allObjects];
    return [enumerator error] ? StraitNone(error, [enumerator error]) : names;
}

- (BOOL)createDirectoryAtPath:(NSString *)path attributes:(NSDictionary *)attributes error:(NSError **)error {
    StraitValue *permission = StraitOptional(StraitI32, [attributes objectForKey:NSFilePosixPermissions]);
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 5, permission, 0];
    return [_session change:@"makeDirectories" request:request path:path error:error] != nil;
}

- (BOOL)moveItemAtPath:(NSString *)path toPath:(NSString *)target overwrite:(BOOL)overwrite error:(NSError **)error {
    StraitMessage *request =
        [StraitMessage messageWithFields:4, StraitText(path), 5, StraitText(target), 6, StraitFlag(overwrite), 0];
    return [_session change:@"renamePath" request:request path:path error:error] != nil;
}

- (BOOL)removeItemAtPath:(NSString *)path recursive:(BOOL)recursive error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 5, StraitFlag(recursive), 0];
    return [_session change:@"removePath" request:request path:path error:error] != nil;
}

- (BOOL)truncateItemAtPath:(NSString *)path toLength:(unsigned long long)length error:(NSError **)error {
    StraitMessage *request =
        [StraitMessage messageWithFields:4, StraitText(path), 5, StraitNumber(StraitI64, length), 0];
    return [_session change:@"truncateFile" request:request path:path error:error] != nil;
}

- (BOOL)concatenateItemsAtPaths:(NSArray *)sources toPath:(NSString *)path error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitText(path), 5, StraitTexts(sources), 0];
    return [_session change:@"concatFiles" request:request path:path error:error] != nil;
}

// ------------------------------------------------------------------------------------------------------- the store

- (NSArray *)blocksOfItemAtPath:(NSString *)path
                         offset:(unsigned long long)offset
                         length:(NSUInteger)length
                          error:(NSError **)error {
    StraitMessage *request =
        [StraitMessage messageWithFields:2, StraitText(path), 3, StraitNumber(StraitI64, offset), 0];
    if (length != NSUIntegerMax)
        [request setField:4 to:StraitNumber(StraitI64, length)];
    StraitMessage *reply = [_session query:@"getBlockLocations" request:request path:path error:error];
    NSMutableArray *blocks = [NSMutableArray array];
    for (StraitMessage *block in [reply messagesIn:1])
        [blocks addObject:[[[StraitBlock alloc] initWithMessage:block] autorelease]];
    return reply ? blocks : nil;
}

- (StraitChecksum *)checksumOfItemAtPath:(NSString *)path error:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:2, StraitText(path), 0];
    StraitMessage *reply = [_session query:@"getChecksum" request:request path:path error:error];
    return reply ? [[[StraitChecksum alloc] initWithMessage:reply] autorelease] : nil;
}

- (NSDictionary *)attributesOfFileSystemAndReturnError:(NSError **)error {
    StraitMessage *reply = [_session query:@"getStoreStatus"
                                   request:[StraitMessage messageWithFields:0]
                                      path:nil
                                     error:error];
    if (!reply)
        return nil;
    return [NSDictionary
        dictionaryWithObjectsAndKeys:[NSNumber numberWithLongLong:[reply numberIn:2]], NSFileSystemSize,
                                     [NSNumber numberWithLongLong:[reply numberIn:3]], StraitFileSystemUsedSize,
                                     [NSNumber numberWithLongLong:[reply numberIn:4]], NSFileSystemFreeSize, nil];
}

@end
