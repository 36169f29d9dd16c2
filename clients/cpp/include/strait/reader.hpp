/// A remote file open to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <strait/export.hpp>

namespace strait {

/// Reads in order are answered from requests in flight ahead of them, so that
/// small ones run at the speed of the connection.
///
/// For one thread at a time; read_at for any number of them. A broken
/// connection goes unnoticed, as far as the gateway comes back.
class STRAIT_EXPORT Reader {
public:
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) noexcept;
    ~Reader();

    /// Reads on, `size` bytes or to the end of the file; how many it was.
    std::size_t read(void* into, std::size_t size);
    /// Reads what is at hand of `size` bytes, one at least; 0 only at the end of the file.
    std::size_t read_some(void* into, std::size_t size);
    /// Reads `size` bytes from `offset`, or to the end of the file; the position stays.
    std::size_t read_at(std::int64_t offset, void* into, std::size_t size) const;
    /// The rest of the file.
    std::string read_all();

    /// Where the next read begins; it may lie past the end.
    void seek(std::int64_t offset);
    std::int64_t tell() const noexcept;
    /// Bytes of the file when it was opened.
    std::int64_t length() const noexcept;
    const std::string& path() const noexcept;

    /// Lets the gateway forget the file; so does destruction.
    void close() noexcept;

    class Impl;
    explicit Reader(std::unique_ptr<Impl> impl);

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace strait
