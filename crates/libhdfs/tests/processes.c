/* processes NAME PORT DIRECTORY [first]: threads of one process read and write at once, and its forked
 * children read on by its handles and by their own. With `first`, it and a further child are each
 * process 1 of a PID namespace. */
#define _GNU_SOURCE
#include "hdfs.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 6
#define CHILDREN 16
#define LENGTH 2500000
/* A child that hangs ends by a signal, after this many seconds. */
#define PATIENCE 60

static hdfsFS fs;
static hdfsFile shared; /* all threads and children read it */
static char *bytes;
static char base[256];
static atomic_int over;

static const char *in(char *to, const char *kind, int number) {
    snprintf(to, 512, "%s/%s-%d", base, kind, number);
    return to;
}

static void write_whole(const char *path) {
    hdfsFile file = hdfsOpenFile(fs, path, O_WRONLY, 0, 1, 0);
    assert(file);
    for (int at = 0; at < LENGTH; at += 70001) {
        int count = LENGTH - at < 70001 ? LENGTH - at : 70001;
        assert(hdfsWrite(fs, file, bytes + at, count) == count);
    }
    assert(hdfsCloseFile(fs, file) == 0);
}

static void pread_some(hdfsFile file, unsigned *seed) {
    static _Thread_local char room[300000];
    int at = rand_r(seed) % LENGTH, count = 1 + rand_r(seed) % (int)sizeof room;
    int wanted = LENGTH - at < count ? LENGTH - at : count;
    assert(hdfsPread(fs, file, at, room, count) == wanted);
    assert(memcmp(room, bytes + at, (size_t)wanted) == 0);
}

static void read_whole(hdfsFS by, const char *path) {
    hdfsFile file = hdfsOpenFile(by, path, O_RDONLY, 0, 0, 0);
    assert(file);
    char *room = malloc(LENGTH + 1);
    assert(hdfsRead(by, file, room, 1000) == 1000);
    assert(hdfsRead(by, file, room + 1000, LENGTH) == LENGTH - 1000);
    assert(memcmp(room, bytes, LENGTH) == 0);
    assert(hdfsRead(by, file, room, 1) == 0);
    free(room);
    assert(hdfsCloseFile(by, file) == 0);
}

static void *work(void *argument) {
    unsigned number = (unsigned)(size_t)argument, seed = number;
    char path[512];
    write_whole(in(path, "thread", (int)number));
    do {
        for (int i = 0; i < 5; i++) pread_some(shared, &seed);
        read_whole(fs, path);
        assert(hdfsExists(fs, "/no/such/file") == -1 && errno == ENOENT);
        assert(hdfsGetLastExceptionRootCause() != NULL);
    } while (!atomic_load(&over));
    return NULL;
}

static void in_child(int number, hdfsFile writer, const char *name, tPort port) {
    unsigned seed = (unsigned)number;
    char path[512];
    alarm(PATIENCE);
    for (int i = 0; i < 3; i++) pread_some(shared, &seed);
    assert(hdfsTell(fs, shared) == 5);
    char next[10];
    assert(hdfsRead(fs, shared, next, 10) == 10 && memcmp(next, bytes + 5, 10) == 0);
    assert(hdfsExists(fs, in(path, "shared", 0)) == 0);
    assert(hdfsWrite(fs, writer, "x", 1) == -1 && errno == EBADF);
    assert(hdfsHSync(fs, writer) == -1 && errno == EBADF);
    assert(hdfsCloseFile(fs, writer) == -1 && errno == EBADF);
    hdfsFS own = hdfsConnect(name, port);
    assert(own);
    read_whole(own, path);
    hdfsFile file = hdfsOpenFile(own, in(path, "child", number), O_WRONLY, 0, 1, 0);
    assert(file && hdfsWrite(own, file, "child", 5) == 5 && hdfsCloseFile(own, file) == 0);
    assert(hdfsDisconnect(own) == 0);
    assert(hdfsCloseFile(fs, shared) == 0);
    assert(hdfsDisconnect(fs) == 0);
}

