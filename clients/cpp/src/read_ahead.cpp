#include "read_ahead.hpp"

#include <algorithm>
#include <cstring>

namespace strait::detail {

ReadAhead::ReadAhead(Lease connection, std::int64_t handle, std::int64_t begin, std::int64_t end,
                     std::size_t chunk, std::size_t window, const std::string& path)
    : connection_(std::move(connection)), handle_(handle), next_(begin), end_(end), chunk_(chunk),
      window_(std::min(window, max_window)), path_(path) {}

void ReadAhead::leave_out_every_other() {
    stride_ = 2 * chunk_;
    largest_window_ = max_window / 2;
    window_ = std::min(window_, largest_window_);
}

std::size_t ReadAhead::read(char* into, std::size_t size, Deadline deadline) {
    connection_->wait_until(deadline);
    fill_window();
    if (chunks_.empty()) {
        return 0;
    }
    Chunk& chunk = chunks_.front();
    while (chunk.received < chunk.length && !ended_) {
        const Asked next = asked_.front();
        if (next.chunk == &chunk && chunk.received == 0 && next.bytes <= size) {
            // Directly into the caller's memory. After a short reply, the chunk is the rest of it.
            const std::size_t count = receive(into);
            chunk.offset += static_cast<std::int64_t>(count);
            chunk.length -= count;
            if (chunk.length == 0) {
                finish_chunk();
            }
            return count;
        }
        if (next.chunk->data == nullptr) {
            next.chunk->data =
                spare_ ? std::move(spare_) : std::unique_ptr<char[]>(new char[chunk_]);
        }
        next.chunk->received += receive(next.chunk->data.get() + next.chunk->received);
    }
    const std::size_t count = std::min(size, chunk.received - chunk.taken);
    if (count != 0) {
        std::memcpy(into, chunk.data.get() + chunk.taken, count);
        chunk.taken += count;
        if (chunk.taken == chunk.length) {
            finish_chunk();
        }
    }
    return count;
}

/// Receives the next reply; requests the missing bytes of a short one again.
std::size_t ReadAhead::receive(char* into) {
    const auto [chunk, bytes] = asked_.front();
    const std::size_t count = connection_->receive_range(into, bytes, path_);
    asked_.pop_front();
    if (count == 0) {
        ended_ = true;
    } else if (count < bytes) {
        const auto arrived = static_cast<std::int64_t>(chunk->received + count);
        request(*chunk, chunk->offset + arrived, bytes - count);
    }
    return count;
}

void ReadAhead::finish_chunk() {
    if (chunks_.front().data) {
        spare_ = std::move(chunks_.front().data);
    }
    chunks_.pop_front();
    // As in TCP's slow start: a reader of few bytes doesn't pay for many, and a distant gateway is
    // busy after a few round trips.
    window_ = std::min(window_ + 1, largest_window_);
    fill_window();
}

void ReadAhead::fill_window() {
    while (chunks_.size() < window_ && next_ < end_ && !ended_) {
        const auto length = static_cast<std::size_t>(
            std::min<std::int64_t>(static_cast<std::int64_t>(chunk_), end_ - next_));
        chunks_.push_back({next_, length});
        next_ += std::min(static_cast<std::int64_t>(stride_), end_ - next_);
        request(chunks_.back(), chunks_.back().offset, length);
    }
}

void ReadAhead::request(Chunk& chunk, std::int64_t offset, std::size_t bytes) {
    wire::ReadRangeRequest request;
    request.__set_handle(handle_);
    request.__set_offset(offset);
    request.__set_length(static_cast<std::int32_t>(bytes));
    connection_->send(request);
    asked_.push_back({&chunk, bytes});
}

} // namespace strait::detail
