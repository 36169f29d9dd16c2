/// A gateway in this process that misbehaves on demand: short replies, refused handles, newer
/// errors, full stores. It serves one read-only file, "/f", one that is written, and directories
/// with endless pages.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

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
    /// Claimed length of the file; -1: its true one. Also the position of a new file.
    std::atomic<std::int64_t> claimed_length{-1};
    /// The file's identity in openFile's replies.
    std::atomic<char> identity{'a'};
    /// Whether it refuses the next session.
    std::atomic<bool> is_busy{false};
    /// Number of openings after which it forgets the handle at once.
    std::atomic<int> ends_handles{0};
    /// Whether the store is full: it refuses to append, flush or close.
    std::atomic<bool> full{false};
    /// Whether a file goes on after that; otherwise a failed close ends it.
    std::atomic<bool> goes_on{true};
    /// Whether the next append is taken, and refused all the same.
    std::atomic<bool> takes_and_refuses{false};
    /// Entries of each page of a directory, and the path of all of them.
    std::atomic<int> page_entries{0};
    std::string entry_path = "/e";
    /// Whether it tells of files, rather than an error of a kind from the future.
    std::atomic<bool> tells_of_files{false};
    /// Limit of appends in openSession's replies; 0: none.
    std::atomic<std::int32_t> max_chunk_bytes{0};
    /// Length of the written file in closeFile's replies; -1: none.
    std::atomic<std::int64_t> closed_length{-1};
    /// From now on it acts as another gateway, which doesn't know earlier cursors.
    void replace() { ++incarnation_; }
    /// Invalidates all earlier handles.
    void forget_handles() { first_valid_ = opened_ + 1; }
    /// Invalidates all earlier tokens.
    void forget_tokens() { ++tokens_forgotten_; }
    /// From now on it opens sessions only after `resume`.
    void fall_silent();
    void resume();
    /// Opens the sessions that wait now; later ones wait again.
    void resume_once();
    /// Number of requests for a session.
    int sessions() const { return sessions_; }
    /// Waits until there were this many requests for a session; false after some seconds without.
    bool await_sessions(int count);
    int opened() const { return opened_; }
    int reads() const { return reads_; }
    /// Number of requests to close a file or listing.
    int closed() const { return closed_; }
    /// Number of files that their clients gave up.
    int abandoned() const { return abandoned_; }
    /// Number of requests to append.
    int appends() const { return appends_; }
    /// Content of the file that is written.
    std::string written();

private:
    class Handler;
    friend class Handler;
    std::string token() const;
    void await_voice();

    const std::string content_, host_;
    std::atomic<int> incarnation_{1}, sessions_{0}, opened_{0}, first_valid_{1}, reads_{0},
        closed_{0}, abandoned_{0}, appends_{0};
    std::atomic<int> tokens_forgotten_{0};
    std::atomic<bool> writing_{false};
    std::mutex mutex_;
    std::string written_;
    /// Outcomes of appends by request id; an empty kind is success.
    std::map<std::string, std::pair<int, std::string>> outcomes_;
    std::condition_variable changed_;
    bool silent_ = false;
    int round_ = 0;
    std::unique_ptr<apache::thrift::server::TThreadedServer> server_;
    std::thread thread_;
    int port_ = 0;
};

} // namespace testing
