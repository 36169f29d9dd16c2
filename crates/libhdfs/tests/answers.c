/* answers HOST PORT DIRECTORY LOCAL: calls every function of hdfs.h on a real HDFS, in the new
 * directory DIRECTORY, and prints each answer. It runs with any libhdfs, so that the answers of two
 * can be compared. LOCAL is a file of this host. */
#include "hdfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1 << 20)

static hdfsFS fs;
static char base[256];
static char *bytes; /* 8 MiB */
static char *room;  /* as much */

/* One of some paths in the directory. */
static const char *in(const char *name) {
    static char paths[8][512];
    static int next;
    next = (next + 1) % 8;
    snprintf(paths[next], sizeof paths[next], "%s/%s", base, name);
    return paths[next];
}

/* Prints the answer of a call, and errno if it failed. */
#define SAY(call)                                                          \
    do {                                                                   \
        errno = 0;                                                         \
        int64_t answer_ = (int64_t)(call);                                 \
        int error_ = answer_ == -1 ? errno : 0;                            \
        printf("%s = %" PRId64 " errno %d\n", #call, answer_, error_);     \
    } while (0)

/* The same for calls that return a pointer, which stays in `got`. */
#define GOT(got, call)                                                     \
    do {                                                                   \
        errno = 0;                                                         \
        got = (call);                                                      \
        printf("%s = %s errno %d\n", #call, got ? "it" : "NULL", got ? 0 : errno); \
    } while (0)

/* Opens and closes. */
#define TRY_OPEN(path, flags)                                              \
    do {                                                                   \
        hdfsFile file_;                                                    \
        GOT(file_, hdfsOpenFile(fs, path, flags, 0, 0, 0));                \
        if (file_) SAY(hdfsCloseFile(fs, file_));                          \
    } while (0)

static void show(const char *what, const hdfsFileInfo *info) {
    if (!info) {
        printf("%s: none, errno %d\n", what, errno);
        return;
    }
    printf("%s: %c %s size %" PRId64 " replicas %d block %" PRId64 " owner %s group %s mode %o times %d\n", what,
           info->mKind, info->mName, info->mSize, info->mReplication, info->mBlockSize, info->mOwner, info->mGroup,
           (unsigned)info->mPermissions, info->mLastMod > 0 && info->mLastAccess >= 0);
}

static void show_path(const char *path) {
    errno = 0;
    hdfsFileInfo *info = hdfsGetPathInfo(fs, path);
    show(path, info);
    if (info) {
        printf("encrypted %d\n", hdfsFileIsEncrypted(info));
        hdfsFreeFileInfo(info, 1);
    }
}

static void show_list(const char *path) {
    int count = -1;
    errno = 77;
    hdfsFileInfo *all = hdfsListDirectory(fs, path, &count);
    int error = errno;
    printf("list %s: %s, %d entries, errno %d\n", path, all ? "an array" : "NULL", count, error);
    if (!all) return;
    for (int i = 0; i < count; i++) show("  entry", &all[i]);
    hdfsFreeFileInfo(all, count);
}

static void show_hosts(const char *path, tOffset start, tOffset length) {
    errno = 0;
    char ***hosts = hdfsGetHosts(fs, path, start, length);
    printf("hosts of %s from %" PRId64 ", %" PRId64 " bytes: %s errno %d\n", path, start, length,
           hosts ? "an array" : "NULL", hosts ? 0 : errno);
    if (!hosts) return;
    for (int i = 0; hosts[i]; i++) {
        int count = 0;
        while (hosts[i][count]) count++;
        printf("  block %d: %d hosts, %s\n", i, count, count ? hosts[i][0] : "none");
    }
    hdfsFreeHosts(hosts);
}

/* Fills a file, in pieces of that size. */
static void fill(const char *path, size_t length, size_t piece) {
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, path, O_WRONLY, 0, 0, MIB));
    if (!file) return;
    size_t done = 0;
    while (done < length) {
        size_t count = length - done < piece ? length - done : piece;
        tSize written = hdfsWrite(fs, file, bytes + done, (tSize)count);
        if (written != (tSize)count) {
            printf("hdfsWrite = %d errno %d\n", written, errno);
            break;
        }
        done += count;
    }
    SAY(hdfsTell(fs, file));
    SAY(hdfsCloseFile(fs, file));
}

