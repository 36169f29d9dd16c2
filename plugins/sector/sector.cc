// Sector as a file system for Strait, by Sector's C++ client.
//
//   cmake -S plugins/sector -B sector-plugin -DSECTOR_HOME=/opt/sector && cmake --build sector-plugin
//   strait ls --plugin sector=$PWD/sector-plugin/libstrait_sector.so plugin:sector://MASTER:6000/
//
// Options: user, password_file, certificate (of the master); root, a directory of Sector; secure=1 for
// encrypted transfers, reliable=1 for replicas that are written at once. It acts as its user.
//
// Sector's peculiarities, and the answers here:
// - A failed open leaves an object that answers nothing but -6000. Each open makes a new one.
// - An open soon after a move fails with -3000, as the file's servers still rename it. Opens are repeated.
// - A second open beside a writer fails with -1004: the file is busy, for readers, too.
// - An open for writing creates and doesn't truncate. create looks for the name first, and says TRUNC.
// - move into a directory that is there moves beneath it. rename looks for the new name first.
// - remove refuses directories with entries; rmr removes trees.
// - copy returns before the copy is there. Nothing here calls it.
// - A read of 0 bytes before the end means that the client has connected anew.
// - Files aren't split: a file is one block, on all of its servers.
//
// Licence: Apache-2.0
#include "strait_store.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <sector.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int MASTER_PORT = 6000;
// After a move, while the file's servers rename it. A call has to return within 30 s.
constexpr auto OPEN_PATIENCE = std::chrono::seconds(10);
constexpr auto OPEN_PAUSE = std::chrono::milliseconds(50);
// Tries of one read, each after the client has connected anew.
constexpr int READ_TRIES = 5;
// Sector refuses 2 GiB at once; a request should end within seconds.
constexpr int64_t MOST_AT_ONCE = 64 << 20;

// Copies, since the header's constants have no address.
constexpr int READ = SF_MODE::READ, WRITE = SF_MODE::WRITE;

// An error with its kind, on its way to the edge of the library.
struct Failure : std::runtime_error {
    Failure(int32_t kind, const std::string &why) : std::runtime_error(why), kind(kind) {}
    int32_t kind;
};

int32_t kind_of(int64_t code) {
    switch (code) {
    case SectorError::E_EXIST: return STRAIT_ALREADY_EXISTS;
    case SectorError::E_NOEXIST: return STRAIT_NOT_FOUND;
    case SectorError::E_BUSY:
    case SectorError::E_SYSBUSY: return STRAIT_BUSY;
    case SectorError::E_NOEMPTY: return STRAIT_NOT_EMPTY;
    case SectorError::E_NOTDIR: return STRAIT_NOT_A_DIRECTORY;
    case SectorError::E_NOTFILE: return STRAIT_IS_A_DIRECTORY;
    case SectorError::E_PERMISSION:
    case SectorError::E_AUTHORITY: return STRAIT_PERMISSION_DENIED;
    case SectorError::E_TIMEOUT: return STRAIT_TIMED_OUT;
    case SectorError::E_RESOURCE:
    case SectorError::E_NODISK: return STRAIT_NO_SPACE;
    case SectorError::E_NOREPLICA:
    case SectorError::E_MASTER:
    case SectorError::E_CONNECTION:
    case SectorError::E_BROKENPIPE:
    case SectorError::E_FILENOTOPEN: return STRAIT_UNAVAILABLE;
    case SectorError::E_SUPPORT:
    case SectorError::E_VERSION: return STRAIT_UNSUPPORTED;
    default:
        // -2000 and below are failures of security: no certificate, account, password, or an expired login.
        return code <= SectorError::E_SECURITY && code > SectorError::E_CONNECTION ? STRAIT_UNAUTHENTICATED
                                                                                  : STRAIT_INTERNAL;
    }
}

[[noreturn]] void fail(int32_t kind, const std::string &why) {
    throw Failure(kind, why);
}

// Sector's results: negative ones are errors.
int64_t checked(int64_t result) {
    if (result >= 0) return result;
    const auto text = SectorError::getErrorMsg(static_cast<int>(result));
    fail(kind_of(result), text + " (Sector's error " + std::to_string(result) + ")");
}

