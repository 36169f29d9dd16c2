#import "StraitURI.h"
#import "StraitFailure.h"

static NSString *const Scheme = @"strait://";
enum { DefaultPort = 9090, MaxPort = 65535 };
// As POSIX's NAME_MAX.
enum { MaxNameBytes = 255 };

/** Always nil. */
static id Wrong(NSError **error, NSString *why) {
    NSString *message = [@"not the address of a gateway, strait://host:port/@store: " stringByAppendingString:why];
    return StraitNone(error, StraitFailure(StraitInvalidArgumentError, message, nil, NO));
}

static BOOL HasAny(NSString *text, NSString *characters) {
    return [text rangeOfCharacterFromSet:[NSCharacterSet characterSetWithCharactersInString:characters]].length > 0;
}

/** By its code units: a letter's accents that follow the character hide it from other methods. */
static BOOL BeginsWith(NSString *text, unichar character) {
    return [text length] > 0 && [text characterAtIndex:0] == character;
}

static BOOL IsName(NSString *name) {
    return ![name isEqualToString:@"."] && ![name isEqualToString:@".."] &&
           [name lengthOfBytesUsingEncoding:NSUTF8StringEncoding] <= MaxNameBytes &&
           !HasAny(name, [NSString stringWithCharacters:&(unichar){0} length:1]);
}

@implementation StraitURI

@synthesize host = _host, port = _port, store = _store, path = _path;

- (void)dealloc {
    [_host release];
    [_store release];
    [_path release];
    [super dealloc];
}

/** HOST, HOST:PORT or [HOST]:PORT. */
- (BOOL)readAuthority:(NSString *)text {
    BOOL isBracketed = BeginsWith(text, '[');
    NSRange end = [text rangeOfString:isBracketed ? @"]" : @":"];
    if (isBracketed && end.length == 0)
        return NO;
    NSUInteger hostEnd = end.length ? end.location : [text length];
    NSString *host = [text substringWithRange:NSMakeRange(isBracketed, hostEnd - isBracketed)];
    NSString *rest = [text substringFromIndex:hostEnd + isBracketed];
    NSString *digits = [rest length] > 1 ? [rest substringFromIndex:1] : @"";
    NSCharacterSet *others = [[NSCharacterSet characterSetWithCharactersInString:@"0123456789"] invertedSet];
    NSCharacterSet *spaces = [NSCharacterSet whitespaceAndNewlineCharacterSet];
    if ([host length] == 0 || HasAny(host, @"?#[]") || [host rangeOfCharacterFromSet:spaces].length > 0)
        return NO;
    if ([rest length] > 0 && !BeginsWith(rest, ':'))
        return NO;
    if ([digits length] > 5 || [digits rangeOfCharacterFromSet:others].length > 0)
        return NO;
    _host = [host copy];
    _port = [digits length] > 0 ? [digits intValue] : DefaultPort;
    return _port >= 1 && _port <= MaxPort;
}

+ (StraitURI *)URIWithString:(NSString *)text error:(NSError **)error {
    if (![text hasPrefix:Scheme]) // with an @, it may hold a password
        return Wrong(
            error, [NSString stringWithFormat:@"%@ doesn't begin with %@", HasAny(text, @"@") ? @"it" : text, Scheme]);
    NSCharacterSet *slash = [NSCharacterSet characterSetWithCharactersInString:@"/"];
    NSArray *parts = [[text substringFromIndex:[Scheme length]] componentsSeparatedByCharactersInSet:slash];
    NSString *authority = [parts objectAtIndex:0];
    if (HasAny(authority, @"@"))
        return Wrong(error, @"an address names no user; the options take user and password");
    StraitURI *uri = [[[StraitURI alloc] init] autorelease];
    if (![uri readAuthority:authority])
        return Wrong(error, [NSString stringWithFormat:@"\"%@\" is no HOST:PORT", authority]);

    NSMutableArray *names = [NSMutableArray arrayWithArray:parts];
    [names removeObjectAtIndex:0];
    [names removeObject:@""];
    NSString *first = [names count] > 0 ? [names objectAtIndex:0] : nil;
    if (BeginsWith(first, '@')) {
        NSString *rest = [first substringFromIndex:1];
        if ([rest length] == 0)
            return Wrong(error, [NSString stringWithFormat:@"\"%@\": a store's name follows the @, as in /@lab; "
                                                           @"a directory called @ is /@@",
                                                           text]);
        if (BeginsWith(rest, '@')) { // a directory, with one @ less
            [names replaceObjectAtIndex:0 withObject:rest];
        } else {
            [names removeObjectAtIndex:0];
            uri->_store = [rest copy];
        }
    }
    NSArray *checked = uri->_store ? [names arrayByAddingObject:uri->_store] : names;
    for (NSString *name in checked)
        if (!IsName(name))
            return Wrong(error, [NSString stringWithFormat:@"\"%@\" has a name that is . or .., holds a NUL byte, or "
                                                           @"is longer than %d bytes",
                                                           text, MaxNameBytes]);
    uri->_path = [[@"/" stringByAppendingString:[names componentsJoinedByString:@"/"]] retain];
    return uri;
}

+ (StraitURI *)URIWithAddress:(NSString *)address error:(NSError **)error {
    BOOL hasScheme = [address rangeOfString:@"://"].length > 0;
    StraitURI *uri = [self URIWithString:hasScheme ? address : [Scheme stringByAppendingString:address] error:error];
    if (uri && ![uri->_path isEqualToString:@"/"])
        return Wrong(error,
                     [@"it ends with the gateway or its store, and has no path: " stringByAppendingString:address]);
    return uri;
}

- (NSString *)address {
    BOOL isNumeric = [_host rangeOfString:@":"].length > 0;
    return [NSString stringWithFormat:isNumeric ? @"[%@]:%u" : @"%@:%u", _host, _port];
}

@end
