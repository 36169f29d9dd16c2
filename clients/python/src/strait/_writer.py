"""Writing a remote file: a raw stream that keeps appends in flight, and the layers above it."""

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
# Errors after which a file is still open.
GOES_ON = (errors.NoSpace, errors.Unavailable)


class RemoteWriter(io.RawIOBase):
    """An unbuffered remote file, open to write at its end.

    `write` returns when the bytes are on their way. An error surfaces at a
    later write, and at `flush` or `close` at the latest. After `NoSpace` and
    `Unavailable` the file stays open: it keeps the bytes that the gateway
    hasn't taken, and sends them again with the next `write`, `flush`, `sync` or
    `close`. A `write` that fails has taken nothing.

    A file that is dropped after such an error is given up. Not for several
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
        #: Most bytes that one `write` accepts. The same for all, whatever a later login says.
        self.chunk_bytes = min(CHUNK_BYTES, session.max_chunk_bytes)
        # Appends that aren't acknowledged, in order. The first `_awaited` of them are on their way
        # on `_connection`; the others have to be sent (again).
        self._kept: deque[Any] = deque()
        self._awaited = 0
        self._connection: Connection | None = None  # while appends are on their way
        self._replicas: int | None = None
        self._ended = False
        self._dropped = False
        self._tells_text = False
        self._failure: errors.StraitError | None = None
        # The latest error, if the file goes on after it.
        self._refusal: errors.StraitError | None = None

    # -- Writing

    def write(self, data: "ReadableBuffer", /) -> int:
        """Accepts at most one request's bytes; says how many."""
        self._check_open()
        view = memoryview(data).cast("B")[: self.chunk_bytes]
        self._settle(leave=WINDOW - 1)
        if view:
            # Kept until the reply, for a repetition; `bytes` of bytes is no copy.
            whole = isinstance(data, bytes) and len(data) == len(view)
            self._append(data if whole else bytes(view))
        return len(view)

    def flush(self) -> None:
        """Brings written bytes into every replica's memory, visible to programs that open it.

        In object stores it promises nothing.
        """
        if not self._ended:  # the base class flushes in close
            self._flush(FlushMode.FLUSH)

    def sync(self) -> int | None:
        """Brings written bytes to stable storage. In object stores it promises nothing.

        Returns how many replicas hold them, at least; None if the store gives no number, or if
        nothing was written.
        """
        self._flush(FlushMode.SYNC)
        return self._replicas

    @property
    def replicas(self) -> int | None:
        """How many replicas held the bytes, at least, at the last `flush`, `sync` or `close`.

        None if the store gives no number, or if nothing was written.
        """
        return self._replicas

    @property
    def goes_on(self) -> bool:
        """Whether the last operation failed, and may be repeated: the file is still open."""
        return self._refusal is not None and self._failure is None and not self.closed

    def _flush(self, mode: int) -> None:
        self._check_open()
        self._settle()
        request = FlushFileRequest(handle=self._handle, mode=mode)
        try:
            self._replicas = self._session.call("flushFile", request).replicas
        except errors.StraitError as error:
            raise self._explained(error) from error
        self._refusal = None

    def close(self) -> None:
        """Waits for appends on their way, and brings written bytes to stable storage.

        After `NoSpace` and `Unavailable` the file stays open (`closed` is false), and may be
        closed again. After any other error it is closed.
        """
        if self.closed:
            return
        self._dropped = self._dropped or getattr(self, "_finalizing", False)
        length = None
        try:
            if self._process == os.getpid():
                length = self._close()
        except BaseException as error:
            self._leave_open_or_give_up(error)
            raise
        self._end()
        if length is not None and 0 <= length != self._position:
            message = f"the file has {length} bytes instead of {self._position}"
            raise errors.Internal(message, self.name)

    def _leave_open_or_give_up(self, error: BaseException) -> None:
        """After an error of `close`: somebody may repeat it, unless the file was dropped."""
        if error is not self._refusal or self._dropped:
            self.give_up()

    def _close(self) -> int | None:
        """The length that the file has then, if the gateway tells."""
        if self._session.closed:
            if self._kept:
                raise ValueError("the client was closed before its file")
            return None
        if self._dropped and self._refusal is not None:
            raise self._refusal  # without another try, for which nobody waits
        self._settle()
        try:
            reply = self._session.mutate("closeFile", CloseFileRequest(handle=self._handle))
        except errors.StraitError as error:
            raise self._explained(error) from error
        self._replicas = reply.replicas
        length: int | None = reply.length
        return length

    def _end(self) -> None:
        self._ended = True
        self._kept.clear()
        self._give_back()
        super().close()

    def give_up(self) -> None:
        """Abandons the file: bytes flushed before stay, others may."""
        if self.closed:
            return
        self._end()
        if self._process == os.getpid():
            self._session.abandon(self._handle)

    def _dealloc_warn(self, source: object) -> None:
        """Called by the layers above, as by those of `io`, if they are closed by their drop."""
        self._dropped = True

    # -- Appends on their way

    def _append(self, data: Any) -> None:
        """Sends it behind the others on their way, or leaves it to the next step."""
        deadline = self._session.deadline()
        if self._connection is None:
            try:
                self._connection = self._session.borrow(deadline)
            except ConnectionLostError:
                pass
            except errors.StraitError as error:
                self._fail(error)
        request = AppendDataRequest(
            request_id=secrets.token_bytes(REQUEST_ID_BYTES),
            handle=self._handle,
            expected_offset=self._position,
            data=data,
        )
        self._kept.append(request)
        self._position += len(data)
        if self._connection is None:
            return
        try:
            self._connection.wait_until(deadline)
            self._connection.send("appendData", request)
        except ConnectionLostError:
            self._give_back()
        except errors.StraitError as error:
            self._fail(error)
        else:
            self._awaited += 1

    def _settle(self, *, leave: int = 0) -> None:
        """Takes replies until at most `leave` appends are on their way, and none is to be sent."""
        if self._failure is not None:
            raise self._failure
        deadline = self._session.deadline()
        try:
            if len(self._kept) > self._awaited:
                self._repeat_all(deadline)
            while self._awaited > leave:
                deadline = self._session.deadline()
                self._take_reply(deadline)
        except ConnectionLostError:
            try:
                self._repeat_all(deadline)
            except errors.StraitError as error:
                self._fail(error)
        except errors.StraitError as error:
            self._fail(error)
        if not self._kept:
            self._give_back()

    def _take_reply(self, deadline: float) -> None:
        """Of the first append."""
        assert self._connection is not None, "appends are awaited on it"
        self._connection.wait_until(deadline)
        try:
            reply = self._connection.receive("appendData")
        except GOES_ON:
            self._drain()
            self._renew()
            raise
        self._check(reply, self._kept[0])
        self._took(1)

    def _drain(self) -> None:
        """Takes the replies behind a refused append's: the gateway has refused those appends too.

        Unless the store took the first one all the same; then it says so by the next one's reply.
        """
        assert self._connection is not None, "appends are awaited on it"
        taken = 0
        for number in range(2, self._awaited + 1):
            try:
                reply = self._connection.receive("appendData")
                self._check(reply, self._kept[number - 1])
                taken = number
            except (ConnectionLostError, errors.TimedOut):
                break
            except errors.StraitError:
                continue
        self._took(taken)

    def _took(self, count: int) -> None:
        for _ in range(count):
            self._kept.popleft()
            self._awaited -= 1
            self._refusal = None

    def _renew(self) -> None:
        """Makes new requests of all appends: the gateway remembers that it refused the old ones."""
        for request in self._kept:
            request.request_id = secrets.token_bytes(REQUEST_ID_BYTES)
            # The store may have taken it all the same.
            request.is_retry = True
        self._give_back()

    def _repeat_all(self, deadline: float) -> None:
        """Repeats what has no reply yet; the gateway recognises what it has done already.

        `deadline` is the first one's: it may have waited already.
        """
        self._give_back()
        while self._kept:
            request = self._kept[0]
            request.is_retry = True
            try:
                reply = self._session.attempt("appendData", request, self._repeat, deadline)
            except errors.InvalidArgument as error:
                if self._refusal is not None:
                    raise
                # The handle was valid before the connection broke, so it is gone.
                raise self._forgotten(error) from error
            self._check(reply, request)
            self._kept.popleft()
            deadline = self._session.deadline()
        self._refusal = None

    def _repeat(self, connection: Connection) -> Any:
        try:
            return connection.call("appendData", self._kept[0])
        except GOES_ON:
            self._renew()
            raise

    def _check(self, reply: Any, request: Any) -> None:
        if reply.position != request.expected_offset + len(request.data):
            raise errors.Internal("the gateway counts other bytes than were sent", self.name)

    def _explained(self, error: errors.StraitError) -> errors.StraitError:
        """The error for the caller, which doesn't know of handles; notes how the file goes on."""
        forgotten = isinstance(error, errors.Unauthenticated) or (
            isinstance(error, errors.InvalidArgument)
            and self._session.incarnation != self._incarnation
        )
        if forgotten:
            error = self._forgotten(error)
        elif isinstance(error, errors.InvalidArgument) and self._refusal is not None:
            # The store couldn't go on, and the gateway has closed the file.
            first = self._refusal.strerror
            message = f"the file ended with an earlier error: {first} ({error.strerror})"
            error = type(self._refusal)(message, self.name, retry_safe=False)
            self._failure = error
        elif isinstance(error, GOES_ON):
            self._refusal = error
        if error.filename is None:
            error.filename = self.name
        return error

    @staticmethod
    def _forgotten(error: errors.StraitError) -> errors.OutcomeUnknown:
        return errors.OutcomeUnknown(
            "the session that had the file open has ended; flushed bytes are in the file, "
            f"later ones may be ({error.strerror})"
        )

    def _fail(self, error: errors.StraitError) -> None:
        explained = self._explained(error)
        if explained is not self._refusal:
            if isinstance(explained, errors.TimedOut):
                # The append may have arrived; another one would double its bytes.
                explained.retry_safe = False
            self._failure = explained
            self._kept.clear()
        self._give_back()
        raise explained

    def _give_back(self) -> None:
        self._awaited = 0
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
    """`io.BufferedWriter` whose `flush` reaches the readers of the remote file.

    After `NoSpace` and `Unavailable` the file stays open, as a `RemoteWriter` does, with what is
    buffered here. A `write` that fails has taken nothing if its argument fits the buffer, and
    `tell` says how much of a larger one.
    """

    raw: RemoteWriter

    def flush(self) -> None:
        super().flush()
        self.raw.flush()

    def sync(self) -> int | None:
        """As `RemoteWriter.sync`, with what is buffered here."""
        super().flush()
        return self.raw.sync()

    @property
    def replicas(self) -> int | None:
        """As `RemoteWriter.replicas`."""
        return self.raw.replicas

    def close(self) -> None:
        """As `RemoteWriter.close`, with what is buffered here."""
        if self.closed:
            return
        if self._finalizing:  # type: ignore[attr-defined]
            self.raw._dealloc_warn(self)
        try:
            # Closing includes flushing at the gateway: no need for both.
            super().flush()
        except BaseException as error:
            self.raw._leave_open_or_give_up(error)
            raise
        self.raw.close()