/* Reads all that is left; JNI's library returns the bytes at hand. */
static int64_t read_all(hdfsFile file, char *to, int64_t most) {
    int64_t done = 0;
    while (done < most) {
        tSize count = hdfsRead(fs, file, to + done, (tSize)(most - done));
        if (count < 0) return -1;
        if (count == 0) break;
        done += count;
    }
    return done;
}

static void writing(void) {
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, in("w"), O_WRONLY | O_CREAT, 0, 0, 0));
    SAY(hdfsFileIsOpenForWrite(file));
    SAY(hdfsFileIsOpenForRead(file));
    SAY(hdfsTell(fs, file));
    SAY(hdfsWrite(fs, file, bytes, 5));
    SAY(hdfsWrite(fs, file, bytes, 0));
    SAY(hdfsWrite(fs, file, bytes, -1));
    SAY(hdfsTell(fs, file));
    SAY(hdfsFlush(fs, file));
    SAY(hdfsHFlush(fs, file));
    hdfsFile reader;
    GOT(reader, hdfsOpenFile(fs, in("w"), O_RDONLY, 0, 0, 0));
    SAY(read_all(reader, room, 100));
    SAY(hdfsCloseFile(fs, reader));
    SAY(hdfsWrite(fs, file, bytes + 5, 3 * MIB));
    SAY(hdfsHSync(fs, file));
    SAY(hdfsTell(fs, file));
    SAY(hdfsSeek(fs, file, 0));
    SAY(hdfsAvailable(fs, file));
    SAY(hdfsRead(fs, file, room, 1));
    SAY(hdfsPread(fs, file, 0, room, 1));
    SAY(hdfsUnbufferFile(file));
    SAY(hdfsCloseFile(fs, file));
    show_path(in("w"));
    TRY_OPEN(in("w"), O_RDWR);
    TRY_OPEN(in("w"), 3);
    GOT(file, hdfsOpenFile(fs, in("w"), O_WRONLY | O_APPEND, 0, 0, 0));
    SAY(hdfsTell(fs, file));
    SAY(hdfsWrite(fs, file, bytes + 5 + 3 * MIB, 100));
    SAY(hdfsTell(fs, file));
    SAY(hdfsCloseFile(fs, file));
    show_path(in("w"));
    TRY_OPEN(in("none"), O_WRONLY | O_APPEND);
    TRY_OPEN(in("w/below"), O_WRONLY);
    TRY_OPEN(base, O_WRONLY);
    fill(in("w"), 10, 3);
    show_path(in("w"));
    fill(in("deep/er/file"), 1, 1);
    fill(in("empty"), 0, 1);
    show_path(in("empty"));
    SAY(hdfsCloseFile(fs, NULL));
    struct hdfsStreamBuilder *builder;
    GOT(builder, hdfsStreamBuilderAlloc(fs, in("built"), O_RDONLY));
    SAY(hdfsStreamBuilderSetBufferSize(builder, 4096));
    SAY(hdfsStreamBuilderSetReplication(builder, 2));
    SAY(hdfsStreamBuilderSetDefaultBlockSize(builder, MIB));
    hdfsStreamBuilderFree(builder);
    GOT(builder, hdfsStreamBuilderAlloc(fs, in("built"), O_WRONLY));
    SAY(hdfsStreamBuilderSetBufferSize(builder, 4096));
    SAY(hdfsStreamBuilderSetReplication(builder, 2));
    SAY(hdfsStreamBuilderSetDefaultBlockSize(builder, MIB));
    GOT(file, hdfsStreamBuilderBuild(builder));
    SAY(hdfsWrite(fs, file, bytes, 3 * MIB / 2));
    SAY(hdfsCloseFile(fs, file));
    show_path(in("built"));
}

