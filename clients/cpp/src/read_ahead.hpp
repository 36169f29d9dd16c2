/// Requests in flight ahead of a reader.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "session.hpp"

namespace strait::detail {

// Bytes of a request during sequential reads or writes, and requests in flight at once. Together
// more than twice the bytes in flight at 1 Gbit/s and 50 ms of round trip: with half as many, a
// pause of some milliseconds on either side left the link idle.
constexpr std::size_t chunk_bytes = 1 << 20;
constexpr std::size_t max_window = 16;

/// One range of a file, read in order over a connection of its own.
class ReadAhead {
public:
    /// Reads from `begin` to `end`, or to the end of the file; `window` requests at first.
    ReadAhead(Lease connection, std::int64_t handle, std::int64_t begin, std::int64_t end,
              std::size_t chunk, std::size_t window, const std::string& path);

    /// The next bytes, at least one; 0: no more. After the deadline it throws TimedOut.
    std::size_t read(char* into, std::size_t size, Deadline deadline);
    const Lease& connection() const { return connection_; }

    /// The offset of the next request.
    std::int64_t next() const { return next_; }
    /// Leaves every second chunk that isn't requested yet, and half of the window, to another
    /// connection.
    void leave_out_every_other();

private:
    struct Chunk {
        std::int64_t offset;
        std::size_t length;
        std::size_t received = 0, taken = 0;
        std::unique_ptr<char[]> data = nullptr; // none before it is needed
    };
    struct Asked {
        Chunk* chunk;
        std::size_t bytes;
    };

    void fill_window();
    void request(Chunk& chunk, std::int64_t offset, std::size_t bytes);
    std::size_t receive(char* into);
    void finish_chunk();

    Lease connection_;
    const std::int64_t handle_;
    std::int64_t next_;
    const std::int64_t end_;
    const std::size_t chunk_;
    std::size_t stride_ = chunk_; // from chunk to chunk
    std::size_t window_, largest_window_ = max_window;
    const std::string& path_;
    std::deque<Chunk> chunks_; // by offset
    std::deque<Asked> asked_;  // in the order of their replies
    std::unique_ptr<char[]> spare_;
    bool ended_ = false;
};

} // namespace strait::detail
