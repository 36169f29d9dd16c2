// A login, a pool of connections, and the one place that retries. States and times are those of
// docs/client-protocol.md. Not installed.
#import <Foundation/Foundation.h>

#import "StraitConnection.h"

@class StraitConnection, StraitMessage, StraitOptions, StraitURI;

@interface StraitSession : NSObject {
  @private
    StraitURI *_uri;
    StraitOptions *_options;
    NSLock *_attaching;
    NSMutableArray *_idle;
    NSString *_token, *_user, *_storeName, *_storeURI;
    NSSet *_capabilities;
    NSUInteger _login, _silences, _maxChunkBytes;
    int64_t _incarnation;
    BOOL _closed;
}

- (id)initWithURI:(StraitURI *)uri options:(StraitOptions *)options error:(NSError **)error;

@property(readonly) NSString *token;
@property(readonly) NSString *user;
@property(readonly) NSString *storeName;
@property(readonly) NSString *storeURI;
@property(readonly) NSSet *capabilities;
@property(readonly) NSUInteger maxChunkBytes;

/** If a handle has another one, the handle is gone. */
@property(readonly) int64_t incarnation;

/** A request that changes nothing. */
- (StraitMessage *)query:(NSString *)method
                 request:(StraitMessage *)request
                    path:(NSString *)path
                   error:(NSError **)error;

/** A request that changes something: it gets an id, the same in all its attempts. */
- (StraitMessage *)change:(NSString *)method
                  request:(StraitMessage *)request
                     path:(NSString *)path
                    error:(NSError **)error;

/** A request as it stands, sent once. */
- (StraitMessage *)callOnce:(NSString *)method
                    request:(StraitMessage *)request
                       path:(NSString *)path
                      error:(NSError **)error;

/** A request that only cleans up: after a silence it gets little time, after a second none. */
- (void)tidy:(NSString *)method request:(StraitMessage *)request;

/** Ends the session, as the last release does. */
- (void)close;

@end

/** 16 random bytes. */
NSData *StraitNewId(void);

/** The same as digits, for a temporary name. */
NSString *StraitNewName(void);
