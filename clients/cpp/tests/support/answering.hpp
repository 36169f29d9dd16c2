/// A server without a protocol.
#pragma once

#include <string>
#include <thread>

namespace testing {

/// Answers the first bytes from a client with `answer`, and closes. With an empty answer it stays
/// silent.
class Answering {
public:
    explicit Answering(std::string answer);
    ~Answering();
    Answering(const Answering&) = delete;
    /// The client's first bytes. Waits until it has been answered.
    std::string question();
    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
    int listener_, port_ = 0;
    std::string question_;
    std::thread thread_;
};

} // namespace testing
