/* FlexRPC for C programs: the functions of Table II of the paper, XDR, and multicasts.
 *
 * docs/flexrpc-c.md is the manual: units, errors, ownership, threads, fork.
 * This header replaces <rpc/rpc.h>: include one of them, not both. If a source
 * includes <rpc/...> after this header, the second include has no effect.
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
#define _RPC_AUTH_H 1
#define _RPC_AUTH_UNIX_H 1
#define _RPC_CLNT_H 1
#define _RPC_SVC_H 1
#define _RPC_MSG_H 1
#define _RPC_PMAP_CLNT_H 1
#define _TIRPC_AUTH_H 1
#define _TIRPC_AUTH_UNIX_H 1
#define _TIRPC_CLNT_H_ 1
#define _TIRPC_SVC_H 1
#define _TIRPC_RPC_MSG_H 1
#define _RPC_PMAP_CLNT_H_ 1
#define _RPC_CLNT_SOC_H 1
#define _RPC_SVC_SOC_H 1
#define _RPC_RPCB_CLNT_H 1

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>

/* In its strict modes (-std=c99), the C library doesn't define these names. */
#if defined __GLIBC__ && !defined __u_char_defined
typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned int u_int;
typedef unsigned long u_long;
#define __u_char_defined
#endif
#if defined __GLIBC__ && !defined __daddr_t_defined
typedef char *caddr_t;
#define __daddr_t_defined
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int bool_t;
typedef int enum_t;
typedef uint32_t rpcprog_t;
typedef uint32_t rpcvers_t;
typedef uint32_t rpcproc_t;
typedef uint32_t rpcprot_t;
typedef uint32_t rpcport_t;
#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
/* Each program has this procedure, without arguments and result. */
#define NULLPROC ((rpcproc_t)0)

/* ------------------------------------------------------------------- XDR */

enum xdr_op { XDR_ENCODE = 0, XDR_DECODE = 1, XDR_FREE = 2 };

/* An XDR stream. Programs use x_op and x_public; the other fields belong to the library. */
typedef struct frpc_xdr {
	enum xdr_op x_op;
	unsigned x_depth;   /* levels of nested pointers and arrays */
	char *x_at;	    /* next byte */
	char *x_base;	    /* first byte */
	size_t x_left;	    /* bytes from x_at to the end */
	uint64_t x_memory;  /* bytes that decoding may still allocate */
	void *x_growing;    /* the library's buffer, or null */
	void *x_stream;	    /* a file, records or a count, or null */
	char *x_public;	    /* for the program */
} XDR;

/* A routine of the form bool_t xdr_foo(XDR *, foo *). */
typedef bool_t (*xdrproc_t)(XDR *, ...);
#define NULL_xdrproc_t ((xdrproc_t)0)

#define BYTES_PER_XDR_UNIT 4
#define RNDUP(x) ((((x) + BYTES_PER_XDR_UNIT - 1) / BYTES_PER_XDR_UNIT) * BYTES_PER_XDR_UNIT)

