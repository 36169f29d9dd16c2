"""Reading a remote file: a raw stream that keeps requests in flight."""

import contextlib
import io
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from strait import errors
from strait._connect import ConnectionLostError
from strait._gen.ttypes import OpenFileRequest, ReadRangeRequest
from strait._session import ATTEMPTS, Session, pause_s
from strait._wire import SHORT_RANGE_BYTES, Connection

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

T = TypeVar("T")

# Bytes of a request while reading ahead, and requests in flight at once. Chunks of 1 MiB measured
# best on loopback among 0.25 to 4 MiB. Over a local store 4 in flight suffice, over HDFS 8 gain a
# tenth. A link of 1 Gbit/s and 50 ms holds 6, and with 8 a pause on either side leaves it idle. A
# gateway runs 8 of one connection at once, and the next has arrived when one is done.
CHUNK_BYTES = 1 << 20
WINDOW = 16
# Memory allocated by a file's claimed length; beyond it, as much again as was received.
BELIEVED_BYTES = 64 << 20
# Most bytes of a read that doesn't continue the last one: its caller may want only a few bytes, and
# have a large buffer.
FIRST_READ_BYTES = 128 << 10


def receive_range(connection: Connection, sink: memoryview) -> int:
    """The reply to a readRange request of len(sink) bytes; their actual number."""
    data = connection.receive("readRange", sink).data or b""
    if len(data) > len(sink):
        raise errors.Internal("the gateway sent more bytes than asked for")
    if not isinstance(data, memoryview) or data.obj is not sink.obj:
        sink[: len(data)] = data
    return len(data)


def _in_parts(length: int, read: Callable[[memoryview, int], int]) -> list[memoryview]:
    """Up to `length` bytes by `read` into memory, behind so many bytes; it gives 0 at the end.

    Parts, since a filled buffer can't always be enlarged: a caller whose read failed may still
    hold it.
    """
    parts: list[memoryview] = []
    got, whole = 0, True
    while whole and (size := min(length - got, max(BELIEVED_BYTES, got))):
        part, filled = memoryview(bytearray(size)), 0
        while filled < size and (count := read(part[filled:], got + filled)):
            filled += count
        whole = filled == size
        got += filled
        parts.append(part[:filled])
    return parts


