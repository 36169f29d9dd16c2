/* Writes values of types that C headers define, in libtirpc's form on the wire. */
#include <rpc/rpc.h>
#include <rpc/auth_unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool_t xdr_netbuf(XDR *, struct netbuf *);

static void check(bool_t encoded)
{
	if (!encoded)
		exit(1);
}

int main(void)
{
	char out[512];
	XDR xdrs;
	u_long large = 1;
	quad_t longest = -2;
	u_quad_t quad = 3;
	u_char small = 4;
	rpcprog_t program = 5;
	struct netobj object = { 3, "abc" };
	char address[4] = "addr";
	struct netbuf buffer = { 8, 4, address };
	struct opaque_auth verifier = { AUTH_SYS, "xyz", 3 };
	gid_t groups[2] = { 10, 11 };
	struct authunix_parms caller = { 6, "host", 7, 8, 2, groups };

	xdrmem_create(&xdrs, out, sizeof out, XDR_ENCODE);
	check(xdr_u_long(&xdrs, &large));
	check(xdr_longlong_t(&xdrs, &longest));
	check(xdr_u_quad_t(&xdrs, &quad));
	check(xdr_u_char(&xdrs, &small));
	check(xdr_u_int32_t(&xdrs, &program));
	check(xdr_netobj(&xdrs, &object));
	check(xdr_netbuf(&xdrs, &buffer));
	check(xdr_opaque_auth(&xdrs, &verifier));
	check(xdr_authunix_parms(&xdrs, &caller));
	fwrite(out, 1, xdr_getpos(&xdrs), stdout);
	return 0;
}
