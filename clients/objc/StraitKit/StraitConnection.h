// One connection to a gateway. Not installed.
#import <Foundation/Foundation.h>

@class StraitMessage, StraitURI;

/** When a request is given up, with all that belongs to it: seconds of a clock that isn't set. */
typedef NSTimeInterval StraitDeadline;

StraitDeadline StraitDeadlineIn(NSTimeInterval seconds);
NSTimeInterval StraitTimeLeft(StraitDeadline deadline);

/** The domain of the error that a connection broke, or that there was none. Programs don't see it. */
extern NSString *const StraitLostDomain;

/** A socket, for one caller at a time. */
@interface StraitConnection : NSObject {
  @private
    int _socket;
    int32_t _number;
    NSString *_address, *_fault;
    BOOL _broken;
    NSUInteger _login;
}

/** If the name has several addresses, each gets a share of the time. */
+ (StraitConnection *)connectionTo:(StraitURI *)uri until:(StraitDeadline)deadline error:(NSError **)error;

/** Not fit for another request. */
@property(readonly) BOOL broken;

/** Which login it was attached by. */
@property NSUInteger login;

/** Whether the gateway is on this machine. */
- (BOOL)isLocal;

/** Whether the gateway has closed it while it was idle. */
- (BOOL)isStale;

/** One request and its reply: the method's result. The path is named in errors; nil for none. */
- (StraitMessage *)call:(NSString *)method
                request:(StraitMessage *)request
                   path:(NSString *)path
                  until:(StraitDeadline)deadline
                  error:(NSError **)error;

- (void)close;

@end
