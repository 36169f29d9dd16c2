/// Reads a range of a file in order, over two connections if one processor is too slow.
#pragma once

#include <memory>
#include <string>

#include "read_ahead.hpp"
#include "stripe.hpp"

namespace strait::detail {

/// Begins as one connection's reading ahead. Over TLS, after many bytes, every other chunk comes by
/// a second connection, whose thread decrypts in parallel. A single thread that receives and
/// decrypts everything keeps a core busy, and is the bottleneck.
class StripedRead {
public:
    /// See ReadAhead.
    StripedRead(Session& session, Deadline deadline, std::int64_t handle, std::int64_t begin,
                std::int64_t end, std::size_t chunk, std::size_t window, const std::string& path);
    ~StripedRead();

    /// The next bytes, at least one; 0: no more, or something failed.
    std::size_t read(char* into, std::size_t size, Deadline deadline);
    bool is_broken() const { return first_.connection()->is_broken(); }
    /// Whether this process is a forked child, which would take its parent's replies.
    bool is_a_parents() const { return first_.connection()->is_a_parents(); }

private:
    void begin_second(Deadline deadline);

    Session& session_;
    const std::int64_t handle_, end_;
    const std::size_t chunk_;
    const std::string& path_;
    std::int64_t position_;
    std::int64_t until_second_; // bytes, from which on a second connection is worth it
    ReadAhead first_;
    std::unique_ptr<Stripe> second_;
};

} // namespace strait::detail
