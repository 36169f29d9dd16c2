/* refusal URI URI: each function that takes URIs refuses these with EINVAL, and names the variable. */
#include "strait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refused(int failed, const char *what)
{
    if (!failed || errno != EINVAL || !strstr(strait_error(), "STRAIT_LIBRARIES")) {
        fprintf(stderr, "%s: %d, errno %d, %s\n", what, failed, errno, strait_error());
        exit(1);
    }
    errno = 0;
}

int main(int argc, char **argv)
{
    const char *uri = argv[1], *plain = argv[argc - 1];
    struct strait_status status;
    refused(strait_plfs_open(uri, O_RDONLY, 0, 0) == NULL, "open to read");
    refused(strait_plfs_open(uri, O_WRONLY | O_CREAT, 0600, 0) == NULL, "open to write");
    refused(strait_plfs_stat(uri, &status) == -1, "stat");
    refused(strait_plfs_remove(uri) == -1, "remove");
    refused(strait_plfs_flatten(uri, plain) == -1, "flatten");
    refused(strait_plfs_finalize(uri, plain) == -1, "finalize");
    refused(strait_plfs_rename(uri, plain) == -1, "rename");
    return 0;
}
