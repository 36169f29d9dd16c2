/* hdfs.h: files on HDFS, Kadoop, gateways of Strait and this host, for C programs.
 *
 * These are the declarations of Hadoop 3.3's hdfs.h, and those that later versions added, so that
 * programs for that library compile and link here, and built ones run. docs/libhdfs.md lists the
 * differences.
 *
 * Unless it says otherwise, a function returns -1 or NULL if it fails, and sets errno;
 * hdfsGetLastExceptionRootCause() has a text for people. Every function may be called from any
 * thread. After fork(2) a child may use its parent's connections and files that are open for
 * reading: it opens its own underneath. Its parent's files that are open for writing fail there
 * with EBADF. Destructors of a thread's own values may use and close open files, and connect; other
 * calls fail there with ENOTSUP.
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

/* Connects to the store `nn`: a URI (hdfs://, kadoop://, strait://, file:///), a namenode's host,
 * "default" for STRAIT_STORE or fs.defaultFS of core-site.xml, or NULL for this host's files. A port
 * other than 0 is for a name without one. */
hdfsFS hdfsConnect(const char *nn, tPort port);
/* The same as this user; NULL means the environment's or the process's. */
hdfsFS hdfsConnectAsUser(const char *nn, tPort port, const char *user);
/* The same two, sharing sockets with no other connection. */
hdfsFS hdfsConnectNewInstance(const char *nn, tPort port);
hdfsFS hdfsConnectAsUserNewInstance(const char *nn, tPort port, const char *user);
/* Ends a connection. Files that are still open stay usable. */
int hdfsDisconnect(hdfsFS fs);

/* The same by a builder, which copies its strings. hdfsBuilderConnect frees it, also if it fails. */
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

/* A property of the configuration files; *val is NULL if they lack it. Returns 0 or an errno. */
int hdfsConfGetStr(const char *key, char **val);
void hdfsConfStrFree(char *val);
/* The same as a number; *val stays if they lack it. */
int hdfsConfGetInt(const char *key, int32_t *val);

/* ------------------------------------------------------------------- open files */

/* Opens a file: O_RDONLY; O_WRONLY to create or overwrite it; O_WRONLY|O_APPEND. O_RDWR is ENOTSUP.
 * Zero means the default of the other parameters; bufferSize has no effect. */
hdfsFile hdfsOpenFile(hdfsFS fs, const char *path, int flags, int bufferSize, short replication,
                      tSize blocksize);
/* The same by a builder, also for blocks above 2 GiB. hdfsStreamBuilderBuild frees it. The setters
 * are for files that are written (EINVAL). */
struct hdfsStreamBuilder *hdfsStreamBuilderAlloc(hdfsFS fs, const char *path, int flags);
int hdfsStreamBuilderSetBufferSize(struct hdfsStreamBuilder *bld, int32_t bufferSize);
int hdfsStreamBuilderSetReplication(struct hdfsStreamBuilder *bld, int16_t replication);
int hdfsStreamBuilderSetDefaultBlockSize(struct hdfsStreamBuilder *bld, int64_t defaultBlockSize);
hdfsFile hdfsStreamBuilderBuild(struct hdfsStreamBuilder *bld);
void hdfsStreamBuilderFree(struct hdfsStreamBuilder *bld);

/* Opens a file for reading by a future, as Hadoop's later versions do. The file is open when
 * hdfsOpenFileBuilderBuild returns, which frees the builder. No option is mandatory here:
 * hdfsOpenFileBuilderMust makes the opening fail. */
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
/* The same at a position; hdfsTell stays. */
tSize hdfsPread(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length);
/* The same for exactly `length` bytes: 0, or -1 with EINTERNAL if the file ends before. */
int hdfsPreadFully(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length);
/* Moves within a file that is open for reading; EINTERNAL beyond its end. */
int hdfsSeek(hdfsFS fs, hdfsFile file, tOffset desiredPos);
tOffset hdfsTell(hdfsFS fs, hdfsFile file);
/* Bytes from here to the end, at most the largest int. */
int hdfsAvailable(hdfsFS fs, hdfsFile file);
/* Drops bytes read ahead and sockets. Returns 0 or an errno. */
int hdfsUnbufferFile(hdfsFile file);

