/* FlexRPC for C programs: Table II of the paper, XDR, and multicasts.
 *
 * docs/flexrpc-c.md is the manual: units, errors, ownership, threads, fork.
 * The header stands in for <rpc/rpc.h>: include one of them, not both. Sources
 * that include <rpc/...> after this header get nothing from it.
 */
#ifndef FLEXRPC_H
#define FLEXRPC_H

/* The include guards of the C library's and libtirpc's headers. */
#define _RPC_RPC_H 1
#define _RPC_TYPES_H 1
#define __RPC_TYPES_H 1
#define __RPC_HEADER_H 1
#define _RPC_XDR_H 1
#define _TIRPC_RPC_H 1
#define _TIRPC_TYPES_H 1
#define _TIRPC_XDR_H 1
#define _SUNRPC_TYPES_H 1
#define _SUNRPC_XDR_H 1

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int bool_t;
typedef int enum_t;
typedef uint32_t rpcprog_t;
typedef uint32_t rpcvers_t;
typedef uint32_t rpcproc_t;
#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif

/* ------------------------------------------------------------------- XDR */

enum xdr_op { XDR_ENCODE = 0, XDR_DECODE = 1, XDR_FREE = 2 };

/* A stream of XDR. Programs read x_op; the rest is the library's. */
typedef struct frpc_xdr {
	enum xdr_op x_op;
	unsigned x_depth;   /* pointers inside pointers */
	char *x_at;	    /* next byte */
	char *x_base;	    /* first byte */
	size_t x_left;	    /* bytes from x_at to the end */
	uint64_t x_memory;  /* bytes that decoding may still allocate */
	void *x_growing;    /* the library's buffer, or null */
} XDR;

/* A routine of the form bool_t xdr_foo(XDR *, foo *). */
typedef bool_t (*xdrproc_t)(XDR *, ...);

/* Names of rpc/xdr.h; the symbols differ so that a program may link libtirpc. */
#define xdr_void frpc_xdr_void
#define xdr_char frpc_xdr_char
#define xdr_u_char frpc_xdr_u_char
#define xdr_short frpc_xdr_short
#define xdr_u_short frpc_xdr_u_short
#define xdr_int frpc_xdr_int
#define xdr_u_int frpc_xdr_u_int
#define xdr_long frpc_xdr_long
#define xdr_u_long frpc_xdr_u_long
#define xdr_int8_t frpc_xdr_char
#define xdr_uint8_t frpc_xdr_u_char
#define xdr_int16_t frpc_xdr_short
#define xdr_uint16_t frpc_xdr_u_short
#define xdr_int32_t frpc_xdr_int
#define xdr_uint32_t frpc_xdr_u_int
#define xdr_int64_t frpc_xdr_int64_t
#define xdr_uint64_t frpc_xdr_uint64_t
#define xdr_hyper frpc_xdr_int64_t
#define xdr_u_hyper frpc_xdr_uint64_t
#define xdr_float frpc_xdr_float
#define xdr_double frpc_xdr_double
#define xdr_quadruple frpc_xdr_quadruple
#define xdr_bool frpc_xdr_bool
#define xdr_enum frpc_xdr_enum
#define xdr_opaque frpc_xdr_opaque
#define xdr_bytes frpc_xdr_bytes
#define xdr_string frpc_xdr_string
#define xdr_wrapstring frpc_xdr_wrapstring
#define xdr_array frpc_xdr_array
#define xdr_vector frpc_xdr_vector
#define xdr_pointer frpc_xdr_pointer
#define xdr_reference frpc_xdr_reference
#define xdr_free frpc_xdr_free
#define xdr_getpos frpc_xdr_getpos
#define xdrmem_create frpc_xdrmem_create

/* A 128-bit float as its bytes on the wire. */
typedef struct frpc_quadruple { char bytes[16]; } quadruple;

