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

/// Thrift's protocol and transport; a gateway accepts all of them on its one port.
enum class Wire { framed_binary, binary, framed_compact, compact };

/// TLS options. Files are PEM.
struct Tls {
    /// Trusted authorities; empty: this machine's certificate authorities.
    std::string ca_file;
    /// The client's certificate and key, if the gateway requires them; both or neither.
    std::string certificate_file, key_file;
};

/// Login and connection options for a gateway.
struct Options {
    /// Name or URI of one of the gateway's stores; empty: its default.
    std::string store;
    /// Log in with these, or with the token of an earlier session, or with neither if the gateway
    /// allows that. Without TLS the client sends a password or token only to this machine.
    std::string user, password, token;
    std::optional<Tls> tls;
    Wire wire = Wire::framed_binary;
    /// Time limit of a request including connecting, a new login, retries, and the whole answer.
    /// Longer than the minute or so after which a store drops a machine that has gone away.
    std::chrono::milliseconds timeout = std::chrono::seconds(120);
    /// A live gateway accepts a connection at once.
    std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
};

enum class FileType { file, directory };

/// A store's record of one path.
struct STRAIT_EXPORT FileInfo {
    std::string path;
    FileType type = FileType::file;
    /// Bytes; 0 for a directory.
    std::int64_t length = 0;
    /// Bytes a block; 0 for a directory.
    std::int64_t block_size = 0;
    /// Requested replicas; 0 for a directory.
    int replication = 0;
    /// Milliseconds since 1970-01-01 UTC; 0 if not kept.
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

/// One block of a file and its location.
struct BlockLocation {
    /// Offset of its first byte in the file.
    std::int64_t offset = 0;
    std::int64_t length = 0;
    /// Nearest first if the store sorts them.
    std::vector<std::string> hosts;
    /// host:port of the data service on each host; may be empty.
    std::vector<std::string> addresses;
    /// The store knows no good replica.
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
    /// Its abilities, by the names in the documentation of capabilities.
    std::set<std::string> capabilities;
    /// An abandoned file is writable again after this time at the latest.
    std::chrono::milliseconds recovery{0};

    bool can(const std::string& capability) const { return capabilities.count(capability) != 0; }
};

/// Bytes of a whole store.
struct StoreStatus {
    std::int64_t capacity = 0, used = 0, remaining = 0;
    /// The store has just started, and doesn't know the location of all bytes yet. Blocks without
    /// hosts may still exist.
    bool settling = false;
};

struct ServerInfo {
    /// The program and its version, for people.
    std::string server;
    int protocol_version = 0;
    std::vector<StoreInfo> stores;
};

/// Options for a new file; the store decides about those that aren't given.
struct CreateOptions {
    /// Replace an existing file, which is otherwise an AlreadyExists.
    bool overwrite = false;
    std::optional<int> permission;
    std::optional<std::int16_t> replication;
    /// Bytes.
    std::optional<std::int64_t> block_size;
};

/// Attributes to change; the others stay.
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
