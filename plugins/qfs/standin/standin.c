/* A stand-in for QFS's C client: a directory of this host, for tests on hosts without QFS. It is not QFS.
 *
 *   cc -shared -fPIC -I include -DSTANDIN_ROOT='"/srv/data"' standin.c -o libqfsc.so
 *
 * It behaves as QFS's client where that differs from a local file system: written bytes wait in the client
 * until a sync or close; reads and writes may be short; listings contain `.` and `..`; directories open for
 * reading; qfs_rename replaces; and an iterator over the locations of an empty range crashes.
 *
 * Licence: Apache-2.0
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <kfs/c/qfs.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* QFS's chunks have 64 MiB. Small ones let short files have several. */
enum { CHUNK_BYTES = 64 << 10, MOST_AT_ONCE = 100000, WAITING_BYTES = 4096, MAX_FILES = 256 };
enum { DEFAULT_REPLICAS = 2, MAX_RULES = 4096, WALK_DESCRIPTORS = 32, NAME_BUFFER_BYTES = 16384 };
static const char RULE_OF_EMPTY_RANGES[] = "stand-in: QFS's client crashes here, on an empty range\n";

struct QFS {
    int unused;
};

struct qfs_iter {
    DIR *directory;       /* of a listing */
    int left;             /* entries, or hosts of all chunks */
    int chunks, replicas; /* of locations */
    char path[PATH_MAX];
};

/* Bytes wait here as in the client of QFS; a file isn't used by two threads. */
static struct open_file {
    int used, fd;
    off_t begin; /* of the waiting bytes */
    size_t waiting;
    char bytes[WAITING_BYTES];
} files[MAX_FILES];
static struct {
    ino_t inode;
    int16_t replicas;
} rules[MAX_RULES];
static int rule_count;
static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;

static void host_path(const char *path, char full[PATH_MAX]) {
    if (snprintf(full, PATH_MAX, "%s%s", STANDIN_ROOT, path) >= PATH_MAX) abort();
}

struct QFS *qfs_connect(const char *host, int port) {
    (void)host;
    if (port <= 0) return NULL;
    fprintf(stderr, "This is a stand-in on the directory %s, not the real QFS.\n", STANDIN_ROOT);
    return calloc(1, sizeof(struct QFS));
}

void qfs_release(struct QFS *qfs) {
    free(qfs);
}

void qfs_set_default_iotimeout(struct QFS *qfs, int nsecs) {
    (void)qfs, (void)nsecs;
}

void qfs_set_retrydelay(struct QFS *qfs, int nsecs) {
    (void)qfs, (void)nsecs;
}

void qfs_set_max_retryperop(struct QFS *qfs, int retries) {
    (void)qfs, (void)retries;
}

void qfs_set_fileattributerevalidatetime(struct QFS *qfs, int seconds) {
    (void)qfs, (void)seconds;
}

void qfs_set_umask(struct QFS *qfs, mode_t mode) {
    (void)qfs, (void)mode; /* files get their modes by chmod */
}

/* ------------------------------------------------------------------ facts */

static int16_t replicas_of(ino_t inode, int16_t set) {
    int16_t found = DEFAULT_REPLICAS;
    pthread_mutex_lock(&tables);
    int at = 0;
    while (at < rule_count && rules[at].inode != inode) at++;
    if (set > 0) {
        if (at == MAX_RULES) abort();
        if (at == rule_count) rule_count++;
        rules[at].inode = inode;
        rules[at].replicas = set;
    }
    if (at < rule_count) found = rules[at].replicas;
    pthread_mutex_unlock(&tables);
    return found;
}

static void describe(const struct stat *from, const char *name, struct qfs_attr *attr) {
    memset(attr, 0, sizeof *attr);
    snprintf((char *)attr->filename, sizeof attr->filename, "%s", name);
    attr->uid = from->st_uid;
    attr->gid = from->st_gid;
    attr->mode = from->st_mode & 07777;
    attr->id = (int64_t)from->st_ino;
    attr->mtime.tv_sec = from->st_mtim.tv_sec;
    attr->mtime.tv_usec = from->st_mtim.tv_nsec / 1000;
    attr->directory = S_ISDIR(from->st_mode);
    attr->size = attr->directory ? 0 : (size_t)from->st_size;
    attr->replicas = attr->directory ? 0 : replicas_of(from->st_ino, 0);
    attr->striper_type = KFS_STRIPED_FILE_TYPE_NONE;
}

int qfs_stat(struct QFS *qfs, const char *path, struct qfs_attr *attr) {
    (void)qfs;
    char full[PATH_MAX];
    struct stat found;
    host_path(path, full);
    if (stat(full, &found) != 0) return -errno;
    describe(&found, strrchr(path, '/') + 1, attr);
    return 0;
}

