"""Asking for an answer for a while before sleeping until it comes."""

import os
import socket
import ssl

# Tries to receive an answer before sleeping: some 60 µs, which is longer than a gateway on this
# host or rack needs for a few cached kilobytes. It is about the cost of falling asleep, waking up,
# and finding the caches cold.
TRIES = 40
# After a slower answer, this many receives sleep.
ASLEEP = 32


class Spinner:
    """Receives from one socket, spinning as long as answers come soon."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        # TLS has no flags; and on a single processor spinning would stop the gateway.
        self._may_spin = not isinstance(sock, ssl.SSLSocket) and _processors() > 1
        self._asleep = 0

    def receive(self, most: int) -> bytes:
        """The next bytes, at most this many; none if the other end has closed."""
        if self._asleep:
            self._asleep -= 1
        elif self._may_spin:
            receive, at_once = self._socket.recv, socket.MSG_DONTWAIT
            for _ in range(TRIES):
                try:
                    return receive(most, at_once)
                except BlockingIOError:
                    pass
            self._asleep = ASLEEP
        return self._socket.recv(most)


def _processors() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
