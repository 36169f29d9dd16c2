/* QFS, the Quantcast File System, as a file system for Strait, by its C client. QFS is the successor of
 * CloudStore, also called KFS.
 *
 *   cmake -S plugins/qfs -B qfs-plugin -DQFS_HOME=/opt/qfs && cmake --build qfs-plugin
 *   strait ls --plugin qfs=$PWD/qfs-plugin/libstrait_qfs.so plugin:qfs://METASERVER:20000/
 *
 * Option: root, a directory of QFS. It acts as the user of its process.
 *
 * Licence: Apache-2.0
 */
#define _GNU_SOURCE
#include "strait_store.h"

#include <errno.h>
#include <fcntl.h>
#include <kfs/c/qfs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { METASERVER_PORT = 20000, MAX_HOSTS = 16, HOST_BYTES = 256 };
/* A call has to return within 30 s. The client's own defaults repeat an operation for minutes. */
enum { IO_TIMEOUT_S = 8, RETRIES = 2, RETRY_DELAY_S = 1, RECOVERY_MS = 30000 };
/* QFS's own errors, beyond those of errno. */
enum { BAD_VERSION = 1000, LEASE_EXPIRED = 1001, BAD_CHECKSUM = 1002, DATA_UNAVAILABLE = 1003, SERVER_BUSY = 1004,
       ALLOCATION_FAILED = 1005 };

typedef struct file file;

typedef struct store {
    struct QFS *qfs;
    pthread_mutex_t writing; /* held while a writer begins or ends */
    file *writers;
    pthread_mutex_t naming; /* held while a new name is looked for and given: qfs_rename replaces */
    char root[PATH_MAX];    /* without a slash at its end */
} store;

typedef struct listing {
    store *in;
    struct qfs_iter *iter;
    struct qfs_attr next;
    int left; /* entries, with `next`; 0: no more */
    char path[PATH_MAX];
} listing;

struct file {
    store *in;
    int fd; /* negative: closed */
    off_t position;
    int64_t id; /* of a writer's file; 0: a reader */
    file *next; /* of the store's writers */
};

static int32_t kind_of(int number) {
    switch (number) {
    case ENOENT: return STRAIT_NOT_FOUND;
    case EEXIST: return STRAIT_ALREADY_EXISTS;
    case ENOTDIR: return STRAIT_NOT_A_DIRECTORY;
    case EISDIR: return STRAIT_IS_A_DIRECTORY;
    case ENOTEMPTY: return STRAIT_NOT_EMPTY;
    case EACCES:
    case EPERM:
    case EROFS: return STRAIT_PERMISSION_DENIED;
    case EINVAL:
    case ENAMETOOLONG: return STRAIT_INVALID_ARGUMENT;
    case EBUSY:
    case EAGAIN:
    case LEASE_EXPIRED:
    case SERVER_BUSY: return STRAIT_BUSY;
    case ENOSPC:
    case EDQUOT:
    case ALLOCATION_FAILED: return STRAIT_NO_SPACE;
    case ETIMEDOUT: return STRAIT_TIMED_OUT;
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EIO:
    case BAD_VERSION:
    case DATA_UNAVAILABLE: return STRAIT_UNAVAILABLE;
    case BAD_CHECKSUM: return STRAIT_CORRUPT;
    case ENOSYS:
    case EOPNOTSUPP: return STRAIT_UNSUPPORTED;
    default: return STRAIT_INTERNAL;
    }
}

static int32_t fail(int32_t kind, const char *why, strait_error *error) {
    snprintf(error->message, sizeof error->message, "%s", why);
    return kind;
}

/* The error of a negative result. qfs_strerror takes other arguments in each version, so this doesn't call it. */
static int32_t failed(int64_t result, strait_error *error) {
    int number = result < 0 && result > -INT_MAX ? (int)-result : EIO;
    const char *why = number == BAD_VERSION         ? "the chunk's version has changed"
                      : number == LEASE_EXPIRED     ? "the chunk's lease has expired"
                      : number == BAD_CHECKSUM      ? "the chunk's checksum is wrong"
                      : number == DATA_UNAVAILABLE  ? "no chunk server has the data"
                      : number == SERVER_BUSY       ? "the server is busy"
                      : number == ALLOCATION_FAILED ? "no chunk server accepts a chunk"
                                                    : strerrordesc_np(number);
    if (why != NULL) return fail(kind_of(number), why, error);
    snprintf(error->message, sizeof error->message, "QFS's error %d", number);
    return STRAIT_INTERNAL;
}

