"""How long a connection may wait: until a deadline, however many waits that takes."""

import math
import socket
import ssl
import struct
import time

# Allowed difference between a socket's own limit and the deadline's: setting it costs two system
# calls.
SLACK_S = 0.05
# A smaller limit would mean no limit.
SHORTEST_S = 0.001
# The largest number that a request holds: 24 days.
LONGEST_MS = (1 << 31) - 1


class Patience:
    """Keeps the limit of each wait on one socket at what is left until the deadline.

    So bytes that arrive one at a time don't extend the deadline.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._socket = sock
        self._is_plain = not isinstance(sock, ssl.SSLSocket)
        self._set_s = -1.0
        #: Deadline by `time.monotonic`.
        self.deadline = deadline
        if self._is_plain:
            sock.settimeout(None)

    def check(self) -> None:
        """Before each receive and send; TimeoutError where the time is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if not -SLACK_S < left - self._set_s < SLACK_S:
            self._set(max(left, SHORTEST_S))

    def left_ms(self) -> int:
        """Milliseconds until the deadline, for the gateway; at least 1."""
        return min(max(math.ceil((self.deadline - time.monotonic()) * 1e3), 1), LONGEST_MS)

    def _set(self, seconds: float) -> None:
        self._set_s = seconds
        if not self._is_plain:
            self._socket.settimeout(seconds)
            return
        # Receiving and sending then end with BlockingIOError. With `settimeout`, Python would poll
        # before each: two more system calls a request.
        timeval = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)


class Silences:
    """How many requests of a session in a row, on any connection, got no answer in time."""

    def __init__(self) -> None:
        self.count = 0
