#import <Foundation/Foundation.h>

@class StraitSession;

/**
 * An open file to write at its end, as NSFileHandle, for one thread at a time; StraitClient opens it. After NoSpace and
 * Unavailable it is still open: it keeps the bytes that the gateway hasn't taken, and sends them again with the next
 * call.
 */
@interface StraitWriter : NSObject {
  @private
    StraitSession *_session;
    NSString *_path;
    int64_t _handle, _incarnation;
    unsigned long long _sent;
    NSMutableData *_pending;
    NSError *_end;
}

/** The file's length in bytes, with all that was written here. */
- (unsigned long long)offsetInFile;

/** A write of up to 1 MiB that fails has taken nothing; offsetInFile shows how much a longer one has taken. */
- (BOOL)writeData:(NSData *)data error:(NSError **)error;

/** Makes the written bytes visible to readers who open the file afterwards. In object stores it promises nothing. */
- (BOOL)flushAndReturnError:(NSError **)error;

/** Puts the written bytes on stable storage. In object stores it promises nothing. */
- (BOOL)synchronizeAndReturnError:(NSError **)error;

/** Puts all bytes on stable storage (except in HDFS). After NoSpace and Unavailable it may be repeated. */
- (BOOL)closeAndReturnError:(NSError **)error;

/** Ends the file. Flushed bytes stay; other bytes may be lost. The last release of an open writer does the same. */
- (void)abandon;

@end