/* The names are those of rpc/xdr.h. The symbols differ, so that a program can also link libtirpc. */
#define xdr_void frpc_xdr_void
#define xdr_char frpc_xdr_char
#define xdr_u_char frpc_xdr_u_char
#define xdr_short frpc_xdr_short
#define xdr_u_short frpc_xdr_u_short
#define xdr_int frpc_xdr_int
#define xdr_u_int frpc_xdr_u_int
#define xdr_long frpc_xdr_long
#define xdr_u_long frpc_xdr_u_long
#define xdr_int8_t frpc_xdr_int8_t
#define xdr_uint8_t frpc_xdr_u_char
#define xdr_u_int8_t frpc_xdr_u_char
#define xdr_int16_t frpc_xdr_short
#define xdr_uint16_t frpc_xdr_u_short
#define xdr_u_int16_t frpc_xdr_u_short
#define xdr_int32_t frpc_xdr_int
#define xdr_uint32_t frpc_xdr_u_int
#define xdr_u_int32_t frpc_xdr_u_int
#define xdr_int64_t frpc_xdr_int64_t
#define xdr_uint64_t frpc_xdr_uint64_t
#define xdr_u_int64_t frpc_xdr_uint64_t
#define xdr_quad_t frpc_xdr_int64_t
#define xdr_u_quad_t frpc_xdr_uint64_t
#define xdr_hyper frpc_xdr_int64_t
#define xdr_u_hyper frpc_xdr_uint64_t
#define xdr_longlong_t frpc_xdr_int64_t
#define xdr_u_longlong_t frpc_xdr_uint64_t
#define xdr_rpcprog frpc_xdr_u_int
#define xdr_rpcvers frpc_xdr_u_int
#define xdr_rpcproc frpc_xdr_u_int
#define xdr_rpcprot frpc_xdr_u_int
#define xdr_rpcport frpc_xdr_u_int
#define xdr_rpcprog_t frpc_xdr_u_int
#define xdr_rpcvers_t frpc_xdr_u_int
#define xdr_rpcproc_t frpc_xdr_u_int
#define xdr_rpcprot_t frpc_xdr_u_int
#define xdr_rpcport_t frpc_xdr_u_int
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
#define xdr_union frpc_xdr_union
#define xdr_netobj frpc_xdr_netobj
#define xdr_opaque_auth frpc_xdr_opaque_auth
#define xdr_netbuf frpc_xdr_netbuf
#define xdr_des_block frpc_xdr_des_block
#define xdr_free frpc_xdr_free
#define xdr_sizeof frpc_xdr_sizeof
#define xdr_getpos frpc_xdr_getpos
#define xdr_setpos frpc_xdr_setpos
#define xdr_inline frpc_xdr_inline
#define xdr_destroy frpc_xdr_destroy
#define xdr_getlong frpc_xdr_getlong
#define xdr_putlong frpc_xdr_putlong
#define xdr_getint32 frpc_xdr_getint32
#define xdr_putint32 frpc_xdr_putint32
#define xdr_getbytes frpc_xdr_getbytes
#define xdr_putbytes frpc_xdr_putbytes
#define xdrmem_create frpc_xdrmem_create
#define xdrstdio_create frpc_xdrstdio_create
#define xdrrec_create frpc_xdrrec_create
#define xdrrec_endofrecord frpc_xdrrec_endofrecord
#define xdrrec_skiprecord frpc_xdrrec_skiprecord
#define xdrrec_eof frpc_xdrrec_eof
#define XDR_GETLONG frpc_xdr_getlong
#define XDR_PUTLONG frpc_xdr_putlong
#define XDR_GETINT32 frpc_xdr_getint32
#define XDR_PUTINT32 frpc_xdr_putint32
#define XDR_GETBYTES frpc_xdr_getbytes
#define XDR_PUTBYTES frpc_xdr_putbytes
#define XDR_GETPOS frpc_xdr_getpos
#define XDR_SETPOS frpc_xdr_setpos
#define XDR_INLINE frpc_xdr_inline
#define XDR_DESTROY frpc_xdr_destroy

/* Read and write words in the memory that xdr_inline returned. */
#define IXDR_GET_INT32(at) ((int32_t)ntohl((uint32_t)*(at)++))
#define IXDR_PUT_INT32(at, v) (*(at)++ = (int32_t)htonl((uint32_t)(v)))
#define IXDR_GET_U_INT32(at) ((uint32_t)IXDR_GET_INT32(at))
#define IXDR_PUT_U_INT32(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_LONG(at) ((long)IXDR_GET_INT32(at))
#define IXDR_PUT_LONG(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_U_LONG(at) ((u_long)IXDR_GET_U_INT32(at))
#define IXDR_PUT_U_LONG(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_BOOL(at) ((bool_t)IXDR_GET_INT32(at))
#define IXDR_PUT_BOOL(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_ENUM(at, t) ((t)IXDR_GET_INT32(at))
#define IXDR_PUT_ENUM(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_SHORT(at) ((short)IXDR_GET_INT32(at))
#define IXDR_PUT_SHORT(at, v) IXDR_PUT_INT32(at, v)
#define IXDR_GET_U_SHORT(at) ((u_short)IXDR_GET_INT32(at))
#define IXDR_PUT_U_SHORT(at, v) IXDR_PUT_INT32(at, v)

