/// A connected TCP socket, plain or with TLS.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>

#include "deadline.hpp"
#include "endpoint.hpp"

namespace strait::detail {

/// Throws Silence and ConnectionLost.
class Socket {
public:
    /// By then, TLS included. Throws ConnectionLost where there is nobody, InvalidArgument for
    /// unusable TLS files.
    static std::unique_ptr<Socket> connect(const Endpoint& endpoint, Deadline connect_by);

    Socket(int descriptor, Deadline deadline) : descriptor_(descriptor), deadline_(deadline) {}
    virtual ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    /// Whatever is received and sent from now on is over by then, or a Silence, however many
    /// waits that takes.
    void wait_until(Deadline deadline) { deadline_ = deadline; }
    /// Has the system's next wait end by the deadline; false: that is over.
    bool has_time();

    /// What is there, at least a byte.
    virtual std::size_t receive(void* into, std::size_t size);
    /// All of the parts, which it uses up.
    virtual void send(iovec* parts, std::size_t count);

    /// Whether something came, which while no reply is due is the connection's end.
    bool readable() const;
    bool leads_to_this_machine() const;
    /// Has a receive or send that waits, in another thread, throw ConnectionLost.
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
