#include "socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "failure.hpp"

namespace strait::detail {
namespace {

using std::chrono::milliseconds;

// Allowed difference between the system's limit of a wait and the time left: setting it costs two
// calls.
constexpr milliseconds slack(50);

[[noreturn]] void lost(int number, bool sent) {
    throw ConnectionLost(std::generic_category().message(number), sent);
}

/// Connects within the time, or returns the errno.
int connect_within(int descriptor, const addrinfo& to, milliseconds time) {
    const int flags = fcntl(descriptor, F_GETFL);
    fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
    if (::connect(descriptor, to.ai_addr, to.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) {
            return errno;
        }
        pollfd poll{descriptor, POLLOUT, 0};
        int ready;
        do {
            ready = ::poll(&poll, 1, static_cast<int>(time.count()));
        } while (ready < 0 && errno == EINTR);
        if (ready <= 0) {
            return ready == 0 ? ETIMEDOUT : errno;
        }
        int number = 0;
        socklen_t length = sizeof number;
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &length);
        if (number != 0) {
            return number;
        }
    }
    fcntl(descriptor, F_SETFL, flags);
    return 0;
}

milliseconds left_until(Deadline deadline) {
    return std::chrono::ceil<milliseconds>(deadline - Clock::now());
}

std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> resolved(const Endpoint& endpoint) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int code =
            getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found)) {
        throw ConnectionLost("the name " + endpoint.host + " can't be resolved: " +
                                 gai_strerror(code) + "; check its spelling, and DNS",
                             false);
    }
    return {found, freeaddrinfo};
}

int connected(const Endpoint& endpoint, Deadline connect_by) {
    const auto addresses = resolved(endpoint);
    int left = 0;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
        ++left;
    }
    int number = EADDRNOTAVAIL;
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next, --left) {
        // Each address gets its share of the time, so that a silent one leaves some for the next.
        const milliseconds share = left_until(connect_by) / left;
        if (share <= milliseconds::zero()) {
            lost(ETIMEDOUT, false);
        }
        const int descriptor =
            ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol);
        if (descriptor < 0) {
            number = errno;
            continue;
        }
        number = connect_within(descriptor, *address, share);
        if (number == 0) {
            // A request is small and shouldn't wait.
            const int yes = 1;
            setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            return descriptor;
        }
        ::close(descriptor);
    }
    lost(number, false);
}

} // namespace

std::unique_ptr<Socket> Socket::connect(const Endpoint& endpoint, Deadline connect_by) {
    const int descriptor = connected(endpoint, connect_by);
    return endpoint.options.tls ? start_tls(descriptor, endpoint, connect_by)
                                : std::make_unique<Socket>(descriptor, connect_by);
}

std::int32_t Socket::left_ms() const {
    const milliseconds most(std::numeric_limits<std::int32_t>::max());
    return static_cast<std::int32_t>(
        std::clamp(left_until(deadline_), milliseconds(1), most).count());
}

bool Socket::has_time() {
    const milliseconds left = left_until(deadline_);
    if (left <= milliseconds::zero()) {
        return false;
    }
    if (limit_ - left > slack || left - limit_ > slack || limit_ == milliseconds::zero()) {
        limit_ = left;
        timeval time{};
        time.tv_sec = left.count() / 1000;
        time.tv_usec = left.count() % 1000 * 1000;
        setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
        setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    }
    return true;
}

Socket::~Socket() {
    ::close(descriptor_);
}

std::size_t Socket::receive(void* into, std::size_t size) {
    while (true) {
        if (!has_time()) {
            throw Silence();
        }
        const ssize_t count = ::recv(descriptor_, into, size, 0);
        if (count > 0) {
            return static_cast<std::size_t>(count);
        }
        if (count == 0) {
            throw ConnectionLost("the gateway closed the connection", true);
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            throw Silence();
        }
        if (errno != EINTR) {
            lost(errno, true);
        }
    }
}

void Socket::send(iovec* parts, std::size_t count) {
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    while (message.msg_iovlen != 0) {
        if (!has_time()) {
            throw Silence();
        }
        const ssize_t sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                throw Silence();
            }
            lost(errno, true);
        }
        auto rest = static_cast<std::size_t>(sent);
        while (message.msg_iovlen != 0 && rest >= message.msg_iov->iov_len) {
            rest -= message.msg_iov->iov_len;
            ++message.msg_iov;
            --message.msg_iovlen;
        }
        if (message.msg_iovlen != 0) {
            message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + rest;
            message.msg_iov->iov_len -= rest;
        }
    }
}

bool Socket::readable() const {
    pollfd poll{descriptor_, POLLIN, 0};
    return ::poll(&poll, 1, 0) > 0;
}

void Socket::interrupt() const {
    ::shutdown(descriptor_, SHUT_RDWR);
}

bool Socket::leads_to_this_machine() const {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
        return false;
    }
    if (peer.ss_family == AF_INET) {
        const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
        return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (peer.ss_family == AF_INET6) {
        const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(&v6) ||
               (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
    }
    return false;
}

} // namespace strait::detail
