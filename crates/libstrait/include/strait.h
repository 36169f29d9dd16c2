/* Strait: files on distributed file systems for C programs.
 *
 * A URI names a file or directory of any store: file:///DIR/FILE, kadoop://HOST:PORT/FILE,
 * hdfs://HOST:PORT/FILE, s3://BUCKET/FILE, or through a gateway strait://HOST:PORT/FILE. There are two kinds
 * of files:
 *
 * - ordinary files (strait_open): read anywhere, written by one writer at their end;
 * - logical files (strait_plfs_open): any number of processes write one file at once, at any offsets.
 *
 * Nothing in a URI is decoded: %, ? and # stand for themselves. strait://HOST:PORT/@NAME/FILE names a file of the
 * gateway's store NAME; for a first name that itself begins with @, write /@@NAME. A path is UTF-8. Other
 * bytes of a name appear in a listing as private-use characters, which a URI may contain in their place.
 *
 * The library takes credentials and time limits from the same environment variables as the command strait:
 * STRAIT_USER, STRAIT_PASSWORD_FILE, STRAIT_KADOOP_KEY, STRAIT_TLS_CA, STRAIT_TIMEOUT, STRAIT_OPERATION_TIMEOUT and so
 * on. It reads them when it connects to a store, at the first call, and keeps the connection. Without
 * STRAIT_OPERATION_TIMEOUT, a call has no limit of its own: it fails only once the gateway stops answering on other
 * connections, too.
 *
 * A function that fails returns -1 (or NULL) and sets errno; strait_error() returns a text.
 *
 * Any thread can call any function; none may be called from a signal handler. Calls on one handle take turns, except
 * strait_pread, which runs beside others of its kind. No thread may use a handle that another one is closing. A
 * thread isn't cancelled (pthread_cancel) within a call. After fork(2), a child can open files, but using the
 * parent's handles fails with EBADF in the child, and so does closing them. The library installs no signal
 * handler, and its threads block all signals.
 */
#ifndef STRAIT_H
#define STRAIT_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

/* The text of this thread's latest error, for people. It names the operation, the path and the cause. This and
 * the next two texts are valid until the thread's next error. */
const char *strait_error(void);

/* The kind of that error, which decides errno:
 *
 *   NotFound ENOENT, AlreadyExists EEXIST, NotADirectory ENOTDIR, IsADirectory EISDIR, NotEmpty ENOTEMPTY,
 *   PermissionDenied EACCES, Unauthenticated ENOKEY, Unsupported ENOTSUP, Busy EBUSY, NoSpace ENOSPC,
 *   TimedOut ETIMEDOUT, Unavailable EHOSTUNREACH, Corrupt EBADMSG, Internal EIO;
 *   OutcomeUnknown ECONNABORTED: the connection broke, and the change may have been made, or not;
 *   InvalidArgument EINVAL; EBADF if a handle is another process's or open for the other direction, and EXDEV if
 *   two paths lie in different stores. */
const char *strait_error_kind(void);

/* The path of that error, or the address that can't be reached; empty if it has none. */
const char *strait_error_path(void);

/* ---- Ordinary files ---- */

/* An open file. */
typedef struct strait_file strait_file;

/* Given as a mode: the store's default. */
#define STRAIT_DEFAULT_MODE ((mode_t)-1)

/* Opens a file. While a writer has the file open, a second one gets EBUSY: try again later. A process that ends
 * without strait_close keeps its file busy for about half a minute. flags:
 *
 *   O_RDONLY                        to read
 *   O_WRONLY | O_CREAT | O_EXCL     a new file, and its missing parent directories
 *   O_WRONLY | O_CREAT | O_TRUNC    a new file, in place of one that may exist
 *   O_WRONLY | O_APPEND             to write at the end; with O_CREAT, also of a new file
 *
 * mode: permission bits of a new file; the umask doesn't apply. */
strait_file *strait_open(const char *uri, int flags, mode_t mode);

/* Reads up to n bytes at the position, and moves it. Returns fewer bytes only at the file's end or before an
 * error, which the next call reports, unless strait_seek comes between. If a program reads on, the library reads
 * ahead: up to 16 requests of 1 MiB are in flight. */
ssize_t strait_read(strait_file *file, void *bytes, size_t n);

/* Reads up to n bytes at an offset; the position stays. Returns fewer bytes only at the file's end. Any number
 * of threads can do this at once. */