/* A 128-bit float as its bytes on the wire. */
typedef struct frpc_quadruple { char bytes[16]; } quadruple;

/* Types that many interfaces use. */
#define MAX_NETOBJ_SZ 1024
typedef struct netobj { u_int n_len; char *n_bytes; } netobj;
#define MAX_AUTH_BYTES 400
struct opaque_auth { enum_t oa_flavor; caddr_t oa_base; u_int oa_length; };
typedef struct netbuf { unsigned int maxlen; unsigned int len; void *buf; } netbuf;
#define MAXNETNAMELEN 255
typedef union des_block { struct { uint32_t high, low; } key; char c[8]; } des_block;
struct xdr_discrim { int value; xdrproc_t proc; };

/* Each routine encodes, decodes or frees a value, depending on x_op. It returns FALSE at
 * the stream's end, beyond a limit, without memory, or if the value doesn't follow the
 * interface. Before decoding, set the value to zeros: the routine allocates memory for null
 * pointers by malloc. That memory belongs to the caller. xdr_free frees it, also after a
 * failed decoding. */
bool_t xdr_void(XDR *, void *);
bool_t xdr_char(XDR *, char *);
bool_t xdr_u_char(XDR *, u_char *);
bool_t xdr_short(XDR *, short *);
bool_t xdr_u_short(XDR *, u_short *);
bool_t xdr_int(XDR *, int *);
bool_t xdr_u_int(XDR *, u_int *);
bool_t xdr_long(XDR *, long *);
bool_t xdr_u_long(XDR *, u_long *);
bool_t xdr_int8_t(XDR *, int8_t *);
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
/* The last element of choices has a null proc. If the default routine is null, values without
 * a choice are refused. */
bool_t xdr_union(XDR *, enum_t *, char *value, const struct xdr_discrim *choices, xdrproc_t default_proc);
bool_t xdr_netobj(XDR *, netobj *);
bool_t xdr_opaque_auth(XDR *, struct opaque_auth *);
/* Only decode with a null buf: as in libtirpc, the sender determines maxlen. */
bool_t xdr_netbuf(XDR *, struct netbuf *);
bool_t xdr_des_block(XDR *, des_block *);
/* For generated code: one step along a list. Sets *more to whether *next exists. */
bool_t frpc_xdr_next(XDR *, char **next, u_int bytes, bool_t *more);
/* Frees the memory that decoding allocated for a value's parts, but not the value itself. */
void xdr_free(xdrproc_t, void *);
/* The value's size on the wire in bytes; 0 if the value doesn't follow the interface. */
u_long xdr_sizeof(xdrproc_t, void *);

/* Read or write one word, or bytes without padding. */
bool_t xdr_getlong(XDR *, long *);
bool_t xdr_putlong(XDR *, const long *);
bool_t xdr_getint32(XDR *, int32_t *);
bool_t xdr_putint32(XDR *, const int32_t *);
bool_t xdr_getbytes(XDR *, char *, u_int);
bool_t xdr_putbytes(XDR *, const char *, u_int);
/* Bytes from the stream's beginning, for xdr_setpos; UINT_MAX for records. */
u_int xdr_getpos(XDR *);
/* Works in memory and in files. */
bool_t xdr_setpos(XDR *, u_int);
/* Returns the address of the next bytes and skips them; null if the stream isn't in memory, or the
 * address isn't aligned for words. */
int32_t *xdr_inline(XDR *, u_int bytes);
/* Frees the stream's own memory. The program must still close its file, or free the memory that it
 * gave to xdrmem_create. */
void xdr_destroy(XDR *);

void xdrmem_create(XDR *, char *, u_int bytes, enum xdr_op);
void xdrstdio_create(XDR *, FILE *, enum xdr_op);
/* A stream of records (RFC 5531, section 11). The program's functions read and write its
 * bytes; they return the number of bytes, or -1. send_bytes is the size of the largest
 * fragment to write, 0 for 64 KiB; receive_bytes has no effect. Before reading each record,
 * call xdrrec_skiprecord. After writing a record, call xdrrec_endofrecord: it sends the
 * record at once, even if now is 0. */
