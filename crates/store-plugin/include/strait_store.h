/* strait_store.h: a file system for Strait, as a shared library.
 *
 * The library exports one function, strait_store_plugin(). It returns the table below, which lives
 * as long as the library.
 *
 * Results.   Each function returns STRAIT_OK or a kind of error. On an error, it can write a
 *            message for people into `error`: the cause, without path and operation.
 * Ownership. Pointers that the caller passes are valid only during the call. A function that opens
 *            something stores a pointer of the plugin in `*store`, `*listing`, `*reader` or
 *            `*writer`. The pointer must stay valid until the caller passes it to close_store,
 *            list_close, close_reader or release. After an error, the caller ignores it.
 *            The caller passes each pointer to these functions once, and those of a store before the
 *            store itself. But a separate process is killed at its end, without these calls.
 * Threads.   The caller uses many threads. Several of them may use one store or one reader at the
 *            same time, but only one at a time uses a listing or a writer. A process can open
 *            several stores.
 * Paths.     Absolute, normalised, with `/` between the names, UTF-8, ending with NUL. The root
 *            is `/`. A path has at most 8,000 bytes and 1,000 names, and a name 255 bytes. (Only a
 *            name with U+10FE80 .. U+10FEFF, which stand for bytes that aren't UTF-8, can have
 *            1,020.) A name that isn't UTF-8, or has STRAIT_NAME_BYTES or more, can't be
 *            expressed: leave it out of listings.
 *            Refuse a new name that you couldn't list, as STRAIT_INVALID_ARGUMENT.
 * Time.      A function that doesn't return within 30 s (open_store and close: 60 s) counts as
 *            hung, unless the operator sets another limit. Its caller gets an error. The function
 *            isn't interrupted: end a wait yourself before that, as STRAIT_TIMED_OUT, or
 *            STRAIT_OUTCOME_UNKNOWN if a change may have happened.
 * Changes.   Once create, truncate, rename, remove, mkdirs or set_attributes has returned, the change
 *            is on stable storage if the file system can do that, and all callers see it. If several
 *            callers create one name (without `overwrite`) or rename to one (without `replace`),
 *            exactly one succeeds; mkdirs succeeds for all. A reader of a file that is removed,
 *            renamed or replaced may go on with the old bytes, or get STRAIT_NOT_FOUND. Its writer
 *            may go on or fail, but mustn't bring the old name back.
 * Rights.    Act as the caller's user. If you can't, don't declare STRAIT_PER_USER, and act as the
 *            user of the process or of a login: then this user owns new files.
 * Errors.    The comments below state each function's errors. In addition, where they can happen:
 *            STRAIT_NOT_FOUND if the path doesn't exist; STRAIT_NOT_A_DIRECTORY if a name above it
 *            is a file (stat and remove: or STRAIT_NOT_FOUND); STRAIT_PERMISSION_DENIED if the user
 *            lacks a right; STRAIT_NO_SPACE; STRAIT_UNAUTHENTICATED if a login is missing or has
 *            expired; STRAIT_CORRUPT if stored bytes are damaged; STRAIT_INTERNAL for all else.
 *            STRAIT_BUSY, STRAIT_TIMED_OUT and STRAIT_UNAVAILABLE tell that nothing was changed:
 *            callers may repeat the call. If a change may have happened: STRAIT_OUTCOME_UNKNOWN.
 *            There is no function that joins files: Strait's own concat is unsupported on a plugin.
 * Output.    Print only to standard error; the plugin's process shows it. No C++ exception may leave
 *            a function. With -fvisibility=hidden, export strait_store_plugin yourself.
 *
 * A later version of this file only appends functions and fields, and `size` shows which ones a
 * table has. Any other change gets another STRAIT_STORE_ABI.
 *
 * Licence: Apache-2.0
 */
#ifndef STRAIT_STORE_H
#define STRAIT_STORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRAIT_STORE_ABI 1u

