// Calls of both generations of the interface, by the codec of the client in clients/objc. Fields have the numbers of
// idl/dfs.thrift. scripts/test-languages.sh has the flags.
// story HOST PORT DIRECTORY
#import "StraitKit/StraitWire.h"

#define fields(...) [StraitMessage messageWithFields:__VA_ARGS__]

// ---------------------------------------------------------------------------------------------------------- calls

@interface DfsServiceIOException : NSException
@end

@implementation DfsServiceIOException
@end

@interface DfsError : NSException
- (int)code;
- (NSString *)kind;
- (NSString *)path;
@end

@implementation DfsError
- (StraitMessage *)fields { return [[self userInfo] objectForKey:@"fields"]; }
- (int)code { return [[self fields] numberIn:1]; }
- (NSString *)kind { return [[self fields] textIn:2]; }
- (NSString *)path { return [[self fields] textIn:4]; }
@end

static NSData *receive(NSFileHandle *gateway, NSUInteger size)
{
    NSData *part = [gateway readDataOfLength:size];
    if ([part length] < size)
        [NSException raise:NSGenericException format:@"the gateway closed the connection"];
    return part;
}

// One call at a time, so all have the sequence number 0. The result's field 0 is what the method returns, 1 its
// exception.
static StraitMessage *exchange(NSFileHandle *gateway, NSString *method, StraitMessage *arguments)
{
    [gateway writeData:StraitEncodedCall(method, 0, arguments)];
    NSInteger size = StraitFrameSize(receive(gateway, 4));
    if (size < 0) // so a wrong length allocates nothing
        [NSException raise:NSGenericException format:@"a frame above 16 MiB"];
    NSString *why = nil;
    StraitMessage *result = StraitDecodedReply(receive(gateway, size), method, 0, &why);
    if (!result)
        [NSException raise:NSGenericException format:@"%@: %@", method, why];
    return result;
}

// The message is in field 3 of an exception of today, and in field 1 of one of 2009.
static void fail(Class class, NSString *method, StraitMessage *failure)
{
    NSDictionary *info = [NSDictionary dictionaryWithObject:failure forKey:@"fields"];
    NSString *reason = [failure textIn:3] ?: [failure textIn:1];
    [[class exceptionWithName:method reason:reason userInfo:info] raise];
}

// A method of DfsService, with a struct of its arguments: the result, in its field 0.
static StraitMessage *callOf2009(NSFileHandle *gateway, NSString *method, StraitMessage *arguments)
{
    StraitMessage *result = exchange(gateway, method, arguments);
    if ([result hasField:1])
        fail([DfsServiceIOException class], method, [result messageIn:1]);
    return result;
}

// A method of DfsV2: its request, and the reply.
static StraitMessage *callOfToday(NSFileHandle *gateway, NSString *method, StraitMessage *request)
{
    StraitMessage *result = exchange(gateway, method, fields(1, StraitNested(request), 0));
    if ([result hasField:1])
        fail([DfsError class], method, [result messageIn:1]);
    return [result messageIn:0];
}

// ---------------------------------------------------------------------------------------------------------- story

static void same(id got, id wanted)
{
    if (![got isEqual:wanted])
        [NSException raise:NSGenericException format:@"%@ in place of %@", got, wanted];
}

static NSNumber *integer(int64_t value) { return [NSNumber numberWithLongLong:value]; }

static NSArray *names(NSArray *entries, int pathField)
{
    NSMutableArray *names = [NSMutableArray array];
    for (StraitMessage *entry in entries)
        [names addObject:[[entry textIn:pathField] lastPathComponent]];
    return [names sortedArrayUsingSelector:@selector(compare:)];
}

// A handle comes in field 1 of a reply.
static StraitValue *handle(StraitMessage *reply) { return StraitNumber(StraitI64, [reply numberIn:1]); }

// One of 2009 is a struct.
static StraitValue *handleOf2009(StraitMessage *result)
{
    return StraitNested(fields(1, handle([result messageIn:0]), 0));
}

