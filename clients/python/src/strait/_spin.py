"""Asking for an answer for a while before sleeping until it comes."""

import os
import socket
import ssl

# So often an answer is asked for before it is slept for: some 60 µs, which is longer than
# a gateway on this host or rack takes for a few cached kilobytes, and about what it costs
# to fall asleep, be woken, and find one's caches cold.
TRIES = 40
# After an answer that took longer, so many are slept for.
ASLEEP = 32


class Spinner:
    """Receives from one socket, spinning as long as answers come soon."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        # TLS knows no flags; and on a single processor the gateway couldn't work meanwhile.
        self._may_spin = not isinstance(sock, ssl.SSLSocket) and _processors() > 1
        self._asleep = 0

    def receive(self, most: int) -> bytes:
        """The next bytes, at most so many; none if the other end has closed."""
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
