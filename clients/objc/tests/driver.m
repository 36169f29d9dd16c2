// Answers the requests of tests/languages/driver.py.
#import "StraitKit/StraitKit.h"
#import "StraitKit/StraitSession.h"
#import "StraitKit/StraitWire.h"
#include <stdio.h>

static NSMutableDictionary *clients, *files;
static StraitClient *client;

@interface StraitClient (Session)
- (StraitSession *)session;
@end

@implementation StraitClient (Session)
- (StraitSession *)session {
    return _session;
}
@end

// ------------------------------------------------------------------------------------------- parts of the messages

static BOOL readNumber(uint32_t *number) {
    if (fread(number, 4, 1, stdin) != 1)
        return NO;
    *number = NSSwapBigIntToHost(*number);
    return YES;
}

static void writeNumber(uint32_t number) { fwrite(&(uint32_t){NSSwapHostIntToBig(number)}, 4, 1, stdout); }

/** Nil at the end of the input. */
static NSArray *readParts(void) {
    uint32_t count, length;
    if (!readNumber(&count))
        return nil;
    NSMutableArray *parts = [NSMutableArray array];
    while (count-- > 0 && readNumber(&length)) {
        NSMutableData *part = [NSMutableData dataWithLength:length];
        if (fread([part mutableBytes], 1, length, stdin) < length)
            return nil;
        [parts addObject:part];
    }
    return parts;
}

/** Of NSData, NSString and NSNumber. */
static void writeParts(NSArray *parts) {
    writeNumber([parts count]);
    for (id part in parts) {
        NSData *data =
            [part isKindOfClass:[NSData class]] ? part : [[part description] dataUsingEncoding:NSUTF8StringEncoding];
        writeNumber([data length]);
        fwrite([data bytes], 1, [data length], stdout);
    }
    fflush(stdout);
}

static NSString *text(NSArray *parts, NSUInteger index) {
    NSData *part = [parts objectAtIndex:index];
    return [[[NSString alloc] initWithData:part encoding:NSUTF8StringEncoding] autorelease];
}

/** Nil where the argument is empty. */
static NSNumber *number(NSArray *parts, NSUInteger index) {
    NSString *digits = text(parts, index);
    return [digits length] > 0 ? [NSNumber numberWithLongLong:[digits longLongValue]] : nil;
}

static int64_t integer(NSArray *parts, NSUInteger index) { return [number(parts, index) longLongValue]; }

static NSNumber *boxed(int64_t value) { return [NSNumber numberWithLongLong:value]; }

static NSDate *date(NSNumber *milliseconds) {
    return milliseconds ? [NSDate dateWithTimeIntervalSince1970:[milliseconds doubleValue] / 1000] : nil;
}

static NSNumber *milliseconds(NSDate *date) { return boxed((int64_t)([date timeIntervalSince1970] * 1000 + 0.5)); }

// ------------------------------------------------------------------------------------------------------ operations
// Each answers the results; nil with an error.

static NSArray *none(BOOL isDone) { return isDone ? [NSArray array] : nil; }

static NSArray *one(id result) { return result ? [NSArray arrayWithObject:result] : nil; }

static NSArray *opened(NSArray *given, NSError **error) {
    NSString *path = text(given, 2), *mode = text(given, 3);
    NSMutableDictionary *attributes = [NSMutableDictionary dictionary];
    if (number(given, 4))
        [attributes setObject:number(given, 4) forKey:NSFilePosixPermissions];
    id file;
    if ([mode isEqual:@"read"])
        file = [client readerAtPath:path error:error];
    else if ([mode isEqual:@"append"])
        file = [client appendingWriterAtPath:path error:error];
    else
        file = [client writerAtPath:path overwrite:[mode isEqual:@"overwrite"] attributes:attributes error:error];
    if (file)
        [files setObject:file forKey:text(given, 1)];
    return none(file != nil);
}

static NSArray *closed(NSString *name, NSError **error) {
    id file = [[[files objectForKey:name] retain] autorelease];
    [files removeObjectForKey:name];
    if ([file isKindOfClass:[StraitWriter class]])
        return none([file closeAndReturnError:error]);
    [file close];
    return none(YES);
}

static NSArray *attributes(NSString *path, NSError **error) {
    NSDictionary *found = [client attributesOfItemAtPath:path error:error];
    if (!found)
        return nil;
    BOOL isDirectory = [[found fileType] isEqual:NSFileTypeDirectory];
    return [NSArray arrayWithObjects:isDirectory ? @"directory" : @"file", boxed([found fileSize]),
                                     boxed([found filePosixPermissions]), [found objectForKey:StraitFileReplication],
                                     milliseconds([found fileModificationDate]),
                                     milliseconds([found objectForKey:StraitFileAccessDate]), nil];
}

