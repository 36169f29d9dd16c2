/*
 * Reads messages from standard input, each behind its length (four bytes,
 * big-endian): an `everything` of types.x. Answers each with libtirpc's version
 * of it: encoded again, and as text, each behind its length. A message that
 * libtirpc can't decode ends the program.
 */
#include "types.h"
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *text;

static void hex(const char *bytes, u_int length)
{
	fputs(" x", text);
	for (u_int i = 0; i < length; i++)
		fprintf(text, "%02x", (unsigned char)bytes[i]);
}

static void string(const char *s)
{
	hex(s, strlen(s));
}

static void numbers_text(const numbers *n)
{
	uint32_t f;
	uint64_t d;
	memcpy(&f, &n->f, sizeof f);
	memcpy(&d, &n->d, sizeof d);
	/* rpcgen's inline decoding leaves a negative long of 32 bits positive in one of 64. */
	fprintf(text, " %d %u %d %u %d %u %d %u %" PRId64 " %" PRIu64 " %u %" PRIu64 " %d", n->c, n->uc, n->s,
		n->us, n->i, n->u, (int32_t)n->l, (uint32_t)n->ul, (int64_t)n->h, (uint64_t)n->uh, f, d, n->b);
}

static void tree_text(const tree *t)
{
	if (!t) {
		fputs(" -", text);
		return;
	}
	fprintf(text, " (%d", t->value);
	tree_text(t->left);
	tree_text(t->right);
	fputs(" )", text);
}

static void everything_text(const everything *e)
{
	numbers_text(&e->n);
	hex(e->token, 7);
	fprintf(text, " %d", e->hue);
	hex(e->data.data_val, e->data.data_len);
	hex(e->block, 150);
	string(e->text);
	for (u_int i = 0; i < e->ints.ints_len; i++)
		fprintf(text, " %d", e->ints.ints_val[i]);
	for (int i = 0; i < 3; i++)
		fprintf(text, " %d", e->three[i]);
	for (int i = 0; i < 40; i++)
		fprintf(text, " %" PRId64, (int64_t)e->many[i]);
	for (u_int i = 0; i < e->labels.labels_len; i++)
		string(e->labels.labels_val[i]);
	fprintf(text, " %d", e->ch.kind);
	if (e->ch.kind == COLOR_RED)
		fprintf(text, " %d", e->ch.choice_u.number);
	else if (e->ch.kind == COLOR_GREEN || e->ch.kind == COLOR_BLUE)
		string(e->ch.choice_u.text);
	fprintf(text, " %d", e->m.set);
	if (e->m.set)
		fprintf(text, " %" PRId64, (int64_t)e->m.maybe_u.value);
	fprintf(text, " %d", e->co.status);
	if (e->co.status == 0)
		hex(e->co.coded_u.data.data_val, e->co.coded_u.data.data_len);
	else if (e->co.status == -1)
		hex(e->co.coded_u.token, 7);
	else
		fprintf(text, " %" PRIu64, (uint64_t)e->co.coded_u.code);
	for (const chain_link *l = e->list; l; l = l->next)
		string(l->item);
	tree_text(e->root);
	if (e->other)
		numbers_text(e->other);
	for (u_int i = 0; i < e->colors.colors_len; i++)
		fprintf(text, " %d", e->colors.colors_val[i]);
	fprintf(text, " %d %d", e->flags[0], e->flags[1]);
}

static void answer(const void *bytes, uint32_t length)
{
	uint32_t sent = htonl(length);
	if (fwrite(&sent, sizeof sent, 1, stdout) != 1 || fwrite(bytes, 1, length, stdout) != length)
		exit(2);
}

int main(void)
{
	uint32_t length;
	while (fread(&length, sizeof length, 1, stdin) == 1) {
		length = ntohl(length);
		char *message = malloc(length), *again = malloc(length + 4096);
		if (!message || !again || fread(message, 1, length, stdin) != length)
			return 2;
		everything value;
		memset(&value, 0, sizeof value);
		XDR in, out;
		xdrmem_create(&in, message, length, XDR_DECODE);
		xdrmem_create(&out, again, length + 4096, XDR_ENCODE);
		if (!xdr_everything(&in, &value) || xdr_getpos(&in) != length || !xdr_everything(&out, &value))
			return 3;
		answer(again, xdr_getpos(&out));
		char *shown;
		size_t shown_length;
		text = open_memstream(&shown, &shown_length);
		everything_text(&value);
		fclose(text);
		answer(shown, shown_length);
		fflush(stdout);
		xdr_free((xdrproc_t)xdr_everything, (char *)&value);
		free(message);
		free(again);
		free(shown);
	}
	return 0;
}
