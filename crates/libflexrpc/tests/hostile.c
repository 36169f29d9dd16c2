/*
 * Decodes messages that break the rules of hostile.x, and frees the decoded parts.
 */
#include "hostile.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t words[1 << 20];

static bool_t decoded(xdrproc_t routine, void *value, size_t bytes, u_int count)
{
	XDR in;
	bool_t done;

	for (u_int i = 0; i < count; i++)
		words[i] = htonl(words[i]);
	memset(value, 0, bytes);
	xdrmem_create(&in, (char *)words, 4 * count, XDR_DECODE);
	done = routine(&in, value);
	xdr_free(routine, value);
	return done;
}

/* Arrays of one element inside each other. */
static bool_t nested(u_int depth)
{
	nest outer;

	for (u_int i = 0; i < depth; i++)
		words[i] = 1;
	words[depth] = 0;
	return decoded((xdrproc_t)xdr_nest, &outer, sizeof outer, depth + 1);
}

/* A list of three, of which the last one has a discriminant without an arm. */
static bool_t listed(uint32_t kind)
{
	static const uint32_t names[3] = { 0x61000000, 0x62000000, 0x63000000 };
	item first;
	u_int at = 0;

	for (int i = 0; i < 3; i++) {
		words[at++] = 1;
		words[at++] = names[i];
		words[at++] = i == 2 ? kind : 0;
		words[at++] = 7;
		words[at++] = i < 2;
	}
	return decoded((xdrproc_t)xdr_item, &first, sizeof first, at);
}

/* Into a buffer of the program's, by a message that claims more room. */
static bool_t buffered(u_int bytes)
{
	char room[8];
	struct netbuf buffer = { sizeof room, 0, room };
	XDR in;

	words[0] = htonl(64);
	words[1] = htonl(bytes);
	memset(words + 2, 0, 64);
	xdrmem_create(&in, (char *)words, 8 + bytes, XDR_DECODE);
	return xdr_netbuf(&in, &buffer) && buffer.len == bytes && buffer.maxlen == sizeof room;
}

int main(void)
{
	if (!nested(500) || nested(501) || nested((1 << 20) - 1))
		return puts("arrays inside arrays");
	if (!listed(0) || listed(9))
		return puts("a list");
	if (!buffered(8) || buffered(12))
		return puts("a buffer");
	return 0;
}