bool_t xdr_void(XDR *, void *);
bool_t xdr_char(XDR *, char *);
bool_t xdr_u_char(XDR *, u_char *);
bool_t xdr_short(XDR *, short *);
bool_t xdr_u_short(XDR *, u_short *);
bool_t xdr_int(XDR *, int *);
bool_t xdr_u_int(XDR *, u_int *);
bool_t xdr_long(XDR *, long *);
bool_t xdr_u_long(XDR *, u_long *);
bool_t xdr_int64_t(XDR *, int64_t *);
bool_t xdr_uint64_t(XDR *, uint64_t *);
bool_t xdr_float(XDR *, float *);
bool_t xdr_double(XDR *, double *);
bool_t xdr_quadruple(XDR *, quadruple *);
bool_t xdr_bool(XDR *, bool_t *);
bool_t xdr_enum(XDR *, enum_t *);
bool_t xdr_opaque(XDR *, char *, u_int bytes);
bool_t xdr_bytes(XDR *, char **, u_int *bytes, u_int max);
bool_t xdr_string(XDR *, char **, u_int max);
bool_t xdr_wrapstring(XDR *, char **);
bool_t xdr_array(XDR *, char **, u_int *count, u_int max, u_int element_bytes, xdrproc_t);
bool_t xdr_vector(XDR *, char *, u_int count, u_int element_bytes, xdrproc_t);
bool_t xdr_pointer(XDR *, char **, u_int bytes, xdrproc_t);
bool_t xdr_reference(XDR *, char **, u_int bytes, xdrproc_t);
/* One step along a list, for generated code: *more tells whether *next exists. */
bool_t frpc_xdr_next(XDR *, char **next, u_int bytes, bool_t *more);
/* Frees the memory that decoding allocated behind a value, not the value. */
void xdr_free(xdrproc_t, void *);
u_int xdr_getpos(XDR *);
void xdrmem_create(XDR *, char *, u_int bytes, enum xdr_op);

/* ---------------------------------------------------------------- callers */

/* The numbers of SunRPC's clnt_stat where it has the condition. */
enum frpc_stat {
	FRPC_SUCCESS = 0,
	FRPC_CANTENCODEARGS = 1,  /* nothing was sent */
	FRPC_CANTDECODERES = 2,	  /* executed */
	FRPC_TIMEDOUT = 5,	  /* may have been executed */
	FRPC_AUTHERROR = 7,	  /* not executed */
	FRPC_PROGUNAVAIL = 8,	  /* not executed */
	FRPC_PROGVERSMISMATCH = 9, /* not executed */
	FRPC_PROCUNAVAIL = 10,	  /* not executed */
	FRPC_CANTDECODEARGS = 11, /* the procedure's code didn't run */
	FRPC_SYSTEMERROR = 12,	  /* executed, and failed */
	FRPC_UNKNOWNHOST = 13,	  /* not executed */
	FRPC_FAILED = 16,	  /* a wrong argument, or a handle of another process; not executed */
	FRPC_APPLICATION = 101,	  /* executed: the service's own error, in code */
	FRPC_NOTEXECUTED = 102,	  /* not executed, for the reason in text */
	FRPC_UNKNOWN = 103	  /* may have been executed, for the reason in text */
};

/* One callee's outcome. */
typedef struct frpc_outcome {
	enum frpc_stat stat;
	uint32_t code;	    /* of FRPC_APPLICATION */
	bool_t retry_safe;  /* the call may be repeated without executing it twice */
	char text[256];	    /* for people; ends with a zero byte */
} frpc_outcome;

typedef struct frpc_handle frpc_handle;

/* host: "HOST:PORT" ("[::1]:PORT"); transport: "tcp" or "udp". Connects at the
 * first call. Null on failure, see frpc_error(). */
frpc_handle *frpc_createhandle(const char *host, rpcprog_t, rpcvers_t, const char *transport);
void frpc_destroyhandle(frpc_handle *);

