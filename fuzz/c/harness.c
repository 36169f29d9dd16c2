/*
 * Decodes the fuzzer's input by one of frpcgen's routines, encodes it again, and frees it.
 *
 * Input: the number of a type, the size of the pieces in which a record stream gets the rest (0: from
 * memory), and the message.
 */
#include "headers.inc"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the address sanitizer, whose headers gcc doesn't have everywhere. */
extern size_t __sanitizer_get_current_allocated_bytes(void);

#define TYPE(name) { #name, sizeof(name), (xdrproc_t)xdr_##name },
static const struct { const char *name; size_t bytes; xdrproc_t routine; } types[] = {
#include "types.inc"
#include "hostile.inc"
#include "nfs3.inc"
};
enum { TYPES = sizeof types / sizeof *types };

/* docs/flexrpc-c.md, Limits. */
enum { ALLOWANCE = 1 << 20, FROM_STREAMS = 64 << 20, FOR_EACH_BYTE = 64 };
/* A stream's own buffers, of 64 KiB each: for arrived bytes, and for the bytes that are taken. */
enum { BUFFERS = 2 << 16 };

static void claim(int holds, const char *what, size_t type)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", types[type].name, what);
	abort();
}

struct pieces { const uint8_t *bytes; size_t left; size_t most; };

static int next_piece(void *from, void *to, int room)
{
	struct pieces *pieces = from;
	size_t count = pieces->left < pieces->most ? pieces->left : pieces->most;

	if (count > (size_t)room)
		count = (size_t)room;
	if (count == 0)
		return -1;
	memcpy(to, pieces->bytes, count);
	pieces->bytes += count;
	pieces->left -= count;
	return (int)count;
}

static int no_writes(void *to, void *from, int bytes)
{
	(void)to, (void)from, (void)bytes;
	return -1;
}

/* Of a char and a short the low bits count, as in libtirpc. So values with such numbers may be encoded
 * as other bytes. Compared once: libFuzzer tries strings that are compared. */
static int is_exact[TYPES];

static void encode(size_t type, void *value, char *to, u_int length)
{
	XDR out;

	claim(xdr_sizeof(types[type].routine, value) == length, "its size isn't what was decoded", type);
	xdrmem_create(&out, to, length, XDR_ENCODE);
	claim(types[type].routine(&out, value) && xdr_getpos(&out) == length, "it can't be encoded", type);
}

/* Encoding the decoded value gives the same bytes again. */
static void encoded_again(size_t type, void *value, const char *bytes, u_int length)
{
	char *once = malloc(length ? length : 1), *twice = malloc(length ? length : 1);
	void *other = calloc(1, types[type].bytes);
	XDR in;

	encode(type, value, once, length);
	claim(!is_exact[type] || memcmp(once, bytes, length) == 0, "it was encoded in another way", type);
	xdrmem_create(&in, once, length, XDR_DECODE);
	claim(types[type].routine(&in, other) && xdr_getpos(&in) == length, "it can't be decoded again", type);
	encode(type, other, twice, length);
	claim(memcmp(once, twice, length) == 0, "it changes from time to time", type);
	xdr_free(types[type].routine, other);
	free(other);
	free(once);
	free(twice);
}

static void from_memory(size_t type, void *value, const uint8_t *message, size_t length)
{
	/* Of its own length: the sanitizer sees each byte beyond. */
	char *bytes = malloc(length ? length : 1);
	size_t before = __sanitizer_get_current_allocated_bytes();
	XDR in;

	memcpy(bytes, message, length);
	xdrmem_create(&in, bytes, (u_int)length, XDR_DECODE);
	bool_t done = types[type].routine(&in, value);
	claim(__sanitizer_get_current_allocated_bytes() <= before + ALLOWANCE + FOR_EACH_BYTE * length,
	      "it takes too much memory", type);
	if (done)
		encoded_again(type, value, bytes, xdr_getpos(&in));
	xdr_free(types[type].routine, value);
	free(bytes);
}

static void from_records(size_t type, void *value, struct pieces pieces)
{
	size_t before = __sanitizer_get_current_allocated_bytes(), length = pieces.left;
	XDR in;

	xdrrec_create(&in, 0, 0, &pieces, next_piece, no_writes);
	in.x_op = XDR_DECODE;
	while (xdrrec_skiprecord(&in)) {
		memset(value, 0, types[type].bytes);
		(void)types[type].routine(&in, value);
		claim(__sanitizer_get_current_allocated_bytes() <= before + FROM_STREAMS + BUFFERS + FOR_EACH_BYTE * length,
		      "it takes too much memory", type);
		xdr_free(types[type].routine, value);
		if (xdrrec_eof(&in))
			break;
	}
	xdr_destroy(&in);
}

void c_stubs_try(const uint8_t *input, size_t length)
{
	if (length < 2)
		return;
	size_t type = input[0] % TYPES;
	void *value = calloc(1, types[type].bytes);
	if (input[1])
		from_records(type, value, (struct pieces){ input + 2, length - 2, input[1] });
	else
		from_memory(type, value, input + 2, length - 2);
	free(value);
}

/*
 * gcc has no counters of its own for libFuzzer. In each basic block it calls __sanitizer_cov_trace_pc,
 * which libFuzzer refuses; the linker's --wrap leads the calls here.
 */
enum { COUNTERS = 1 << 14 };
static uint8_t counters[COUNTERS];
static uintptr_t places[COUNTERS][2];

extern void __sanitizer_cov_8bit_counters_init(uint8_t *first, uint8_t *end);
extern void __sanitizer_cov_pcs_init(const uintptr_t *first, const uintptr_t *end);
extern const char __executable_start;

extern void __wrap___sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize("address", "undefined")))
void __wrap___sanitizer_cov_trace_pc(void)
{
	/* The distance is the same in each run, wherever the program was loaded. */
	uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&__executable_start;
	counters[place * 2654435761u >> 7 & (COUNTERS - 1)]++;
}

__attribute__((constructor)) static void prepare(void)
{
	for (size_t i = 0; i < TYPES; i++)
		is_exact[i] = strcmp(types[i].name, "numbers") != 0 && strcmp(types[i].name, "everything") != 0;
	for (size_t i = 0; i < COUNTERS; i++)
		places[i][0] = i + 1;
	__sanitizer_cov_8bit_counters_init(counters, counters + COUNTERS);
	__sanitizer_cov_pcs_init(places[0], places[COUNTERS]);
}
