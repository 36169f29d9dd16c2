/// Thrift's view of a socket, made for large payloads. Small data goes through a buffer, large data
/// directly between the socket and the caller's memory.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <thrift/transport/TVirtualTransport.h>

#include "socket.hpp"

namespace strait::detail {

/// Most bytes of one message from the gateway: its largest payload is 4 MiB, and
/// a page of a listing stays below that too.
constexpr std::uint32_t max_message_bytes = 16u << 20;

class Transport final : public apache::thrift::transport::TVirtualTransport<Transport> {
public:
    /// The caller's memory for the next byte string of a reply.
    struct Sink {
        std::uint8_t* into = nullptr;
        std::uint32_t room = 0;
        std::uint32_t filled = 0;
    };

    Transport(std::unique_ptr<Socket> socket, bool framed);

    Socket& socket() { return *socket_; }

    /// Called before each reply is decoded, and after.
    void begin_reply(Sink sink);
    Sink end_reply();
    /// The sink, if the next byte string belongs into it.
    Sink* take_sink();

    // -- As Thrift names them

    bool isOpen() const override { return true; }
    std::uint32_t read(std::uint8_t* into, std::uint32_t size) { return readAll(into, size); }
    std::uint32_t readAll(std::uint8_t* into, std::uint32_t size);
    /// Large data must stay in place until the flush, as a request does.
    void write(const std::uint8_t* data, std::uint32_t size);
    void flush() override;

private:
    std::uint64_t consumed() const { return received_ - (end_ - begin_); }

    std::unique_ptr<Socket> socket_;
    const bool framed_;

    // Bytes received at once if the rest of a message isn't known to be large. A larger buffer
    // would copy more of a large payload.
    std::array<std::uint8_t, 16 << 10> buffer_;
    std::size_t begin_ = 0, end_ = 0; // of the unread bytes in the buffer
    std::uint64_t received_ = 0;      // in all, from the socket
    std::uint64_t message_end_ = 0;   // of its frame, or its limit without one
    Sink sink_;
    bool sink_waits_ = false;

    struct Large {
        std::size_t after; // bytes of small_ that come before it
        const std::uint8_t* data;
        std::size_t size;
    };
    std::vector<std::uint8_t> small_;
    std::vector<Large> large_;
    std::vector<iovec> parts_;
};

} // namespace strait::detail
