/* MPI_File_*: logical files here, all others in the MPI library. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum access { AT, OWN, ORDERED };

static void report(MPI_Status *status, int64_t bytes)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    PMPI_Status_set_elements_x(status, MPI_BYTE, bytes);
    PMPI_Status_set_cancelled(status, 0);
}

/* One access. Rank by rank, an ordered one takes the bytes after those of lower ranks. */
static int move_bytes(struct shim_file *file, int writes, enum access access, MPI_Offset offset,
                      void *buffer, int64_t count, MPI_Datatype type, int64_t *done)
{
    int64_t position = access == AT ? offset * file->etype_size : file->position;
    *done = 0;
    if (access == ORDERED) {
        int size = 0;
        PMPI_Type_size(type, &size);
        int64_t mine = count * size, before = 0, all = 0;
        PMPI_Exscan(&mine, &before, 1, MPI_INT64_T, MPI_SUM, file->comm);
        PMPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, file->comm);
        position = file->ordered + (file->rank == 0 ? 0 : before);
        file->ordered += all;
    } else if (position < 0) {
        return shim_raise(file, MPI_ERR_ARG, "the offset is negative");
    }
    int code = writes ? shim_write(file, position, buffer, count, type, done)
                      : shim_read(file, position, buffer, count, type, done);
    if (access == OWN)
        file->position += *done;
    return code;
}

static int move_now(struct shim_file *file, int writes, enum access access, MPI_Offset offset,
                    void *buffer, int64_t count, MPI_Datatype type, MPI_Status *status)
{
    int64_t done;
    int code = move_bytes(file, writes, access, offset, buffer, count, type, &done);
    report(status, done);
    return code;
}

static int query(void *state, MPI_Status *status)
{
    PMPI_Status_set_elements_x(status, MPI_BYTE, *(int64_t *)state);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    free(state);
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* The access is over when the call returns; so is its request. */
static int move_requested(struct shim_file *file, int writes, enum access access, MPI_Offset offset,
                          void *buffer, int64_t count, MPI_Datatype type, MPI_Request *request)
{
    int64_t *done = malloc(sizeof *done);
    if (done == NULL)
        return shim_raise(file, MPI_ERR_NO_MEM, "no memory for a request");
    int code = move_bytes(file, writes, access, offset, buffer, count, type, done);
    if (code != MPI_SUCCESS) {
        free(done);
        *request = MPI_REQUEST_NULL;
        return code;
    }
    code = PMPI_Grequest_start(query, release, cancel, done, request);
    return code == MPI_SUCCESS ? PMPI_Grequest_complete(*request) : code;
}

static int move_begun(struct shim_file *file, int writes, enum access access, MPI_Offset offset,
                      void *buffer, int64_t count, MPI_Datatype type)
{
    return move_bytes(file, writes, access, offset, buffer, count, type, &file->split);
}

static int move_ended(struct shim_file *file, MPI_Status *status)
{
    report(status, file->split);
    return MPI_SUCCESS;
}

static int unsupported(struct shim_file *file, const char *text)
{
    return shim_raise(file, MPI_ERR_UNSUPPORTED_OPERATION, text);
}

#define NO_SHARED "strait: has no file pointer that ranks share outside collective calls"

/* The accesses, each in its forms. */
#define THE(f) struct shim_file *file = shim_find(f)
#define NOW(name, suffix, count_t, constness, writes, access)                                      \
    EXPORT int MPI_File_##name##suffix(MPI_File f, constness void *b, count_t n, MPI_Datatype t,   \
                                       MPI_Status *s)                                              \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_now(file, writes, access, 0, (void *)b, n, t, s)                        \
                    : PMPI_File_##name##suffix(f, b, n, t, s);                                     \
    }
