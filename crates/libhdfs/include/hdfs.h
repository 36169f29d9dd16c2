/* hdfs.h: files on HDFS, Kadoop, gateways of Strait and this host, for C programs.
 *
 * These are the declarations of hdfs.h in Hadoop 3.3, and those that later versions added. Programs
 * for Hadoop's library compile and link with this one, and built programs run with it.
 * docs/libhdfs.md lists the differences.
 *
 * Unless its comment says otherwise, a function that fails returns -1 or NULL, and sets errno;
 * hdfsGetLastExceptionRootCause() returns a text for people. Each function can be called from any
 * thread. After fork(2), a child can use its parent's connections, and its files that are open for
 * reading: the library opens them again for the child. The parent's files that are open for writing
 * fail in the child with EBADF. Destructors of thread-local values can connect, and use and close
 * open files. Other calls in such a destructor fail with ENOTSUP.
 *
 * A path is absolute, relative to the working directory, or a URI of the connection's store.
 */
#ifndef LIBHDFS_HDFS_H
#define LIBHDFS_HDFS_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifndef EINTERNAL
#define EINTERNAL 255 /* a failure without an errno of its own */
#endif

/* The pool that hadoopRzOptionsSetByteBufferPool knows. */
#define ELASTIC_BYTE_BUFFER_POOL_CLASS "org/apache/hadoop/io/ElasticByteBufferPool"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t tSize;   /* bytes of one read or write */
typedef time_t tTime;    /* seconds since 1970-01-01 UTC */
typedef int64_t tOffset; /* an offset in a file */
typedef uint16_t tPort;

typedef enum tObjectKind {
    kObjectKindFile = 'F',
    kObjectKindDirectory = 'D',
} tObjectKind;

struct hdfs_internal;
typedef struct hdfs_internal *hdfsFS; /* a connection */
struct hdfsFile_internal;
typedef struct hdfsFile_internal *hdfsFile; /* an open file */
struct hdfsBuilder;
struct hdfsStreamBuilder;
struct hadoopRzOptions;
struct hadoopRzBuffer;

/* ------------------------------------------------------------------- connections */

/* Connects to the store `nn`. It is a URI (hdfs://, kadoop://, strait://, file:///), a namenode's
 * host, "default" (the environment's STRAIT_STORE, or fs.defaultFS of core-site.xml), or NULL for
 * this host's files. If `nn` has no port, `port` gives it; 0 means the default port. */
hdfsFS hdfsConnect(const char *nn, tPort port);
/* The same, as this user; NULL means the user in the environment, or else the process's user. */
hdfsFS hdfsConnectAsUser(const char *nn, tPort port, const char *user);
/* As the two functions above, but the new connection shares no sockets with other connections. */
hdfsFS hdfsConnectNewInstance(const char *nn, tPort port);
hdfsFS hdfsConnectAsUserNewInstance(const char *nn, tPort port, const char *user);
/* Ends a connection. Files that are still open stay usable. */
int hdfsDisconnect(hdfsFS fs);

/* Connects by a builder. The builder copies the strings. hdfsBuilderConnect frees the builder, also
 * if it fails. */
struct hdfsBuilder *hdfsNewBuilder(void);
void hdfsBuilderSetNameNode(struct hdfsBuilder *bld, const char *nn);
void hdfsBuilderSetNameNodePort(struct hdfsBuilder *bld, tPort port);
void hdfsBuilderSetUserName(struct hdfsBuilder *bld, const char *userName);
void hdfsBuilderSetForceNewInstance(struct hdfsBuilder *bld);
/* Has no effect: Kerberos takes tickets from KRB5CCNAME. */
void hdfsBuilderSetKerbTicketCachePath(struct hdfsBuilder *bld, const char *kerbTicketCachePath);
/* Sets a property of Hadoop's configuration for this connection. Returns 0 or an errno. */
int hdfsBuilderConfSetStr(struct hdfsBuilder *bld, const char *key, const char *val);
hdfsFS hdfsBuilderConnect(struct hdfsBuilder *bld);
void hdfsFreeBuilder(struct hdfsBuilder *bld);

/* Sets *val to a property of the configuration files, or to NULL if they don't set it. Returns 0 or
 * an errno. */
int hdfsConfGetStr(const char *key, char **val);
void hdfsConfStrFree(char *val);
/* The same for a number. If the files don't set the property, *val stays as it is. */
int hdfsConfGetInt(const char *key, int32_t *val);

/* ------------------------------------------------------------------- open files */

/* Opens a file with flags O_RDONLY, O_WRONLY (creates or overwrites the file) or O_WRONLY|O_APPEND.
 * O_RDWR fails with ENOTSUP. A replication or blocksize of 0 means the default; bufferSize has no
 * effect. */
hdfsFile hdfsOpenFile(hdfsFS fs, const char *path, int flags, int bufferSize, short replication,
                      tSize blocksize);
/* Opens a file by a builder, which also allows blocks of more than 2 GiB. hdfsStreamBuilderBuild
 * frees the builder. For a file that isn't opened for writing, the setters fail with EINVAL. */
