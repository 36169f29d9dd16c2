/* ranks NAME PLAIN: all ranks write NAME, strided, by a view; each reads what the next one wrote. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define BLOCKS 20
#define BLOCK 1000

static void check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void holds(int claim, const char *what)
{
    if (!claim) {
        fprintf(stderr, "not so: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void see(MPI_File file, int rank, int ranks)
{
    MPI_Datatype blocks;
    MPI_Type_vector(1, BLOCK, BLOCK, MPI_CHAR, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)BLOCK * ranks, &blocks);
    MPI_Type_commit(&blocks);
    check(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_CHAR, blocks, "native", MPI_INFO_NULL),
          "set_view");
    MPI_Type_free(&blocks);
}

int main(int argc, char **argv)
{
    static char mine[BLOCKS * BLOCK], read[BLOCKS * BLOCK];
    int rank, ranks, count;
    MPI_File file;
    MPI_Offset size;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    holds(argc == 3, "there are two names");
    int missing = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file), class;
    MPI_Error_class(missing, &class);
    holds(class == MPI_ERR_NO_SUCH_FILE, "a missing file is MPI_ERR_NO_SUCH_FILE");

    check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR,
                        MPI_INFO_NULL, &file), "open");
    see(file, rank, ranks);
    memset(mine, 'a' + rank, sizeof mine);
    check(MPI_File_write_all(file, mine, BLOCKS * BLOCK, MPI_CHAR, &status), "write_all");
    MPI_Get_count(&status, MPI_CHAR, &count);
    holds(count == BLOCKS * BLOCK, "all bytes are written");
    check(MPI_File_sync(file), "sync");
    check(MPI_File_get_size(file, &size), "get_size");
    holds(size == (MPI_Offset)ranks * BLOCKS * BLOCK, "the size counts all ranks' bytes");
    int next = (rank + 1) % ranks;
    see(file, next, ranks);
    /* One item more than there are. */
    check(MPI_File_read_at(file, BLOCK, read, BLOCKS * BLOCK, MPI_CHAR, &status), "read_at");
    MPI_Get_count(&status, MPI_CHAR, &count);
    holds(count == (BLOCKS - 1) * BLOCK, "a read ends at the file's end");
    memset(mine, 'a' + next, sizeof mine);
    holds(memcmp(read, mine, count) == 0, "the next rank's bytes are there");
    check(MPI_File_close(&file), "close");

    /* Any other name is the MPI library's. */
    check(MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
          "open of a plain file");
    check(MPI_File_write_at(file, rank, "abcdefgh" + rank, 1, MPI_CHAR, &status), "write_at");
    check(MPI_File_close(&file), "close of a plain file");
    MPI_Finalize();
    return 0;
}
