#import <Foundation/Foundation.h>

@class StraitReader, StraitSession, StraitWriter;

// Attributes beside those of NSFileManager.
extern NSString *const StraitFilePath;           // NSString
extern NSString *const StraitFileAccessDate;     // NSDate
extern NSString *const StraitFileReplication;    // NSNumber
extern NSString *const StraitFileBlockSize;      // NSNumber, bytes
extern NSString *const StraitFileSystemUsedSize; // NSNumber, bytes

/** How to connect. */
@interface StraitOptions : NSObject <NSCopying> {
  @private
    NSString *_store, *_user, *_password, *_token;
    NSTimeInterval _timeout;
}

+ (StraitOptions *)options;

/** A store of the gateway; nil: its default one. */
@property(copy) NSString *store;

@property(copy) NSString *user;
@property(copy) NSString *password;

/** Of an earlier session, in place of user and password. */
@property(copy) NSString *token;

/** Seconds, 120 at first. It bounds each request as a whole: connecting, all attempts, and the complete reply. */
@property NSTimeInterval timeout;

@end

/** Where a part of a file lies. */
@interface StraitBlock : NSObject {
  @private
    unsigned long long _offset, _length;
    NSArray *_hosts;
}

@property(readonly) unsigned long long offset;
@property(readonly) unsigned long long length;

/** Names of hosts, NSStrings. */
@property(readonly) NSArray *hosts;

@end

/** A store's own checksum of a file. Checksums compare under the same algorithm only. */
@interface StraitChecksum : NSObject {
  @private
    NSString *_algorithm;
    NSData *_value;
}

@property(readonly) NSString *algorithm;
@property(readonly) NSData *value;

@end

/** A directory's entries in the store's order, fetched page by page. After the last name, ask for the error. */
@interface StraitDirectoryEnumerator : NSEnumerator {
  @private
    StraitSession *_session;
    NSString *_path;
    NSNumber *_pageSize, *_cursor;
    NSArray *_page;
    NSUInteger _next;
    int64_t _incarnation;
    NSError *_error;
}

/** The attributes of the entry whose name came last. */
- (NSDictionary *)fileAttributes;

/** Why the names ended early; nil if they are complete. */
- (NSError *)error;

@end

/**
 * The files of one store behind a gateway, with the names of NSFileManager, for any number of threads. Paths are
 * absolute within the store. A method that fails returns nil or NO, and an error of StraitErrorDomain, except for local
 * files, whose errors are of NSPOSIXErrorDomain.
 */
@interface StraitClient : NSObject {
  @private
    StraitSession *_session;
}

/** Opens a session. The address is strait://HOST:PORT/ or HOST:PORT; /@NAME after it names a store. */
+ (StraitClient *)clientWithAddress:(NSString *)address error:(NSError **)error;
+ (StraitClient *)clientWithAddress:(NSString *)address options:(StraitOptions *)options error:(NSError **)error;

/** Ends the session; close its files first. The last release of the client and its files does the same. */
- (void)close;

- (NSString *)user;

/** Stands for the login until it expires; keep it secret. */
- (NSString *)token;

- (NSString *)storeName;
- (NSString *)storeURI;

/** What the store can do: NSStrings. */
- (NSSet *)capabilities;

// Whole files

- (NSData *)dataAtPath:(NSString *)path error:(NSError **)error;

/** Makes or replaces a file. */
- (BOOL)writeData:(NSData *)data toPath:(NSString *)path error:(NSError **)error;

/** Copies a remote file to a local one, which appears, or is replaced, only when it is complete. */
- (BOOL)copyItemAtPath:(NSString *)path
           toLocalPath:(NSString *)localPath
             overwrite:(BOOL)overwrite
                 error:(NSError **)error;

/** The other way, likewise. In a directory the file gets its own name. It has the gateway's permissions. */
- (BOOL)copyItemAtLocalPath:(NSString *)localPath
                     toPath:(NSString *)path
                  overwrite:(BOOL)overwrite
                      error:(NSError **)error;

// Open files

- (StraitReader *)readerAtPath:(NSString *)path error:(NSError **)error;

/** Makes a file and its missing parents. One that exists is an error without overwrite. */
- (StraitWriter *)writerAtPath:(NSString *)path overwrite:(BOOL)overwrite error:(NSError **)error;

/** With NSFilePosixPermissions, StraitFileReplication and StraitFileBlockSize, each if it is there. */
- (StraitWriter *)writerAtPath:(NSString *)path
                     overwrite:(BOOL)overwrite
                    attributes:(NSDictionary *)attributes
                         error:(NSError **)error;

/** Opens an existing file to go on at its end. */
- (StraitWriter *)appendingWriterAtPath:(NSString *)path error:(NSError **)error;

// Items

/** NSFileManager's attributes, and those above. */
- (NSDictionary *)attributesOfItemAtPath:(NSString *)path error:(NSError **)error;

/**
 * Sets what is there of NSFilePosixPermissions, NSFileOwnerAccountName, NSFileGroupOwnerAccountName,
 * NSFileModificationDate, StraitFileAccessDate and StraitFileReplication.
 */
- (BOOL)setAttributes:(NSDictionary *)attributes ofItemAtPath:(NSString *)path error:(NSError **)error;

/** NO without an error: nothing is there. NO with an error: nobody knows. */
- (BOOL)fileExistsAtPath:(NSString *)path error:(NSError **)error;

/** Names of all entries, in the store's order. */
- (NSArray *)contentsOfDirectoryAtPath:(NSString *)path error:(NSError **)error;

/** For large directories. A page has at most this many entries; 0: the gateway decides. */
- (StraitDirectoryEnumerator *)enumeratorAtPath:(NSString *)path pageSize:(NSUInteger)pageSize error:(NSError **)error;

/** Makes a directory and its missing parents; an existing one is success. Of the attributes, NSFilePosixPermissions. */
- (BOOL)createDirectoryAtPath:(NSString *)path attributes:(NSDictionary *)attributes error:(NSError **)error;

/** Renames a file or directory; with overwrite, a file at the target is replaced. */
- (BOOL)moveItemAtPath:(NSString *)path toPath:(NSString *)target overwrite:(BOOL)overwrite error:(NSError **)error;

/** Removes a file or an empty directory; with recursive, all that is in it too. */
- (BOOL)removeItemAtPath:(NSString *)path recursive:(BOOL)recursive error:(NSError **)error;

/** Cuts a closed file to this many bytes. */
- (BOOL)truncateItemAtPath:(NSString *)path toLength:(unsigned long long)length error:(NSError **)error;

/** Moves the sources' bytes, in order, to the end of a closed file, in one step. */
- (BOOL)concatenateItemsAtPaths:(NSArray *)sources toPath:(NSString *)path error:(NSError **)error;

// The store

/** StraitBlocks that hold a range of a file. The length NSUIntegerMax means: to its end. */
- (NSArray *)blocksOfItemAtPath:(NSString *)path
                         offset:(unsigned long long)offset
                         length:(NSUInteger)length
                          error:(NSError **)error;

- (StraitChecksum *)checksumOfItemAtPath:(NSString *)path error:(NSError **)error;

/** NSFileSystemSize, NSFileSystemFreeSize and StraitFileSystemUsedSize of the whole store. */
- (NSDictionary *)attributesOfFileSystemAndReturnError:(NSError **)error;

@end
