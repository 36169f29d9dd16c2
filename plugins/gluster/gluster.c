/* A GlusterFS volume as a file system for Strait, by libgfapi.
 *
 *   cc -shared -fPIC -I crates/store-plugin/include plugins/gluster/gluster.c -lgfapi -o gluster.so
 *   strait ls --plugin gluster=$PWD/gluster.so --plugin-option gluster.volume=VOLUME plugin:gluster://HOST/
 *
 * Options: volume (needed); root, a directory of the volume. It acts as the user of its process.
 *
 * Licence: Apache-2.0
 */
#define _GNU_SOURCE
#include "strait_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glusterfs/api/glfs.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/random.h>
#include <unistd.h>

enum { NAME_BUFFER_BYTES = 16384, MANAGEMENT_PORT = 24007, MAX_HOSTS = 16, DIRENT_BYTES = 1024 };
/* Files of a plain volume are whole on one brick; this is for readers that plan by blocks. */
enum { BLOCK_BYTES = 64 << 20 };

typedef struct store {
    glfs_t *volume;
    pthread_mutex_t naming; /* held while a new name is looked for and given: libgfapi has no RENAME_NOREPLACE */
    char root[PATH_MAX];    /* without a slash at its end */
} store;

typedef struct listing {
    glfs_fd_t *directory;
} listing;

typedef struct file {
    glfs_fd_t *fd;
    off_t position;
} file;

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
    case EWOULDBLOCK:
    case EMFILE:
    case ENFILE: return STRAIT_BUSY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return STRAIT_NO_SPACE;
    case ETIMEDOUT: return STRAIT_TIMED_OUT;
    case ESTALE:
    case ENOTCONN:
    case EHOSTUNREACH: return STRAIT_UNAVAILABLE;
    case ENOSYS:
    case EOPNOTSUPP: return STRAIT_UNSUPPORTED;
    default: return STRAIT_INTERNAL;
    }
}

static int32_t fail(int32_t kind, const char *why, strait_error *error) {
    snprintf(error->message, sizeof error->message, "%s", why);
    return kind;
}

static int32_t failed(strait_error *error) {
    int number = errno;
    return fail(kind_of(number), strerrordesc_np(number), error);
}

/* The path in the volume; the plugin's caller has normalised it. */
static int32_t volume_path(const store *in, const char *path, char full[PATH_MAX], strait_error *error) {
    int length = snprintf(full, PATH_MAX, "%s%s", in->root, path);
    if (length < 0 || length >= PATH_MAX) return fail(STRAIT_INVALID_ARGUMENT, "the path is too long", error);
    return STRAIT_OK;
}

#define VOLUME_PATH(full, in, path)                          \
    char full[PATH_MAX];                                   \
    do {                                                   \
        int32_t kind_ = volume_path((in), (path), full, error); \
        if (kind_ != STRAIT_OK) return kind_;              \
    } while (0)

/* ------------------------------------------------------------------ the store */

static int32_t open_store(const char *uri, const char *const *options, void **opened, strait_error *error) {
    char host[HOST_NAME_MAX + 1] = "localhost";
    const char *volume = NULL, *root = "", *authority = strstr(uri, "://");
    int port = MANAGEMENT_PORT;
    if (authority != NULL && authority[3] != 0) snprintf(host, sizeof host, "%s", authority + 3);
    char *colon = strrchr(host, ':');
    if (colon != NULL) {
        port = atoi(colon + 1);
        *colon = 0;
    }
    for (; options[0] != NULL; options += 2) {
        if (strcmp(options[0], "volume") == 0) volume = options[1];
        if (strcmp(options[0], "root") == 0) root = options[1];
    }
    if (volume == NULL) return fail(STRAIT_INVALID_ARGUMENT, "give the option gluster.volume=NAME", error);
    store *own = calloc(1, sizeof *own);
    if (own == NULL) return fail(STRAIT_NO_SPACE, "no memory", error);
    snprintf(own->root, sizeof own->root, "%s", root);
    size_t length = strlen(own->root);
    while (length > 0 && own->root[length - 1] == '/') own->root[--length] = 0;
    pthread_mutex_init(&own->naming, NULL);
    own->volume = glfs_new(volume);
    if (own->volume == NULL || glfs_set_volfile_server(own->volume, "tcp", host, port) != 0 ||
        glfs_set_logging(own->volume, "/dev/stderr", 3) != 0 || glfs_init(own->volume) != 0) {
        snprintf(error->message, sizeof error->message, "can't open volume %.100s at %.200s:%d: %s", volume, host,
                 port, strerrordesc_np(errno));
        if (own->volume != NULL) glfs_fini(own->volume);
        free(own);
        return STRAIT_UNAVAILABLE;
    }
    *opened = own;
    return STRAIT_OK;
}

