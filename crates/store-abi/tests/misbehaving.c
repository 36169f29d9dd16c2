/* A libhdfs that misbehaves. The host and the path say how. */
#include "hdfs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_key_t at_end;
static int connection;

static void destroy(void *value) {
    (void)value;
}

hdfsFS hdfsConnect(const char *host, tPort port) {
    (void)port;
    if (strcmp(host, "refuses") != 0) return (hdfsFS)&connection;
    /* As Hadoop's: each thread that called it has a destructor of the library. */
    pthread_key_create(&at_end, destroy);
    pthread_setspecific(at_end, &connection);
    errno = ECONNREFUSED;
    return NULL;
}

int hdfsDisconnect(hdfsFS fs) {
    return fs == NULL ? -1 : 0;
}

hdfsFileInfo *hdfsGetPathInfo(hdfsFS fs, const char *path) {
    hdfsFileInfo *info = calloc(1, sizeof *info);
    (void)fs;
    info->mKind = strcmp(path, "/f") == 0 ? kObjectKindFile : kObjectKindDirectory;
    info->mSize = 4096;
    info->mBlockSize = 1;
    return info;
}

hdfsFileInfo *hdfsListDirectory(hdfsFS fs, const char *path, int *count) {
    hdfsFileInfo *info = hdfsGetPathInfo(fs, path);
    info->mName = strcmp(path, "/empty") == 0 ? "" : "hdfs://host:1/..";
    *count = 1;
    return info;
}

void hdfsFreeFileInfo(hdfsFileInfo *info, int count) {
    (void)count;
    free(info);
}

hdfsFile hdfsOpenFile(hdfsFS fs, const char *path, int flags, int size, short replication, tSize block) {
    (void)path, (void)flags, (void)size, (void)replication, (void)block;
    return (hdfsFile)fs;
}

int hdfsCloseFile(hdfsFS fs, hdfsFile file) {
    (void)fs, (void)file;
    return 0;
}

/* Tells of bytes that it didn't write. */
tSize hdfsPread(hdfsFS fs, hdfsFile file, tOffset position, void *buffer, tSize length) {
    (void)fs, (void)file, (void)position, (void)buffer;
    return length;
}

/* The others are needed, and not called here. */
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

int hdfsDelete(hdfsFS fs, const char *path, int recursive) {
    (void)fs, (void)path, (void)recursive;
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

tOffset hdfsGetCapacity(hdfsFS fs) {
    (void)fs;
    return -1;
}

tOffset hdfsGetUsed(hdfsFS fs) {
    (void)fs;
    return -1;
}
