/// A remote file open to write at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <strait/export.hpp>

namespace strait {

/// `write` returns when the bytes are on their way, with several requests in flight at once. A
/// later call reports an error: flush, sync or close at the latest.
///
/// After NoSpace and Unavailable the file stays open: the writer keeps the bytes that the gateway
/// hasn't taken, and sends them again with later calls. `flush`, `sync` and `close` may be
/// repeated. A write of up to 1 MiB that fails has taken nothing; `position` tells how much a
/// longer one has taken.
///
/// `flush`, `sync` and `close` return a lower bound of the number of replicas that hold all written
/// bytes; nothing if the store gives no number, or if nothing was written.
///
/// For one thread at a time, and for the process that opened it.
class STRAIT_EXPORT Writer {
public:
    Writer(Writer&&) noexcept;
    Writer& operator=(Writer&&) noexcept;
    /// Closes, but can't report an error: call close to be sure that everything is stored. If the
    /// last call failed, the bytes that the gateway hasn't taken are lost.
    ~Writer();

    void write(const void* data, std::size_t size);
    void write(std::string_view data) { write(data.data(), data.size()); }
    /// Puts all written bytes in every replica's memory, visible to readers that open the file
    /// afterwards. In object stores it promises nothing.
    std::optional<int> flush();
    /// Puts all written bytes on stable storage. In object stores it promises nothing.
    std::optional<int> sync();
    /// Syncs, and lets other clients write the file. After NoSpace and Unavailable the file is
    /// still open, and may be closed again; after any other error it is closed.
    std::optional<int> close();

    /// The file's length including all written bytes.
    std::int64_t position() const noexcept;
    const std::string& path() const noexcept;

    class Impl;
    explicit Writer(std::unique_ptr<Impl> impl);

private:
    std::unique_ptr<Impl> impl_;
};

} // namespace strait
