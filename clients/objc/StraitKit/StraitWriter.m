#import "StraitWriter.h"
#import "StraitFailure.h"
#import "StraitOpening.h"
#import "StraitSession.h"
#import "StraitWire.h"

enum { Flush = 1, Sync = 2 };

@interface StraitWriter ()
- (void)endFor:(NSString *)reason;
- (BOOL)sendPendingAndReturnError:(NSError **)error;
- (BOOL)failFor:(NSError *)why error:(NSError **)error;
@end

@implementation StraitWriter

- (id)initWithSession:(StraitSession *)session
               method:(NSString *)method
              request:(StraitMessage *)request
                 path:(NSString *)path
                error:(NSError **)error {
    if ((self = [super init])) {
        _session = [session retain];
        _path = [path copy];
        [self endFor:@"the file isn't open"];
        StraitMessage *reply = [session change:method request:request path:path error:error];
        if (!reply) {
            [self release];
            return nil;
        }
        [self endFor:nil];
        _handle = [reply numberIn:1];
        _sent = [reply numberIn:2];
        _incarnation = [session incarnation];
        _pending = [[NSMutableData alloc] initWithCapacity:[session maxChunkBytes]];
    }
    return self;
}

- (void)dealloc {
    [self abandon];
    [_session release];
    [_path release];
    [_pending release];
    [_end release];
    [super dealloc];
}

- (void)abandon {
    StraitMessage *request =
        [StraitMessage messageWithFields:4, StraitNumber(StraitI64, _handle), 5, StraitFlag(YES), 0];
    if (!_end)
        [_session tidy:@"closeFile" request:request];
    [self endFor:@"the file is closed"];
}

/** Later calls fail with this; nil: the file is open. */
- (void)endFor:(NSString *)reason {
    [_end autorelease];
    _end = reason ? [StraitFailure(StraitInvalidArgumentError, reason, _path, NO) retain] : nil;
}

- (unsigned long long)offsetInFile {
    return _sent + [_pending length];
}

- (BOOL)writeData:(NSData *)data error:(NSError **)error {
    if (_end)
        return StraitFail(error, _end);
    NSUInteger chunk = [_session maxChunkBytes], taken = 0, length = [data length];
    while (taken < length) {
        if ([_pending length] + MIN(length - taken, chunk) > chunk && ![self sendPendingAndReturnError:error])
            return NO;
        NSUInteger count = MIN(length - taken, chunk - [_pending length]);
        [_pending appendBytes:(char *)[data bytes] + taken length:count];
        taken += count;
    }
    return YES;
}

- (BOOL)sendPendingAndReturnError:(NSError **)error {
    if ([_pending length] == 0)
        return YES;
    StraitMessage *request =
        [StraitMessage messageWithFields:4, StraitNumber(StraitI64, _handle), 5, StraitNumber(StraitI64, _sent), 6,
                                         StraitData(_pending), 0];
    NSError *why = nil;
    if (![_session change:@"appendData" request:request path:_path error:&why])
        return [self failFor:why error:error];
    _sent += [_pending length];
    [_pending setLength:0];
    return YES;
}

/** After NoSpace and Unavailable the file goes on; after other errors it is over. */
- (BOOL)failFor:(NSError *)why error:(NSError **)error {
    if ([why isStraitError:StraitNoSpaceError] || [why isStraitError:StraitUnavailableError])
        return StraitFail(error, why);
    BOOL isGone = [why isStraitError:StraitUnauthenticatedError] ||
                  ([why isStraitError:StraitInvalidArgumentError] && _incarnation != [_session incarnation]);
    if (isGone)
        why = StraitFailure(StraitOutcomeUnknownError, @"the session ended while the file was written", _path, NO);
    _end = [why retain];
    return StraitFail(error, why);
}

- (BOOL)flush:(int)mode error:(NSError **)error {
    if (_end)
        return StraitFail(error, _end);
    if (![self sendPendingAndReturnError:error])
        return NO;
    StraitMessage *request =
        [StraitMessage messageWithFields:2, StraitNumber(StraitI64, _handle), 3, StraitNumber(StraitI32, mode), 0];
    NSError *why = nil;
    return [_session query:@"flushFile" request:request path:_path error:&why] || [self failFor:why error:error];
}

- (BOOL)flushAndReturnError:(NSError **)error {
    return [self flush:Flush error:error];
}

- (BOOL)synchronizeAndReturnError:(NSError **)error {
    return [self flush:Sync error:error];
}

- (BOOL)closeAndReturnError:(NSError **)error {
    if (_end)
        return StraitFail(error, _end);
    if (![self sendPendingAndReturnError:error])
        return NO;
    StraitMessage *request = [StraitMessage messageWithFields:4, StraitNumber(StraitI64, _handle), 0];
    NSError *why = nil;
    if (![_session change:@"closeFile" request:request path:_path error:&why])
        return [self failFor:why error:error];
    [self endFor:@"the file is closed"];
    return YES;
}

@end
