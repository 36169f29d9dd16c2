#include "fake_gateway.hpp"

#include <algorithm>
#include <future>

#include <thrift/protocol/TBinaryProtocol.h>
#include <thrift/transport/TBufferTransports.h>
#include <thrift/transport/TServerSocket.h>

namespace testing {

namespace wire = strait::generated;
using namespace apache::thrift;

class FakeGateway::Handler final : public wire::DfsV2Null {
public:
    explicit Handler(FakeGateway& gateway) : gateway_(gateway) {}

    void openSession(wire::OpenSessionReply& reply,
                     const wire::OpenSessionRequest& request) override {
        ++gateway_.sessions_;
        gateway_.await_voice();
        if (request.__isset.token && request.token != gateway_.token()) {
            throw error(7, "Unauthenticated");
        }
        if (gateway_.is_busy.exchange(false)) {
            throw error(10, "Busy");
        }
        reply.__set_token(gateway_.token());
        reply.__set_incarnation(gateway_.incarnation_);
        reply.limits.__set_max_chunk_bytes(gateway_.max_chunk_bytes);
        reply.__isset.limits = true;
    }

    void openFile(wire::OpenFileReply& reply, const wire::OpenFileRequest&) override {
        reply.__set_handle(++gateway_.opened_);
        if (gateway_.ends_handles > 0) {
            --gateway_.ends_handles;
            gateway_.forget_handles();
        }
        const std::int64_t claimed = gateway_.claimed_length;
        reply.__set_length(claimed >= 0 ? claimed
                                        : static_cast<std::int64_t>(gateway_.content_.size()));
        reply.__set_identity(std::string(1, gateway_.identity));
    }

    void readRange(wire::ReadRangeReply& reply, const wire::ReadRangeRequest& request) override {
        ++gateway_.reads_;
        if (request.handle < gateway_.first_valid_) {
            throw error(8, "InvalidArgument");
        }
        const auto offset =
            std::min(static_cast<std::size_t>(request.offset), gateway_.content_.size());
        const auto length = std::min(request.length, gateway_.most_bytes.load());
        reply.__set_data(gateway_.content_.substr(offset, static_cast<std::size_t>(length)));
    }

    void getFileInfo(wire::GetFileInfoReply&, const wire::GetFileInfoRequest&) override {
        if (!gateway_.tells_of_files) {
            throw error(99, "Tired"); // of a kind from the future
        }
    }

    void getStoreStatus(wire::GetStoreStatusReply& reply,
                        const wire::GetStoreStatusRequest&) override {
        reply.__set_settling(true); // as one that has just started
    }

    void createFile(wire::OpenWriterReply& reply, const wire::CreateFileRequest&) override {
        reply.__set_position(gateway_.claimed_length);
        gateway_.writing_ = true;
    }

    void appendData(wire::AppendDataReply& reply, const wire::AppendDataRequest& request) override {
        ++gateway_.appends_;
        const std::lock_guard<std::mutex> lock(gateway_.mutex_);
        auto [known, is_new] = gateway_.outcomes_.try_emplace(request.request_id);
        if (is_new) {
            known->second = outcome(request);
        }
        if (const auto& [code, kind] = known->second; code != 0) {
            throw error(code, kind.c_str());
        }
        reply.__set_position(request.expected_offset +
                             static_cast<std::int64_t>(request.data.size()));
    }

    void flushFile(wire::FlushFileReply& reply, const wire::FlushFileRequest&) override {
        check_room();
        reply.__set_replicas(3);
    }

    void closeFile(wire::CloseFileReply& reply, const wire::CloseFileRequest& request) override {
        gateway_.abandoned_ += request.abandon ? 1 : 0;
        ++gateway_.closed_;
        if (request.abandon) {
            gateway_.writing_ = false;
            return;
        }
        if (gateway_.writing_) {
            gateway_.writing_ = gateway_.full && gateway_.goes_on;
            check_room();
            reply.__set_replicas(2);
            if (gateway_.closed_length >= 0) {
                reply.__set_length(gateway_.closed_length);
            }
            return;
        }
        if (!gateway_.goes_on) {
            throw error(8, "InvalidArgument");
        }
        reply.__set_length(0);
    }

    void listDirectory(wire::ListDirectoryReply& reply,
                       const wire::ListDirectoryRequest& request) override {
        if (request.__isset.cursor && request.cursor != gateway_.incarnation_) {
            throw error(8, "InvalidArgument");
        }
        const auto entries = static_cast<std::size_t>(gateway_.page_entries.load());
        wire::FileInfo entry;
        entry.__set_path(gateway_.entry_path);
        reply.__set_entries(std::vector<wire::FileInfo>(entries, entry));
        reply.__set_cursor(gateway_.incarnation_);
    }

private:
    /// Code and kind of an append's error; 0 if it is taken.
    std::pair<int, std::string> outcome(const wire::AppendDataRequest& request) {
        const auto length = static_cast<std::int64_t>(gateway_.written_.size());
        const auto size = static_cast<std::int64_t>(request.data.size());
        if (request.is_retry && request.expected_offset + size == length) {
            return {0, ""}; // its first try is forgotten
        }
        if (request.expected_offset != length) {
            return {8, "InvalidArgument"};
        }
        if (gateway_.full) {
            return {11, "NoSpace"};
        }
        gateway_.written_ += request.data;
        if (gateway_.takes_and_refuses.exchange(false)) {
            return {13, "Unavailable"};
        }
        return {0, ""};
    }

    void check_room() const {
        if (gateway_.full) {
            throw error(11, "NoSpace");
        }
    }

    static wire::DfsError error(int code, const char* kind) {
        wire::DfsError error;
        error.__set_code(code);
        error.__set_kind(kind);
        error.__set_message("said the fake");
        return error;
    }

    FakeGateway& gateway_;
};

namespace {

struct Ready final : server::TServerEventHandler {
    std::promise<void> promise;
    void preServe() override { promise.set_value(); }
};

} // namespace

FakeGateway::FakeGateway(std::string content, std::string host)
    : content_(std::move(content)), host_(std::move(host)) {
    const auto socket = std::make_shared<transport::TServerSocket>(host_, 0);
    server_ = std::make_unique<server::TThreadedServer>(
        std::make_shared<wire::DfsV2Processor>(std::make_shared<Handler>(*this)), socket,
        std::make_shared<transport::TFramedTransportFactory>(),
        std::make_shared<protocol::TBinaryProtocolFactory>());
    const auto ready = std::make_shared<Ready>();
    server_->setServerEventHandler(ready);
    thread_ = std::thread([this] { server_->serve(); });
    ready->promise.get_future().wait();
    port_ = socket->getPort();
}

FakeGateway::~FakeGateway() {
    server_->stop();
    thread_.join();
}

std::string FakeGateway::written() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return written_;
}

std::string FakeGateway::token() const {
    return "token" + std::string(static_cast<std::size_t>(tokens_forgotten_), '+');
}

void FakeGateway::await_voice() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.notify_all();
    changed_.wait(lock, [&, round = round_] { return !silent_ || round_ != round; });
}

void FakeGateway::fall_silent() {
    const std::lock_guard<std::mutex> lock(mutex_);
    silent_ = true;
}

bool FakeGateway::await_sessions(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return sessions_ == count; });
}

void FakeGateway::resume() {
    const std::lock_guard<std::mutex> lock(mutex_);
    silent_ = false;
    changed_.notify_all();
}

void FakeGateway::resume_once() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++round_;
    changed_.notify_all();
}

std::string FakeGateway::address() const {
    return host_ + ":" + std::to_string(port_);
}

} // namespace testing
