#include "answering.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace testing {

Answering::Answering(std::string answer)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 1);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
        const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        // Refuses any further client at once.
        ::shutdown(listener_, SHUT_RDWR);
        std::vector<char> received(10'000);
        const auto count = ::recv(peer, received.data(), received.size(), 0);
        question_.assign(received.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
        if (answer.empty()) {
            ::recv(peer, received.data(), received.size(), 0); // until the other hangs up
        }
        ::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
        ::close(peer);
    });
}

std::string Answering::question() {
    thread_.join();
    return question_;
}

Answering::~Answering() {
    ::shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) {
        thread_.join();
    }
    ::close(listener_);
}

} // namespace testing
