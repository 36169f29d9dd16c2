/// The values that operations take and return.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <strait/export.hpp>

namespace strait {

/// Thrift's protocol and transport; a gateway speaks all of them on its one port.
enum class Wire { framed_binary, binary, framed_compact, compact };

/// How to speak TLS. Files are PEM.
struct Tls {
    /// Whom to trust; empty: this machine's certificate authorities.
    std::string ca_file;
    /// Who we are, where the gateway asks for it; both or neither.
    std::string certificate_file, key_file;
};

/// As whom, and how, to speak to a gateway.
struct Options {
    /// Name or URI of one of the gateway's stores; empty: its default.
    std::string store;
    /// Log in with these, or with the token of an earlier session, or with
    /// neither where the gateway allows that. Without TLS a password or token is
    /// sent to this machine only.
    std::string user, password, token;
    std::optional<Tls> tls;
    Wire wire = Wire::framed_binary;
    /// Patience for a request with all that belongs to it: connecting, a new login, other
    /// tries, and the whole of the answer. Above the minute or so that a store takes to
    /// give up on a machine that went away.
    std::chrono::milliseconds timeout = std::chrono::seconds(120);
    /// A gateway that is there takes a connection at once.
    std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
};

enum class FileType { file, directory };

/// What a store says of one path.
struct STRAIT_EXPORT FileInfo {
    std::string path;
    FileType type = FileType::file;
    /// Bytes; 0 for a directory.
    std::int64_t length = 0;
    /// Bytes a block; 0 for a directory.
    std::int64_t block_size = 0;
    /// Replicas asked for; 0 for a directory.
    int replication = 0;
    /// Milliseconds since 1970-01-01 UTC; 0 where not kept.
    std::int64_t modified_ms = 0, accessed_ms = 0;
    /// Permission bits, 07777 at most.
    int permission = 0;
    std::string owner, group;

    bool is_file() const { return type == FileType::file; }
    bool is_directory() const { return type == FileType::directory; }
    /// The last component of the path.
    std::string name() const;
    std::chrono::system_clock::time_point modified() const;
};

/// One block of a file and where it lies.
struct BlockLocation {
    /// Of its first byte in the file.
    std::int64_t offset = 0;
    std::int64_t length = 0;
    /// Nearest first where the store sorts them.
    std::vector<std::string> hosts;
    /// host:port of the data service on each host; may be empty.
    std::vector<std::string> addresses;
    /// No good replica is known.
    bool corrupt = false;
};

/// A store's own checksum of a file; compares only under the same algorithm.
struct Checksum {
    std::string algorithm;
    /// Bytes.
    std::string value;

    friend bool operator==(const Checksum& a, const Checksum& b) {
        return a.algorithm == b.algorithm && a.value == b.value;
    }
    friend bool operator!=(const Checksum& a, const Checksum& b) { return !(a == b); }
};

/// One of a gateway's stores.
struct StoreInfo {
    std::string name, uri;
    /// What it can do, as in the documentation of capabilities.
    std::set<std::string> capabilities;
    /// An abandoned file is writable again within this time.
    std::chrono::milliseconds recovery{0};

    bool can(const std::string& capability) const { return capabilities.count(capability) != 0; }
};

/// Bytes of a whole store.
struct StoreStatus {
    std::int64_t capacity = 0, used = 0, remaining = 0;
    /// It has just started, and doesn't know yet where all bytes lie: blocks without hosts
    /// may be there all the same.
    bool settling = false;
};

struct ServerInfo {
    /// The program and its version, for people.
    std::string server;
    int protocol_version = 0;
    std::vector<StoreInfo> stores;
};

/// Of a file that is made; what isn't given is up to the store.
struct CreateOptions {
    /// Replace a file that is there; else it is an AlreadyExists.
    bool overwrite = false;
    std::optional<int> permission;
    std::optional<std::int16_t> replication;
    /// Bytes.
    std::optional<std::int64_t> block_size;
};

/// What to change; the rest stays.
struct Attributes {
    std::optional<int> permission;
    std::optional<std::string> owner, group;
    /// Milliseconds since 1970-01-01 UTC.
    std::optional<std::int64_t> modified_ms, accessed_ms;
    std::optional<std::int16_t> replication;
};

/// Called with the bytes copied so far and the bytes in all.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

} // namespace strait
