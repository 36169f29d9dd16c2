"""One login at a time, whose outcome serves all threads that wait for it."""

import contextlib
import copy
import threading
import time
from collections.abc import Iterator

from strait import errors
from strait._connect import ConnectionLostError


class _Attempt:
    def __init__(self) -> None:
        self.over = threading.Event()
        self.failure: Exception | None = None


class LoginInTurn:
    """Lets one thread log in, and the others have its outcome."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # as the session's
        self._attempt: _Attempt | None = None

    @contextlib.contextmanager
    def take(self, deadline: float, gateway: str, timeout_s: float) -> Iterator[bool]:
        """Whether it is up to this thread; if not, another one has just succeeded.

        If the other one's attempt fails, its error is raised here too.
        """
        with self._lock:
            theirs = self._attempt
            if theirs is None:
                ours = self._attempt = _Attempt()
        if theirs is not None:
            if not theirs.over.wait(max(0.0, deadline - time.monotonic())):
                raise errors.no_answer("openSession", gateway, timeout_s)
            if theirs.failure is not None:
                raise _again(theirs.failure)
            yield False
            return
        try:
            yield True
        except Exception as error:
            ours.failure = error
            raise
        finally:
            with self._lock:
                self._attempt = None
            ours.over.set()


def _again(failure: Exception) -> Exception:
    """The same failure for another thread: an exception's traceback is one thread's."""
    if isinstance(failure, ConnectionLostError):
        return ConnectionLostError(
            failure, sent=False, tls=failure.tls, unanswered=failure.unanswered
        )
    return copy.copy(failure)
