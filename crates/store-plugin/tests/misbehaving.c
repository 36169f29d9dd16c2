/* A plugin that misbehaves around its opening and in reads. The URI says how. */
#include "strait_store.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_key_t at_end;
static const char *closed; /* close_store makes this file */

static void destroy(void *value) {
    (void)value;
}

static int32_t open_store(const char *uri, const char *const *options, void **store, strait_error *error) {
    (void)error;
    closed = options[0] == NULL ? NULL : strdup(options[1]);
    *store = &closed;
    if (strcmp(uri, "x://refuses") != 0) return STRAIT_OK;
    /* As Hadoop's libhdfs: each thread that called it has a destructor of the library. */
    pthread_key_create(&at_end, destroy);
    pthread_setspecific(at_end, &closed);
    return STRAIT_BUSY;
}

static void close_store(void *store) {
    (void)store;
    if (closed != NULL) fclose(fopen(closed, "w"));
}

static uint32_t capabilities(void *store) {
    (void)store;
    return closed == NULL ? 0 : STRAIT_APPEND; /* which has no function */
}

static int32_t open_reader(void *store, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)caller, (void)path, (void)error;
    *reader = store;
    *length = 4096;
    return STRAIT_OK;
}

/* Tells of bytes that it didn't write. */
static int32_t read_at(void *reader, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    (void)reader, (void)offset, (void)into, (void)error;
    *got = size;
    return STRAIT_OK;
}

static int32_t absent(void) {
    return STRAIT_UNSUPPORTED;
}

const strait_store_functions *strait_store_plugin(void) {
    static strait_store_functions table;
    table = (strait_store_functions){
        .abi = STRAIT_STORE_ABI,
        .size = sizeof table,
        .name = "misbehaving",
        .open_store = open_store,
        .close_store = close_store,
        .capabilities = capabilities,
        .stat = (void *)absent,
        .list_open = (void *)absent,
        .list_next = (void *)absent,
        .open = open_reader,
        .read = read_at,
        .create = (void *)absent,
        .write = (void *)absent,
        .flush = (void *)absent,
        .sync = (void *)absent,
        .close = (void *)absent,
        .rename = (void *)absent,
        .remove = (void *)absent,
        .mkdirs = (void *)absent,
    };
    return &table;
}