ssize_t strait_pread(strait_file *file, void *bytes, size_t n, off_t offset);

/* Moves the position of strait_read as lseek(2) does: whence is SEEK_SET, SEEK_CUR or SEEK_END. Returns the new
 * position, at most 2^63 - 1. */
off_t strait_seek(strait_file *file, off_t offset, int whence);

/* Writes n bytes at the end. Returns how many the library accepted: fewer than n only after an error, which the
 * next call reports unless the cause is gone. The library gathers up to 1 MiB and sends it while the program
 * works on, so an error may belong to earlier bytes. */
ssize_t strait_write(strait_file *file, const void *bytes, size_t n);

/* The offset of the next byte that is read or written. */
off_t strait_position(strait_file *file);

/* The file's length: when it was opened to read, or with all bytes that were written here. */
off_t strait_length(strait_file *file);

/* Waits until the bytes written so far are visible to readers who open the file afterwards. */
int strait_flush(strait_file *file);

/* Waits until the bytes written so far are on stable storage. After ENOSPC, a store may keep the file open (as
 * Kadoop does). Then repeat the call when there is room: the library kept the bytes. */
int strait_sync(strait_file *file);

/* Closes the file. If it was written, puts its bytes on stable storage first. The handle is invalid afterwards,
 * also after an error: call strait_sync before, to be able to repeat it. */
int strait_close(strait_file *file);

/* ---- Names ---- */

struct strait_status {
    uint64_t size;       /* bytes; of a file that is being written, it may lag behind */
    int64_t modified_ms; /* milliseconds since 1970-01-01 UTC */
    int64_t accessed_ms; /* likewise; 0 if the store doesn't keep it */
    uint32_t mode;       /* S_IFREG or S_IFDIR, and permission bits */
    uint32_t uid, gid;   /* on this host; 65534 for names that the host doesn't know */
    uint32_t replication; /* replicas asked for; 0 for a directory */
};

/* Sets *status to the status of a file or directory. */
int strait_stat(const char *uri, struct strait_status *status);

/* A directory's entries. */
typedef struct strait_listing strait_listing;

/* Begins to list a directory. The entries come in the store's order. A file is listed as its own entry. */
strait_listing *strait_list(const char *uri);

/* The next entry: returns 1, 0 at the end, or -1 after an error, which then comes from each further call. *name is
 * valid until the next call; name and status may be NULL. */
int strait_list_next(strait_listing *listing, const char **name, struct strait_status *status);

/* Frees a listing. */
void strait_list_end(strait_listing *listing);

/* Makes a directory and its missing parents. Succeeds if the directory exists. */
int strait_mkdirs(const char *uri, mode_t mode);

/* Renames a file or directory within its store. replace: also in place of an existing file. */
int strait_rename(const char *uri, const char *to, int replace);

/* Removes a file or an empty directory; if recursive isn't 0, a directory with all in it. */
int strait_remove(const char *uri, int recursive);

/* Shortens a file. */
int strait_truncate(const char *uri, off_t length);

/* Moves the bytes of sources, in order, to the end of the file that uri names, and removes the sources: in one step
 * and without a copy. All are in one store, which has the capability concat, and no program writes them. */
int strait_concat(const char *uri, const char *const *sources, size_t count);

/* Sets the permission bits. The type in a status's mode is ignored. */
int strait_chmod(const char *uri, mode_t mode);

/* Sets owner and group, given as the store's names; NULL leaves that one unchanged. */
int strait_chown(const char *uri, const char *owner, const char *group);

/* Sets the times of the last access and modification, in milliseconds since 1970-01-01 UTC. */
int strait_utime(const char *uri, int64_t accessed_ms, int64_t modified_ms);

int strait_set_replication(const char *uri, int replicas);

/* ---- Copies ---- */

/* Copies a local file, with its permission bits, to a store, and makes missing parent directories. If the URI names
 * a directory, the copy lies in it, under the local name. The copy gets its name when it is complete. Until then, it
 * is a file .strait-put-NUMBER in the same directory; the error names it if it may remain. replace: also in place of
 * an existing file. */
int strait_put(const char *local, const char *uri, int replace);

/* Copies a file of a store, with its permission bits minus the umask, to a local file or into a local directory. The
 * copy gets its name when it is complete. replace: also in place of an existing regular file. If the name is
 * anything else, such as a symbolic link to a file, the call fails with EINVAL. */
