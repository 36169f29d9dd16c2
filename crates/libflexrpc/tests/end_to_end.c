/* A C service and its callers: `end_to_end serve`, `end_to_end call CALLS HOST:PORT...`. */
#include <flexrpc.h>
#include <stdio.h>
#include <sys/resource.h>

enum { PROGRAM = 0x20000077, VERSION = 1, DOUBLE = 1, REFUSE = 2 };

struct words { u_int count; char **each; };

static bool_t xdr_words(XDR *xdrs, struct words *value)
{
	return xdr_array(xdrs, (char **)&value->each, &value->count, 100, sizeof(char *), (xdrproc_t)xdr_wrapstring);
}

static void dispatch(frpc_request *request)
{
	struct words words = {0, NULL}, twice;
	const struct sockaddr_in *peer = (const struct sockaddr_in *)(const void *)request->rq_peer;
	if (peer->sin_family != AF_INET || peer->sin_port == 0 || peer->sin_addr.s_addr != htonl(INADDR_LOOPBACK)) {
		frpc_svcerr_systemerr(request);
		return;
	}
	if (request->rq_proc == REFUSE) {
		frpc_svcerr_application(request, 42, "not today\nroot:\033[2J");
		return;
	}
	if (request->rq_proc != DOUBLE) {
		frpc_svcerr_noproc(request);
		return;
	}
	if (!frpc_getargs(request, (xdrproc_t)xdr_words, &words)) {
		frpc_svcerr_decode(request);
	} else {
		char *both[2];
		both[0] = both[1] = words.count ? words.each[0] : (char *)"none";
		twice.count = 2;
		twice.each = both;
		frpc_sendreply(request, (xdrproc_t)xdr_words, &twice);
	}
	frpc_freeargs(request, (xdrproc_t)xdr_words, &words);
}

#define CHECK(claim)                                                                        \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, frpc_error()); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static void check_pair(struct words *pair)
{
	CHECK(pair->count == 2 && !strcmp(pair->each[1], "sea"));
	xdr_free((xdrproc_t)xdr_words, pair);
}

static int read_piece(void *file, void *to, int bytes)
{
	size_t read = fread(to, 1, bytes < 7 ? bytes : 7, file);
	return read ? (int)read : -1;
}

static int write_piece(void *file, void *from, int bytes)
{
	return (int)fwrite(from, 1, bytes, file);
}

/* The streams of rpc/xdr.h: a file, and records in a file. */
static void check_streams(void)
{
	char *both[2] = {(char *)"sea", (char *)"a longer word"};
	struct words out = {2, both}, in = {0, NULL};
	u_long bytes = xdr_sizeof((xdrproc_t)xdr_words, &out);
	CHECK(bytes == 32);
	for (int records = 0; records < 2; records++) {
		FILE *file = tmpfile();
		XDR xdrs;
		int32_t behind = 0;
		CHECK(file);
		if (records)
			xdrrec_create(&xdrs, 12, 0, file, read_piece, write_piece);
		else
			xdrstdio_create(&xdrs, file, XDR_ENCODE);
		xdrs.x_op = XDR_ENCODE;
		CHECK(xdr_words(&xdrs, &out) && (!records || xdrrec_endofrecord(&xdrs, TRUE)));
		CHECK(xdr_putint32(&xdrs, &(int32_t){-5}) && (!records || xdrrec_endofrecord(&xdrs, TRUE)));
		rewind(file);
		xdrs.x_op = XDR_DECODE;
		CHECK(!records || (!xdr_words(&xdrs, &in) && xdrrec_skiprecord(&xdrs)));
		CHECK(xdr_words(&xdrs, &in) && in.count == 2 && !strcmp(in.each[1], both[1]));
		CHECK(!records || (!xdr_getint32(&xdrs, &behind) && !xdrrec_eof(&xdrs)));
		CHECK(!records || xdrrec_skiprecord(&xdrs));
		CHECK(xdr_getint32(&xdrs, &behind) && behind == -5);
		CHECK(!xdr_getint32(&xdrs, &behind));
		xdr_free((xdrproc_t)xdr_words, &in);
		xdr_destroy(&xdrs);
		fclose(file);
	}
}

static void check_options(frpc_handle *handle)
{
	struct timeval time = {7, 250000}, got;
	uint32_t version = 0;
	char address[64];
	CHECK(frpc_control(handle, FRPC_SET_TIMEOUT, &time) && frpc_control(handle, FRPC_GET_TIMEOUT, &got));
	CHECK(got.tv_sec == 7 && got.tv_usec == 250000);
	CHECK(frpc_control(handle, FRPC_SET_RETRY_TIMEOUT, &time) && frpc_control(handle, FRPC_GET_RETRY_TIMEOUT, &got));
	CHECK(got.tv_sec == 7 && got.tv_usec == 250000);
	CHECK(frpc_control(handle, FRPC_GET_VERS, &version) && version == VERSION);
	CHECK(frpc_control(handle, FRPC_GET_SERVER_ADDR, address) && !strncmp(address, "127.0.0.1:", 10));
	/* Options that mean nothing here are refused: CLGET_FD. */
	CHECK(!frpc_control(handle, 6, &version) && strstr(frpc_error(), "unknown option 6"));
	CHECK(!frpc_control(handle, FRPC_SET_KEY, &(frpc_bytes){"short", 5}));
}