/* Kinds of error. */
enum {
    STRAIT_OK = 0,
    STRAIT_NOT_FOUND = 1,
    STRAIT_ALREADY_EXISTS = 2,
    STRAIT_NOT_A_DIRECTORY = 3,
    STRAIT_IS_A_DIRECTORY = 4,
    STRAIT_NOT_EMPTY = 5,
    STRAIT_PERMISSION_DENIED = 6,
    STRAIT_UNAUTHENTICATED = 7,
    STRAIT_INVALID_ARGUMENT = 8,
    STRAIT_UNSUPPORTED = 9,
    STRAIT_BUSY = 10,
    STRAIT_NO_SPACE = 11,
    STRAIT_TIMED_OUT = 12,
    STRAIT_UNAVAILABLE = 13,
    STRAIT_CORRUPT = 14,
    STRAIT_OUTCOME_UNKNOWN = 15,
    STRAIT_INTERNAL = 16,
    /* Only list_next returns this: there are no more entries. */
    STRAIT_END = 100
};

/* Capabilities: the file system's abilities beyond stat, list, open, create, rename, remove and
 * mkdirs. If a capability isn't declared, its functions are never called. */
enum {
    STRAIT_APPEND = 1 << 0,                 /* has append */
    STRAIT_TRUNCATE = 1 << 1,               /* has truncate */
    STRAIT_RENAME_REPLACE = 1 << 2,         /* rename with `replace`, in one step */
    STRAIT_ATOMIC_RENAME = 1 << 3,          /* rename is one step, no copy */
    STRAIT_PERMISSIONS = 1 << 4,            /* keeps permission bits, and can set them */
    STRAIT_OWNERSHIP = 1 << 5,              /* set_attributes sets owner and group */
    STRAIT_TIMES = 1 << 6,                  /* set_attributes sets both times, to the millisecond */
    STRAIT_REPLICATION = 1 << 7,            /* create and set_attributes set the number of replicas */
    STRAIT_BLOCK_LOCATIONS = 1 << 8,        /* has block_locations */
    STRAIT_CHECKSUM = 1 << 9,               /* has checksum */
    STRAIT_STATUS = 1 << 10,                /* has status */
    STRAIT_VISIBLE_WHILE_WRITTEN = 1 << 11, /* a file is visible from create on, with all flushed bytes */
    STRAIT_EXCLUSIVE_WRITER = 1 << 12,      /* while a file has a writer, a second one gets STRAIT_BUSY */
    STRAIT_PER_USER = 1 << 13,              /* acts as the caller's user */
    STRAIT_REMOVES_TREES = 1 << 14          /* remove with `recursive` is quick for any tree */
};

#define STRAIT_MESSAGE_BYTES 512
#define STRAIT_NAME_BYTES 256
#define STRAIT_OWNER_BYTES 128

typedef struct strait_error {
    char message[STRAIT_MESSAGE_BYTES]; /* UTF-8, ends with NUL */
} strait_error;

typedef struct strait_caller {
    const char *user;
    const char *const *groups; /* ends with NULL */
} strait_caller;

typedef struct strait_status {
    uint64_t length;     /* bytes; 0 for a directory */
    uint64_t block_size; /* bytes; 0 for a directory, at least 1 for a file */
    int64_t modified_ms; /* since 1970-01-01 UTC */
    int64_t accessed_ms; /* 0 if not kept */
    uint32_t permission; /* at most 07777 */
    uint16_t replication; /* 0 for a directory, 1 for a file without replication */
    uint8_t directory;    /* 0 or 1 */
    uint8_t link;         /* in listings: the name is a symbolic link; the rest describes its target */
    char owner[STRAIT_OWNER_BYTES]; /* a name; without owners, that of the user as whom you act */
    char group[STRAIT_OWNER_BYTES]; /* the same for the group */
} strait_status;

/* The defaults are the file system's. Ignore what it doesn't have. */
typedef struct strait_create {
    uint8_t overwrite;
    uint8_t has_permission; /* 0: the default */
    uint16_t replication;   /* 0: the default */
    uint32_t permission;    /* exactly as the file gets it, no umask */
    uint64_t block_size;    /* 0: the default */
} strait_create;