int strait_get(const char *uri, const char *local, int replace);

/* ---- What a store knows ---- */

/* The blocks of a file. */
typedef struct strait_blocks strait_blocks;

struct strait_block {
    uint64_t offset, length; /* bytes */
    const char *hosts;       /* names, with commas between, nearest first; valid until the next call */
    int corrupt;             /* not 0: the store knows no good replica */
};

/* Begins to tell which blocks have the bytes of a range. */
strait_blocks *strait_locate(const char *uri, off_t offset, off_t length);

/* The next block: returns 1, or 0 at the end. */
int strait_locate_next(strait_blocks *blocks, struct strait_block *block);

/* Frees the blocks. */
void strait_locate_end(strait_blocks *blocks);

struct strait_checksum {
    char algorithm[64]; /* the store's name of it; only checksums with the same name can be compared */
    unsigned char value[64];
    uint32_t length; /* bytes of the value */
};

/* Sets *checksum to a file's checksum, as the store computes it. */
int strait_file_checksum(const char *uri, struct strait_checksum *checksum);

struct strait_space {
    uint64_t capacity, used, remaining; /* bytes */
};

/* Sets *space to the space of a whole store. */
int strait_statfs(const char *uri, struct strait_space *space);

/* Whether the store can do something: 1 or 0. The capabilities are append, truncate, concat, rename_replace,
 * atomic_rename, permissions, ownership, times, replication, block_locations, checksum, status,
 * visible_while_written, exclusive_writer and per_user. Another name fails with EINVAL. */
int strait_can(const char *uri, const char *capability);

/* ---- Logical files ---- */

/* An open logical file. */
typedef struct strait_plfs strait_plfs;

/* Opens a logical file. flags: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL and O_TRUNC as
 * for open(2). mode: permission bits of a new file; the umask doesn't apply. writer: the number of
 * this writer, for example its rank; several writers can have the same number.
 *
 * O_TRUNC removes all bytes that any writer has synced before. So only one of several writers
 * should use it. */
strait_plfs *strait_plfs_open(const char *uri, int flags, mode_t mode, uint32_t writer);

/* Writes n bytes at an offset. After a sync or close, others can see them, and they survive a
 * crash. Returns n. */
ssize_t strait_plfs_pwrite(strait_plfs *file, const void *bytes, size_t n, off_t offset);

/* Reads up to n bytes at an offset. It syncs this handle's bytes first, and sees them. It also sees
 * the bytes that others synced before this handle was opened or last synced; it may miss later ones.
 * Holes are zeros. Returns fewer bytes only at the file's end. */
ssize_t strait_plfs_pread(strait_plfs *file, void *bytes, size_t n, off_t offset);

/* Makes this handle's bytes durable, and visible to files that are opened afterwards. The next read
 * by this handle also sees the bytes that others have synced. */
int strait_plfs_sync(strait_plfs *file);

/* Sets the file's length, and syncs. */
int strait_plfs_truncate(strait_plfs *file, off_t length);

/* Syncs this handle, and returns the file's length, which counts the synced bytes of all writers. */
off_t strait_plfs_length(strait_plfs *file);

/* Syncs and closes the file. The handle is invalid afterwards, also after an error. */
int strait_plfs_close(strait_plfs *file);

/* Copies a logical file to a plain one, under a new name in the same store. The plain file appears
 * in one step, complete. */
int strait_plfs_flatten(const char *uri, const char *to);

/* Replaces a logical file by a plain one in the same store, under a new name or its own. The plain
 * file appears in one step, complete. All writers must be closed. If each writer wrote one contiguous
 * part and the store can join files, no bytes are copied. Returns the number of copied bytes, or -1.
 * After an error, repeat the call: an interrupted join continues, an interrupted copy starts again. */
int64_t strait_plfs_finalize(const char *uri, const char *to);

/* Renames a logical file within its store. Writers that have it open fail at their next sync. */
int strait_plfs_rename(const char *uri, const char *to);

/* Sets *status to the status of a logical file. Its size counts all bytes that were synced or closed, also
 * while writers are open. */
int strait_plfs_stat(const char *uri, struct strait_status *status);

/* Removes a logical file. */
int strait_plfs_remove(const char *uri);

#ifdef __cplusplus
}
#endif

#endif