// Runs the body of a function of the table. No exception leaves the library.
template <typename Body> int32_t guarded(strait_error *error, Body body) {
    int32_t kind = STRAIT_INTERNAL;
    const char *why = "an exception of Sector's client";
    try {
        body();
        return STRAIT_OK;
    } catch (const Failure &failure) {
        kind = failure.kind;
        std::snprintf(error->message, sizeof error->message, "%s", failure.what());
        return kind;
    } catch (const std::bad_alloc &) {
        kind = STRAIT_NO_SPACE;
        why = "no memory";
    } catch (const std::exception &other) {
        std::snprintf(error->message, sizeof error->message, "%s", other.what());
        return kind;
    } catch (...) {
    }
    std::snprintf(error->message, sizeof error->message, "%s", why);
    return kind;
}

struct Store {
    Sector client;
    std::string root, user;
    int extra_modes = 0;
    std::mutex naming; // held while a new name is looked for and given

    std::string path(const char *path) const {
        if (std::strcmp(path, "/") == 0) return root.empty() ? "/" : root;
        return root + path;
    }

    // Whether the name exists; else `node` isn't changed.
    bool find(const std::string &full, SNode &node) {
        SNode found;
        int result = client.stat(full, found);
        if (result == SectorError::E_NOEXIST) return false;
        checked(result);
        node = found;
        return true;
    }

    SNode stat(const std::string &full) {
        SNode node;
        if (!find(full, node)) missing(full);
        return node;
    }

    // NOT_FOUND, or NOT_A_DIRECTORY beneath a file.
    [[noreturn]] void missing(const std::string &full) {
        for (auto slash = full.rfind('/'); slash != 0 && slash != std::string::npos;
             slash = full.rfind('/', slash - 1)) {
            SNode above;
            if (!find(full.substr(0, slash), above)) continue;
            if (!above.m_bIsDir) fail(STRAIT_NOT_A_DIRECTORY, "a parent is a file");
            break;
        }
        fail(STRAIT_NOT_FOUND, "there is no such file or directory");
    }
};

// A file of the client, which releases it.
class OpenFile {
public:
    // Opens with a new object for each try.
    OpenFile(Store &store, const std::string &full, int mode) : store(store) {
        const auto until = std::chrono::steady_clock::now() + OPEN_PATIENCE;
        for (;;) {
            file = store.client.createSectorFile();
            if (file == nullptr) fail(STRAIT_UNAVAILABLE, "the client isn't logged in");
            int result = file->open(full, mode | store.extra_modes);
            if (result >= 0) return;
            store.client.releaseSectorFile(file);
            file = nullptr;
            if (result != SectorError::E_CONNECTION || std::chrono::steady_clock::now() > until) checked(result);
            std::this_thread::sleep_for(OPEN_PAUSE);
        }
    }
    OpenFile(const OpenFile &) = delete;
    OpenFile &operator=(const OpenFile &) = delete;
    ~OpenFile() {
        if (file == nullptr) return;
        if (!closed) file->close();
        store.client.releaseSectorFile(file);
    }
    int close() {
        closed = true;
        return file->close();
    }
    SectorFile *operator->() {
        return file;
    }

private:
    Store &store;
    SectorFile *file = nullptr;
    bool closed = false;
};

struct Listing {
    std::vector<SNode> nodes;
    size_t next = 0;
    std::string user;
};

struct Reader {
    Store &store;
    std::string full;
    int64_t length;
    std::unique_ptr<OpenFile> file;
    std::mutex reading; // one object serves one read, and may be replaced
};

// ------------------------------------------------------------------ the store

std::string first_line(const std::string &name) {
    std::ifstream file(name);
    std::string line;
    if (!std::getline(file, line)) fail(STRAIT_INVALID_ARGUMENT, "can't read the password's file " + name);
    return line;
}

