// bare_calls read|write HOST:PORT PATH MIB: as bare_calls.rb, but by an NSFileHandle: Thrift has no runtime that
// compiles on GNUstep. The frames have the bytes of Thrift's binary protocol.
#import <Foundation/Foundation.h>
#include <arpa/inet.h>

enum { PieceBytes = 1 << 20 };

static void appendNumber(NSMutableData *bytes, uint64_t number, int size)
{
    uint64_t big = NSSwapHostLongLongToBig(number);
    [bytes appendBytes:(char *)&big + 8 - size length:size];
}

static void appendField(NSMutableData *bytes, int type, int number)
{
    appendNumber(bytes, type, 1);
    appendNumber(bytes, number, 2);
}

static void append32(NSMutableData *bytes, int number, int32_t value)
{
    appendField(bytes, 8, number);
    appendNumber(bytes, value, 4);
}

static void append64(NSMutableData *bytes, int number, int64_t value)
{
    appendField(bytes, 10, number);
    appendNumber(bytes, value, 8);
}

static void appendBytes(NSMutableData *bytes, int number, NSData *value)
{
    appendField(bytes, 11, number);
    appendNumber(bytes, [value length], 4);
    [bytes appendData:value];
}

static void appendNewId(NSMutableData *bytes, int number)
{
    NSMutableData *made = [NSMutableData data];
    for (int n = 0; n < 4; n++)
        appendNumber(made, random(), 4);
    appendBytes(bytes, number, made);
}

static NSData *receive(NSFileHandle *gateway, NSUInteger size)
{
    NSData *part = [gateway readDataOfLength:size];
    if ([part length] < size)
        [NSException raise:NSGenericException format:@"the gateway closed the connection"];
    return part;
}

// The reply's frame.
static NSData *call(NSFileHandle *gateway, const char *method, NSData *fields)
{
    NSUInteger name = strlen(method);
    NSMutableData *request = [NSMutableData dataWithCapacity:[fields length] + 64];
    appendNumber(request, 17 + name + [fields length], 4);
    appendNumber(request, 0x80010001, 4);
    appendNumber(request, name, 4);
    [request appendBytes:method length:name];
    appendNumber(request, 0, 4);
    appendField(request, 12, 1);
    [request appendData:fields];
    appendNumber(request, 0, 2);
    [gateway writeData:request];
    uint32_t size;
    [receive(gateway, 4) getBytes:&size length:4];
    return receive(gateway, ntohl(size));
}

// The first field of a reply.
static int64_t handleIn(const char *method, NSData *reply)
{
    uint64_t handle;
    [reply getBytes:&handle range:NSMakeRange(18 + strlen(method), 8)];
    return NSSwapBigLongLongToHost(handle);
}

static void readFile(NSFileHandle *gateway, NSData *path, long long mib)
{
    NSMutableData *fields = [NSMutableData data];
    appendBytes(fields, 2, path);
    int64_t file = handleIn("openFile", call(gateway, "openFile", fields));
    for (long long n = 0; n < mib; n++) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSMutableData *range = [NSMutableData data];
        append64(range, 2, file);
        append64(range, 3, n * PieceBytes);
        append32(range, 4, PieceBytes);
        if ([call(gateway, "readRange", range) length] < PieceBytes)
            [NSException raise:NSGenericException format:@"a short reply"];
        [pool release];
    }
    [fields setLength:0];
    append64(fields, 4, file);
    call(gateway, "closeFile", fields);
}

static void writeFile(NSFileHandle *gateway, NSData *path, long long mib)
{
    NSMutableData *fields = [NSMutableData data];
    appendNewId(fields, 2);
    appendBytes(fields, 4, path);
    int64_t file = handleIn("createFile", call(gateway, "createFile", fields));
    NSData *piece = [NSMutableData dataWithLength:PieceBytes];
    for (long long n = 0; n < mib; n++) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSMutableData *append = [NSMutableData dataWithCapacity:PieceBytes + 64];
        appendNewId(append, 2);
        append64(append, 4, file);
        append64(append, 5, n * PieceBytes);
        appendBytes(append, 6, piece);
        call(gateway, "appendData", append);
        [pool release];
    }
    [fields setLength:0];
    appendNewId(fields, 2);
    append64(fields, 4, file);
    call(gateway, "closeFile", fields);
}

int main(int count, char **given)
{
    if (count != 5)
        return 2;
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
    srandom([[NSDate date] timeIntervalSince1970] * 1e6);
    NSArray *address = [[NSString stringWithUTF8String:given[2]] componentsSeparatedByString:@":"];
    NSFileHandle *gateway = [NSFileHandle fileHandleAsClientAtAddress:[address objectAtIndex:0]
                                                              service:[address objectAtIndex:1]
                                                             protocol:@"tcp"];
    NSMutableData *fields = [NSMutableData data];
    append32(fields, 1, 1);
    call(gateway, "openSession", fields);
    puts("ready");
    fflush(stdout);
    getchar();
    NSData *path = [NSData dataWithBytes:given[3] length:strlen(given[3])];
    (strcmp(given[1], "read") == 0 ? readFile : writeFile)(gateway, path, atoll(given[4]));
    puts("done");
    [pool release];
    return 0;
}