int qfs_stat_fd(struct QFS *qfs, int fd, struct qfs_attr *attr) {
    (void)qfs;
    struct stat found;
    if (fstat(files[fd].fd, &found) != 0) return -errno;
    describe(&found, "", attr);
    return 0;
}

ssize_t qfs_get_chunksize(struct QFS *qfs, const char *path) {
    (void)qfs, (void)path;
    return CHUNK_BYTES;
}

static int count_entries(DIR *directory) {
    int count = 0;
    while (readdir(directory) != NULL) count++;
    rewinddir(directory);
    return count;
}

int qfs_readdir(struct QFS *qfs, const char *path, struct qfs_iter **iter, struct qfs_attr *attr) {
    (void)qfs;
    if (*iter == NULL) {
        char full[PATH_MAX];
        host_path(path, full);
        DIR *directory = opendir(full);
        if (directory == NULL) return -errno;
        *iter = calloc(1, sizeof **iter);
        if (*iter == NULL) abort();
        (*iter)->directory = directory;
        (*iter)->left = count_entries(directory);
    }
    struct dirent *entry;
    while ((entry = readdir((*iter)->directory)) != NULL) {
        struct stat found;
        if (fstatat(dirfd((*iter)->directory), entry->d_name, &found, 0) != 0) continue;
        describe(&found, entry->d_name, attr);
        return (*iter)->left > 1 ? (*iter)->left-- : 1;
    }
    memset((void *)attr, 0, sizeof *attr);
    return 0;
}

int qfs_get_data_locations(struct QFS *qfs, const char *path, off_t offset, size_t len, struct qfs_iter **iter,
                           off_t *chunk, const char **locations) {
    static const char *const HOSTS[] = {"chunk-1.stand-in", "chunk-2.stand-in", "chunk-3.stand-in"};
    if (*iter == NULL) {
        struct qfs_attr found;
        int looked = qfs_stat(qfs, path, &found);
        if (looked < 0) return looked;
        if (offset < 0 || (size_t)offset >= found.size || len == 0) {
            fputs(RULE_OF_EMPTY_RANGES, stderr);
            abort();
        }
        *iter = calloc(1, sizeof **iter);
        if (*iter == NULL) abort();
        size_t end = len < found.size - (size_t)offset ? (size_t)offset + len : found.size;
        (*iter)->chunks = (int)((end - 1) / CHUNK_BYTES - (size_t)offset / CHUNK_BYTES) + 1;
        (*iter)->replicas = found.replicas < 3 ? found.replicas : 3;
        (*iter)->left = (*iter)->chunks * (*iter)->replicas;
    }
    struct qfs_iter *at = *iter;
    if (at->left == 0) return 0;
    int taken = at->chunks * at->replicas - at->left--;
    *chunk = taken / at->replicas;
    *locations = HOSTS[taken % at->replicas];
    return at->chunks - (int)*chunk;
}

void qfs_iter_free(struct qfs_iter **iter) {
    if (*iter == NULL) return;
    if ((*iter)->directory != NULL) closedir((*iter)->directory);
    free(*iter);
    *iter = NULL;
}

/* ------------------------------------------------------------------ bytes */

