/*
 * An ordinary SunRPC client of types.x: `client tcp|udp PORT`. Reads commands
 * from standard input: a letter, a length (four bytes, big-endian), and as many
 * bytes. Answers each command with the call's clnt_stat, two words of detail,
 * and the length and bytes of the result.
 */
#include "types.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for a datagram's arguments and results. */
#define DATAGRAM 60000

/* Time until a datagram is sent again, and total time. */
static struct timeval again = {0, 200000};
static struct timeval patience = {20, 0};

static CLIENT *client(const char *transport, int port, u_long program, u_long version)
{
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int socket = RPC_ANYSOCK;
	CLIENT *made = strcmp(transport, "tcp") == 0
		? clnttcp_create(&server, program, version, &socket, 0, 0)
		: clntudp_bufcreate(&server, program, version, again, &socket, DATAGRAM, DATAGRAM);
	if (!made) {
		clnt_pcreateerror("client");
		exit(2);
	}
	clnt_control(made, CLSET_TIMEOUT, (char *)&patience);
	return made;
}

static void word(uint32_t value)
{
	value = htonl(value);
	if (fwrite(&value, sizeof value, 1, stdout) != 1)
		exit(2);
}

static void answer(CLIENT *by, const void *bytes, uint32_t length)
{
	struct rpc_err error;
	clnt_geterr(by, &error);
	int why = error.re_status == RPC_AUTHERROR;
	int mismatch = error.re_status == RPC_PROGVERSMISMATCH || error.re_status == RPC_VERSMISMATCH;
	word(error.re_status);
	word(why ? (uint32_t)error.re_why : mismatch ? error.re_vers.low : 0);
	word(mismatch ? error.re_vers.high : 0);
	word(length);
	if (length && fwrite(bytes, 1, length, stdout) != length)
		exit(2);
	fflush(stdout);
}

/* The result of a generated stub. Without one, the client holds the error. */
static void result(CLIENT *by, void *value, xdrproc_t coder)
{
	char *bytes = NULL;
	uint32_t length = 0;
	if (value) {
		XDR out;
		uint32_t room = xdr_sizeof(coder, value);
		bytes = malloc(room);
		xdrmem_create(&out, bytes, room, XDR_ENCODE);
		if (!coder(&out, value))
			exit(3);
		length = xdr_getpos(&out);
	}
	answer(by, bytes, length);
	free(bytes);
	if (value)
		xdr_free(coder, value);
}

/* Calls any procedure, with an empty argument or a number. */
static void any(CLIENT *by, u_long procedure)
{
	u_int argument = 7;
	xdrproc_t coder = procedure == NULLPROC ? (xdrproc_t)xdr_void : (xdrproc_t)xdr_u_int;
	clnt_call(by, procedure, coder, (char *)&argument, (xdrproc_t)xdr_void, NULL, patience);
	answer(by, NULL, 0);
}

static void elsewhere(const char *transport, int port, u_long program, u_long version)
{
	CLIENT *by = client(transport, port, program, version);
	any(by, EXCHANGE_COUNT);
	clnt_destroy(by);
}

static void execute(CLIENT *by, const char *transport, int port, int what, char *bytes, uint32_t length)
{
	XDR in;
	everything value;
	payload data = {length, bytes};
	u_int number = 0;
	xdrmem_create(&in, bytes, length, XDR_DECODE);
	switch (what) {
	case 'e': /* echo */
		memset(&value, 0, sizeof value);
		if (!xdr_everything(&in, &value))
			exit(3);
		result(by, exchange_echo_1(&value, by), (xdrproc_t)xdr_everything);
		xdr_free((xdrproc_t)xdr_everything, (char *)&value);
		return;
	case 't': /* turn */
		result(by, exchange_turn_1(&data, by), (xdrproc_t)xdr_payload);
		return;
	case 'c': /* count */
		if (!xdr_u_int(&in, &number))
			exit(3);
		result(by, exchange_count_1(&number, by), (xdrproc_t)xdr_u_int);
		return;
	case 'w': /* who, by AUTH_SYS */
		by->cl_auth = authunix_create("a host", 4711, 100, 0, NULL);
		result(by, exchange_who_1(NULL, by), (xdrproc_t)xdr_u_int);
		auth_destroy(by->cl_auth);
		by->cl_auth = authnone_create();
		return;
	case 'f': /* fail */
		result(by, exchange_fail_1(NULL, by), (xdrproc_t)xdr_void);
		return;
	case 'n': /* null */
		any(by, NULLPROC);
		return;
	case 'p': /* no such procedure */
		any(by, 99);
		return;
	case 'g': /* garbage for arguments */
		any(by, EXCHANGE_ECHO);
		return;
	case 'v': /* no such version */
		elsewhere(transport, port, EXCHANGE_PROG, 2);
		return;
	case 'x': /* no such program */
		elsewhere(transport, port, EXCHANGE_PROG + 1, 1);
		return;
	}
	exit(4);
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 1;
	const char *transport = arguments[1];
	int port = atoi(arguments[2]);
	CLIENT *by = client(transport, port, EXCHANGE_PROG, EXCHANGE_V1);
	int what;
	while ((what = getchar()) != EOF) {
		uint32_t length;
		if (fread(&length, sizeof length, 1, stdin) != 1)
			return 2;
		length = ntohl(length);
		char *bytes = malloc(length + 1);
		if (!bytes || fread(bytes, 1, length, stdin) != length)
			return 2;
		execute(by, transport, port, what, bytes, length);
		free(bytes);
	}
	clnt_destroy(by);
	return 0;
}
