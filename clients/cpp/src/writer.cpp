#include <strait/writer.hpp>

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "failure.hpp"
#include "read_ahead.hpp"
#include "writer_impl.hpp"

namespace strait {

using namespace detail;

namespace {

// No file is larger, and sums of offsets and sizes below it don't overflow.
constexpr std::int64_t max_position = std::int64_t{1} << 62;

std::int64_t checked_position(std::int64_t position, std::string_view path) {
    if (position < 0 || position > max_position) {
        raise(ErrorKind::Internal, "the gateway says the file ends at " + std::to_string(position),
              path);
    }
    return position;
}

template <class Reply>
std::optional<int> replicas_of(const Reply& reply) {
    return reply.__isset.replicas ? std::optional<int>(reply.replicas) : std::nullopt;
}

} // namespace

Writer::Impl::Impl(std::shared_ptr<Session> session, std::string_view path,
                   const wire::OpenWriterReply& opened)
    : session_(std::move(session)), path_(path), handle_(opened.handle),
      incarnation_(session_->incarnation()), process_(getpid()),
      chunk_(std::min(chunk_bytes, session_->max_chunk_bytes())),
      sent_(checked_position(opened.position, path)) {}

Writer::Impl::~Impl() {
    if (closed_ || process_ != getpid()) {
        return;
    }
    try {
        if (!refusal_) {
            close();
        }
    } catch (const std::exception&) {
        // An error has no receiver here.
    }
    abandon();
}

void Writer::Impl::check_usable() const {
    if (closed_) {
        raise(ErrorKind::InvalidArgument, "the file is closed", path_);
    }
    if (process_ != getpid()) {
        raise(ErrorKind::InvalidArgument, "a file open to write stays with its process", path_);
    }
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}

void Writer::Impl::write(const char* data, std::size_t size) {
    check_usable();
    while (size != 0) {
        const std::size_t count = std::min(size, chunk_ - pending_.size());
        if (count == chunk_ - pending_.size()) {
            // Before taking any byte of it, so that a failure leaves them all to the caller.
            settle(max_window - 1);
            pending_.reserve(chunk_);
        }
        pending_.append(data, count);
        data += count;
        size -= count;
        if (pending_.size() == chunk_) {
            send_pending();
        }
    }
}

std::optional<int> Writer::Impl::flush(wire::FlushMode::type mode) {
    check_usable();
    send_pending();
    settle(0);
    wire::FlushFileRequest request;
    request.__set_handle(handle_);
    request.__set_mode(mode);
    wire::FlushFileReply reply;
    explained([&] { reply = session_->call(request, path_); });
    refusal_.reset();
    return replicas_of(reply);
}

std::optional<int> Writer::Impl::close() {
    if (closed_ || process_ != getpid()) {
        return {};
    }
    try {
        check_usable();
        send_pending();
        settle(0);
        wire::CloseFileRequest request;
        request.__set_handle(handle_);
        wire::CloseFileReply reply;
        explained([&] { reply = session_->mutate(request, path_); });
        closed_ = true;
        if (reply.__isset.length && reply.length != sent_) {
            raise(ErrorKind::Internal,
                  "close: the file has " + std::to_string(reply.length) + " bytes instead of " +
                      std::to_string(sent_),
                  path_);
        }
        return replicas_of(reply);
    } catch (const Error& error) {
        if (!may_go_on(error)) {
            abandon();
        }
        throw;
    } catch (...) {
        abandon();
        throw;
    }
}

/// Unless it is closed, gives it up: bytes flushed before stay, others may.
void Writer::Impl::abandon() noexcept {
    if (std::exchange(closed_, true)) {
        return;
    }
    give_back();
    try {
        wire::CloseFileRequest request;
        request.__set_handle(handle_);
        request.__set_abandon(true);
        // With an id, the request runs even if the connection ends.
        request.__set_request_id(Session::new_request_id());
        session_->borrow(session_->parting())->send(request);
    } catch (const std::exception&) {
        // The first error is the one to report; the gateway drops the handle with the session.
    }
}

// -- Appends on their way

/// Sends them if all before them are on their way; otherwise the next step does.
void Writer::Impl::send_pending() {
    if (pending_.empty()) {
        return;
    }
    Append& request = kept_.emplace_back();
    request.__set_request_id(Session::new_request_id());
    request.__set_handle(handle_);
    request.__set_expected_offset(sent_);
    request.data = std::exchange(pending_, std::exchange(spare_, {}));
    request.__isset.data = true;
    sent_ += static_cast<std::int64_t>(request.data.size());
    if (awaited_ + 1 < kept_.size()) {
        return;
    }
    try {
        guarded([&](Deadline& deadline) {
            try {
                if (!connection_) {
                    connection_ = session_->borrow(deadline);
                }
                connection_->wait_until(deadline);
                connection_->send(request);
                ++awaited_;
            } catch (const ConnectionLost&) {
                give_back();
            }
        });
    } catch (const Error& error) {
        if (!may_go_on(error)) {
            throw;
        }
    }
}

/// Takes replies until at most `leave` appends are on their way, and none is to be sent.
void Writer::Impl::settle(std::size_t leave) {
    guarded([&](Deadline& deadline) {
        try {
            if (kept_.size() > awaited_) {
                repeat_all(deadline);
            }
            while (awaited_ > leave) {
                deadline = session_->deadline();
                connection_->wait_until(deadline);
                take_reply();
            }
        } catch (const ConnectionLost&) {
            repeat_all(deadline);
        }
    });
    if (kept_.empty()) {
        give_back();
    }
}

/// Of the first append.
void Writer::Impl::take_reply() {
    try {
        expect(connection_->receive<Append>(path_), kept_.front());
        done_with_first();
        --awaited_;
    } catch (const Error& error) {
        if (may_go_on(error)) {
            drain();
            renew();
        }
        throw;
    }
}

/// Takes the replies behind a refused append's: the gateway has refused those appends too. Unless
/// the store took the first one all the same; the next reply then says so.
void Writer::Impl::drain() {
    std::size_t taken = 0;
    for (std::size_t number = 1; number < awaited_; ++number) {
        try {
            if (is_of(kept_[number], connection_->receive<Append>(path_))) {
                taken = number + 1;
            }
        } catch (const ConnectionLost&) {
            break;
        } catch (const TimedOut&) {
            break;
        } catch (const Error&) {
            continue;
        }
    }
    while (taken-- != 0) {
        done_with_first();
    }
}

/// Makes new requests of all appends: the gateway remembers that it refused the old ones.
void Writer::Impl::renew() {
    for (Append& request : kept_) {
        request.__set_request_id(Session::new_request_id());
        request.__set_is_retry(true); // the store may have taken it all the same
    }
    give_back();
}

/// Repeats requests without a reply; the gateway recognises those it has executed. The deadline is
/// the first request's, which may have waited already.
void Writer::Impl::repeat_all(Deadline deadline) {
    give_back();
    while (!kept_.empty()) {
        Append& request = kept_.front();
        request.__set_is_retry(true);
        wire::AppendDataReply reply;
        session_->attempt({Method<Append>::name, path_, true}, deadline,
                          [&](Connection& connection, bool) {
                              connection.send(request);
                              try {
                                  reply = connection.receive<Append>(path_);
                              } catch (const Error& error) {
                                  if (may_go_on(error)) {
                                      renew();
                                  }
                                  throw;
                              }
                          });
        expect(reply, request);
        done_with_first();
        deadline = session_->deadline();
    }
}

bool Writer::Impl::is_of(const Append& request, const wire::AppendDataReply& reply) const {
    return reply.position ==
           request.expected_offset + static_cast<std::int64_t>(request.data.size());
}

void Writer::Impl::expect(const wire::AppendDataReply& reply, const Append& request) const {
    if (!is_of(request, reply)) {
        raise(ErrorKind::Internal, "the gateway counts other bytes than were sent", path_);
    }
}

void Writer::Impl::done_with_first() {
    spare_ = std::move(kept_.front().data);
    spare_.clear();
    kept_.pop_front();
    refusal_.reset();
}

void Writer::Impl::give_back() {
    awaited_ = 0;
    connection_.give_back();
}

bool Writer::Impl::may_go_on(const Error& error) const {
    return !failure_ &&
           (error.kind() == ErrorKind::NoSpace || error.kind() == ErrorKind::Unavailable);
}

/// Runs a step of the appends. The writer keeps its error, unless the file goes on.
template <class Step>
void Writer::Impl::guarded(Step step) {
    const auto end = [&] {
        failure_ = std::current_exception();
        kept_.clear();
        give_back();
    };
    try {
        Deadline deadline = session_->deadline();
        explained([&] {
            try {
                step(deadline);
            } catch (const TimedOut& error) {
                // The append may have arrived; another one would double its bytes.
                raise(ErrorKind::TimedOut, error.message(), path_, false);
            }
        });
    } catch (const Error& error) {
        if (may_go_on(error)) {
            give_back();
        } else {
            end();
        }
        throw;
    } catch (...) {
        end();
        throw;
    }
}

/// Runs a step, and converts its error for the caller, which doesn't know of handles. Remembers it
/// if the file goes on.
template <class Step>
void Writer::Impl::explained(Step step) {
    try {
        step();
    } catch (const Error& error) {
        const bool unknown_handle = error.kind() == ErrorKind::InvalidArgument;
        if (error.kind() == ErrorKind::Unauthenticated ||
            (unknown_handle && session_->incarnation() != incarnation_)) {
            raise(ErrorKind::OutcomeUnknown,
                  "the session that had the file open has ended; flushed bytes are in the file, "
                  "later ones may be (" +
                      error.message() + ")",
                  path_);
        }
        if (unknown_handle && refusal_) {
            // The store couldn't go on, and the gateway has closed the file.
            try {
                raise(refusal_->first,
                      "the file ended with an earlier error: " + refusal_->second + " (" +
                          error.message() + ")",
                      path_, false);
            } catch (...) {
                failure_ = std::current_exception();
                throw;
            }
        }
        if (may_go_on(error)) {
            refusal_.emplace(error.kind(), error.message());
        }
        throw;
    }
}

// -- The public interface

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

void Writer::write(const void* data, std::size_t size) {
    impl_->write(static_cast<const char*>(data), size);
}

std::optional<int> Writer::flush() {
    return impl_->flush(wire::FlushMode::FLUSH);
}
std::optional<int> Writer::sync() {
    return impl_->flush(wire::FlushMode::SYNC);
}
std::optional<int> Writer::close() {
    return impl_->close();
}
std::int64_t Writer::position() const noexcept {
    return impl_->position();
}
const std::string& Writer::path() const noexcept {
    return impl_->path();
}

} // namespace strait
