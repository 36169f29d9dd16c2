#import <Foundation/Foundation.h>

/** The parts of strait://host:port/@store/path. Nothing is decoded. */
@interface StraitURI : NSObject {
  @private
    NSString *_host, *_store, *_path;
    unsigned _port;
}

/** Nil, and an error, if the text is no such URI. */
+ (StraitURI *)URIWithString:(NSString *)text error:(NSError **)error;

/** Of a gateway or its store: HOST:PORT will do, and a path is an error. */
+ (StraitURI *)URIWithAddress:(NSString *)address error:(NSError **)error;

@property(readonly) NSString *host;

/** 9090 where the URI names none. */
@property(readonly) unsigned port;

/** Nil for the gateway's default store. */
@property(readonly) NSString *store;

@property(readonly) NSString *path;

/** HOST:PORT, with brackets around an address of IPv6. */
- (NSString *)address;

@end