#define NOW_AT(name, suffix, count_t, constness, writes)                                           \
    EXPORT int MPI_File_##name##suffix(MPI_File f, MPI_Offset at, constness void *b, count_t n,    \
                                       MPI_Datatype t, MPI_Status *s)                              \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_now(file, writes, AT, at, (void *)b, n, t, s)                           \
                    : PMPI_File_##name##suffix(f, at, b, n, t, s);                                 \
    }
#define LATER(name, suffix, count_t, constness, writes)                                            \
    EXPORT int MPI_File_##name##suffix(MPI_File f, constness void *b, count_t n, MPI_Datatype t,   \
                                       MPI_Request *r)                                             \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_requested(file, writes, OWN, 0, (void *)b, n, t, r)                     \
                    : PMPI_File_##name##suffix(f, b, n, t, r);                                     \
    }
#define LATER_AT(name, suffix, count_t, constness, writes)                                         \
    EXPORT int MPI_File_##name##suffix(MPI_File f, MPI_Offset at, constness void *b, count_t n,    \
                                       MPI_Datatype t, MPI_Request *r)                             \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_requested(file, writes, AT, at, (void *)b, n, t, r)                     \
                    : PMPI_File_##name##suffix(f, at, b, n, t, r);                                 \
    }
#define BEGIN(name, suffix, count_t, constness, writes, access)                                    \
    EXPORT int MPI_File_##name##_begin##suffix(MPI_File f, constness void *b, count_t n,           \
                                               MPI_Datatype t)                                     \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_begun(file, writes, access, 0, (void *)b, n, t)                         \
                    : PMPI_File_##name##_begin##suffix(f, b, n, t);                                \
    }
#define BEGIN_AT(name, suffix, count_t, constness, writes)                                         \
    EXPORT int MPI_File_##name##_begin##suffix(MPI_File f, MPI_Offset at, constness void *b,       \
                                               count_t n, MPI_Datatype t)                          \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_begun(file, writes, AT, at, (void *)b, n, t)                            \
                    : PMPI_File_##name##_begin##suffix(f, at, b, n, t);                            \
    }
#define END(name, constness)                                                                       \
    EXPORT int MPI_File_##name##_end(MPI_File f, constness void *b, MPI_Status *s)                 \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? move_ended(file, s) : PMPI_File_##name##_end(f, b, s);                       \
    }
#define REFUSED(name, suffix, count_t, constness, last)                                            \
    EXPORT int MPI_File_##name##suffix(MPI_File f, constness void *b, count_t n, MPI_Datatype t,   \
                                       last l)                                                     \
    {                                                                                              \
        THE(f);                                                                                    \
        return file ? unsupported(file, NO_SHARED) : PMPI_File_##name##suffix(f, b, n, t, l);      \
    }

#define TRANSFERS(suffix, count_t)                                                                 \
    NOW_AT(read_at, suffix, count_t, , 0)                                                          \
    NOW_AT(read_at_all, suffix, count_t, , 0)                                                      \
    NOW_AT(write_at, suffix, count_t, const, 1)                                                    \
    NOW_AT(write_at_all, suffix, count_t, const, 1)                                                \
    NOW(read, suffix, count_t, , 0, OWN)                                                           \
    NOW(read_all, suffix, count_t, , 0, OWN)                                                       \
    NOW(write, suffix, count_t, const, 1, OWN)                                                     \
    NOW(write_all, suffix, count_t, const, 1, OWN)                                                 \
    NOW(read_ordered, suffix, count_t, , 0, ORDERED)                                               \
    NOW(write_ordered, suffix, count_t, const, 1, ORDERED)                                         \
    LATER_AT(iread_at, suffix, count_t, , 0)                                                       \
    LATER_AT(iread_at_all, suffix, count_t, , 0)                                                   \
    LATER_AT(iwrite_at, suffix, count_t, const, 1)                                                 \
    LATER_AT(iwrite_at_all, suffix, count_t, const, 1)                                             \
    LATER(iread, suffix, count_t, , 0)                                                             \
    LATER(iread_all, suffix, count_t, , 0)                                                         \
    LATER(iwrite, suffix, count_t, const, 1)                                                       \
    LATER(iwrite_all, suffix, count_t, const, 1)                                                   \
    BEGIN_AT(read_at_all, suffix, count_t, , 0)                                                    \
    BEGIN_AT(write_at_all, suffix, count_t, const, 1)                                              \
    BEGIN(read_all, suffix, count_t, , 0, OWN)                                                     \
    BEGIN(write_all, suffix, count_t, const, 1, OWN)                                               \
    BEGIN(read_ordered, suffix, count_t, , 0, ORDERED)                                             \
    BEGIN(write_ordered, suffix, count_t, const, 1, ORDERED)                                       \
    REFUSED(read_shared, suffix, count_t, , MPI_Status *)                                          \
    REFUSED(write_shared, suffix, count_t, const, MPI_Status *)                                    \
    REFUSED(iread_shared, suffix, count_t, , MPI_Request *)                                        \
    REFUSED(iwrite_shared, suffix, count_t, const, MPI_Request *)