struct hdfsStreamBuilder *hdfsStreamBuilderAlloc(hdfsFS fs, const char *path, int flags);
int hdfsStreamBuilderSetBufferSize(struct hdfsStreamBuilder *bld, int32_t bufferSize);
int hdfsStreamBuilderSetReplication(struct hdfsStreamBuilder *bld, int16_t replication);
int hdfsStreamBuilderSetDefaultBlockSize(struct hdfsStreamBuilder *bld, int64_t defaultBlockSize);
hdfsFile hdfsStreamBuilderBuild(struct hdfsStreamBuilder *bld);
void hdfsStreamBuilderFree(struct hdfsStreamBuilder *bld);

/* Opens a file for reading by a future, as later versions of Hadoop do. hdfsOpenFileBuilderBuild
 * opens the file before it returns, and frees the builder. This library knows no options. So
 * hdfsOpenFileBuilderMust makes the opening fail, and hdfsOpenFileBuilderOpt has no effect. */
typedef struct hdfsOpenFileBuilder hdfsOpenFileBuilder;
typedef struct hdfsOpenFileFuture hdfsOpenFileFuture;
typedef enum {
    jNanoseconds,
    jMicroseconds,
    jMilliseconds,
    jSeconds,
    jMinutes,
    jHours,
    jDays
} javaConcurrentTimeUnit;
hdfsOpenFileBuilder *hdfsOpenFileBuilderAlloc(hdfsFS fs, const char *path);
hdfsOpenFileBuilder *hdfsOpenFileBuilderMust(hdfsOpenFileBuilder *builder, const char *key,
                                             const char *value);
hdfsOpenFileBuilder *hdfsOpenFileBuilderOpt(hdfsOpenFileBuilder *builder, const char *key,
                                            const char *value);
hdfsOpenFileFuture *hdfsOpenFileBuilderBuild(hdfsOpenFileBuilder *builder);
void hdfsOpenFileBuilderFree(hdfsOpenFileBuilder *builder);
hdfsFile hdfsOpenFileFutureGet(hdfsOpenFileFuture *future);
hdfsFile hdfsOpenFileFutureGetWithTimeout(hdfsOpenFileFuture *future, int64_t timeout,
                                          javaConcurrentTimeUnit timeUnit);
int hdfsOpenFileFutureCancel(hdfsOpenFileFuture *future, int mayInterruptIfRunning);
void hdfsOpenFileFutureFree(hdfsOpenFileFuture *future);

/* Closes a file. The handle is invalid afterwards, also after an error. */
int hdfsCloseFile(hdfsFS fs, hdfsFile file);

int hdfsFileIsOpenForRead(hdfsFile file);
int hdfsFileIsOpenForWrite(hdfsFile file);

/* Reads the next bytes: `length` of them, or fewer at the file's end; 0 at the end. */
tSize hdfsRead(hdfsFS fs, hdfsFile file, void *buffer, tSize length);
/* The same at a position. It doesn't change what hdfsTell returns. */
tSize hdfsPread(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length);
/* Reads exactly `length` bytes at a position. Returns 0, or -1 with EINTERNAL if the file ends
 * earlier. */
int hdfsPreadFully(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length);
/* Sets the position in a file that is open for reading. Beyond its end, fails with EINTERNAL. */
int hdfsSeek(hdfsFS fs, hdfsFile file, tOffset desiredPos);
tOffset hdfsTell(hdfsFS fs, hdfsFile file);
/* Bytes from the position to the file's end; INT_MAX if there are more. */
int hdfsAvailable(hdfsFS fs, hdfsFile file);
/* Frees the bytes read ahead and the file's sockets. Returns 0 or an errno. */
int hdfsUnbufferFile(hdfsFile file);

/* Writes. Returns `length`, or less if the store failed after it had taken a part of the bytes. */
tSize hdfsWrite(hdfsFS fs, hdfsFile file, const void *buffer, tSize length);
/* Passes all written bytes to the store. New readers don't necessarily see them yet. */
int hdfsFlush(hdfsFS fs, hdfsFile file);
/* Makes all written bytes visible to new readers. */
int hdfsHFlush(hdfsFS fs, hdfsFile file);
/* The same, and makes the bytes durable on stable storage. */
int hdfsHSync(hdfsFS fs, hdfsFile file);

struct hdfsReadStatistics {
    uint64_t totalBytesRead;
    uint64_t totalLocalBytesRead;        /* always 0: stores don't report it */
    uint64_t totalShortCircuitBytesRead; /* always 0 */
    uint64_t totalZeroCopyBytesRead;     /* always 0 */
};
int hdfsFileGetReadStatistics(hdfsFile file, struct hdfsReadStatistics **stats);
int64_t hdfsReadStatisticsGetRemoteBytesRead(const struct hdfsReadStatistics *stats);
/* Returns 0 or an errno. */
int hdfsFileClearReadStatistics(hdfsFile file);
void hdfsFileFreeReadStatistics(struct hdfsReadStatistics *stats);

