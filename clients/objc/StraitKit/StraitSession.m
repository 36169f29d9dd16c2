#import "StraitSession.h"
#import "StraitClient.h"
#import "StraitFailure.h"
#import "StraitURI.h"
#import "StraitWire.h"
#include <sys/random.h>

// With the pauses they span 1.6 to 3.1 s: a gateway's restart.
enum { Attempts = 6 };
static const NSTimeInterval FirstPause = 0.1;
static const NSTimeInterval ConnectTimeout = 10;
// For a request that only cleans up, once the gateway has left a request unanswered.
static const NSTimeInterval PartingTimeout = 2;
enum { MaxIdle = 8 };
enum { ProtocolVersion = 1 };
// Of one readRange or appendData. The gateway may ask for less.
enum { MaxChunkBytes = 1 << 20 };
static NSString *const ClearText =
    @"a password or token isn't sent to another machine in the clear, and this client has "
    @"no TLS: use a gateway of this host";
enum { RequestIdField = 2, IsRetryField = 3 };

NSData *StraitNewId(void) {
    NSMutableData *bytes = [NSMutableData dataWithLength:16];
    if (getrandom([bytes mutableBytes], 16, 0) != 16)
        [NSException raise:NSInternalInconsistencyException format:@"the system has no random bytes"];
    return bytes;
}

NSString *StraitNewName(void) {
    const uint64_t *halves = [StraitNewId() bytes];
    return [NSString stringWithFormat:@"%016llx%016llx", (unsigned long long)halves[0], (unsigned long long)halves[1]];
}

/** Times a random factor from a half to 1, so that a gateway's clients don't all return at once. */
static NSTimeInterval PauseAfter(int attempt) {
    return FirstPause * (1 << (attempt - 1)) * (0.5 + *(uint32_t *)[StraitNewId() bytes] / (2.0 * UINT32_MAX));
}

static BOOL IsLost(NSError *why) { return [[why domain] isEqualToString:StraitLostDomain]; }

static NSError *Unavailable(NSError *lost, NSString *path) {
    return StraitFailure(StraitUnavailableError, [lost localizedDescription], path, YES);
}

static NSError *Unknown(NSString *method, NSString *path, NSError *why) {
    NSString *message =
        [NSString stringWithFormat:@"%@ may have been executed: %@", method, [why localizedDescription]];
    return StraitFailure(StraitOutcomeUnknownError, message, path, NO);
}

@interface StraitSession ()
- (StraitConnection *)borrowUntil:(StraitDeadline)deadline error:(NSError **)error;
- (void)giveBack:(StraitConnection *)connection;
- (void)dropIdle;
- (void)noteSilence;
- (StraitConnection *)connectUntil:(StraitDeadline)deadline error:(NSError **)error;
- (BOOL)attach:(StraitConnection *)connection until:(StraitDeadline)deadline error:(NSError **)error;
- (void)keep:(StraitMessage *)reply login:(NSUInteger)login;
- (StraitMessage *)call:(NSString *)method
                request:(StraitMessage *)request
                   path:(NSString *)path
               isChange:(BOOL)isChange
                  error:(NSError **)error;
- (StraitMessage *)callOnce:(NSString *)method
                    request:(StraitMessage *)request
                       path:(NSString *)path
                      until:(StraitDeadline)deadline
                      error:(NSError **)error;
@end

@implementation StraitSession

@synthesize maxChunkBytes = _maxChunkBytes, incarnation = _incarnation;

- (id)initWithURI:(StraitURI *)uri options:(StraitOptions *)options error:(NSError **)error {
    if ((self = [super init])) {
        _uri = [uri retain];
        _options = [options copy];
        _attaching = [[NSLock alloc] init];
        _idle = [[NSMutableArray alloc] init];
        _token = [[options token] copy];
        _maxChunkBytes = MaxChunkBytes;
        NSError *why = nil;
        StraitConnection *connection = [self connectUntil:StraitDeadlineIn([_options timeout]) error:&why];
        if (!connection) {
            _closed = YES; // there is nothing to end
            StraitFail(error, IsLost(why) ? Unavailable(why, nil) : why);
            [self release];
            return nil;
        }
        [self giveBack:connection];
    }
    return self;
}

- (void)dealloc {
    [self close];
    [_uri release];
    [_options release];
    [_attaching release];
    [_idle release];
    [_token release];
    [_user release];
    [_storeName release];
    [_storeURI release];
    [_capabilities release];
    [super dealloc];
}

