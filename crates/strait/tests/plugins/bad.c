/* A plugin that misbehaves, as the variable STRAIT_BAD_PLUGIN says. */
#include "strait_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static strait_store_functions table;

static int32_t open_store(const char *uri, const char *const *options, void **store, strait_error *error) {
    (void)uri, (void)options, (void)error;
    *store = &table;
    return STRAIT_OK;
}

static uint32_t capabilities(void *store) {
    (void)store;
    return 0;
}

static int32_t get_status(void *store, const strait_caller *caller, const char *path, strait_status *status,
                          strait_error *error) {
    (void)store, (void)caller;
    memset(status, 0, sizeof *status);
    if (strcmp(path, "/crash") == 0) abort();
    if (strcmp(path, "/hang") == 0) pause();
    if (strcmp(path, "/kind") == 0) return 4711;
    char byte;
    if (strcmp(path, "/input") == 0 && read(STDIN_FILENO, &byte, 1) != 0) return STRAIT_CORRUPT;
    if (strcmp(path, "/text") == 0) {
        memset(error->message, 'x', sizeof error->message); /* without its end */
        return STRAIT_BUSY;
    }
    status->directory = strcmp(path, "/") == 0;
    status->length = strcmp(path, "/long") == 0 ? UINT64_MAX : 100;
    memset(status->owner, 'o', sizeof status->owner);
    return STRAIT_OK;
}

static int32_t open_reader(void *store, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)error;
    *reader = &table;
    *length = 100;
    return STRAIT_OK;
}

static int32_t read_at(void *reader, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    (void)reader, (void)offset, (void)into, (void)error;
    *got = size + 1000000;
    return STRAIT_OK;
}

static int32_t list_open(void *store, const strait_caller *caller, const char *path, void **listing,
                         strait_error *error) {
    (void)store, (void)caller, (void)path, (void)error;
    *listing = &table;
    return STRAIT_OK;
}

static int32_t list_next(void *listing, char name[STRAIT_NAME_BYTES], strait_status *status,
                         strait_error *error) {
    (void)listing, (void)error;
    memset(status, 0, sizeof *status);
    strcpy(name, "../../etc/passwd");
    return STRAIT_OK;
}

static int32_t create(void *store, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)how, (void)error;
    *writer = &table;
    return STRAIT_OK;
}

static int32_t write_all(void *writer, const void *from, size_t size, strait_error *error) {
    (void)writer, (void)from, (void)size, (void)error;
    abort();
}

static int32_t nothing(void *writer, strait_error *error) {
    (void)writer, (void)error;
    return STRAIT_OK;
}

static int32_t rename_path(void *store, const strait_caller *caller, const char *from, const char *to,
                           int32_t replace, strait_error *error) {
    (void)store, (void)caller, (void)from, (void)to, (void)replace, (void)error;
    abort();
}

static int32_t remove_path(void *store, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)store, (void)caller, (void)path, (void)recursive, (void)error;
    return STRAIT_OK;
}

static int32_t mkdirs(void *store, const strait_caller *caller, const char *path, int64_t permission,
                      strait_error *error) {
    (void)store, (void)caller, (void)path, (void)permission, (void)error;
    pause();
    return STRAIT_OK;
}

const strait_store_functions *strait_store_plugin(void) {
    const char *how = getenv("STRAIT_BAD_PLUGIN");
    how = how == NULL ? "" : how;
    table = (strait_store_functions){
        .abi = strcmp(how, "abi") == 0 ? 7 : STRAIT_STORE_ABI,
        .size = strcmp(how, "size") == 0 ? 64 : sizeof table,
        .name = "bad",
        .open_store = open_store,
        .capabilities = capabilities,
        .stat = strcmp(how, "function") == 0 ? NULL : get_status,
        .list_open = list_open,
        .list_next = list_next,
        .open = open_reader,
        .read = read_at,
        .create = create,
        .write = write_all,
        .flush = nothing,
        .sync = nothing,
        .close = nothing,
        .rename = rename_path,
        .remove = remove_path,
        .mkdirs = mkdirs,
    };
    if (strcmp(how, "hang") == 0) pause();
    if (strcmp(how, "crash") == 0) abort();
    return strcmp(how, "null") == 0 ? NULL : &table;
}
