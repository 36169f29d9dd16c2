/// A proxy between a client and a gateway that simulates faults of the gateway.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace testing {

/// `silent`: no reply. `half`: half of a reply. `stutter`: a reply, a byte at a time. `gone`: all
/// connections are closed, and new ones refused. `cut`: each connection is closed in place of its
/// next reply.
enum class Fault { none, silent, half, stutter, gone, cut };

class FaultyProxy {
public:
    /// Forwards to `host:port`.
    explicit FaultyProxy(const std::string& target);
    ~FaultyProxy();
    FaultyProxy(const FaultyProxy&) = delete;

    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    /// From now on the gateway's answers suffer from this fault.
    void strike(Fault fault);
    /// Number of replies in whose place it ended the connection.
    int cuts() const { return cuts_; }

private:
    void accept_all();
    void forward(int from, int to, bool is_reply);
    void hang_up();

    int port_ = 0, listener_, target_port_; // in the order in which they are found
    std::atomic<Fault> fault_{Fault::none};
    std::atomic<bool> closed_{false};
    std::atomic<int> cuts_{0};
    std::mutex mutex_;
    std::vector<int> sockets_;
    std::list<std::thread> threads_;
};

/// A listener for which even the system doesn't accept connections.
class FullBacklog {
public:
    FullBacklog();
    ~FullBacklog();
    FullBacklog(const FullBacklog&) = delete;
    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

private:
    std::vector<int> sockets_;
    int port_ = 0;
};

} // namespace testing
