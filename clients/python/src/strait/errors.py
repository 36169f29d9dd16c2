"""One exception class for each kind of error.

Every class is a `StraitError` and also the built-in exception that Python
programs expect, so ``except FileNotFoundError`` works as with local files.
Names, numbers and errno are those of Strait's one table of errors.
"""

import errno
from typing import Any, ClassVar


class StraitError(OSError):
    """A failed operation.

    `errno`, `strerror` and `filename` are filled as for any `OSError`.
    """

    #: The kind's name, the same in every client language.
    kind: str = "Internal"
    #: Repeating the same request may help and can do no harm.
    retry_safe: bool = False

    _errno: ClassVar[int] = errno.EIO

    def __init__(
        self, message: str, path: str | None = None, *, retry_safe: bool | None = None
    ) -> None:
        super().__init__(self._errno, message, *([] if path is None else [path]))
        if retry_safe is not None:
            self.retry_safe = retry_safe

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.strerror, self.filename), self.__dict__


class NotFound(StraitError, FileNotFoundError):
    """No file or directory at the path."""

    kind = "NotFound"
    _errno = errno.ENOENT


class AlreadyExists(StraitError, FileExistsError):
    """The path is taken, and the operation may not replace it."""

    kind = "AlreadyExists"
    _errno = errno.EEXIST


class NotADirectory(StraitError, NotADirectoryError):
    """A directory was needed; the path (or a parent of it) is a file."""

    kind = "NotADirectory"
    _errno = errno.ENOTDIR


class IsADirectory(StraitError, IsADirectoryError):
    """A file was needed; the path is a directory."""

    kind = "IsADirectory"
    _errno = errno.EISDIR


class NotEmpty(StraitError):
    """The directory still has entries."""

    kind = "NotEmpty"
    _errno = errno.ENOTEMPTY


class PermissionDenied(StraitError, PermissionError):
    """The user may not do this."""

    kind = "PermissionDenied"
    _errno = errno.EACCES


class Unauthenticated(StraitError, PermissionError):
    """Nobody is logged in, or the credentials are wrong."""

    kind = "Unauthenticated"
    _errno = 126  # ENOKEY, which the errno module knows on Linux only


class InvalidArgument(StraitError, ValueError):
    """The request itself is wrong: path, offset, length, state of a handle."""

    kind = "InvalidArgument"
    _errno = errno.EINVAL


class Unsupported(StraitError):
    """The store has no such operation."""

    kind = "Unsupported"
    _errno = errno.EOPNOTSUPP


class Busy(StraitError):
    """Somebody else holds what is needed, or a limit is reached; later may go."""

    kind = "Busy"
    retry_safe = True
    _errno = errno.EBUSY


class NoSpace(StraitError):
    """The store, or the user's quota, is full."""

    kind = "NoSpace"
    _errno = errno.ENOSPC


class TimedOut(StraitError, TimeoutError):
    """No answer within the time allowed."""

    kind = "TimedOut"
    retry_safe = True
    _errno = errno.ETIMEDOUT


class Unavailable(StraitError, ConnectionError):
    """The gateway or the store can't be reached."""

    kind = "Unavailable"
    retry_safe = True
    _errno = errno.EHOSTUNREACH


class Corrupt(StraitError):
    """Stored bytes don't match their checksum, on every replica."""

    kind = "Corrupt"
    _errno = errno.EBADMSG


class OutcomeUnknown(StraitError, ConnectionError):
    """The connection broke after a change was sent: it may have been made or not."""

    kind = "OutcomeUnknown"
    _errno = errno.ECONNABORTED


class Internal(StraitError):
    """A defect, or an answer that makes no sense."""


# In the order of ErrorCode in idl/dfs.thrift, which begins at 1.
_CLASSES: tuple[type[StraitError], ...] = (
    NotFound,
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
)
_BY_CODE = dict(enumerate(_CLASSES, start=1))
# The command also has Usage, for a wrong command line, and Other.
_BY_KIND: dict[str, type[StraitError]] = {cls.kind: cls for cls in _CLASSES} | {
    "Usage": InvalidArgument,
    "Other": StraitError,
}


def from_wire(error: Any) -> StraitError:
    """The exception for a `DfsError` of the generated code."""
    cls = _BY_CODE.get(error.code, StraitError)
    native = cls(error.message or "", error.path or None, retry_safe=error.retry_safe)
    if cls is StraitError and error.kind:
        native.kind = error.kind  # a newer server's, which this client has no class for
    return native


def from_command(told: dict[str, Any]) -> StraitError:
    """The exception for an error that the command `strait --json` prints."""
    cls = _BY_KIND.get(told["error"], StraitError)
    return cls(told["message"], told.get("path"), retry_safe=told["retry_safe"])


def no_answer(operation: str, gateway: str, timeout_s: float) -> TimedOut:
    """The error of a request that this gateway didn't answer, or not wholly, in time."""
    return TimedOut(
        f"{operation}: no complete answer from {gateway} within {timeout_s:g} s; the gateway may "
        "be overloaded or gone: look at it, or allow a longer timeout"
    )


def at(error: StraitError, path: str | None) -> StraitError:
    """The same error, with this path if it has none."""
    if error.filename is None and path is not None:
        error.filename = path
    return error
