/// A gateway in this process that misbehaves on demand: short replies, refused
/// handles, newer errors. It serves one read-only file, "/f", and directories
/// of pages without end.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <thrift/server/TThreadedServer.h>

#include <DfsV2.h>

namespace testing {

class FakeGateway {
public:
    explicit FakeGateway(std::string content, std::string host = "127.0.0.1");
    ~FakeGateway();
    FakeGateway(const FakeGateway&) = delete;

    std::string address() const;

    /// Most bytes of a reply to readRange.
    std::atomic<std::int32_t> most_bytes{1 << 30};
    /// Of the file, where it isn't its true one; -1: it is. Also where a new file begins.
    std::atomic<std::int64_t> claimed_length{-1};
    /// What openFile says of the file.
    std::atomic<char> identity{'a'};
    /// Of each page of a directory.
    std::atomic<int> page_entries{0};
    /// From now on it is another one, which doesn't know cursors given so far.
    void replace() { ++incarnation_; }
    /// Handles given so far are unknown from now on.
    void forget_handles() { first_valid_ = opened_ + 1; }
    /// How often one was opened.
    int sessions() const { return sessions_; }
    int opened() const { return opened_; }
    int reads() const { return reads_; }

private:
    class Handler;
    friend class Handler;

    const std::string content_, host_;
    std::atomic<int> incarnation_{1}, sessions_{0}, opened_{0}, first_valid_{1}, reads_{0};
    std::unique_ptr<apache::thrift::server::TThreadedServer> server_;
    std::thread thread_;
    int port_ = 0;
};

} // namespace testing