// Other threads may replace these.
- (id)read:(id *)variable {
    @synchronized(self) {
        return [[*variable retain] autorelease];
    }
}

- (NSString *)token {
    return [self read:&_token];
}

- (NSString *)user {
    return [self read:&_user];
}

- (NSString *)storeName {
    return [self read:&_storeName];
}

- (NSString *)storeURI {
    return [self read:&_storeURI];
}

- (NSSet *)capabilities {
    return [self read:&_capabilities];
}

// -------------------------------------------------------------------------------------------------------- requests

- (StraitMessage *)query:(NSString *)method
                 request:(StraitMessage *)request
                    path:(NSString *)path
                   error:(NSError **)error {
    return [self call:method request:request path:path isChange:NO error:error];
}

- (StraitMessage *)change:(NSString *)method
                  request:(StraitMessage *)request
                     path:(NSString *)path
                    error:(NSError **)error {
    [request setField:RequestIdField to:StraitData(StraitNewId())];
    return [self call:method request:request path:path isChange:YES error:error];
}

- (StraitMessage *)call:(NSString *)method
                request:(StraitMessage *)request
                   path:(NSString *)path
               isChange:(BOOL)isChange
                  error:(NSError **)error {
    StraitDeadline deadline = StraitDeadlineIn([_options timeout]), connectBy = deadline;
    BOOL wasSent = NO, wasCut = NO, wasRenewed = NO;
    NSError *why = nil;
    for (int attempt = 1;; attempt++) {
        StraitConnection *connection = [self borrowUntil:connectBy error:&why];
        if (connection) {
            StraitMessage *reply = [connection call:method request:request path:path until:deadline error:&why];
            [self giveBack:connection];
            if (reply)
                return reply;
        }
        if (IsLost(why)) {
            if (!wasCut) // if no gateway accepts connections now, wait for one once
                connectBy = MIN(deadline, StraitDeadlineIn(ConnectTimeout));
            wasCut = YES;
            wasSent |= connection != nil;
            [self dropIdle];
            NSTimeInterval pause = PauseAfter(attempt);
            if (attempt == Attempts || pause >= StraitTimeLeft(connectBy)) {
                [self noteSilence];
                why = isChange && wasSent ? Unknown(method, path, why) : Unavailable(why, path);
                break;
            }
            [NSThread sleepForTimeInterval:pause];
            if (isChange && wasSent)
                [request setField:IsRetryField to:StraitFlag(YES)];
            continue;
        }
        if (connection && !wasRenewed && [why isStraitError:StraitUnauthenticatedError]) {
            // The session idled out, or its gateway was replaced.
            wasRenewed = YES;
            [self dropIdle];
            attempt--;
            continue;
        }
        if ([why isStraitError:StraitTimedOutError]) {
            [self noteSilence];
            if (isChange)
                why = StraitFailure(StraitTimedOutError, [why localizedDescription], path, NO);
        }
        if (!connection && isChange && wasSent)
            why = Unknown(method, path, why);
        break;
    }
    return StraitNone(error, why);
}

- (StraitMessage *)callOnce:(NSString *)method
                    request:(StraitMessage *)request
                       path:(NSString *)path
                      error:(NSError **)error {
    return [self callOnce:method request:request path:path until:StraitDeadlineIn([_options timeout]) error:error];
}

- (StraitMessage *)callOnce:(NSString *)method
                    request:(StraitMessage *)request
                       path:(NSString *)path
                      until:(StraitDeadline)deadline
                      error:(NSError **)error {
    NSError *why = nil;
    StraitConnection *connection = [self borrowUntil:deadline error:&why];
    StraitMessage *reply = [connection call:method request:request path:path until:deadline error:&why];
    [self giveBack:connection];
    if (!reply)
        return StraitNone(error, IsLost(why) ? Unavailable(why, path) : why);
    return reply;
}

- (void)tidy:(NSString *)method request:(StraitMessage *)request {
    NSTimeInterval time = [_options timeout];
    @synchronized(self) {
        if (_closed || _silences > 1)
            return;
        if (_silences > 0)
            time = MIN(time, PartingTimeout);
    }
    [request setField:RequestIdField to:StraitData(StraitNewId())];
    NSError *why = nil;
    if (![self callOnce:method request:request path:nil until:StraitDeadlineIn(time) error:&why] &&
        [why isStraitError:StraitTimedOutError])
        [self noteSilence];
}

