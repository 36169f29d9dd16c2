/*
 * The service of types.x on libtirpc, without rpcbind: serves TCP and UDP on
 * free ports of the loopback address, and prints both.
 */
#include "types.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void exchange_prog_1(struct svc_req *, SVCXPRT *);
void exchange_prog_3(struct svc_req *, SVCXPRT *);

everything *exchange_echo_1_svc(everything *e, struct svc_req *call)
{
	return e;
}

payload *exchange_turn_1_svc(payload *data, struct svc_req *call)
{
	for (u_int i = 0, j = data->payload_len; i + 1 < j; i++) {
		char byte = data->payload_val[i];
		data->payload_val[i] = data->payload_val[--j];
		data->payload_val[j] = byte;
	}
	return data;
}

static u_int counted;

u_int *exchange_count_1_svc(u_int *number, struct svc_req *call)
{
	counted++;
	return &counted;
}

u_int *exchange_count_3_svc(u_int *number, struct svc_req *call)
{
	return exchange_count_1_svc(number, call);
}

u_int *exchange_who_1_svc(void *nothing, struct svc_req *call)
{
	static u_int uid;
	if (call->rq_cred.oa_flavor != AUTH_UNIX) {
		svcerr_weakauth(call->rq_xprt);
		return NULL;
	}
	uid = ((struct authunix_parms *)call->rq_clntcred)->aup_uid;
	return &uid;
}

/* It never answers. */
void *exchange_fail_1_svc(void *nothing, struct svc_req *call)
{
	return NULL;
}

static SVCXPRT *serve(int type)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, type, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&address, sizeof address))
		exit(1);
	if (type == SOCK_STREAM && listen(fd, 16))
		exit(1);
	SVCXPRT *made = type == SOCK_STREAM ? svctcp_create(fd, 0, 0) : svcudp_create(fd);
	/* Protocol 0: not with rpcbind. */
	if (!made || !svc_register(made, EXCHANGE_PROG, EXCHANGE_V1, exchange_prog_1, 0) ||
	    !svc_register(made, EXCHANGE_PROG, EXCHANGE_V3, exchange_prog_3, 0))
		exit(1);
	return made;
}

int main(void)
{
	int tcp = serve(SOCK_STREAM)->xp_port, udp = serve(SOCK_DGRAM)->xp_port;
	printf("%d %d\n", tcp, udp);
	fflush(stdout);
	svc_run();
	return 1;
}
