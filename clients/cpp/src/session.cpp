#include "session.hpp"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "convert.hpp"
#include "failure.hpp"

namespace strait::detail {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr std::chrono::milliseconds first_pause(100);
// Time limit for cleanup requests (an open handle, the session, a temporary file) once the gateway
// has left a request unanswered. After a second one there is no time.
constexpr std::chrono::seconds parting_patience(2);
// Most idle connections that are kept. Few callers are concurrent, and the gateway has a limited
// number of connections.
constexpr std::size_t max_idle_connections = 8;
// Used if the gateway doesn't report its limit.
constexpr std::size_t default_chunk_bytes = 4 << 20;
// Bytes of a mutation's request id; random, so that no two clients share one.
constexpr std::size_t request_id_bytes = 16;

/// Throws the error of a change that was sent, if no gateway can be asked about it.
[[noreturn]] void raise_unknown(const Session::Operation& operation, const std::string& why) {
    raise(ErrorKind::OutcomeUnknown,
          std::string(operation.method) +
              ": the connection broke, and no gateway tells whether it was done (" + why + ")",
          operation.path);
}

} // namespace

Clock::duration pause_after(int attempt) {
    // Half of it is random, so that the clients of one gateway don't return at once.
    thread_local std::minstd_rand random(std::random_device{}());
    std::uniform_real_distribution<> part(0.5, 1);
    return std::chrono::duration_cast<Clock::duration>(first_pause * (1 << (attempt - 1)) *
                                                       part(random));
}

Lease& Lease::operator=(Lease&& other) noexcept {
    give_back();
    session_ = other.session_;
    connection_ = std::move(other.connection_);
    return *this;
}

void Lease::give_back() noexcept {
    if (connection_) {
        session_->give_back(std::move(connection_));
    }
}

Session::Session(Endpoint endpoint)
    : endpoint_(std::move(endpoint)), owner_(getpid()), token_(endpoint_.options.token),
      max_chunk_bytes_(default_chunk_bytes) {
    try {
        give_back(connect(deadline(), {}));
    } catch (const ConnectionLost& lost) {
        unavailable(lost);
    }
}

Session::~Session() {
    try {
        close();
    } catch (const std::exception&) {
        // An error has no receiver here.
    }
}

// -- Requests

Deadline Session::parting() const {
    if (silences_ == 0) {
        return deadline();
    }
    const Deadline now = Clock::now();
    return silences_ == 1 ? std::min(deadline(), now + parting_patience) : now;
}

void Session::attempt(const Operation& operation, std::optional<Deadline> given,
                      const std::function<void(Connection&, bool is_retry)>& exchange) {
    const Deadline began = Clock::now(), deadline = given.value_or(this->deadline());
    std::optional<Deadline> connect_by; // once a connection was lost
    bool sent = false, renewed = false;
    for (int attempt = 1;; ++attempt) {
        bool connecting = true;
        try {
            const Lease connection = borrow(deadline, connect_by, !operation.is_mutation);
            connecting = false;
            exchange(*connection.operator->(), sent);
            return;
        } catch (const ConnectionLost& lost) {
            if (!connect_by) {
                // If a gateway doesn't accept connections now, wait for it once.
                const Deadline since = lost.sent ? Clock::now() : began;
                connect_by = std::min(deadline, since + endpoint_.options.connect_timeout);
            }
            sent = sent || lost.sent;
            drop_idle();
            const Clock::duration pause = pause_after(attempt);
            if (attempt == attempts || Clock::now() + pause >= *connect_by) {
                ++silences_;
                if (sent && operation.is_mutation) {
                    raise_unknown(operation, lost.reason);
                }
                unavailable(lost, operation.path);
            }
            std::this_thread::sleep_for(pause);
        } catch (const Error& error) {
            if (error.kind() == ErrorKind::Unauthenticated && !std::exchange(renewed, true)) {
                // The session idled out, or its gateway was replaced.
                drop_idle();
                continue;
            }
            if (connecting && sent && operation.is_mutation) {
                raise_unknown(operation, error.message());
            }
            if (error.kind() == ErrorKind::TimedOut) {
                raise(error.kind(), error.message(), operation.path, !operation.is_mutation);
            }
            throw;
        }
    }
}

std::string Session::new_request_id() {
    std::string id(request_id_bytes, '\0');
    if (getentropy(id.data(), id.size()) != 0) {
        raise(ErrorKind::Internal, "the system has no random bytes");
    }
    return id;
}

// -- Connections

Lease Session::borrow(Deadline deadline, std::optional<Deadline> connect_by, bool trusting) {
    while (auto connection = idle_connection()) {
        const bool is_trusted = trusting && connection->is_fresh();
        if (!connection->is_a_parents() && (is_trusted || !connection->ended_while_idle())) {
            connection->wait_until(deadline);
            return {*this, std::move(connection)};
        }
    }
    return {*this, connect(deadline, connect_by)};
}

std::unique_ptr<Connection> Session::idle_connection() {
    const Lock lock(mutex_);
    if (closed_) {
        raise(ErrorKind::InvalidArgument, "the client is closed");
    }
    if (idle_.empty()) {
        return nullptr;
    }
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
}

void Session::give_back(std::unique_ptr<Connection> connection) noexcept {
    const Lock lock(mutex_);
    if (connection->is_clean() && !connection->is_a_parents() && connection->login == login_ &&
        !closed_ && idle_.size() < max_idle_connections) {
        idle_.push_back(std::move(connection));
    }
}

void Session::drop_idle() noexcept {
    std::vector<std::unique_ptr<Connection>> dropped;
    const Lock lock(mutex_);
    dropped.swap(idle_);
}