/* Attributes to set, perhaps none. The others stay unchanged. Without its capability, an attribute is
 * never set here. */
typedef struct strait_attributes {
    uint8_t has_permission, has_modified, has_accessed, has_replication;
    uint32_t permission;
    uint16_t replication;
    int64_t modified_ms, accessed_ms;
    const char *owner; /* or NULL */
    const char *group; /* or NULL */
} strait_attributes;

/* Receives one block of a file. `hosts` ends with NULL. block_locations calls this in its own thread,
 * before it returns. */
typedef void (*strait_block_fn)(void *context, uint64_t offset, uint64_t length, const char *const *hosts);

/* These may be NULL: name, close_store, recovery_ms, list_close, close_reader, release; without their
 * capabilities, append, truncate, block_locations, checksum, status; without STRAIT_PERMISSIONS,
 * STRAIT_OWNERSHIP, STRAIT_TIMES and STRAIT_REPLICATION, set_attributes. */
typedef struct strait_store_functions {
    uint32_t abi;     /* STRAIT_STORE_ABI */
    uint32_t size;    /* sizeof(strait_store_functions) */
    const char *name; /* of the file system, for people */

    /* Opens the file system of `uri`, such as "sector://master:6000". In `options`, each key is
     * followed by its value; the list ends with NULL. Refuse an unknown key as
     * STRAIT_INVALID_ARGUMENT. */
    int32_t (*open_store)(const char *uri, const char *const *options, void **store, strait_error *error);
    void (*close_store)(void *store);
    uint32_t (*capabilities)(void *store);
    /* Milliseconds after which an abandoned file is writable again, at the latest. NULL: 0. */
    uint32_t (*recovery_ms)(void *store);

    /* Follows symbolic links within the file system. */
    int32_t (*stat)(void *store, const strait_caller *caller, const char *path, strait_status *status,
                    strait_error *error);
    /* Opens the listing of a directory. For a file: STRAIT_NOT_A_DIRECTORY; Strait then lists the file
     * itself, by stat. */
    int32_t (*list_open)(void *store, const strait_caller *caller, const char *path, void **listing,
                         strait_error *error);
    /* Stores the next entry; STRAIT_END after the last one. Its status is that of stat, except `link`. */
    int32_t (*list_next)(void *listing, char name[STRAIT_NAME_BYTES], strait_status *status,
                         strait_error *error);
    void (*list_close)(void *listing);

    /* Opens a file to read, and stores its length. For a directory: STRAIT_IS_A_DIRECTORY. */
    int32_t (*open)(void *store, const strait_caller *caller, const char *path, void **reader,
                    uint64_t *length, strait_error *error);
    /* Reads up to `size` bytes, 1 to 4 MiB; fewer only at the end of the file. At or beyond the end:
     * STRAIT_OK, and `*got` is 0. */
    int32_t (*read)(void *reader, uint64_t offset, void *into, size_t size, size_t *got, strait_error *error);
    void (*close_reader)(void *reader);

    /* Creates a file, and its missing parents. STRAIT_ALREADY_EXISTS if the path is a directory, or a
     * file and `overwrite` is 0. If a writer has the file open: STRAIT_BUSY, or that writer fails. */
    int32_t (*create)(void *store, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error);
    /* Opens a file to write at its end, whose offset it stores in `*position`. For a directory:
     * STRAIT_IS_A_DIRECTORY. With STRAIT_EXCLUSIVE_WRITER, STRAIT_BUSY while a writer has the file open. */
    int32_t (*append)(void *store, const strait_caller *caller, const char *path, void **writer,
                      uint64_t *position, strait_error *error);
    /* Accepts all bytes, 1 to 4 MiB, or fails. After an error of write, flush, sync or close, only
     * release follows. */
    int32_t (*write)(void *writer, const void *from, size_t size, strait_error *error);
    /* Readers that open the file afterwards see the bytes. Without STRAIT_VISIBLE_WHILE_WRITTEN, flush
     * and sync promise nothing. */
    int32_t (*flush)(void *writer, strait_error *error);
    /* Puts the bytes on stable storage. */
    int32_t (*sync)(void *writer, strait_error *error);
    /* As sync, and records the length. */
    int32_t (*close)(void *writer, strait_error *error);
    /* Frees the writer: called once for each writer, also after close or a failed close. If it wasn't
     * closed, its file is abandoned: flushed bytes stay. */
    void (*release)(void *writer);

    /* Cuts a file. STRAIT_INVALID_ARGUMENT if it is shorter than `length`; STRAIT_IS_A_DIRECTORY for a
     * directory. With STRAIT_EXCLUSIVE_WRITER, STRAIT_BUSY while a writer has the file open. */
    int32_t (*truncate)(void *store, const strait_caller *caller, const char *path, uint64_t length,
                        strait_error *error);
    /* `to` is the new name itself, never a directory to move into. The cases:
     *   `from` is the root                       STRAIT_INVALID_ARGUMENT
     *   `to` is the root, or equals `from`       STRAIT_ALREADY_EXISTS
     *   `to` is beneath the directory `from`     STRAIT_INVALID_ARGUMENT
     *   the parent of `to` is missing            STRAIT_NOT_FOUND
     *   `to` exists, `replace` is 0              STRAIT_ALREADY_EXISTS
     *   replace a file by a file                 STRAIT_OK
     *   replace a file by a directory            STRAIT_NOT_A_DIRECTORY
     *   replace a directory by a file            STRAIT_IS_A_DIRECTORY
     *   replace a directory by a directory       STRAIT_OK if `to` is empty, else STRAIT_NOT_EMPTY
     * Without STRAIT_RENAME_REPLACE, `replace` is always 0. */
    int32_t (*rename)(void *store, const strait_caller *caller, const char *from, const char *to,
                      int32_t replace, strait_error *error);
    /* Removes a file, or a directory: STRAIT_NOT_EMPTY if it has entries and `recursive` is 0; with
     * `recursive`, all that it has, also what isn't listed. Never called for the root. Without
     * STRAIT_REMOVES_TREES, Strait first removes a tree's listed entries by a call for each. */
    int32_t (*remove)(void *store, const strait_caller *caller, const char *path, int32_t recursive,
                      strait_error *error);
    /* Makes a directory, and its missing parents. STRAIT_OK if the directory exists, also for the root;
     * STRAIT_ALREADY_EXISTS if a file has the path. `permission` applies to the directory itself;
     * negative: the file system's default, which new parents get, too. */
    int32_t (*mkdirs)(void *store, const strait_caller *caller, const char *path, int64_t permission,
                      strait_error *error);
    /* STRAIT_INVALID_ARGUMENT if the file system has no such owner, or can't keep such a time. */
    int32_t (*set_attributes)(void *store, const strait_caller *caller, const char *path,
                              const strait_attributes *attributes, strait_error *error);
    /* Passes the blocks that overlap `offset` .. `offset + length` to `block`, in order, each with one
     * host or more. At or beyond the end, and for an empty file or `length` 0: none, and STRAIT_OK. */
    int32_t (*block_locations)(void *store, const strait_caller *caller, const char *path, uint64_t offset,
                               uint64_t length, strait_block_fn block, void *context, strait_error *error);
    /* Stores the file's checksum: the name of its kind, such as "MD5-of-0MD5-of-512CRC32C", which ends
     * with NUL, and 1 to 64 bytes. Only checksums of the same name are compared. */
    int32_t (*checksum)(void *store, const strait_caller *caller, const char *path, char kind[64],
                        uint8_t value[64], size_t *size, strait_error *error);
    /* Stores the whole file system's bytes; UINT64_MAX if there is no limit. */
    int32_t (*status)(void *store, uint64_t *capacity, uint64_t *used, uint64_t *remaining,
                      strait_error *error);
} strait_store_functions;

/* The one function that the library exports. */
const strait_store_functions *strait_store_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