void xdrrec_create(XDR *, u_int send_bytes, u_int receive_bytes, void *handle,
		   int (*read)(void *handle, void *, int), int (*write)(void *handle, void *, int));
bool_t xdrrec_endofrecord(XDR *, int now);
bool_t xdrrec_skiprecord(XDR *);
/* Skips the rest of the record. Returns whether no bytes of another record have arrived. */
bool_t xdrrec_eof(XDR *);

/* ---------------------------------------------------------------- callers */

/* If SunRPC's clnt_stat has the same condition, the number is the same. */
enum frpc_stat {
	FRPC_SUCCESS = 0,
	FRPC_CANTENCODEARGS = 1,  /* nothing was sent */
	FRPC_CANTDECODERES = 2,	  /* executed, but the result doesn't follow the interface */
	FRPC_TIMEDOUT = 5,	  /* perhaps executed */
	FRPC_AUTHERROR = 7,	  /* not executed */
	FRPC_PROGUNAVAIL = 8,	  /* not executed */
	FRPC_PROGVERSMISMATCH = 9, /* not executed */
	FRPC_PROCUNAVAIL = 10,	  /* not executed */
	FRPC_CANTDECODEARGS = 11, /* the procedure's code didn't run */
	FRPC_SYSTEMERROR = 12,	  /* executed, and failed */
	FRPC_FAILED = 16,	  /* invalid argument or busy handle, see frpc_error(); not executed */
	FRPC_APPLICATION = 101,	  /* executed; code has the service's own error */
	FRPC_NOTEXECUTED = 102,	  /* not executed; text has the reason */
	FRPC_UNKNOWN = 103	  /* perhaps executed; text has the reason */
};

/* One callee's outcome. */
typedef struct frpc_outcome {
	enum frpc_stat stat;
	uint32_t code;	    /* the service's error, for FRPC_APPLICATION */
	bool_t retry_safe;  /* whether repeating the call can't execute it twice */
	char text[256];	    /* message for people; ends with a zero byte */
} frpc_outcome;

typedef struct frpc_handle frpc_handle;

/* host: "HOST:PORT" ("[::1]:PORT"), or "HOST"; then this function asks the host's rpcbind for the
 * port, for at most 5 s. transport: "tcp" or "udp". The first call connects to the first of the
 * name's addresses that answers; multicasts and plain ONC RPC use the name's first address.
 * Returns null on failure, see frpc_error(). */
frpc_handle *frpc_createhandle(const char *host, rpcprog_t, rpcvers_t, const char *transport);
/* Closes the handle's connection, and frees the handle. Does nothing if it is null. */
void frpc_destroyhandle(frpc_handle *);

/* The options of clnt_control, with the same numbers, and FlexRPC's own from 1001 on. Each
 * comment gives the type of value. */
enum frpc_option {
	FRPC_SET_TIMEOUT = 1, /* struct timeval *: for all calls, instead of their own timeouts */
	FRPC_GET_TIMEOUT = 2, /* struct timeval * */
	FRPC_GET_SERVER_ADDR = 3, /* char[64]: HOST:PORT */
	FRPC_SET_RETRY_TIMEOUT = 4, /* struct timeval *: wait before the first retransmission over
				     * udp; it doubles each time */
	FRPC_GET_RETRY_TIMEOUT = 5, /* struct timeval * */
	FRPC_GET_VERS = 12,   /* uint32_t * */
	FRPC_SET_VERS = 13,   /* uint32_t * */
	FRPC_GET_PROG = 14,   /* uint32_t * */
	FRPC_SET_PROG = 15,   /* uint32_t * */
	FRPC_SET_KEY = 1001,  /* const frpc_bytes *: the cluster's key, at least 32 bytes */
	FRPC_SET_AUTH_SYS = 1002, /* const frpc_auth_sys *; null for none */
	FRPC_SET_REQUIRED = 1003, /* uint32_t *: number of results after which a parallel call ends;
				   * 0 for all */
	FRPC_SET_STORE_AND_FORWARD = 1004, /* bool_t *: in serial calls, each callee forwards the
					    * call only after it has received all of it */
	FRPC_SET_TLS = 1005,  /* const frpc_tls *; null for none */
	FRPC_SET_ONC = 1006,  /* bool_t *: the callee speaks plain ONC RPC (SunRPC) */
	FRPC_SET_CONNECT_TIMEOUT = 1007, /* struct timeval *: for connecting and the handshake */
	FRPC_GET_CONNECT_TIMEOUT = 1008, /* struct timeval * */
	FRPC_SET_PEER_SILENCE = 1009, /* struct timeval *: a host that acknowledges nothing for this
				       * time counts as lost; 0 for never */
	FRPC_SET_RESULT_BYTES = 1010, /* uint32_t *: the largest result */
	FRPC_SET_KEY_ID = 1011, /* const frpc_bytes *: the name of this caller's own key; 1 to 255 bytes */
	FRPC_SET_LIKE = 1012  /* const frpc_handle *: shares that handle's key, TLS, limits and
			       * connections */
};

