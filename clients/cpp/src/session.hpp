/// A session with a gateway: login, a pool of connections, and retries.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "connection.hpp"
#include "failure.hpp"
#include "login.hpp"

namespace strait::detail {

/// Tries of one request before a broken connection becomes the caller's error. With their pauses
/// they span 1.6 to 3.1 s: a gateway's restart.
constexpr int attempts = 6;

/// The pause after this attempt of several, counted from 1.
Clock::duration pause_after(int attempt);

class Session;

/// A connection for its holder only; returns to the session's pool.
class Lease {
public:
    Lease() = default;
    Lease(Session& session, std::unique_ptr<Connection> connection)
        : session_(&session), connection_(std::move(connection)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { give_back(); }

    void give_back() noexcept;
    explicit operator bool() const { return connection_ != nullptr; }
    Connection* operator->() const { return connection_.get(); }

private:
    Session* session_ = nullptr;
    std::unique_ptr<Connection> connection_;
};

/// For any number of threads; each has a connection to itself while it needs one.
class Session {
public:
    /// Logs in at once and without retries: a user who mistypes an address needs to know now.
    explicit Session(Endpoint endpoint);
    ~Session();

    /// One request and its reply, over a new connection if the old one broke.
    template <class Request>
    ReplyTo<Request> call(Request&& request, std::string_view path,
                          std::optional<Deadline> deadline = {}) {
        using Type = std::decay_t<Request>;
        ReplyTo<Type> reply;
        attempt({Method<Type>::name, path, IsMutation<Type>::value}, deadline,
                [&](Connection& connection, bool is_retry) {
                    if constexpr (IsMutation<Type>::value) {
                        if (is_retry) {
                            request.__set_is_retry(true);
                        }
                    }
                    reply = connection.call(request, path);
                });
        return reply;
    }

    /// `call` without retries, for a reply that can be received only once.
    template <class Request>
    ReplyTo<Request> call_once(const Request& request, std::string_view path) {
        try {
            return borrow(this->deadline())->call(request, path);
        } catch (const ConnectionLost& lost) {
            unavailable(lost, path);
        } catch (const TimedOut& error) {
            raise_at(error, path);
        }
    }

    /// `call` for a request that changes something.
    template <class Request>
    ReplyTo<Request> mutate(Request request, std::string_view path,
                            std::optional<Deadline> deadline = {}) {
        request.__set_request_id(new_request_id());
        return call(request, path, deadline);
    }

    /// The deadline of a request that begins now, including all its steps.
    Deadline deadline() const { return Clock::now() + endpoint_.options.timeout; }
    /// The deadline of a request that only cleans up: soon, if the gateway is silent.
    Deadline parting() const;

    struct Operation {
        const char* method;
        std::string_view path;
        bool is_mutation;
    };
    /// Retries while the connection breaks. Every request may be repeated: it either changes
    /// nothing, or carries the id by which the gateway recognises the repetition.
    void attempt(const Operation& operation, std::optional<Deadline> deadline,
                 const std::function<void(Connection&, bool is_retry)>& exchange);

    /// A connection for use until `deadline`. With `trusting`, it may be one that has ended a
    /// moment ago. If none is idle, opens another one: by `connect_by`, if that is given.
    Lease borrow(Deadline deadline, std::optional<Deadline> connect_by = {}, bool trusting = false);
    static std::string new_request_id();

    bool is_encrypted() const { return endpoint_.options.tls.has_value(); }
    std::string user() const;
    std::string token() const;
    StoreInfo store() const;
    /// Incarnation of the session on the gateway. If a handle has another one, the handle is gone.
    /// 0 if the gateway doesn't tell.
    std::int64_t incarnation() const;
    /// Most bytes of one readRange or appendData.
    std::size_t max_chunk_bytes() const;

    /// Ends the session, unless it is a parent process's or was given as a token.
    void close();
    bool is_closed() const;

private:
    friend class Lease;
    void give_back(std::unique_ptr<Connection> connection) noexcept;
    std::unique_ptr<Connection> idle_connection();
    std::unique_ptr<Connection> connect(Deadline deadline, std::optional<Deadline> connect_by);
    void check_secrecy(Connection& connection) const;
    void attach(Connection& connection, Deadline deadline);
    std::pair<std::string, unsigned> current() const; // token, and of which login
    bool attach_by(const std::string& token, Connection& connection, unsigned login);
    void log_in(Connection& connection, unsigned login);
    void open(Connection& connection, wire::OpenSessionRequest& request, unsigned login);
    void drop_idle() noexcept;
    [[noreturn]] void unavailable(const ConnectionLost& lost, std::string_view path = {}) const;

    const Endpoint endpoint_;
    const pid_t owner_;
    LoginInTurn turn_;
    std::atomic<int> silences_{0}; // requests in a row that got no answer in time
    mutable std::mutex mutex_;     // of all below
    std::vector<std::unique_ptr<Connection>> idle_;
    unsigned login_ = 0; // counts logins: connections of an older one aren't pooled
    bool closed_ = false;
    std::int64_t incarnation_ = 0;
    std::string token_, user_;
    StoreInfo store_;
    std::size_t max_chunk_bytes_;
};

} // namespace strait::detail