static void reading(void) {
    fill(in("r"), 5 * MIB + 77, 333333);
    TRY_OPEN(in("none"), O_RDONLY);
    TRY_OPEN(base, O_RDONLY);
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, in("r"), O_RDONLY, 0, 0, 0));
    SAY(hdfsFileIsOpenForWrite(file));
    SAY(hdfsFileIsOpenForRead(file));
    SAY(hdfsAvailable(fs, file));
    SAY(hdfsRead(fs, file, room, 10));
    SAY(memcmp(room, bytes, 10));
    SAY(hdfsTell(fs, file));
    SAY(hdfsRead(fs, file, room, 0));
    SAY(hdfsRead(fs, file, room, -1));
    SAY(hdfsPread(fs, file, MIB, room, 1000));
    SAY(memcmp(room, bytes + MIB, 1000));
    SAY(hdfsPread(fs, file, 5 * MIB + 70, room, 1000));
    SAY(hdfsPread(fs, file, 5 * MIB + 77, room, 10));
    SAY(hdfsPread(fs, file, 9 * MIB, room, 10));
    SAY(hdfsPread(fs, file, -1, room, 10));
    SAY(hdfsPread(fs, file, 0, room, -1));
    SAY(hdfsPreadFully(fs, file, 77, room, 5 * MIB));
    SAY(memcmp(room, bytes + 77, 5 * MIB));
    SAY(hdfsPreadFully(fs, file, 78, room, 5 * MIB));
    SAY(hdfsTell(fs, file));
    SAY(hdfsSeek(fs, file, 2 * MIB - 5));
    SAY(hdfsTell(fs, file));
    SAY(hdfsAvailable(fs, file));
    SAY(read_all(file, room, 8 * MIB));
    SAY(memcmp(room, bytes + 2 * MIB - 5, 3 * MIB + 82));
    SAY(hdfsRead(fs, file, room, 10));
    SAY(hdfsAvailable(fs, file));
    SAY(hdfsSeek(fs, file, 5 * MIB + 77));
    SAY(hdfsSeek(fs, file, 5 * MIB + 78));
    SAY(hdfsSeek(fs, file, -1));
    SAY(hdfsSeek(fs, file, 0));
    SAY(hdfsUnbufferFile(file));
    SAY(read_all(file, room, 8 * MIB));
    SAY(memcmp(room, bytes, 5 * MIB + 77));
    SAY(hdfsWrite(fs, file, bytes, 1));
    SAY(hdfsFlush(fs, file));
    SAY(hdfsHFlush(fs, file));
    SAY(hdfsHSync(fs, file));
    SAY(hdfsFileClearReadStatistics(file));
    SAY(hdfsSeek(fs, file, 0));
    SAY(read_all(file, room, 1000));
    struct hdfsReadStatistics *statistics;
    SAY(hdfsFileGetReadStatistics(file, &statistics));
    SAY(statistics->totalBytesRead);
    hdfsFileFreeReadStatistics(statistics);
    SAY(hdfsCloseFile(fs, file));
    GOT(file, hdfsOpenFile(fs, in("empty"), O_RDONLY, 0, 0, 0));
    SAY(hdfsRead(fs, file, room, 10));
    SAY(hdfsAvailable(fs, file));
    SAY(hdfsCloseFile(fs, file));
    struct hdfsHedgedReadMetrics *metrics;
    SAY(hdfsGetHedgedReadMetrics(fs, &metrics));
    SAY(metrics->hedgedReadOps);
    hdfsFreeHedgedReadMetrics(metrics);
}