typedef struct frpc_bytes { const void *data; size_t length; } frpc_bytes;
typedef struct frpc_auth_sys {
	const char *machine; /* at most 255 bytes */
	uint32_t uid, gid;
	const uint32_t *gids; /* further groups */
	size_t gid_count;     /* at most 16 */
} frpc_auth_sys;

/* Names of PEM files; unused ones are null. A caller sets authorities or pinned. A callee
 * sets certificate and key; if it also sets authorities, its callers need certificates. */
typedef struct frpc_tls {
	const char *authorities; /* peers with certificates from these are trusted */
	const char *pinned;	 /* peers with one of these certificates are trusted */
	const char *certificate, *key; /* this process's own */
	const char *name;	 /* must be in the callee's certificate; null for the callee's address */
} frpc_tls;

/* Reads or writes value, and keeps no pointer to it. FALSE on failure, see frpc_error(). */
bool_t frpc_control(frpc_handle *, unsigned option, void *value);

/* Makes one call. A zero timeout means the handle's timeout. Set result to zeros before. Its parts
 * belong to the program, which must free them by xdr_free. After a failure, there are no parts. */
enum frpc_stat frpc_call(frpc_handle *, rpcproc_t, xdrproc_t args_proc, const void *args,
			 xdrproc_t result_proc, void *result, struct timeval timeout);

/* The outcome of the handle's latest frpc_call. It is valid until the handle's next frpc_call, in
 * any thread. */
const frpc_outcome *frpc_outcome_of(const frpc_handle *);

/* Prints "prefix: " and the latest outcome's text to standard error. */
void frpc_perror(const frpc_handle *, const char *prefix);

/* Multicasts: to all callees at once (parallel), or along a chain in the order of
 * handles (serial, TCP only). The first handle's options and program apply. results[i]
 * points to a value that is set to zeros; its parts belong to the program. results can
 * be null. Returns the number of callees with FRPC_SUCCESS, or -1 if nothing was sent. */
int frpc_call_parallel(frpc_handle *const *handles, size_t count, rpcproc_t, xdrproc_t args_proc,
		       const void *args, xdrproc_t result_proc, void *const *results,
		       frpc_outcome *outcomes, struct timeval timeout);
int frpc_call_serial(frpc_handle *const *handles, size_t count, rpcproc_t, xdrproc_t args_proc,
		     const void *args, xdrproc_t result_proc, void *const *results,
		     frpc_outcome *outcomes, struct timeval timeout);

/* The same with results in one array, whose elements have result_bytes each and are set to zeros.
 * The code that frpcgen generates calls it. results can be null. */
enum frpc_pattern { FRPC_PARALLEL = 0, FRPC_SERIAL = 1 };
int frpc_multicast(frpc_handle *const *handles, size_t count, enum frpc_pattern, rpcproc_t,
		   xdrproc_t args_proc, const void *args, xdrproc_t result_proc, void *results,
		   size_t result_bytes, frpc_outcome *outcomes, struct timeval timeout);

