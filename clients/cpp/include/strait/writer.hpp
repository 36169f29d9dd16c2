/// A remote file open to write at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <strait/export.hpp>

namespace strait {

/// `write` returns when the bytes are on their way, several requests being in
/// flight at once. An error surfaces at a later call, and at flush, sync or
/// close at the latest.
///
/// For one thread at a time, and for the process that opened it.
class STRAIT_EXPORT Writer {
public:
    Writer(Writer&&) noexcept;
    Writer& operator=(Writer&&) noexcept;
    /// Closes, but can't tell of an error: call close to know that all is there.
    ~Writer();

    void write(const void* data, std::size_t size);
    void write(std::string_view data) { write(data.data(), data.size()); }
    /// What was written is in every replica's memory, and visible to who opens the file then.
    void flush();
    /// What was written is on stable storage.
    void sync();
    /// As sync, and lets others write the file.
    void close();

    /// The file's length with everything written.
    std::int64_t position() const noexcept;
    const std::string& path() const noexcept;

    class Impl;
    explicit Writer(std::unique_ptr<Impl> impl);

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace strait
