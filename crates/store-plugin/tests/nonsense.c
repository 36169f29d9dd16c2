/* A plugin of a later version of strait_store.h, whose table is larger. Its calls return impossible values, or don't
 * return. */
#include "strait_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    strait_store_functions known;
    void (*appended[8])(void);
} table;

static int32_t open_store(const char *uri, const char *const *options, void **store, strait_error *error) {
    (void)uri, (void)options, (void)error;
    *store = &table;
    return STRAIT_OK;
}

/* All that there are and others, but one. */
static uint32_t capabilities(void *store) {
    (void)store;
    return UINT32_MAX & ~(uint32_t)STRAIT_REMOVES_TREES;
}

static int32_t get_status(void *store, const strait_caller *caller, const char *path, strait_status *status,
                          strait_error *error) {
    (void)store, (void)caller, (void)error;
    memset(status, 0, sizeof *status);
    while (strcmp(path, "/hang") == 0) pause();
    if (strcmp(path, "/mode") == 0) status->permission = 010000;
    if (strcmp(path, "/block_size") == 0) status->block_size = UINT64_MAX;
    if (strcmp(path, "/end") == 0) return STRAIT_END;
    return STRAIT_OK;
}

static int32_t list_open(void *store, const strait_caller *caller, const char *path, void **listing,
                         strait_error *error) {
    (void)store, (void)caller, (void)path, (void)error;
    *listing = calloc(1, sizeof(int));
    return STRAIT_OK;
}

/* The same file in each listing, though it was removed. */
static int32_t list_next(void *listing, char name[STRAIT_NAME_BYTES], strait_status *status,
                         strait_error *error) {
    (void)error;
    if (++*(int *)listing > 1) return STRAIT_END;
    strcpy(name, "again");
    memset(status, 0, sizeof *status);
    status->block_size = 1;
    return STRAIT_OK;
}

static int32_t remove_path(void *store, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)store, (void)caller, (void)error;
    return strcmp(path, "/tree") == 0 && !recursive ? STRAIT_NOT_EMPTY : STRAIT_OK;
}

static int32_t open_reader(void *store, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)caller, (void)path, (void)error;
    *reader = store;
    *length = UINT64_MAX;
    return STRAIT_OK;
}

static int32_t append(void *store, const strait_caller *caller, const char *path, void **writer,
                      uint64_t *position, strait_error *error) {
    (void)caller, (void)path, (void)error;
    *writer = store;
    *position = UINT64_MAX;
    return STRAIT_OK;
}

static int32_t block_locations(void *store, const strait_caller *caller, const char *path, uint64_t offset,
                               uint64_t length, strait_block_fn block, void *context, strait_error *error) {
    const char *hosts[] = {NULL};
    (void)store, (void)caller, (void)path, (void)offset, (void)length, (void)error;
    block(context, UINT64_MAX, 2, hosts);
    return STRAIT_OK;
}

static int32_t checksum(void *store, const strait_caller *caller, const char *path, char kind[64],
                        uint8_t value[64], size_t *size, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)value, (void)error;
    memset(kind, 'k', 64); /* without its end */
    *size = strcmp(path, "/kind") == 0 ? 4 : 65;
    return STRAIT_OK;
}

static int32_t store_status(void *store, uint64_t *capacity, uint64_t *used, uint64_t *remaining,
                            strait_error *error) {
    (void)store, (void)error;
    *capacity = *used = *remaining = UINT64_MAX;
    return STRAIT_OK;
}

static int32_t absent(void) {
    return STRAIT_UNSUPPORTED;
}

const strait_store_functions *strait_store_plugin(void) {
    table.known = (strait_store_functions){
        .abi = STRAIT_STORE_ABI,
        .size = sizeof table,
        .name = "nonsense",
        .open_store = open_store,
        .capabilities = capabilities,
        .stat = get_status,
        .list_open = list_open,
        .list_next = list_next,
        .list_close = free,
        .open = open_reader,
        .read = (void *)absent,
        .create = (void *)absent,
        .append = append,
        .write = (void *)absent,
        .flush = (void *)absent,
        .sync = (void *)absent,
        .close = (void *)absent,
        .truncate = (void *)absent,
        .rename = (void *)absent,
        .remove = remove_path,
        .mkdirs = (void *)absent,
        .set_attributes = (void *)absent,
        .block_locations = block_locations,
        .checksum = checksum,
        .status = store_status,
    };
    return &table.known;
}
