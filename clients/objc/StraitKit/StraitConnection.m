#import "StraitConnection.h"
#import "StraitFailure.h"
#import "StraitURI.h"
#import "StraitWire.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

NSString *const StraitLostDomain = @"StraitLostDomain";

// Number of the field deadline_ms, which each request has.
enum { DeadlineField = 15 };
// Memory for a reply grows with the bytes that arrive, from this size.
enum { FirstBuffer = 1 << 20 };

StraitDeadline StraitDeadlineIn(NSTimeInterval seconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9 + seconds;
}

NSTimeInterval StraitTimeLeft(StraitDeadline deadline) { return MAX(0, deadline - StraitDeadlineIn(0)); }

static int MillisecondsLeft(StraitDeadline deadline) { return MIN(StraitTimeLeft(deadline) * 1000, INT_MAX); }

static NSString *SystemFault(void) { return [NSString stringWithUTF8String:strerror(errno)]; }

static NSError *Lost(NSString *format, NSString *address, NSString *fault) {
    NSString *message = [NSString stringWithFormat:format, address, fault];
    NSDictionary *info = [NSDictionary dictionaryWithObject:message forKey:NSLocalizedDescriptionKey];
    return [NSError errorWithDomain:StraitLostDomain code:0 userInfo:info];
}

/** Whether the socket is ready in time. After an error it is: the next call tells. */
static BOOL IsReady(int socket, short events, StraitDeadline deadline) {
    struct pollfd waiting = {socket, events, 0};
    int ready;
    do {
        int left = MillisecondsLeft(deadline);
        if (left == 0)
            return NO;
        ready = poll(&waiting, 1, left);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return YES;
}

/** The connected socket; -1 with a fault. */
static int ConnectedSocket(struct addrinfo *one, StraitDeadline deadline, NSString **fault) {
    int found = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), failure = 0;
    if (found >= 0) {
        if (connect(found, one->ai_addr, one->ai_addrlen) == 0)
            return found;
        if (errno == EINPROGRESS && !IsReady(found, POLLOUT, deadline))
            errno = ETIMEDOUT;
        else if (errno == EINPROGRESS &&
                 getsockopt(found, SOL_SOCKET, SO_ERROR, &failure, &(socklen_t){sizeof failure}) == 0)
            errno = failure;
        if (errno == 0)
            return found;
    }
    *fault = SystemFault();
    if (found >= 0)
        close(found);
    return -1;
}

@implementation StraitConnection

@synthesize broken = _broken, login = _login;

- (id)initWithSocket:(int)socket address:(NSString *)address {
    if ((self = [super init])) {
        _socket = socket;
        _address = [address copy];
    }
    return self;
}

- (void)dealloc {
    [self close];
    [_address release];
    [_fault release];
    [super dealloc];
}

- (void)close {
    if (_socket >= 0)
        close(_socket);
    _socket = -1;
    _broken = YES;
}

