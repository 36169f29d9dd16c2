"""A proxy before a gateway that takes faults at stated bytes: cuts, silences, restarts, edits.

clients/conformance/README.md describes the faults.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import waits

# Pause of a stutter: short enough to renew any limit of a single wait.
STUTTER_S = 0.1
# Firefox sends a preflight ten times, which would hide how often the page sends its request.
PREFLIGHT_REPLY = b"HTTP/1.1 204 "
PIECE = 1 << 16


@dataclass(frozen=True)
class Fault:
    """Strikes in the place of the byte that follows the first `after` ones of a direction.

    An edit strikes where it finds its bytes.
    """

    do: Literal["none", "cut", "hold", "stutter", "gone", "restart", "edit"] = "none"
    #: The end to which the counted bytes go. `either` counts each direction by itself.
    to: Literal["client", "gateway", "either"] = "client"
    #: For one strike after the other, again from the first after the last.
    after: tuple[int, ...] = (0,)
    #: The number of strikes, after which all bytes pass; None: without limit.
    times: int | None = None
    #: What an edit looks for, within a piece that arrives at once, and as many bytes in its place.
    find: bytes = b""
    put: bytes = b""


NONE = Fault()
CUT = Fault("cut")
SILENT = Fault("hold")
# It ends within a frame's header, or after it.
HALF = Fault("hold", after=(7,))
STUTTER = Fault("stutter")
GONE = Fault("gone", after=())


@dataclass
class Flow:
    """The bytes of one direction of a connection."""

    source: socket.socket
    target: socket.socket
    to: Literal["client", "gateway"]
    #: The fault for which it counts them.
    fault: Fault | None = None
    passed: int = 0
    limit: int = 0


class FaultyProxy:
    """Forwards to a gateway; the bytes on the way suffer from the fault that struck last."""

    def __init__(self, target_port: int, restart: Callable[[], None] | None = None) -> None:
        #: How often the fault has struck.
        self.strikes = 0
        #: All bytes that came from clients.
        self.requests = bytearray()
        #: Set once it has held back bytes.
        self.held = threading.Event()
        self._fault = NONE
        self._restart = restart
        self._target_port = target_port
        self._closed = self._gone = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, fault: Fault) -> None:
        """From now on. Each direction of each connection begins to count its bytes."""
        with self._lock:
            self._fault, self.strikes = fault, 0
        if fault.do == "gone" and not fault.after:
            self._leave()

    def close(self) -> None:
        self._closed = True
        # A listener that is only closed still accepts in the thread that waits for it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            _shut_down(sock)

    def _leave(self) -> None:
        self._gone = True
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    gateway = socket.create_connection(("127.0.0.1", self._target_port))
                except OSError:  # it restarts
                    client.close()
                    continue
                self._sockets += [client, gateway]
                if self._closed:  # meanwhile
                    self.close()
                    return
                for flow in (Flow(client, gateway, "gateway"), Flow(gateway, client, "client")):
                    threading.Thread(target=self._forward, args=(flow,), daemon=True).start()

    def _forward(self, flow: Flow) -> None:
        try:
            while data := flow.source.recv(PIECE):
                if flow.to == "gateway":
                    self.requests += data
                if not self._pass_on(data, flow):
                    break
        except OSError:
            pass
        finally:
            client, gateway = flow.source, flow.target
            if flow.to == "client":
                client, gateway = gateway, client
            # The client first: a gateway that gets half a request may answer it.
            for sock in (client, gateway):
                if self._gone:
                    _reset_at_close(sock)
                # One that is only closed lives on while the other thread waits for it.
                _shut_down(sock)
                sock.close()

    def _pass_on(self, data: bytes, flow: Flow) -> bool:
        """Whether the connection is to go on."""
        if flow.to == "client" and data.startswith(PREFLIGHT_REPLY):
            flow.target.sendall(data)
            return True
        data = self._edited(data, flow)
        fault, room = self._due(flow, len(data))
        flow.target.sendall(data[:room])
        if fault is None:
            return True
        if fault.do == "hold":
            self.held.set()
            while flow.source.recv(PIECE):
                pass
        elif fault.do == "stutter":
            self._stutter(data[room:], flow)
        elif fault.do == "restart":
            assert self._restart, "a gateway that can restart"
            self._restart()
        elif fault.do == "gone":
            self._leave()
        return False

    def _edited(self, data: bytes, flow: Flow) -> bytes:
        with self._lock:
            fault = self._fault
            if fault.do != "edit" or fault.to != flow.to:
                return data
            self.strikes += data.count(fault.find)
        return data.replace(fault.find, fault.put)

    def _due(self, flow: Flow, length: int) -> tuple[Fault | None, int]:
        """The fault that strikes within the next `length` bytes, and how many come before it."""
        with self._lock:
            fault = self._fault
            if flow.fault is not fault:
                after = fault.after or (0,)
                flow.fault, flow.passed = fault, 0
                flow.limit = after[self.strikes % len(after)]
            applies = fault.do not in ("none", "edit") and fault.to in (flow.to, "either")
            is_over = fault.times is not None and self.strikes >= fault.times
            room = flow.limit - flow.passed
            if not applies or is_over or length <= room:
                flow.passed += length
                return None, length
            self.strikes += 1
            return fault, max(room, 0)

    def _stutter(self, data: bytes, flow: Flow) -> None:
        while data:
            for n in range(len(data)):
                if self._closed:
                    return
                flow.target.sendall(data[n : n + 1])
                waits.pause("the pace of a stutter", STUTTER_S)
            data = flow.source.recv(PIECE)


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _reset_at_close(sock: socket.socket) -> None:
    """As the system does for a program that ends with bytes unread."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextlib.contextmanager
def full_backlog():
    """The port of a listener on which a connection isn't even taken by the system."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            sock = stack.enter_context(socket.socket())
            sock.settimeout(0.3)
            try:
                sock.connect(listener.getsockname())
            except TimeoutError:
                break
        yield listener.getsockname()[1]
