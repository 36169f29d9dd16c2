/* The part of QFS's C client interface that the plugin calls, for builds on hosts without QFS.
 *
 * Not QFS's own header: it declares the same names with the same types, written from the interface's
 * description, and holds nothing else of QFS. With -DQFS_HOME the plugin compiles against the header of
 * that installation, and the compiler finds any difference.
 *
 * Results are negative for errors: -errno, or QFS's own codes from -1000 downwards.
 *
 * Licence: Apache-2.0
 */
#ifndef STRAIT_QFS_STANDIN_H
#define STRAIT_QFS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QFS_MAX_FILENAME_LEN 256

struct QFS;      /* a connection to a metaserver; threads may share it */
struct qfs_iter; /* a listing, or the locations of a file */

/* Ways to spread a file over chunks. */
enum qfs_striper_type {
    KFS_STRIPED_FILE_TYPE_UNKNOWN = 0,
    KFS_STRIPED_FILE_TYPE_NONE = 1,
    KFS_STRIPED_FILE_TYPE_RS = 2
};

struct qfs_attr {
    const char filename[QFS_MAX_FILENAME_LEN];
    uid_t uid;
    gid_t gid;
    mode_t mode;
    int64_t id;
    struct timeval mtime, ctime, crtime;
    bool directory;
    size_t size;
    size_t chunks;
    size_t directories;
    int16_t replicas;
    int16_t stripes;
    int16_t recovery_stripes;
    enum qfs_striper_type striper_type;
    int32_t stripe_size;
    int8_t min_stier;
    int8_t max_stier;
};

struct QFS *qfs_connect(const char *host, int port);
void qfs_release(struct QFS *qfs);

/* Limits of each operation. Times are in seconds. */
void qfs_set_default_iotimeout(struct QFS *qfs, int nsecs);
void qfs_set_retrydelay(struct QFS *qfs, int nsecs);
void qfs_set_max_retryperop(struct QFS *qfs, int retries);
void qfs_set_fileattributerevalidatetime(struct QFS *qfs, int seconds);
void qfs_set_umask(struct QFS *qfs, mode_t mode);

int qfs_stat(struct QFS *qfs, const char *path, struct qfs_attr *attr);
int qfs_stat_fd(struct QFS *qfs, int fd, struct qfs_attr *attr);
ssize_t qfs_get_chunksize(struct QFS *qfs, const char *path);

/* The number of entries that were left before this one, or 0 after the last one. */
int qfs_readdir(struct QFS *qfs, const char *path, struct qfs_iter **iter, struct qfs_attr *attr);
/* One host of one chunk; `chunk` counts from the chunk of `offset`. 0 after the last host. */
int qfs_get_data_locations(struct QFS *qfs, const char *path, off_t offset, size_t len, struct qfs_iter **iter,
                           off_t *chunk, const char **locations);
void qfs_iter_free(struct qfs_iter **iter);

int qfs_open_file(struct QFS *qfs, const char *path, int oflags, uint16_t mode, const char *params);
int qfs_close(struct QFS *qfs, int fd);
ssize_t qfs_pread(struct QFS *qfs, int fd, void *buf, size_t len, off_t offset);
ssize_t qfs_pwrite(struct QFS *qfs, int fd, const void *buf, size_t len, off_t offset);
int qfs_sync(struct QFS *qfs, int fd);
int qfs_truncate(struct QFS *qfs, const char *path, off_t offset);

int qfs_mkdir(struct QFS *qfs, const char *path, mode_t mode);
int qfs_rmdir(struct QFS *qfs, const char *path);
int qfs_rmdirs(struct QFS *qfs, const char *path);
int qfs_remove(struct QFS *qfs, const char *path);
/* Replaces a file or an empty directory of the new name. */
int qfs_rename(struct QFS *qfs, const char *oldpath, const char *newpath);

int qfs_chmod(struct QFS *qfs, const char *path, mode_t mode);
int qfs_chown(struct QFS *qfs, const char *path, uint32_t user, uint32_t group);
int16_t qfs_set_replicationfactor(struct QFS *qfs, const char *path, int16_t replicas);
int qfs_get_userandgroupnames(struct QFS *qfs, uid_t uid, gid_t gid, char *user, size_t ulen, char *group,
                              size_t glen);
int qfs_get_userandgroupids(struct QFS *qfs, char *user, char *group, uid_t *uid, gid_t *gid);

#ifdef __cplusplus
}
#endif
#endif
