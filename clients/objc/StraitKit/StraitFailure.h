// How the library makes and reports errors. Not installed.
#import "StraitErrors.h"

/** The path becomes NSFilePathErrorKey, and a part of the message; nil for none. */
NSError *StraitFailure(StraitErrorCode code, NSString *message, NSString *path, BOOL isRetrySafe);

/** A newer gateway's code is StraitInternalError. */
StraitErrorCode StraitErrorCodeOf(int64_t code);

// Report an error to a caller, who may not want it. What they return, the caller's caller gets: always NO, or nil.
BOOL StraitFail(NSError **error, NSError *why);
id StraitNone(NSError **error, NSError *why);

/** The error of a system call on a local file. */
NSError *StraitLocalFailure(NSString *path);
