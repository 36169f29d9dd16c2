/* The options and outcomes that the other programs don't use, with the server in the same process. */
#include <flexrpc.h>
#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAM = 0x2000007a, OTHER = 0x2000007b, VERSION = 1, SLOW = 1, BYTES = 2, FAIL = 3, AT_ONCE = 4, ECHO = 5, QUIET = 6 };
enum { SLOW_MS = 500, OVERLAP_MS = 50, CALLERS = 4, SHARED_CALLS = 500 };

#define CHECK(claim)                                                                        \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, frpc_error()); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static const struct timeval PATIENCE = { 20, 0 };
static const struct timeval SHORT = { 0, 100000 };

static struct opaque_auth body = { 0, NULL, 0 };
static int running, most_running;
static volatile int slow_calls;

static void dispatch(frpc_request *request)
{
	u_int bytes = 0;
	char room[MAX_AUTH_BYTES] = { 0 };
	switch (request->rq_proc) {
	case SLOW:
		slow_calls++;
		usleep(SLOW_MS * 1000);
		frpc_sendreply(request, (xdrproc_t)xdr_void, NULL);
		break;
	case BYTES:
		if (!frpc_getargs(request, (xdrproc_t)xdr_u_int, &bytes) || bytes > sizeof room) {
			frpc_svcerr_decode(request);
			break;
		}
		body.oa_base = room;
		body.oa_length = bytes;
		frpc_sendreply(request, (xdrproc_t)xdr_opaque_auth, &body);
		break;
	case FAIL:
		frpc_svcerr_systemerr(request);
		break;
	case ECHO:
		frpc_getargs(request, (xdrproc_t)xdr_u_int, &bytes);
		frpc_sendreply(request, (xdrproc_t)xdr_u_int, &bytes);
		break;
	case QUIET:
		break;
	case AT_ONCE:
		if (++running > most_running)
			most_running = running;
		usleep(OVERLAP_MS * 1000);
		running--;
		frpc_sendreply(request, (xdrproc_t)xdr_void, NULL);
		break;
	default:
		frpc_svcerr_noproc(request);
	}
}

static char address[32];

static frpc_handle *handle_of(rpcprog_t program, const char *transport)
{
	frpc_handle *handle = frpc_createhandle(address, program, VERSION, transport);
	CHECK(handle);
	return handle;
}

static enum frpc_stat call(frpc_handle *handle, rpcproc_t procedure, struct timeval timeout)
{
	return frpc_call(handle, procedure, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, timeout);
}

/* Calls BYTES; the length of what came back is in *got. */
static enum frpc_stat ask(frpc_handle *handle, u_int bytes, u_int *got)
{
	struct opaque_auth answer = { 0, NULL, 0 };
	enum frpc_stat stat = frpc_call(handle, BYTES, (xdrproc_t)xdr_u_int, &bytes, (xdrproc_t)xdr_opaque_auth,
					&answer, PATIENCE);
	*got = answer.oa_length;
	xdr_free((xdrproc_t)xdr_opaque_auth, &answer);
	return stat;
}

static void *call_at_once(void *unused)
{
	frpc_handle *handle = handle_of(OTHER, "tcp");
	(void)unused;
	CHECK(call(handle, AT_ONCE, PATIENCE) == FRPC_SUCCESS);
	frpc_destroyhandle(handle);
	return NULL;
}

/* Threads may share a handle, as a CLIENT of libtirpc: they call one after the other. */
static void *call_by_shared(void *handle)
{
	for (u_int number = 0; number < SHARED_CALLS; number++) {
		u_int sent = number * CALLERS + (u_int)(uintptr_t)pthread_self() % CALLERS, got = ~sent;
		CHECK(frpc_call(handle, ECHO, (xdrproc_t)xdr_u_int, &sent, (xdrproc_t)xdr_u_int, &got, PATIENCE) ==
		      FRPC_SUCCESS);
		CHECK(got == sent);
	}
	return NULL;
}

static void *call_slowly(void *handle)
{
	CHECK(call(handle, SLOW, PATIENCE) == FRPC_SUCCESS);
	return NULL;
}

static struct timeval now(void)
{
	struct timeval time;
	gettimeofday(&time, NULL);
	return time;
}

static long ms_since(struct timeval begun)
{
	struct timeval time = now();
	return (time.tv_sec - begun.tv_sec) * 1000 + (time.tv_usec - begun.tv_usec) / 1000;
}