/* The reason why this thread's latest failed function failed, for functions without an outcome. The
 * text is valid until the next failure. */
const char *frpc_error(void);

/* ---------------------------------------------------------------- callees */

/* A call that the callee executes. It is valid until the dispatch function returns. */
typedef struct frpc_request {
	rpcprog_t rq_prog;
	rpcvers_t rq_vers;
	rpcproc_t rq_proc;
	bool_t rq_authenticated; /* whether the caller proved that it has the key */
	bool_t rq_auth_sys;	 /* whether uid and gid are set; the caller's unproven claim */
	uint32_t rq_uid, rq_gid;
	int64_t rq_left_ms;	 /* milliseconds until the caller stops waiting; -1 for never */
	const frpc_auth_sys *rq_auth; /* the whole AUTH_SYS credentials, or null */
	/* The sender's address, AF_INET or AF_INET6; in a chain, the previous callee's. */
	const struct sockaddr *rq_peer;
	void *rq_private; /* for the library */
} frpc_request;

typedef void (*frpc_dispatch_t)(frpc_request *);

/* flags: FRPC_ONE_AT_A_TIME if the code isn't thread-safe. Returns 0, or -1, see frpc_error(). */
#define FRPC_ONE_AT_A_TIME 1u
int frpc_register_program(rpcprog_t, rpcvers_t, frpc_dispatch_t, unsigned flags);

/* Decodes the arguments into args, which must be set to zeros before. frpc_freeargs frees its parts;
 * call it also if frpc_getargs returned FALSE. */
bool_t frpc_getargs(frpc_request *, xdrproc_t, void *args);
bool_t frpc_freeargs(frpc_request *, xdrproc_t, void *args);
/* A dispatch function calls one of these. If it calls several, the last one determines the call's
 * outcome; if it calls none, the call fails, and a caller of plain ONC RPC gets no reply. They copy
 * result and text. */
bool_t frpc_sendreply(frpc_request *, xdrproc_t, const void *result);
void frpc_svcerr_noproc(frpc_request *);
void frpc_svcerr_decode(frpc_request *);
void frpc_svcerr_systemerr(frpc_request *);
void frpc_svcerr_application(frpc_request *, uint32_t code, const char *text);

/* Options of the server. Set them before it starts. */
enum frpc_svc_option {
	FRPC_SVC_SET_TLS = 2001, /* const frpc_tls * */
	FRPC_SVC_SET_TLS_REQUIRED = 2002, /* bool_t *: refuse callers without TLS */
	FRPC_SVC_SET_ANONYMOUS = 2003, /* bool_t *: accept callers without a key from other hosts, too */
	FRPC_SVC_SET_RPCBIND = 2004, /* bool_t *: register the programs with this host's rpcbind */
	FRPC_SVC_SET_ONC = 2005, /* bool_t *: answer plain ONC RPC for all programs, without
				 * the key; by default, if there is no key */
	FRPC_SVC_SET_DRAIN = 2006, /* struct timeval *: how long the end waits for running calls; 30 s */
	FRPC_SVC_SET_WORKERS = 2007, /* uint32_t *: most threads that execute calls */
	FRPC_SVC_SET_CALL_BYTES = 2008 /* uint32_t *: the largest call or result */
};
/* Keeps no pointer to value. FALSE on failure, see frpc_error(). */
bool_t frpc_svc_control(unsigned option, const void *value);

/* Starts the server in the background. listen is "HOST:PORT"; port 0 takes a free one. Copies key,
 * which can be null on loopback. Returns the port, or -1, see frpc_error(). */
int frpc_svc_start(const char *listen, const frpc_bytes *key);
/* Serves until frpc_svc_exit is called. If frpc_svc_start wasn't called, starts the server on
 * 127.0.0.1 and a free port. If that fails, or a parent process started the server, returns at
 * once, see frpc_error(). */
void frpc_svc_run(void);
/* Makes frpc_svc_run return. Call it from any thread, but not from a signal handler. A call before
 * frpc_svc_start has no effect. */
void frpc_svc_exit(void);

#ifdef __cplusplus
}
#endif
#endif
