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

/* Bytes of a datatype that lie side by side. */
struct piece {
    int64_t at;     /* from the datatype's origin */
    int64_t length;
    int64_t before; /* bytes of all pieces before this one */
};

/* A datatype as the bytes that it has, in its own order. */
struct pieces {
    struct piece *list;
    size_t count, room;
    int64_t size;   /* bytes that it has */
    int64_t extent; /* from one to the next */
};

/* Takes a datatype apart. Returns an MPI error class; the pieces are freed by pieces_free. */
int pieces_of(MPI_Datatype type, struct pieces *pieces);
void pieces_free(struct pieces *pieces);
/* Whether any number of them are one range of bytes. */
int pieces_dense(const struct pieces *pieces);
/* A type for its own owner; MPI's named ones have none, and stay as they are. */
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
    int publish;      /* each write is visible to others when it returns */
    int atomic;       /* as MPI_File_set_atomicity said */
    int64_t position; /* of this rank, in bytes of the view */
    int64_t ordered;  /* where the next ordered access begins, likewise; the same for all ranks */
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    int64_t etype_size;
    struct pieces view;
    MPI_Errhandler errhandler;
    int64_t split; /* bytes of the split access that runs */
};

/* The logical file of a handle, or NULL if it is the MPI library's. */
struct shim_file *shim_find(MPI_File handle);
/* Its handle by the number that it has in Fortran, or MPI_FILE_NULL. */
MPI_File shim_numbered(MPI_Fint number);
/* The URI in a name for this library, or NULL. */
const char *shim_uri(const char *name);

int shim_open(MPI_Comm comm, const char *uri, int amode, MPI_Info info, MPI_File *handle);
int shim_close(struct shim_file *file, MPI_File *handle);
int shim_delete(const char *uri);
int shim_set_size(struct shim_file *file, MPI_Offset size, int only_longer);
int shim_sync(struct shim_file *file);
int shim_set_view(struct shim_file *file, MPI_Offset at, MPI_Datatype etype, MPI_Datatype filetype,
                  const char *representation);
int shim_seek(struct shim_file *file, MPI_Offset offset, int whence, int64_t *position);
/* The place in the file of a byte of the view. */
int64_t shim_place(const struct shim_file *file, int64_t position);

/* Moves `count` items of `type` at `position`, in bytes of the view, and returns the bytes in `done`. */
int shim_write(struct shim_file *file, int64_t position, const void *buffer, int64_t count,
               MPI_Datatype type, int64_t *done);
int shim_read(struct shim_file *file, int64_t position, void *buffer, int64_t count,
              MPI_Datatype type, int64_t *done);

/* Report an error of libstrait, by errno, or one of a class, and return the class. */
int shim_failed(struct shim_file *file);
int shim_raise(struct shim_file *file, int class, const char *text);

#endif
