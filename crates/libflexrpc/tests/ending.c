/* Handles that are used and destroyed while their thread, and then the process, ends: `ending HOST:PORT`. */
#include "large.h"
#include <pthread.h>
#include <unistd.h>

static frpc_handle *handle;
static pthread_key_t key;
static int ended;

static void end(void *its)
{
	int answer = 0;

	/* An error whose text is kept, and a call. */
	if (frpc_control(its, 777, &answer) || !frpc_error()[0] || !ask_1(&answer, its))
		_exit(3);
	frpc_destroyhandle(its);
	ended++;
}

static void *use(void *address)
{
	int number = 5;
	frpc_handle *its = frpc_createhandle(address, LARGE_PROGRAM, LARGE_V1, "tcp");

	if (!its || frpc_control(its, 777, &number) || !ask_1(&number, its))
		_exit(2);
	return its;
}

static void *use_and_end(void *address)
{
	pthread_setspecific(key, use(address));
	return NULL;
}

static void clean_up(void)
{
	end(handle);
	if (ended != 2)
		_exit(4);
}

int main(int count, char **arguments)
{
	pthread_t thread;
	static large sent;

	if (count != 2 || pthread_key_create(&key, end) || atexit(clean_up))
		return 1;
	handle = use(arguments[1]);
	sent.data[LARGE_BYTES - 1] = 7;
	int *last = put_1(&sent, handle);
	if (!last || *last != 7)
		return 5;
	if (pthread_create(&thread, NULL, use_and_end, arguments[1]) || pthread_join(thread, NULL))
		return 1;
	return 0;
}
