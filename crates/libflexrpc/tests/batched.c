/* Batched calls, a custom of SunRPC: calls without a reply, and one with a reply after them.
 * With -DCALLEE a server of FlexRPC: `callee`, which prints its port. Otherwise an unmodified
 * client of libtirpc: `caller PORT`. */
#include <stdio.h>
#include <stdlib.h>

enum { PROGRAM = 0x2000007c, VERSION = 1, ADD_QUIETLY = 1, SUM = 2, CALLS = 200000 };

#ifdef CALLEE
#include <flexrpc.h>

static u_int sum;

static void dispatch(frpc_request *request)
{
	u_int number = 0;
	switch (request->rq_proc) {
	case ADD_QUIETLY:
		if (frpc_getargs(request, (xdrproc_t)xdr_u_int, &number))
			sum += number;
		break;
	case SUM:
		frpc_sendreply(request, (xdrproc_t)xdr_u_int, &sum);
		break;
	default:
		frpc_svcerr_noproc(request);
	}
}

int main(void)
{
	if (frpc_register_program(PROGRAM, VERSION, dispatch, FRPC_ONE_AT_A_TIME) != 0)
		return 1;
	printf("%d\n", frpc_svc_start("127.0.0.1:0", NULL));
	fflush(stdout);
	frpc_svc_run();
	return 0;
}
#else
#include <rpc/rpc.h>
#include <arpa/inet.h>

/* xdr_void has no arguments in every libtirpc. */
static bool_t nothing_at_all(XDR *stream, ...)
{
	(void)stream;
	return TRUE;
}

static u_int sum_of(CLIENT *client)
{
	struct timeval patience = { 60, 0 };
	u_int sum = 0;
	if (clnt_call(client, SUM, nothing_at_all, NULL, (xdrproc_t)xdr_u_int, (caddr_t)&sum, patience) != RPC_SUCCESS) {
		clnt_perror(client, "sum");
		exit(1);
	}
	return sum;
}

int main(int count, char **arguments)
{
	struct timeval nothing = { 0, 0 }, first = { 0, 50000 }, whole = { 0, 400000 };
	struct sockaddr_in callee = { .sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 0) };
	int tcp = RPC_ANYSOCK, udp = RPC_ANYSOCK;
	callee.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CLIENT *client = clnttcp_create(&callee, PROGRAM, VERSION, &tcp, 0, 0);
	if (!client)
		return 2;
	for (u_int number = 0; number < CALLS; number++)
		if (clnt_call(client, ADD_QUIETLY, (xdrproc_t)xdr_u_int, (caddr_t)&number, NULL, NULL, nothing) != RPC_SUCCESS)
			return 3;
	u_int wanted = 0;
	for (u_int number = 0; number < CALLS; number++)
		wanted += number;
	if (sum_of(client) != wanted)
		return 4;
	/* A retransmission isn't executed again, though there is no reply to keep. */
	CLIENT *datagrams = clntudp_create(&callee, PROGRAM, VERSION, first, &udp);
	u_int number = 7;
	if (!datagrams || clnt_call(datagrams, ADD_QUIETLY, (xdrproc_t)xdr_u_int, (caddr_t)&number, nothing_at_all, NULL,
				    whole) != RPC_TIMEDOUT)
		return 5;
	if (sum_of(client) != wanted + 7)
		return 6;
	clnt_destroy(datagrams);
	clnt_destroy(client);
	return 0;
}
#endif
