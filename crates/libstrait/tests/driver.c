/* Executes what tests/languages/driver.py asks for, through strait.h. */
#include <strait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_PARTS 64
#define MAX_FILES 100000

/* A text or bytes, with a zero byte behind. */
struct part {
    char *bytes;
    size_t length;
};

struct client {
    char name[64], address[64];
};

static struct part parts[MAX_PARTS];
static uint32_t part_count;
static struct client clients[16];
static size_t client_count;
static struct client *current;
static strait_file *files[MAX_FILES];

/* The answer: the number of its parts, and these as they are sent. */
static struct part answer;
static uint32_t answer_parts;

static void die(const char *why)
{
    fprintf(stderr, "driver: %s\n", why);
    exit(1);
}

static void *sized(void *memory, size_t length)
{
    memory = realloc(memory, length + 1);
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static void number_to(char *bytes, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (char)(number >> (24 - 8 * i));
}

static int read_number(uint32_t *number)
{
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return 0;
    *number = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return 1;
}

static int read_request(void)
{
    uint32_t count, length;
    if (!read_number(&count))
        return 0;
    if (count > MAX_PARTS)
        die("too many parts");
    part_count = count;
    for (uint32_t i = 0; i < MAX_PARTS; i++) {
        length = 0;
        if (i < count && !read_number(&length))
            die("half a request");
        parts[i].bytes = sized(parts[i].bytes, length);
        parts[i].length = length;
        if (fread(parts[i].bytes, 1, length, stdin) != length)
            die("half a request");
        parts[i].bytes[length] = 0;
    }
    return 1;
}

static void add(const void *bytes, size_t length)
{
    answer.bytes = sized(answer.bytes, answer.length + 4 + length);
    number_to(answer.bytes + answer.length, (uint32_t)length);
    memcpy(answer.bytes + answer.length + 4, bytes, length);
    answer.length += 4 + length;
    answer_parts++;
}

static void add_text(const char *text) { add(text, strlen(text)); }

static void add_number(int64_t number)
{
    char digits[32];
    add(digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

static int64_t number(int i) { return atoll(parts[i].bytes); }
static int is(const char *operation) { return strcmp(parts[0].bytes, operation) == 0; }
static mode_t mode(int i) { return parts[i].length ? (mode_t)number(i) : STRAIT_DEFAULT_MODE; }

/* The URI of a path. A first name that begins with @ would name a store. */
static const char *uri_of(const struct client *client, const char *path)
{
    static char uris[2][4096];
    static int next;
    if (path[0] == 0)
        return "";
    char *uri = uris[next ^= 1];
    const char *at = path[0] == '/' && path[1] == '@' ? "/@" : "";
    snprintf(uri, sizeof uris[0], "strait://%s%s%s", client->address, at, at[0] ? path + 1 : path);
    return uri;
}

/* No program can ask for a name with a zero byte, where a text in C ends. */
static const char *uri(int i)
{
    return strlen(parts[i].bytes) == parts[i].length ? uri_of(current, parts[i].bytes) : "";
}

static int concat(void)
{
    static char copies[MAX_PARTS][4096];
    const char *sources[MAX_PARTS];
    size_t count = 0;
    for (; 2 + count < part_count; count++) {
        snprintf(copies[count], sizeof copies[count], "%s", uri(2 + (int)count));
        sources[count] = copies[count];
    }
    return strait_concat(uri(1), sources, count);
}

static strait_file **file(void)
{
    int64_t i = number(1);
    if (i < 0 || i >= MAX_FILES)
        die("too many files");
    return &files[i];
}

static int connect_client(void)
{
    static const char *names[] = {
        "append", "truncate", "concat", "rename_replace", "atomic_rename", "permissions", "ownership", "times",
        "replication", "block_locations", "checksum", "status", "visible_while_written", "exclusive_writer", "per_user",
    };
    char can[512] = "", seconds[32];
    struct client client;
    struct strait_status root;
    snprintf(client.name, sizeof client.name, "%s", parts[1].bytes);
    snprintf(client.address, sizeof client.address, "%s", parts[2].bytes);
    /* Whole seconds, and time for a busy machine. */
    long long limit = (number(3) + 999) / 1000;
    snprintf(seconds, sizeof seconds, "%lld", limit < 3 ? 3 : limit);
    setenv("STRAIT_OPERATION_TIMEOUT", seconds, 1);
    if (strait_stat(uri_of(&client, "/"), &root) < 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int has = strait_can(uri_of(&client, "/"), names[i]);
        if (has < 0)
            return -1;
        if (has) {
            strcat(can, names[i]);
            strcat(can, ",");
        }
    }
    if (client_count == sizeof clients / sizeof *clients)
        die("too many clients");
    current = &clients[client_count++];
    *current = client;
    add_text(can);
    return 0;
}

static int use_client(void)
{
    for (size_t i = 0; i < client_count; i++)
        if (strcmp(clients[i].name, parts[1].bytes) == 0) {
            current = &clients[i];
            return 0;
        }
    die("no such client");
    return -1;
}

/* Connections stay as long as the process. */
static int disconnect_client(void)
{
    struct client *before = current;
    use_client();
    *current = clients[--client_count];
    current = before < &clients[client_count] ? before : clients;
    return 0;
}

static int open_file(void)
{
    const char *how = parts[3].bytes;
    int flags = strcmp(how, "read") == 0        ? O_RDONLY
                : strcmp(how, "create") == 0    ? O_WRONLY | O_CREAT | O_EXCL
                : strcmp(how, "overwrite") == 0 ? O_WRONLY | O_CREAT | O_TRUNC
                                                : O_WRONLY | O_APPEND;
    *file() = strait_open(uri(2), flags, mode(4));
    return *file() == NULL ? -1 : 0;
}

/* Reads a length at an offset, or on from the position if that is negative. */
static int read_file(off_t offset, int64_t length)
{
    off_t end = strait_length(*file()), position = strait_position(*file());
    if (end < 0 || position < 0)
        return -1;
    size_t n = length >= 0 ? (size_t)length : (size_t)(end > position ? end - position : 0);
    char *bytes = sized(NULL, n);
    size_t done = 0;
    ssize_t more = 1;
    /* A read may return less, for example before an error. */
    while (more > 0 && done < n) {
        more = offset < 0 ? strait_read(*file(), bytes + done, n - done)
                          : strait_pread(*file(), bytes + done, n - done, offset + (off_t)done);
        done += more > 0 ? (size_t)more : 0;
    }
    if (more >= 0)
        add(bytes, done);
    free(bytes);
    return more < 0 ? -1 : 0;
}

static int close_file(void)
{
    strait_file *open = *file();
    *file() = NULL;
    return strait_close(open);
}

static int stat_path(void)
{
    struct strait_status status;
    if (strait_stat(uri(1), &status) < 0)
        return -1;
    add_text(S_ISDIR(status.mode) ? "directory" : "file");
    add_number((int64_t)status.size);
    add_number(status.mode & 07777);
    add_number(status.replication);
    add_number(status.modified_ms);
    add_number(status.accessed_ms);
    return 0;
}

static int exists(void)
{
    struct strait_status status;
    int found = strait_stat(uri(1), &status) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR)
        return -1;
    add_text(found ? "1" : "0");
    return 0;
}

static int list(void)
{
    const char *name;
    int found;
    strait_listing *listing = strait_list(uri(1));
    if (listing == NULL)
        return -1;
    while ((found = strait_list_next(listing, &name, NULL)) > 0)
        add_text(name);
    strait_list_end(listing);
    return found;
}

static int set_attributes(void)
{
    if (parts[2].length && strait_chmod(uri(1), (mode_t)number(2)) < 0)
        return -1;
    if (parts[3].length && strait_set_replication(uri(1), (int)number(3)) < 0)
        return -1;
    return parts[4].length ? strait_utime(uri(1), number(5), number(4)) : 0;
}

static int locate(void)
{
    struct strait_block block;
    int found;
    strait_blocks *blocks = strait_locate(uri(1), number(2), parts[3].length ? number(3) : INT64_MAX);
    if (blocks == NULL)
        return -1;
    while ((found = strait_locate_next(blocks, &block)) > 0) {
        int hosts = block.hosts[0] != 0;
        for (const char *at = block.hosts; *at; at++)
            hosts += *at == ',';
        add_number((int64_t)block.offset);
        add_number((int64_t)block.length);
        add_number(hosts);
    }
    strait_locate_end(blocks);
    return found;
}

static int checksum(void)
{
    struct strait_checksum sum;
    if (strait_file_checksum(uri(1), &sum) < 0)
        return -1;
    add_text(sum.algorithm);
    add(sum.value, sum.length);
    return 0;
}

static int status(void)
{
    struct strait_space space;
    if (strait_statfs(uri_of(current, "/"), &space) < 0)
        return -1;
    add_number((int64_t)space.capacity);
    add_number((int64_t)space.used);
    add_number((int64_t)space.remaining);
    return 0;
}

static int write_file(void)
{
    ssize_t done = strait_write(*file(), parts[2].bytes, parts[2].length);
    if (done == (ssize_t)parts[2].length)
        return 0;
    /* The rest brings the error. */
    return done < 0 ? -1 : (int)strait_write(*file(), parts[2].bytes + done, parts[2].length - (size_t)done);
}

static int execute(void)
{
    off_t position;
    if (is("connect")) return connect_client();
    if (is("use")) return use_client();
    if (is("disconnect")) return disconnect_client();
    if (is("open")) return open_file();
    if (is("read")) return read_file(-1, number(2));
    if (is("pread")) return read_file(number(2), number(3));
    if (is("write")) return write_file();
    if (is("flush")) return strait_flush(*file());
    if (is("sync")) return strait_sync(*file());
    if (is("close")) return close_file();
    if (is("stat")) return stat_path();
    if (is("exists")) return exists();
    if (is("list")) return list();
    if (is("mkdirs")) return strait_mkdirs(uri(1), mode(2));
    if (is("rename")) return strait_rename(uri(1), uri(2), (int)number(3));
    if (is("remove")) return strait_remove(uri(1), (int)number(2));
    if (is("attributes")) return set_attributes();
    if (is("truncate")) return strait_truncate(uri(1), number(2));
    if (is("concat")) return concat();
    if (is("put")) return strait_put(parts[1].bytes, uri(2), (int)number(3));
    if (is("locate")) return locate();
    if (is("checksum")) return checksum();
    if (is("status")) return status();
    if (!is("position"))
        die(parts[0].bytes);
    position = strait_position(*file());
    add_number(position);
    return position < 0 ? -1 : 0;
}

int main(void)
{
    while (read_request()) {
        char count[4];
        answer.length = answer_parts = 0;
        add_text("ok");
        if (execute() < 0) {
            int number = errno;
            answer.length = answer_parts = 0;
            add_text("error");
            add_text(strait_error_kind());
            add_text(strait_error_path());
            add_text(strait_error());
            add_text(strerrorname_np(number));
        }
        number_to(count, answer_parts);
        fwrite(count, 1, 4, stdout);
        fwrite(answer.bytes, 1, answer.length, stdout);
        fflush(stdout);
    }
    return 0;
}