static NSArray *listed(NSArray *given, NSError **error) {
    StraitDirectoryEnumerator *names = [client enumeratorAtPath:text(given, 1) pageSize:integer(given, 2) error:error];
    NSArray *all = [names allObjects];
    if ([names error])
        *error = [names error];
    return [names error] ? nil : all;
}

static NSArray *set(NSArray *given, NSError **error) {
    NSString *keys[] = {NSFilePosixPermissions, StraitFileReplication, NSFileModificationDate, StraitFileAccessDate};
    NSMutableDictionary *attributes = [NSMutableDictionary dictionary];
    for (int index = 0; index < 4; index++) {
        NSNumber *value = number(given, 2 + index);
        if (value)
            [attributes setObject:index < 2 ? (id)value : date(value) forKey:keys[index]];
    }
    return none([client setAttributes:attributes ofItemAtPath:text(given, 1) error:error]);
}

static NSArray *located(NSArray *given, NSError **error) {
    NSUInteger length = number(given, 3) ? (NSUInteger)integer(given, 3) : NSUIntegerMax;
    NSArray *blocks = [client blocksOfItemAtPath:text(given, 1) offset:integer(given, 2) length:length error:error];
    NSMutableArray *numbers = [NSMutableArray array];
    for (StraitBlock *block in blocks)
        [numbers addObjectsFromArray:[NSArray arrayWithObjects:boxed([block offset]), boxed([block length]),
                                                               boxed([[block hosts] count]), nil]];
    return blocks ? numbers : nil;
}

static NSArray *requested(NSArray *given, NSError **error) {
    StraitMessage *request = [StraitMessage messageWithFields:0];
    for (NSUInteger index = 3; index < [given count]; index += 3) {
        StraitType type = integer(given, index + 1);
        StraitValue *value = type == StraitBytes ? StraitData([given objectAtIndex:index + 2])
                                                 : StraitNumber(type, integer(given, index + 2));
        [request setField:integer(given, index) to:value];
    }
    StraitSession *session = [[clients objectForKey:text(given, 1)] session];
    StraitMessage *reply = [session callOnce:text(given, 2) request:request path:nil error:error];
    NSMutableArray *fields = [NSMutableArray array];
    for (NSNumber *field in [reply fields]) {
        id value = [reply dataIn:[field intValue]] ?: (id)boxed([reply numberIn:[field intValue]]);
        if (![reply messageIn:[field intValue]] && [[reply messagesIn:[field intValue]] count] == 0)
            [fields addObjectsFromArray:[NSArray arrayWithObjects:field, value, nil]];
    }
    return reply ? fields : nil;
}

static NSArray *connected(NSString *name, NSArray *given, NSError **error) {
    StraitOptions *options = [StraitOptions options];
    [options setTimeout:integer(given, 3) / 1000.0];
    StraitClient *opened = [StraitClient clientWithAddress:text(given, 2) options:options error:error];
    if (!opened)
        return nil;
    client = opened;
    [clients setObject:client forKey:name];
    return one([[[client capabilities] allObjects] componentsJoinedByString:@","]);
}

static NSArray *ofFile(NSString *operation, id file, NSArray *given, NSError **error) {
    if ([operation isEqual:@"read"])
        return one(integer(given, 2) < 0 ? [file readDataToEndOfFileAndReturnError:error]
                                         : [file readDataUpToLength:integer(given, 2) error:error]);
    if ([operation isEqual:@"pread"])
        return one([file readDataAtOffset:integer(given, 2) length:integer(given, 3) error:error]);
    if ([operation isEqual:@"write"])
        return none([file writeData:[given objectAtIndex:2] error:error]);
    if ([operation isEqual:@"position"])
        return one(boxed([file offsetInFile]));
    if ([operation isEqual:@"flush"])
        return none([file flushAndReturnError:error]);
    if ([operation isEqual:@"sync"])
        return none([file synchronizeAndReturnError:error]);
    [NSException raise:NSInvalidArgumentException format:@"no operation %@", operation];
    return nil;
}

static NSArray *sizes(NSError **error) {
    NSDictionary *sizes = [client attributesOfFileSystemAndReturnError:error];
    return [sizes
        objectsForKeys:[NSArray arrayWithObjects:NSFileSystemSize, StraitFileSystemUsedSize, NSFileSystemFreeSize, nil]
        notFoundMarker:@""];
}