struct hdfsHedgedReadMetrics {
    uint64_t hedgedReadOps;
    uint64_t hedgedReadOpsWin;
    uint64_t hedgedReadOpsInCurThread;
};
/* For HDFS, all counts are 0. Other stores fail with ENOTSUP. */
int hdfsGetHedgedReadMetrics(hdfsFS fs, struct hdfsHedgedReadMetrics **metrics);
void hdfsFreeHedgedReadMetrics(struct hdfsHedgedReadMetrics *metrics);

/* Reads without a copy: returns up to maxLength of the next bytes in the store's own buffer. At the
 * file's end, the buffer is empty, and hadoopRzBufferGet returns NULL. The options have no effect:
 * checksums are always checked. */
struct hadoopRzOptions *hadoopRzOptionsAlloc(void);
int hadoopRzOptionsSetSkipChecksum(struct hadoopRzOptions *opts, int skip);
int hadoopRzOptionsSetByteBufferPool(struct hadoopRzOptions *opts, const char *className);
void hadoopRzOptionsFree(struct hadoopRzOptions *opts);
struct hadoopRzBuffer *hadoopReadZero(hdfsFile file, struct hadoopRzOptions *opts, int32_t maxLength);
int32_t hadoopRzBufferLength(const struct hadoopRzBuffer *buffer);
const void *hadoopRzBufferGet(const struct hadoopRzBuffer *buffer);
void hadoopRzBufferFree(hdfsFile file, struct hadoopRzBuffer *buffer);

/* ------------------------------------------------------------------- names */

/* Returns 0 if the path exists. If it doesn't, fails with ENOENT. */
int hdfsExists(hdfsFS fs, const char *path);
/* Removes a file or an empty directory. If recursive isn't 0, also a directory with its content. */
int hdfsDelete(hdfsFS fs, const char *path, int recursive);
/* Renames oldPath to newPath, or moves it into newPath if that is a directory. Fails with EEXIST if
 * the new path is an existing file. */
int hdfsRename(hdfsFS fs, const char *oldPath, const char *newPath);
/* Copies a file or a tree to dst, or into dst if that is a directory. Overwrites an existing file. */
int hdfsCopy(hdfsFS srcFS, const char *src, hdfsFS dstFS, const char *dst);
/* The same, and then removes the source. With the same store and user on both sides, it renames. */
int hdfsMove(hdfsFS srcFS, const char *src, hdfsFS dstFS, const char *dst);
/* Makes a directory and its missing parents. Succeeds also if the directory exists. */
int hdfsCreateDirectory(hdfsFS fs, const char *path);
/* Truncates a file. Returns 1, which means that the file can be written again at once. */
int hdfsTruncateFile(hdfsFS fs, const char *path, tOffset newlength);

/* Copies the working directory's URI to the buffer, and returns the buffer. If the buffer is too
 * short, fails with ENAMETOOLONG. */
char *hdfsGetWorkingDirectory(hdfsFS fs, char *buffer, size_t bufferSize);
int hdfsSetWorkingDirectory(hdfsFS fs, const char *path);

int hdfsSetReplication(hdfsFS fs, const char *path, int16_t replication);
/* NULL leaves the owner, or the group, as it is. */
int hdfsChown(hdfsFS fs, const char *path, const char *owner, const char *group);
int hdfsChmod(hdfsFS fs, const char *path, short mode);
/* -1 leaves a time as it is. */
int hdfsUtime(hdfsFS fs, const char *path, tTime mtime, tTime atime);

typedef struct {
    tObjectKind mKind;
    char *mName; /* a URI */
    tTime mLastMod;
    tOffset mSize;
    short mReplication;
    tOffset mBlockSize;
    char *mOwner;
    char *mGroup;
    short mPermissions;
    tTime mLastAccess;
} hdfsFileInfo;

/* Returns a directory's entries, or, for a file, one entry. For an empty directory, returns NULL and
 * sets errno to 0. */
hdfsFileInfo *hdfsListDirectory(hdfsFS fs, const char *path, int *numEntries);
hdfsFileInfo *hdfsGetPathInfo(hdfsFS fs, const char *path);
void hdfsFreeFileInfo(hdfsFileInfo *hdfsFileInfo, int numEntries);
/* Always 0: stores don't report it. */
int hdfsFileIsEncrypted(hdfsFileInfo *hdfsFileInfo);

/* Returns an array of blocks, those that have bytes of the range. Each is an array of host names.
 * All arrays end with NULL. */
char ***hdfsGetHosts(hdfsFS fs, const char *path, tOffset start, tOffset length);
void hdfsFreeHosts(char ***blockHosts);

/* dfs.blocksize of the configuration, or else the store's default. */
tOffset hdfsGetDefaultBlockSize(hdfsFS fs);
tOffset hdfsGetDefaultBlockSizeAtPath(hdfsFS fs, const char *path);
tOffset hdfsGetCapacity(hdfsFS fs);
tOffset hdfsGetUsed(hdfsFS fs);

/* ------------------------------------------------------------------- failures */

/* The reason why this thread's last call failed, or NULL if it succeeded. The text is valid until the
 * thread's next call. */
char *hdfsGetLastExceptionRootCause(void);
/* The same text, followed by its causes, one per line. */
char *hdfsGetLastExceptionStackTrace(void);

#ifdef __cplusplus
}
#endif

#endif
