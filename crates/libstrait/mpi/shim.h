/* MPI-IO on logical files: MPI_File_* for names that begin with `strait:`.
 *
 *   program ── calls.c (MPI_File_*) ─┬─ transfer.c (bytes) ─┬─ pieces.c (datatypes)
 *                                    └─ files.c (open …)  ──┴─ libstrait
 *                                    └─ PMPI_File_* of the MPI library, for all other names
 */
#ifndef STRAIT_MPI_SHIM_H
#define STRAIT_MPI_SHIM_H

#include "strait.h"

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* A contiguous range of a datatype's bytes. */
struct piece {
    int64_t at;     /* from the datatype's origin */
    int64_t length;
    int64_t before; /* bytes of all pieces before this one */
};

/* A datatype as byte ranges, in the datatype's order. */
struct pieces {
    struct piece *list;
    size_t count, room;
    int64_t size;   /* bytes of all pieces */
    int64_t extent; /* distance in bytes from one item to the next */
};

/* Lists a datatype's byte ranges. Returns an MPI error class. Free the pieces by pieces_free. */
int pieces_of(MPI_Datatype type, struct pieces *pieces);
void pieces_free(struct pieces *pieces);
/* Whether consecutive items of the datatype are one contiguous range of bytes. */
int pieces_dense(const struct pieces *pieces);
/* A copy of a datatype, to be freed by type_free. MPI's named datatypes aren't copied or freed. */
MPI_Datatype type_copy(MPI_Datatype type);
void type_free(MPI_Datatype *type);

/* An open logical file. */
struct shim_file {
    struct shim_file *next;
    MPI_Fint number; /* in Fortran */
    strait_plfs *file;
    char *uri;
    MPI_Comm comm;
    int rank, amode;
    int publish;      /* whether others see each write when it returns */
    int atomic;       /* set by MPI_File_set_atomicity */
    int64_t position; /* this rank's position, in bytes of the view */
    int64_t ordered;  /* begin of the next ordered access, in bytes of the view; the same on all ranks */
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    int64_t etype_size;
    struct pieces view;
    MPI_Errhandler errhandler;
    int64_t split; /* bytes moved by the split access that was begun */
};

/* The logical file of a handle, or NULL if the handle belongs to the MPI library. */
struct shim_file *shim_find(MPI_File handle);
/* The handle of the logical file with this number in Fortran, or MPI_FILE_NULL. */
MPI_File shim_numbered(MPI_Fint number);
/* The URI of a logical file's name, or NULL if the name isn't for this library. */
const char *shim_uri(const char *name);

int shim_open(MPI_Comm comm, const char *uri, int amode, MPI_Info info, MPI_File *handle);
int shim_close(struct shim_file *file, MPI_File *handle);
int shim_delete(const char *uri);
int shim_set_size(struct shim_file *file, MPI_Offset size, int only_longer);
int shim_sync(struct shim_file *file);
int shim_set_view(struct shim_file *file, MPI_Offset at, MPI_Datatype etype, MPI_Datatype filetype,
                  const char *representation);
int shim_seek(struct shim_file *file, MPI_Offset offset, int whence, int64_t *position);
/* The offset in the file of a byte of the view. */
int64_t shim_place(const struct shim_file *file, int64_t position);

/* Writes or reads `count` items of `type` at `position`, in bytes of the view. Sets *done to the
 * number of bytes. */
int shim_write(struct shim_file *file, int64_t position, const void *buffer, int64_t count,
               MPI_Datatype type, int64_t *done);
int shim_read(struct shim_file *file, int64_t position, void *buffer, int64_t count,
              MPI_Datatype type, int64_t *done);

/* Report an error of libstrait (by errno), or one of an MPI error class. Return the class. */
int shim_failed(struct shim_file *file);
int shim_raise(struct shim_file *file, int class, const char *text);

#endif
