/* A libjvm.so without a JVM, for programs that load or link it before they load libhdfs.so.
 *
 * Each attempt to start a JVM fails, as on a host without Java. */
#include <stddef.h>

#define JNI_OK 0
#define JNI_ERR (-1)

int JNI_CreateJavaVM(void **vm, void **environment, void *arguments) {
    (void)vm, (void)environment, (void)arguments;
    return JNI_ERR;
}

int JNI_GetCreatedJavaVMs(void **vms, int room, int *count) {
    (void)vms, (void)room;
    if (count != NULL) *count = 0;
    return JNI_OK;
}

int JNI_GetDefaultJavaVMInitArgs(void *arguments) {
    (void)arguments;
    return JNI_ERR;
}