static void zero_copy(void) {
    struct hadoopRzOptions *options;
    GOT(options, hadoopRzOptionsAlloc());
    SAY(hadoopRzOptionsSetSkipChecksum(options, 0));
    SAY(hadoopRzOptionsSetByteBufferPool(options, ELASTIC_BYTE_BUFFER_POOL_CLASS));
    SAY(hadoopRzOptionsSetByteBufferPool(options, "no/such/Pool"));
    SAY(hadoopRzOptionsSetByteBufferPool(options, ELASTIC_BYTE_BUFFER_POOL_CLASS));
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, in("r"), O_RDONLY, 0, 0, 0));
    struct hadoopRzBuffer *buffer;
    GOT(buffer, hadoopReadZero(file, options, 1000));
    if (buffer) {
        SAY(hadoopRzBufferLength(buffer) > 0);
        SAY(memcmp(hadoopRzBufferGet(buffer), bytes, (size_t)hadoopRzBufferLength(buffer)));
        SAY(hadoopRzBufferLength(buffer) == hdfsTell(fs, file));
        hadoopRzBufferFree(file, buffer);
    }
    SAY(hdfsSeek(fs, file, 5 * MIB + 77));
    GOT(buffer, hadoopReadZero(file, options, 1000));
    if (buffer) {
        SAY(hadoopRzBufferLength(buffer));
        SAY(hadoopRzBufferGet(buffer) == NULL);
        hadoopRzBufferFree(file, buffer);
    }
    SAY(hdfsCloseFile(fs, file));
    hadoopRzOptionsFree(options);
}

static void names(void) {
    SAY(hdfsExists(fs, in("none")));
    SAY(hdfsExists(fs, in("w")));
    SAY(hdfsExists(fs, base));
    SAY(hdfsExists(fs, NULL));
    SAY(hdfsExists(fs, ""));
    SAY(hdfsExists(fs, "hdfs://another.host.invalid:1/x"));
    SAY(hdfsCreateDirectory(fs, in("d/e")));
    SAY(hdfsCreateDirectory(fs, in("d/e")));
    SAY(hdfsCreateDirectory(fs, in("w")));
    SAY(hdfsCreateDirectory(fs, in("w/x")));
    show_path(in("d"));
    show_path(in("none"));
    show_list(in("d/e"));
    show_list(in("d"));
    show_list(in("w"));
    show_list(in("none"));
    show_list(base);
    SAY(hdfsRename(fs, in("none"), in("other")));
    SAY(hdfsRename(fs, in("w"), in("empty")));
    SAY(hdfsRename(fs, in("w"), in("d")));
    SAY(hdfsExists(fs, in("d/w")));
    SAY(hdfsRename(fs, in("d/w"), in("missing/w")));
    SAY(hdfsRename(fs, in("d/w"), in("w")));
    SAY(hdfsRename(fs, in("d"), in("d/e/f")));
    SAY(hdfsDelete(fs, in("none"), 0));
    SAY(hdfsDelete(fs, in("d"), 0));
    SAY(hdfsDelete(fs, in("d"), 1));
    SAY(hdfsExists(fs, in("d")));
    SAY(hdfsDelete(fs, in("empty"), 0));
}

