/* Moves bytes between memory, with the layout of a datatype, and a file, with the layout of its view. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Ranges of the file with gaps of at most NEAR_BYTES are read at once, up to WINDOW_BYTES. A call for
 * each range would take longer. */
#define NEAR_BYTES (256 << 10)
#define WINDOW_BYTES (4 << 20)

/* Iterates over the ranges of the file that contiguous bytes of the view have. */
struct walk {
    const struct shim_file *file;
    int64_t tile, within; /* repetition of the view, and offset in the piece */
    size_t piece;
    int64_t left;
};

static size_t piece_at(const struct pieces *view, int64_t bytes)
{
    size_t low = 0, high = view->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (view->list[middle].before <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct walk walk_from(const struct shim_file *file, int64_t position, int64_t bytes)
{
    const struct pieces *view = &file->view;
    int64_t rest = position % view->size;
    size_t piece = piece_at(view, rest);
    return (struct walk){.file = file,
                         .tile = position / view->size,
                         .piece = piece,
                         .within = rest - view->list[piece].before,
                         .left = bytes};
}

/* Returns the length of the next range, or 0 at the end, and sets *at to its offset in the file. */
static int64_t walk_on(struct walk *walk, int64_t *at)
{
    const struct pieces *view = &walk->file->view;
    if (walk->left == 0)
        return 0;
    if (pieces_dense(view)) {
        int64_t length = walk->left;
        *at = walk->file->displacement + walk->tile * view->size + walk->within;
        walk->left = 0;
        return length;
    }
    const struct piece *piece = &view->list[walk->piece];
    int64_t length = piece->length - walk->within;
    if (length > walk->left)
        length = walk->left;
    *at = walk->file->displacement + walk->tile * view->extent + piece->at + walk->within;
    walk->left -= length;
    walk->within += length;
    if (walk->within == piece->length) {
        walk->within = 0;
        if (++walk->piece == view->count) {
            walk->piece = 0;
            walk->tile++;
        }
    }
    return length;
}

int64_t shim_place(const struct shim_file *file, int64_t position)
{
    int64_t at = file->displacement;
    if (file->view.size > 0) {
        struct walk walk = walk_from(file, position, 1);
        walk_on(&walk, &at);
    }
    return at;
}

/* Copies `bytes` between a buffer with the datatype's layout and contiguous bytes. */
static void copy(const struct pieces *type, char *buffer, char *plain, int64_t bytes, int to_plain)
{
    for (char *origin = buffer; bytes > 0; origin += type->extent)
        for (size_t i = 0; i < type->count && bytes > 0; i++) {
            int64_t length = type->list[i].length < bytes ? type->list[i].length : bytes;
            char *at = origin + type->list[i].at;
            if (to_plain)
                memcpy(plain, at, length);
            else
                memcpy(at, plain, length);
            plain += length;
            bytes -= length;
        }
}

/* The contiguous bytes (`plain`) that a transfer moves. If the datatype has no gaps, they are in the
 * caller's buffer; otherwise in `own`. */
struct load {
    struct pieces type;
    char *plain, *own;
    int64_t bytes;
};

static int load_of(struct shim_file *file, const void *buffer, int64_t count, MPI_Datatype type,
                   struct load *load)
{
    *load = (struct load){0};
    if (count < 0)
        return shim_raise(file, MPI_ERR_COUNT, "the count is negative");
    int class = pieces_of(type, &load->type);
    if (class) {
        pieces_free(&load->type);
        return shim_raise(file, class, "strait: unsupported kind of datatype");
    }
    load->bytes = count * load->type.size;
    load->plain = (char *)(uintptr_t)buffer;
    if (load->bytes > 0 && file->view.size == 0) {
        pieces_free(&load->type);
        return shim_raise(file, MPI_ERR_ARG, "the view's file type is empty");
    }
    if (load->bytes == 0 || pieces_dense(&load->type))
        return MPI_SUCCESS;
    if (load->type.count == 1 && count == 1) {
        load->plain += load->type.list[0].at;
        return MPI_SUCCESS;
    }
    load->own = load->plain = malloc(load->bytes);
    if (load->own == NULL) {
        pieces_free(&load->type);
        return shim_raise(file, MPI_ERR_NO_MEM, "no memory for the bytes of a datatype with gaps");
    }
    return MPI_SUCCESS;
}

static void load_end(struct load *load)
{
    pieces_free(&load->type);
    free(load->own);
}

int shim_write(struct shim_file *file, int64_t position, const void *buffer, int64_t count,
               MPI_Datatype type, int64_t *done)
{
    struct load load;
    *done = 0;
    int code = load_of(file, buffer, count, type, &load);
    if (code != MPI_SUCCESS || load.bytes == 0) {
        load_end(&load);
        return code;
    }
    if (load.own != NULL)
        copy(&load.type, (char *)(uintptr_t)buffer, load.own, load.bytes, 1);
    struct walk walk = walk_from(file, position, load.bytes);
    int64_t at, length;
    while (code == MPI_SUCCESS && (length = walk_on(&walk, &at)) > 0) {
        if (strait_plfs_pwrite(file->file, load.plain + *done, length, at) == length)
            *done += length;
        else
            code = shim_failed(file);
    }
    load_end(&load);
    if (code == MPI_SUCCESS && (file->publish || file->atomic) && strait_plfs_sync(file->file) != 0)
        code = shim_failed(file);
    return code;
}

/* Reads a range, up to the file's end. Returns the number of bytes, or -1 after an error. */
static int64_t read_range(struct shim_file *file, char *to, int64_t length, int64_t at)
{
    int64_t got = 0;
    while (got < length) {
        ssize_t now = strait_plfs_pread(file->file, to + got, length - got, at + got);
        if (now < 0)
            return -1;
        if (now == 0)
            break;
        got += now;
    }
    return got;
}

/* Reads the ranges of a walk into contiguous bytes; ranges near each other in one read. Returns the
 * number of bytes, or -1. */
static int64_t read_walk(struct shim_file *file, struct walk *walk, char *plain)
{
    char *window = NULL;
    int64_t done = 0, at, length = walk_on(walk, &at);
    while (length > 0) {
        /* Extend the window over further ranges while the gaps are small. */
        struct walk ahead = *walk;
        int64_t end = at + length, next_at, next;
        int together = 1;
        while ((next = walk_on(&ahead, &next_at)) > 0 && next_at >= end && next_at - end <= NEAR_BYTES &&
               next_at + next - at <= WINDOW_BYTES) {
            end = next_at + next;
            together++;
        }
        if (together == 1) {
            int64_t got = read_range(file, plain + done, length, at);
            if (got < length) {
                done = got < 0 ? -1 : done + got;
                break;
            }
            done += got;
            length = walk_on(walk, &at);
            continue;
        }
        if (window == NULL && (window = malloc(WINDOW_BYTES)) == NULL)
            return -1;
        int64_t begin = at, got = read_range(file, window, end - begin, begin), most = begin + got;
        if (got < 0) {
            done = -1;
            break;
        }
        for (; together > 0 && at < most; together--) {
            int64_t here = most - at < length ? most - at : length;
            memcpy(plain + done, window + (at - begin), here);
            done += here;
            if (here < length)
                break;
            length = walk_on(walk, &at);
        }
        if (together > 0) /* the file's end */
            break;
    }
    free(window);
    return done;
}

int shim_read(struct shim_file *file, int64_t position, void *buffer, int64_t count,
              MPI_Datatype type, int64_t *done)
{
    struct load load;
    *done = 0;
    int code = load_of(file, buffer, count, type, &load);
    if (code != MPI_SUCCESS || load.bytes == 0) {
        load_end(&load);
        return code;
    }
    /* Others may have written since the last read. */
    int fresh = (file->publish || file->atomic) && !(file->amode & MPI_MODE_RDONLY);
    int64_t got = fresh && strait_plfs_sync(file->file) != 0 ? -1 : 0;
    if (got == 0) {
        struct walk walk = walk_from(file, position, load.bytes);
        got = read_walk(file, &walk, load.plain);
    }
    if (got < 0)
        code = shim_failed(file);
    else
        *done = got;
    if (load.own != NULL && *done > 0)
        copy(&load.type, buffer, load.own, *done, 0);
    load_end(&load);
    return code;
}
