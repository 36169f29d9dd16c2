#import "StraitValues.h"
#import "StraitFailure.h"
#import "StraitSession.h"
#import "StraitWire.h"
#include <math.h>
#include <string.h>

NSString *const StraitFilePath = @"StraitFilePath";
NSString *const StraitFileAccessDate = @"StraitFileAccessDate";
NSString *const StraitFileReplication = @"StraitFileReplication";
NSString *const StraitFileBlockSize = @"StraitFileBlockSize";
NSString *const StraitFileSystemUsedSize = @"StraitFileSystemUsedSize";

@implementation StraitOptions

@synthesize store = _store, user = _user, password = _password, token = _token, timeout = _timeout;

+ (StraitOptions *)options {
    return [[[self alloc] init] autorelease];
}

- (id)init {
    if ((self = [super init]))
        _timeout = 120;
    return self;
}

- (id)copyWithZone:(NSZone *)zone {
    StraitOptions *copy = [[StraitOptions allocWithZone:zone] init];
    [copy setStore:_store];
    [copy setUser:_user];
    [copy setPassword:_password];
    [copy setToken:_token];
    [copy setTimeout:_timeout];
    return copy;
}

- (void)dealloc {
    [_store release];
    [_user release];
    [_password release];
    [_token release];
    [super dealloc];
}

@end

static NSDate *Date(int64_t milliseconds) { return [NSDate dateWithTimeIntervalSince1970:milliseconds / 1000.0]; }

StraitValue *StraitMilliseconds(NSDate *date) {
    return date ? StraitNumber(StraitI64, llround([date timeIntervalSince1970] * 1000)) : nil;
}

NSDictionary *StraitAttributes(StraitMessage *info) {
    return [NSDictionary
        dictionaryWithObjectsAndKeys:[info textIn:1] ?: @"", StraitFilePath,
                                     [info numberIn:2] == 2 ? NSFileTypeDirectory : NSFileTypeRegular, NSFileType,
                                     [NSNumber numberWithLongLong:[info numberIn:3]], NSFileSize,
                                     [NSNumber numberWithLongLong:[info numberIn:4]], StraitFileBlockSize,
                                     [NSNumber numberWithLongLong:[info numberIn:5]], StraitFileReplication,
                                     Date([info numberIn:6]), NSFileModificationDate, Date([info numberIn:7]),
                                     StraitFileAccessDate, [NSNumber numberWithUnsignedLong:[info numberIn:8]],
                                     NSFilePosixPermissions, [info textIn:9] ?: @"", NSFileOwnerAccountName,
                                     [info textIn:10] ?: @"", NSFileGroupOwnerAccountName, nil];
}

@implementation StraitBlock

@synthesize offset = _offset, length = _length, hosts = _hosts;

- (id)initWithMessage:(StraitMessage *)message {
    if ((self = [super init])) {
        _offset = [message numberIn:1];
        _length = [message numberIn:2];
        _hosts = [[message textsIn:3] copy];
    }
    return self;
}

- (void)dealloc {
    [_hosts release];
    [super dealloc];
}

@end

@implementation StraitChecksum

@synthesize algorithm = _algorithm, value = _value;

- (id)initWithMessage:(StraitMessage *)message {
    if ((self = [super init])) {
        _algorithm = [[message textIn:1] ?: @"" copy];
        _value = [[message dataIn:2] ?: [NSData data] copy];
    }
    return self;
}

- (void)dealloc {
    [_algorithm release];
    [_value release];
    [super dealloc];
}

@end

/** The path in bytes, without repeated slashes, and with one at its end. */
static NSData *Directory(NSString *path) {
    NSMutableData *directory = [NSMutableData dataWithBytes:"/" length:1];
    for (const char *at = [path UTF8String]; at && *(at += strspn(at, "/")); at += strcspn(at, "/")) {
        [directory appendBytes:at length:strcspn(at, "/")];
        [directory appendBytes:"/" length:1];
    }
    return directory;
}

/** Whether this is the path of an entry of the directory, which ends with a slash. */
static BOOL IsChild(NSData *path, NSData *directory) {
    const char *bytes = [path bytes];
    NSUInteger from = [directory length], length = [path length];
    if (length <= from || memcmp(bytes, [directory bytes], from) != 0)
        return NO;
    const char *name = bytes + from;
    BOOL isDots = name[0] == '.' && (length - from == 1 || (length - from == 2 && name[1] == '.'));
    return !isDots && !memchr(name, '/', length - from) && !memchr(name, 0, length - from);
}

