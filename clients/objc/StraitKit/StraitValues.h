// How the client makes its values of a gateway's. Not installed.
#import "StraitClient.h"

@class StraitMessage, StraitValue;

/** Attributes of a FileInfo. */
NSDictionary *StraitAttributes(StraitMessage *info);

/** A date as milliseconds since 1970. */
StraitValue *StraitMilliseconds(NSDate *date);

@interface StraitBlock (Values)
- (id)initWithMessage:(StraitMessage *)message;
@end

@interface StraitChecksum (Values)
- (id)initWithMessage:(StraitMessage *)message;
@end

@interface StraitDirectoryEnumerator (Values)
- (id)initWithSession:(StraitSession *)session
                 path:(NSString *)path
             pageSize:(NSUInteger)pageSize
                error:(NSError **)error;
@end
