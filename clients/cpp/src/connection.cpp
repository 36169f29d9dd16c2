#include "connection.hpp"

#include <unistd.h>

#include <utility>

#include <thrift/TApplicationException.h>

#include "failure.hpp"
#include "protocol.hpp"

namespace strait::detail {

namespace {

// For this long after a reply, a request that changes nothing skips the check for the connection's
// end. The check costs a system call, and a retry handles an end in between. (A change would then
// count as repeated, and its outcome might be unknown.)
constexpr std::chrono::milliseconds fresh(50);

} // namespace

using apache::thrift::TApplicationException;

Connection::Connection(const Endpoint& endpoint, Deadline connect_by, std::atomic<int>& silences)
    : transport_(std::make_shared<Transport>(Socket::connect(endpoint, connect_by),
                                             is_framed(endpoint.options.wire))),
      client_(protocol_of(endpoint.options.wire, transport_)), gateway_(endpoint.address()),
      timeout_(endpoint.options.timeout), silences_(silences), process_(getpid()) {}

bool Connection::is_fresh() const {
    return std::chrono::steady_clock::now() - last_reply_ < fresh;
}

bool Connection::ended_while_idle() {
    return transport_->socket().readable();
}

void Connection::interrupt() {
    interrupted_ = true;
    transport_->socket().interrupt();
}

bool Connection::is_a_parents() const {
    return process_ != getpid();
}

std::size_t Connection::receive_range(char* into, std::size_t size, std::string_view path) {
    wire::ReadRangeReply reply;
    const Transport::Sink sink{reinterpret_cast<std::uint8_t*>(into),
                               static_cast<std::uint32_t>(size), 0};
    return receive(Method<wire::ReadRangeRequest>::name, path, sink,
                   [&] { client_.recv_readRange(reply); })
        .filled;
}

/// Sends or decodes; any failure in the middle of a message ends the connection.
void Connection::exchange(const char* method, const Step& step) {
    const bool was_broken = std::exchange(broken_, true);
    try {
        step();
        broken_ = was_broken;
    } catch (const Silence&) {
        ++silences_;
        raise_no_answer(method, gateway_, timeout_);
    } catch (const apache::thrift::TException& error) {
        // The bytes aren't a message of the protocol.
        throw ConnectionLost(error.what(), true);
    }
}

Transport::Sink Connection::receive(const char* method, std::string_view path, Transport::Sink sink,
                                    const Step& decode) {
    // Errors that the gateway reports arrive in whole, well-formed replies too.
    std::optional<wire::DfsError> reported;
    std::optional<TApplicationException> refused;
    exchange(method, [&] {
        transport_->begin_reply(sink);
        try {
            decode();
        } catch (const wire::DfsError& error) {
            reported = error;
        } catch (const TApplicationException& error) {
            refused = error;
        }
        sink = transport_->end_reply();
    });
    --in_flight_;
    last_reply_ = std::chrono::steady_clock::now();
    silences_ = 0;
    if (reported) {
        const auto& isset = reported->__isset;
        raise_reported(reported->code, reported->kind, reported->message,
                       reported->path.empty() ? path : reported->path,
                       isset.retry_safe ? std::optional(reported->retry_safe) : std::nullopt);
    }
    if (refused) {
        const bool unknown = refused->getType() == TApplicationException::UNKNOWN_METHOD;
        raise(unknown ? ErrorKind::Unsupported : ErrorKind::Internal,
              std::string(method) + ": " + refused->what(), path);
    }
    return sink;
}

} // namespace strait::detail