static void check_shared(void)
{
	frpc_handle *handle = handle_of(PROGRAM, "tcp");
	pthread_t threads[CALLERS];
	for (int i = 0; i < CALLERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, call_by_shared, handle));
	for (int i = 0; i < CALLERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	/* A call waits for another thread's call at most as long as its own timeout. */
	slow_calls = 0;
	CHECK(!pthread_create(&threads[0], NULL, call_slowly, handle));
	while (!slow_calls)
		usleep(1000);
	struct timeval begun = now();
	CHECK(call(handle, ECHO, SHORT) == FRPC_FAILED && strstr(frpc_error(), "kept the handle busy"));
	CHECK(ms_since(begun) < SLOW_MS);
	CHECK(!pthread_join(threads[0], NULL));
	/* The handle's own timeout bounds that wait, too, and can be set meanwhile. */
	slow_calls = 0;
	CHECK(!pthread_create(&threads[0], NULL, call_slowly, handle));
	while (!slow_calls)
		usleep(1000);
	struct timeval own = SHORT, none = { 0, 0 };
	begun = now();
	CHECK(frpc_control(handle, FRPC_SET_TIMEOUT, &own) && call(handle, ECHO, PATIENCE) == FRPC_FAILED);
	CHECK(ms_since(begun) < SLOW_MS && frpc_control(handle, FRPC_SET_TIMEOUT, &none));
	CHECK(!pthread_join(threads[0], NULL));
	/* The time to connect is part of a call's. The kernel connects to a listener that accepts nothing. */
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in silent = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof silent;
	CHECK(!bind(listener, (struct sockaddr *)&silent, length) && !listen(listener, 1));
	CHECK(!getsockname(listener, (struct sockaddr *)&silent, &length));
	char at[32];
	snprintf(at, sizeof at, "127.0.0.1:%d", ntohs(silent.sin_port));
	frpc_handle *unanswered = frpc_createhandle(at, PROGRAM, VERSION, "tcp");
	begun = now();
	CHECK(call(unanswered, ECHO, SHORT) == FRPC_NOTEXECUTED && ms_since(begun) < 2000);
	CHECK(strstr(frpc_outcome_of(unanswered)->text, "no answer in time"));
	frpc_destroyhandle(unanswered);
	close(listener);
	frpc_destroyhandle(handle);
}

static void check_outcomes(void)
{
	frpc_handle *handle = handle_of(PROGRAM, "tcp");
	u_int got;
	CHECK(call(handle, SLOW, SHORT) == FRPC_TIMEDOUT && !frpc_outcome_of(handle)->retry_safe);
	CHECK(call(handle, SLOW, PATIENCE) == FRPC_SUCCESS);
	CHECK(call(handle, FAIL, PATIENCE) == FRPC_SYSTEMERROR && !frpc_outcome_of(handle)->retry_safe);
	CHECK(call(handle, QUIET, PATIENCE) == FRPC_SYSTEMERROR);
	CHECK(strstr(frpc_outcome_of(handle)->text, "no answer"));
	CHECK(ask(handle, MAX_AUTH_BYTES + 1, &got) == FRPC_CANTDECODEARGS && got == 0);
	uint32_t number = 0, version = 9, program = PROGRAM + 9;
	CHECK(frpc_control(handle, FRPC_SET_VERS, &version));
	CHECK(call(handle, FAIL, PATIENCE) == FRPC_PROGVERSMISMATCH && frpc_outcome_of(handle)->retry_safe);
	CHECK(frpc_control(handle, FRPC_SET_PROG, &program) && frpc_control(handle, FRPC_GET_PROG, &number));
	CHECK(number == program && call(handle, FAIL, PATIENCE) == FRPC_PROGUNAVAIL);
	frpc_destroyhandle(handle);
}

