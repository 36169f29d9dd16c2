/// Half of a range's chunks, received by a separate thread.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "queue.hpp"
#include "read_ahead.hpp"

namespace strait::detail {

/// For one caller. Any failure ends it early and silently: the caller's own request then reports
/// the error, or succeeds.
class Stripe {
public:
    /// Reads every other chunk from `begin` to `end`. Throws std::system_error if no thread can be
    /// started.
    Stripe(Lease connection, std::int64_t handle, std::int64_t begin, std::int64_t end,
           std::size_t chunk, const std::string& path);
    /// Doesn't wait for outstanding replies.
    ~Stripe();

    /// Whether this stripe has the byte at `offset`.
    bool has(std::int64_t offset) const;
    /// The next bytes, of one chunk; 0: no more.
    std::size_t read(char* into, std::size_t size);

private:
    struct Piece {
        std::unique_ptr<char[]> data;
        std::size_t size = 0, taken = 0;
    };

    void run();

    const std::int64_t begin_;
    const std::int64_t end_;
    const std::size_t chunk_;
    ReadAhead requests_; // the thread's
    Queue<Piece> empty_, full_;
    Piece current_; // the caller's
    std::atomic<bool> finished_{false};
    std::thread thread_;
};

} // namespace strait::detail