static int ended_well(pid_t child) {
    int status = -1;
    assert(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct scene {
    hdfsFile writer;
    const char *name;
    tPort port;
};

/* In a thread of its own, which can't start threads afterwards. */
static void *fork_first(void *argument) {
    const struct scene *scene = argument;
    assert(getpid() == 1 && unshare(CLONE_NEWPID) == 0);
    pid_t child = fork();
    if (child == 0) {
        assert(getpid() == 1);
        in_child(CHILDREN, scene->writer, scene->name, scene->port);
        _exit(0);
    }
    assert(ended_well(child));
    return NULL;
}

#define SIGNALS 32

struct signals {
    sigset_t mask;
    struct sigaction actions[SIGNALS];
};

static struct signals signals_now(void) {
    struct signals now = {0};
    pthread_sigmask(SIG_BLOCK, NULL, &now.mask);
    for (int number = 1; number < SIGNALS; number++) sigaction(number, NULL, &now.actions[number]);
    return now;
}

/* The library leaves signals to the program. */
static void check_signals(const struct signals *before) {
    struct signals now = signals_now();
    for (int number = 1; number < SIGNALS; number++) {
        assert(now.actions[number].sa_handler == before->actions[number].sa_handler);
        assert(sigismember(&now.mask, number) == sigismember(&before->mask, number));
    }
}

static pthread_key_t at_end;

/* Runs after the library's own thread-local values are gone, as destructors of C++'s `thread_local`
 * may. */
static void close_at_end(void *file) {
    assert(hdfsWrite(fs, file, " late", 5) == 5);
    assert(hdfsCloseFile(fs, file) == 0);
    /* Other calls need the thread. They fail, and don't end the process. */
    assert(hdfsExists(fs, "/") == -1 && errno == ENOTSUP);
    assert(hdfsGetLastExceptionRootCause() == NULL);
    hdfsFS own = hdfsConnect(NULL, 0);
    assert(own && hdfsDisconnect(own) == 0);
}

static void *end_with_an_open_file(void *path) {
    hdfsFile file = hdfsOpenFile(fs, path, O_WRONLY, 0, 1, 0);
    assert(file && hdfsWrite(fs, file, "early", 5) == 5);
    assert(pthread_setspecific(at_end, file) == 0);
    return NULL;
}

static void check_ending_thread(void) {
    char path[512];
    pthread_t thread;
    assert(pthread_key_create(&at_end, close_at_end) == 0);
    assert(pthread_create(&thread, NULL, end_with_an_open_file, (void *)in(path, "ending", 0)) == 0);
    assert(pthread_join(thread, NULL) == 0);
    hdfsFileInfo *info = hdfsGetPathInfo(fs, path);
    assert(info && info->mSize == 10);
    hdfsFreeFileInfo(info, 1);
}

int main(int argc, char **argv) {
    assert(argc == 4 || argc == 5);
    if (argc == 5) {
        assert(unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0);
        pid_t first = fork();
        if (first != 0) return !ended_well(first);
    }
    const char *name = strcmp(argv[1], "NULL") ? argv[1] : NULL;
    tPort port = (tPort)atoi(argv[2]);
    struct signals before = signals_now();
    snprintf(base, sizeof base, "%s", argv[3]);
    bytes = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++) bytes[i] = (char)((i * 2654435761u) >> 13);
    fs = hdfsConnect(name, port);
    assert(fs);
    char path[512];
    write_whole(in(path, "shared", 0));
    shared = hdfsOpenFile(fs, path, O_RDONLY, 0, 0, 0);
    char five[5];
    assert(shared && hdfsRead(fs, shared, five, 5) == 5);
    hdfsFile writer = hdfsOpenFile(fs, in(path, "writer", 0), O_WRONLY, 0, 1, 0);
    assert(writer && hdfsWrite(fs, writer, "before", 6) == 6 && hdfsHFlush(fs, writer) == 0);

    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        assert(children[i] >= 0);
        if (children[i] == 0) {
            in_child(i, writer, name, port);
            _exit(0);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        assert(ended_well(children[i]));
        hdfsFileInfo *info = hdfsGetPathInfo(fs, in(path, "child", i));
        assert(info && info->mSize == 5);
        hdfsFreeFileInfo(info, 1);
    }
    if (argc == 5) {
        struct scene scene = {writer, name, port};
        pthread_t forking;
        assert(pthread_create(&forking, NULL, fork_first, &scene) == 0);
        assert(pthread_join(forking, NULL) == 0);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    assert(hdfsWrite(fs, writer, ", after", 7) == 7 && hdfsCloseFile(fs, writer) == 0);
    hdfsFileInfo *info = hdfsGetPathInfo(fs, in(path, "writer", 0));
    assert(info && info->mSize == 13);
    hdfsFreeFileInfo(info, 1);
    assert(hdfsCloseFile(fs, shared) == 0);
    check_ending_thread();
    check_signals(&before);
    assert(hdfsDelete(fs, base, 1) == 0);
    assert(hdfsDisconnect(fs) == 0);
    free(bytes);
    return 0;
}
