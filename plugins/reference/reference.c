/* A directory of this host as a file system for Strait: the smallest complete plugin.
 *
 *   cc -shared -fPIC -I crates/store-plugin/include plugins/reference/reference.c -o reference.so
 *   strait ls --plugin dir=$PWD/reference.so plugin:dir://srv/data
 *
 * The URI's authority is the directory without its first slash, up to the next one; the option
 * dir.root=/srv/data names any directory. It has no other options. It acts as the user of its process.
 *
 * Licence: Apache-2.0
 */
#define _GNU_SOURCE
#include "strait_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { BLOCK_BYTES = 64 << 20, WALK_DESCRIPTORS = 32, NAME_BUFFER_BYTES = 16384 };

typedef struct store {
    char root[PATH_MAX]; /* without a slash at its end */
} store;

typedef struct listing {
    DIR *directory;
} listing;

typedef struct file {
    int fd;
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

/* The path on this host; the plugin's caller has normalised it. */
static int32_t host_path(const store *in, const char *path, char full[PATH_MAX], strait_error *error) {
    int length = snprintf(full, PATH_MAX, "%s%s", in->root, path);
    if (length < 0 || length >= PATH_MAX) return fail(STRAIT_INVALID_ARGUMENT, "the path is too long", error);
    return STRAIT_OK;
}

#define HOST_PATH(full, in, path)                          \
    char full[PATH_MAX];                                   \
    do {                                                   \
        int32_t kind_ = host_path((in), (path), full, error); \
        if (kind_ != STRAIT_OK) return kind_;              \
    } while (0)

/* ------------------------------------------------------------------ the store */

static int32_t open_store(const char *uri, const char *const *options, void **opened, strait_error *error) {
    store *own = calloc(1, sizeof *own);
    if (own == NULL) return fail(STRAIT_NO_SPACE, "no memory", error);
    const char *authority = strstr(uri, "://");
    snprintf(own->root, sizeof own->root, "/%s", authority == NULL ? "" : authority + 3);
    for (; options[0] != NULL; options += 2) {
        if (strcmp(options[0], "root") != 0) {
            snprintf(error->message, sizeof error->message, "unknown option %.400s", options[0]);
            free(own);
            return STRAIT_INVALID_ARGUMENT;
        }
        snprintf(own->root, sizeof own->root, "%s", options[1]);
    }
    size_t length = strlen(own->root);
    while (length > 0 && own->root[length - 1] == '/') own->root[--length] = 0;
    struct stat root;
    if (stat(length == 0 ? "/" : own->root, &root) != 0 || !S_ISDIR(root.st_mode)) {
        snprintf(error->message, sizeof error->message, "no directory %.400s", own->root);
        free(own);
        return STRAIT_NOT_FOUND;
    }
    *opened = own;
    return STRAIT_OK;
}

static void close_store(void *opened) {
    free(opened);
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
    HOST_PATH(full, opened, path);
    struct stat found;
    if (stat(full, &found) != 0) return failed(error);
    describe(&found, status);
    return STRAIT_OK;
}

static int32_t list_open(void *opened, const strait_caller *caller, const char *path, void **into,
                         strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    DIR *directory = opendir(full);
    if (directory == NULL) return failed(error);
    listing *own = malloc(sizeof *own);
    if (own == NULL) {
        closedir(directory);
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
    DIR *directory = ((listing *)opened)->directory;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (entry == NULL) return errno == 0 ? STRAIT_END : failed(error);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        struct stat found;
        /* It may be gone by now; links and devices aren't shown. */
        if (fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) continue;
        if (!is_utf8(entry->d_name)) continue;
        snprintf(name, STRAIT_NAME_BYTES, "%s", entry->d_name);
        describe(&found, status);
        return STRAIT_OK;
    }
}

static void list_close(void *opened) {
    closedir(((listing *)opened)->directory);
    free(opened);
}

/* ------------------------------------------------------------------ bytes */

static int32_t keep(int fd, void **into, strait_error *error) {
    file *own = malloc(sizeof *own);
    if (own == NULL) {
        close(fd);
        return fail(STRAIT_NO_SPACE, "no memory", error);
    }
    own->fd = fd;
    *into = own;
    return STRAIT_OK;
}

static int32_t open_reader(void *opened, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return failed(error);
    struct stat found;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    }
    *length = (uint64_t)found.st_size;
    return keep(fd, reader, error);
}

static int32_t read_at(void *opened, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    *got = 0;
    while (*got < size) {
        ssize_t read = pread(((file *)opened)->fd, (char *)into + *got, size - *got, (off_t)(offset + *got));
        if (read < 0 && errno == EINTR) continue;
        if (read < 0) return failed(error);
        if (read == 0) break;
        *got += (size_t)read;
    }
    return STRAIT_OK;
}

