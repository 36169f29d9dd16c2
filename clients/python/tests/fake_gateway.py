"""A gateway over a dict, in this process, that fails on demand.

It knows just enough of DfsV2 for the client's own duties (pipelining, short
replies, reconnecting, repetitions) to be tested without a server.
"""

import contextlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

from strait._gen import DfsV2
from strait._gen import ttypes as t


class FakeGateway:
    """Serves on a free port until `close`."""

    def __init__(
        self,
        wire: str = "framed-binary",
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.files: dict[str, bytearray] = {}
        # Answer of openFile to a file's identity, by path.
        self.identities: dict[str, bytes] = {}
        #: Number of calls of each method.
        self.calls: Counter[str] = Counter()
        #: Number of those marked as retries.
        self.retries: Counter[str] = Counter()
        #: Milliseconds that each method's last client said to wait.
        self.deadlines: dict[str, int | None] = {}
        #: Methods whose next call breaks the connection, before or after it is done.
        self.cut_before: list[str] = []
        self.cut_after: list[str] = []
        #: Methods that are answered only after `resume`, and the number of their waiting calls.
        self.silent: set[str] = set()
        self.waiting: Counter[str] = Counter()
        self._rounds: Counter[str] = Counter()
        self._changed = threading.Condition()
        #: Applied to each readRange's (offset, length); returns the number of bytes to answer.
        self.shorten: Callable[[int, int], int] = lambda _, length: length
        #: Answer to the next call of a method, whatever its request.
        self.answers: dict[str, Any] = {}
        #: Entries that listings have given, one on each page: the cursor advances.
        self.listed = 0
        #: Raised by the next call of a method.
        self.raises: dict[str, t.DfsError] = {}
        #: Whether the store is full: what is appended, flushed or closed is refused.
        self.full = False
        #: Whether a file goes on after that; otherwise a failed close ends it.
        self.goes_on = True
        #: Number of files that their clients gave up.
        self.abandoned = 0
        #: Called after each refusal.
        self.refused_by_store: Callable[[], None] = lambda: None
        self.capabilities = ["append", "rename_replace"]
        self.max_chunk_bytes: int | None = 4 << 20
        self.tokens = {"token-1"}
        self.incarnation = 1
        self.handles: dict[int, str] = {}
        self.repetitions: dict[bytes, Any] = {}
        #: Set once a TLS handshake has failed.
        self.refused = threading.Event()
        self._wire = wire
        self._tls = tls
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((host, 0))
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"strait://{self.host}:{self.port}/"

    def close(self) -> None:
        self._listener.close()
        self.resume()
        self.break_connections()

    def restart(self) -> None:
        """Another process in its place, which takes the tokens."""
        self.incarnation += 1
        self.handles.clear()
        self.break_connections()

    def await_waiting(self, method: str, count: int) -> None:
        """Until this many calls of a silent method wait for their answers."""
        with self._changed:
            came = self._changed.wait_for(lambda: self.waiting[method] == count, 10)
            assert came, f"{self.waiting[method]} calls of {method}"

    def resume(self) -> None:
        with self._changed:
            self.silent.clear()
            self._changed.notify_all()

    def resume_once(self, method: str) -> None:
        """Answers the calls of a silent method that wait now; later ones wait again."""
        with self._changed:
            self._rounds[method] += 1
            self._changed.notify_all()

    def _wait_if_silent(self, method: str) -> None:
        with self._changed:
            this_round = self._rounds[method]
            self.waiting[method] += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: method not in self.silent or self._rounds[method] > this_round
            )
            self.waiting[method] -= 1
            self._changed.notify_all()

    def break_connections(self) -> None:
        with self._lock:
            broken, self._sockets = self._sockets, []
        for sock in broken:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                with self._lock:
                    self._sockets.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        if self._tls is not None:
            plain = sock
            try:
                sock = self._tls.wrap_socket(plain, server_side=True)
            except OSError:
                # One of the two doesn't trust the other.
                self.refused.set()
                return
        plain = TSocket()
        plain.setHandle(sock)
        framed, _, protocol = self._wire.rpartition("-")
        transport = TFramedTransport(plain) if framed else TBufferedTransport(plain)
        coder = {"binary": TBinaryProtocol, "compact": TCompactProtocol}[protocol](transport)
        processor = DfsV2.Processor(Handler(self))
        with contextlib.suppress(TTransportException, OSError, EOFError), sock:
            while True:
                processor.process(coder, coder)