class TextWriter(io.TextIOWrapper):
    """`io.TextIOWrapper` over a `BufferedWriter`; it keeps nothing itself.

    A `write` that fails has taken nothing if its argument fits the buffer. With line buffering, it
    has taken its argument if the line's end was to be flushed.
    """

    buffer: BufferedWriter

    def __init__(
        self,
        buffer: BufferedWriter,
        encoding: str,
        errors: str | None,
        newline: str | None,
        *,
        line_buffering: bool,
    ) -> None:
        # `TextIOWrapper` loses the text that it has gathered if the layer below doesn't take it.
        # Written through, each text goes there at once.
        super().__init__(buffer, encoding, errors, newline, line_buffering, write_through=True)

    def sync(self) -> int | None:
        """As `RemoteWriter.sync`, with what is buffered here."""
        return self.buffer.sync()

    @property
    def replicas(self) -> int | None:
        """As `RemoteWriter.replicas`."""
        return self.buffer.replicas

    def close(self) -> None:
        """As `RemoteWriter.close`, with what is buffered here."""
        if self.closed:
            return
        if self._finalizing:  # type: ignore[attr-defined]
            self.buffer.raw._dealloc_warn(self)
        if not self.write_through:  # somebody has reconfigured it
            self.flush()
        self.buffer.close()