TRANSFERS(, int)
#if MPI_VERSION >= 4
TRANSFERS(_c, MPI_Count)
#endif

END(read_at_all, )
END(write_at_all, const)
END(read_all, )
END(write_all, const)
END(read_ordered, )
END(write_ordered, const)

EXPORT int MPI_File_open(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File *f)
{
    const char *uri = shim_uri(name);
    return uri ? shim_open(comm, uri, amode, info, f) : PMPI_File_open(comm, name, amode, info, f);
}

EXPORT int MPI_File_close(MPI_File *f)
{
    THE(*f);
    return file ? shim_close(file, f) : PMPI_File_close(f);
}

EXPORT int MPI_File_delete(const char *name, MPI_Info info)
{
    const char *uri = shim_uri(name);
    return uri ? shim_delete(uri) : PMPI_File_delete(name, info);
}

EXPORT int MPI_File_set_size(MPI_File f, MPI_Offset size)
{
    THE(f);
    return file ? shim_set_size(file, size, 0) : PMPI_File_set_size(f, size);
}

EXPORT int MPI_File_preallocate(MPI_File f, MPI_Offset size)
{
    THE(f);
    return file ? shim_set_size(file, size, 1) : PMPI_File_preallocate(f, size);
}

EXPORT int MPI_File_get_size(MPI_File f, MPI_Offset *size)
{
    THE(f);
    if (!file)
        return PMPI_File_get_size(f, size);
    *size = strait_plfs_length(file->file);
    return *size < 0 ? shim_failed(file) : MPI_SUCCESS;
}

EXPORT int MPI_File_sync(MPI_File f)
{
    THE(f);
    return file ? shim_sync(file) : PMPI_File_sync(f);
}

EXPORT int MPI_File_get_group(MPI_File f, MPI_Group *group)
{
    THE(f);
    return file ? PMPI_Comm_group(file->comm, group) : PMPI_File_get_group(f, group);
}

