/// The client: a gateway's file system.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strait/errors.hpp>
#include <strait/reader.hpp>
#include <strait/types.hpp>
#include <strait/writer.hpp>

namespace strait {

namespace detail {
class Session;
}

/// A directory's entries, in the store's own order, fetched page by page.
class STRAIT_EXPORT Listing {
public:
    class STRAIT_EXPORT iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = FileInfo;
        using difference_type = std::ptrdiff_t;
        using pointer = const FileInfo*;
        using reference = const FileInfo&;

        iterator() = default;
        reference operator*() const;
        pointer operator->() const { return &**this; }
        iterator& operator++();
        void operator++(int) { ++*this; }
        friend bool operator==(const iterator& a, const iterator& b) {
            return a.pages_ == b.pages_;
        }
        friend bool operator!=(const iterator& a, const iterator& b) { return !(a == b); }

    private:
        friend class Listing;
        struct Pages;
        std::shared_ptr<Pages> pages_; // none: the end
    };

    iterator begin() const;
    iterator end() const { return {}; }

private:
    friend class Client;
    Listing(std::shared_ptr<detail::Session> session, std::string path, std::int32_t page_size);

    std::shared_ptr<detail::Session> session_;
    std::string path_;
    std::int32_t page_size_;
};

/// The files of one store, for one user. Usable from any number of threads at once.
///
/// Paths are absolute within the store, with '/' between names, and bytes: UTF-8. After a fork the
/// child uses connections of its own; files open for writing stay with the parent. Open files keep
/// the session alive, even after the client's end.
class STRAIT_EXPORT Client {
public:
    /// Opens a session at `strait://host:port/` or `host:port`.
    explicit Client(std::string_view address, const Options& options = {});
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;
    ~Client();

    // -- The session

    /// The user that the gateway acts for.
    std::string user() const;
    /// Represents the login until it expires; keep it secret.
    std::string token() const;
    /// The store of this session.
    StoreInfo store() const;
    /// The gateway's version, and the stores it serves.
    ServerInfo server_info();
    /// Capacity and use of the whole store.
    StoreStatus status();
    /// Ends the session; close its files first.
    void close();

    // -- Looking

    FileInfo stat(std::string_view path);
    bool exists(std::string_view path);
    /// `page_size`: entries fetched at once; 0: the gateway's own.
    Listing list(std::string_view path, std::int32_t page_size = 0);
    /// The blocks of a range of the file (to its end without `length`) and their hosts.
    std::vector<BlockLocation> locate(std::string_view path, std::int64_t offset = 0,
                                      std::optional<std::int64_t> length = {});
    Checksum checksum(std::string_view path);

    // -- Files

    Reader open_reader(std::string_view path);
    /// Makes a file, and its missing parents.
    Writer create(std::string_view path, const CreateOptions& options = {});
    /// Opens a file to append at its end.
    Writer append(std::string_view path);

    // -- Changes

    /// Makes a directory and its missing parents; an existing directory is success.
    void mkdirs(std::string_view path, std::optional<int> permission = {});
    /// `target` is the new name itself, never a directory to move into.
    void rename(std::string_view source, std::string_view target, bool replace = false);
    /// Removes a file or a directory; one with entries only if `recursive`.
    void remove(std::string_view path, bool recursive = false);
    void set_attributes(std::string_view path, const Attributes& attributes);
    /// Cuts a closed file to `length` bytes.
    void truncate(std::string_view path, std::int64_t length);
    /// Moves the sources' bytes, in order, to the end of the closed file, and removes the sources:
    /// in one step and without copying. Needs the capability "concat".
    void concat(std::string_view path, const std::vector<std::string>& sources);

    // -- Whole files

    /// Copies a remote file to a local one, which appears only when it is complete. Returns its
    /// bytes. An existing file is `AlreadyExists`, or replaced if `overwrite`; a device or a pipe
    /// receives the bytes directly.
    std::int64_t get(std::string_view remote, const std::string& local,
                     const Progress& progress = {}, bool overwrite = false);
    /// Copies a local file to a remote one, or into a remote directory under its own name. The
    /// remote file appears only when it is complete and closed. Returns the number of bytes. An
    /// existing file is `AlreadyExists`, or replaced if `overwrite`. A failed put tries to remove
    /// its temporary file. After OutcomeUnknown or TimedOut, the remote file may be there,
    /// complete.
    std::int64_t put(const std::string& local, std::string_view remote,
                     const Progress& progress = {}, bool overwrite = false);

private:
    friend struct Internals; // for the tests

    std::shared_ptr<detail::Session> session_;
};

} // namespace strait