/* Closes a locked file. The lock goes first: a child process that is just being started has a copy of the
 * descriptor, and would keep the lock until it executes its program. */
static int close_locked(int fd) {
    flock(fd, LOCK_UN);
    return close(fd);
}

static void release_file(void *opened) {
    file *own = opened;
    if (own->fd >= 0) close_locked(own->fd);
    free(own);
}

/* Makes the directories above a path. */
static int32_t make_parents(char *full, const char *begin, strait_error *error) {
    for (char *slash = strchr(begin + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        struct stat found;
        int made = mkdir(full, 0755);
        int number = errno;
        if (made != 0 && number == EEXIST && (stat(full, &found) != 0 || !S_ISDIR(found.st_mode)))
            number = ENOTDIR;
        *slash = '/';
        if (made != 0 && number != EEXIST) {
            errno = number;
            return failed(error);
        }
    }
    return STRAIT_OK;
}

/* Locks an open file for its one writer; a pipe or a device is refused. Closes it after an error. */
static int32_t locked(int fd, strait_error *error) {
    struct stat found;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return STRAIT_OK;
    close(fd);
    return fail(STRAIT_BUSY, "another writer has the file open", error);
}

static int32_t create(void *opened, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    struct stat found;
    if (stat(full, &found) == 0 && (!S_ISREG(found.st_mode) || !how->overwrite))
        return fail(STRAIT_ALREADY_EXISTS, "the name is taken", error);
    int32_t kind = make_parents(full, full + strlen(((store *)opened)->root), error);
    if (kind != STRAIT_OK) return kind;
    /* Without O_NONBLOCK, a pipe that has this name by now would stop the thread. */
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NONBLOCK | (how->overwrite ? 0 : O_EXCL);
    int fd = open(full, flags, 0600);
    if (fd < 0) return failed(error);
    kind = locked(fd, error);
    if (kind != STRAIT_OK) return kind;
    if (ftruncate(fd, 0) != 0 || fchmod(fd, how->has_permission ? how->permission : 0644) != 0) {
        kind = failed(error);
        close_locked(fd);
        return kind;
    }
    return keep(fd, writer, error);
}

/* Opens a regular file, and locks it for writing. */
static int32_t open_locked(const char *full, int *fd, strait_error *error) {
    struct stat found;
    if (stat(full, &found) != 0) return failed(error);
    if (!S_ISREG(found.st_mode)) return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    *fd = open(full, O_WRONLY | O_CLOEXEC | O_APPEND | O_NONBLOCK);
    if (*fd < 0) return failed(error);
    return locked(*fd, error);
}

static int32_t append(void *opened, const strait_caller *caller, const char *path, void **writer,
                      uint64_t *position, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    int fd = -1;
    int32_t kind = open_locked(full, &fd, error);
    if (kind != STRAIT_OK) return kind;
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0) {
        kind = failed(error);
        close_locked(fd);
        return kind;
    }
    *position = (uint64_t)end;
    return keep(fd, writer, error);
}

static int32_t write_all(void *opened, const void *from, size_t size, strait_error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(((file *)opened)->fd, (const char *)from + done, size - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return failed(error);
        done += (size_t)wrote;
    }
    return STRAIT_OK;
}

/* Written bytes are in the kernel, and so visible. */
static int32_t flush(void *opened, strait_error *error) {
    (void)opened, (void)error;
    return STRAIT_OK;
}

static int32_t sync_file(void *opened, strait_error *error) {
    return fdatasync(((file *)opened)->fd) == 0 ? STRAIT_OK : failed(error);
}

static int32_t close_file(void *opened, strait_error *error) {
    file *own = opened;
    int32_t kind = fsync(own->fd) == 0 ? STRAIT_OK : failed(error);
    /* A network file system may tell of a lost write only now. */
    if (close_locked(own->fd) != 0 && kind == STRAIT_OK) kind = failed(error);
    own->fd = -1;
    return kind;
}

static int32_t truncate_file(void *opened, const strait_caller *caller, const char *path, uint64_t length,
                             strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    int fd = -1;
    int32_t kind = open_locked(full, &fd, error);
    if (kind != STRAIT_OK) return kind;
    struct stat found;
    if (fstat(fd, &found) != 0)
        kind = failed(error);
    else if (length > (uint64_t)found.st_size)
        kind = fail(STRAIT_INVALID_ARGUMENT, "the file is shorter", error);
    else if (ftruncate(fd, (off_t)length) != 0)
        kind = failed(error);
    close_locked(fd);
    return kind;
}

/* ------------------------------------------------------------------ names */

