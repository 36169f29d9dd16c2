#include "proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <limits>
#include <vector>

namespace testing {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

} // namespace

Proxy::Proxy(const std::string& target)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      target_port_(std::stoi(target.substr(target.rfind(':') + 1))), requests_left_(never),
      replies_left_(never) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 16);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
}

Proxy::~Proxy() {
    stop();
    for (Pair& pair : pairs_) {
        pair.thread.join();
    }
}

void Proxy::redirect(const std::string& target) {
    target_port_ = std::stoi(target.substr(target.rfind(':') + 1));
}

void Proxy::stop() {
    if (!stopped_.exchange(true)) {
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
        cut();
    }
}

void Proxy::cut() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Pair& pair : pairs_) {
        if (!pair.closed) {
            ::shutdown(pair.client, SHUT_RDWR); // its thread closes it
            ::shutdown(pair.server, SHUT_RDWR);
        }
    }
}

void Proxy::accept_all() {
    while (true) {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            return;
        }
        const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address = loopback(target_port_);
        ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        const int yes = 1;
        ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        ::setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        ++connections_;
        const std::lock_guard<std::mutex> lock(mutex_);
        Pair& pair = pairs_.emplace_back(Pair{client, server});
        pair.thread = std::thread([this, &pair] { forward(pair); });
    }
}

void Proxy::forward(Pair& pair) {
    pollfd ends[] = {{pair.client, POLLIN, 0}, {pair.server, POLLIN, 0}};
    while (::poll(ends, 2, -1) > 0) {
        const bool goes_on =
            (ends[0].revents == 0 || pass(pair.client, pair.server, requests_left_)) &&
            (ends[1].revents == 0 || pass(pair.server, pair.client, replies_left_));
        if (!goes_on) {
            break;
        }
    }
    // Not a shutdown: unread bytes must cause a reset, as when a process ends.
    const std::lock_guard<std::mutex> lock(mutex_);
    pair.closed = true;
    ::close(pair.client);
    ::close(pair.server);
}

bool Proxy::pass(int from, int to, std::atomic<std::int64_t>& left) {
    std::vector<char> buffer(64 << 10);
    ssize_t count = ::recv(from, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
        return false;
    }
    bool goes_on = true;
    if (left != never) {
        if (count > left) {
            count = left;
            left = never;
            ++cuts_;
            goes_on = false;
        } else {
            left -= count;
        }
    }
    for (ssize_t done = 0; done < count;) {
        const ssize_t sent =
            ::send(to, buffer.data() + done, static_cast<std::size_t>(count - done), MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        done += sent;
    }
    return goes_on;
}

} // namespace testing
