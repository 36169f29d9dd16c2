/* Ordinary files in a directory store: files URI LOCAL-DIRECTORY. */
#include "strait.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *store, *host;

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s: errno %d, %s\n", what, errno, strait_error());
        exit(1);
    }
}

static const char *at(const char *base, const char *name)
{
    static char texts[4][4096];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s/%s", base, name);
    return text;
}

static void write_file(const char *name, mode_t mode, const char *text)
{
    strait_file *file = strait_open(at(store, name), O_WRONLY | O_CREAT | O_EXCL, mode);
    check(file != NULL, name);
    check(strait_write(file, text, strlen(text)) == (ssize_t)strlen(text), "write");
    check(strait_close(file) == 0, "close");
}

static mode_t mode_of(const char *path)
{
    struct stat found;
    check(lstat(path, &found) == 0, path);
    return found.st_mode & 07777;
}

static void flags_are_checked(void)
{
    const int wrong[] = {
        O_RDWR, O_RDONLY | O_CREAT, O_WRONLY, O_WRONLY | O_CREAT, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND | O_TRUNC,
        O_WRONLY | O_APPEND | O_SYNC, O_RDONLY | O_DIRECTORY,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check(strait_open(at(store, "wrong"), wrong[i], 0600) == NULL && errno == EINVAL, "a wrong flag");
    struct strait_status status;
    check(strait_stat(at(store, "wrong"), &status) == -1 && errno == ENOENT, "nothing was created");
    check(strcmp(strait_error_kind(), "NotFound") == 0, "the kind");
}

static void positions_have_bounds(void)
{
    char bytes[4];
    write_file("seek", 0600, "0123456789");
    strait_file *file = strait_open(at(store, "seek"), O_RDONLY | O_CLOEXEC, 0);
    check(file != NULL, "open");
    check(strait_seek(file, -3, SEEK_END) == 7 && strait_read(file, bytes, 4) == 3, "the end");
    check(strait_seek(file, 2, SEEK_SET) == 2 && strait_seek(file, 3, SEEK_CUR) == 5, "onward");
    check(strait_read(file, bytes, 1) == 1 && bytes[0] == '5' && strait_position(file) == 6, "read there");
    check(strait_seek(file, -7, SEEK_CUR) == -1 && errno == EINVAL, "before the beginning");
    check(strait_seek(file, INT64_MAX, SEEK_SET) == INT64_MAX, "the highest offset");
    check(strait_seek(file, 1, SEEK_CUR) == -1 && errno == EINVAL, "above it");
    check(strait_seek(file, 0, 9) == -1 && errno == EINVAL, "from where");
    check(strait_read(file, bytes, 4) == 0, "nothing is there");
    check(strait_pread(file, bytes, 4, -1) == -1 && errno == EINVAL, "a negative offset");
    check(strait_pread(file, NULL, 4, 0) == -1 && errno == EINVAL, "no buffer");
    check(strait_write(file, bytes, 4) == -1 && errno == EBADF, "it is for reading");
    check(strait_close(file) == 0, "close");
    check(strait_close(NULL) == -1 && errno == EINVAL, "nothing to close");
}

static void names_change(void)
{
    struct strait_status status;
    write_file("dir/one", 0640, "one");
    check(strait_rename(at(store, "dir/one"), "kadoop://127.0.0.1:1/one", 0) == -1 && errno == EXDEV, "another store");
    check(strait_chmod(at(store, "dir/one"), S_IFREG | 0600) == 0, "chmod takes a status's mode");
    check(strait_stat(at(store, "dir/one"), &status) == 0 && status.mode == (S_IFREG | 0600), "mode");
    check(strait_chown(at(store, "dir/one"), NULL, NULL) == 0, "chown of nothing");
    check(strait_chown(at(store, "dir/one"), "no-such-user", NULL) == -1, "an unknown user");
    check(strait_utime(at(store, "dir/one"), 1000, 2000) == 0, "utime");
    check(strait_stat(at(store, "dir/one"), &status) == 0 && status.modified_ms == 2000, "the time");
    check(strait_mkdirs(at(store, "dir/a/b"), 0700) == 0, "mkdirs");
    check(strait_stat(at(store, "dir/a/b"), &status) == 0 && status.mode == (S_IFDIR | 0700), "a directory");
    check(strait_remove(at(store, "dir"), 0) == -1 && errno == ENOTEMPTY, "not empty");
    check(strait_can(at(store, ""), "append") == 1, "it can append");
    check(strait_can(at(store, ""), "fly") == -1 && errno == EINVAL, "there is no such capability");
    check(strait_list(at(store, "missing")) == NULL && errno == ENOENT, "a missing directory");
    check(strait_concat(at(store, "dir/one"), NULL, 1) == -1 && errno == EINVAL, "no list");
    const char *elsewhere = "kadoop://127.0.0.1:1/one";
    check(strait_concat(at(store, "dir/one"), &elsewhere, 1) == -1 && errno == EXDEV, "a source in another store");
    check(strait_remove(at(store, "dir"), 1) == 0, "remove");
}

static void copies_keep_modes_and_spare_what_is_there(void)
{
    char byte;
    FILE *local = fopen(at(host, "secret"), "w");
    check(local != NULL && fputs("secret", local) > 0 && fclose(local) == 0, "a local file");
    check(chmod(at(host, "secret"), 0600) == 0, "its mode");
    check(strait_put(at(host, "secret"), at(store, "in/secret"), 0) == 0, "put");
    struct strait_status status;
    check(strait_stat(at(store, "in/secret"), &status) == 0 && status.mode == (S_IFREG | 0600), "its mode there");
    check(strait_put(at(host, "secret"), at(store, "in"), 0) == -1 && errno == EEXIST, "it exists in the directory");
    check(strait_put(at(host, "secret"), at(store, "in"), 1) == 0, "put over it");
    check(strait_put(host, at(store, "in/new"), 1) == -1 && errno == EISDIR, "a directory");

    check(strait_get(at(store, "in/secret"), at(host, "back"), 0) == 0 && mode_of(at(host, "back")) == 0600, "get");
    check(strait_get(at(store, "in/secret"), at(host, "back"), 0) == -1 && errno == EEXIST, "it exists");
    check(strait_get(at(store, "in/secret"), at(host, "back"), 1) == 0, "get over it");
    check(strait_get(at(store, "in/secret"), host, 1) == 0 && mode_of(at(host, "secret")) == 0600, "into a directory");
    check(mkfifo(at(host, "pipe"), 0600) == 0 && symlink("secret", at(host, "link")) == 0, "special files");
    check(strait_get(at(store, "in/secret"), at(host, "pipe"), 1) == -1 && errno == EINVAL, "a pipe stays");
    check(strait_get(at(store, "in/secret"), at(host, "link"), 1) == -1 && errno == EINVAL, "a link stays");
    check(strait_get(at(store, "in/missing"), at(host, "none"), 1) == -1 && errno == ENOENT, "a missing file");
    check(strait_get(at(store, "in/secret"), at(host, "no/dir"), 1) == -1 && errno == ENOENT, "a missing directory");

    const char *name;
    strait_listing *listing = strait_list(at(store, "in"));
    check(listing != NULL && strait_list_next(listing, &name, NULL) == 1 && strcmp(name, "secret") == 0, "one file");
    check(strait_list_next(listing, &name, &status) == 0, "and no other");
    strait_list_end(listing);
    local = fopen(at(host, "back"), "r");
    check(local != NULL && fread(&byte, 1, 1, local) == 1 && byte == 's' && fclose(local) == 0, "the bytes");
}

static void a_child_opens_its_own(void)
{
    char bytes[4];
    strait_file *file = strait_open(at(store, "seek"), O_RDONLY, 0);
    strait_listing *listing = strait_list(at(store, ""));
    check(file != NULL && listing != NULL, "open");
    pid_t child = fork();
    if (child == 0) {
        check(strait_read(file, bytes, 1) == -1 && errno == EBADF, "the parent's file");
        check(strait_list_next(listing, NULL, NULL) == -1 && errno == EBADF, "the parent's listing");
        strait_list_end(listing);
        check(strait_close(file) == -1 && errno == EBADF, "close");
        file = strait_open(at(store, "seek"), O_RDONLY, 0);
        check(file != NULL && strait_read(file, bytes, 1) == 1 && strait_close(file) == 0, "its own");
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    check(strait_read(file, bytes, 1) == 1 && strait_close(file) == 0, "the parent reads on");
    strait_list_end(listing);
}

static void *reads_for_ever(void *file)
{
    char bytes[4];
    for (;;) {
        strait_pread(file, bytes, 4, 0);
        pthread_testcancel();
    }
    return NULL;
}

static void a_thread_can_be_cancelled(void)
{
    pthread_t thread;
    void *ended;
    strait_file *file = strait_open(at(store, "seek"), O_RDONLY, 0);
    check(file != NULL, "open");
    for (int i = 0; i < 20; i++) {
        check(pthread_create(&thread, NULL, reads_for_ever, file) == 0, "a thread");
        check(pthread_cancel(thread) == 0 && pthread_join(thread, &ended) == 0, "cancel");
        check(ended == PTHREAD_CANCELED, "it was cancelled");
    }
    check(strait_close(file) == 0, "close");
}

int main(int argc, char **argv)
{
    check(argc == 3, "usage: files URI LOCAL-DIRECTORY");
    store = argv[1];
    host = argv[2];
    umask(022);
    flags_are_checked();
    positions_have_bounds();
    names_change();
    copies_keep_modes_and_spare_what_is_there();
    a_child_opens_its_own();
    a_thread_can_be_cancelled();
    return 0;
}
