/// A connected TCP socket, plain or with TLS.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "deadline.hpp"
#include "endpoint.hpp"

namespace strait::detail {

/// Throws Silence and ConnectionLost.
class Socket {
public:
    /// Connects by then, TLS included. Throws ConnectionLost if no gateway answers, InvalidArgument
    /// for unusable TLS files.
    static std::unique_ptr<Socket> connect(const Endpoint& endpoint, Deadline connect_by);

    Socket(int descriptor, Deadline deadline) : descriptor_(descriptor), deadline_(deadline) {}
    virtual ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    /// Sets the deadline for all further receiving and sending, over any number of waits. They
    /// throw Silence after it.
    void wait_until(Deadline deadline) { deadline_ = deadline; }
    /// The time left until then, in milliseconds; at least 1.
    std::int32_t left_ms() const;
    /// Limits the system's next wait to the deadline; false if that has passed.
    bool has_time();

    /// Receives the available bytes, at least one.
    virtual std::size_t receive(void* into, std::size_t size);
    /// Sends all of the parts, and consumes them.
    virtual void send(iovec* parts, std::size_t count);

    /// Whether bytes arrived. If no reply is due, that means the connection's end.
    bool readable() const;
    bool leads_to_this_machine() const;
    /// Makes a waiting receive or send of another thread throw ConnectionLost.
    void interrupt() const;

protected:
    int descriptor() const { return descriptor_; }

private:
    int descriptor_;
    Deadline deadline_;
    std::chrono::milliseconds limit_{0}; // of the system for one wait
};

/// Wraps a connected socket; takes the descriptor over.
std::unique_ptr<Socket> start_tls(int descriptor, const Endpoint& endpoint, Deadline connect_by);

} // namespace strait::detail
