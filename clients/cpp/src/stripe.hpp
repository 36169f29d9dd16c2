/// Half of a range's chunks, received by a thread of its own.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "queue.hpp"
#include "read_ahead.hpp"

namespace strait::detail {

/// For one caller. Ends early, without a word, where anything fails: a request of the
/// caller's own has the error, or better luck.
class Stripe {
public:
    /// Every other chunk from `begin` to `end`. Throws std::system_error where there is no
    /// thread to be had.
    Stripe(Lease connection, std::int64_t handle, std::int64_t begin, std::int64_t end,
           std::size_t chunk, const std::string& path);
    /// Doesn't wait for what is still to come.
    ~Stripe();

    /// Whether the byte at `offset` comes this way.
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