int32_t open_store(const char *uri, const char *const *options, void **opened, strait_error *error) {
    return guarded(error, [&] {
        std::string host = "localhost", password, certificate;
        int port = MASTER_PORT;
        const char *authority = std::strstr(uri, "://");
        if (authority != nullptr && authority[3] != 0) host = authority + 3;
        if (const auto colon = host.rfind(':'); colon != std::string::npos) {
            port = std::atoi(host.c_str() + colon + 1);
            host.resize(colon);
        }
        auto own = std::make_unique<Store>();
        own->user = "anonymous";
        for (; options[0] != nullptr; options += 2) {
            const std::string key = options[0], value = options[1];
            if (key == "user") own->user = value;
            if (key == "password_file") password = first_line(value);
            if (key == "certificate") certificate = value;
            if (key == "root") own->root = value;
            if (key == "secure" && value == "1") own->extra_modes |= SF_MODE::SECURE;
            if (key == "reliable" && value == "1") own->extra_modes |= SF_MODE::HiRELIABLE;
        }
        while (!own->root.empty() && own->root.back() == '/') own->root.pop_back();
        checked(own->client.init());
        const char *cert = certificate.empty() ? nullptr : certificate.c_str();
        const int id = own->client.login(host, port, own->user, password, cert);
        if (id < 0) {
            own->client.close();
            const auto text = SectorError::getErrorMsg(id);
            fail(kind_of(id), "can't log in as " + own->user + " at the master " + host + ":" +
                                  std::to_string(port) + ": " + text);
        }
        *opened = own.release();
    });
}

void close_store(void *opened) {
    auto *own = static_cast<Store *>(opened);
    own->client.logout();
    own->client.close();
    delete own;
}

uint32_t capabilities(void *) {
    // A file that is written is busy for readers, so its bytes appear at its close.
    return STRAIT_APPEND | STRAIT_ATOMIC_RENAME | STRAIT_BLOCK_LOCATIONS | STRAIT_EXCLUSIVE_WRITER |
           STRAIT_REMOVES_TREES;
}

// ------------------------------------------------------------------ facts

void describe(const SNode &from, const std::string &user, strait_status *status) {
    std::memset(status, 0, sizeof *status);
    status->directory = from.m_bIsDir;
    if (!from.m_bIsDir) {
        status->length = static_cast<uint64_t>(std::max<int64_t>(from.m_llSize, 0));
        status->block_size = std::max<uint64_t>(status->length, 1);
        const auto replicas = std::max<size_t>(from.m_sLocation.size(), 1);
        status->replication = static_cast<uint16_t>(std::min<size_t>(replicas, UINT16_MAX));
    }
    status->modified_ms = from.m_llTimeStamp * 1000;
    status->permission = from.m_bIsDir ? 0755 : 0644;
    std::snprintf(status->owner, sizeof status->owner, "%s", user.c_str());
    std::snprintf(status->group, sizeof status->group, "%s", user.c_str());
}

int32_t get_status(void *opened, const strait_caller *, const char *path, strait_status *status,
                   strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        describe(store.stat(store.path(path)), store.user, status);
    });
}

int32_t list_open(void *opened, const strait_caller *, const char *path, void **into, strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto full = store.path(path);
        if (!store.stat(full).m_bIsDir) fail(STRAIT_NOT_A_DIRECTORY, "it is a file");
        auto own = std::make_unique<Listing>();
        own->user = store.user;
        checked(store.client.list(full, own->nodes));
        *into = own.release();
    });
}

// Whether a name is UTF-8, as far as its lead and continuation bytes tell.
bool is_utf8(const std::string &name) {
    for (size_t at = 0; at < name.size();) {
        const auto lead = static_cast<unsigned char>(name[at++]);
        int more = lead < 0x80 ? 0 : (lead >> 5) == 6 ? 1 : (lead >> 4) == 14 ? 2 : (lead >> 3) == 30 ? 3 : -1;
        if (more < 0) return false;
        for (; more > 0; more--, at++)
            if (at >= name.size() || (static_cast<unsigned char>(name[at]) >> 6) != 2) return false;
    }
    return true;
}

int32_t list_next(void *opened, char name[STRAIT_NAME_BYTES], strait_status *status, strait_error *) {
    auto &own = *static_cast<Listing *>(opened);
    while (own.next < own.nodes.size()) {
        const SNode &node = own.nodes[own.next++];
        const auto &found = node.m_strName;
        if (found.empty() || found == "." || found == ".." || !is_utf8(found)) continue;
        if (found.size() >= STRAIT_NAME_BYTES) continue;
        std::memcpy(name, found.c_str(), found.size() + 1);
        describe(node, own.user, status);
        return STRAIT_OK;
    }
    return STRAIT_END;
}

void list_close(void *opened) {
    delete static_cast<Listing *>(opened);
}