- (void)noteSilence {
    @synchronized(self) {
        _silences++;
    }
}

- (void)close {
    [self tidy:@"closeSession" request:[StraitMessage messageWithFields:0]];
    @synchronized(self) {
        _closed = YES;
    }
    [self dropIdle];
}

// ----------------------------------------------------------------------------------------------------- connections

- (StraitConnection *)borrowUntil:(StraitDeadline)deadline error:(NSError **)error {
    for (;;) {
        StraitConnection *connection;
        @synchronized(self) {
            if (_closed)
                return StraitNone(error, StraitFailure(StraitInvalidArgumentError, @"the client is closed", nil, NO));
            connection = [[[_idle lastObject] retain] autorelease];
            if (connection)
                [_idle removeLastObject];
        }
        if (!connection)
            return [self connectUntil:deadline error:error];
        if (![connection isStale])
            return connection;
        [connection close];
    }
}

- (void)giveBack:(StraitConnection *)connection {
    @synchronized(self) {
        if (connection && ![connection broken])
            _silences = 0; // a whole reply has arrived
        if (connection && !_closed && ![connection broken] && [connection login] == _login && [_idle count] < MaxIdle)
            [_idle addObject:connection];
        else
            [connection close];
    }
}

- (void)dropIdle {
    @synchronized(self) {
        [_idle makeObjectsPerformSelector:@selector(close)];
        [_idle removeAllObjects];
    }
}

/** A connection that is attached to the session. */
- (StraitConnection *)connectUntil:(StraitDeadline)deadline error:(NSError **)error {
    StraitDeadline connectBy = MIN(deadline, StraitDeadlineIn(ConnectTimeout));
    StraitConnection *connection = [StraitConnection connectionTo:_uri until:connectBy error:error];
    if (!connection)
        return nil;
    if (([_options password] || [_options token]) && ![connection isLocal]) {
        [connection close];
        return StraitNone(error, StraitFailure(StraitUnauthenticatedError, ClearText, nil, NO));
    }
    [_attaching lock]; // one login at a time
    BOOL isAttached = [self attach:connection until:deadline error:error];
    [_attaching unlock];
    if (isAttached)
        return connection;
    [connection close];
    return nil;
}

- (BOOL)attach:(StraitConnection *)connection until:(StraitDeadline)deadline error:(NSError **)error {
    StraitValue *version = StraitNumber(StraitI32, ProtocolVersion);
    StraitMessage *request, *reply = nil;
    NSUInteger login = _login;
    if (_token) {
        NSError *why = nil;
        request = [StraitMessage messageWithFields:1, version, 5, StraitText(_token), 0];
        reply = [connection call:@"openSession" request:request path:nil until:deadline error:&why];
        BOOL canLogIn = [why isStraitError:StraitUnauthenticatedError] && ![_options token] && ![connection broken];
        if (!reply && !canLogIn)
            return StraitFail(error, why);
    }
    if (!reply) {
        NSString *store = [_uri store] ?: [_options store];
        request = [StraitMessage messageWithFields:1, version, 2, StraitText(store), 3, StraitText([_options user]), 4,
                                                   StraitText([_options password]), 0];
        reply = [connection call:@"openSession" request:request path:nil until:deadline error:error];
        if (!reply)
            return NO;
        login++;
    }
    [connection setLogin:login];
    [self keep:reply login:login];
    return YES;
}

static void Replace(id *variable, id value) {
    [*variable autorelease];
    *variable = [value copy];
}

- (void)keep:(StraitMessage *)reply login:(NSUInteger)login {
    StraitMessage *store = [reply messageIn:4];
    int64_t chunk = [[reply messageIn:6] numberIn:1];
    @synchronized(self) {
        _login = login;
        _incarnation = [reply numberIn:7];
        if ([reply textIn:1])
            Replace(&_token, [reply textIn:1]);
        Replace(&_user, [reply textIn:3] ?: @"");
        Replace(&_storeName, [store textIn:1] ?: @"");
        Replace(&_storeURI, [store textIn:2] ?: @"");
        Replace(&_capabilities, [NSSet setWithArray:[store textsIn:3] ?: [NSArray array]]);
        if (chunk > 0)
            _maxChunkBytes = MIN(chunk, MaxChunkBytes);
    }
}

@end