+ (StraitConnection *)connectionTo:(StraitURI *)uri until:(StraitDeadline)deadline error:(NSError **)error {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", [uri port]);
    int failure = getaddrinfo([[uri host] UTF8String], port, &hints, &found), result = -1, left = 0;
    NSString *fault = failure ? [NSString stringWithUTF8String:gai_strerror(failure)] : nil;
    for (struct addrinfo *one = found; one; one = one->ai_next)
        left++;
    for (struct addrinfo *one = found; one && result < 0; one = one->ai_next)
        result = ConnectedSocket(one, StraitDeadlineIn(StraitTimeLeft(deadline) / left--), &fault);
    if (found)
        freeaddrinfo(found);
    if (result < 0)
        return StraitNone(error, Lost(@"no gateway at %@: %@", [uri address], fault));
    setsockopt(result, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return [[[StraitConnection alloc] initWithSocket:result address:[uri address]] autorelease];
}

- (BOOL)isLocal {
    struct sockaddr_storage peer = {0};
    if (getpeername(_socket, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) != 0)
        return NO;
    if (peer.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&peer)->sin_addr.s_addr) >> 24 == 127;
    struct in6_addr *address = &((struct sockaddr_in6 *)&peer)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(address) || (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

- (BOOL)isStale {
    struct pollfd waiting = {_socket, POLLIN, 0};
    return poll(&waiting, 1, 0) != 0;
}

/** Always nil. The fault is nil when the time is over. */
- (id)failFor:(NSString *)fault {
    [_fault autorelease];
    _fault = [fault copy];
    return nil;
}

- (BOOL)send:(NSData *)bytes until:(StraitDeadline)deadline {
    NSUInteger sent = 0;
    while (sent < [bytes length] && IsReady(_socket, POLLOUT, deadline)) {
        ssize_t count = send(_socket, (char *)[bytes bytes] + sent, [bytes length] - sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            [self failFor:SystemFault()];
            return NO;
        }
        sent += MAX(count, 0);
    }
    return sent == [bytes length];
}

- (NSData *)receive:(NSUInteger)length until:(StraitDeadline)deadline {
    NSMutableData *bytes = [NSMutableData dataWithLength:MIN(length, FirstBuffer)];
    for (NSUInteger received = 0; received < length;) {
        if (received == [bytes length])
            [bytes setLength:MIN(length, 2 * received)];
        if (!IsReady(_socket, POLLIN, deadline))
            return [self failFor:nil];
        ssize_t count = recv(_socket, (char *)[bytes mutableBytes] + received, [bytes length] - received, 0);
        if (count == 0)
            return [self failFor:@"it ended"];
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return [self failFor:SystemFault()];
        received += MAX(count, 0);
    }
    return bytes;
}

/** The result's fields; nil with a fault. */
- (StraitMessage *)exchange:(NSString *)method arguments:(StraitMessage *)arguments until:(StraitDeadline)deadline {
    if (![self send:StraitEncodedCall(method, ++_number, arguments) until:deadline])
        return nil;
    NSData *head = [self receive:4 until:deadline];
    if (!head)
        return nil;
    NSInteger size = StraitFrameSize(head);
    if (size < 0)
        return [self failFor:@"it claims a reply above 16 MiB"];
    NSData *frame = [self receive:size until:deadline];
    NSString *fault = nil;
    StraitMessage *result = frame ? StraitDecodedReply(frame, method, _number, &fault) : nil;
    if (fault)
        [self failFor:fault];
    return result;
}

- (StraitMessage *)call:(NSString *)method
                request:(StraitMessage *)request
                   path:(NSString *)path
                  until:(StraitDeadline)deadline
                  error:(NSError **)error {
    [request setField:DeadlineField to:StraitNumber(StraitI32, MAX(1, MillisecondsLeft(deadline)))];
    _broken = YES;                                              // until the whole reply is here
    NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init]; // for the frames, which can be large
    StraitMessage *arguments = [StraitMessage messageWithFields:1, StraitNested(request), 0];
    StraitMessage *result = [[self exchange:method arguments:arguments until:deadline] retain];
    [pool release];
    [result autorelease];
    if (!result && _fault)
        return StraitNone(error, Lost(@"the connection to %@ broke: %@", _address, _fault));
    if (!result) {
        NSString *message = [NSString stringWithFormat:@"%@: the gateway %@ gave no answer in time", method, _address];
        return StraitNone(error, StraitFailure(StraitTimedOutError, message, path, YES));
    }
    _broken = NO;
    if (![result hasField:1] && [result messageIn:0])
        return [result messageIn:0];
    StraitMessage *failure = [result messageIn:1];
    NSString *message =
        [failure textIn:3] ?: @"the gateway's reply has neither a result nor an error's text (a defect of the gateway)";
    NSString *named = [failure textIn:4] ?: path;
    BOOL isRetrySafe = [failure numberIn:5] != 0;
    return StraitNone(error, StraitFailure(StraitErrorCodeOf([failure numberIn:1]), message, named, isRetrySafe));
}

@end