class RemoteReader(io.RawIOBase):
    """An unbuffered remote file, open to read; `Client.open` wraps it in a `BufferedReader`.

    Not for several threads at once, `pread` excepted.
    """

    mode = "rb"

    def __init__(self, session: Session, path: str) -> None:
        super().__init__()
        self.name = path
        self._session = session
        self._position = 0
        self._sequential_from = -1  # a read at this position continues the one before
        self._ahead: ReadAhead | None = None
        self._first_window = 1
        self._handle = self._length = 0
        self._identity: bytes | None = None
        self._open()

    @property
    def length(self) -> int:
        """Bytes of the file when it was opened."""
        return self._length

    def expect_all(self) -> None:
        """The whole file is going to be read: as much as may be is in flight from the start."""
        self._first_window = WINDOW
        self._sequential_from = self._position

    def _open(self, deadline: float | None = None) -> None:
        reply = self._session.call("openFile", OpenFileRequest(path=self.name), deadline)
        if (reply.length or 0) < self._length:
            message = "the file was replaced by a shorter one"
            raise errors.Unavailable(message, self.name, retry_safe=False)
        if self._identity and reply.identity and reply.identity != self._identity:
            message = "the file was replaced by another"
            raise errors.Unavailable(message, self.name, retry_safe=False)
        self._handle, self._length = reply.handle, reply.length or 0
        self._identity = reply.identity or self._identity

    # -- Reading

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")
        if not view:
            return 0
        deadline = self._session.deadline()
        count = self._read_ahead(view, deadline)
        if not count:
            count = self._read_once(self._position, view[:FIRST_READ_BYTES], deadline)
        self._position += count
        self._sequential_from = self._position
        return count

    def readall(self) -> bytes:
        """The rest of the file."""
        parts: list[bytes | memoryview] = []
        parts += _in_parts(self._left(), lambda view, _: self.readinto(view))
        # Bytes appended since it was opened; ends with an empty read.
        while more := self.read(CHUNK_BYTES):
            parts.append(more)
        return b"".join(parts)

    def _left(self) -> int:
        """Bytes to the end that the file had when it was opened."""
        return max(0, self._length - self._position)

    def pread(self, length: int, offset: int) -> bytes:
        """Up to `length` bytes from `offset`, shorter only at the end; the position stays."""
        self._check_open()
        if length < 0:
            raise ValueError("a negative length")
        if length <= SHORT_RANGE_BYTES:
            return self._pread_short(length, offset)
        return b"".join(
            _in_parts(
                length,
                lambda view, at: self._read_once(offset + at, view, self._session.deadline()),
            )
        )

    def _pread_short(self, length: int, offset: int) -> bytes:
        data = b""
        while missing := length - len(data):
            more = self._read_short(offset + len(data), missing, self._session.deadline())
            if not more:
                break
            data += more
        return data

    def _read_ahead(self, view: memoryview, deadline: float) -> int:
        """Bytes from the requests in flight; 0 where the read isn't sequential, or they ended."""
        forked = self._ahead is not None and self._ahead.connection.is_a_parents()
        if forked or self._sequential_from != self._position:
            self._stop_reading_ahead()
            return 0
        try:
            if self._ahead is None and self._position < self._length:
                chunk = min(CHUNK_BYTES, self._session.max_chunk_bytes)
                self._ahead = ReadAhead(
                    self._session.borrow(deadline),
                    self._handle,
                    self._position,
                    self._length,
                    chunk,
                    self._first_window,
                )
            if self._ahead is not None:
                self._ahead.connection.wait_until(deadline)
            count = self._ahead.read_into(view) if self._ahead else 0
        except errors.TimedOut as error:
            if self._ahead is None or self._ahead.connection.broken:
                self._stop_reading_ahead()
                errors.at(error, self.name)
                raise  # the time is over for another try too
            count = 0
        except (ConnectionLostError, errors.StraitError):
            # A single request, with its retries, tries again or reports the error.
            count = 0
        except BaseException:
            # An interrupt, between unknown steps.
            if self._ahead is not None:
                self._ahead.connection.close()
            self._stop_reading_ahead()
            raise
        if not count:
            self._stop_reading_ahead()
        return count

    def _read_once(self, offset: int, view: memoryview, deadline: float) -> int:
        sink = view[: self._session.max_chunk_bytes]
        if len(sink) <= SHORT_RANGE_BYTES:
            data = self._read_short(offset, len(sink), deadline)
            sink[: len(data)] = data
            return len(data)

        def exchange(connection: Connection) -> int:
            request = ReadRangeRequest(handle=self._handle, offset=offset, length=len(sink))
            connection.send("readRange", request)
            return receive_range(connection, sink)

        return self._on_handle(offset, exchange, deadline)

    def _read_short(self, offset: int, length: int, deadline: float) -> bytes:
        most = min(length, self._session.max_chunk_bytes)
        return self._on_handle(
            offset, lambda connection: connection.read_range(self._handle, offset, most), deadline
        )

    def _on_handle(self, offset: int, exchange: Callable[[Connection], T], deadline: float) -> T:
        """Repeats it on a new handle where the old one is gone, as with a session that ended."""
        last: errors.StraitError | None = None
        for attempt in range(ATTEMPTS):
            if attempt > 1:
                time.sleep(pause_s(attempt - 1))
            if last is not None:
                self._open(deadline)
            try:
                return self._session.attempt("readRange", None, exchange, deadline, self.name)
            except (errors.InvalidArgument, errors.NotFound, errors.Unauthenticated) as error:
                if offset < 0:
                    raise
                last = error
        raise errors.Unavailable(
            "the gateway restarts, or ends the session, again and again; try again later", self.name
        ) from last

    def _stop_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._session.give_back(self._ahead.connection)
            self._ahead = None

    # -- The rest of io.RawIOBase

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check_open()
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            offset += self._length
        elif whence != io.SEEK_SET:
            raise ValueError(f"invalid whence: {whence}")
        if offset < 0:
            raise errors.InvalidArgument("a negative position", self.name)
        self._position = offset
        return offset

    def tell(self) -> int:
        self._check_open()
        return self._position

    def readable(self) -> bool:
        self._check_open()
        return True

    def seekable(self) -> bool:
        self._check_open()
        return True

    def close(self) -> None:
        if self.closed:
            return
        try:
            with contextlib.suppress(errors.StraitError, ConnectionLostError):
                self._stop_reading_ahead()
            self._session.release(self._handle)
        finally:
            super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


