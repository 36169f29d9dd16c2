// stream_file read|write HOST:PORT PATH MIB: as stream_file.cpp, with the client for Objective-C.
#import <StraitKit/StraitKit.h>

enum { PieceBytes = 1 << 20 };

static void check(BOOL holds, NSError *error)
{
    if (!holds)
        [NSException raise:NSGenericException format:@"not as expected: %@", error];
}

static void readFile(StraitClient *client, NSString *path, long long mib)
{
    NSError *error = nil;
    StraitReader *reader = [client readerAtPath:path error:&error];
    check(reader != nil, error);
    unsigned long long bytes = 0;
    for (NSUInteger count = 1; count > 0; bytes += count) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSData *piece = [reader readDataUpToLength:PieceBytes error:&error];
        check(piece != nil, error);
        count = [piece length];
        [pool release];
    }
    [reader close];
    check(bytes == (unsigned long long)mib << 20, nil);
}

static void writeFile(StraitClient *client, NSString *path, long long mib)
{
    NSError *error = nil;
    StraitWriter *writer = [client writerAtPath:path overwrite:NO error:&error];
    check(writer != nil, error);
    NSData *piece = [NSMutableData dataWithLength:PieceBytes];
    for (long long n = 0; n < mib; n++) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        check([writer writeData:piece error:&error], error);
        [pool release];
    }
    check([writer closeAndReturnError:&error], error);
}

int main(int count, char **given)
{
    if (count != 5)
        return 2;
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
    NSError *error = nil;
    StraitClient *client = [StraitClient clientWithAddress:[NSString stringWithUTF8String:given[2]] error:&error];
    check(client != nil, error);
    puts("ready");
    fflush(stdout);
    getchar();
    NSString *path = [NSString stringWithUTF8String:given[3]];
    (strcmp(given[1], "read") == 0 ? readFile : writeFile)(client, path, atoll(given[4]));
    puts("done");
    [client close];
    [pool release];
    return 0;
}
