/* The reference plugin with a fault, which the variable STRAIT_FAULT names: "denied", "late" (its clock is an hour
 * behind), "corrupt" or "hangs". */
#define strait_store_plugin sound_plugin
#include "../../../../plugins/reference/reference.c"
#undef strait_store_plugin

#include <stdlib.h>

#define HOUR_MS 3600000

static int32_t denied(void *store, const strait_caller *caller, const char *path, const strait_create *how,
                      void **writer, strait_error *error) {
    (void)store, (void)caller, (void)path, (void)how, (void)writer;
    strcpy(error->message, "the directory is read-only");
    return STRAIT_PERMISSION_DENIED;
}

static int32_t late(void *store, const strait_caller *caller, const char *path, strait_status *status,
                    strait_error *error) {
    int32_t kind = get_status(store, caller, path, status, error);
    status->modified_ms -= HOUR_MS;
    return kind;
}

static int32_t corrupt(void *reader, uint64_t offset, void *into, size_t size, size_t *got, strait_error *error) {
    int32_t kind = read_at(reader, offset, into, size, got, error);
    if (kind == STRAIT_OK && *got > 0) *(char *)into ^= 1;
    return kind;
}

static int32_t hangs(void *store, const strait_caller *caller, const char *path, void **listing,
                     strait_error *error) {
    (void)store, (void)caller, (void)path, (void)listing, (void)error;
    pause();
    return STRAIT_INTERNAL;
}

const strait_store_functions *strait_store_plugin(void) {
    static strait_store_functions table;
    const char *fault = getenv("STRAIT_FAULT");
    table = *sound_plugin();
    if (fault == NULL) return &table;
    if (strcmp(fault, "denied") == 0) table.create = denied;
    if (strcmp(fault, "late") == 0) table.stat = late;
    if (strcmp(fault, "corrupt") == 0) table.read = corrupt;
    if (strcmp(fault, "hangs") == 0) table.list_open = hangs;
    return &table;
}
