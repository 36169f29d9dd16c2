"""Bytes on a socket: Thrift's transport and protocols, and one connection.

The transport is made for large payloads: what is small goes through a buffer,
what is large goes straight between the socket and the caller's memory.
"""

import io
import os
import select
import socket
import ssl
import struct
import time
from typing import Any, Literal

from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol, TCompactProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import (
    CReadableTransport,
    TTransportBase,
    TTransportException,
)

from strait import _ranges, errors
from strait._connect import ConnectionLostError, refused_certificate
from strait._gen import DfsV2
from strait._gen.ttypes import DfsError, ReadRangeRequest
from strait._patience import Patience, Silences
from strait._spin import Spinner

Wire = Literal["framed-binary", "binary", "framed-compact", "compact"]

# Most bytes of one message from the gateway: its largest payload is 4 MiB, and
# a page of a listing stays below that too.
MAX_MESSAGE_BYTES = 16 << 20
# Most elements of a list from the gateway: above any page it sends, and affordable memory if a
# broken peer claims that many.
MAX_LIST_ENTRIES = 1 << 18
# Bytes received at once if the rest of a message isn't known to be large. A larger buffer would
# copy more of a large payload.
RECEIVE_BYTES = 16 << 10
# Pieces of output from this size on are sent directly instead of copied together: a system call
# costs about as much as copying this many bytes.
SEND_ALONE_BYTES = 16 << 10
# Shorter byte strings are never received into the caller's memory. Above the
# longest method name, which comes before the payload.
SINK_MIN_BYTES = 64

# Longest read whose messages are coded in one step: its reply fits one receive.
SHORT_RANGE_BYTES = RECEIVE_BYTES - _ranges.REPLY_BYTES
# For this long after a reply, a read skips the check for the connection's end. The check costs a
# system call, and a retry handles an end in between. (A change would then count as repeated, and
# its outcome might be unknown.)
FRESH_S = 0.05

_PLAIN = {"binary": TBinaryProtocol, "compact": TCompactProtocol}
_ACCELERATED = {"binary": TBinaryProtocolAccelerated, "compact": TCompactProtocolAccelerated}
# Messages with payload are coded in Python, since the accelerated coder would copy the payload.
# Every other message is coded in C.
_BULK = frozenset({"readRange", "appendData"})


class SocketTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """Thrift's view of a connected socket, framed or not."""

    def __init__(self, sock: socket.socket, patience: Patience, *, framed: bool) -> None:
        self._socket = sock
        self._patience = patience
        self._framed = framed
        self._spinner = Spinner(sock)
        self._received = io.BytesIO()  # fastbinary wants exactly this type
        self._received_bytes = 0  # in all, from the socket
        # The end of the message or, without a frame, the limit of its length.
        self._message_end = 0
        self._parts: list[bytes | memoryview] = []
        self._small = bytearray()
        #: Numbers of the last request and the last reply.
        self.requests = self.replies = 0
        #: Destination of the next large byte string of a reply.
        self.sink: memoryview | None = None

    # -- Receiving

    def begin_reply(self) -> None:
        self._message_end = self._consumed() + MAX_MESSAGE_BYTES
        if self._framed:
            (length,) = struct.unpack(">I", self.readAll(4))
            if length > MAX_MESSAGE_BYTES:
                raise TTransportException(TTransportException.SIZE_LIMIT, "an over-long frame")
            self._message_end = self._consumed() + length

    def end_reply(self) -> None:
        self.sink = None
        if self._framed and self._consumed() != self._message_end:
            raise TTransportException(message="a frame and its message differ in length")

    def _consumed(self) -> int:
        return self._received_bytes - self.unread()

    def unread(self) -> int:
        """Bytes received that no reply has used yet."""
        return self._received.getbuffer().nbytes - self._received.tell()

    def readAll(self, sz: int) -> Any:
        head = self._received.read(sz)
        if len(head) == sz:
            return head
        missing = sz - len(head)
        if missing <= RECEIVE_BYTES:
            return self.cstringio_refill(head, sz).read(sz)
        if self.sink is not None and SINK_MIN_BYTES <= sz <= len(self.sink):
            target = self.sink[:sz]
        else:
            target = memoryview(bytearray(sz))
        self._check_room(missing)
        target[: len(head)] = head
        filled = len(head)
        while filled < sz:
            self._patience.check()
            count = self._socket.recv_into(target[filled:])
            if not count:
                raise EOFError("the gateway closed the connection")
            filled += count
        self._received_bytes += missing
        return target

    @property
    def cstringio_buf(self) -> io.BytesIO:
        return self._received

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> io.BytesIO:
        """Receives until `reqlen` bytes are there; `partialread` are the first of them."""
        parts, have = [partialread], len(partialread)
        self._check_room(reqlen - have)
        while have < reqlen:
            part = self._receive(max(RECEIVE_BYTES, reqlen - have))
            have += len(part)
            parts.append(part)
        self._received = io.BytesIO(b"".join(parts))
        return self._received

    def _check_room(self, missing: int) -> None:
        """Refuses a size beyond the message's end, before taking memory for it."""
        if self._received_bytes + missing > self._message_end:
            raise TTransportException(
                TTransportException.SIZE_LIMIT, "a message that is longer than it may be"
            )

    def exchange_range(self, handle: int, offset: int, length: int) -> bytes | None:
        """The bytes of a readRange, on a connection with nothing in flight, in the binary wire.

        None: the reply came, and is something else that is still to be decoded.
        """
        number = _number_after(self.requests)
        request = _ranges.encode_request(number, handle, offset, length)
        self.requests = number
        self._send_all(request if self._framed else request[_ranges.FRAME_BYTES :])
        most = length + _ranges.REPLY_BYTES
        if not self._framed:
            most -= _ranges.FRAME_BYTES
        reply = self._receive_soon(most)
        found = _ranges.find_data(reply, number, framed=self._framed)
        if found is not None:
            begin, end = found
            whole = end + len(_ranges.REPLY_END)
            while len(reply) < whole <= most:
                reply += self._receive(whole - len(reply))
            if reply[end:] == _ranges.REPLY_END:
                self.replies = number
                return reply[begin:end]
        self._received = io.BytesIO(reply)
        return None

    def _receive_soon(self, most: int) -> bytes:
        self._patience.check()
        return self._counted(self._spinner.receive(most))

    def _receive(self, most: int) -> bytes:
        self._patience.check()
        return self._counted(self._socket.recv(most))

    def _counted(self, part: bytes) -> bytes:
        if not part:
            raise EOFError("the gateway closed the connection")
        self._received_bytes += len(part)
        return part

    # -- Sending

    def write(self, buf: bytes | memoryview) -> None:
        if len(buf) < SEND_ALONE_BYTES:
            self._small += buf
        else:
            self._parts += (bytes(self._small), buf)
            self._small.clear()

    def flush(self) -> None:
        parts = [*self._parts, bytes(self._small)]
        self._parts.clear()
        self._small.clear()
        if self._framed:
            parts[0] = struct.pack(">I", sum(map(len, parts))) + bytes(parts[0])
        for part in filter(len, parts):
            self._send_all(part)

    def _send_all(self, data: bytes | memoryview) -> None:
        """Not the socket's own `sendall`, whose limit is for each piece that the peer takes."""
        self._patience.check()
        sent = self._socket.send(data)
        while sent < len(data):
            self._patience.check()
            sent += self._socket.send(memoryview(data)[sent:])


