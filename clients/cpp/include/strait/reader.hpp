/// A remote file open to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <strait/export.hpp>

namespace strait {

/// For sequential reads it keeps requests in flight ahead, so that small reads run at the speed of
/// the connection.
///
/// For one thread at a time; read_at for any number of them. Callers don't notice a broken
/// connection if the gateway returns in time.
class STRAIT_EXPORT Reader {
public:
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) noexcept;
    ~Reader();

    /// Reads `size` bytes, or to the end of the file; returns their number.
    std::size_t read(void* into, std::size_t size);
    /// Reads the bytes at hand, at most `size` and at least one; 0 only at the end of the file.
    std::size_t read_some(void* into, std::size_t size);
    /// Reads `size` bytes from `offset`, or to the end of the file; the position doesn't change.
    std::size_t read_at(std::int64_t offset, void* into, std::size_t size) const;
    /// The rest of the file.
    std::string read_all();

    /// Sets the position of the next read; it may lie past the end.
    void seek(std::int64_t offset);
    std::int64_t tell() const noexcept;
    /// Bytes of the file when it was opened.
    std::int64_t length() const noexcept;
    const std::string& path() const noexcept;

    /// Closes the file on the gateway; so does destruction.
    void close() noexcept;

    class Impl;
    explicit Reader(std::unique_ptr<Impl> impl);

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace strait
