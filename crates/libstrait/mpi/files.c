/* Opening, closing, sizes and views of logical files. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define PREFIX "strait:"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_file *open_files;
/* MPI libraries number their files from 0, so these numbers don't collide with theirs. */
static MPI_Fint next_number = 1 << 30;

struct shim_file *shim_find(MPI_File handle)
{
    pthread_mutex_lock(&lock);
    struct shim_file *file = open_files;
    while (file != NULL && (void *)file != (void *)handle)
        file = file->next;
    pthread_mutex_unlock(&lock);
    return file;
}

MPI_File shim_numbered(MPI_Fint number)
{
    pthread_mutex_lock(&lock);
    struct shim_file *file = open_files;
    while (file != NULL && file->number != number)
        file = file->next;
    pthread_mutex_unlock(&lock);
    return file == NULL ? MPI_FILE_NULL : (MPI_File)(void *)file;
}

const char *shim_uri(const char *name)
{
    if (name == NULL || strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return NULL;
    const char *rest = name + strlen(PREFIX);
    /* strait://GATEWAY/FILE is itself a URI. */
    return strncmp(rest, "//", 2) == 0 ? name : rest;
}

/* The MPI library can't keep the text: MPICH loses the texts of error codes that are added to its
 * own classes. So the class is the error code, and the text goes to standard error, as MPI's own
 * texts do. If the file is missing or exists, nothing is printed, since programs test for that. */
int shim_raise(struct shim_file *file, int class, const char *text)
{
    if (class != MPI_ERR_NO_SUCH_FILE && class != MPI_ERR_FILE_EXISTS)
        fprintf(stderr, "MPI-IO: %s\n", text);
    if (file != NULL && file->errhandler == MPI_ERRORS_ARE_FATAL)
        PMPI_Abort(file->comm, 1);
    return class;
}

static int class_of(int number)
{
    switch (number) {
    case ENOENT:
        return MPI_ERR_NO_SUCH_FILE;
    case EEXIST:
        return MPI_ERR_FILE_EXISTS;
    case EACCES:
    case EPERM:
        return MPI_ERR_ACCESS;
    case ENOSPC:
        return MPI_ERR_NO_SPACE;
    case EDQUOT:
        return MPI_ERR_QUOTA;
    case EROFS:
        return MPI_ERR_READ_ONLY;
    case EINVAL:
        return MPI_ERR_ARG;
    case ENOMEM:
        return MPI_ERR_NO_MEM;
    default:
        return MPI_ERR_IO;
    }
}

int shim_failed(struct shim_file *file)
{
    int class = class_of(errno);
    return shim_raise(file, class, strait_error());
}

/* Collects the errors of all ranks. If one rank failed, all ranks return an error. */
static int agreed(struct shim_file *file, int code)
{
    int worst;
    PMPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, file->comm);
    return code != MPI_SUCCESS ? code : worst;
}

static int is_on(const char *word)
{
    return strcasecmp(word, "1") == 0 || strcasecmp(word, "true") == 0 ||
           strcasecmp(word, "yes") == 0 || strcasecmp(word, "on") == 0;
}

static int is_hdf5(struct dl_phdr_info *library, size_t size, void *nothing)
{
    (void)size, (void)nothing;
    return library->dlpi_name != NULL && strstr(library->dlpi_name, "/libhdf5") != NULL;
}

/* In MPI, a write is visible to other ranks only after a sync, and so it is in this library. HDF5
 * relies on more: a rank overwrites another rank's metadata after a barrier, without a sync. */
static int wants_publishing(MPI_Info info)
{
    const char *set = getenv("STRAIT_MPI_PUBLISH");
    char hint[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, "strait_publish", MPI_MAX_INFO_VAL, hint, &found);
    if (found)
        return is_on(hint);
    if (set != NULL && *set != '\0')
        return is_on(set);
    return dl_iterate_phdr(is_hdf5, NULL);
}

static void forget(struct shim_file *file)
{
    pthread_mutex_lock(&lock);
    struct shim_file **at = &open_files;
    while (*at != NULL && *at != file)
        at = &(*at)->next;
    if (*at != NULL)
        *at = file->next;
    pthread_mutex_unlock(&lock);
    if (file->comm != MPI_COMM_NULL)
        PMPI_Comm_free(&file->comm);
    type_free(&file->etype);
    type_free(&file->filetype);
    pieces_free(&file->view);
    free(file->uri);
    free(file);
}