class _TextIntoSink:
    """Lets text be read although a large string may have gone to the sink."""

    def readString(self) -> str:
        return bytes(self.readBinary()).decode()  # type: ignore[attr-defined]


class _Numbered:
    """Numbers requests and looks for their numbers in replies.

    The generated code doesn't: a gateway that answers out of order would pass
    off one file's bytes as another's.
    """

    trans: SocketTransport

    def writeMessageBegin(self, name: str, ttype: int, seqid: int) -> None:
        self.trans.requests = _number_after(self.trans.requests)
        super().writeMessageBegin(name, ttype, self.trans.requests)  # type: ignore[misc]

    def readMessageBegin(self) -> tuple[str, int, int]:
        name, kind, number = super().readMessageBegin()  # type: ignore[misc]
        self.trans.replies = _number_after(self.trans.replies)
        is_reply = kind in (TMessageType.REPLY, TMessageType.EXCEPTION)
        if not is_reply or number != self.trans.replies:
            raise TTransportException(message="a reply to another request")
        return name, kind, number


def _number_after(number: int) -> int:
    return (number + 1) & 0x7FFF_FFFF  # the wire has 32 bits with a sign


_SINKING = {
    name: type(f"Sinking{protocol.__name__}", (_TextIntoSink, _Numbered, protocol), {})
    for name, protocol in _PLAIN.items()
}
_CODED_IN_C = {
    name: type(f"Numbered{protocol.__name__}", (_Numbered, protocol), {})
    for name, protocol in _ACCELERATED.items()
}


