// Calls of both generations of the interface. Thrift has no generator for Objective-C any more: a codec of its framed
// binary protocol replaces it. Fields have the numbers of idl/dfs.thrift. scripts/test-languages.sh has the flags.
// story HOST PORT DIRECTORY
#import <Foundation/Foundation.h>

// Those of Thrift's types that the interface uses.
enum { BOOLEAN = 2, I16 = 6, I32 = 8, I64 = 10, BYTES = 11, STRUCT = 12, LIST = 15 };

// ------------------------------------------------------------------- values to send: their type, and then their bytes

static NSMutableData *number(uint8_t type, int64_t value, unsigned size)
{
    NSMutableData *encoded = [NSMutableData dataWithBytes:&type length:1];
    uint64_t swapped = NSSwapHostLongLongToBig(value);
    [encoded appendBytes:(char *)&swapped + 8 - size length:size];
    return encoded;
}

static NSData *boolean(BOOL value) { return number(BOOLEAN, value ? 1 : 0, 1); }
static NSData *i16(int16_t value) { return number(I16, value, 2); }
static NSData *i32(int32_t value) { return number(I32, value, 4); }
static NSData *i64(int64_t value) { return number(I64, value, 8); }

static NSData *data(NSData *value)
{
    NSMutableData *encoded = number(BYTES, [value length], 4);
    [encoded appendData:value];
    return encoded;
}

static NSData *string(NSString *value) { return data([value dataUsingEncoding:NSUTF8StringEncoding]); }

// A struct: the fields' numbers, each followed by its value; 0 ends them.
static NSData *fields(int first, ...)
{
    NSMutableData *encoded = [NSMutableData dataWithBytes:&(uint8_t){STRUCT} length:1];
    va_list rest;
    va_start(rest, first);
    for (int field = first; field; field = va_arg(rest, int)) {
        NSData *value = va_arg(rest, NSData *);
        [encoded appendBytes:[value bytes] length:1];
        [encoded appendBytes:&(uint16_t){NSSwapHostShortToBig(field)} length:2];
        [encoded appendBytes:(char *)[value bytes] + 1 length:[value length] - 1];
    }
    va_end(rest);
    [encoded increaseLengthBy:1];
    return encoded;
}

// -------------------------------------------------------------------------------------------------------- replies

typedef struct {
    NSData *reply;
    NSUInteger position;
} Reader;

static NSData *take(Reader *reader, NSUInteger size)
{
    if (size > [reader->reply length] - reader->position)
        [NSException raise:NSRangeException format:@"a reply ends early"];
    reader->position += size;
    return [reader->reply subdataWithRange:NSMakeRange(reader->position - size, size)];
}

static int64_t takeNumber(Reader *reader, unsigned size)
{
    const uint8_t *bytes = [take(reader, size) bytes];
    int64_t number = (int8_t)bytes[0];
    for (unsigned index = 1; index < size; index++)
        number = number * 256 + bytes[index];
    return number;
}

// A struct becomes a dictionary by the fields' numbers, a list an array, any number an NSNumber. Strings stay NSData:
// they may be any bytes.
static id takeValue(Reader *reader, int type)
{
    switch (type) {
    case BOOLEAN: return [NSNumber numberWithLongLong:takeNumber(reader, 1)];
    case I16: return [NSNumber numberWithLongLong:takeNumber(reader, 2)];
    case I32: return [NSNumber numberWithLongLong:takeNumber(reader, 4)];
    case I64: return [NSNumber numberWithLongLong:takeNumber(reader, 8)];
    case BYTES: return take(reader, (uint32_t)takeNumber(reader, 4));
    case LIST: {
        NSMutableArray *values = [NSMutableArray array];
        int element = takeNumber(reader, 1);
        for (int64_t left = takeNumber(reader, 4); left > 0; left--)
            [values addObject:takeValue(reader, element)];
        return values;
    }
    case STRUCT: {
        NSMutableDictionary *fields = [NSMutableDictionary dictionary];
        for (int inner = takeNumber(reader, 1); inner; inner = takeNumber(reader, 1)) {
            NSNumber *number = takeValue(reader, I16);
            [fields setObject:takeValue(reader, inner) forKey:number];
        }
        return fields;
    }
    }
    [NSException raise:NSGenericException format:@"a value of type %d", type];
    return nil;
}

static NSNumber *integer(int value) { return [NSNumber numberWithInt:value]; }

static id field(NSDictionary *fields, int number) { return [fields objectForKey:integer(number)]; }

// A handle comes in field 1 of a reply.
static NSData *handle(NSDictionary *reply) { return i64([field(reply, 1) longLongValue]); }

static NSString *text(NSDictionary *fields, int number)
{
    NSString *text = [[NSString alloc] initWithData:field(fields, number) encoding:NSUTF8StringEncoding];
    return [text autorelease];
}

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
- (int)code { return [field([self userInfo], 1) intValue]; }
- (NSString *)kind { return text([self userInfo], 2); }
- (NSString *)path { return text([self userInfo], 4); }
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
static NSDictionary *exchange(NSFileHandle *gateway, NSString *method, NSData *arguments)
{
    NSMutableData *call = [NSMutableData dataWithBytes:"\x80\x01\x00\x01" length:4];
    NSData *name = string(method);
    [call appendBytes:(char *)[name bytes] + 1 length:[name length] - 1];
    [call increaseLengthBy:4];
    [call appendBytes:(char *)[arguments bytes] + 1 length:[arguments length] - 1];
    NSMutableData *frame = [NSMutableData dataWithBytes:&(uint32_t){NSSwapHostIntToBig([call length])} length:4];
    [frame appendData:call];
    [gateway writeData:frame];

    int64_t size = takeNumber(&(Reader){receive(gateway, 4), 0}, 4);
    if (size < 0 || size > 64 << 20) // so a wrong length allocates nothing
        [NSException raise:NSGenericException format:@"a frame of %lld bytes", (long long)size];
    Reader reply = {receive(gateway, size), 0};
    uint32_t type = takeNumber(&reply, 4);
    takeValue(&reply, BYTES); // the method's name
    takeNumber(&reply, 4);
    NSDictionary *result = takeValue(&reply, STRUCT);
    if (type != 0x80010002) // the gateway refused the call
        [NSException raise:NSGenericException format:@"%@: %@", method, text(result, 1)];
    return result;
}