int32_t block_locations(void *opened, const strait_caller *, const char *path, uint64_t offset, uint64_t length,
                        strait_block_fn block, void *context, strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const SNode node = store.stat(store.path(path));
        if (node.m_bIsDir) fail(STRAIT_IS_A_DIRECTORY, "it is a directory");
        const auto size = static_cast<uint64_t>(std::max<int64_t>(node.m_llSize, 0));
        if (length == 0 || offset >= size) return;
        std::vector<const char *> hosts;
        for (const auto &address : node.m_sLocation)
            if (hosts.empty() || address.m_strIP != hosts.back()) hosts.push_back(address.m_strIP.c_str());
        hosts.push_back(nullptr);
        block(context, 0, size, hosts.data());
    });
}

// ------------------------------------------------------------------ bytes

int32_t open_reader(void *opened, const strait_caller *, const char *path, void **reader, uint64_t *length,
                    strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto full = store.path(path);
        if (store.stat(full).m_bIsDir) fail(STRAIT_IS_A_DIRECTORY, "it is a directory");
        auto file = std::make_unique<OpenFile>(store, full, READ);
        // Only now: a writer may have closed it meanwhile.
        const int64_t size = std::max<int64_t>(store.stat(full).m_llSize, 0);
        *length = static_cast<uint64_t>(size);
        *reader = new Reader{store, full, size, std::move(file), {}};
    });
}

int32_t read_at(void *opened, uint64_t offset, void *into, size_t size, size_t *got, strait_error *error) {
    *got = 0;
    return guarded(error, [&] {
        auto &reader = *static_cast<Reader *>(opened);
        const std::lock_guard<std::mutex> lock(reader.reading);
        const auto end = static_cast<uint64_t>(reader.length);
        if (offset >= end) return;
        const auto wanted = std::min<uint64_t>(size, end - offset);
        for (int tries = 0; *got < wanted;) {
            const int64_t most = std::min<int64_t>(static_cast<int64_t>(wanted - *got), MOST_AT_ONCE);
            // Of a lost connection, an object may not recover.
            if (!reader.file) reader.file = std::make_unique<OpenFile>(reader.store, reader.full, READ);
            const int64_t read =
                (*reader.file)->read(static_cast<char *>(into) + *got, static_cast<int64_t>(offset + *got), most);
            if (read > 0) {
                *got += static_cast<size_t>(std::min(read, most));
                tries = 0;
                continue;
            }
            if (read < 0) reader.file.reset();
            if (++tries < READ_TRIES) continue;
            checked(read);
            fail(STRAIT_UNAVAILABLE, "the file's servers send nothing");
        }
    });
}

void close_reader(void *opened) {
    delete static_cast<Reader *>(opened);
}

void check_parents(Store &store, const std::string &full) {
    for (auto slash = full.rfind('/'); slash != 0 && slash != std::string::npos; slash = full.rfind('/', slash - 1)) {
        SNode above;
        if (!store.find(full.substr(0, slash), above)) continue;
        if (!above.m_bIsDir) fail(STRAIT_NOT_A_DIRECTORY, "a parent is a file");
        return;
    }
}

// Makes a directory and its parents, as Sector's mkdir does.
void make_directory(Store &store, const std::string &full) {
    check_parents(store, full);
    const int made = store.client.mkdir(full);
    if (made == SectorError::E_EXIST && store.stat(full).m_bIsDir) return;
    checked(made);
}

std::string parent_of(const std::string &full) {
    const auto slash = full.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : full.substr(0, slash);
}

int32_t create(void *opened, const strait_caller *, const char *path, const strait_create *how, void **writer,
               strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto full = store.path(path);
        // Writers of other processes get E_BUSY from the master.
        const std::lock_guard<std::mutex> lock(store.naming);
        SNode found;
        if (store.find(full, found) && (found.m_bIsDir || !how->overwrite))
            fail(STRAIT_ALREADY_EXISTS, "the name is taken");
        check_parents(store, full);
        const auto parent = parent_of(full);
        if (parent != "/") make_directory(store, parent);
        *writer = new OpenFile(store, full, WRITE | SF_MODE::TRUNC);
    });
}

int32_t append(void *opened, const strait_caller *, const char *path, void **writer, uint64_t *position,
               strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto full = store.path(path);
        const std::lock_guard<std::mutex> lock(store.naming);
        // Opening for writing would create it.
        if (store.stat(full).m_bIsDir) fail(STRAIT_IS_A_DIRECTORY, "it is a directory");
        auto file = std::make_unique<OpenFile>(store, full, WRITE | SF_MODE::APPEND);
        *position = static_cast<uint64_t>(checked((*file)->tellp()));
        *writer = file.release();
    });
}

