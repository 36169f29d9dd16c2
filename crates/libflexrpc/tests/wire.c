/*
 * One interface's XDR routines, of rpcgen on libtirpc or of frpcgen on libflexrpc
 * (-DFLEXRPC). WIRE_HEADER declares them and WIRE_TABLE lists them: TYPE(name) for each.
 *
 *   wire random SEED COUNT   COUNT random values of each type, encoded (libtirpc only)
 *   wire again               decodes and encodes the values of standard input
 *   wire damage SEED COUNT   decodes each, damaged in COUNT ways, and frees what came of it
 *
 * A value travels as its type's place in the table, its length, and its bytes.
 */
#include WIRE_HEADER
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TYPE(name) { #name, sizeof(name), (xdrproc_t)xdr_##name },
static const struct { const char *name; size_t bytes; xdrproc_t routine; } types[] = {
#include WIRE_TABLE
};
enum { TYPES = sizeof types / sizeof *types, MOST = 1 << 20 };

static char message[MOST], again[MOST];
static uint64_t state;

static uint32_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

static void put(uint32_t type, const char *bytes, uint32_t length)
{
	fwrite(&type, sizeof type, 1, stdout);
	fwrite(&length, sizeof length, 1, stdout);
	if (length != UINT32_MAX)
		fwrite(bytes, 1, length, stdout);
}

/* Returns the length, or UINT32_MAX if the value doesn't follow the interface. */
static uint32_t encoded(uint32_t type, void *value)
{
	XDR out;
	xdrmem_create(&out, again, MOST, XDR_ENCODE);
	return types[type].routine(&out, value) ? xdr_getpos(&out) : UINT32_MAX;
}

static int decoded(uint32_t type, char *bytes, uint32_t length, void *value)
{
	XDR in;
	memset(value, 0, types[type].bytes);
	xdrmem_create(&in, bytes, length, XDR_DECODE);
	return types[type].routine(&in, value);
}

#ifndef FLEXRPC
static unsigned words;

/* A stream of random words: small ones mostly, then zeros, then the end. */
static bool_t random_long(XDR *in, long *value)
{
	uint32_t word = random_word();
	(void)in;
	if (++words > 4000)
		return FALSE;
	switch (random_word() % 8) {
	case 0: *value = (int32_t)(word % 65536); break;
	case 1: *value = -(int32_t)(word % 9); break;
	default: *value = word % 7;
	}
	if (words > 200)
		*value = 0;
	return TRUE;
}

static bool_t random_bytes(XDR *in, char *to, u_int length)
{
	(void)in;
	if (length > 70000)
		return FALSE;
	for (u_int i = 0; i < length; i++)
		to[i] = (char)random_word();
	return TRUE;
}

static int32_t *no_inline(XDR *in, u_int bytes)
{
	(void)in, (void)bytes;
	return NULL;
}

static void random_values(unsigned count)
{
	static struct xdr_ops ops;
	ops.x_getlong = random_long;
	ops.x_getbytes = random_bytes;
	ops.x_inline = no_inline;
	for (uint32_t type = 0; type < TYPES; type++) {
		void *value = malloc(types[type].bytes);
		/* Unions refuse most discriminants, so some values take several attempts. */
		for (unsigned found = 0, tried = 0; found < count && tried < 100 * count; tried++) {
			XDR in;
			memset(&in, 0, sizeof in);
			in.x_op = XDR_DECODE;
			in.x_ops = &ops;
			words = 0;
			memset(value, 0, types[type].bytes);
			uint32_t length = types[type].routine(&in, value) ? encoded(type, value) : UINT32_MAX;
			if (length != UINT32_MAX) {
				put(type, again, length);
				found++;
			}
			xdr_free(types[type].routine, value);
		}
		free(value);
	}
}
#endif

static void damage(uint32_t type, uint32_t length, void *value, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		/* A copy of its own length, so that a sanitizer sees each byte beyond it. */
		uint32_t cut = random_word() % 4 ? length : random_word() % (length + 1);
		char *bytes = malloc(cut ? cut : 1);
		memcpy(bytes, message, cut);
		for (unsigned changes = random_word() % 4; cut && changes-- > 0;)
			bytes[random_word() % cut] = (char)(random_word() % 3 ? random_word() : 0xff);
		if (decoded(type, bytes, cut, value))
			encoded(type, value);
		xdr_free(types[type].routine, value);
		free(bytes);
	}
}

int main(int argc, char **arguments)
{
	/* A count of four billion must fail at once. */
	struct rlimit most = { 1 << 30, 1 << 30 };
	uint32_t head[2];
	if (argc < 2)
		return 2;
	state = 0x9e3779b97f4a7c15u + (argc > 2 ? strtoull(arguments[2], NULL, 10) : 0);
#ifndef FLEXRPC
	setrlimit(RLIMIT_AS, &most);
	if (!strcmp(arguments[1], "random")) {
		random_values((unsigned)atoi(arguments[3]));
		return fflush(stdout) != 0;
	}
#else
	(void)most;
#endif
	while (fread(head, sizeof head, 1, stdin) == 1) {
		uint32_t type = head[0], length = head[1];
		if (type >= TYPES || length > MOST || fread(message, 1, length, stdin) != length)
			return 3;
		void *value = malloc(types[type].bytes);
		if (!strcmp(arguments[1], "damage")) {
			damage(type, length, value, (unsigned)atoi(arguments[3]));
		} else {
			length = decoded(type, message, length, value) ? encoded(type, value) : UINT32_MAX;
			put(type, again, length);
			xdr_free(types[type].routine, value);
		}
		free(value);
	}
	return fflush(stdout) != 0;
}
