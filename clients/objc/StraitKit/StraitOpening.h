// How the client opens files. Not installed.
#import "StraitReader.h"
#import "StraitWriter.h"

@class StraitMessage;

@interface StraitReader (Opening)
- (id)initWithSession:(StraitSession *)session path:(NSString *)path error:(NSError **)error;
@end

@interface StraitWriter (Opening)
/** By createFile or appendFile. */
- (id)initWithSession:(StraitSession *)session
               method:(NSString *)method
              request:(StraitMessage *)request
                 path:(NSString *)path
                error:(NSError **)error;
@end