class Handler:
    """The methods, for one connection."""

    def __init__(self, gateway: FakeGateway) -> None:
        self._gateway = gateway

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or not callable(found):
            return found
        gateway = self._gateway

        def call(request: Any) -> Any:
            gateway._wait_if_silent(name)
            with gateway._lock:
                gateway.calls[name] += 1
                gateway.deadlines[name] = request.deadline_ms
                gateway.retries[name] += bool(getattr(request, "is_retry", False))
                if name in gateway.raises:
                    raise gateway.raises.pop(name)
                if name in gateway.cut_before:
                    gateway.cut_before.remove(name)
                    raise TTransportException  # the one that Thrift's processor lets through
                request_id = getattr(request, "request_id", None)
                if request_id in gateway.repetitions:
                    assert request.is_retry, f"{name}: the same request twice, not marked so"
                    return given(gateway.repetitions[request_id])
                try:
                    reply = gateway.answers.pop(name, None) or found(request)
                except t.DfsError as error:
                    reply = error  # which is remembered, too
                if request_id is not None:
                    gateway.repetitions[request_id] = reply
                if name in gateway.cut_after:
                    gateway.cut_after.remove(name)
                    raise TTransportException
                return given(reply)

        return call

    def getStoreStatus(self, request: t.GetStoreStatusRequest) -> t.GetStoreStatusReply:
        return t.GetStoreStatusReply()

    def openSession(self, request: t.OpenSessionRequest) -> t.OpenSessionReply:
        gateway = self._gateway
        if request.token is not None and request.token not in gateway.tokens:
            raise failure(t.ErrorCode.UNAUTHENTICATED, "Unauthenticated")
        if request.token is None:
            gateway.tokens.add(f"token-{len(gateway.tokens) + 1}")
        return t.OpenSessionReply(
            token=request.token or f"token-{len(gateway.tokens)}",
            user=request.user or "nobody",
            store=t.StoreInfo(name="memory", uri="memory:", capabilities=gateway.capabilities),
            version=t.ProtocolVersion.V1,
            limits=t.Limits(max_chunk_bytes=gateway.max_chunk_bytes),
            incarnation=gateway.incarnation,
        )

    def closeSession(self, request: t.CloseSessionRequest) -> t.CloseSessionReply:
        return t.CloseSessionReply()

    def getFileInfo(self, request: t.GetFileInfoRequest) -> t.GetFileInfoReply:
        if any(path.startswith(f"{request.path}/") for path in self._gateway.files):
            info = t.FileInfo(path=request.path, type=t.FileType.DIRECTORY)
            return t.GetFileInfoReply(info=info)
        data = self._file(request.path)
        return t.GetFileInfoReply(
            info=t.FileInfo(path=request.path, type=t.FileType.FILE, length=len(data))
        )

    def listDirectory(self, request: t.ListDirectoryRequest) -> t.ListDirectoryReply:
        if request.cursor is not None:
            self._known(request.cursor)
        names = sorted(self._gateway.files)
        info = t.FileInfo(path=names[self._gateway.listed], type=t.FileType.FILE)
        self._gateway.listed += 1
        more = self._gateway.listed < len(names)
        cursor = (request.cursor or self._handle(request.path)) if more else None
        return t.ListDirectoryReply(entries=[info], cursor=cursor)

    def openFile(self, request: t.OpenFileRequest) -> t.OpenFileReply:
        data = self._file(request.path)
        identity = self._gateway.identities.get(request.path)
        handle = self._handle(request.path)
        return t.OpenFileReply(handle=handle, length=len(data), identity=identity)

    def readRange(self, request: t.ReadRangeRequest) -> t.ReadRangeReply:
        data = self._file(self._gateway.handles.get(request.handle, ""))
        length = self._gateway.shorten(request.offset, request.length)
        return t.ReadRangeReply(data=bytes(data[request.offset : request.offset + length]))

    def createFile(self, request: t.CreateFileRequest) -> t.OpenWriterReply:
        if not request.overwrite and request.path in self._gateway.files:
            raise failure(t.ErrorCode.ALREADY_EXISTS, "AlreadyExists", request.path)
        self._gateway.files[request.path] = bytearray()
        return t.OpenWriterReply(handle=self._handle(request.path), position=0)

    def appendData(self, request: t.AppendDataRequest) -> t.AppendDataReply:
        self._known(request.handle)
        data = self._file(self._gateway.handles[request.handle])
        if request.is_retry and request.expected_offset + len(request.data) == len(data):
            return t.AppendDataReply(position=len(data))  # of a first try that is forgotten
        if request.expected_offset != len(data):
            raise failure(t.ErrorCode.INVALID_ARGUMENT, "InvalidArgument")
        self._check_room()
        data += request.data
        return t.AppendDataReply(position=len(data))

    def flushFile(self, request: t.FlushFileRequest) -> t.FlushFileReply:
        self._known(request.handle)
        self._check_room()
        return t.FlushFileReply(position=0, replicas=3)

    def closeFile(self, request: t.CloseFileRequest) -> t.CloseFileReply:
        self._known(request.handle)
        if request.abandon:
            self._gateway.abandoned += 1
            del self._gateway.handles[request.handle]
            return t.CloseFileReply(length=0)
        if self._gateway.goes_on:
            self._check_room()
        del self._gateway.handles[request.handle]
        self._check_room()
        return t.CloseFileReply(replicas=2)

    def _check_room(self) -> None:
        if self._gateway.full:
            self._gateway.refused_by_store()
            raise failure(t.ErrorCode.NO_SPACE, "NoSpace")

    def renamePath(self, request: t.RenamePathRequest) -> t.MutationReply:
        self._gateway.files[request.target] = self._gateway.files.pop(request.source)
        return t.MutationReply()

    def removePath(self, request: t.RemovePathRequest) -> t.MutationReply:
        self._file(request.path)
        del self._gateway.files[request.path]
        return t.MutationReply()

    def _file(self, path: str) -> bytearray:
        try:
            return self._gateway.files[path]
        except KeyError:
            raise failure(t.ErrorCode.NOT_FOUND, "NotFound", path) from None

    def _known(self, handle: int) -> None:
        if handle not in self._gateway.handles:
            raise failure(t.ErrorCode.INVALID_ARGUMENT, "InvalidArgument")

    def _handle(self, path: str) -> int:
        handle = 1000 + self._gateway.calls.total()
        self._gateway.handles[handle] = path
        return handle


def given(reply: Any) -> Any:
    if isinstance(reply, t.DfsError):
        raise reply
    return reply


def failure(code: int, kind: str, path: str | None = None) -> t.DfsError:
    return t.DfsError(code=code, kind=kind, message=f"as asked: {kind}", path=path)