/** What is wrong with a page; nil if nothing is. Programs join entries' names to paths of their own. */
static NSString *Defect(NSArray *page, BOOL isLast, NSString *path) {
    if ([page count] == 0 && !isLast)
        return @"sent an empty page that isn't the last (a defect of the gateway)";
    NSData *directory = Directory(path);
    for (StraitMessage *entry in page)
        if (![entry textIn:1] || !IsChild([entry dataIn:1], directory))
            return [NSString stringWithFormat:@"named %@, which isn't in this directory", [entry textIn:1] ?: @""];
    return nil;
}

@interface StraitDirectoryEnumerator ()
- (BOOL)fetchAndReturnError:(NSError **)error;
@end

@implementation StraitDirectoryEnumerator

- (id)initWithSession:(StraitSession *)session
                 path:(NSString *)path
             pageSize:(NSUInteger)pageSize
                error:(NSError **)error {
    if ((self = [super init])) {
        _session = [session retain];
        _path = [path copy];
        _pageSize = pageSize ? [[NSNumber alloc] initWithUnsignedInteger:MIN(pageSize, INT32_MAX)] : nil;
        if (![self fetchAndReturnError:error]) {
            [self release];
            return nil;
        }
    }
    return self;
}

- (void)dealloc {
    if (_cursor)
        [_session tidy:@"closeFile" request:[StraitMessage messageWithFields:4, StraitOptional(StraitI64, _cursor), 0]];
    [_session release];
    [_path release];
    [_pageSize release];
    [_cursor release];
    [_page release];
    [_error release];
    [super dealloc];
}

/** The next page. The cursor moves with each answer, so a page after the first is asked for once. */
- (BOOL)fetchAndReturnError:(NSError **)error {
    StraitMessage *request =
        [StraitMessage messageWithFields:2, StraitText(_path), 3, StraitOptional(StraitI64, _cursor), 4,
                                         StraitOptional(StraitI32, _pageSize), 0];
    NSError *why = nil;
    StraitMessage *reply = _cursor ? [_session callOnce:@"listDirectory" request:request path:_path error:&why]
                                   : [_session query:@"listDirectory" request:request path:_path error:&why];
    if (!_cursor)
        _incarnation = [_session incarnation];
    else if (!reply && ([why isStraitError:StraitUnauthenticatedError] || _incarnation != [_session incarnation]))
        why = StraitFailure(StraitUnavailableError, @"the session ended while the directory was listed", _path, YES);
    NSString *defect = reply ? Defect([reply messagesIn:1], ![reply hasField:2], _path) : nil;
    if (defect) {
        if ([reply hasField:2]) {
            StraitMessage *left = [StraitMessage messageWithFields:4, StraitNumber(StraitI64, [reply numberIn:2]), 0];
            [_session tidy:@"closeFile" request:left];
        }
        NSString *message = [NSString stringWithFormat:@"list %@: the gateway %@", _path, defect];
        why = StraitFailure(StraitInternalError, message, _path, NO);
        reply = nil;
    }
    [_cursor release];
    _cursor = [reply hasField:2] ? [[NSNumber alloc] initWithLongLong:[reply numberIn:2]] : nil;
    [_page release];
    _page = [[reply messagesIn:1] retain];
    _next = 0;
    return reply || StraitFail(error, why);
}

- (id)nextObject {
    while (_next == [_page count]) {
        if (!_cursor)
            return nil;
        NSError *why = nil;
        if (![self fetchAndReturnError:&why])
            _error = [why retain];
    }
    NSString *path = [[_page objectAtIndex:_next++] textIn:1];
    NSRange slash = [path rangeOfString:@"/" options:NSBackwardsSearch | NSLiteralSearch];
    return slash.length ? [path substringFromIndex:NSMaxRange(slash)] : path ?: @"";
}

/** For `for`: one name at a time, so that fileAttributes are those of its turn. */
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState *)state objects:(id *)names count:(NSUInteger)most {
    names[0] = [self nextObject];
    state->itemsPtr = names;
    state->mutationsPtr = (unsigned long *)self; // its class, which stays
    return names[0] ? 1 : 0;
}

- (NSDictionary *)fileAttributes {
    return _next > 0 ? StraitAttributes([_page objectAtIndex:_next - 1]) : nil;
}

- (NSError *)error {
    return [[_error retain] autorelease];
}

@end
