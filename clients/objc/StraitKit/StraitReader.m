#import "StraitReader.h"
#import "StraitFailure.h"
#import "StraitOpening.h"
#import "StraitSession.h"
#import "StraitWire.h"

// Most bytes for which memory is taken as soon as the gateway promises them. More is taken as they arrive.
enum { MaxCapacity = 64 << 20 };

@interface StraitReader ()
- (BOOL)openAndReturnError:(NSError **)error;
- (void)forget:(int64_t)handle;
- (NSData *)fetch:(NSUInteger)length atOffset:(unsigned long long)offset error:(NSError **)error;
@end

@implementation StraitReader

- (id)initWithSession:(StraitSession *)session path:(NSString *)path error:(NSError **)error {
    if ((self = [super init])) {
        _session = [session retain];
        _path = [path copy];
        _reopening = [[NSLock alloc] init];
        _closed = YES; // until it is open
        if (![self openAndReturnError:error]) {
            [self release];
            return nil;
        }
        _closed = NO;
    }
    return self;
}

- (void)dealloc {
    [self close];
    [_session release];
    [_path release];
    [_reopening release];
    [_identity release];
    [_ahead release];
    [super dealloc];
}

/** Opens the file, or again the same file: bytes of two files would pass as one's. */
- (BOOL)openAndReturnError:(NSError **)error {
    StraitMessage *request = [StraitMessage messageWithFields:2, StraitText(_path), 0];
    StraitMessage *reply = [_session query:@"openFile" request:request path:_path error:error];
    if (!reply)
        return NO;
    unsigned long long length = [reply numberIn:2];
    NSData *identity = [reply dataIn:3];
    if ((_identity && identity && ![identity isEqualToData:_identity]) || length < _length) {
        [self forget:[reply numberIn:1]];
        return StraitFail(error,
                          StraitFailure(StraitUnavailableError, @"the file was replaced while it was read", _path, NO));
    }
    _handle = [reply numberIn:1];
    _length = length;
    [_identity autorelease];
    _identity = [identity retain];
    _incarnation = [_session incarnation];
    return YES;
}

- (void)forget:(int64_t)handle {
    [_session tidy:@"closeFile" request:[StraitMessage messageWithFields:4, StraitNumber(StraitI64, handle), 0]];
}

- (void)close {
    if (!_closed)
        [self forget:_handle];
    _closed = YES;
}

- (unsigned long long)length {
    return _length;
}

- (unsigned long long)offsetInFile {
    return _offset;
}

- (void)seekToOffset:(unsigned long long)offset {
    _offset = offset;
}

// --------------------------------------------------------------------------------------------------------- reading

/** What one request gives, out of the last one's bytes if they have it: small reads of a whole file are few requests.
 */
- (NSData *)nextDataUpToLength:(NSUInteger)length error:(NSError **)error {
    if (_offset < _aheadOffset || _offset - _aheadOffset >= [_ahead length]) {
        NSData *fetched = [self fetch:[_session maxChunkBytes] atOffset:_offset error:error];
        if (!fetched)
            return nil;
        [_ahead release];
        _ahead = [fetched retain];
        _aheadOffset = _offset;
    }
    NSUInteger from = _offset - _aheadOffset, count = MIN(length, [_ahead length] - from);
    _offset += count;
    return count == [_ahead length] ? [[_ahead retain] autorelease]
                                    : [_ahead subdataWithRange:NSMakeRange(from, count)];
}

- (NSData *)readDataUpToLength:(NSUInteger)length error:(NSError **)error {
    unsigned long long left = _length > _offset ? _length - _offset : 0;
    NSMutableData *data = [NSMutableData dataWithCapacity:MIN(length, MIN(left, MaxCapacity))];
    BOOL isEnd = NO;
    while ([data length] < length && !isEnd) {
        NSAutoreleasePool *pool = [[NSAutoreleasePool alloc] init];
        NSError *why = nil;
        NSData *part = [self nextDataUpToLength:length - [data length] error:&why];
        if (part)
            [data appendData:part];
        isEnd = [part length] == 0;
        BOOL hasFailed = !part;
        [why retain];
        [pool release];
        [why autorelease];
        if (hasFailed)
            return StraitNone(error, why);
    }
    return data;
}

- (NSData *)readDataToEndOfFileAndReturnError:(NSError **)error {
    return [self readDataUpToLength:NSUIntegerMax error:error];
}

- (NSData *)readDataAtOffset:(unsigned long long)offset length:(NSUInteger)length error:(NSError **)error {
    NSMutableData *data = [NSMutableData data];
    while ([data length] < length) {
        NSUInteger count = MIN(length - [data length], [_session maxChunkBytes]);
        NSData *part = [self fetch:count atOffset:offset + [data length] error:error];
        if (!part)
            return nil;
        if ([part length] == 0)
            break;
        [data appendData:part];
    }
    return data;
}

- (NSData *)readHandle:(int64_t)handle
                length:(NSUInteger)length
                offset:(unsigned long long)offset
                 error:(NSError **)error {
    StraitMessage *request =
        [StraitMessage messageWithFields:2, StraitNumber(StraitI64, handle), 3, StraitNumber(StraitI64, offset), 4,
                                         StraitNumber(StraitI32, length), 0];
    StraitMessage *reply = [_session query:@"readRange" request:request path:_path error:error];
    NSData *data = [reply dataIn:1] ?: [NSData data];
    if ([data length] > length)
        return StraitNone(error,
                          StraitFailure(StraitInternalError, @"the gateway sent more than asked for", _path, NO));
    return reply ? data : nil;
}

/** One request; after its handle ended with its session, another one on a new handle. */
- (NSData *)fetch:(NSUInteger)length atOffset:(unsigned long long)offset error:(NSError **)error {
    if (_closed)
        return StraitNone(error, StraitFailure(StraitInvalidArgumentError, @"the file is closed", _path, NO));
    if (offset > INT64_MAX)
        return StraitNone(error, StraitFailure(StraitInvalidArgumentError, @"an offset above 2^63", _path, NO));
    NSError *why = nil;
    int64_t used = _handle;
    NSData *data = [self readHandle:used length:length offset:offset error:&why];
    if (data)
        return data;
    BOOL isMissing = [why isStraitError:StraitNotFoundError];
    if (!isMissing && ![why isStraitError:StraitInvalidArgumentError] &&
        ![why isStraitError:StraitUnauthenticatedError])
        return StraitNone(error, why);
    [_reopening lock];
    BOOL isMine = used == _handle, hasEnded = isMissing || _incarnation != [_session incarnation];
    BOOL isOpen = !isMine || (hasEnded && [self openAndReturnError:&why]);
    [_reopening unlock];
    return isOpen ? [self readHandle:_handle length:length offset:offset error:error] : StraitNone(error, why);
}

@end
