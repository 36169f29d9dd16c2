#include "faulty_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "waits.hpp"

namespace testing {
namespace {

// Often enough to renew any limit of a single wait.
constexpr std::chrono::milliseconds stutter_pause(100);
// Bytes sent of a half reply: they end within a frame's header, or after it.
constexpr std::size_t half_bytes = 7;

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

int tcp_socket() {
    return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int listening(int backlog, int& port) {
    const int listener = tcp_socket();
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    ::bind(listener, reinterpret_cast<sockaddr*>(&address), length);
    ::listen(listener, backlog);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
    return listener;
}

bool send_all(int to, const char* data, std::size_t size) {
    while (size != 0) {
        const ssize_t count = ::send(to, data, size, MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        data += count;
        size -= static_cast<std::size_t>(count);
    }
    return true;
}

} // namespace

FaultyProxy::FaultyProxy(const std::string& target)
    : listener_(listening(64, port_)),
      target_port_(std::stoi(target.substr(target.rfind(':') + 1))) {
    threads_.emplace_back([this] { accept_all(); });
}

FaultyProxy::~FaultyProxy() {
    hang_up();
    threads_.front().join(); // which starts the others
    hang_up();
    for (auto thread = std::next(threads_.begin()); thread != threads_.end(); ++thread) {
        thread->join();
    }
    for (const int socket : sockets_) {
        ::close(socket);
    }
    ::close(listener_);
}

void FaultyProxy::strike(Fault fault) {
    fault_ = fault;
    if (fault == Fault::gone) {
        hang_up();
    }
}

void FaultyProxy::hang_up() {
    closed_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int socket : sockets_) {
        ::shutdown(socket, SHUT_RDWR);
    }
}

void FaultyProxy::accept_all() {
    while (true) {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            return;
        }
        const int gateway = tcp_socket();
        const sockaddr_in address = loopback(target_port_);
        ::connect(gateway, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        const std::lock_guard<std::mutex> lock(mutex_);
        sockets_.push_back(client);
        sockets_.push_back(gateway);
        threads_.emplace_back([=] { forward(client, gateway, false); });
        threads_.emplace_back([=] { forward(gateway, client, true); });
    }
}

void FaultyProxy::forward(int from, int to, bool is_reply) {
    std::vector<char> data(1 << 16);
    bool holding = false;
    ssize_t count;
    while ((count = ::recv(from, data.data(), data.size(), 0)) > 0) {
        const Fault fault = is_reply ? fault_.load() : Fault::none;
        auto size = static_cast<std::size_t>(count);
        if (fault == Fault::stutter) {
            for (std::size_t n = 0; n != size && !closed_ && send_all(to, &data[n], 1); ++n) {
                pause("the pace of a stutter", stutter_pause);
            }
        } else if (fault == Fault::none) {
            send_all(to, data.data(), size);
        } else if (fault == Fault::half && !holding) {
            send_all(to, data.data(), std::min(size, half_bytes));
            holding = true;
        } else if (fault == Fault::cut) {
            ++cuts_;
            break;
        }
    }
    ::shutdown(to, SHUT_RDWR);
}

FullBacklog::FullBacklog() {
    sockets_.push_back(listening(0, port_));
    const sockaddr_in address = loopback(port_);
    int ready;
    do {
        const int socket = tcp_socket();
        sockets_.push_back(socket);
        ::fcntl(socket, F_SETFL, O_NONBLOCK);
        ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        pollfd poll{socket, POLLOUT, 0};
        ready = ::poll(&poll, 1, 300);
    } while (ready > 0);
}

FullBacklog::~FullBacklog() {
    for (const int socket : sockets_) {
        ::close(socket);
    }
}

} // namespace testing