static void check_options(void)
{
	frpc_handle *handle = handle_of(PROGRAM, "tcp");
	struct timeval time = { 3, 0 }, zero = { 0, 0 }, negative = { -1, 0 }, day = { 86400, 0 }, got_time;
	struct timeval for_ever = { LONG_MAX, 0 };
	uint32_t small = 64, none = 0;
	u_int got;
	CHECK(call(handle, AT_ONCE, for_ever) == FRPC_SUCCESS);
	CHECK(frpc_control(handle, FRPC_SET_CONNECT_TIMEOUT, &time));
	CHECK(frpc_control(handle, FRPC_GET_CONNECT_TIMEOUT, &got_time) && got_time.tv_sec == 3);
	CHECK(!frpc_control(handle, FRPC_SET_CONNECT_TIMEOUT, &zero));
	CHECK(!strcmp(frpc_error(), "FRPC_SET_CONNECT_TIMEOUT: the time must not be zero"));
	CHECK(!frpc_control(handle, FRPC_SET_TIMEOUT, &negative) && strstr(frpc_error(), "the time is negative"));
	CHECK(call(handle, SLOW, negative) == FRPC_FAILED && strstr(frpc_error(), "the time is negative"));
	CHECK(!frpc_control(handle, FRPC_SET_RESULT_BYTES, &none) && strstr(frpc_error(), "FRPC_SET_RESULT_BYTES"));
	CHECK(!frpc_control(handle, 6, &none) && strstr(frpc_error(), "unknown option 6"));
	CHECK(frpc_control(handle, FRPC_SET_LIKE, handle));
	CHECK(frpc_control(handle, FRPC_SET_PEER_SILENCE, &day) && ask(handle, 9, &got) == FRPC_SUCCESS);
	CHECK(frpc_control(handle, FRPC_SET_PEER_SILENCE, &time) && frpc_control(handle, FRPC_SET_PEER_SILENCE, &zero));
	CHECK(ask(handle, 300, &got) == FRPC_SUCCESS && got == 300);
	CHECK(frpc_control(handle, FRPC_SET_RESULT_BYTES, &small));
	CHECK(ask(handle, 8, &got) == FRPC_SUCCESS && got == 8);
	CHECK(ask(handle, 300, &got) != FRPC_SUCCESS && got == 0);
	CHECK(strstr(frpc_outcome_of(handle)->text, "see FRPC_SET_RESULT_BYTES"));
	/* A handle's own timeout precedes a call's. */
	time = SHORT;
	CHECK(frpc_control(handle, FRPC_SET_TIMEOUT, &time) && call(handle, SLOW, PATIENCE) == FRPC_TIMEDOUT);
	CHECK(!frpc_control(handle, FRPC_SET_KEY_ID, &(frpc_bytes){ "", 0 }) && strstr(frpc_error(), "1 to 255"));
	CHECK(!frpc_control(handle, FRPC_SET_VERS, NULL) && !frpc_control(NULL, FRPC_SET_VERS, &small));
	frpc_destroyhandle(handle);
	CHECK((handle = frpc_createhandle(address, PROGRAM, VERSION, "udp")));
	CHECK(ask(handle, 12, &got) == FRPC_SUCCESS && got == 12);
	frpc_destroyhandle(handle);
	frpc_destroyhandle(NULL);
}

static void check_multicasts(void)
{
	frpc_handle *handles[2] = { handle_of(PROGRAM, "tcp"), handle_of(PROGRAM, "tcp") };
	frpc_outcome outcomes[2];
	uint32_t required = 1;
	bool_t yes = TRUE;
	CHECK(frpc_control(handles[0], FRPC_SET_REQUIRED, &required));
	CHECK(frpc_call_parallel(handles, 2, SLOW, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, outcomes,
				 PATIENCE) >= 1);
	CHECK(frpc_control(handles[0], FRPC_SET_STORE_AND_FORWARD, &yes));
	CHECK(frpc_call_serial(handles, 1, SLOW, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, outcomes,
			       PATIENCE) == 1);
	CHECK(frpc_call_parallel(handles, 0, SLOW, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, outcomes,
				 PATIENCE) == -1);
	CHECK(strstr(frpc_error(), "at least one handle"));
	CHECK(frpc_call_serial(handles, 2, SLOW, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, outcomes,
			       PATIENCE) == -1);
	CHECK(strstr(frpc_error(), "callee 1 (127.0.0.1:") && strstr(frpc_error(), "in the chain twice"));
	frpc_destroyhandle(handles[0]);
	frpc_destroyhandle(handles[1]);
}

static void *serve(void *unused)
{
	frpc_svc_run();
	return unused;
}