static void close_store(void *opened) {
    store *own = opened;
    glfs_fini(own->volume);
    pthread_mutex_destroy(&own->naming);
    free(own);
}

static uint32_t capabilities(void *opened) {
    (void)opened;
    uint32_t all = STRAIT_APPEND | STRAIT_TRUNCATE | STRAIT_RENAME_REPLACE | STRAIT_ATOMIC_RENAME |
                   STRAIT_PERMISSIONS | STRAIT_TIMES | STRAIT_BLOCK_LOCATIONS | STRAIT_STATUS |
                   STRAIT_VISIBLE_WHILE_WRITTEN | STRAIT_EXCLUSIVE_WRITER;
    return geteuid() == 0 ? all | STRAIT_OWNERSHIP : all;
}

/* ------------------------------------------------------------------ facts */

static void name_of(uint32_t number, const char *name, char into[STRAIT_OWNER_BYTES]) {
    if (name == NULL)
        snprintf(into, STRAIT_OWNER_BYTES, "%u", number);
    else
        snprintf(into, STRAIT_OWNER_BYTES, "%s", name);
}

static void describe(const struct stat *from, strait_status *status) {
    char buffer[NAME_BUFFER_BYTES];
    struct passwd user, *found_user = NULL;
    struct group group, *found_group = NULL;
    memset(status, 0, sizeof *status);
    status->directory = S_ISDIR(from->st_mode);
    if (!status->directory) {
        status->length = (uint64_t)from->st_size;
        status->block_size = BLOCK_BYTES;
        status->replication = 1;
    }
    status->modified_ms = from->st_mtim.tv_sec * 1000LL + from->st_mtim.tv_nsec / 1000000;
    status->accessed_ms = from->st_atim.tv_sec * 1000LL + from->st_atim.tv_nsec / 1000000;
    status->permission = from->st_mode & 07777;
    getpwuid_r(from->st_uid, &user, buffer, sizeof buffer, &found_user);
    name_of(from->st_uid, found_user == NULL ? NULL : user.pw_name, status->owner);
    getgrgid_r(from->st_gid, &group, buffer, sizeof buffer, &found_group);
    name_of(from->st_gid, found_group == NULL ? NULL : group.gr_name, status->group);
}

static int32_t get_status(void *opened, const strait_caller *caller, const char *path, strait_status *status,
                          strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    struct stat found;
    if (glfs_stat(((store *)opened)->volume, full, &found) != 0) return failed(error);
    describe(&found, status);
    return STRAIT_OK;
}

static int32_t list_open(void *opened, const strait_caller *caller, const char *path, void **into,
                         strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_fd_t *directory = glfs_opendir(((store *)opened)->volume, full);
    if (directory == NULL) return failed(error);
    listing *own = malloc(sizeof *own);
    if (own == NULL) {
        glfs_closedir(directory);
        return fail(STRAIT_NO_SPACE, "no memory", error);
    }
    own->directory = directory;
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
    glfs_fd_t *directory = ((listing *)opened)->directory;
    union {
        struct dirent entry;
        char space[DIRENT_BYTES];
    } buffer;
    for (;;) {
        struct dirent *entry = NULL;
        struct stat found;
        if (glfs_readdirplus_r(directory, &found, &buffer.entry, &entry) != 0) return failed(error);
        if (entry == NULL) return STRAIT_END;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        /* Links and devices aren't shown. */
        if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) continue;
        if (!is_utf8(entry->d_name)) continue;
        snprintf(name, STRAIT_NAME_BYTES, "%s", entry->d_name);
        describe(&found, status);
        return STRAIT_OK;
    }
}

static void list_close(void *opened) {
    glfs_closedir(((listing *)opened)->directory);
    free(opened);
}

/* ------------------------------------------------------------------ bytes */

static int32_t keep(glfs_fd_t *fd, off_t position, void **into, strait_error *error) {
    file *own = malloc(sizeof *own);
    if (own == NULL) {
        glfs_close(fd);
        return fail(STRAIT_NO_SPACE, "no memory", error);
    }
    own->fd = fd;
    own->position = position;
    *into = own;
    return STRAIT_OK;
}