/// A new connection, attached to the session.
std::unique_ptr<Connection> Session::connect(Deadline deadline,
                                             std::optional<Deadline> connect_by) {
    const Deadline limit =
        std::min(connect_by.value_or(deadline), Clock::now() + endpoint_.options.connect_timeout);
    auto connection = std::make_unique<Connection>(endpoint_, limit, silences_);
    connection->wait_until(deadline);
    check_secrecy(*connection);
    try {
        attach(*connection, deadline);
    } catch (const ConnectionLost& lost) {
        // The caller's own request wasn't sent yet.
        throw ConnectionLost(lost.reason, false, lost.tls, connection->never_answered());
    }
    return connection;
}

/// Refuses to send credentials over links that others could read.
void Session::check_secrecy(Connection& connection) const {
    const Options& options = endpoint_.options;
    const bool is_secret = !options.password.empty() || !options.token.empty();
    if (is_secret && !options.tls && !connection.leads_to_this_machine()) {
        raise(ErrorKind::Unauthenticated,
              "a password or token isn't sent to another machine in the clear; use TLS "
              "(Options::tls)");
    }
}

/// Attaches by the session's token, in parallel with other threads; or by a login that serves all
/// of them.
void Session::attach(Connection& connection, Deadline deadline) {
    std::optional<unsigned> refused; // the login whose token isn't good any more
    while (true) {
        const auto [token, login] = current();
        if (!token.empty() && refused != login) {
            if (attach_by(token, connection, login)) {
                return;
            }
            refused = login;
        }
        bool is_ours = false;
        try {
            turn_.run(deadline, [&, login = login] {
                is_ours = current().second == login;
                if (is_ours) {
                    log_in(connection, login + 1);
                }
            });
        } catch (const Silence&) {
            raise_no_answer(Method<wire::OpenSessionRequest>::name, endpoint_.address(),
                            endpoint_.options.timeout);
        }
        if (is_ours) {
            return;
        }
        // Another thread has logged in meanwhile; its token serves this one, too.
    }
}

std::pair<std::string, unsigned> Session::current() const {
    const Lock lock(mutex_);
    return {token_, login_};
}

/// Attaches by a token. False if the gateway refuses it, so that a new login is needed. But if the
/// program gave the token in its options, that is an error, since the client can't get a new one.
bool Session::attach_by(const std::string& token, Connection& connection, unsigned login) {
    wire::OpenSessionRequest request;
    request.__set_token(token);
    try {
        open(connection, request, login);
        return true;
    } catch (const Unauthenticated&) {
        if (!endpoint_.options.token.empty() || connection.is_broken()) {
            throw;
        }
        return false;
    }
}

void Session::log_in(Connection& connection, unsigned login) {
    const Options& options = endpoint_.options;
    wire::OpenSessionRequest request;
    if (!options.store.empty()) {
        request.__set_store(options.store);
    }
    if (!options.user.empty()) {
        request.__set_user(options.user);
    }
    if (!options.password.empty()) {
        request.__set_password(options.password);
    }
    open(connection, request, login);
}

void Session::open(Connection& connection, wire::OpenSessionRequest& request, unsigned login) {
    request.__set_version(wire::ProtocolVersion::V1);
    const auto reply = connection.call(request, {});
    connection.login = login;
    const Lock lock(mutex_);
    if (login < login_) {
        return; // of a session that another login has replaced meanwhile
    }
    login_ = login;
    incarnation_ = reply.incarnation;
    token_ = reply.token;
    user_ = reply.user;
    if (reply.__isset.store) {
        store_ = converted(reply.store);
    }
    if (reply.limits.max_chunk_bytes > 0) {
        max_chunk_bytes_ = static_cast<std::size_t>(reply.limits.max_chunk_bytes);
    }
}

void Session::unavailable(const ConnectionLost& lost, std::string_view path) const {
    const std::string where = endpoint_.address();
    const auto advice = lost.unanswered && !endpoint_.options.tls
                            ? "is it running, is the address right, and does it serve TLS only?"
                            : "is it running, and is the address right?";
    raise(ErrorKind::Unavailable,
          lost.tls ? "TLS with " + where + ": " + lost.reason
                   : "no gateway at " + where + " (" + lost.reason + "); " + advice,
          path);
}

// -- The session

std::string Session::user() const {
    const Lock lock(mutex_);
    return user_;
}

std::string Session::token() const {
    const Lock lock(mutex_);
    return token_;
}

StoreInfo Session::store() const {
    const Lock lock(mutex_);
    return store_;
}

std::int64_t Session::incarnation() const {
    const Lock lock(mutex_);
    return incarnation_;
}

std::size_t Session::max_chunk_bytes() const {
    const Lock lock(mutex_);
    return max_chunk_bytes_;
}

bool Session::is_closed() const {
    const Lock lock(mutex_);
    return closed_;
}

void Session::close() {
    if (is_closed()) {
        return;
    }
    const auto mark_closed = [this] {
        {
            const Lock lock(mutex_);
            closed_ = true;
        }
        drop_idle();
    };
    try {
        if (owner_ == getpid() && endpoint_.options.token.empty()) {
            const Lease connection = borrow(parting());
            connection->call(wire::CloseSessionRequest(), {});
        }
    } catch (const ConnectionLost&) {
        // The session is gone already, here and below; but a file that fails to close is an error.
    } catch (const TimedOut&) {
    } catch (const Unauthenticated&) {
    } catch (...) {
        mark_closed();
        throw;
    }
    mark_closed();
}

} // namespace strait::detail