/* The path in QFS; the plugin's caller has normalised it. */
static int32_t qfs_path(const store *in, const char *path, char full[PATH_MAX], strait_error *error) {
    const char *rest = strcmp(path, "/") == 0 && in->root[0] != 0 ? "" : path;
    int length = snprintf(full, PATH_MAX, "%s%s", in->root, rest);
    if (length < 0 || length >= PATH_MAX) return fail(STRAIT_INVALID_ARGUMENT, "the path is too long", error);
    return STRAIT_OK;
}

#define QFS_PATH(full, in, path)                          \
    char full[PATH_MAX];                                  \
    do {                                                  \
        int32_t kind_ = qfs_path((in), (path), full, error); \
        if (kind_ != STRAIT_OK) return kind_;             \
    } while (0)

/* ------------------------------------------------------------------ the store */

static int32_t open_store(const char *uri, const char *const *options, void **opened, strait_error *error) {
    char host[HOST_BYTES] = "localhost";
    const char *root = "", *authority = strstr(uri, "://");
    int port = METASERVER_PORT;
    if (authority != NULL && authority[3] != 0) snprintf(host, sizeof host, "%s", authority + 3);
    char *colon = strrchr(host, ':');
    if (colon != NULL) {
        port = atoi(colon + 1);
        *colon = 0;
    }
    for (; options[0] != NULL; options += 2)
        if (strcmp(options[0], "root") == 0) root = options[1];
    store *own = calloc(1, sizeof *own);
    if (own == NULL) return fail(STRAIT_NO_SPACE, "no memory", error);
    snprintf(own->root, sizeof own->root, "%s", root);
    size_t length = strlen(own->root);
    while (length > 0 && own->root[length - 1] == '/') own->root[--length] = 0;
    own->qfs = qfs_connect(host, port);
    struct qfs_attr found;
    int looked = -ENOTCONN;
    if (own->qfs != NULL) {
        qfs_set_default_iotimeout(own->qfs, IO_TIMEOUT_S);
        qfs_set_max_retryperop(own->qfs, RETRIES);
        qfs_set_retrydelay(own->qfs, RETRY_DELAY_S);
        /* Else a length of half a minute ago hides the bytes of another client. */
        qfs_set_fileattributerevalidatetime(own->qfs, 0);
        qfs_set_umask(own->qfs, 0);
        /* The first call that needs the metaserver. */
        looked = qfs_stat(own->qfs, length == 0 ? "/" : own->root, &found);
    }
    if (looked < 0 || !found.directory) {
        strait_error why = {""};
        int32_t kind = looked < 0 ? failed(looked, &why) : fail(STRAIT_NOT_A_DIRECTORY, "it is a file", &why);
        snprintf(error->message, sizeof error->message, "can't open %.100s at the metaserver %.200s:%d: %.100s",
                 length == 0 ? "/" : own->root, host, port, why.message);
        if (own->qfs != NULL) qfs_release(own->qfs);
        free(own);
        return kind;
    }
    pthread_mutex_init(&own->naming, NULL);
    pthread_mutex_init(&own->writing, NULL);
    *opened = own;
    return STRAIT_OK;
}

static void close_store(void *opened) {
    store *own = opened;
    qfs_release(own->qfs);
    pthread_mutex_destroy(&own->naming);
    pthread_mutex_destroy(&own->writing);
    free(own);
}

static uint32_t capabilities(void *opened) {
    (void)opened;
    /* No access times, capacity or checksum in the C client. QFS refuses no second writer; this plugin does. */
    uint32_t all = STRAIT_APPEND | STRAIT_TRUNCATE | STRAIT_RENAME_REPLACE | STRAIT_ATOMIC_RENAME |
                   STRAIT_PERMISSIONS | STRAIT_REPLICATION | STRAIT_BLOCK_LOCATIONS |
                   STRAIT_VISIBLE_WHILE_WRITTEN | STRAIT_EXCLUSIVE_WRITER;
    return geteuid() == 0 ? all | STRAIT_OWNERSHIP : all;
}