int32_t write_all(void *opened, const void *from, size_t size, strait_error *error) {
    return guarded(error, [&] {
        auto &file = *static_cast<OpenFile *>(opened);
        for (size_t done = 0; done < size;) {
            const auto most = std::min<int64_t>(static_cast<int64_t>(size - done), MOST_AT_ONCE);
            const int64_t wrote = checked(file->write(static_cast<const char *>(from) + done, most));
            if (wrote == 0) fail(STRAIT_UNAVAILABLE, "the file's servers accept no more bytes");
            done += static_cast<size_t>(wrote);
        }
    });
}

// Sector keeps written bytes in the client until its servers have them.
int32_t flush_file(void *opened, strait_error *error) {
    return guarded(error, [&] { checked((*static_cast<OpenFile *>(opened))->flush()); });
}

int32_t close_file(void *opened, strait_error *error) {
    return guarded(error, [&] {
        auto &file = *static_cast<OpenFile *>(opened);
        const int flushed = file->flush();
        const int closed = file.close();
        checked(flushed);
        checked(closed);
    });
}

void release_writer(void *opened) {
    delete static_cast<OpenFile *>(opened);
}

// ------------------------------------------------------------------ names

int32_t rename_path(void *opened, const strait_caller *, const char *from, const char *to, int32_t,
                    strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto old_name = store.path(from), new_name = store.path(to);
        if (std::strcmp(from, "/") == 0) fail(STRAIT_INVALID_ARGUMENT, "the root can't be renamed");
        if (std::strcmp(to, "/") == 0) fail(STRAIT_ALREADY_EXISTS, "the root is there");
        const bool is_directory = store.stat(old_name).m_bIsDir;
        if (old_name == new_name) fail(STRAIT_ALREADY_EXISTS, "it has this name");
        if (is_directory && new_name.compare(0, old_name.size() + 1, old_name + "/") == 0)
            fail(STRAIT_INVALID_ARGUMENT, "a directory can't be moved into itself");
        const auto parent = parent_of(new_name);
        if (parent != "/" && !store.stat(parent).m_bIsDir)
            fail(STRAIT_NOT_A_DIRECTORY, "the new name's parent is a file");
        const std::lock_guard<std::mutex> lock(store.naming);
        SNode taken;
        if (store.find(new_name, taken)) fail(STRAIT_ALREADY_EXISTS, "the new name is taken");
        checked(store.client.move(old_name, new_name));
    });
}

int32_t remove_path(void *opened, const strait_caller *, const char *path, int32_t recursive, strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        const auto full = store.path(path);
        if (std::strcmp(path, "/") == 0) fail(STRAIT_INVALID_ARGUMENT, "the root can't be removed");
        const bool is_directory = store.stat(full).m_bIsDir;
        checked(recursive && is_directory ? store.client.rmr(full) : store.client.remove(full));
    });
}

int32_t make_directories(void *opened, const strait_caller *, const char *path, int64_t, strait_error *error) {
    return guarded(error, [&] {
        auto &store = *static_cast<Store *>(opened);
        if (std::strcmp(path, "/") != 0) make_directory(store, store.path(path));
    });
}

strait_store_functions functions() {
    strait_store_functions all = {};
    all.abi = STRAIT_STORE_ABI;
    all.size = sizeof(strait_store_functions);
    all.name = "sector";
    all.open_store = open_store;
    all.close_store = close_store;
    all.capabilities = capabilities;
    all.stat = get_status;
    all.list_open = list_open;
    all.list_next = list_next;
    all.list_close = list_close;
    all.open = open_reader;
    all.read = read_at;
    all.close_reader = close_reader;
    all.create = create;
    all.append = append;
    all.write = write_all;
    all.flush = flush_file;
    all.sync = flush_file;
    all.close = close_file;
    all.release = release_writer;
    all.rename = rename_path;
    all.remove = remove_path;
    all.mkdirs = make_directories;
    all.block_locations = block_locations;
    return all;
}

} // namespace

extern "C" const strait_store_functions *strait_store_plugin(void) {
    static const strait_store_functions table = functions();
    return &table;
}