static int32_t open_reader(void *opened, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    struct stat found;
    if (glfs_stat(((store *)opened)->volume, full, &found) != 0) return failed(error);
    if (!S_ISREG(found.st_mode)) return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    glfs_fd_t *fd = glfs_open(((store *)opened)->volume, full, O_RDONLY);
    if (fd == NULL) return failed(error);
    *length = (uint64_t)found.st_size;
    return keep(fd, 0, reader, error);
}

static int32_t read_at(void *opened, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    *got = 0;
    while (*got < size) {
        ssize_t read =
            glfs_pread(((file *)opened)->fd, (char *)into + *got, size - *got, (off_t)(offset + *got), 0, NULL);
        if (read < 0 && errno == EINTR) continue;
        if (read < 0) return failed(error);
        if (read == 0) break;
        *got += (size_t)read;
    }
    return STRAIT_OK;
}

static void release_file(void *opened) {
    file *own = opened;
    if (own->fd != NULL) glfs_close(own->fd);
    free(own);
}

/* A directory that another client is making can be missing for a moment, although it was found before; its brick then
 * also answers with ENODATA, and libgfapi 10 can fail without setting errno. So a change that misses a directory is
 * tried again, from the first parent on, after this time, which doubles: in all, for 2 s. errno is 0 before each call
 * that may be tried again. */
enum { TRIES = 10, PAUSE_US = 2000 };

static bool try_again(int *tries) {
    if (errno == 0) errno = ENOENT;
    if ((errno != ENOENT && errno != ESTALE && errno != ENODATA) || ++*tries == TRIES) return false;
    usleep((useconds_t)(PAUSE_US << *tries));
    return true;
}

/* Makes a directory, or finds one there. Sets `is_ours` once this call or an earlier one has made it. 0, or -1 with
 * errno. */
static int make_directory(glfs_t *volume, const char *full, mode_t mode, bool *is_ours) {
    errno = 0;
    *is_ours = *is_ours || glfs_mkdir(volume, full, mode) == 0;
    if (*is_ours) {
        errno = 0;
        return glfs_chmod(volume, full, mode);
    }
    if (errno != EEXIST) return -1;
    struct stat found;
    errno = 0;
    if (glfs_stat(volume, full, &found) == 0) {
        if (S_ISDIR(found.st_mode)) return 0;
        errno = EEXIST;
    } else if (errno == ENOENT && glfs_lstat(volume, full, &found) == 0 && S_ISLNK(found.st_mode)) {
        errno = EEXIST;
    }
    return -1;
}

