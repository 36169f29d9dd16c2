/* A libhdfs with a directory /full, which has a file, and one /empty. With -DARITY=2 it is of Hadoop 0.20: hdfsDelete
 * has two parameters, and removes trees. With -DARITY=3 it is of a later version. hdfsGetUsed returns the number of
 * calls of hdfsDelete, and hdfsGetCapacity 1 if the last one was recursive. */
#define hdfsDelete hdfsDeleteOfTheHeader
#include "hdfs.h"
#undef hdfsDelete

#include <stdlib.h>
#include <string.h>

static int connection, full = 1, empty = 1;
static long calls, was_recursive;

hdfsFS hdfsConnect(const char *host, tPort port) {
    errno = EINVAL;
    return strcmp(host, "nn") == 0 && port == 9000 ? (hdfsFS)&connection : NULL;
}

int hdfsDisconnect(hdfsFS fs) {
    return fs == NULL ? -1 : 0;
}

static hdfsFileInfo *entry(const char *path, tObjectKind kind) {
    hdfsFileInfo *info = calloc(1, sizeof *info);
    info->mKind = kind;
    info->mName = strdup(path);
    info->mBlockSize = 1;
    return info;
}

hdfsFileInfo *hdfsGetPathInfo(hdfsFS fs, const char *path) {
    (void)fs;
    if (full && strcmp(path, "/full/f") == 0) return entry(path, kObjectKindFile);
    if ((full && strcmp(path, "/full") == 0) || (empty && strcmp(path, "/empty") == 0))
        return entry(path, kObjectKindDirectory);
    errno = ENOENT;
    return NULL;
}

hdfsFileInfo *hdfsListDirectory(hdfsFS fs, const char *path, int *count) {
    (void)fs;
    *count = full && strcmp(path, "/full") == 0;
    return *count ? entry("/full/f", kObjectKindFile) : NULL;
}

void hdfsFreeFileInfo(hdfsFileInfo *info, int count) {
    for (int at = 0; at < count; at++) free(info[at].mName);
    free(info);
}

static int delete_tree(const char *path, int recursive) {
    calls++;
    was_recursive = recursive;
    if (full && !recursive && strcmp(path, "/full") == 0) {
        errno = ENOTEMPTY;
        return -1;
    }
    if (strcmp(path, "/full") == 0) full = 0;
    if (strcmp(path, "/empty") == 0) empty = 0;
    return 0;
}

#if ARITY == 2
int hdfsDelete(hdfsFS fs, const char *path) {
    (void)fs;
    return delete_tree(path, 1);
}
#else
int hdfsDelete(hdfsFS fs, const char *path, int recursive) {
    (void)fs;
    return delete_tree(path, recursive);
}
#endif

tOffset hdfsGetUsed(hdfsFS fs) {
    (void)fs;
    return calls;
}

tOffset hdfsGetCapacity(hdfsFS fs) {
    (void)fs;
    return was_recursive;
}

/* The others are needed, and not called here. */
hdfsFile hdfsOpenFile(hdfsFS fs, const char *path, int flags, int size, short replication, tSize block) {
    (void)fs, (void)path, (void)flags, (void)size, (void)replication, (void)block;
    return NULL;
}

int hdfsCloseFile(hdfsFS fs, hdfsFile file) {
    (void)fs, (void)file;
    return -1;
}

tSize hdfsPread(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length) {
    (void)fs, (void)file, (void)position, (void)buffer, (void)length;
    return -1;
}

tSize hdfsWrite(hdfsFS fs, hdfsFile file, const void *buffer, tSize length) {
    (void)fs, (void)file, (void)buffer, (void)length;
    return -1;
}

int hdfsFlush(hdfsFS fs, hdfsFile file) {
    (void)fs, (void)file;
    return -1;
}

tOffset hdfsTell(hdfsFS fs, hdfsFile file) {
    (void)fs, (void)file;
    return -1;
}

int hdfsRename(hdfsFS fs, const char *from, const char *to) {
    (void)fs, (void)from, (void)to;
    return -1;
}

int hdfsCreateDirectory(hdfsFS fs, const char *path) {
    (void)fs, (void)path;
    return -1;
}
