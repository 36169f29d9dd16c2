/* Datatypes as lists of byte ranges, by MPI_Type_get_envelope and MPI_Type_get_contents. */
#include "shim.h"

#include <stdlib.h>

#define MOST_DIMENSIONS 32

void pieces_free(struct pieces *pieces)
{
    free(pieces->list);
    pieces->list = NULL;
    pieces->count = pieces->room = 0;
}

int pieces_dense(const struct pieces *pieces)
{
    return pieces->count == 1 && pieces->list[0].at == 0 && pieces->size == pieces->extent;
}

static int append(struct pieces *to, int64_t at, int64_t length)
{
    if (length == 0)
        return MPI_SUCCESS;
    if (to->count > 0) {
        struct piece *last = &to->list[to->count - 1];
        if (last->at + last->length == at) {
            last->length += length;
            to->size += length;
            return MPI_SUCCESS;
        }
    }
    if (to->count == to->room) {
        size_t room = to->room ? 2 * to->room : 8;
        struct piece *list = realloc(to->list, room * sizeof *list);
        if (list == NULL)
            return MPI_ERR_NO_MEM;
        to->list = list;
        to->room = room;
    }
    to->list[to->count++] = (struct piece){.at = at, .length = length, .before = to->size};
    to->size += length;
    return MPI_SUCCESS;
}

/* Appends `count` datatypes, one after another, from `at` on. */
static int append_all(struct pieces *to, const struct pieces *of, int64_t at, int64_t count)
{
    if (pieces_dense(of))
        return append(to, at, count * of->size);
    for (int64_t k = 0; k < count; k++)
        for (size_t i = 0; i < of->count; i++) {
            int failed = append(to, at + k * of->extent + of->list[i].at, of->list[i].length);
            if (failed)
                return failed;
        }
    return MPI_SUCCESS;
}

/* The part of one dimension of an array: `length` indices from `first` on, repeated every `step`. */
struct dimension {
    int64_t size, first, length, step;
};

/* Appends the part of an array. `slowest` is its slowest dimension, before `count - 1` faster ones. */
static int append_array(struct pieces *to, const struct pieces *of, int count,
                        const struct dimension *slowest, int64_t at)
{
    int64_t stride = of->extent;
    for (int inner = 1; inner < count; inner++)
        stride *= slowest[inner].size;
    for (int64_t run = slowest->first; run < slowest->size; run += slowest->step) {
        int64_t end = run + slowest->length;
        if (end > slowest->size)
            end = slowest->size;
        int failed = MPI_SUCCESS;
        if (count == 1)
            failed = append_all(to, of, at + run * stride, end - run);
        for (int64_t k = run; count > 1 && k < end && !failed; k++)
            failed = append_array(to, of, count - 1, slowest + 1, at + k * stride);
        if (failed)
            return failed;
    }
    return MPI_SUCCESS;
}

/* `i`: number of dimensions, sizes of the array, sizes and starts of the part, and the order. */
static int append_subarray(struct pieces *to, const struct pieces *of, const int *i)
{
    int count = i[0], fortran = i[1 + 3 * count] == MPI_ORDER_FORTRAN;
    struct dimension part[MOST_DIMENSIONS];
    if (count > MOST_DIMENSIONS)
        return MPI_ERR_UNSUPPORTED_DATAREP;
    for (int k = 0; k < count; k++) {
        const int *of_it = i + 1 + (fortran ? count - 1 - k : k);
        part[k] = (struct dimension){of_it[0], of_it[2 * count], of_it[count], of_it[0]};
    }
    return append_array(to, of, count, part, 0);
}

/* `i`: number of ranks, this rank, number of dimensions; sizes, distributions, arguments and ranks of
 * the dimensions; and the order. */
static int append_distributed(struct pieces *to, const struct pieces *of, const int *i)
{
    int rank = i[1], count = i[2], fortran = i[3 + 4 * count] == MPI_ORDER_FORTRAN;
    const int *sizes = i + 3, *kinds = sizes + count, *blocks = kinds + count, *ranks = blocks + count;
    struct dimension part[MOST_DIMENSIONS];
    if (count > MOST_DIMENSIONS)
        return MPI_ERR_UNSUPPORTED_DATAREP;
    /* The grid of ranks is in C's order, also if the array is in Fortran's. */
    for (int k = count - 1; k >= 0; k--) {
        int64_t mine = rank % ranks[k], block = blocks[k];
        rank /= ranks[k];
        if (kinds[k] == MPI_DISTRIBUTE_NONE)
            block = sizes[k];
        else if (block == MPI_DISTRIBUTE_DFLT_DARG)
            block = kinds[k] == MPI_DISTRIBUTE_BLOCK ? (sizes[k] + ranks[k] - 1) / ranks[k] : 1;
        part[fortran ? count - 1 - k : k] =
            (struct dimension){sizes[k], mine * block, block, block * ranks[k]};
    }
    return append_array(to, of, count, part, 0);
}

