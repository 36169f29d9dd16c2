/* Strait: files on distributed file systems for C programs.
 *
 * A logical file is one that any number of processes write at once, each at any offsets, on any
 * store: file:///DIR/FILE, kadoop://HOST:PORT/FILE, hdfs://HOST:PORT/FILE, strait://HOST:PORT/FILE.
 *
 * Credentials come from the variables of the command: STRAIT_USER, STRAIT_PASSWORD_FILE,
 * STRAIT_KADOOP_KEY, STRAIT_TLS_CA and so on.
 *
 * Functions that fail return -1 (or NULL) and set errno; strait_error() tells more. All functions
 * may be called from any thread. After fork(2) a child may open files, but its parent's open files
 * fail there with EBADF; it may close them, which frees their memory only. The library installs no
 * signal handler, and its threads block all signals.
 */
#ifndef STRAIT_H
#define STRAIT_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open logical file. */
typedef struct strait_plfs strait_plfs;

/* Opens a logical file. flags: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL and O_TRUNC as
 * for open(2). mode: permission bits of a new file, without a umask. writer: the number of this
 * writer, for example its rank; several may have the same.
 *
 * O_TRUNC removes all bytes that any writer has synced before; with many writers let one of them do it. */
strait_plfs *strait_plfs_open(const char *uri, int flags, mode_t mode, uint32_t writer);

/* Writes n bytes at an offset. They are visible to others, and survive a crash, after sync or
 * close. Returns n. */
ssize_t strait_plfs_pwrite(strait_plfs *file, const void *bytes, size_t n, off_t offset);

/* Reads up to n bytes at an offset. It sees the bytes synced before the open, and those that this
 * handle wrote, which it syncs first. Holes read as zeros. Returns fewer bytes only at the file's end. */
ssize_t strait_plfs_pread(strait_plfs *file, void *bytes, size_t n, off_t offset);

/* Makes this handle's bytes durable. Files that are opened afterwards see them. The next read
 * through this handle sees them, too, and the bytes that others have synced. */
int strait_plfs_sync(strait_plfs *file);

/* Sets the length, and syncs. */
int strait_plfs_truncate(strait_plfs *file, off_t length);

/* Syncs this handle, and returns the file's length: it counts the synced bytes of all writers. */
off_t strait_plfs_length(strait_plfs *file);

/* Syncs and closes. The handle is invalid afterwards, also after an error. */
int strait_plfs_close(strait_plfs *file);

/* Makes a plain file, under a new name in the same store, of a logical one. It appears whole. */
int strait_plfs_flatten(const char *uri, const char *to);

/* Ends a logical file: a plain file of the same store takes its place, under a new name or its own, and
 * appears whole. No writer may be open. Where each writer wrote a contiguous part, the store joins the
 * parts without moving bytes. Returns the bytes that were moved (0 then), or -1. After an error, the
 * next call resumes. */
int64_t strait_plfs_finalize(const char *uri, const char *to);

/* Renames a logical file within its store. Writers that have it open fail at their next sync. */
int strait_plfs_rename(const char *uri, const char *to);

struct strait_status {
    uint64_t size;       /* counts synced and closed writers' bytes, also while it is open */
    int64_t modified_ms; /* since 1970-01-01 UTC */
    uint32_t mode;       /* permission bits */
    uint32_t uid, gid;   /* on this host; 65534 for names that it doesn't know */
    uint32_t reserved;
};

/* The status of a logical file. */
int strait_plfs_stat(const char *uri, struct strait_status *status);

/* Removes a logical file. */
int strait_plfs_remove(const char *uri);

/* The last error of this thread, for people. Valid until the thread's next call. */
const char *strait_error(void);

#ifdef __cplusplus
}
#endif

#endif