static int flags_of(int amode)
{
    switch (amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR)) {
    case MPI_MODE_RDONLY:
        return amode & (MPI_MODE_CREATE | MPI_MODE_EXCL) ? -1 : O_RDONLY;
    case MPI_MODE_WRONLY:
        return O_WRONLY;
    case MPI_MODE_RDWR:
        return O_RDWR;
    default:
        return -1;
    }
}

static mode_t permission(void)
{
    mode_t mask = umask(022);
    umask(mask);
    return 0666 & ~mask;
}

/* Rank 0 creates the file. The other ranks open it afterwards. */
static int open_everywhere(struct shim_file *file, int flags)
{
    int made = MPI_SUCCESS, all;
    if (file->rank == 0) {
        int creating = (file->amode & MPI_MODE_CREATE ? O_CREAT : 0) |
                       (file->amode & MPI_MODE_EXCL ? O_EXCL : 0);
        file->file = strait_plfs_open(file->uri, flags | creating, permission(), 0);
        made = file->file == NULL ? shim_failed(NULL) : MPI_SUCCESS;
    }
    all = made != MPI_SUCCESS;
    PMPI_Bcast(&all, 1, MPI_INT, 0, file->comm);
    if (!all && file->rank != 0) {
        file->file = strait_plfs_open(file->uri, flags, 0, (uint32_t)file->rank);
        made = file->file == NULL ? shim_failed(NULL) : MPI_SUCCESS;
    }
    /* If one rank failed, all ranks return an error. */
    int worst;
    PMPI_Allreduce(&made, &worst, 1, MPI_INT, MPI_MAX, file->comm);
    return made != MPI_SUCCESS ? made : worst;
}

int shim_open(MPI_Comm comm, const char *uri, int amode, MPI_Info info, MPI_File *handle)
{
    *handle = MPI_FILE_NULL;
    int flags = flags_of(amode);
    if (flags < 0)
        return shim_raise(NULL, MPI_ERR_AMODE, "strait: invalid access mode for MPI_File_open");
    if (amode & MPI_MODE_SEQUENTIAL)
        return shim_raise(NULL, MPI_ERR_UNSUPPORTED_OPERATION, "strait: MPI_MODE_SEQUENTIAL isn't supported");
    struct shim_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return MPI_ERR_NO_MEM;
    *file = (struct shim_file){.amode = amode,
                               .uri = strdup(uri),
                               .comm = MPI_COMM_NULL,
                               .etype = MPI_BYTE,
                               .filetype = MPI_BYTE,
                               .etype_size = 1,
                               .errhandler = MPI_ERRORS_RETURN};
    int failed = PMPI_Comm_dup(comm, &file->comm);
    if (!failed)
        failed = pieces_of(MPI_BYTE, &file->view);
    if (!failed && file->uri == NULL)
        failed = MPI_ERR_NO_MEM;
    if (failed) {
        forget(file);
        return failed;
    }
    PMPI_Comm_rank(file->comm, &file->rank);
    file->publish = wants_publishing(info);
    failed = open_everywhere(file, flags);
    if (!failed && amode & MPI_MODE_APPEND) {
        off_t length = strait_plfs_length(file->file);
        failed = agreed(file, length < 0 ? shim_failed(NULL) : MPI_SUCCESS);
        file->position = file->ordered = length;
    }
    if (failed) {
        if (file->file != NULL)
            strait_plfs_close(file->file);
        forget(file);
        return failed;
    }
    pthread_mutex_lock(&lock);
    file->number = next_number++;
    file->next = open_files;
    open_files = file;
    pthread_mutex_unlock(&lock);
    *handle = (MPI_File)(void *)file;
    return MPI_SUCCESS;
}

int shim_close(struct shim_file *file, MPI_File *handle)
{
    int code = strait_plfs_close(file->file) == 0 ? MPI_SUCCESS : shim_failed(file);
    /* This is also a barrier: afterwards, the bytes of all ranks are visible. */
    code = agreed(file, code);
    if (file->amode & MPI_MODE_DELETE_ON_CLOSE) {
        int removed = MPI_SUCCESS;
        if (file->rank == 0 && strait_plfs_remove(file->uri) != 0)
            removed = shim_failed(file);
        removed = agreed(file, removed);
        code = code == MPI_SUCCESS ? removed : code;
    }
    forget(file);
    *handle = MPI_FILE_NULL;
    return code;
}

