#include "striped_read.hpp"

#include <exception>
#include <limits>

namespace strait::detail {
namespace {

// A second connection costs a handshake and a login, some three round trips for which the reader
// waits. That is little compared with so many bytes on loopback and within a cluster, where
// decrypting is the bottleneck. At 1 Gbit/s from 50 ms away, three round trips add half to the
// 270 ms of these bytes.
constexpr std::int64_t one_connection_bytes = 32 << 20;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

} // namespace

StripedRead::StripedRead(Session& session, Deadline deadline, std::int64_t handle,
                         std::int64_t begin, std::int64_t end, std::size_t chunk,
                         std::size_t window, const std::string& path)
    : session_(session), handle_(handle), end_(end), chunk_(chunk), path_(path), position_(begin),
      until_second_(session.is_encrypted() ? one_connection_bytes : never),
      first_(session.borrow(deadline), handle, begin, end, chunk, window, path) {}

StripedRead::~StripedRead() {
    if (is_a_parents()) {
        // The thread isn't in this process, so nothing here can end it or release its resources.
        static_cast<void>(second_.release());
    }
}

std::size_t StripedRead::read(char* into, std::size_t size, Deadline deadline) {
    if (until_second_ <= 0) {
        until_second_ = never;
        begin_second(deadline);
    }
    const bool is_seconds = second_ && second_->has(position_);
    const std::size_t count =
        is_seconds ? second_->read(into, size) : first_.read(into, size, deadline);
    position_ += static_cast<std::int64_t>(count);
    until_second_ -= static_cast<std::int64_t>(count);
    return count;
}

void StripedRead::begin_second(Deadline deadline) {
    const auto chunk = static_cast<std::int64_t>(chunk_);
    if (end_ - first_.next() <= chunk) {
        return;
    }
    const std::int64_t begin = first_.next() + chunk;
    try {
        second_ = std::make_unique<Stripe>(session_.borrow(deadline), handle_, begin, end_, chunk_,
                                           path_);
        first_.leave_out_every_other();
    } catch (const std::exception&) {
        // One connection suffices, and reports the error if there is one.
    }
}

} // namespace strait::detail
