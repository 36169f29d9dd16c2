/* A library that makes the file MARK when a process loads it. It has no other function. */
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
    close(open(MARK, O_WRONLY | O_CREAT, 0600));
}