int main(int count, char **arguments)
{
	struct timeval patience = {20, 0};
	if (count > 1 && !strcmp(arguments[1], "serve")) {
		CHECK(frpc_register_program(PROGRAM, VERSION, dispatch, 0) == 0);
		int port = frpc_svc_start("127.0.0.1:0", NULL);
		CHECK(port > 0);
		printf("%d\n", port);
		fflush(stdout);
		frpc_svc_run();
		return 0;
	}
	CHECK(count > 3);
	long calls = atol(arguments[2]);
	frpc_handle *handles[3];
	size_t callees = 0;
	for (int i = 3; i < count && callees < 3; i++)
		CHECK((handles[callees++] = frpc_createhandle(arguments[i], PROGRAM, VERSION, "tcp")));
	char *sea = (char *)"sea";
	struct words one = {1, &sea};
	struct rusage early, late;
	for (long i = 0; i < calls; i++) {
		if (i == calls / 10)
			getrusage(RUSAGE_SELF, &early);
		struct words pair = {0, NULL};
		CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &one, (xdrproc_t)xdr_words, &pair,
				patience) == FRPC_SUCCESS);
		check_pair(&pair);
	}
	/* A long argument leaves nothing to the next. */
	static char sand[100 << 10];
	char *many = memset(sand, 's', sizeof sand - 1);
	struct words pair = {0, NULL};
	CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &(struct words){1, &many},
			(xdrproc_t)xdr_words, &pair, patience) == FRPC_SUCCESS);
	CHECK(!strcmp(pair.each[1], many));
	xdr_free((xdrproc_t)xdr_words, &pair);
	CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &one, (xdrproc_t)xdr_words, &pair, patience) ==
	      FRPC_SUCCESS);
	check_pair(&pair);
	/* KiB: a leak of ten bytes a call shows in a million. */
	getrusage(RUSAGE_SELF, &late);
	CHECK(late.ru_maxrss - early.ru_maxrss < 8 << 10);
	check_streams();
	check_options(handles[0]);
	CHECK(frpc_call(handles[0], REFUSE, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, patience) ==
	      FRPC_APPLICATION);
	CHECK(frpc_outcome_of(handles[0])->code == 42);
	/* One line, which commands no terminal. */
	CHECK(strstr(frpc_outcome_of(handles[0])->text, "not today root: [2J"));
	CHECK(frpc_call(handles[0], 9, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, patience) ==
	      FRPC_PROCUNAVAIL);
	/* Arguments that can't be encoded: nothing was sent. */
	CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &(struct words){101, NULL}, (xdrproc_t)xdr_void,
			NULL, patience) == FRPC_CANTENCODEARGS);
	CHECK(frpc_outcome_of(handles[0])->retry_safe && *frpc_outcome_of(handles[0])->text);
	CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &one, (xdrproc_t)xdr_void, NULL, patience) ==
	      FRPC_CANTDECODERES);
	/* A value leaves nothing of the failures before it. */
	CHECK(frpc_call(handles[0], DOUBLE, (xdrproc_t)xdr_words, &one, (xdrproc_t)xdr_words, &pair, patience) ==
	      FRPC_SUCCESS);
	check_pair(&pair);
	CHECK(frpc_outcome_of(handles[0])->stat == FRPC_SUCCESS && !frpc_outcome_of(handles[0])->code);
	CHECK(!frpc_outcome_of(handles[0])->retry_safe && !*frpc_outcome_of(handles[0])->text);
	for (int serial = 0; serial < 2; serial++) {
		struct words pairs[3] = {{0, NULL}, {0, NULL}, {0, NULL}};
		void *results[3] = {&pairs[0], &pairs[1], &pairs[2]};
		frpc_outcome outcomes[3];
		int values = (serial ? frpc_call_serial : frpc_call_parallel)(
			handles, callees, DOUBLE, (xdrproc_t)xdr_words, &one, (xdrproc_t)xdr_words, results,
			outcomes, patience);
		CHECK(values == (int)callees);
		for (size_t i = 0; i < callees; i++)
			check_pair(&pairs[i]);
	}
	for (size_t i = 0; i < callees; i++)
		frpc_destroyhandle(handles[i]);
	return 0;
}