/* Writes. Returns `length`; less if the store failed after it had taken a part. */
tSize hdfsWrite(hdfsFS fs, hdfsFile file, const void *buffer, tSize length);
/* Gives the store all that was written. New readers need not see it. */
int hdfsFlush(hdfsFS fs, hdfsFile file);
/* New readers see all that was written. */
int hdfsHFlush(hdfsFS fs, hdfsFile file);
/* The same, on stable storage. */
int hdfsHSync(hdfsFS fs, hdfsFile file);

struct hdfsReadStatistics {
    uint64_t totalBytesRead;
    uint64_t totalLocalBytesRead;        /* 0: stores don't tell */
    uint64_t totalShortCircuitBytesRead; /* 0 */
    uint64_t totalZeroCopyBytesRead;     /* 0 */
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
/* Zeros for HDFS; ENOTSUP for other stores. */
int hdfsGetHedgedReadMetrics(hdfsFS fs, struct hdfsHedgedReadMetrics **metrics);
void hdfsFreeHedgedReadMetrics(struct hdfsHedgedReadMetrics *metrics);

/* Reads without a copy: up to maxLength of the next bytes, in the store's own buffer. It is empty,
 * and hadoopRzBufferGet NULL, at the end. No option is needed: checksums are always checked. */
struct hadoopRzOptions *hadoopRzOptionsAlloc(void);
int hadoopRzOptionsSetSkipChecksum(struct hadoopRzOptions *opts, int skip);
int hadoopRzOptionsSetByteBufferPool(struct hadoopRzOptions *opts, const char *className);
void hadoopRzOptionsFree(struct hadoopRzOptions *opts);
struct hadoopRzBuffer *hadoopReadZero(hdfsFile file, struct hadoopRzOptions *opts, int32_t maxLength);
int32_t hadoopRzBufferLength(const struct hadoopRzBuffer *buffer);
const void *hadoopRzBufferGet(const struct hadoopRzBuffer *buffer);
void hadoopRzBufferFree(hdfsFile file, struct hadoopRzBuffer *buffer);

/* ------------------------------------------------------------------- names */

/* 0 if the path exists; ENOENT if not. */
int hdfsExists(hdfsFS fs, const char *path);
/* Removes a file, or a directory: an empty one, or any one if recursive isn't 0. */
int hdfsDelete(hdfsFS fs, const char *path, int recursive);
/* Renames; into newPath, if that is a directory. An existing file is EEXIST. */
int hdfsRename(hdfsFS fs, const char *oldPath, const char *newPath);
/* Copies a file or a tree, over an existing file, or into dst if that is a directory. */
int hdfsCopy(hdfsFS srcFS, const char *src, hdfsFS dstFS, const char *dst);
/* The same, and removes the source; in one store it renames instead. */
int hdfsMove(hdfsFS srcFS, const char *src, hdfsFS dstFS, const char *dst);
/* Makes a directory and its missing parents; an existing one is success. */
int hdfsCreateDirectory(hdfsFS fs, const char *path);
/* Cuts a file. Returns 1: it can be written again at once. */
int hdfsTruncateFile(hdfsFS fs, const char *path, tOffset newlength);

/* The working directory's URI. ENAMETOOLONG: the buffer is too short. */
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

/* A directory's entries, or the file itself. NULL with errno 0 for an empty directory. */
hdfsFileInfo *hdfsListDirectory(hdfsFS fs, const char *path, int *numEntries);
hdfsFileInfo *hdfsGetPathInfo(hdfsFS fs, const char *path);
void hdfsFreeFileInfo(hdfsFileInfo *hdfsFileInfo, int numEntries);
/* 0: stores don't tell. */
int hdfsFileIsEncrypted(hdfsFileInfo *hdfsFileInfo);

/* The hosts of each block that has bytes of the range; both arrays end with NULL. */
char ***hdfsGetHosts(hdfsFS fs, const char *path, tOffset start, tOffset length);
void hdfsFreeHosts(char ***blockHosts);

/* dfs.blocksize of the configuration, or the store's usual size. */
tOffset hdfsGetDefaultBlockSize(hdfsFS fs);
tOffset hdfsGetDefaultBlockSizeAtPath(hdfsFS fs, const char *path);
tOffset hdfsGetCapacity(hdfsFS fs);
tOffset hdfsGetUsed(hdfsFS fs);

/* ------------------------------------------------------------------- failures */

/* Why this thread's last call failed; NULL if it didn't. Valid until the thread's next call. */
char *hdfsGetLastExceptionRootCause(void);
/* The same, and the causes below it, one a line. */
char *hdfsGetLastExceptionStackTrace(void);

#ifdef __cplusplus
}
#endif

#endif