static void check_wrong_arguments(void)
{
	frpc_handle *handle = handle_of(PROGRAM, "tcp");
	frpc_outcome outcome;
	CHECK(!frpc_control(handle, FRPC_SET_KEY, &(frpc_bytes){ "", (size_t)-1 }) && strstr(frpc_error(), "at most"));
	CHECK(frpc_call_parallel(&handle, (size_t)-1, FAIL, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL,
				 &outcome, PATIENCE) == -1);
	xdrproc_t nothing = (xdrproc_t)xdr_void;
	CHECK(frpc_call(handle, FAIL, NULL_xdrproc_t, NULL, nothing, NULL, PATIENCE) == FRPC_FAILED);
	CHECK(frpc_call(handle, FAIL, nothing, NULL, NULL_xdrproc_t, NULL, PATIENCE) == FRPC_FAILED);
	CHECK(strstr(frpc_error(), "XDR routine is a null pointer"));
	frpc_destroyhandle(handle);
	const char *wrong[] = { "", "127.0.0.1:", "127.0.0.1:99999", "localhost:abc", ":", ":4200", "localhost:4200:3" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(!frpc_createhandle(wrong[i], PROGRAM, VERSION, "tcp") && strstr(frpc_error(), "not HOST:PORT"));
}

/* A child has none of the server's threads: it doesn't wait for them, and may start its own. */
static void check_forked(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		frpc_svc_run();
		CHECK(strstr(frpc_error(), "before a fork"));
		CHECK(frpc_register_program(PROGRAM, VERSION + 1, dispatch, 0) == 0);
		CHECK(frpc_svc_start("127.0.0.1:0", NULL) > 0);
		frpc_svc_exit();
		frpc_svc_run();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	struct timeval drain = { 5, 0 };
	uint32_t call_bytes = 1 << 16, none = 0;
	bool_t no = FALSE, yes = TRUE;
	pthread_t callers[CALLERS], server;
	CHECK(frpc_register_program(PROGRAM, VERSION, dispatch, 0) == 0);
	CHECK(frpc_register_program(OTHER, VERSION, dispatch, FRPC_ONE_AT_A_TIME) == 0);
	CHECK(frpc_register_program(OTHER, VERSION, dispatch, 0) == -1 && strstr(frpc_error(), "registered already"));
	CHECK(frpc_register_program(OTHER, VERSION + 1, NULL, 0) == -1);
	CHECK(frpc_svc_start("0.0.0.0:0", NULL) == -1 && strstr(frpc_error(), "loopback"));
	CHECK(frpc_svc_control(FRPC_SVC_SET_ANONYMOUS, &yes) && frpc_svc_control(FRPC_SVC_SET_DRAIN, &drain));
	CHECK(frpc_svc_control(FRPC_SVC_SET_ONC, &no) && frpc_svc_control(FRPC_SVC_SET_CALL_BYTES, &call_bytes));
	CHECK(!frpc_svc_control(FRPC_SVC_SET_CALL_BYTES, &none) && !frpc_svc_control(FRPC_SVC_SET_WORKERS, &none));
	int port = frpc_svc_start("0.0.0.0:0", NULL);
	CHECK(port > 0 && frpc_svc_start("127.0.0.1:0", NULL) == -1);
	snprintf(address, sizeof address, "127.0.0.1:%d", port);
	CHECK(!pthread_create(&server, NULL, serve, NULL));

	check_outcomes();
	check_options();
	check_multicasts();
	check_wrong_arguments();
	check_shared();
	check_forked();
	/* SunRPC's callers are refused, as FRPC_SVC_SET_ONC says. */
	frpc_handle *onc = handle_of(PROGRAM, "tcp");
	CHECK(frpc_control(onc, FRPC_SET_ONC, &yes) && call(onc, FAIL, PATIENCE) != FRPC_SYSTEMERROR);
	frpc_destroyhandle(onc);
	for (int i = 0; i < CALLERS; i++)
		CHECK(!pthread_create(&callers[i], NULL, call_at_once, NULL));
	for (int i = 0; i < CALLERS; i++)
		CHECK(!pthread_join(callers[i], NULL));
	CHECK(most_running == 1);

	frpc_svc_exit();
	CHECK(!pthread_join(server, NULL));
	frpc_handle *late = handle_of(PROGRAM, "tcp");
	int stat = call(late, FAIL, PATIENCE);
	/* An earlier call's connection may end while this call is sent. */
	CHECK(stat == FRPC_NOTEXECUTED ? frpc_outcome_of(late)->retry_safe : stat == FRPC_UNKNOWN);
	CHECK(call(late, FAIL, PATIENCE) == FRPC_NOTEXECUTED);
	CHECK(strstr(frpc_outcome_of(late)->text, "connection refused"));
	frpc_destroyhandle(late);
	return 0;
}
