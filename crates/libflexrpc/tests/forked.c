/* Forked processes that use their parents' handles: `forked HOST:PORT [LIBRARY]`, which calls the
 * linked library, or loads this one by dlopen. With `first` as the library, each process is process 1 of
 * a PID namespace, and the linked library is called. */
#define _GNU_SOURCE
#include <flexrpc.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAM = 0x20000077, VERSION = 1, ECHO = 1, GENERATIONS = 3, PATIENCE_S = 20, HANGS_S = 90 };

static const char *address, *library;
static int is_first;

static struct {
	__typeof__(frpc_createhandle) *create;
	__typeof__(frpc_destroyhandle) *destroy;
	__typeof__(frpc_call) *call;
	xdrproc_t number;
} rpc;

static int echoes(frpc_handle *handle, u_int number)
{
	u_int answer = 0;
	struct timeval patience = { PATIENCE_S, 0 };
	return rpc.call(handle, ECHO, rpc.number, &number, rpc.number, &answer, patience) == FRPC_SUCCESS &&
	       answer == number;
}

static int ended_well(pid_t child)
{
	int status;
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* If a child used its parent's connection, its call would have the number of the parent's next call. The
 * callee would take the parent's call for a repetition, and the parent would get the child's answer. */
static int descend(frpc_handle *handle, u_int generation)
{
	alarm(HANGS_S);
	if (!echoes(handle, 2 * generation))
		return 0;
	if (generation == GENERATIONS)
		return 1;
	if (is_first && (getpid() != 1 || unshare(CLONE_NEWPID)))
		return 0;
	pid_t child = fork();
	if (child == 0)
		_exit(!descend(handle, generation + 1));
	return ended_well(child) && echoes(handle, 2 * generation + 1);
}

static void *use_library(void *unused)
{
	frpc_handle *handle = rpc.create(address, PROGRAM, VERSION, "tcp");
	(void)unused;
	if (!handle || !descend(handle, 0))
		return NULL;
	rpc.destroy(handle);
	return (void *)address;
}

/* In a thread, whose variables of the library end with it. Otherwise dlclose keeps the library. */
static int used(void)
{
	pthread_t thread;
	void *well = NULL;
	return !pthread_create(&thread, NULL, use_library, NULL) && !pthread_join(thread, &well) && well;
}

#ifndef LINKED
static int used_by_dlopen(void)
{
	void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!loaded)
		return 0;
	rpc.create = (__typeof__(rpc.create))dlsym(loaded, "frpc_createhandle");
	rpc.destroy = (__typeof__(rpc.destroy))dlsym(loaded, "frpc_destroyhandle");
	rpc.call = (__typeof__(rpc.call))dlsym(loaded, "frpc_call");
	rpc.number = (xdrproc_t)dlsym(loaded, "frpc_xdr_u_int");
	return used() && !dlclose(loaded) && !dlopen(library, RTLD_NOW | RTLD_NOLOAD);
}
#endif

int main(int count, char **arguments)
{
	if (count < 2)
		return 2;
	address = arguments[1];
	library = arguments[2];
#ifdef LINKED
	rpc.create = frpc_createhandle;
	rpc.destroy = frpc_destroyhandle;
	rpc.call = frpc_call;
	rpc.number = (xdrproc_t)xdr_u_int;
	is_first = library && !strcmp(library, "first");
	if (is_first) {
		if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
			return 7;
		pid_t child = fork();
		if (child == 0)
			_exit(!used());
		return ended_well(child) ? 0 : 8;
	}
	return used() ? 0 : 3;
#else
	/* After it is loaded again, the library notices forks again. A fork in between runs no code of the library. */
	for (int turn = 0; turn < 2; turn++) {
		if (!used_by_dlopen())
			return 4 + turn;
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		if (!ended_well(child))
			return 6;
	}
	return 0;
#endif
}