/* An abandoned writer's bytes leave the client at its release. */
static uint32_t recovery_ms(void *opened) {
    (void)opened;
    return RECOVERY_MS;
}

/* ------------------------------------------------------------------ facts */

static void describe(store *in, const struct qfs_attr *from, uint64_t block_size, strait_status *status) {
    memset(status, 0, sizeof *status);
    status->directory = from->directory;
    if (!from->directory) {
        status->length = from->size;
        status->block_size = block_size;
        status->replication = from->replicas > 0 ? (uint16_t)from->replicas : 1;
    }
    status->modified_ms = from->mtime.tv_sec * 1000LL + from->mtime.tv_usec / 1000;
    status->permission = from->mode & 07777;
    int named = qfs_get_userandgroupnames(in->qfs, from->uid, from->gid, status->owner, sizeof status->owner,
                                          status->group, sizeof status->group);
    if (named < 0 || status->owner[0] == 0) snprintf(status->owner, sizeof status->owner, "%u", from->uid);
    if (named < 0 || status->group[0] == 0) snprintf(status->group, sizeof status->group, "%u", from->gid);
}

static uint64_t chunk_bytes(store *in, const char *full) {
    ssize_t size = qfs_get_chunksize(in->qfs, full);
    return size > 0 ? (uint64_t)size : 64 << 20;
}

static int32_t get_status(void *opened, const strait_caller *caller, const char *path, strait_status *status,
                          strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    int looked = qfs_stat(in->qfs, full, &found);
    if (looked < 0) return failed(looked, error);
    describe(in, &found, chunk_bytes(in, full), status);
    return STRAIT_OK;
}

static int32_t list_open(void *opened, const strait_caller *caller, const char *path, void **into,
                         strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    int looked = qfs_stat(in->qfs, full, &found);
    if (looked < 0) return failed(looked, error);
    if (!found.directory) return fail(STRAIT_NOT_A_DIRECTORY, "it is a file", error);
    listing *own = calloc(1, sizeof *own);
    if (own == NULL) return fail(STRAIT_NO_SPACE, "no memory", error);
    own->in = in;
    snprintf(own->path, sizeof own->path, "%s", full);
    /* The first call fetches the whole listing. */
    own->left = qfs_readdir(in->qfs, full, &own->iter, &own->next);
    if (own->left < 0) {
        int32_t kind = failed(own->left, error);
        qfs_iter_free(&own->iter);
        free(own);
        return kind;
    }
    *into = own;
    return STRAIT_OK;
}

/* Whether a name is UTF-8, as far as its lead and continuation bytes tell. */
static int is_utf8(const char *name) {
    const unsigned char *at = (const unsigned char *)name;
    while (*at != 0) {
        int more = *at < 0x80 ? 0 : (*at >> 5) == 6 ? 1 : (*at >> 4) == 14 ? 2 : (*at >> 3) == 30 ? 3 : -1;
        if (more < 0) return 0;
        for (at++; more > 0; more--, at++)
            if ((*at >> 6) != 2) return 0;
    }
    return 1;
}

static int32_t list_next(void *opened, char name[STRAIT_NAME_BYTES], strait_status *status,
                         strait_error *error) {
    listing *own = opened;
    while (own->left > 0) {
        const char *found = own->next.filename;
        int is_entry = found[0] != 0 && strcmp(found, ".") != 0 && strcmp(found, "..") != 0 && is_utf8(found);
        if (is_entry) {
            snprintf(name, STRAIT_NAME_BYTES, "%s", found);
            describe(own->in, &own->next, chunk_bytes(own->in, own->path), status);
        }
        own->left = qfs_readdir(own->in->qfs, own->path, &own->iter, &own->next);
        if (own->left < 0) return failed(own->left, error);
        if (is_entry) return STRAIT_OK;
    }
    return STRAIT_END;
}

static void list_close(void *opened) {
    qfs_iter_free(&((listing *)opened)->iter);
    free(opened);
}

/* ------------------------------------------------------------------ bytes */