static void storyOf2009(NSFileHandle *gateway, NSString *directory, NSData *bytes)
{
    StraitValue *path = StraitText([directory stringByAppendingString:@"/old"]), *parent = StraitText(directory);
    StraitValue *missing = StraitText([directory stringByAppendingString:@"/missing"]);
    StraitValue *forReading = StraitNumber(StraitI16, 1), *forWriting = StraitNumber(StraitI16, 2);
    StraitValue *length = StraitNumber(StraitI64, 7), *atEnd = StraitNumber(StraitI64, -1);
    StraitValue *start = StraitNumber(StraitI64, 0), *most = StraitNumber(StraitI64, 100);
    StraitValue *session = handleOf2009(callOf2009(gateway, @"init", fields(1, StraitText(@""), 0)));
    callOf2009(gateway, @"mkdir", fields(1, session, 2, parent, 0));
    StraitValue *file = handleOf2009(callOf2009(gateway, @"open", fields(1, session, 2, path, 3, forWriting, 0)));
    callOf2009(gateway, @"write", fields(1, session, 2, file, 3, StraitData(bytes), 4, atEnd, 5, length, 0));
    callOf2009(gateway, @"close", fields(1, session, 2, file, 0));
    StraitMessage *status = [callOf2009(gateway, @"stat", fields(1, session, 2, path, 0)) messageIn:0];
    same(integer([status numberIn:1]), integer(7));
    file = handleOf2009(callOf2009(gateway, @"open", fields(1, session, 2, path, 3, forReading, 0)));
    StraitMessage *read = callOf2009(gateway, @"read", fields(1, session, 2, file, 3, start, 4, most, 0));
    same([read dataIn:0], bytes);
    callOf2009(gateway, @"close", fields(1, session, 2, file, 0));
    StraitMessage *listed = callOf2009(gateway, @"listFiles", fields(1, session, 2, parent, 0));
    same(names([listed messagesIn:0], 9), [NSArray arrayWithObject:@"old"]);
    NSString *reason = nil;
    @try {
        callOf2009(gateway, @"stat", fields(1, session, 2, missing, 0));
    } @catch (DfsServiceIOException *exception) {
        reason = [exception reason];
    }
    same(integer([reason rangeOfString:@"missing"].length), integer(7));
    callOf2009(gateway, @"closeClient", fields(1, session, 0));
}

// 16 random bytes: the same in each attempt of one change, so that a repeated one isn't executed twice.
static StraitValue *newId(void)
{
    return StraitData([[NSFileHandle fileHandleForReadingAtPath:@"/dev/urandom"] readDataOfLength:16]);
}

static void storyOfToday(NSFileHandle *gateway, NSString *directory, NSData *bytes)
{
    StraitValue *path = StraitText([directory stringByAppendingString:@"/new"]), *parent = StraitText(directory);
    NSString *missing = [directory stringByAppendingString:@"/missing"];
    StraitValue *offset = StraitNumber(StraitI64, 2), *most = StraitNumber(StraitI32, 100);
    callOfToday(gateway, @"openSession", fields(1, StraitNumber(StraitI32, 1), 0));
    StraitValue *file = handle(callOfToday(gateway, @"createFile", fields(2, newId(), 4, path, 0)));
    StraitMessage *append = fields(2, newId(), 4, file, 5, StraitNumber(StraitI64, 0), 6, StraitData(bytes), 0);
    same(integer([callOfToday(gateway, @"appendData", append) numberIn:1]), integer(7));
    same(integer([callOfToday(gateway, @"closeFile", fields(2, newId(), 4, file, 0)) numberIn:1]), integer(7));
    file = handle(callOfToday(gateway, @"openFile", fields(2, path, 0)));
    StraitMessage *range = callOfToday(gateway, @"readRange", fields(2, file, 3, offset, 4, most, 0));
    same([range dataIn:1], [bytes subdataWithRange:NSMakeRange(2, 5)]);
    callOfToday(gateway, @"closeFile", fields(4, file, 0));
    StraitMessage *listed = callOfToday(gateway, @"listDirectory", fields(2, parent, 0));
    same(names([listed messagesIn:1], 1), [NSArray arrayWithObjects:@"new", @"old", nil]);
    DfsError *error = nil;
    @try {
        callOfToday(gateway, @"getFileInfo", fields(2, StraitText(missing), 0));
    } @catch (DfsError *exception) {
        error = exception;
    }
    same(integer([error code]), integer(1));
    same([error kind], @"NotFound");
    same([error path], missing);
    callOfToday(gateway, @"removePath", fields(2, newId(), 4, parent, 5, StraitFlag(YES), 0));
    callOfToday(gateway, @"closeSession", fields(0));
}

int main(void)
{
    NSAutoreleasePool *pool = [NSAutoreleasePool new];
    NSArray *words = [[NSProcessInfo processInfo] arguments];
    NSString *host = [words objectAtIndex:1], *port = [words objectAtIndex:2], *directory = [words objectAtIndex:3];
    NSData *bytes = [NSData dataWithBytes:"bytes\0\xff" length:7];
    // GNUstep's; on macOS, NSStream connects.
    NSFileHandle *gateway = [NSFileHandle fileHandleAsClientAtAddress:host service:port protocol:@"tcp"];
    storyOf2009(gateway, directory, bytes);
    storyOfToday(gateway, directory, bytes);
    printf("Objective-C: both generations of calls\n");
    [pool release];
    return 0;
}