static int is_named(MPI_Datatype type)
{
    int integers, addresses, types, combiner;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

MPI_Datatype type_copy(MPI_Datatype type)
{
    MPI_Datatype copy = type;
    if (!is_named(type))
        PMPI_Type_dup(type, &copy);
    return copy;
}

void type_free(MPI_Datatype *type)
{
    if (!is_named(*type))
        PMPI_Type_free(type);
}

/* Appends a derived datatype. `of` describes the first of the types that it is derived from. */
static int append_made(struct pieces *to, int combiner, const int *i, const MPI_Aint *a,
                       const MPI_Datatype *types, const struct pieces *of)
{
    int failed = MPI_SUCCESS;
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return append_all(to, of, 0, 1);
    case MPI_COMBINER_CONTIGUOUS:
        return append_all(to, of, 0, i[0]);
    case MPI_COMBINER_VECTOR:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, (int64_t)k * i[2] * of->extent, i[1]);
        return failed;
    case MPI_COMBINER_HVECTOR:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, k * (int64_t)a[0], i[1]);
        return failed;
    case MPI_COMBINER_INDEXED:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, i[1 + i[0] + k] * of->extent, i[1 + k]);
        return failed;
    case MPI_COMBINER_HINDEXED:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, a[k], i[1 + k]);
        return failed;
    case MPI_COMBINER_INDEXED_BLOCK:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, i[2 + k] * of->extent, i[1]);
        return failed;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int k = 0; k < i[0] && !failed; k++)
            failed = append_all(to, of, a[k], i[1]);
        return failed;
    case MPI_COMBINER_STRUCT:
        for (int k = 0; k < i[0] && !failed; k++) {
            struct pieces part;
            failed = pieces_of(types[k], &part);
            if (!failed)
                failed = append_all(to, &part, a[k], i[1 + k]);
            pieces_free(&part);
        }
        return failed;
    case MPI_COMBINER_SUBARRAY:
        return append_subarray(to, of, i);
    case MPI_COMBINER_DARRAY:
        return append_distributed(to, of, i);
    default: /* combiners that later versions of MPI add */
        return MPI_ERR_UNSUPPORTED_DATAREP;
    }
}

int pieces_of(MPI_Datatype type, struct pieces *pieces)
{
    int integers, addresses, types, combiner, size;
    MPI_Aint low, extent;
    *pieces = (struct pieces){0};
    int failed = PMPI_Type_get_extent(type, &low, &extent);
    if (failed)
        return MPI_ERR_TYPE;
    pieces->extent = extent;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner == MPI_COMBINER_NAMED) {
        if (type == MPI_SHORT_INT) { /* the only named datatype with a gap inside */
            failed = append(pieces, 0, sizeof(short));
            return failed ? failed : append(pieces, sizeof(int), sizeof(int));
        }
        PMPI_Type_size(type, &size);
        return append(pieces, 0, size);
    }
    int *i = malloc((integers + 1) * sizeof *i);
    MPI_Aint *a = malloc((addresses + 1) * sizeof *a);
    MPI_Datatype *parts = malloc((types + 1) * sizeof *parts);
    struct pieces of = {0};
    failed = MPI_ERR_NO_MEM;
    if (i != NULL && a != NULL && parts != NULL) {
        failed = MPI_ERR_TYPE;
        if (PMPI_Type_get_contents(type, integers, addresses, types, i, a, parts) == MPI_SUCCESS) {
            failed = types > 0 ? pieces_of(parts[0], &of) : MPI_ERR_UNSUPPORTED_DATAREP;
            if (!failed)
                failed = append_made(pieces, combiner, i, a, parts, &of);
            for (int k = 0; k < types; k++)
                type_free(&parts[k]);
        }
    }
    pieces_free(&of);
    free(i);
    free(a);
    free(parts);
    return failed;
}
