/* A service and its caller by TLS and the cluster's key:
 * `secured serve CERTIFICATE KEY`, `secured call HOST:PORT AUTHORITIES`. */
#include <flexrpc.h>
#include <stdio.h>

enum { PROGRAM = 0x20000079, VERSION = 1, WHO = 1 };

static const frpc_bytes key = { "the cluster's key of thirty-two bytes", 37 };

#define CHECK(claim)                                                                        \
	do {                                                                                \
		if (!(claim)) {                                                             \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #claim, frpc_error()); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

/* The caller's user, last group and time left, if it holds the key. */
static void dispatch(frpc_request *request)
{
	if (!request->rq_authenticated || !request->rq_auth || request->rq_left_ms > 20000) {
		frpc_svcerr_application(request, 1, "a stranger");
		return;
	}
	u_int told[2] = { request->rq_auth->uid, request->rq_auth->gids[request->rq_auth->gid_count - 1] };
	char text[300];
	char *at = text;
	snprintf(text, sizeof text, "%u %u %s", told[0], told[1], request->rq_auth->machine);
	frpc_sendreply(request, (xdrproc_t)xdr_wrapstring, &at);
}

static enum frpc_stat ask(frpc_handle *handle, char **told)
{
	*told = NULL;
	return frpc_call(handle, WHO, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_wrapstring, told,
			 (struct timeval){ 20, 0 });
}

int main(int count, char **arguments)
{
	const uint32_t groups[] = { 4, 24 };
	frpc_auth_sys user = { "desk", 4711, 100, groups, 2 };
	bool_t yes = TRUE;
	char *told;
	CHECK(count == 4);
	if (!strcmp(arguments[1], "serve")) {
		frpc_tls tls = { NULL, NULL, arguments[2], arguments[3], NULL };
		uint32_t workers = 4;
		CHECK(frpc_svc_control(FRPC_SVC_SET_TLS, &tls));
		CHECK(frpc_svc_control(FRPC_SVC_SET_TLS_REQUIRED, &yes));
		CHECK(frpc_svc_control(FRPC_SVC_SET_WORKERS, &workers));
		CHECK(!frpc_svc_control(9, &yes) && strstr(frpc_error(), "unknown option 9"));
		CHECK(frpc_register_program(PROGRAM, VERSION, dispatch, 0) == 0);
		int port = frpc_svc_start("127.0.0.1:0", &key);
		CHECK(port > 0);
		CHECK(!frpc_svc_control(FRPC_SVC_SET_TLS, &tls));
		printf("%d\n", port);
		fflush(stdout);
		frpc_svc_run();
		return 0;
	}
	frpc_tls tls = { arguments[3], NULL, NULL, NULL, "localhost" };
	frpc_tls missing = { "/nonexistent", NULL, NULL, NULL, NULL };
	frpc_handle *handle = frpc_createhandle(arguments[2], PROGRAM, VERSION, "tcp");
	CHECK(handle);
	CHECK(ask(handle, &told) == FRPC_NOTEXECUTED || ask(handle, &told) == FRPC_AUTHERROR);
	CHECK(frpc_outcome_of(handle)->retry_safe);
	CHECK(!frpc_control(handle, FRPC_SET_TLS, &missing) && strstr(frpc_error(), "/nonexistent"));
	CHECK(frpc_control(handle, FRPC_SET_TLS, &tls));
	CHECK(ask(handle, &told) == FRPC_AUTHERROR);
	CHECK(frpc_control(handle, FRPC_SET_KEY, (void *)&key));
	CHECK(ask(handle, &told) == FRPC_APPLICATION && frpc_outcome_of(handle)->code == 1);
	CHECK(frpc_control(handle, FRPC_SET_AUTH_SYS, &user));
	CHECK(ask(handle, &told) == FRPC_SUCCESS && !strcmp(told, "4711 24 desk"));
	xdr_free((xdrproc_t)xdr_wrapstring, &told);
	frpc_handle *other = frpc_createhandle(arguments[2], PROGRAM, VERSION, "tcp");
	CHECK(other && frpc_control(other, FRPC_SET_LIKE, handle) && frpc_control(other, FRPC_SET_AUTH_SYS, &user));
	CHECK(ask(other, &told) == FRPC_SUCCESS);
	xdr_free((xdrproc_t)xdr_wrapstring, &told);
	frpc_destroyhandle(handle);
	frpc_destroyhandle(other);
	return 0;
}
