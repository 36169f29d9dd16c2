#include "transport.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "failure.hpp"

namespace strait::detail {
namespace {

// Pieces of output from this size on are sent directly instead of copied together. Below, the copy
// is cheaper than another part of a sendmsg.
constexpr std::uint32_t send_alone_bytes = 16u << 10;
constexpr std::size_t frame_header_bytes = 4;

} // namespace

Transport::Transport(std::unique_ptr<Socket> socket, bool framed)
    : socket_(std::move(socket)), framed_(framed), small_(framed ? frame_header_bytes : 0) {}

void Transport::begin_reply(Sink sink) {
    sink_ = sink;
    sink_waits_ = sink.room != 0;
    message_end_ = consumed() + (framed_ ? frame_header_bytes : max_message_bytes);
    if (framed_) {
        std::uint32_t length;
        readAll(reinterpret_cast<std::uint8_t*>(&length), sizeof length);
        length = ntohl(length);
        if (length > max_message_bytes) {
            throw ConnectionLost("an over-long frame came", true);
        }
        message_end_ = consumed() + length;
    }
}

Transport::Sink Transport::end_reply() {
    if (framed_ && consumed() != message_end_) {
        throw ConnectionLost("a frame and its message differ in length", true);
    }
    return sink_;
}

Transport::Sink* Transport::take_sink() {
    return std::exchange(sink_waits_, false) ? &sink_ : nullptr;
}

std::uint32_t Transport::readAll(std::uint8_t* into, std::uint32_t size) {
    if (consumed() + size > message_end_) {
        throw ConnectionLost(
            framed_ ? "a message goes beyond its frame" : "an over-long message came", true);
    }
    std::size_t missing = size;
    while (missing != 0) {
        if (begin_ != end_) {
            const std::size_t count = std::min(missing, end_ - begin_);
            std::memcpy(into, &buffer_[begin_], count);
            begin_ += count;
            into += count;
            missing -= count;
        } else if (missing >= buffer_.size()) {
            const std::size_t count = socket_->receive(into, missing);
            received_ += count;
            into += count;
            missing -= count;
        } else {
            begin_ = 0;
            end_ = 0;
            end_ = socket_->receive(buffer_.data(), buffer_.size());
            received_ += end_;
        }
    }
    return size;
}

void Transport::write(const std::uint8_t* data, std::uint32_t size) {
    if (size < send_alone_bytes) {
        small_.insert(small_.end(), data, data + size);
    } else {
        large_.push_back({small_.size(), data, size});
    }
}

void Transport::flush() {
    parts_.clear();
    std::size_t begin = 0, total = 0;
    const auto add = [&](const std::uint8_t* data, std::size_t size) {
        if (size != 0) {
            parts_.push_back({const_cast<std::uint8_t*>(data), size});
            total += size;
        }
    };
    for (const Large& large : large_) {
        add(small_.data() + begin, large.after - begin);
        add(large.data, large.size);
        begin = large.after;
    }
    add(small_.data() + begin, small_.size() - begin);
    if (framed_) {
        const std::uint32_t length = htonl(static_cast<std::uint32_t>(total - frame_header_bytes));
        std::memcpy(small_.data(), &length, sizeof length);
    }
    socket_->send(parts_.data(), parts_.size());
    small_.resize(framed_ ? frame_header_bytes : 0);
    large_.clear();
}

} // namespace strait::detail