class Connection:
    """One socket, used by one caller at a time; replies come in the order of requests."""

    def __init__(
        self,
        sock: socket.socket,
        wire: Wire,
        gateway: str,
        timeout: float,
        silences: Silences | None = None,
    ) -> None:
        """Of a socket that is connected to the gateway of this address.

        `timeout` bounds a request and its reply as a whole.
        """
        framed, _, protocol = wire.rpartition("-")
        self._socket = sock
        self._gateway = gateway
        self._silences = silences or Silences()
        self._timeout = timeout
        self._patience = Patience(sock, time.monotonic() + timeout)
        # A request is small and shouldn't wait.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = SocketTransport(self._socket, self._patience, framed=bool(framed))
        limits = {
            "string_length_limit": MAX_MESSAGE_BYTES,
            "container_length_limit": MAX_LIST_ENTRIES,
        }
        self._codes_ranges = protocol == "binary"
        self._bulk: Any = DfsV2.Client(_SINKING[protocol](self._transport, **limits))
        self._control: Any = DfsV2.Client(_CODED_IN_C[protocol](self._transport, **limits))
        self._process = os.getpid()
        #: Number of the session's login that it is attached by.
        self.login = 0
        #: Requests without a reply so far.
        self.in_flight = 0
        self.broken = False
        self._last_reply = 0.0

    def wait_until(self, deadline: float) -> None:
        """Sends and receives that aren't over by then raise `TimedOut`, from now on."""
        self._patience.deadline = deadline

    def peer(self) -> str:
        """The other end's IP address."""
        return str(self._socket.getpeername()[0])

    @property
    def never_answered(self) -> bool:
        """Whether no reply has come over it."""
        return not self._last_reply

    def is_fresh(self) -> bool:
        """Whether its last reply came just now."""
        return time.monotonic() - self._last_reply < FRESH_S

    def ended_while_idle(self) -> bool:
        """Whether the gateway closed it since the last reply, as it does at a restart.

        Noticed before a request is sent, it can't have been executed.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))  # nothing is to come but the end

    def is_a_parents(self) -> bool:
        """Whether this process is a forked child, which would take its parent's replies."""
        return self._process != os.getpid()

    def call(self, method: str, request: Any) -> Any:
        # Not in those of a stream: the time of each begins with the reply before it.
        if method not in _BULK:
            request.deadline_ms = self._patience.left_ms()
        self.send(method, request)
        return self.receive(method)

    def send(self, method: str, request: Any) -> None:
        """Sends a request; each needs its `receive`, in the same order."""
        client = self._bulk if method in _BULK else self._control
        try:
            getattr(client, f"send_{method}")(request)
        except (TimeoutError, BlockingIOError):
            raise self._timed_out(method) from None
        except OSError as error:
            raise self._lost(self._last_word() or error) from error
        except BaseException:
            # A value that the wire can't carry, or an interrupt: an unknown part of the message is
            # coded or sent.
            self.close()
            raise
        self.in_flight += 1

    def receive(self, method: str, sink: memoryview | None = None) -> Any:
        """The next reply; a large payload goes to `sink` if it fits."""
        client = self._bulk if method in _BULK else self._control
        self._transport.sink = sink
        try:
            self._transport.begin_reply()
            try:
                reply = getattr(client, f"recv_{method}")()
            except (DfsError, TApplicationException) as error:
                reply = error  # a whole, well-formed reply too
            self._transport.end_reply()
        except (TimeoutError, BlockingIOError):
            raise self._timed_out(method) from None
        except Exception as error:
            # It ended, or the bytes are no reply.
            raise self._lost(error) from error
        except BaseException:
            self.close()  # in the middle of a reply
            raise
        self.in_flight -= 1
        self._answered()
        if isinstance(reply, DfsError):
            raise errors.from_wire(reply)
        if isinstance(reply, TApplicationException):
            unknown = reply.type == TApplicationException.UNKNOWN_METHOD
            kind = errors.Unsupported if unknown else errors.Internal
            raise kind(f"{method}: {reply.message}")
        return reply

    def read_range(self, handle: int, offset: int, length: int) -> bytes:
        """A readRange of at most `SHORT_RANGE_BYTES`."""
        if not self._codes_ranges or self.in_flight or self._transport.unread():
            request = ReadRangeRequest(handle=handle, offset=offset, length=length)
            self.send("readRange", request)
            return self._receive_range(length)
        try:
            data = self._transport.exchange_range(handle, offset, length)
        except (TimeoutError, BlockingIOError):
            raise self._timed_out("readRange") from None
        except (OSError, EOFError) as error:
            raise self._lost(error) from error
        except BaseException:
            self.close()  # as in `send` and `receive`
            raise
        if data is None:
            self.in_flight += 1  # its reply is there, and to be decoded
            return self._receive_range(length)
        self._answered()
        return data

    def _receive_range(self, length: int) -> bytes:
        data = bytes(self.receive("readRange").data or b"")
        if len(data) > length:
            raise errors.Internal("the gateway sent more bytes than asked for")
        return data

    def _answered(self) -> None:
        self._last_reply = time.monotonic()
        self._silences.count = 0

    def _timed_out(self, method: str) -> errors.TimedOut:
        self.close()
        self._silences.count += 1
        return errors.no_answer(method, self._gateway, self._timeout)

    def _last_word(self) -> ssl.SSLError | None:
        """A gateway's objection by TLS before it closed the connection; doesn't wait for one."""
        if isinstance(self._socket, ssl.SSLSocket):
            try:
                self._socket.settimeout(0)
                self._socket.recv(1)
            except ssl.SSLError as said:
                if not isinstance(said, ssl.SSLEOFError | ssl.SSLWantReadError):
                    return said
            except OSError:
                pass  # it said nothing
        return None

    def _lost(self, reason: object) -> Exception:
        self.close()
        refusal = refused_certificate(reason)
        if refusal is not None:
            return refusal
        # Another TLS alert.
        tls = isinstance(reason, ssl.SSLError) and not isinstance(reason, ssl.SSLEOFError)
        return ConnectionLostError(reason, sent=True, tls=tls)

    def close(self) -> None:
        self.broken = True
        self._socket.close()