EXPORT int MPI_File_get_amode(MPI_File f, int *amode)
{
    THE(f);
    if (!file)
        return PMPI_File_get_amode(f, amode);
    *amode = file->amode;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_set_info(MPI_File f, MPI_Info info)
{
    THE(f);
    return file ? MPI_SUCCESS : PMPI_File_set_info(f, info);
}

EXPORT int MPI_File_get_info(MPI_File f, MPI_Info *info)
{
    THE(f);
    if (!file)
        return PMPI_File_get_info(f, info);
    int code = PMPI_Info_create(info);
    return code ? code : PMPI_Info_set(*info, "strait_publish", file->publish ? "true" : "false");
}

EXPORT int MPI_File_set_view(MPI_File f, MPI_Offset at, MPI_Datatype etype, MPI_Datatype filetype,
                             const char *representation, MPI_Info info)
{
    THE(f);
    return file ? shim_set_view(file, at, etype, filetype, representation)
                : PMPI_File_set_view(f, at, etype, filetype, representation, info);
}

EXPORT int MPI_File_get_view(MPI_File f, MPI_Offset *at, MPI_Datatype *etype,
                             MPI_Datatype *filetype, char *representation)
{
    THE(f);
    if (!file)
        return PMPI_File_get_view(f, at, etype, filetype, representation);
    *at = file->displacement;
    *etype = type_copy(file->etype);
    *filetype = type_copy(file->filetype);
    strcpy(representation, "native");
    return MPI_SUCCESS;
}

EXPORT int MPI_File_seek(MPI_File f, MPI_Offset offset, int whence)
{
    THE(f);
    return file ? shim_seek(file, offset, whence, &file->position) : PMPI_File_seek(f, offset, whence);
}

EXPORT int MPI_File_get_position(MPI_File f, MPI_Offset *offset)
{
    THE(f);
    if (!file)
        return PMPI_File_get_position(f, offset);
    *offset = file->position / file->etype_size;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_seek_shared(MPI_File f, MPI_Offset offset, int whence)
{
    THE(f);
    return file ? shim_seek(file, offset, whence, &file->ordered)
                : PMPI_File_seek_shared(f, offset, whence);
}

EXPORT int MPI_File_get_position_shared(MPI_File f, MPI_Offset *offset)
{
    THE(f);
    if (!file)
        return PMPI_File_get_position_shared(f, offset);
    *offset = file->ordered / file->etype_size;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_get_byte_offset(MPI_File f, MPI_Offset offset, MPI_Offset *place)
{
    THE(f);
    if (!file)
        return PMPI_File_get_byte_offset(f, offset, place);
    *place = shim_place(file, offset * file->etype_size);
    return MPI_SUCCESS;
}

EXPORT int MPI_File_get_type_extent(MPI_File f, MPI_Datatype type, MPI_Aint *extent)
{
    MPI_Aint low;
    THE(f);
    return file ? PMPI_Type_get_extent(type, &low, extent) : PMPI_File_get_type_extent(f, type, extent);
}

EXPORT int MPI_File_set_atomicity(MPI_File f, int on)
{
    THE(f);
    if (!file)
        return PMPI_File_set_atomicity(f, on);
    file->atomic = on;
    return shim_sync(file);
}

EXPORT int MPI_File_get_atomicity(MPI_File f, int *on)
{
    THE(f);
    if (!file)
        return PMPI_File_get_atomicity(f, on);
    *on = file->atomic;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_set_errhandler(MPI_File f, MPI_Errhandler handler)
{
    THE(f);
    if (!file)
        return PMPI_File_set_errhandler(f, handler);
    if (handler != MPI_ERRORS_RETURN && handler != MPI_ERRORS_ARE_FATAL)
        return unsupported(file, "strait: calls no error handlers of the program's own");
    file->errhandler = handler;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_get_errhandler(MPI_File f, MPI_Errhandler *handler)
{
    THE(f);
    if (!file)
        return PMPI_File_get_errhandler(f, handler);
    *handler = file->errhandler;
    return MPI_SUCCESS;
}

EXPORT int MPI_File_call_errhandler(MPI_File f, int code)
{
    THE(f);
    if (!file)
        return PMPI_File_call_errhandler(f, code);
    if (file->errhandler == MPI_ERRORS_ARE_FATAL)
        PMPI_Abort(file->comm, code);
    return MPI_SUCCESS;
}

/* MPICH's Fortran calls these functions, OpenMPI's calls PMPI_File_*. */
EXPORT MPI_Fint MPI_File_c2f(MPI_File f)
{
    THE(f);
    return file ? file->number : PMPI_File_c2f(f);
}

EXPORT MPI_File MPI_File_f2c(MPI_Fint number)
{
    MPI_File f = shim_numbered(number);
    return f != MPI_FILE_NULL ? f : PMPI_File_f2c(number);
}
