"""A proxy before a gateway that takes faults: it falls silent, stutters, cuts, or is gone."""

import contextlib
import socket
import struct
import threading
from typing import Literal

import waits

# `cut` ends each connection in place of its next reply.
Fault = Literal["none", "silent", "half", "stutter", "cut", "gone"]

# Pause of a stutter: short enough to renew any limit of a single wait.
STUTTER_S = 0.1
# Bytes sent of a half reply: they end within a frame's header, or after it.
HALF_BYTES = 7


class FaultyProxy:
    """Forwards to a gateway; the gateway's answers suffer from `fault`."""

    def __init__(self, target_port: int) -> None:
        self.fault: Fault = "none"
        #: Number of replies in whose place it cut the connection.
        self.cuts = 0
        #: Set once it has held back a reply.
        self.held = threading.Event()
        self._target_port = target_port
        self._closed = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, fault: Fault) -> None:
        """From now on."""
        self.fault = fault
        if fault == "gone":
            self.close()

    def close(self) -> None:
        self._closed = True
        # A listener that is only closed still accepts in the thread that waits for it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            _shut_down(sock)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._target_port))
                self._sockets += [client, gateway]
                if self._closed:  # meanwhile
                    self.close()
                    return
                for ends in ((client, gateway, False), (gateway, client, True)):
                    threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        try:
            self._pass_on(source, target, is_reply)
        except OSError:
            pass
        finally:
            for sock in (source, target):
                if self.fault == "gone":
                    _reset_at_close(sock)
                # One that is only closed lives on while the other thread waits for it.
                _shut_down(sock)
                sock.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        while data := source.recv(1 << 16):
            fault = self.fault if is_reply else "none"
            if fault == "gone":
                return
            if fault == "cut":
                self.cuts += 1
                return
            if fault == "none":
                target.sendall(data)
            elif fault == "half":
                target.sendall(data[:HALF_BYTES])
                self._hold(source)
            elif fault == "silent":
                self._hold(source)
            else:
                self._stutter(data, target)

    def _hold(self, source: socket.socket) -> None:
        self.held.set()
        while source.recv(1 << 16):
            pass

    def _stutter(self, data: bytes, target: socket.socket) -> None:
        for n in range(len(data)):
            if self._closed:
                return
            target.sendall(data[n : n + 1])
            waits.pause("the pace of a stutter", STUTTER_S)


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
