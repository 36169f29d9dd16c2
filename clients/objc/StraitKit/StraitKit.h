// Files of any store behind a Strait gateway.
#import <StraitKit/StraitClient.h>
#import <StraitKit/StraitErrors.h>
#import <StraitKit/StraitReader.h>
#import <StraitKit/StraitURI.h>
#import <StraitKit/StraitWriter.h>