// A method of DfsService, with a struct of its arguments.
static id callOf2009(NSFileHandle *gateway, NSString *method, NSData *arguments)
{
    NSDictionary *result = exchange(gateway, method, arguments), *failure = field(result, 1);
    if (failure)
        [[DfsServiceIOException exceptionWithName:method reason:text(failure, 1) userInfo:failure] raise];
    return field(result, 0);
}

// A method of DfsV2: its request, and the reply.
static NSDictionary *callOfToday(NSFileHandle *gateway, NSString *method, NSData *request)
{
    NSDictionary *result = exchange(gateway, method, fields(1, request, 0)), *failure = field(result, 1);
    if (failure)
        [[DfsError exceptionWithName:method reason:text(failure, 3) userInfo:failure] raise];
    return field(result, 0);
}

// ---------------------------------------------------------------------------------------------------------- story

static void same(id got, id wanted)
{
    if (![got isEqual:wanted])
        [NSException raise:NSGenericException format:@"%@ in place of %@", got, wanted];
}

static NSArray *names(NSArray *entries, int pathField)
{
    NSMutableArray *names = [NSMutableArray array];
    for (NSDictionary *entry in entries)
        [names addObject:[text(entry, pathField) lastPathComponent]];
    return [names sortedArrayUsingSelector:@selector(compare:)];
}

static void storyOf2009(NSFileHandle *gateway, NSString *directory, NSData *bytes)
{
    NSData *path = string([directory stringByAppendingString:@"/old"]);
    NSData *missing = string([directory stringByAppendingString:@"/missing"]);
    NSData *session = fields(1, handle(callOf2009(gateway, @"init", fields(1, string(@""), 0))), 0);
    callOf2009(gateway, @"mkdir", fields(1, session, 2, string(directory), 0));
    NSDictionary *opened = callOf2009(gateway, @"open", fields(1, session, 2, path, 3, i16(2), 0)); // WRITE
    NSData *file = fields(1, handle(opened), 0);
    callOf2009(gateway, @"write", fields(1, session, 2, file, 3, data(bytes), 4, i64(-1), 5, i64(7), 0));
    callOf2009(gateway, @"close", fields(1, session, 2, file, 0));
    same(field(callOf2009(gateway, @"stat", fields(1, session, 2, path, 0)), 1), integer(7));
    opened = callOf2009(gateway, @"open", fields(1, session, 2, path, 3, i16(1), 0)); // READ
    file = fields(1, handle(opened), 0);
    same(callOf2009(gateway, @"read", fields(1, session, 2, file, 3, i64(0), 4, i64(100), 0)), bytes);
    callOf2009(gateway, @"close", fields(1, session, 2, file, 0));
    NSArray *files = callOf2009(gateway, @"listFiles", fields(1, session, 2, string(directory), 0));
    same(names(files, 9), [NSArray arrayWithObject:@"old"]);
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
static NSData *newId(void)
{
    return data([[NSFileHandle fileHandleForReadingAtPath:@"/dev/urandom"] readDataOfLength:16]);
}

static void storyOfToday(NSFileHandle *gateway, NSString *directory, NSData *bytes)
{
    NSData *path = string([directory stringByAppendingString:@"/new"]);
    NSString *missing = [directory stringByAppendingString:@"/missing"];
    callOfToday(gateway, @"openSession", fields(1, i32(1), 0));
    NSData *file = handle(callOfToday(gateway, @"createFile", fields(2, newId(), 4, path, 0)));
    NSData *append = fields(2, newId(), 4, file, 5, i64(0), 6, data(bytes), 0);
    same(field(callOfToday(gateway, @"appendData", append), 1), integer(7));
    same(field(callOfToday(gateway, @"closeFile", fields(2, newId(), 4, file, 0)), 1), integer(7));
    file = handle(callOfToday(gateway, @"openFile", fields(2, path, 0)));
    NSDictionary *range = callOfToday(gateway, @"readRange", fields(2, file, 3, i64(2), 4, i32(100), 0));
    same(field(range, 1), [bytes subdataWithRange:NSMakeRange(2, 5)]);
    callOfToday(gateway, @"closeFile", fields(4, file, 0));
    NSDictionary *listed = callOfToday(gateway, @"listDirectory", fields(2, string(directory), 0));
    same(names(field(listed, 1), 1), [NSArray arrayWithObjects:@"new", @"old", nil]);
    DfsError *error = nil;
    @try {
        callOfToday(gateway, @"getFileInfo", fields(2, string(missing), 0));
    } @catch (DfsError *exception) {
        error = exception;
    }
    same(integer([error code]), integer(1));
    same([error kind], @"NotFound");
    same([error path], missing);
    callOfToday(gateway, @"removePath", fields(2, newId(), 4, string(directory), 5, boolean(YES), 0));
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
