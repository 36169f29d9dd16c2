#include <strait/errors.hpp>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "failure.hpp"

namespace strait {

struct Error::Details {
    ErrorKind kind;
    std::string kind_name;
    std::string message;
    std::string path;
    bool retry_safe;
    std::string text = path.empty() ? message : path + ": " + message;
};

namespace detail {
namespace {

using Details = std::shared_ptr<const Error::Details>;

template <ErrorKind Kind>
[[noreturn]] void throw_as(Details details) {
    throw ErrorOf<Kind>(std::move(details));
}

/// One row of the table of errors, as in the crate strait-store.
struct Row {
    const char* name;
    int number; // errno
    bool retry_safe;
    void (*raise)(Details);
};

#define STRAIT_ROW(kind, number, retry_safe)                                                       \
    Row {                                                                                          \
#kind, number, retry_safe, throw_as < ErrorKind::kind>                                     \
    }

// In the order of ErrorKind, which begins at 1.
constexpr std::array table = {
    STRAIT_ROW(NotFound, ENOENT, false),
    STRAIT_ROW(AlreadyExists, EEXIST, false),
    STRAIT_ROW(NotADirectory, ENOTDIR, false),
    STRAIT_ROW(IsADirectory, EISDIR, false),
    STRAIT_ROW(NotEmpty, ENOTEMPTY, false),
    STRAIT_ROW(PermissionDenied, EACCES, false),
    STRAIT_ROW(Unauthenticated, 126, false), // ENOKEY, which is Linux's alone
    STRAIT_ROW(InvalidArgument, EINVAL, false),
    STRAIT_ROW(Unsupported, EOPNOTSUPP, false),
    STRAIT_ROW(Busy, EBUSY, true),
    STRAIT_ROW(NoSpace, ENOSPC, false),
    STRAIT_ROW(TimedOut, ETIMEDOUT, true),
    STRAIT_ROW(Unavailable, EHOSTUNREACH, true),
    STRAIT_ROW(Corrupt, EBADMSG, false),
    STRAIT_ROW(OutcomeUnknown, ECONNABORTED, false),
    STRAIT_ROW(Internal, EIO, false),
};
#undef STRAIT_ROW

const Row& row(ErrorKind kind) {
    return table[static_cast<std::size_t>(kind) - 1];
}

} // namespace

void raise(ErrorKind kind, const std::string& message, std::string_view path,
           std::optional<bool> retry_safe) {
    const Row& of = row(kind);
    of.raise(std::make_shared<Error::Details>(Error::Details{
        kind, of.name, message, std::string(path), retry_safe.value_or(of.retry_safe)}));
    std::abort(); // unreachable: that threw
}

void raise_reported(int code, const std::string& kind_name, const std::string& message,
                    std::string_view path, std::optional<bool> retry_safe) {
    if (code >= 1 && code <= static_cast<int>(table.size())) {
        raise(static_cast<ErrorKind>(code), message, path, retry_safe);
    }
    throw Error(std::make_shared<Error::Details>(
        Error::Details{ErrorKind::Internal, kind_name.empty() ? "Internal" : kind_name, message,
                       std::string(path), retry_safe.value_or(false)}));
}

void raise_no_answer(const char* method, const std::string& gateway,
                     std::chrono::milliseconds timeout) {
    raise(ErrorKind::TimedOut,
          std::string(method) + ": no complete answer from " + gateway + " within " +
              std::to_string(timeout.count()) +
              " ms; the gateway may be overloaded or gone: look at it, or allow a longer timeout");
}

void raise_at(const Error& error, std::string_view path) {
    raise(error.kind(), error.message(), error.path().empty() ? path : error.path(),
          error.retry_safe());
}

} // namespace detail

Error::Error(std::shared_ptr<const Details> details)
    : std::system_error(detail::row(details->kind).number, std::generic_category()),
      details_(std::move(details)) {}

Error::~Error() = default;

const char* Error::what() const noexcept {
    return details_->text.c_str();
}
ErrorKind Error::kind() const noexcept {
    return details_->kind;
}
const std::string& Error::kind_name() const noexcept {
    return details_->kind_name;
}
const std::string& Error::message() const noexcept {
    return details_->message;
}
const std::string& Error::path() const noexcept {
    return details_->path;
}
bool Error::retry_safe() const noexcept {
    return details_->retry_safe;
}

} // namespace strait