static void attributes(void) {
    SAY(hdfsChmod(fs, in("w"), 0640));
    SAY(hdfsChmod(fs, in("none"), 0640));
    SAY(hdfsChown(fs, in("w"), "alice", "staff"));
    SAY(hdfsChown(fs, in("w"), NULL, NULL));
    SAY(hdfsChown(fs, in("w"), NULL, "guests"));
    SAY(hdfsChown(fs, in("w"), "bob", NULL));
    SAY(hdfsChown(fs, in("none"), "bob", NULL));
    SAY(hdfsUtime(fs, in("w"), 1000000000, 1100000000));
    hdfsFileInfo *info = hdfsGetPathInfo(fs, in("w"));
    SAY(info->mLastMod);
    SAY(info->mLastAccess);
    hdfsFreeFileInfo(info, 1);
    SAY(hdfsUtime(fs, in("w"), -1, 1200000000));
    info = hdfsGetPathInfo(fs, in("w"));
    SAY(info->mLastMod);
    SAY(info->mLastAccess);
    hdfsFreeFileInfo(info, 1);
    SAY(hdfsUtime(fs, in("none"), 1, 1));
    SAY(hdfsSetReplication(fs, in("w"), 2));
    SAY(hdfsSetReplication(fs, in("none"), 2));
    show_path(in("w"));
    show_hosts(in("r"), 0, 1);
    show_hosts(in("r"), 0, 8 * MIB);
    show_hosts(in("r"), MIB, 1);
    show_hosts(in("r"), 9 * MIB, 1);
    show_hosts(in("r"), -1, 1);
    show_hosts(in("none"), 0, 1);
    SAY(hdfsGetDefaultBlockSize(fs));
    SAY(hdfsGetDefaultBlockSizeAtPath(fs, in("none")));
    SAY(hdfsGetCapacity(fs) > 0);
    SAY(hdfsGetUsed(fs) > 0);
}

static void truncation(void) {
    fill(in("t"), 2 * MIB + 5, MIB);
    SAY(hdfsTruncateFile(fs, in("t"), 2 * MIB));
    show_path(in("t"));
    SAY(hdfsTruncateFile(fs, in("t"), 3 * MIB));
    SAY(hdfsTruncateFile(fs, in("none"), 0));
    SAY(hdfsTruncateFile(fs, in("t"), -1));
    SAY(hdfsTruncateFile(fs, in("t"), 0));
    show_path(in("t"));
}

static void directories(const char *host, tPort port) {
    char buffer[512];
    const char *got;
    GOT(got, hdfsGetWorkingDirectory(fs, buffer, sizeof buffer));
    printf("%s\n", got);
    GOT(got, hdfsGetWorkingDirectory(fs, buffer, 5));
    SAY(hdfsSetWorkingDirectory(fs, base));
    SAY(hdfsExists(fs, "r"));
    SAY(hdfsExists(fs, "./x/../r"));
    SAY(hdfsExists(fs, "none"));
    SAY(hdfsSetWorkingDirectory(fs, "deep"));
    /* Hadoop's library leaves out the URI of a directory that was set without one. */
    GOT(got, hdfsGetWorkingDirectory(fs, buffer, sizeof buffer));
    printf("%s\n", strstr(got, base));
    SAY(hdfsExists(fs, "er/file"));
    snprintf(buffer, sizeof buffer, "hdfs://%s:%d%s", host, port, in("r"));
    SAY(hdfsExists(fs, buffer));
}

static void copying(const char *local) {
    hdfsFS here;
    GOT(here, hdfsConnect(NULL, 0));
    SAY(hdfsCopy(here, local, fs, in("from-local")));
    show_path(in("from-local"));
    SAY(hdfsCopy(fs, in("r"), fs, in("copy")));
    show_path(in("copy"));
    SAY(hdfsCopy(fs, in("w"), fs, in("copy")));
    show_path(in("copy"));
    SAY(hdfsCreateDirectory(fs, in("into")));
    SAY(hdfsCopy(fs, in("w"), fs, in("into")));
    SAY(hdfsExists(fs, in("into/w")));
    SAY(hdfsCopy(fs, in("deep"), fs, in("tree")));
    SAY(hdfsExists(fs, in("tree/er/file")));
    SAY(hdfsCopy(fs, in("deep"), fs, in("deep/er/self")));
    SAY(hdfsCopy(fs, in("none"), fs, in("copy")));
    SAY(hdfsMove(fs, in("copy"), fs, in("moved")));
    SAY(hdfsExists(fs, in("copy")));
    SAY(hdfsExists(fs, in("moved")));
    SAY(hdfsMove(fs, in("tree"), fs, in("into")));
    SAY(hdfsExists(fs, in("into/tree/er/file")));
    SAY(hdfsDisconnect(here));
}