@dataclass(slots=True)
class _Chunk:
    """A piece of the file that was asked for."""

    offset: int
    length: int
    data: memoryview | None = None
    received: int = 0
    taken: int = 0


class ReadAhead:
    """Requests in flight for the pieces that follow a position, on one connection.

    Ends (`read_into` gives 0) at the length the file had when it was opened.
    """

    def __init__(
        self,
        connection: Connection,
        handle: int,
        position: int,
        length: int,
        chunk_bytes: int,
        window: int,
    ) -> None:
        self.connection = connection
        self._handle = handle
        self._next = position
        self._length = length
        self._chunk_bytes = chunk_bytes
        # One more after each chunk: a reader of few bytes shouldn't pay for many.
        self._window = window
        self._chunks: deque[_Chunk] = deque()  # by offset
        self._replies: deque[tuple[_Chunk, int]] = deque()  # requested bytes, by request
        self._ended = False

    def read_into(self, view: memoryview) -> int:
        self._fill_window()
        if not self._chunks:
            return 0
        chunk = self._chunks[0]
        while chunk.received < chunk.length and not self._ended:
            owner, asked = self._replies[0]
            if owner is chunk and not chunk.received and asked <= len(view):
                # Directly into the caller's memory. After a short reply, the chunk is the rest of
                # it.
                count = self._receive(owner, asked, view[:asked])
                chunk.offset += count
                chunk.length -= count
                if not chunk.length:
                    self._chunk_done()
                return count
            if owner.data is None:
                owner.data = memoryview(bytearray(owner.length))
            owner.received += self._receive(
                owner, asked, owner.data[owner.received : owner.received + asked]
            )
        return self._take(chunk, view)

    def _take(self, chunk: _Chunk, view: memoryview) -> int:
        if chunk.data is None:
            return 0
        piece = chunk.data[chunk.taken : chunk.received][: len(view)]
        view[: len(piece)] = piece
        chunk.taken += len(piece)
        if chunk.taken == chunk.length:
            self._chunk_done()
        return len(piece)

    def _chunk_done(self) -> None:
        self._chunks.popleft()
        self._window = min(self._window + 1, WINDOW)
        self._fill_window()

    def _fill_window(self) -> None:
        while len(self._chunks) < self._window and self._next < self._length:
            chunk = _Chunk(self._next, min(self._chunk_bytes, self._length - self._next))
            self._chunks.append(chunk)
            self._next += chunk.length
            self._request(chunk, chunk.offset, chunk.length)

    def _request(self, chunk: _Chunk, offset: int, length: int) -> None:
        self.connection.send(
            "readRange", ReadRangeRequest(handle=self._handle, offset=offset, length=length)
        )
        self._replies.append((chunk, length))

    def _receive(self, chunk: _Chunk, asked: int, sink: memoryview) -> int:
        """The next reply, which is `chunk`'s; asks again for what a short one lacks."""
        count = receive_range(self.connection, sink)
        self._replies.popleft()
        if not count:
            self._ended = True  # cut since it was opened
        elif count < asked:
            self._request(chunk, chunk.offset + chunk.received + count, asked - count)
        return count