static int32_t rename_path(void *opened, const strait_caller *caller, const char *from, const char *to,
                           int32_t replace, strait_error *error) {
    (void)caller;
    HOST_PATH(old, opened, from);
    HOST_PATH(new, opened, to);
    struct stat found;
    if (strcmp(from, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be renamed", error);
    if (strcmp(to, "/") == 0) return fail(STRAIT_ALREADY_EXISTS, "the root is there", error);
    if (lstat(old, &found) != 0) return failed(error);
    if (strcmp(from, to) == 0) return fail(STRAIT_ALREADY_EXISTS, "it has this name", error);
    if (renameat2(AT_FDCWD, old, AT_FDCWD, new, replace ? 0 : RENAME_NOREPLACE) != 0) return failed(error);
    return STRAIT_OK;
}

static int remove_entry(const char *path, const struct stat *found, int type, struct FTW *walk) {
    (void)found, (void)type, (void)walk;
    return remove(path);
}

static int32_t remove_path(void *opened, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    struct stat found;
    if (strcmp(path, "/") == 0) return fail(STRAIT_INVALID_ARGUMENT, "the root can't be removed", error);
    if (lstat(full, &found) != 0) return failed(error);
    int removed = recursive && S_ISDIR(found.st_mode)
                      ? nftw(full, remove_entry, WALK_DESCRIPTORS, FTW_DEPTH | FTW_PHYS)
                      : remove(full);
    return removed == 0 ? STRAIT_OK : failed(error);
}

static int32_t make_directories(void *opened, const strait_caller *caller, const char *path,
                                int64_t permission, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    if (strcmp(path, "/") == 0) return STRAIT_OK;
    int32_t kind = make_parents(full, full + strlen(((store *)opened)->root), error);
    if (kind != STRAIT_OK) return kind;
    struct stat found;
    if (mkdir(full, 0755) != 0) {
        if (errno == EEXIST && stat(full, &found) == 0 && S_ISDIR(found.st_mode)) return STRAIT_OK;
        return failed(error);
    }
    if (chmod(full, permission < 0 ? 0755 : (mode_t)permission) != 0) return failed(error);
    return STRAIT_OK;
}

static int32_t set_owner(const char *full, const strait_attributes *set, strait_error *error) {
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
    return chown(full, owner, group) == 0 ? STRAIT_OK : failed(error);
}

static struct timespec time_of(uint8_t given, int64_t ms) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    if (given) {
        int64_t rest = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
        time.tv_sec = (ms - rest) / 1000;
        time.tv_nsec = rest * 1000000;
    }
    return time;
}

static int32_t set_attributes(void *opened, const strait_caller *caller, const char *path,
                              const strait_attributes *set, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    struct stat found;
    if (stat(full, &found) != 0) return failed(error);
    if (set->owner != NULL || set->group != NULL) {
        int32_t kind = set_owner(full, set, error);
        if (kind != STRAIT_OK) return kind;
    }
    if (set->has_permission && chmod(full, set->permission) != 0) return failed(error);
    struct timespec times[2] = {time_of(set->has_accessed, set->accessed_ms),
                                time_of(set->has_modified, set->modified_ms)};
    if ((set->has_accessed || set->has_modified) && utimensat(AT_FDCWD, full, times, 0) != 0)
        return failed(error);
    return STRAIT_OK;
}

static int32_t block_locations(void *opened, const strait_caller *caller, const char *path, uint64_t offset,
                               uint64_t length, strait_block_fn block, void *context, strait_error *error) {
    (void)caller;
    HOST_PATH(full, opened, path);
    struct stat found;
    if (stat(full, &found) != 0) return failed(error);
    if (!S_ISREG(found.st_mode)) return fail(STRAIT_IS_A_DIRECTORY, "it isn't a file", error);
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    const char *hosts[] = {host, NULL};
    uint64_t size = (uint64_t)found.st_size;
    uint64_t end = length < size && offset < size - length ? offset + length : size;
    for (uint64_t start = offset / BLOCK_BYTES * BLOCK_BYTES; offset < end && start < end; start += BLOCK_BYTES)
        block(context, start, size - start < BLOCK_BYTES ? size - start : BLOCK_BYTES, hosts);
    return STRAIT_OK;
}

static int32_t get_space(void *opened, uint64_t *capacity, uint64_t *used, uint64_t *remaining,
                         strait_error *error) {
    struct statvfs space;
    const char *root = ((store *)opened)->root;
    if (statvfs(*root == 0 ? "/" : root, &space) != 0) return failed(error);
    *capacity = (uint64_t)space.f_blocks * space.f_frsize;
    *remaining = (uint64_t)space.f_bavail * space.f_frsize;
    *used = *capacity - (uint64_t)space.f_bfree * space.f_frsize;
    return STRAIT_OK;
}

static const strait_store_functions FUNCTIONS = {
    .abi = STRAIT_STORE_ABI,
    .size = sizeof(strait_store_functions),
    .name = "directory",
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
    .flush = flush,
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