static void configuration(const char *host, tPort port) {
    char *value;
    SAY(hdfsConfGetStr("no.such.property", &value));
    SAY(value == NULL);
    SAY(hdfsConfGetStr("fs.defaultFS", &value));
    printf("%s\n", value);
    hdfsConfStrFree(value);
    int32_t number = 7;
    SAY(hdfsConfGetInt("no.such.property", &number));
    SAY(number);
    SAY(hdfsConfGetInt("io.file.buffer.size", &number));
    SAY(number);
    char name[300];
    snprintf(name, sizeof name, "hdfs://%s:%d", host, port);
    /* In Hadoop's library, the end of a shared instance ends the others. */
    hdfsFS again;
    GOT(again, hdfsConnect(name, port));
    GOT(again, hdfsConnectNewInstance("default", 0));
    SAY(hdfsExists(again, base));
    SAY(hdfsDisconnect(again));
    GOT(again, hdfsConnectAsUserNewInstance(name, 0, "alice"));
    SAY(hdfsExists(again, base));
    SAY(hdfsDisconnect(again));
    SAY(hdfsDisconnect(NULL));
    struct hdfsBuilder *builder;
    GOT(builder, hdfsNewBuilder());
    hdfsBuilderSetNameNode(builder, host);
    hdfsBuilderSetNameNodePort(builder, port);
    hdfsBuilderSetUserName(builder, "carol");
    hdfsBuilderSetForceNewInstance(builder);
    SAY(hdfsBuilderConfSetStr(builder, "dfs.blocksize", "2097152"));
    SAY(hdfsBuilderConfSetStr(builder, "dfs.replication", "2"));
    hdfsFS root = fs;
    GOT(fs, hdfsBuilderConnect(builder));
    SAY(hdfsGetDefaultBlockSize(fs));
    SAY(hdfsCreateDirectory(fs, in("not-hers")));
    SAY(hdfsDelete(fs, in("r"), 0));
    SAY(hdfsChmod(fs, in("r"), 0777));
    TRY_OPEN(in("closed/file"), O_RDONLY);
    char path[600];
    snprintf(path, sizeof path, "%s-carol", base);
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, path, O_WRONLY, 0, 0, 0));
    SAY(hdfsCloseFile(fs, file));
    show_path(path);
    SAY(hdfsDelete(fs, path, 0));
    SAY(hdfsDisconnect(fs));
    fs = root;
    GOT(builder, hdfsNewBuilder());
    hdfsFreeBuilder(builder);
}

static void failures(void) {
    const char *text;
    SAY(hdfsExists(fs, in("none/at/all")));
    hdfsFile file;
    GOT(file, hdfsOpenFile(fs, in("none"), O_RDONLY, 0, 0, 0));
    GOT(text, hdfsGetLastExceptionRootCause());
    SAY(strstr(text, "none") != NULL);
    GOT(text, hdfsGetLastExceptionStackTrace());
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    tPort port = (tPort)atoi(argv[2]);
    snprintf(base, sizeof base, "%s", argv[3]);
    bytes = malloc(8 * MIB);
    room = malloc(8 * MIB);
    for (size_t i = 0; i < 8 * MIB; i++) bytes[i] = (char)((i * 2654435761u) >> 13);
    GOT(fs, hdfsConnect(argv[1], port));
    if (!fs) return 1;
    SAY(hdfsCreateDirectory(fs, base));
    writing();
    reading();
    zero_copy();
    names();
    attributes();
    truncation();
    directories(argv[1], port);
    copying(argv[4]);
    SAY(hdfsCreateDirectory(fs, in("closed")));
    SAY(hdfsChmod(fs, in("closed"), 0700));
    configuration(argv[1], port);
    failures();
    SAY(hdfsDelete(fs, base, 1));
    SAY(hdfsDisconnect(fs));
    free(bytes);
    free(room);
    return 0;
}
