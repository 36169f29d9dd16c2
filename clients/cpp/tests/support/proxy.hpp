/// A TCP proxy that cuts connections on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace testing {

class Proxy {
public:
    /// Forwards to `host:port`.
    explicit Proxy(const std::string& target);
    ~Proxy();
    Proxy(const Proxy&) = delete;

    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

    /// Cuts the connection that would carry the next byte after these, once.
    void cut_requests_after(std::int64_t bytes) { requests_left_ = bytes; }
    void cut_replies_after(std::int64_t bytes) { replies_left_ = bytes; }
    /// Forwards new connections to another gateway.
    void redirect(const std::string& target);
    /// Cuts all present connections.
    void cut();
    /// Refuses all connections from now on.
    void stop();

    int connections() const { return connections_; }
    int cuts() const { return cuts_; }

private:
    struct Pair {
        int client, server;
        bool closed = false;
        std::thread thread = {};
    };
    void accept_all();
    void forward(Pair& pair);
    bool pass(int from, int to, std::atomic<std::int64_t>& left);

    int listener_, port_ = 0;
    std::atomic<int> target_port_;
    std::atomic<std::int64_t> requests_left_, replies_left_;
    std::atomic<int> connections_{0}, cuts_{0};
    std::atomic<bool> stopped_{false};
    std::mutex mutex_;
    std::list<Pair> pairs_;
    std::thread thread_;
};

} // namespace testing