/* Makes the directories above a path. 0, or -1 with errno. */
static int make_parents(glfs_t *volume, char *full, const char *begin) {
    for (char *slash = strchr(begin + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct stat found;
        *slash = 0;
        errno = 0;
        bool made = glfs_stat(volume, full, &found) == 0;
        if (made && !S_ISDIR(found.st_mode)) {
            errno = ENOTDIR;
            made = false;
        } else if (!made && (errno == ENOENT || errno == 0)) {
            errno = 0;
            made = glfs_mkdir(volume, full, 0755) == 0 || errno == EEXIST;
        }
        *slash = '/';
        if (!made) return -1;
    }
    return 0;
}

/* Locks a file for its one writer, across all clients of the volume. */
static int32_t locked(glfs_fd_t *fd, strait_error *error) {
    char owner[16];
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (getrandom(owner, sizeof owner, 0) == sizeof owner && glfs_fd_set_lkowner(fd, owner, sizeof owner) == 0 &&
        glfs_posix_lock(fd, F_SETLK, &whole) == 0)
        return STRAIT_OK;
    int number = errno;
    glfs_close(fd);
    errno = number;
    if (number == EAGAIN || number == EACCES) return fail(STRAIT_BUSY, "another writer has the file open", error);
    return failed(error);
}

static int32_t create(void *opened, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_t *volume = ((store *)opened)->volume;
    struct stat found;
    if (glfs_stat(volume, full, &found) == 0 && (S_ISDIR(found.st_mode) || !how->overwrite))
        return fail(STRAIT_ALREADY_EXISTS, "the name is taken", error);
    mode_t mode = how->has_permission ? how->permission : 0644;
    const char *begin = full + strlen(((store *)opened)->root);
    glfs_fd_t *fd = NULL;
    int tries = 0;
    do {
        if (make_parents(volume, full, begin) != 0) continue;
        errno = 0;
        fd = glfs_creat(volume, full, O_WRONLY | (how->overwrite ? 0 : O_EXCL), mode);
    } while (fd == NULL && try_again(&tries));
    if (fd == NULL) return failed(error);
    int32_t kind = locked(fd, error);
    if (kind != STRAIT_OK) return kind;
    if (glfs_ftruncate(fd, 0, NULL, NULL) != 0 || glfs_fchmod(fd, mode) != 0) {
        kind = failed(error);
        glfs_close(fd);
        return kind;
    }
    return keep(fd, 0, writer, error);
}

/* Opens a regular file, and locks it for writing. */
static int32_t open_locked(glfs_t *volume, const char *full, glfs_fd_t **fd, struct stat *found,
                           strait_error *error) {
    if (glfs_stat(volume, full, found) != 0) return failed(error);
    if (!S_ISREG(found->st_mode)) return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    *fd = glfs_open(volume, full, O_WRONLY);
    if (*fd == NULL) return failed(error);
    int32_t kind = locked(*fd, error);
    if (kind == STRAIT_OK && glfs_fstat(*fd, found) != 0) {
        kind = failed(error);
        glfs_close(*fd);
    }
    return kind;
}

static int32_t append(void *opened, const strait_caller *caller, const char *path, void **writer,
                      uint64_t *position, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_fd_t *fd = NULL;
    struct stat found;
    int32_t kind = open_locked(((store *)opened)->volume, full, &fd, &found, error);
    if (kind != STRAIT_OK) return kind;
    *position = (uint64_t)found.st_size;
    return keep(fd, found.st_size, writer, error);
}

static int32_t write_all(void *opened, const void *from, size_t size, strait_error *error) {
    file *own = opened;
    for (size_t done = 0; done < size;) {
        ssize_t wrote = glfs_pwrite(own->fd, (const char *)from + done, size - done, own->position, 0, NULL, NULL);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return failed(error);
        done += (size_t)wrote;
        own->position += wrote;
    }
    return STRAIT_OK;
}

/* Written bytes may wait in this client until then. */
static int32_t sync_file(void *opened, strait_error *error) {
    return glfs_fdatasync(((file *)opened)->fd, NULL, NULL) == 0 ? STRAIT_OK : failed(error);
}

static int32_t close_file(void *opened, strait_error *error) {
    file *own = opened;
    int32_t kind = glfs_fsync(own->fd, NULL, NULL) == 0 ? STRAIT_OK : failed(error);
    if (glfs_close(own->fd) != 0 && kind == STRAIT_OK) kind = failed(error);
    own->fd = NULL;
    return kind;
}

static int32_t truncate_file(void *opened, const strait_caller *caller, const char *path, uint64_t length,
                             strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_fd_t *fd = NULL;
    struct stat found;
    int32_t kind = open_locked(((store *)opened)->volume, full, &fd, &found, error);
    if (kind != STRAIT_OK) return kind;
    if (length > (uint64_t)found.st_size)
        kind = fail(STRAIT_INVALID_ARGUMENT, "the file is shorter", error);
    else if (glfs_ftruncate(fd, (off_t)length, NULL, NULL) != 0)
        kind = failed(error);
    glfs_close(fd);
    return kind;
}

/* ------------------------------------------------------------------ names */

/* libgfapi 10 crashes in a rename to a missing directory. */
static int32_t check_parent(const store *own, const char *path, strait_error *error) {
    char parent[PATH_MAX];
    struct stat found;
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    slash[slash == parent ? 1 : 0] = 0;
    if (glfs_stat(own->volume, parent, &found) != 0) return failed(error);
    if (!S_ISDIR(found.st_mode)) return fail(STRAIT_NOT_A_DIRECTORY, "the new name's parent is a file", error);
    return STRAIT_OK;
}

static int32_t rename_path(void *opened, const strait_caller *caller, const char *from, const char *to,
                           int32_t replace, strait_error *error) {
    (void)caller;
    VOLUME_PATH(old, opened, from);
    VOLUME_PATH(new, opened, to);
    struct stat found;
    if (strcmp(from, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be renamed", error);
    if (strcmp(to, "/") == 0) return fail(STRAIT_ALREADY_EXISTS, "the root is there", error);
    store *own = opened;
    if (glfs_lstat(own->volume, old, &found) != 0) return failed(error);
    if (strcmp(from, to) == 0) return fail(STRAIT_ALREADY_EXISTS, "it has this name", error);
    size_t length = strlen(from);
    if (strncmp(from, to, length) == 0 && to[length] == '/' && S_ISDIR(found.st_mode))
        return fail(STRAIT_INVALID_ARGUMENT, "a directory can't be moved into itself", error);
    int32_t kind = check_parent(own, new, error);
    if (kind != STRAIT_OK) return kind;
    int is_directory = S_ISDIR(found.st_mode);
    pthread_mutex_lock(&own->naming);
    int is_taken = glfs_lstat(own->volume, new, &found) == 0;
    if (is_taken && !replace)
        kind = fail(STRAIT_ALREADY_EXISTS, "the new name is taken", error);
    else if (is_taken && is_directory && !S_ISDIR(found.st_mode))
        kind = fail(STRAIT_NOT_A_DIRECTORY, "the new name is a file", error);
    else if (is_taken && !is_directory && S_ISDIR(found.st_mode))
        kind = fail(STRAIT_IS_A_DIRECTORY, "the new name is a directory", error);
    else if (glfs_rename(own->volume, old, new) != 0)
        kind = failed(error);
    pthread_mutex_unlock(&own->naming);
    return kind;
}

/* Removes a directory with all in it. `full` has PATH_MAX bytes. */
static int remove_tree(glfs_t *volume, char *full) {
    glfs_fd_t *directory = glfs_opendir(volume, full);
    if (directory == NULL) return -1;
    size_t length = strlen(full);
    int failure = 0;
    union {
        struct dirent entry;
        char space[DIRENT_BYTES];
    } buffer;
    for (;;) {
        struct dirent *entry = NULL;
        struct stat found;
        if (glfs_readdirplus_r(directory, &found, &buffer.entry, &entry) != 0) failure = errno;
        if (entry == NULL || failure != 0) break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(full + length, PATH_MAX - length, "/%s", entry->d_name) >= (int)(PATH_MAX - length))
            failure = ENAMETOOLONG;
        else if ((S_ISDIR(found.st_mode) ? remove_tree(volume, full) : glfs_unlink(volume, full)) != 0)
            failure = errno;
        full[length] = 0;
        if (failure != 0) break;
    }
    glfs_closedir(directory);
    if (failure == 0 && glfs_rmdir(volume, full) != 0) failure = errno;
    errno = failure;
    return failure == 0 ? 0 : -1;
}

static int32_t remove_path(void *opened, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_t *volume = ((store *)opened)->volume;
    struct stat found;
    if (strcmp(path, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be removed", error);
    if (glfs_lstat(volume, full, &found) != 0) return failed(error);
    int removed = !S_ISDIR(found.st_mode) ? glfs_unlink(volume, full)
                  : recursive             ? remove_tree(volume, full)
                                          : glfs_rmdir(volume, full);
    return removed == 0 ? STRAIT_OK : failed(error);
}

static int32_t make_directories(void *opened, const strait_caller *caller, const char *path,
                                int64_t permission, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    if (strcmp(path, "/") == 0) return STRAIT_OK;
    glfs_t *volume = ((store *)opened)->volume;
    const char *begin = full + strlen(((store *)opened)->root);
    mode_t mode = permission < 0 ? 0755 : (mode_t)permission;
    int made, tries = 0;
    bool is_ours = false;
    do {
        made = make_parents(volume, full, begin);
        if (made == 0) made = make_directory(volume, full, mode, &is_ours);
    } while (made != 0 && try_again(&tries));
    return made == 0 ? STRAIT_OK : failed(error);
}

static int32_t set_owner(glfs_t *volume, const char *full, const strait_attributes *set, strait_error *error) {
    char buffer[NAME_BUFFER_BYTES];
    uid_t owner = (uid_t)-1;
    gid_t group = (gid_t)-1;
    struct passwd user, *found_user = NULL;
    struct group named, *found_group = NULL;
    if (set->owner != NULL) {
        getpwnam_r(set->owner, &user, buffer, sizeof buffer, &found_user);
        if (found_user == NULL) return fail(STRAIT_INVALID_ARGUMENT, "no such user on this host", error);
        owner = user.pw_uid;
    }
    if (set->group != NULL) {
        getgrnam_r(set->group, &named, buffer, sizeof buffer, &found_group);
        if (found_group == NULL) return fail(STRAIT_INVALID_ARGUMENT, "no such group on this host", error);
        group = named.gr_gid;
    }
    return glfs_chown(volume, full, owner, group) == 0 ? STRAIT_OK : failed(error);
}

/* libgfapi doesn't know UTIME_OMIT: a time that stays is set again. */
static struct timespec time_of(uint8_t given, int64_t ms, struct timespec now) {
    if (!given) return now;
    int64_t rest = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
    return (struct timespec){.tv_sec = (ms - rest) / 1000, .tv_nsec = rest * 1000000};
}

static int32_t set_attributes(void *opened, const strait_caller *caller, const char *path,
                              const strait_attributes *set, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    struct stat found;
    glfs_t *volume = ((store *)opened)->volume;
    if (glfs_stat(volume, full, &found) != 0) return failed(error);
    if (set->owner != NULL || set->group != NULL) {
        int32_t kind = set_owner(volume, full, set, error);
        if (kind != STRAIT_OK) return kind;
    }
    if (set->has_permission && glfs_chmod(volume, full, set->permission) != 0) return failed(error);
    struct timespec times[2] = {time_of(set->has_accessed, set->accessed_ms, found.st_atim),
                                time_of(set->has_modified, set->modified_ms, found.st_mtim)};
    if ((set->has_accessed || set->has_modified) && glfs_utimens(volume, full, times) != 0)
        return failed(error);
    return STRAIT_OK;
}

/* The hosts of the bricks with the file: in the answer each is behind "<POSIX(brick):". */
static void find_hosts(char *answer, const char *hosts[MAX_HOSTS + 1]) {
    size_t count = 0;
    for (char *at = strstr(answer, "<POSIX("); at != NULL && count < MAX_HOSTS; at = strstr(at, "<POSIX(")) {
        char *host = strstr(at, "):");
        char *end = host == NULL ? NULL : strchr(host + 2, ':');
        if (end == NULL) break;
        *end = 0;
        hosts[count++] = host + 2;
        at = end + 1;
    }
    hosts[count] = NULL;
}

static int32_t block_locations(void *opened, const strait_caller *caller, const char *path, uint64_t offset,
                               uint64_t length, strait_block_fn block, void *context, strait_error *error) {
    (void)caller;
    VOLUME_PATH(full, opened, path);
    glfs_t *volume = ((store *)opened)->volume;
    struct stat found;
    if (glfs_stat(volume, full, &found) != 0) return failed(error);
    if (!S_ISREG(found.st_mode)) return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    char answer[4 * PATH_MAX];
    ssize_t size = glfs_getxattr(volume, full, "trusted.glusterfs.pathinfo", answer, sizeof answer - 1);
    if (size < 0) return failed(error);
    answer[size] = 0;
    const char *hosts[MAX_HOSTS + 1];
    find_hosts(answer, hosts);
    uint64_t bytes = (uint64_t)found.st_size;
    uint64_t end = length < bytes && offset < bytes - length ? offset + length : bytes;
    for (uint64_t start = offset / BLOCK_BYTES * BLOCK_BYTES; offset < end && start < end; start += BLOCK_BYTES)
        block(context, start, bytes - start < BLOCK_BYTES ? bytes - start : BLOCK_BYTES, hosts);
    return STRAIT_OK;
}

static int32_t get_space(void *opened, uint64_t *capacity, uint64_t *used, uint64_t *remaining,
                         strait_error *error) {
    struct statvfs space;
    if (glfs_statvfs(((store *)opened)->volume, "/", &space) != 0) return failed(error);
    *capacity = (uint64_t)space.f_blocks * space.f_frsize;
    *remaining = (uint64_t)space.f_bavail * space.f_frsize;
    *used = *capacity - (uint64_t)space.f_bfree * space.f_frsize;
    return STRAIT_OK;
}

static const strait_store_functions FUNCTIONS = {
    .abi = STRAIT_STORE_ABI,
    .size = sizeof(strait_store_functions),
    .name = "gluster",
    .open_store = open_store,
    .close_store = close_store,
    .capabilities = capabilities,
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
    .status = get_space,
};

const strait_store_functions *strait_store_plugin(void) {
    return &FUNCTIONS;
}
