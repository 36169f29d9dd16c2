/// A remote file open to write at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <strait/export.hpp>

namespace strait {

/// `write` returns when the bytes are on their way, with several requests in flight at once. A
/// later call reports an error: flush, sync or close at the latest.
///
/// For one thread at a time, and for the process that opened it.
class STRAIT_EXPORT Writer {
public:
    Writer(Writer&&) noexcept;
    Writer& operator=(Writer&&) noexcept;
    /// Closes, but can't report an error: call close to be sure that everything is stored.
    ~Writer();

    void write(const void* data, std::size_t size);
    void write(std::string_view data) { write(data.data(), data.size()); }
    /// Puts all written bytes in every replica's memory, visible to readers that open the file
    /// afterwards.
    void flush();
    /// Puts all written bytes on stable storage.
    void sync();
    /// Syncs, and lets other clients write the file.
    void close();

    /// The file's length including all written bytes.
    std::int64_t position() const noexcept;
    const std::string& path() const noexcept;

    class Impl;
    explicit Writer(std::unique_ptr<Impl> impl);

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace strait
