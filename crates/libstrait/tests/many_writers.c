/* Forked processes write one logical file, strided, and the parent reads it back. */
#include "strait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static pthread_key_t at_end;

/* Runs after the library's own thread-local values are gone. */
static void close_at_end(void *file)
{
    check(strait_plfs_pwrite(file, "late", 4, 0) == 4, "pwrite at a thread's end");
    check(strait_plfs_close(file) == 0, "close at a thread's end");
    errno = 0;
    if (strait_plfs_open(NULL, O_RDONLY, 0, 0) != NULL || errno != EINVAL || *strait_error() != 0)
        exit(4);
}

static void *end_with_an_open_file(void *uri)
{
    strait_plfs *file = strait_plfs_open(uri, O_WRONLY | O_CREAT, 0640, 7);
    check(file != NULL, "open in a thread");
    /* The thread's text exists from its first failure on. */
    check(strait_plfs_open(NULL, O_RDONLY, 0, 0) == NULL, "no URI in a thread");
    check(pthread_setspecific(at_end, file) == 0, "pthread_setspecific");
    return NULL;
}

/* The library's threads block all signals: SIGPIPE would end the program. */
static void check_signals(void)
{
    char path[300], line[200];
    unsigned long long blocked;
    struct dirent *task;
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    check(tasks != NULL, "tasks");
    while ((task = readdir(tasks)) != NULL) {
        FILE *status;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if ((status = fopen(path, "r")) == NULL)
            continue;
        check(fgets(line, sizeof line, status) != NULL, "a thread's name");
        if (strcmp(line, "Name:\tstrait\n") == 0) {
            threads++;
            while (fgets(line, sizeof line, status) != NULL)
                if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                    check(blocked >> (SIGPIPE - 1) & 1, "a thread that takes SIGPIPE");
        }
        fclose(status);
    }
    closedir(tasks);
    check(threads > 0, "threads");
}

int main(int argc, char **argv)
{
    pthread_t thread;
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
    check(strait_plfs_pread(file, NULL, 9, 0) == -1 && errno == EINVAL, "no room");
    check(strait_plfs_pwrite(file, NULL, 9, 0) == -1 && errno == EINVAL, "no bytes");
    check(strait_plfs_pwrite(file, block, SIZE_MAX, 0) == -1 && errno == EINVAL, "more bytes than there can be");
    check(strait_plfs_pwrite(file, block, 9, INT64_MAX - 8) == -1 && errno == EINVAL, "an end past the last offset");

    /* It reads its own bytes without an explicit sync. */
    check(strait_plfs_pwrite(file, "parent", 6, 10) == 6, "pwrite");
    check(strait_plfs_pread(file, other, 8, 9) == 8 && !memcmp(other, "aparenta", 8), "pread of a write");
    check(strait_plfs_truncate(file, 12) == 0 && strait_plfs_length(file) == 12, "truncate");
    check(strait_plfs_close(file) == 0, "close");
    check(strait_plfs_flatten(uri, argv[2]) == 0, "flatten");
    check(strait_plfs_stat(uri, &status) == 0 && status.size == 12 && status.mode == (S_IFREG | 0640), "stat");
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

    check(pthread_key_create(&at_end, close_at_end) == 0, "pthread_key_create");
    check(pthread_create(&thread, NULL, end_with_an_open_file, (void *)uri) == 0, "pthread_create");
    check(pthread_join(thread, NULL) == 0, "pthread_join");
    check(strait_plfs_stat(uri, &status) == 0 && status.size == 4, "stat of the file of a thread that ended");
    check_signals();
    return 0;
}
