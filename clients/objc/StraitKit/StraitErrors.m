#import "StraitFailure.h"
#include <errno.h>
#include <string.h>

NSString *const StraitErrorDomain = @"StraitErrorDomain";
NSString *const StraitRetrySafeErrorKey = @"StraitRetrySafe";

/** By code: its name, and the system's number that is nearest. */
static const struct {
    NSString *name;
    int number;
} Kinds[] = {
    [StraitNotFoundError] = {@"NotFound", ENOENT},
    [StraitAlreadyExistsError] = {@"AlreadyExists", EEXIST},
    [StraitNotADirectoryError] = {@"NotADirectory", ENOTDIR},
    [StraitIsADirectoryError] = {@"IsADirectory", EISDIR},
    [StraitNotEmptyError] = {@"NotEmpty", ENOTEMPTY},
    [StraitPermissionDeniedError] = {@"PermissionDenied", EACCES},
    [StraitUnauthenticatedError] = {@"Unauthenticated", EPERM},
    [StraitInvalidArgumentError] = {@"InvalidArgument", EINVAL},
    [StraitUnsupportedError] = {@"Unsupported", ENOTSUP},
    [StraitBusyError] = {@"Busy", EBUSY},
    [StraitNoSpaceError] = {@"NoSpace", ENOSPC},
    [StraitTimedOutError] = {@"TimedOut", ETIMEDOUT},
    [StraitUnavailableError] = {@"Unavailable", EHOSTUNREACH},
    [StraitCorruptError] = {@"Corrupt", EIO},
    [StraitOutcomeUnknownError] = {@"OutcomeUnknown", EIO},
    [StraitInternalError] = {@"Internal", EIO},
};

StraitErrorCode StraitErrorCodeOf(int64_t code) {
    return code >= StraitNotFoundError && code <= StraitInternalError ? (StraitErrorCode)code : StraitInternalError;
}

static NSError *SystemError(int number, NSString *path) {
    NSMutableDictionary *info = [NSMutableDictionary dictionary];
    NSString *text = [NSString stringWithUTF8String:strerror(number)];
    if ([path length] > 0) {
        text = [NSString stringWithFormat:@"%@: %@", path, text];
        [info setObject:path forKey:NSFilePathErrorKey];
    }
    [info setObject:text forKey:NSLocalizedDescriptionKey];
    return [NSError errorWithDomain:NSPOSIXErrorDomain code:number userInfo:info];
}

NSError *StraitFailure(StraitErrorCode code, NSString *message, NSString *path, BOOL isRetrySafe) {
    BOOL isNamed = [path length] == 0 || [message rangeOfString:path options:NSLiteralSearch].length > 0;
    NSString *text = isNamed ? message : [NSString stringWithFormat:@"%@: %@", path, message];
    NSMutableDictionary *info = [NSMutableDictionary dictionary];
    [info setObject:text forKey:NSLocalizedDescriptionKey];
    [info setObject:[NSNumber numberWithBool:isRetrySafe] forKey:StraitRetrySafeErrorKey];
    [info setObject:SystemError(Kinds[code].number, path) forKey:NSUnderlyingErrorKey];
    if ([path length] > 0)
        [info setObject:path forKey:NSFilePathErrorKey];
    return [NSError errorWithDomain:StraitErrorDomain code:code userInfo:info];
}

NSError *StraitLocalFailure(NSString *path) { return SystemError(errno, path); }

BOOL StraitFail(NSError **error, NSError *why) {
    if (error)
        *error = why;
    return NO;
}

id StraitNone(NSError **error, NSError *why) {
    StraitFail(error, why);
    return nil;
}

@implementation NSError (StraitErrors)

- (BOOL)isStraitError:(StraitErrorCode)code {
    return [self code] == (NSInteger)code && [[self domain] isEqualToString:StraitErrorDomain];
}

- (NSString *)straitKind {
    return [[self domain] isEqualToString:StraitErrorDomain] ? Kinds[StraitErrorCodeOf([self code])].name : nil;
}

@end
