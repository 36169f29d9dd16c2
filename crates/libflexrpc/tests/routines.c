/* The routines of rpc/xdr.h that no interface of the other tests uses. */
#include <flexrpc.h>
#include <stdio.h>

#define CHECK(claim)                                                  \
	do {                                                          \
		if (!(claim)) {                                       \
			fprintf(stderr, "line %d: %s\n", __LINE__, #claim); \
			exit(1);                                      \
		}                                                     \
	} while (0)

enum { ROOM = 256 };

static int32_t words[ROOM / 4];

/* Encodes a value, and returns a stream that decodes its bytes. */
static XDR encoded(xdrproc_t routine, void *value, u_int bytes)
{
	XDR xdrs;
	memset(words, 0, sizeof words);
	xdrmem_create(&xdrs, (char *)words, ROOM, XDR_ENCODE);
	CHECK(routine(&xdrs, value) && xdr_getpos(&xdrs) == bytes && xdr_sizeof(routine, value) == bytes);
	xdrmem_create(&xdrs, (char *)words, bytes, XDR_DECODE);
	return xdrs;
}

static const struct xdr_discrim CHOICES[] = { { 1, (xdrproc_t)xdr_int }, { 2, (xdrproc_t)xdr_hyper }, { 0, NULL } };

struct chosen { enum_t which; int64_t value; xdrproc_t otherwise; };

static bool_t xdr_chosen(XDR *xdrs, struct chosen *of)
{
	return xdr_union(xdrs, &of->which, (char *)&of->value, CHOICES, of->otherwise);
}

static void check_unions(void)
{
	struct chosen hyper = { 2, -7, NULL }, got = { 0, 0, NULL }, unknown = { 9, 0, NULL };
	XDR xdrs = encoded((xdrproc_t)xdr_chosen, &hyper, 12);
	CHECK(xdr_chosen(&xdrs, &got) && got.which == 2 && got.value == -7);
	CHECK(xdr_sizeof((xdrproc_t)xdr_chosen, &unknown) == 0);
	unknown.otherwise = (xdrproc_t)xdr_void;
	CHECK(xdr_sizeof((xdrproc_t)xdr_chosen, &unknown) == 4);
}

static void check_types(void)
{
	struct netbuf buf = { 8, 5, (void *)"bytes" }, got = { 0, 0, NULL };
	des_block block = { .c = "8 bytes" }, other;
	quadruple quad = { "sixteen bytes .." }, wide;
	XDR xdrs = encoded((xdrproc_t)xdr_netbuf, &buf, 16);
	CHECK(xdr_netbuf(&xdrs, &got) && got.maxlen == 8 && got.len == 5 && !memcmp(got.buf, "bytes", 5));
	xdr_free((xdrproc_t)xdr_netbuf, &got);
	CHECK(!got.buf);
	buf.maxlen = 4;
	CHECK(xdr_sizeof((xdrproc_t)xdr_netbuf, &buf) == 0);
	xdrs = encoded((xdrproc_t)xdr_des_block, &block, 8);
	CHECK(xdr_des_block(&xdrs, &other) && !memcmp(&block, &other, 8));
	xdrs = encoded((xdrproc_t)xdr_quadruple, &quad, 16);
	CHECK(xdr_quadruple(&xdrs, &wide) && !memcmp(&quad, &wide, 16));
}

static void check_words(void)
{
	XDR xdrs;
	long number = -3, large = 1L << 40, got = 0;
	char bytes[3];
	xdrmem_create(&xdrs, (char *)words, ROOM, XDR_ENCODE);
	CHECK(xdr_putlong(&xdrs, &number) && !xdr_putlong(&xdrs, &large) && xdr_putbytes(&xdrs, "abc", 3));
	u_int end = xdr_getpos(&xdrs);
	CHECK(end == 7 && xdr_setpos(&xdrs, 0) && !xdr_setpos(&xdrs, ROOM + 1) && xdr_getpos(&xdrs) == 0);
	xdrmem_create(&xdrs, (char *)words, end, XDR_DECODE);
	CHECK(xdr_getlong(&xdrs, &got) && got == -3 && xdr_getbytes(&xdrs, bytes, 3) && !memcmp(bytes, "abc", 3));
	CHECK(!xdr_getbytes(&xdrs, bytes, 1));
	/* Words in place: what IXDR writes, xdr_int reads. */
	xdrmem_create(&xdrs, (char *)words, 8, XDR_ENCODE);
	int32_t *at = xdr_inline(&xdrs, 8);
	CHECK(at && !xdr_inline(&xdrs, 4));
	IXDR_PUT_LONG(at, -9);
	IXDR_PUT_U_LONG(at, 9);
	xdrmem_create(&xdrs, (char *)words, 8, XDR_DECODE);
	int signed_word = 0;
	CHECK(xdr_int(&xdrs, &signed_word) && signed_word == -9);
	at = xdr_inline(&xdrs, 4);
	CHECK(at && IXDR_GET_U_LONG(at) == 9);
}

int main(void)
{
	check_unions();
	check_types();
	check_words();
	return 0;
}
