/* A plugin whose stat answers at once. The rest is there because a plugin must have it. */
#include "strait_store.h"

static char opened;

static int32_t open_store(const char *uri, const char *const *options, void **store, strait_error *error) {
    (void)uri, (void)options, (void)error;
    *store = &opened;
    return STRAIT_OK;
}

static void close_store(void *store) {
    (void)store;
}

static uint32_t capabilities(void *store) {
    (void)store;
    return 0;
}

static int32_t get_status(void *store, const strait_caller *caller, const char *path, strait_status *status,
                          strait_error *error) {
    (void)store, (void)caller, (void)path, (void)error;
    *status = (strait_status){.length = 1, .permission = 0644, .owner = "owner", .group = "group"};
    return STRAIT_OK;
}

static int32_t list_open(void *store, const strait_caller *caller, const char *path, void **listing,
                         strait_error *error) {
    (void)store, (void)caller, (void)path, (void)listing, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t list_next(void *listing, char name[STRAIT_NAME_BYTES], strait_status *status,
                         strait_error *error) {
    (void)listing, (void)name, (void)status, (void)error;
    return STRAIT_END;
}

static int32_t open_reader(void *store, const strait_caller *caller, const char *path, void **reader,
                           uint64_t *length, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)reader, (void)length, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t read_at(void *reader, uint64_t offset, void *into, size_t size, size_t *got,
                       strait_error *error) {
    (void)reader, (void)offset, (void)into, (void)size, (void)got, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t create(void *store, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)how, (void)writer, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t write_all(void *writer, const void *from, size_t size, strait_error *error) {
    (void)writer, (void)from, (void)size, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t finish(void *writer, strait_error *error) {
    (void)writer, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t rename_path(void *store, const strait_caller *caller, const char *from, const char *to,
                           int32_t replace, strait_error *error) {
    (void)store, (void)caller, (void)from, (void)to, (void)replace, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t remove_path(void *store, const strait_caller *caller, const char *path, int32_t recursive,
                           strait_error *error) {
    (void)store, (void)caller, (void)path, (void)recursive, (void)error;
    return STRAIT_UNSUPPORTED;
}

static int32_t make_directories(void *store, const strait_caller *caller, const char *path,
                                int64_t permission, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)permission, (void)error;
    return STRAIT_UNSUPPORTED;
}

static const strait_store_functions FUNCTIONS = {
    .abi = STRAIT_STORE_ABI,
    .size = sizeof(strait_store_functions),
    .name = "null",
    .open_store = open_store,
    .close_store = close_store,
    .capabilities = capabilities,
    .stat = get_status,
    .list_open = list_open,
    .list_next = list_next,
    .list_close = close_store,
    .open = open_reader,
    .read = read_at,
    .close_reader = close_store,
    .create = create,
    .write = write_all,
    .flush = finish,
    .sync = finish,
    .close = finish,
    .release = close_store,
    .rename = rename_path,
    .remove = remove_path,
    .mkdirs = make_directories,
};

const strait_store_functions *strait_store_plugin(void) {
    return &FUNCTIONS;
}
