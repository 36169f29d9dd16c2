/* libraries NAME: a connection to this store, by each function that connects, fails with EINVAL. */
#include "hdfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void refused(hdfsFS fs, const char *how)
{
    if (fs || errno != EINVAL) {
        fprintf(stderr, "%s: %p, errno %d\n", how, (void *)fs, errno);
        exit(1);
    }
    errno = 0;
}

int main(int argc, char **argv)
{
    const char *name = argv[argc - 1];
    struct hdfsBuilder *builder = hdfsNewBuilder();
    refused(hdfsConnect(name, 0), "hdfsConnect");
    refused(hdfsConnectNewInstance(name, 0), "hdfsConnectNewInstance");
    refused(hdfsConnectAsUser(name, 0, "root"), "hdfsConnectAsUser");
    refused(hdfsConnectAsUserNewInstance(name, 0, "root"), "hdfsConnectAsUserNewInstance");
    hdfsBuilderSetNameNode(builder, name);
    refused(hdfsBuilderConnect(builder), "hdfsBuilderConnect");
    builder = hdfsNewBuilder();
    hdfsBuilderSetNameNode(builder, "default");
    hdfsBuilderConfSetStr(builder, "fs.defaultFS", name);
    refused(hdfsBuilderConnect(builder), "fs.defaultFS");
    return 0;
}
