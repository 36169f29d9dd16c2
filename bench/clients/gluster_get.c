/* gluster_get HOST VOLUME REMOTE LOCAL BUFFER_BYTES: reads a file with libgfapi, GlusterFS's own library, into a
 * buffer, and writes the buffer, as the report's native programs did. Prints "ready" when it is connected, waits for a
 * line, copies, prints "done". */
#include <errno.h>
#include <fcntl.h>
#include <glusterfs/api/glfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *what) {
    fprintf(stderr, "gluster_get: %s: %s\n", what, strerror(errno));
    return 1;
}

static int copy(glfs_t *volume, const char *remote, const char *local, char *buffer, size_t size) {
    glfs_fd_t *from = glfs_open(volume, remote, O_RDONLY);
    if (from == NULL) return failed(remote);
    int to = open(local, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (to < 0) return failed(local);
    ssize_t count;
    while ((count = glfs_read(from, buffer, size, 0)) > 0)
        for (ssize_t done = 0, wrote; done < count; done += wrote)
            if ((wrote = write(to, buffer + done, (size_t)(count - done))) < 0) return failed(local);
    if (count < 0) return failed(remote);
    return close(to) == 0 && glfs_close(from) == 0 ? 0 : failed(remote);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: gluster_get HOST VOLUME REMOTE LOCAL BUFFER_BYTES\n");
        return 2;
    }
    size_t size = strtoul(argv[5], NULL, 10);
    char *buffer = malloc(size), line[8];
    glfs_t *volume = glfs_new(argv[2]);
    if (buffer == NULL || volume == NULL) return failed(argv[2]);
    if (glfs_set_volfile_server(volume, "tcp", argv[1], 24007) != 0 || glfs_init(volume) != 0)
        return failed(argv[2]);
    puts("ready");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL || copy(volume, argv[3], argv[4], buffer, size) != 0) return 1;
    puts("done");
    fflush(stdout);
    glfs_fini(volume);
    free(buffer);
    return 0;
}