static int32_t keep(store *in, int fd, off_t position, void **into, strait_error *error) {
    file *own = calloc(1, sizeof *own);
    if (own == NULL) {
        qfs_close(in->qfs, fd);
        return fail(STRAIT_NO_SPACE, "no memory", error);
    }
    *own = (file){.in = in, .fd = fd, .position = position};
    *into = own;
    return STRAIT_OK;
}

/* Fails if a writer of this process has the file. Its late bytes would replace those of another one. */
static int32_t check_unwritten(const store *in, int64_t id, strait_error *error) {
    for (const file *writer = in->writers; writer != NULL; writer = writer->next)
        if (writer->id == id) return fail(STRAIT_BUSY, "another writer has the file open", error);
    return STRAIT_OK;
}

/* As keep, for a writer; the caller holds `writing`. */
static int32_t keep_writer(store *in, int fd, off_t position, void **into, strait_error *error) {
    struct qfs_attr found;
    int looked = qfs_stat_fd(in->qfs, fd, &found);
    if (looked < 0) {
        qfs_close(in->qfs, fd);
        return failed(looked, error);
    }
    int32_t kind = keep(in, fd, position, into, error);
    if (kind != STRAIT_OK) return kind;
    file *own = *into;
    own->id = found.id;
    own->next = in->writers;
    in->writers = own;
    return STRAIT_OK;
}

/* Closes a file, and lets another writer have it. */
static int close_descriptor(file *own) {
    int closed = qfs_close(own->in->qfs, own->fd);
    own->fd = -1;
    if (own->id == 0) return closed;
    pthread_mutex_lock(&own->in->writing);
    file **at = &own->in->writers;
    while (*at != own) at = &(*at)->next;
    *at = own->next;
    pthread_mutex_unlock(&own->in->writing);
    return closed;
}

static int32_t open_reader(void *opened, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    int fd = qfs_open_file(in->qfs, full, O_RDONLY, 0, "");
    if (fd < 0) return failed(fd, error);
    struct qfs_attr found;
    int looked = qfs_stat_fd(in->qfs, fd, &found);
    /* QFS opens directories, too. */
    if (looked < 0 || found.directory) {
        qfs_close(in->qfs, fd);
        return looked < 0 ? failed(looked, error) : fail(STRAIT_IS_A_DIRECTORY, "it is a directory", error);
    }
    *length = found.size;
    return keep(in, fd, 0, reader, error);
}

static int32_t read_at(void *opened, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    file *own = opened;
    *got = 0;
    while (*got < size) {
        ssize_t read = qfs_pread(own->in->qfs, own->fd, (char *)into + *got, size - *got, (off_t)(offset + *got));
        if (read < 0) return failed(read, error);
        if (read == 0) break;
        *got += (size_t)read;
    }
    return STRAIT_OK;
}

static void release_file(void *opened) {
    file *own = opened;
    if (own->fd >= 0) close_descriptor(own);
    free(own);
}

/* Makes one directory, and takes one that is there. */
static int32_t make_directory(store *in, const char *full, mode_t mode, strait_error *error) {
    struct qfs_attr found;
    int made = qfs_mkdir(in->qfs, full, mode);
    if (made >= 0) return STRAIT_OK;
    if (made != -EEXIST) return failed(made, error);
    int looked = qfs_stat(in->qfs, full, &found);
    return looked >= 0 && found.directory ? STRAIT_ALREADY_EXISTS : STRAIT_NOT_A_DIRECTORY;
}