int shim_delete(const char *uri)
{
    return strait_plfs_remove(uri) == 0 ? MPI_SUCCESS : shim_failed(NULL);
}

int shim_sync(struct shim_file *file)
{
    int code = strait_plfs_sync(file->file) == 0 ? MPI_SUCCESS : shim_failed(file);
    code = agreed(file, code);
    /* Sync again, so that the next read sees the bytes of all ranks, also of slower ones. */
    if (code == MPI_SUCCESS && strait_plfs_sync(file->file) != 0)
        code = shim_failed(file);
    return code;
}

int shim_set_size(struct shim_file *file, MPI_Offset size, int only_longer)
{
    if (size < 0)
        return shim_raise(file, MPI_ERR_ARG, "the size is negative");
    /* Sync first, so that all writes before the call are older than the truncation. */
    int code = shim_sync(file);
    if (code != MPI_SUCCESS)
        return code;
    if (file->rank == 0) {
        off_t now = strait_plfs_length(file->file);
        if (now < 0 || (now != size && !(only_longer && now > size) &&
                        strait_plfs_truncate(file->file, size) != 0))
            code = shim_failed(file);
    }
    code = agreed(file, code);
    if (code == MPI_SUCCESS && strait_plfs_sync(file->file) != 0)
        code = shim_failed(file);
    return code;
}

int shim_set_view(struct shim_file *file, MPI_Offset at, MPI_Datatype etype, MPI_Datatype filetype,
                  const char *representation)
{
    struct pieces view = {0};
    MPI_Aint low, extent;
    int size = 0, code = MPI_SUCCESS;
    if (strcasecmp(representation, "native") != 0) {
        code = shim_raise(file, MPI_ERR_UNSUPPORTED_DATAREP, "strait: only native data is supported");
    } else if (at < 0 || PMPI_Type_size(etype, &size) != MPI_SUCCESS || size <= 0 ||
               PMPI_Type_get_extent(etype, &low, &extent) != MPI_SUCCESS) {
        code = shim_raise(file, MPI_ERR_ARG, "the view has a negative displacement, or an empty etype");
    } else {
        int class = pieces_of(filetype, &view);
        if (class)
            code = shim_raise(file, class, "strait: unsupported kind of file type");
    }
    code = agreed(file, code);
    if (code != MPI_SUCCESS) {
        pieces_free(&view);
        return code;
    }
    pieces_free(&file->view);
    type_free(&file->etype);
    type_free(&file->filetype);
    file->view = view;
    file->displacement = at;
    file->etype = type_copy(etype);
    file->filetype = type_copy(filetype);
    file->etype_size = size;
    file->position = file->ordered = 0;
    return MPI_SUCCESS;
}

/* Number of the view's bytes before an offset in the file. */
static int64_t bytes_below(const struct shim_file *file, int64_t place)
{
    int64_t from = place - file->displacement;
    if (from <= 0)
        return 0;
    const struct pieces *view = &file->view;
    if (pieces_dense(view))
        return from;
    if (view->extent <= 0)
        return 0;
    int64_t tile = from / view->extent, rest = from % view->extent, bytes = tile * view->size;
    for (size_t i = 0; i < view->count; i++) {
        int64_t in = rest - view->list[i].at;
        if (in > 0)
            bytes += in < view->list[i].length ? in : view->list[i].length;
    }
    return bytes;
}

int shim_seek(struct shim_file *file, MPI_Offset offset, int whence, int64_t *position)
{
    int64_t from = 0;
    if (whence == MPI_SEEK_CUR) {
        from = *position;
    } else if (whence == MPI_SEEK_END) {
        off_t length = strait_plfs_length(file->file);
        if (length < 0)
            return shim_failed(file);
        from = bytes_below(file, length);
    } else if (whence != MPI_SEEK_SET) {
        return shim_raise(file, MPI_ERR_ARG, "seek: invalid whence");
    }
    int64_t to = from + offset * file->etype_size;
    if (to < 0)
        return shim_raise(file, MPI_ERR_ARG, "seek: the position is before the file's beginning");
    *position = to;
    return MPI_SUCCESS;
}
