#include <strait/reader.hpp>

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "failure.hpp"
#include "reader_impl.hpp"

namespace strait {

using namespace detail;

namespace {

// Memory that read_all allocates by a file's claimed length; beyond it, as much again as it has
// received.
constexpr std::size_t believed_bytes = 64 << 20;

} // namespace

Reader::Impl::Impl(std::shared_ptr<Session> session, std::string_view path, std::size_t window)
    : session_(std::move(session)), path_(path), window_(window), process_(getpid()) {
    open();
}

Reader::Impl::~Impl() {
    close();
}

void Reader::Impl::open(std::optional<Deadline> deadline) {
    wire::OpenFileRequest request;
    request.__set_path(path_);
    const auto reply = session_->call(request, path_, deadline);
    if (reply.length < length_) {
        raise(ErrorKind::Unavailable, "the file was replaced by a shorter one", path_, false);
    }
    if (!identity_.empty() && reply.__isset.identity && reply.identity != identity_) {
        raise(ErrorKind::Unavailable, "the file was replaced by another", path_, false);
    }
    handle_ = reply.handle;
    length_ = reply.length;
    if (reply.__isset.identity) {
        identity_ = reply.identity;
    }
}

void Reader::Impl::check_open() const {
    if (closed_) {
        raise(ErrorKind::InvalidArgument, "the file is closed", path_);
    }
}

void Reader::Impl::close() noexcept {
    if (std::exchange(closed_, true)) {
        return;
    }
    ahead_.reset();
    if (process_ != getpid()) {
        return; // the handle is the parent's too
    }
    try {
        wire::CloseFileRequest request;
        request.__set_handle(handle_);
        session_->borrow(session_->parting())->call(request, path_);
    } catch (const std::exception&) {
        // The gateway drops it with the session.
    }
}

std::size_t Reader::Impl::chunk() const {
    return std::min(chunk_bytes, session_->max_chunk_bytes());
}

// -- Reading

std::size_t Reader::Impl::read(char* into, std::size_t size) {
    std::size_t filled = 0;
    while (filled < size) {
        const std::size_t count = read_some(into + filled, size - filled);
        if (count == 0) {
            break;
        }
        filled += count;
    }
    return filled;
}

std::size_t Reader::Impl::read_some(char* into, std::size_t size) {
    check_open();
    if (size == 0) {
        return 0;
    }
    const Deadline deadline = session_->deadline();
    std::size_t count = read_ahead(into, size, deadline);
    if (count == 0) {
        count = read_once(position_, into, std::min(size, chunk()), deadline);
    }
    position_ += static_cast<std::int64_t>(count);
    sequential_from_ = position_;
    return count;
}

std::size_t Reader::Impl::read_at(std::int64_t offset, char* into, std::size_t size) {
    check_open();
    std::size_t filled = 0;
    if (size > chunk() && offset >= 0 && offset < length_) {
        const auto room = static_cast<std::uint64_t>(length_ - offset);
        const auto end = offset + static_cast<std::int64_t>(std::min<std::uint64_t>(size, room));
        std::optional<ReadAhead> range;
        try {
            range.emplace(session_->borrow(session_->deadline()), handle_, offset, end, chunk(),
                          max_window, path_);
            while (const std::size_t count =
                       range->read(into + filled, size - filled, session_->deadline())) {
                filled += count;
            }
        } catch (const ConnectionLost&) {
        } catch (const TimedOut& error) {
            if (!range || range->connection()->is_broken()) {
                raise_at(error, path_); // the time is over for another try too
            }
        } catch (const Error&) {
            // Here and above: single requests, with retries, continue or report the error.
        }
    }
    while (filled < size) {
        const auto from = offset + static_cast<std::int64_t>(filled);
        const std::size_t count =
            read_once(from, into + filled, size - filled, session_->deadline());
        if (count == 0) {
            break;
        }
        filled += count;
    }
    return filled;
}

/// Bytes from the requests in flight; 0 if the read isn't sequential, or they ended.
std::size_t Reader::Impl::read_ahead(char* into, std::size_t size, Deadline deadline) {
    if (ahead_ && ahead_->is_a_parents()) {
        ahead_.reset();
    }
    const bool sequential = sequential_from_ == position_ || size >= chunk();
    if (!sequential || position_ >= length_) {
        ahead_.reset();
        return 0;
    }
    std::size_t count = 0;
    try {
        if (!ahead_) {
            const std::size_t window = std::max(window_, size / chunk());
            ahead_.emplace(*session_, deadline, handle_, position_, length_, chunk(), window,
                           path_);
        }
        count = ahead_->read(into, size, deadline);
    } catch (const ConnectionLost&) {
    } catch (const TimedOut& error) {
        const bool is_over = !ahead_ || ahead_->is_broken();
        ahead_.reset();
        if (is_over) {
            raise_at(error, path_); // for another try too
        }
    } catch (const Error&) {
        // Here and above: a single request, with its retries, tries again or reports the error.
    }
    if (count == 0) {
        ahead_.reset();
    }
    return count;
}

std::size_t Reader::Impl::read_once(std::int64_t offset, char* into, std::size_t size,
                                    Deadline deadline) {
    size = std::min(size, session_->max_chunk_bytes());
    std::string why;
    for (int attempt = 0; attempt != attempts; ++attempt) {
        if (attempt > 1) {
            std::this_thread::sleep_for(pause_after(attempt - 1));
        }
        const std::int64_t handle = handle_;
        try {
            return request_range(offset, into, size, deadline);
        } catch (const Error& error) {
            const bool may_be_the_handle = error.kind() == ErrorKind::InvalidArgument ||
                                           error.kind() == ErrorKind::NotFound ||
                                           error.kind() == ErrorKind::Unauthenticated;
            if (offset < 0 || !may_be_the_handle) {
                throw;
            }
            why = error.message();
        }
        // The handle is gone, for example because the session ended.
        const std::lock_guard<std::mutex> lock(opening_);
        if (handle_ == handle) {
            open(deadline);
        }
    }
    raise(ErrorKind::Unavailable,
          "the gateway restarts, or ends the session, again and again; try again later (" + why +
              ")",
          path_);
}

std::size_t Reader::Impl::request_range(std::int64_t offset, char* into, std::size_t size,
                                        Deadline deadline) {
    wire::ReadRangeRequest request;
    request.__set_handle(handle_);
    request.__set_offset(offset);
    request.__set_length(static_cast<std::int32_t>(size));
    std::size_t count = 0;
    session_->attempt({"readRange", path_, false}, deadline, [&](Connection& connection, bool) {
        connection.send(request);
        count = connection.receive_range(into, size, path_);
    });
    return count;
}

void Reader::Impl::seek(std::int64_t offset) {
    check_open();
    if (offset < 0) {
        raise(ErrorKind::InvalidArgument, "a negative position", path_);
    }
    position_ = offset;
    if (offset != sequential_from_) {
        ahead_.reset();
        sequential_from_ = -1;
    }
}

// -- The public interface

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

std::size_t Reader::read(void* into, std::size_t size) {
    return impl_->read(static_cast<char*>(into), size);
}

std::size_t Reader::read_some(void* into, std::size_t size) {
    return impl_->read_some(static_cast<char*>(into), size);
}

std::size_t Reader::read_at(std::int64_t offset, void* into, std::size_t size) const {
    return impl_->read_at(offset, static_cast<char*>(into), size);
}

std::string Reader::read_all() {
    std::string rest;
    std::size_t filled = 0;
    while (filled == rest.size() && tell() < length()) {
        const auto left = static_cast<std::uint64_t>(length() - tell());
        rest.resize(filled + std::min<std::uint64_t>(left, std::max(filled, believed_bytes)));
        filled += read(rest.data() + filled, rest.size() - filled);
    }
    rest.resize(filled);
    // Bytes appended since it was opened; ends with an empty read.
    std::string more(chunk_bytes, '\0');
    while (const std::size_t count = read(more.data(), more.size())) {
        rest.append(more, 0, count);
    }
    return rest;
}

void Reader::seek(std::int64_t offset) {
    impl_->seek(offset);
}
std::int64_t Reader::tell() const noexcept {
    return impl_->position();
}
std::int64_t Reader::length() const noexcept {
    return impl_->length();
}
const std::string& Reader::path() const noexcept {
    return impl_->path();
}
void Reader::close() noexcept {
    impl_->close();
}

} // namespace strait
