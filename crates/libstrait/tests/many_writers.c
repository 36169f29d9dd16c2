/* Forked processes write one logical file, strided, and the parent reads it back. */
#include "strait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 4
#define BLOCKS 50
#define BLOCK 47001

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: %s (errno %d: %s)\n", what, strait_error(), errno, strerror(errno));
        exit(1);
    }
}

static int write_blocks(const char *uri, uint32_t rank)
{
    static char block[BLOCK];
    strait_plfs *file = strait_plfs_open(uri, O_WRONLY | O_CREAT, 0640, rank);
    check(file != NULL, "open");
    memset(block, 'a' + (int)rank, sizeof block);
    for (off_t k = 0; k < BLOCKS; k++) {
        off_t at = (k * WRITERS + rank) * BLOCK;
        check(strait_plfs_pwrite(file, block, BLOCK, at) == BLOCK, "pwrite");
    }
    check(strait_plfs_close(file) == 0, "close");
    return 0;
}

int main(int argc, char **argv)
{
    static char block[BLOCK];
    char other[64];
    const char *uri = argc == 3 ? argv[1] : "";
    strait_plfs *file;
    int exited, failed = 0;
    struct strait_status status;
    char renamed[4096], joined[4096];

    check(strait_plfs_open(uri, O_RDONLY, 0, 0) == NULL && errno == ENOENT, "a missing file");
    check(strait_plfs_open("nonsense://host/x", O_RDONLY, 0, 0) == NULL && errno == EINVAL, "a scheme");
    check(strait_plfs_open(NULL, O_RDONLY, 0, 0) == NULL && errno == EINVAL, "no URI");

    /* The parent has used the library before it forks. */
    file = strait_plfs_open(uri, O_RDWR | O_CREAT | O_EXCL, 0640, 99);
    check(file != NULL, "create");
    check(strait_plfs_open(uri, O_RDWR | O_CREAT | O_EXCL, 0640, 0) == NULL && errno == EEXIST, "O_EXCL");
    for (uint32_t rank = 0; rank < WRITERS; rank++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child == 0) {
            if (strait_plfs_pwrite(file, "x", 1, 0) != -1 || errno != EBADF)
                _exit(2);
            if (strait_plfs_close(file) != -1 || errno != EBADF)
                _exit(3);
            _exit(write_blocks(uri, rank));
        }
    }
    while (wait(&exited) > 0)
        failed |= exited;
    check(failed == 0, "a child");

    check(strait_plfs_length(file) == (off_t)WRITERS * BLOCKS * BLOCK, "length");
    for (int k = 0; k < WRITERS * BLOCKS; k++) {
        check(strait_plfs_pread(file, block, BLOCK, (off_t)k * BLOCK) == BLOCK, "pread");
        for (int i = 0; i < BLOCK; i++)
            check(block[i] == 'a' + k % WRITERS, "a byte");
    }
    check(strait_plfs_pread(file, block, 9, (off_t)WRITERS * BLOCKS * BLOCK) == 0, "pread at the end");
    check(strait_plfs_pread(file, block, 9, -1) == -1 && errno == EINVAL, "a negative offset");

    /* It reads what it has written without an explicit sync. */
    check(strait_plfs_pwrite(file, "parent", 6, 10) == 6, "pwrite");
    check(strait_plfs_pread(file, other, 8, 9) == 8 && !memcmp(other, "aparenta", 8), "pread of a write");
    check(strait_plfs_truncate(file, 12) == 0 && strait_plfs_length(file) == 12, "truncate");
    check(strait_plfs_close(file) == 0, "close");
    check(strait_plfs_flatten(uri, argv[2]) == 0, "flatten");
    check(strait_plfs_stat(uri, &status) == 0 && status.size == 12 && status.mode == 0640, "stat");
    check(status.uid == getuid() && status.gid == getgid(), "the owner's numbers");
    snprintf(renamed, sizeof renamed, "%s.renamed", uri);
    snprintf(joined, sizeof joined, "%s.joined", uri);
    check(strait_plfs_rename(uri, renamed) == 0, "rename");
    check(strait_plfs_stat(uri, &status) == -1 && errno == ENOENT, "stat of the old name");
    check(strait_plfs_finalize(renamed, joined) == 12, "finalize");
    check(strait_plfs_open(renamed, O_RDONLY, 0, 0) == NULL && errno == ENOENT, "a finalized file");
    file = strait_plfs_open(uri, O_WRONLY | O_CREAT, 0640, 0);
    check(file != NULL && strait_plfs_close(file) == 0, "create again");
    check(strait_plfs_remove(uri) == 0, "remove");
    check(strait_plfs_open(uri, O_RDONLY, 0, 0) == NULL && errno == ENOENT, "a removed file");
    return 0;
}
