/* stream_file read|write HOST:PORT PATH MIB [CA]: as stream_file.cpp, with libstrait. */
#include <strait.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (1 << 20)

static void check(int holds)
{
    if (!holds) {
        fprintf(stderr, "stream_file: %s\n", strait_error());
        exit(1);
    }
}

static void read_file(const char *uri, char *piece, long long mib)
{
    strait_file *file = strait_open(uri, O_RDONLY, 0);
    check(file != NULL);
    long long bytes = 0;
    ssize_t count;
    while ((count = strait_read(file, piece, PIECE_BYTES)) > 0)
        bytes += count;
    check(count == 0 && strait_close(file) == 0);
    if (bytes != mib << 20) {
        fprintf(stderr, "stream_file: another length: %lld\n", bytes);
        exit(1);
    }
}

static void write_file(const char *uri, const char *piece, long long mib)
{
    strait_file *file = strait_open(uri, O_WRONLY | O_CREAT | O_EXCL, STRAIT_DEFAULT_MODE);
    check(file != NULL);
    for (long long n = 0; n < mib; n++)
        check(strait_write(file, piece, PIECE_BYTES) == PIECE_BYTES);
    check(strait_close(file) == 0);
}

int main(int count, char **given)
{
    if (count < 5)
        return 2;
    if (count > 5)
        setenv("STRAIT_TLS_CA", given[5], 1);
    char uri[4096], *piece = calloc(1, PIECE_BYTES);
    long long mib = atoll(given[4]);
    /* The library connects at its first call. */
    snprintf(uri, sizeof uri, "strait://%s/", given[2]);
    check(strait_stat(uri, &(struct strait_status){0}) == 0);
    snprintf(uri, sizeof uri, "strait://%s%s", given[2], given[3]);
    puts("ready");
    fflush(stdout);
    getchar();
    if (strcmp(given[1], "read") == 0)
        read_file(uri, piece, mib);
    else
        write_file(uri, piece, mib);
    puts("done");
    return 0;
}
