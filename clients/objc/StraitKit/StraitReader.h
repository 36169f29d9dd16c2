#import <Foundation/Foundation.h>

@class StraitSession;

/** An open file to read, as NSFileHandle; StraitClient opens it. Only readDataAtOffset… serves several threads. */
@interface StraitReader : NSObject {
  @private
    StraitSession *_session;
    NSString *_path;
    NSLock *_reopening;
    int64_t _handle, _incarnation;
    unsigned long long _length, _offset, _aheadOffset;
    NSData *_identity, *_ahead;
    BOOL _closed;
}

/** The file's length in bytes, when it was opened. */
- (unsigned long long)length;

/** Where the next read begins. */
- (unsigned long long)offsetInFile;

- (void)seekToOffset:(unsigned long long)offset;

/** Fewer bytes than asked for only at the end of the file; none there. Nil after an error. */
- (NSData *)readDataUpToLength:(NSUInteger)length error:(NSError **)error;

- (NSData *)readDataToEndOfFileAndReturnError:(NSError **)error;

/** As readDataUpToLength:error:, from an offset; the reader's own stays. */
- (NSData *)readDataAtOffset:(unsigned long long)offset length:(NSUInteger)length error:(NSError **)error;

/** The last release does the same. */
- (void)close;

@end
