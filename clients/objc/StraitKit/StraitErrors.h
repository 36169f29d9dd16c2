// Errors: an NSError of this domain has the path, whether to retry, and the system's own error beneath it.
#import <Foundation/Foundation.h>

extern NSString *const StraitErrorDomain;

/** In userInfo, an NSNumber: repeating the same request can help, and can do no harm. */
extern NSString *const StraitRetrySafeErrorKey;

/** The kinds of errors, the same in every client language, with the codes of idl/dfs.thrift. */
typedef enum {
    StraitNotFoundError = 1,
    StraitAlreadyExistsError,
    StraitNotADirectoryError,
    StraitIsADirectoryError,
    StraitNotEmptyError,
    StraitPermissionDeniedError,
    StraitUnauthenticatedError,
    StraitInvalidArgumentError,
    StraitUnsupportedError,
    StraitBusyError,
    StraitNoSpaceError,
    StraitTimedOutError,
    StraitUnavailableError,
    StraitCorruptError,
    /** A change may have been executed, or not. */
    StraitOutcomeUnknownError,
    StraitInternalError
} StraitErrorCode;

@interface NSError (StraitErrors)

/** Whether this is an error of Strait's, of this kind. */
- (BOOL)isStraitError:(StraitErrorCode)code;

/** The kind's name, such as NotFound; nil for an error of another domain. */
- (NSString *)straitKind;

@end
