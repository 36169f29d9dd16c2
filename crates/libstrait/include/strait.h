/* Strait: files on distributed file systems for C programs.
 *
 * Any number of processes can write a logical file at once, each at any offsets, on any store:
 * file:///DIR/FILE, kadoop://HOST:PORT/FILE, hdfs://HOST:PORT/FILE, strait://HOST:PORT/FILE.
 *
 * The library takes credentials from the same environment variables as the command strait:
 * STRAIT_USER, STRAIT_PASSWORD_FILE, STRAIT_KADOOP_KEY, STRAIT_TLS_CA and so on.
 *
 * A function that fails returns -1 (or NULL) and sets errno; strait_error() returns a text. All
 * functions can be called from any thread. After fork(2), a child can open files, but using the
 * parent's open files fails with EBADF in the child, and so does closing them. The library
 * installs no signal handler, and its threads block all signals.
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
 * After an error, repeat the call: it resumes a join, and begins a copy anew. */
int64_t strait_plfs_finalize(const char *uri, const char *to);

/* Renames a logical file within its store. Writers that have it open fail at their next sync. */
int strait_plfs_rename(const char *uri, const char *to);

struct strait_status {
    uint64_t size;       /* counts all bytes that were synced or closed, also while writers are open */
    int64_t modified_ms; /* milliseconds since 1970-01-01 UTC */
    uint32_t mode;       /* permission bits */
    uint32_t uid, gid;   /* on this host; 65534 for names that the host doesn't know */
    uint32_t reserved;
};

/* Sets *status to the status of a logical file. */
int strait_plfs_stat(const char *uri, struct strait_status *status);

/* Removes a logical file. */
int strait_plfs_remove(const char *uri);

/* The text of this thread's latest error, for people. It is valid until the thread's next call. */
const char *strait_error(void);

#ifdef __cplusplus
}
#endif

#endif