/* clnt_control's options with its numbers, then FlexRPC's own. */
enum frpc_option {
	FRPC_SET_TIMEOUT = 1, /* struct timeval *: of every call, whatever a call says */
	FRPC_GET_TIMEOUT = 2, /* struct timeval * */
	FRPC_GET_SERVER_ADDR = 3, /* char[64]: HOST:PORT */
	FRPC_GET_VERS = 12,   /* uint32_t * */
	FRPC_SET_VERS = 13,   /* uint32_t * */
	FRPC_GET_PROG = 14,   /* uint32_t * */
	FRPC_SET_PROG = 15,   /* uint32_t * */
	FRPC_SET_KEY = 1001,  /* const frpc_bytes *: the cluster's key, 32 bytes at least */
	FRPC_SET_AUTH_SYS = 1002, /* const frpc_auth_sys *; null for none */
	FRPC_SET_REQUIRED = 1003, /* uint32_t *: values that are enough for a parallel call; 0 for all */
	FRPC_SET_STORE_AND_FORWARD = 1004 /* bool_t *: of serial calls */
};

typedef struct frpc_bytes { const void *data; size_t length; } frpc_bytes;
typedef struct frpc_auth_sys { const char *machine; uint32_t uid, gid; } frpc_auth_sys;

bool_t frpc_control(frpc_handle *, unsigned option, void *value);

/* One call. A zero timeout means the handle's. */
enum frpc_stat frpc_call(frpc_handle *, rpcproc_t, xdrproc_t args_proc, const void *args,
			 xdrproc_t result_proc, void *result, struct timeval timeout);

/* The outcome of the handle's latest call. */
const frpc_outcome *frpc_outcome_of(const frpc_handle *);

/* Multicasts: to all at once, or along a chain in the order of handles (TCP
 * only). Options and program are the first handle's. results[i] is a zeroed
 * value that belongs to the caller; results may be null. Returns the number of
 * callees with FRPC_SUCCESS, or -1 if nothing was sent. */
int frpc_call_parallel(frpc_handle *const *handles, size_t count, rpcproc_t, xdrproc_t args_proc,
		       const void *args, xdrproc_t result_proc, void *const *results,
		       frpc_outcome *outcomes, struct timeval timeout);
int frpc_call_serial(frpc_handle *const *handles, size_t count, rpcproc_t, xdrproc_t args_proc,
		     const void *args, xdrproc_t result_proc, void *const *results,
		     frpc_outcome *outcomes, struct timeval timeout);

/* Why the thread's latest function without an outcome failed. */
const char *frpc_error(void);

/* ---------------------------------------------------------------- callees */

/* A call at its callee, valid until its dispatch function returns. */
typedef struct frpc_request {
	rpcprog_t rq_prog;
	rpcvers_t rq_vers;
	rpcproc_t rq_proc;
	bool_t rq_authenticated; /* the caller holds the cluster's key */
	bool_t rq_auth_sys;	 /* uid and gid are set: the caller's claim */
	uint32_t rq_uid, rq_gid;
	int64_t rq_left_ms;	 /* until the caller stops waiting; -1 for never */
	void *rq_private;
} frpc_request;

typedef void (*frpc_dispatch_t)(frpc_request *);

/* flags: FRPC_ONE_AT_A_TIME for code that isn't thread-safe. 0, or -1. */
#define FRPC_ONE_AT_A_TIME 1u
int frpc_register_program(rpcprog_t, rpcvers_t, frpc_dispatch_t, unsigned flags);

bool_t frpc_getargs(frpc_request *, xdrproc_t, void *args);
bool_t frpc_freeargs(frpc_request *, xdrproc_t, void *args);
/* The last of these in a dispatch is the call's outcome; with none of them it fails. */
bool_t frpc_sendreply(frpc_request *, xdrproc_t, const void *result);
void frpc_svcerr_noproc(frpc_request *);
void frpc_svcerr_decode(frpc_request *);
void frpc_svcerr_systemerr(frpc_request *);
void frpc_svcerr_application(frpc_request *, uint32_t code, const char *text);

/* Starts to serve in the background: "HOST:PORT", port 0 for a free one. key may
 * be null on loopback. Returns the port, or -1. */
int frpc_svc_start(const char *listen, const frpc_bytes *key);
/* Serves until frpc_svc_exit, on 127.0.0.1 and a free port if frpc_svc_start
 * hasn't run. */
void frpc_svc_run(void);
/* Ends frpc_svc_run, from any thread; not from a signal handler. */
void frpc_svc_exit(void);

#ifdef __cplusplus
}
#endif
#endif
