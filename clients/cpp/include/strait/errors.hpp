/// Each kind of error has its own exception class, derived from strait::Error
/// and so from std::system_error:
/// `error.code() == std::errc::no_such_file_or_directory` works as with local
/// files. Kinds, names and errno values follow the error table in crates/store.
#pragma once

#include <memory>
#include <string>
#include <system_error>

#include <strait/export.hpp>

namespace strait {

/// The values of ErrorCode in idl/dfs.thrift.
enum class ErrorKind {
    NotFound = 1,
    AlreadyExists,
    NotADirectory,
    IsADirectory,
    NotEmpty,
    PermissionDenied,
    Unauthenticated,
    InvalidArgument,
    Unsupported,
    Busy,
    NoSpace,
    TimedOut,
    Unavailable,
    Corrupt,
    OutcomeUnknown,
    Internal,
};

/// A failed operation. `code()` is the kind's errno, in the generic category.
class STRAIT_EXPORT Error : public std::system_error {
public:
    ~Error() override;

    /// Path and message.
    const char* what() const noexcept override;
    /// Internal for a kind that this version doesn't know; see kind_name.
    ErrorKind kind() const noexcept;
    /// The kind's name, the same in every client language: "NotFound".
    const std::string& kind_name() const noexcept;
    /// The cause as a text, without the path.
    const std::string& message() const noexcept;
    /// The path that it failed on; empty if unknown.
    const std::string& path() const noexcept;
    /// Whether repeating the same request may help and can do no harm.
    bool retry_safe() const noexcept;

    struct Details;
    explicit Error(std::shared_ptr<const Details> details);

private:
    std::shared_ptr<const Details> details_; // shared: copying an exception mustn't throw
};

/// The class of one kind's errors; catch it by one of the names below.
template <ErrorKind Kind>
class STRAIT_EXPORT ErrorOf final : public Error {
public:
    using Error::Error;
};

/// No file or directory at the path.
using NotFound = ErrorOf<ErrorKind::NotFound>;
/// The path is taken, and the operation may not replace it.
using AlreadyExists = ErrorOf<ErrorKind::AlreadyExists>;
/// A directory was needed; the path (or a parent of it) is a file.
using NotADirectory = ErrorOf<ErrorKind::NotADirectory>;
/// A file was needed; the path is a directory.
using IsADirectory = ErrorOf<ErrorKind::IsADirectory>;
/// The directory still has entries.
using NotEmpty = ErrorOf<ErrorKind::NotEmpty>;
/// The user may not do this.
using PermissionDenied = ErrorOf<ErrorKind::PermissionDenied>;
/// The client isn't logged in, or the credentials are wrong.
using Unauthenticated = ErrorOf<ErrorKind::Unauthenticated>;
/// The request itself is wrong: path, offset, length, state of a file.
using InvalidArgument = ErrorOf<ErrorKind::InvalidArgument>;
/// The store has no such operation.
using Unsupported = ErrorOf<ErrorKind::Unsupported>;
/// Another client holds a needed resource, or a limit is reached; a later try may succeed.
using Busy = ErrorOf<ErrorKind::Busy>;
/// The store, or the user's quota, is full.
using NoSpace = ErrorOf<ErrorKind::NoSpace>;
/// No answer within the time allowed.
using TimedOut = ErrorOf<ErrorKind::TimedOut>;
/// The gateway or the store can't be reached.
using Unavailable = ErrorOf<ErrorKind::Unavailable>;
/// Stored bytes don't match their checksum, on every replica.
using Corrupt = ErrorOf<ErrorKind::Corrupt>;
/// The connection broke after a change was sent, which may or may not have been executed.
using OutcomeUnknown = ErrorOf<ErrorKind::OutcomeUnknown>;
/// A defect, or an answer that makes no sense.
using Internal = ErrorOf<ErrorKind::Internal>;

} // namespace strait
