/* The callee of large.x. */
#include "large.h"

int *ask_1_svc(int *number, frpc_request *request)
{
	static int same;

	(void)request;
	same = *number;
	return &same;
}

int *put_1_svc(large *given, frpc_request *request)
{
	static int last;

	(void)request;
	last = given->data[LARGE_BYTES - 1];
	return &last;
}
