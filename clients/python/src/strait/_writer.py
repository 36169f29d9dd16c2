"""Writing a remote file: a raw stream that keeps appends in flight."""

import io
import os
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from strait import errors
from strait._connect import ConnectionLostError
from strait._gen.ttypes import (
    AppendDataRequest,
    CloseFileRequest,
    FlushFileRequest,
    FlushMode,
)
from strait._session import REQUEST_ID_BYTES, Session
from strait._wire import Connection

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Bytes of a request, and requests in flight at once; see _reader.
CHUNK_BYTES = 1 << 20
WINDOW = 16


class RemoteWriter(io.RawIOBase):
    """An unbuffered remote file, open to write at its end.

    `write` returns when the bytes are on their way. An error surfaces at a
    later write, and at `flush` or `close` at the latest. Not for several
    threads at once, and not for a forked child.
    """

    def __init__(self, session: Session, path: str, mode: str, opened: Any) -> None:
        super().__init__()
        self.name = path
        self.mode = mode
        self._session = session
        self._process = os.getpid()
        self._handle = opened.handle
        self._incarnation = session.incarnation
        self._position = opened.position or 0
        self._connection: Connection | None = None  # while appends are in flight
        self._in_flight: deque[Any] = deque()
        self._closing = False
        self._tells_text = False
        self._failure: errors.StraitError | None = None

    # -- Writing

    def write(self, data: "ReadableBuffer", /) -> int:
        """Accepts at most one request's bytes; says how many."""
        self._check_open()
        view = memoryview(data).cast("B")[: self.chunk_bytes]
        # Kept until the reply, for a repetition; `bytes` of bytes is no copy.
        whole = isinstance(data, bytes) and len(data) == len(view)
        self._append(data if whole else bytes(view))
        return len(view)

    @property
    def chunk_bytes(self) -> int:
        """Most bytes that one `write` accepts."""
        return min(CHUNK_BYTES, self._session.max_chunk_bytes)

    def flush(self) -> None:
        """What was written is in every replica's memory and visible to who opens the file now."""
        if not self._closing:  # the base class flushes in close
            self._flush(FlushMode.FLUSH)

    def sync(self) -> int | None:
        """What was written is on stable storage.

        Returns how many replicas hold it, at least; None where the store can't tell.
        """
        return self._flush(FlushMode.SYNC)

    def _flush(self, mode: int) -> int | None:
        self._check_open()
        self._collect(leave=0)
        request = FlushFileRequest(handle=self._handle, mode=mode)
        try:
            replicas: int | None = self._session.call("flushFile", request).replicas
        except errors.StraitError as error:
            raise self._explained(error) from error
        return replicas

    def close(self) -> None:
        """Waits for what is in flight; then what was written is on stable storage."""
        if self.closed:
            return
        self._closing = True
        try:
            if self._process == os.getpid():
                self._close()
        finally:
            super().close()

    def _close(self) -> None:
        if self._session.closed:
            if self._in_flight:
                raise ValueError("the client was closed before its file")
            return
        try:
            self._collect(leave=0)
        except errors.StraitError:
            self._abandon()
            raise
        try:
            self._session.mutate("closeFile", CloseFileRequest(handle=self._handle))
        except errors.StraitError as error:
            raise self._explained(error) from error

    def _abandon(self) -> None:
        """After a failure: lets the gateway forget the handle."""
        try:
            with self._session.connection(self._session.parting()) as connection:
                connection.call("closeFile", CloseFileRequest(handle=self._handle))
        except (errors.StraitError, ConnectionLostError):
            pass

    # -- Requests in flight

    def _append(self, data: Any) -> None:
        if self._failure is not None:
            raise self._failure
        if not data:
            return
        request = AppendDataRequest(
            request_id=secrets.token_bytes(REQUEST_ID_BYTES),
            handle=self._handle,
            expected_offset=self._position,
            data=data,
        )
        self._in_flight.append(request)
        self._position += len(data)
        deadline = self._session.deadline()
        try:
            if self._connection is None:
                self._connection = self._session.borrow(deadline)
            self._connection.wait_until(deadline)
            self._connection.send("appendData", request)
        except ConnectionLostError:
            self._repeat_all(deadline)
        except errors.StraitError as error:
            self._fail(error)
        self._collect(leave=WINDOW - 1)

    def _collect(self, *, leave: int) -> None:
        """Takes replies until at most `leave` appends are in flight."""
        if self._failure is not None:
            raise self._failure
        deadline = self._session.deadline()
        try:
            while len(self._in_flight) > leave and self._connection is not None:
                self._connection.wait_until(deadline := self._session.deadline())
                self._check(self._connection.receive("appendData"), self._in_flight[0])
                self._in_flight.popleft()
        except ConnectionLostError:
            self._repeat_all(deadline)
        except errors.StraitError as error:
            self._fail(error)
        if not self._in_flight:
            self._give_back()

    def _repeat_all(self, deadline: float) -> None:
        """Repeats what has no reply yet; the gateway recognises what it has done already.

        `deadline` is the first one's: it has waited already.
        """
        self._give_back()
        try:
            while self._in_flight:
                request = self._in_flight[0]
                request.is_retry = True
                self._check(self._session.call("appendData", request, deadline), request)
                self._in_flight.popleft()
                deadline = self._session.deadline()
        except errors.InvalidArgument as error:
            # The handle was valid before the connection broke, so it is gone.
            self._fail(self._forgotten(error))
        except errors.StraitError as error:
            self._fail(error)

    def _check(self, reply: Any, request: Any) -> None:
        if reply.position != request.expected_offset + len(request.data):
            raise errors.Internal("the gateway counts other bytes than were sent", self.name)

    def _explained(self, error: errors.StraitError) -> errors.StraitError:
        """The error for the caller, which doesn't know of handles."""
        gone = isinstance(error, errors.Unauthenticated) or (
            isinstance(error, errors.InvalidArgument)
            and self._session.incarnation != self._incarnation
        )
        if gone:
            error = self._forgotten(error)
        if error.filename is None:
            error.filename = self.name
        return error

    @staticmethod
    def _forgotten(error: errors.StraitError) -> errors.OutcomeUnknown:
        return errors.OutcomeUnknown(
            "the session that had the file open has ended; what was flushed is in the file, "
            f"what was written since may be ({error.strerror})"
        )

    def _fail(self, error: errors.StraitError) -> None:
        error = self._explained(error)
        self._failure = error
        self._in_flight.clear()
        self._give_back()
        raise error

    def _give_back(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._session.give_back(connection)

    # -- The rest of io.RawIOBase

    def tell(self) -> int:
        """The file's length with everything written."""
        self._check_open()
        return self._position

    def seekable(self) -> bool:
        """False, but for a text stream that is being made around this file."""
        self._check_open()
        return self._tells_text

    @contextmanager
    def telling_text(self) -> Iterator[None]:
        """Meanwhile a `TextIOWrapper` finds that `tell` works, though `seek` doesn't.

        Otherwise it would refuse `tell`, and write no byte order mark of UTF-16.
        """
        self._tells_text = True
        try:
            yield
        finally:
            self._tells_text = False

    def writable(self) -> bool:
        self._check_open()
        return True

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if self._process != os.getpid():
            raise ValueError("a file open to write stays with the process that opened it")


class BufferedWriter(io.BufferedWriter):
    """`io.BufferedWriter` whose `flush` reaches the readers of the remote file."""

    raw: RemoteWriter

    def __init__(self, raw: RemoteWriter, buffer_size: int) -> None:
        super().__init__(raw, buffer_size)
        self._closing = False

    def flush(self) -> None:
        super().flush()
        # Closing includes flushing: no need for both.
        if not self._closing:
            self.raw.flush()

    def sync(self) -> int | None:
        """As `RemoteWriter.sync`, with what is buffered here."""
        super().flush()
        return self.raw.sync()

    def close(self) -> None:
        self._closing = True
        super().close()
