/// One connection to a gateway.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "endpoint.hpp"
#include "methods.hpp"
#include "transport.hpp"

namespace strait::detail {

/// For one caller at a time; replies arrive in the order of requests.
///
/// Throws ConnectionLost, TimedOut and the errors that the gateway reports.
class Connection {
public:
    /// Connects to a gateway until `connect_by`. `silences` counts consecutive requests, on all
    /// connections of the session, without an answer in time.
    Connection(const Endpoint& endpoint, Deadline connect_by, std::atomic<int>& silences);

    /// Sets the deadline for all further sending and receiving, which throw TimedOut after it.
    void wait_until(Deadline deadline) { transport_->socket().wait_until(deadline); }
    /// The deadline of a request that begins now.
    Deadline deadline() const { return Clock::now() + timeout_; }

    /// Each send needs its `receive`, in the same order.
    template <class Request>
    void send(const Request& request) {
        exchange(Method<Request>::name, [&] { (client_.*Method<Request>::send)(request); });
        ++in_flight_;
    }

    /// The next reply. `path` is for an error without one.
    template <class Request>
    ReplyTo<Request> receive(std::string_view path) {
        ReplyTo<Request> reply;
        receive(Method<Request>::name, path, {},
                [&] { (client_.*Method<Request>::receive)(reply); });
        return reply;
    }

    /// The next reply, to a readRange of `size` bytes at most; returns the bytes received.
    std::size_t receive_range(char* into, std::size_t size, std::string_view path);

    template <class Request>
    ReplyTo<Request> call(Request request, std::string_view path) {
        // Not in those of a stream: the time of each begins with the reply before it.
        if constexpr (!std::is_same_v<Request, wire::ReadRangeRequest> &&
                      !std::is_same_v<Request, wire::AppendDataRequest>) {
            request.__set_deadline_ms(transport_->socket().left_ms());
        }
        send(request);
        return receive<Request>(path);
    }

    bool leads_to_this_machine() { return transport_->socket().leads_to_this_machine(); }
    /// Whether no reply has come over it.
    bool never_answered() const { return last_reply_ == std::chrono::steady_clock::time_point(); }
    /// Whether its last reply arrived a moment ago.
    bool is_fresh() const;
    /// Whether the gateway closed it since the last reply, as it does at a restart. If this is
    /// detected before a request is sent, the request can't have been executed.
    bool ended_while_idle();
    /// Ends it while another thread uses it.
    void interrupt();
    /// Whether a further request can be sent and will get its own reply.
    bool is_clean() const { return !broken_ && !interrupted_ && in_flight_ == 0; }
    bool is_broken() const { return broken_; }
    /// Whether this process is a forked child, which would take its parent's replies.
    bool is_a_parents() const;

    /// Number of the session's login that it is attached by.
    unsigned login = 0;

private:
    using Step = std::function<void()>;
    void exchange(const char* method, const Step& step);
    Transport::Sink receive(const char* method, std::string_view path, Transport::Sink sink,
                            const Step& decode);

    std::shared_ptr<Transport> transport_;
    wire::DfsV2Client client_;
    const std::string gateway_; // its address, for messages
    const std::chrono::milliseconds timeout_;
    std::atomic<int>& silences_;
    const pid_t process_;
    std::size_t in_flight_ = 0; // requests whose reply hasn't come yet
    std::chrono::steady_clock::time_point last_reply_;
    bool broken_ = false;
    std::atomic<bool> interrupted_{false};
};

} // namespace strait::detail
