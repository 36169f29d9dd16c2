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

} // namespace

Writer::Impl::Impl(std::shared_ptr<Session> session, std::string_view path,
                   const wire::OpenWriterReply& opened)
    : session_(std::move(session)), path_(path), handle_(opened.handle),
      incarnation_(session_->incarnation()), process_(getpid()),
      sent_(checked_position(opened.position, path)) {}

Writer::Impl::~Impl() {
    try {
        close();
    } catch (const std::exception&) {
        // An error has no receiver here.
    }
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
    const std::size_t chunk = std::min(chunk_bytes, session_->max_chunk_bytes());
    while (size != 0) {
        const std::size_t count = std::min(size, chunk - pending_.size());
        if (pending_.empty() && count == chunk) {
            pending_.reserve(chunk);
        }
        pending_.append(data, count);
        data += count;
        size -= count;
        if (pending_.size() == chunk) {
            send_pending();
        }
    }
}

void Writer::Impl::flush(wire::FlushMode::type mode) {
    check_usable();
    send_pending();
    collect(0);
    wire::FlushFileRequest request;
    request.__set_handle(handle_);
    request.__set_mode(mode);
    explained([&] { session_->call(request, path_); });
}

void Writer::Impl::close() {
    if (closed_ || process_ != getpid()) {
        return;
    }
    try {
        check_usable();
        send_pending();
        collect(0);
    } catch (...) {
        closed_ = true;
        connection_.give_back();
        try {
            close_handle();
        } catch (...) {
            // The first error is the one to report; the gateway drops the handle with the session.
        }
        throw;
    }
    closed_ = true;
    wire::CloseFileRequest request;
    request.__set_handle(handle_);
    explained([&] { session_->mutate(request, path_); });
}

void Writer::Impl::close_handle() {
    wire::CloseFileRequest request;
    request.__set_handle(handle_);
    session_->borrow(session_->parting())->call(request, path_);
}

// -- Requests in flight

void Writer::Impl::send_pending() {
    if (pending_.empty()) {
        return;
    }
    Append& request = in_flight_.emplace_back();
    request.__set_request_id(Session::new_request_id());
    request.__set_handle(handle_);
    request.__set_expected_offset(sent_);
    request.data = std::exchange(pending_, std::exchange(spare_, {}));
    request.__isset.data = true;
    sent_ += static_cast<std::int64_t>(request.data.size());
    guarded([&](Deadline& deadline) {
        if (!connection_) {
            connection_ = session_->borrow(deadline);
        }
        connection_->wait_until(deadline);
        connection_->send(request);
    });
    collect(max_window - 1);
}

/// Takes replies until at most `leave` appends are in flight.
void Writer::Impl::collect(std::size_t leave) {
    guarded([&](Deadline& deadline) {
        while (in_flight_.size() > leave) {
            deadline = session_->deadline();
            connection_->wait_until(deadline);
            expect(connection_->receive<Append>(path_), in_flight_.front());
            done_with_first();
        }
    });
    if (in_flight_.empty()) {
        connection_.give_back();
    }
}

/// Repeats requests without a reply; the gateway recognises those it has executed. The deadline is
/// the first request's, which has waited already.
void Writer::Impl::repeat_all(Deadline deadline) {
    connection_.give_back();
    while (!in_flight_.empty()) {
        Append& request = in_flight_.front();
        request.__set_is_retry(true);
        expect(session_->call(request, path_, deadline), request);
        done_with_first();
        deadline = session_->deadline();
    }
}

void Writer::Impl::expect(const wire::AppendDataReply& reply, const Append& request) const {
    if (reply.position !=
        request.expected_offset + static_cast<std::int64_t>(request.data.size())) {
        raise(ErrorKind::Internal, "the gateway counts other bytes than were sent", path_);
    }
}

void Writer::Impl::done_with_first() {
    spare_ = std::move(in_flight_.front().data);
    spare_.clear();
    in_flight_.pop_front();
}

/// Runs a step of the exchange. It repairs a broken connection; the writer keeps any other error.
template <class Step>
void Writer::Impl::guarded(Step step) {
    try {
        explained([&] {
            Deadline deadline = session_->deadline();
            try {
                step(deadline);
            } catch (const ConnectionLost&) {
                repeat_all(deadline);
            }
        });
    } catch (...) {
        failure_ = std::current_exception();
        in_flight_.clear();
        connection_.give_back();
        throw;
    }
}

/// Runs a step, and converts its error for the caller, which doesn't know of handles.
template <class Step>
void Writer::Impl::explained(Step step) const {
    try {
        step();
    } catch (const Error& error) {
        const bool unknown_handle = error.kind() == ErrorKind::InvalidArgument;
        if (error.kind() == ErrorKind::Unauthenticated ||
            (unknown_handle && session_->incarnation() != incarnation_)) {
            raise(ErrorKind::OutcomeUnknown,
                  "the session that had the file open has ended; what was flushed is in the file, "
                  "what was written since may be (" +
                      error.message() + ")",
                  path_);
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

void Writer::flush() {
    impl_->flush(wire::FlushMode::FLUSH);
}
void Writer::sync() {
    impl_->flush(wire::FlushMode::SYNC);
}
void Writer::close() {
    impl_->close();
}
std::int64_t Writer::position() const noexcept {
    return impl_->position();
}
const std::string& Writer::path() const noexcept {
    return impl_->path();
}

} // namespace strait