/* Makes the directories above a path. */
static int32_t make_parents(store *in, char *full, strait_error *error) {
    for (char *slash = strchr(full + strlen(in->root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int32_t kind = make_directory(in, full, 0755, error);
        *slash = '/';
        if (kind == STRAIT_NOT_A_DIRECTORY) return fail(kind, "a parent is a file", error);
        if (kind != STRAIT_OK && kind != STRAIT_ALREADY_EXISTS) return kind;
    }
    return STRAIT_OK;
}

/* Opens a new writer; the caller holds `writing`. */
static int32_t create_file(store *in, char *full, const strait_create *how, void **writer, strait_error *error) {
    struct qfs_attr found;
    int looked = qfs_stat(in->qfs, full, &found);
    if (looked >= 0 && (found.directory || !how->overwrite))
        return fail(STRAIT_ALREADY_EXISTS, "the name is taken", error);
    int32_t kind = looked >= 0 ? check_unwritten(in, found.id, error) : make_parents(in, full, error);
    if (kind != STRAIT_OK) return kind;
    mode_t mode = how->has_permission ? how->permission : 0644;
    int flags = O_WRONLY | O_CREAT | (how->overwrite ? O_TRUNC : O_EXCL);
    int fd = qfs_open_file(in->qfs, full, flags, (uint16_t)mode, "");
    if (fd < 0) return failed(fd, error);
    /* A file that was there keeps its mode. */
    int64_t set = how->overwrite ? qfs_chmod(in->qfs, full, mode) : 0;
    if (set >= 0 && how->replication > 0)
        set = qfs_set_replicationfactor(in->qfs, full, (int16_t)how->replication);
    if (set < 0) {
        qfs_close(in->qfs, fd);
        return failed(set, error);
    }
    return keep_writer(in, fd, 0, writer, error);
}

static int32_t create(void *opened, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    pthread_mutex_lock(&in->writing);
    int32_t kind = create_file(in, full, how, writer, error);
    pthread_mutex_unlock(&in->writing);
    return kind;
}

/* The attributes of a file whose bytes can be changed; the caller holds `writing`. */
static int32_t changeable(store *in, const char *full, struct qfs_attr *found, strait_error *error) {
    int looked = qfs_stat(in->qfs, full, found);
    if (looked < 0) return failed(looked, error);
    if (found->directory) return fail(STRAIT_IS_A_DIRECTORY, "it is a directory", error);
    if (found->striper_type > KFS_STRIPED_FILE_TYPE_NONE)
        return fail(STRAIT_UNSUPPORTED, "a striped file can't be changed; write a new one", error);
    return check_unwritten(in, found->id, error);
}

static int32_t append(void *opened, const strait_caller *caller, const char *path, void **writer,
                      uint64_t *position, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    pthread_mutex_lock(&in->writing);
    int32_t kind = changeable(in, full, &found, error);
    if (kind == STRAIT_OK) {
        /* O_APPEND means QFS's record appends, whose order and position the chunk server decides. */
        int fd = qfs_open_file(in->qfs, full, O_WRONLY, 0, "");
        kind = fd < 0 ? failed(fd, error) : keep_writer(in, fd, (off_t)found.size, writer, error);
        *position = found.size;
    }
    pthread_mutex_unlock(&in->writing);
    return kind;
}

static int32_t write_all(void *opened, const void *from, size_t size, strait_error *error) {
    file *own = opened;
    for (size_t done = 0; done < size;) {
        ssize_t wrote = qfs_pwrite(own->in->qfs, own->fd, (const char *)from + done, size - done, own->position);
        if (wrote < 0) return failed(wrote, error);
        if (wrote == 0) return fail(STRAIT_UNAVAILABLE, "QFS accepts no more bytes", error);
        done += (size_t)wrote;
        own->position += wrote;
    }
    return STRAIT_OK;
}

/* Written bytes wait in the client until then. Chunk servers acknowledge what they have written. */
static int32_t sync_file(void *opened, strait_error *error) {
    file *own = opened;
    int synced = qfs_sync(own->in->qfs, own->fd);
    return synced >= 0 ? STRAIT_OK : failed(synced, error);
}

static int32_t close_file(void *opened, strait_error *error) {
    file *own = opened;
    int32_t kind = sync_file(own, error);
    int closed = close_descriptor(own);
    return kind == STRAIT_OK && closed < 0 ? failed(closed, error) : kind;
}

static int32_t truncate_file(void *opened, const strait_caller *caller, const char *path, uint64_t length,
                             strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    pthread_mutex_lock(&in->writing);
    int32_t kind = changeable(in, full, &found, error);
    if (kind == STRAIT_OK && length > found.size) kind = fail(STRAIT_INVALID_ARGUMENT, "the file is shorter", error);
    int cut = kind == STRAIT_OK ? qfs_truncate(in->qfs, full, (off_t)length) : 0;
    pthread_mutex_unlock(&in->writing);
    return cut >= 0 ? kind : failed(cut, error);
}

/* ------------------------------------------------------------------ names */

static int32_t check_parent(store *in, const char *path, strait_error *error) {
    char parent[PATH_MAX];
    struct qfs_attr found;
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    slash[slash == parent ? 1 : 0] = 0;
    int looked = qfs_stat(in->qfs, parent, &found);
    if (looked < 0) return failed(looked, error);
    return found.directory ? STRAIT_OK : fail(STRAIT_NOT_A_DIRECTORY, "the new name's parent is a file", error);
}

static int32_t rename_path(void *opened, const strait_caller *caller, const char *from, const char *to,
                           int32_t replace, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(old, in, from);
    QFS_PATH(new, in, to);
    struct qfs_attr source, target;
    if (strcmp(from, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be renamed", error);
    if (strcmp(to, "/") == 0) return fail(STRAIT_ALREADY_EXISTS, "the root is there", error);
    int looked = qfs_stat(in->qfs, old, &source);
    if (looked < 0) return failed(looked, error);
    if (strcmp(from, to) == 0) return fail(STRAIT_ALREADY_EXISTS, "it has this name", error);
    size_t length = strlen(from);
    if (source.directory && strncmp(from, to, length) == 0 && to[length] == '/')
        return fail(STRAIT_INVALID_ARGUMENT, "a directory can't be moved into itself", error);
    int32_t kind = check_parent(in, new, error);
    if (kind != STRAIT_OK) return kind;
    pthread_mutex_lock(&in->naming);
    looked = qfs_stat(in->qfs, new, &target);
    if (looked < 0 && looked != -ENOENT)
        kind = failed(looked, error);
    else if (looked >= 0 && !replace)
        kind = fail(STRAIT_ALREADY_EXISTS, "the new name is taken", error);
    else if (looked >= 0 && source.directory && !target.directory)
        kind = fail(STRAIT_NOT_A_DIRECTORY, "the new name is a file", error);
    else if (looked >= 0 && !source.directory && target.directory)
        kind = fail(STRAIT_IS_A_DIRECTORY, "the new name is a directory", error);
    else if ((looked = qfs_rename(in->qfs, old, new)) < 0)
        kind = failed(looked, error);
    pthread_mutex_unlock(&in->naming);
    return kind;
}

static int32_t remove_path(void *opened, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    if (strcmp(path, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be removed", error);
    int looked = qfs_stat(in->qfs, full, &found);
    if (looked < 0) return failed(looked, error);
    int removed = !found.directory ? qfs_remove(in->qfs, full)
                  : recursive      ? qfs_rmdirs(in->qfs, full)
                                   : qfs_rmdir(in->qfs, full);
    return removed >= 0 ? STRAIT_OK : failed(removed, error);
}

static int32_t make_directories(void *opened, const strait_caller *caller, const char *path,
                                int64_t permission, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    if (strcmp(path, "/") == 0) return STRAIT_OK;
    int32_t kind = make_parents(in, full, error);
    if (kind != STRAIT_OK) return kind;
    kind = make_directory(in, full, permission < 0 ? 0755 : (mode_t)permission, error);
    if (kind == STRAIT_NOT_A_DIRECTORY) return fail(STRAIT_ALREADY_EXISTS, "it is a file", error);
    return kind == STRAIT_ALREADY_EXISTS ? STRAIT_OK : kind;
}

static int32_t set_owner(store *in, const char *full, const strait_attributes *set, strait_error *error) {
    strait_status now;
    struct qfs_attr found;
    uid_t user = 0;
    gid_t group = 0;
    int result = qfs_stat(in->qfs, full, &found);
    if (result < 0) return failed(result, error);
    describe(in, &found, 0, &now);
    if (set->owner != NULL) snprintf(now.owner, sizeof now.owner, "%s", set->owner);
    if (set->group != NULL) snprintf(now.group, sizeof now.group, "%s", set->group);
    if (qfs_get_userandgroupids(in->qfs, now.owner, now.group, &user, &group) < 0)
        return fail(STRAIT_INVALID_ARGUMENT, "QFS knows no such user or group", error);
    result = qfs_chown(in->qfs, full, set->owner != NULL ? user : found.uid, set->group != NULL ? group : found.gid);
    return result >= 0 ? STRAIT_OK : failed(result, error);
}

static int32_t set_attributes(void *opened, const strait_caller *caller, const char *path,
                              const strait_attributes *set, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    int64_t result = qfs_stat(in->qfs, full, &found);
    if (result < 0) return failed(result, error);
    if (set->owner != NULL || set->group != NULL) {
        int32_t kind = set_owner(in, full, set, error);
        if (kind != STRAIT_OK) return kind;
    }
    if (set->has_permission && (result = qfs_chmod(in->qfs, full, set->permission)) < 0) return failed(result, error);
    if (set->has_replication && !found.directory &&
        (result = qfs_set_replicationfactor(in->qfs, full, (int16_t)set->replication)) < 0)
        return failed(result, error);
    return STRAIT_OK;
}

/* The hosts of one chunk, as `host` or `host:port`, without doubles. Returns their number, or an error. */
static int hosts_of(store *in, const char *full, uint64_t start, uint64_t length, char hosts[MAX_HOSTS][HOST_BYTES]) {
    struct qfs_iter *iter = NULL;
    const char *location = NULL;
    off_t chunk = 0;
    int count = 0, left;
    while ((left = qfs_get_data_locations(in->qfs, full, (off_t)start, length, &iter, &chunk, &location)) > 0) {
        if (chunk != 0 || count == MAX_HOSTS) break;
        snprintf(hosts[count], HOST_BYTES, "%.*s", (int)strcspn(location, ":"), location);
        int known = 0;
        while (known < count && strcmp(hosts[known], hosts[count]) != 0) known++;
        if (known == count) count++;
    }
    qfs_iter_free(&iter);
    return left < 0 ? left : count;
}

static int32_t block_locations(void *opened, const strait_caller *caller, const char *path, uint64_t offset,
                               uint64_t length, strait_block_fn block, void *context, strait_error *error) {
    (void)caller;
    store *in = opened;
    QFS_PATH(full, in, path);
    struct qfs_attr found;
    int looked = qfs_stat(in->qfs, full, &found);
    if (looked < 0) return failed(looked, error);
    if (found.directory) return fail(STRAIT_IS_A_DIRECTORY, "it is a directory", error);
    uint64_t size = found.size, chunk = chunk_bytes(in, full);
    /* A stripe's bytes lie in many chunks, so no range is on one host. */
    int is_striped = found.striper_type > KFS_STRIPED_FILE_TYPE_NONE;
    uint64_t end = length < size && offset < size - length ? offset + length : size;
    /* One chunk at a time: the client's iterator crashes on an empty range, and ends at a chunk without hosts. */
    for (uint64_t start = offset / chunk * chunk; offset < end && start < end; start += chunk) {
        char names[MAX_HOSTS][HOST_BYTES];
        const char *hosts[MAX_HOSTS + 1] = {NULL};
        uint64_t bytes = size - start < chunk ? size - start : chunk;
        int count = is_striped ? 0 : hosts_of(in, full, start, bytes, names);
        if (count < 0) return failed(count, error);
        for (int n = 0; n < count; n++) hosts[n] = names[n];
        block(context, start, bytes, hosts);
    }
    return STRAIT_OK;
}

static const strait_store_functions FUNCTIONS = {
    .abi = STRAIT_STORE_ABI,
    .size = sizeof(strait_store_functions),
    .name = "qfs",
    .open_store = open_store,
    .close_store = close_store,
    .capabilities = capabilities,
    .recovery_ms = recovery_ms,
    .stat = get_status,
    .list_open = list_open,
    .list_next = list_next,
    .list_close = list_close,
    .open = open_reader,
    .read = read_at,
    .close_reader = release_file,
    .create = create,
    .append = append,
    .write = write_all,
    .flush = sync_file,
    .sync = sync_file,
    .close = close_file,
    .release = release_file,
    .truncate = truncate_file,
    .rename = rename_path,
    .remove = remove_path,
    .mkdirs = make_directories,
    .set_attributes = set_attributes,
    .block_locations = block_locations,
};

const strait_store_functions *strait_store_plugin(void) {
    return &FUNCTIONS;
}