int qfs_open_file(struct QFS *qfs, const char *path, int oflags, uint16_t mode, const char *params) {
    (void)qfs, (void)params;
    if (oflags & O_APPEND) abort(); /* record appends */
    char full[PATH_MAX];
    struct stat before;
    host_path(path, full);
    int is_new = stat(full, &before) != 0;
    int fd = open(full, oflags | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    struct stat found;
    if (is_new && (fchmod(fd, mode) != 0 || fstat(fd, &found) != 0)) abort();
    if (is_new) replicas_of(found.st_ino, DEFAULT_REPLICAS); /* the number may have been an earlier file's */
    pthread_mutex_lock(&tables);
    int at = 0;
    while (at < MAX_FILES && files[at].used) at++;
    if (at < MAX_FILES) {
        files[at].used = 1;
        files[at].fd = fd;
        files[at].waiting = 0;
    }
    pthread_mutex_unlock(&tables);
    if (at < MAX_FILES) return at;
    close(fd);
    return -EMFILE;
}

static int send_waiting(struct open_file *file) {
    size_t size = file->waiting;
    file->waiting = 0;
    if (size == 0) return 0;
    ssize_t wrote = pwrite(file->fd, file->bytes, size, file->begin);
    return wrote == (ssize_t)size ? 0 : wrote < 0 ? -errno : -ENOSPC;
}

int qfs_close(struct QFS *qfs, int fd) {
    (void)qfs;
    int sent = send_waiting(&files[fd]);
    close(files[fd].fd);
    pthread_mutex_lock(&tables);
    files[fd].used = 0;
    pthread_mutex_unlock(&tables);
    return sent;
}

ssize_t qfs_pread(struct QFS *qfs, int fd, void *buf, size_t len, off_t offset) {
    (void)qfs;
    ssize_t got = pread(files[fd].fd, buf, len < MOST_AT_ONCE ? len : MOST_AT_ONCE, offset);
    return got < 0 ? -errno : got;
}

ssize_t qfs_pwrite(struct QFS *qfs, int fd, const void *buf, size_t len, off_t offset) {
    (void)qfs;
    struct open_file *file = &files[fd];
    if (file->waiting > 0 && file->begin + (off_t)file->waiting != offset) {
        int sent = send_waiting(file);
        if (sent < 0) return sent;
    }
    if (file->waiting == 0) file->begin = offset;
    size_t room = WAITING_BYTES - file->waiting;
    size_t size = len < room ? len : room;
    memcpy(file->bytes + file->waiting, buf, size);
    file->waiting += size;
    int sent = file->waiting == WAITING_BYTES ? send_waiting(file) : 0;
    return sent < 0 ? sent : (ssize_t)size;
}

int qfs_sync(struct QFS *qfs, int fd) {
    (void)qfs;
    return send_waiting(&files[fd]);
}

int qfs_truncate(struct QFS *qfs, const char *path, off_t offset) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return truncate(full, offset) == 0 ? 0 : -errno;
}

/* ------------------------------------------------------------------ names */

int qfs_mkdir(struct QFS *qfs, const char *path, mode_t mode) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return mkdir(full, 0700) == 0 && chmod(full, mode) == 0 ? 0 : -errno;
}

int qfs_rmdir(struct QFS *qfs, const char *path) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return rmdir(full) == 0 ? 0 : -errno;
}

static int remove_entry(const char *path, const struct stat *found, int type, struct FTW *walk) {
    (void)found, (void)type, (void)walk;
    return remove(path);
}

int qfs_rmdirs(struct QFS *qfs, const char *path) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return nftw(full, remove_entry, WALK_DESCRIPTORS, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -errno;
}

int qfs_remove(struct QFS *qfs, const char *path) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return unlink(full) == 0 ? 0 : -errno;
}

int qfs_rename(struct QFS *qfs, const char *oldpath, const char *newpath) {
    (void)qfs;
    char from[PATH_MAX], to[PATH_MAX];
    host_path(oldpath, from);
    host_path(newpath, to);
    return rename(from, to) == 0 ? 0 : -errno;
}

int qfs_chmod(struct QFS *qfs, const char *path, mode_t mode) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return chmod(full, mode) == 0 ? 0 : -errno;
}

int qfs_chown(struct QFS *qfs, const char *path, uint32_t user, uint32_t group) {
    (void)qfs;
    char full[PATH_MAX];
    host_path(path, full);
    return chown(full, user, group) == 0 ? 0 : -errno;
}

int16_t qfs_set_replicationfactor(struct QFS *qfs, const char *path, int16_t replicas) {
    struct qfs_attr found;
    int looked = qfs_stat(qfs, path, &found);
    if (looked < 0) return (int16_t)looked;
    if (replicas <= 0) return -EINVAL;
    replicas_of((ino_t)found.id, replicas);
    return replicas;
}

int qfs_get_userandgroupnames(struct QFS *qfs, uid_t uid, gid_t gid, char *user, size_t ulen, char *group,
                              size_t glen) {
    (void)qfs;
    char buffer[NAME_BUFFER_BYTES];
    struct passwd one, *known_user = NULL;
    struct group other, *known_group = NULL;
    getpwuid_r(uid, &one, buffer, sizeof buffer, &known_user);
    snprintf(user, ulen, "%s", known_user == NULL ? "" : one.pw_name);
    getgrgid_r(gid, &other, buffer, sizeof buffer, &known_group);
    snprintf(group, glen, "%s", known_group == NULL ? "" : other.gr_name);
    return 0;
}

int qfs_get_userandgroupids(struct QFS *qfs, char *user, char *group, uid_t *uid, gid_t *gid) {
    (void)qfs;
    char buffer[NAME_BUFFER_BYTES];
    struct passwd one, *known_user = NULL;
    struct group other, *known_group = NULL;
    getpwnam_r(user, &one, buffer, sizeof buffer, &known_user);
    if (known_user == NULL) return -EINVAL;
    *uid = one.pw_uid;
    getgrnam_r(group, &other, buffer, sizeof buffer, &known_group);
    if (known_group == NULL) return -EINVAL;
    *gid = other.gr_gid;
    return 0;
}