static NSArray *answer(NSString *operation, NSArray *given, NSError **error) {
    if ([operation isEqual:@"status"])
        return sizes(error);
    NSString *path = text(given, 1); // or a name of a client or file
    if ([operation isEqual:@"connect"])
        return connected(path, given, error);
    if ([operation isEqual:@"use"])
        return none((client = [clients objectForKey:path]) != nil);
    if ([operation isEqual:@"disconnect"]) {
        [[clients objectForKey:path] close];
        [clients removeObjectForKey:path];
        return none(YES);
    }
    if ([operation isEqual:@"open"])
        return opened(given, error);
    if ([operation isEqual:@"close"])
        return closed(path, error);
    if ([operation isEqual:@"stat"])
        return attributes(path, error);
    if ([operation isEqual:@"exists"]) {
        NSString *exists = [client fileExistsAtPath:path error:error] ? @"1" : @"0";
        return *error ? nil : one(exists);
    }
    if ([operation isEqual:@"list"])
        return listed(given, error);
    if ([operation isEqual:@"mkdirs"]) {
        NSNumber *permission = number(given, 2);
        NSDictionary *attributes =
            permission ? [NSDictionary dictionaryWithObject:permission forKey:NSFilePosixPermissions] : nil;
        return none([client createDirectoryAtPath:path attributes:attributes error:error]);
    }
    if ([operation isEqual:@"rename"])
        return none([client moveItemAtPath:path toPath:text(given, 2) overwrite:integer(given, 3) == 1 error:error]);
    if ([operation isEqual:@"remove"])
        return none([client removeItemAtPath:path recursive:integer(given, 2) == 1 error:error]);
    if ([operation isEqual:@"attributes"])
        return set(given, error);
    if ([operation isEqual:@"truncate"])
        return none([client truncateItemAtPath:path toLength:integer(given, 2) error:error]);
    if ([operation isEqual:@"concat"]) {
        NSMutableArray *sources = [NSMutableArray array];
        for (NSUInteger part = 2; part < [given count]; part++)
            [sources addObject:text(given, part)];
        return none([client concatenateItemsAtPaths:sources toPath:path error:error]);
    }
    if ([operation isEqual:@"put"])
        return none([client copyItemAtLocalPath:path
                                         toPath:text(given, 2)
                                      overwrite:integer(given, 3) == 1
                                          error:error]);
    if ([operation isEqual:@"locate"])
        return located(given, error);
    if ([operation isEqual:@"checksum"]) {
        StraitChecksum *sum = [client checksumOfItemAtPath:path error:error];
        return sum ? [NSArray arrayWithObjects:[sum algorithm], [sum value], nil] : nil;
    }
    if ([operation isEqual:@"uri"]) {
        StraitURI *uri = [StraitURI URIWithString:path error:error];
        return uri ? [NSArray arrayWithObjects:[uri host], boxed([uri port]), [uri store] ?: @"", [uri path], nil]
                   : nil;
    }
    if ([operation isEqual:@"request"])
        return requested(given, error);
    return ofFile(operation, [files objectForKey:path], given, error);
}

/** The error's own name: its domain, and the system's error beneath it. */
static NSString *named(NSError *error) {
    NSError *beneath = [[error userInfo] objectForKey:NSUnderlyingErrorKey];
    return [NSString
        stringWithFormat:@"%@ %d (%@ %d)", [error domain], (int)[error code], [beneath domain], (int)[beneath code]];
}

int main(void) {
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
    clients = [[NSMutableDictionary alloc] init];
    files = [[NSMutableDictionary alloc] init];
    for (NSArray *given; (given = readParts());) {
        NSError *error = nil;
        NSArray *results = answer(text(given, 0), given, &error);
        NSString *path = [[error userInfo] objectForKey:NSFilePathErrorKey] ?: @"";
        NSMutableArray *parts = [NSMutableArray array];
        if (results)
            [parts addObjectsFromArray:[one(@"ok") arrayByAddingObjectsFromArray:results]];
        else
            [parts addObjectsFromArray:[NSArray arrayWithObjects:@"error", [error straitKind] ?: @"none", path,
                                                                 [error localizedDescription], named(error), nil]];
        writeParts(parts);
        [pool release];
        pool = [[NSAutoreleasePool alloc] init];
    }
    [[clients allValues] makeObjectsPerformSelector:@selector(close)];
    [pool release];
    return 0;
}
