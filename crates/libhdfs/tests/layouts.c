/* Prints the layouts of hdfs.h's types. */
#include "hdfs.h"

#include <stddef.h>
#include <stdio.h>

#define FIELD(type, field) \
    printf("%s.%s at %d, %d bytes\n", #type, #field, (int)offsetof(type, field), (int)sizeof(((type *)0)->field))
#define SIZE(type) printf("%s: %d bytes\n", #type, (int)sizeof(type))

typedef struct hdfsReadStatistics Statistics;
typedef struct hdfsHedgedReadMetrics Metrics;

int main(void) {
    SIZE(tSize);
    SIZE(tTime);
    SIZE(tOffset);
    SIZE(tPort);
    SIZE(hdfsFS);
    SIZE(hdfsFile);
    printf("%d %d %d\n", kObjectKindFile, kObjectKindDirectory, EINTERNAL);
    printf("%s\n", ELASTIC_BYTE_BUFFER_POOL_CLASS);
    SIZE(hdfsFileInfo);
    FIELD(hdfsFileInfo, mKind);
    FIELD(hdfsFileInfo, mName);
    FIELD(hdfsFileInfo, mLastMod);
    FIELD(hdfsFileInfo, mSize);
    FIELD(hdfsFileInfo, mReplication);
    FIELD(hdfsFileInfo, mBlockSize);
    FIELD(hdfsFileInfo, mOwner);
    FIELD(hdfsFileInfo, mGroup);
    FIELD(hdfsFileInfo, mPermissions);
    FIELD(hdfsFileInfo, mLastAccess);
    SIZE(Statistics);
    FIELD(Statistics, totalBytesRead);
    FIELD(Statistics, totalLocalBytesRead);
    FIELD(Statistics, totalShortCircuitBytesRead);
    FIELD(Statistics, totalZeroCopyBytesRead);
    SIZE(Metrics);
    FIELD(Metrics, hedgedReadOps);
    FIELD(Metrics, hedgedReadOpsWin);
    FIELD(Metrics, hedgedReadOpsInCurThread);
    return 0;
}
