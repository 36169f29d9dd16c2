"""A session with a gateway: login, a pool of connections, and retries."""

import contextlib
import ipaddress
import os
import random
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from strait import errors
from strait._connect import CONNECT_TIMEOUT_S, ConnectionLostError, connect
from strait._gen.ttypes import (
    CloseFileRequest,
    CloseSessionRequest,
    OpenSessionRequest,
    ProtocolVersion,
)
from strait._login import LoginInTurn
from strait._patience import Silences
from strait._types import StoreInfo
from strait._wire import Connection, Wire

T = TypeVar("T")

# Tries of one request before a broken connection becomes the caller's error.
# With the pauses below they span 1.6 to 3.1 s: a gateway's restart.
ATTEMPTS = 6
FIRST_PAUSE_S = 0.1
# Time limit for cleanup requests (an open handle, the session, a temporary file) once the gateway
# has left a request unanswered. After a second one there is no time.
PARTING_S = 2.0
# Idle connections kept: few callers are concurrent, and each connection costs the gateway one.
MAX_IDLE_CONNECTIONS = 8
# Used if the gateway doesn't report its limit.
DEFAULT_CHUNK_BYTES = 4 << 20
# Bytes of a mutation's request id; random, so that no two clients share one.
REQUEST_ID_BYTES = 16


def pause_s(attempt: int) -> float:
    """The pause before this attempt of several, the first of which has the number 0."""
    # Half of it is random, so that the clients of one gateway don't return at once.
    return FIRST_PAUSE_S * float(1 << (attempt - 1)) * random.uniform(0.5, 1)


def _path_of(request: Any) -> str | None:
    """The path that a request names first."""
    return getattr(request, "path", None) or getattr(request, "source", None)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to reach a gateway, and as whom; `timeout` in seconds is a request's."""

    host: str
    port: int
    wire: Wire
    timeout: float
    tls: ssl.SSLContext | None = None
    store: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Of the gateway, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Session:
    """Requests of any number of threads; each has a connection to itself while it needs one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._idle: list[Connection] = []
        # Of the idle connections and the last login's results. The garbage collector may end a
        # listing or a file while this thread holds it, so it is reentrant.
        self._lock = threading.RLock()
        self._turn = LoginInTurn()
        self._silences = Silences()
        self._process = self._owner = os.getpid()
        self.token = endpoint.token
        self._login = 0  # counts logins: connections of an older one aren't pooled
        # Incarnation of the session on the gateway. If a handle has another one, the handle is
        # gone. None if the gateway doesn't tell.
        self.incarnation: int | None = None
        self.closed = False
        self.user = ""
        self.store: StoreInfo = StoreInfo("", "", frozenset(), 0)
        self.max_chunk_bytes = DEFAULT_CHUNK_BYTES
        self.max_idle = MAX_IDLE_CONNECTIONS
        # At once and without retries: a user who mistypes an address needs to know now.
        try:
            self._idle.append(self._connect(self.deadline()))
        except ConnectionLostError as lost:
            raise self._unavailable(lost) from lost

    # -- Deadlines

    def deadline(self) -> float:
        """When a request that begins now is given up, with all that belongs to it."""
        return time.monotonic() + self._endpoint.timeout

    def parting(self) -> float:
        """The same for one that only tidies up: soon, where the gateway is silent."""
        if not self._silences.count:
            return self.deadline()
        left = PARTING_S if self._silences.count == 1 else 0.0
        return time.monotonic() + min(self._endpoint.timeout, left)

    # -- Requests

    def call(self, method: str, request: Any, deadline: float | None = None) -> Any:
        """One request and its reply, over a fresh connection if the old one broke."""
        return self.attempt(
            method,
            request,
            lambda connection: connection.call(method, request),
            deadline,
            _path_of(request),
        )

    def call_once(self, method: str, request: Any) -> Any:
        """`call` without another try, for a reply that can't be had a second time."""
        try:
            with self.connection(self.deadline()) as connection:
                return connection.call(method, request)
        except ConnectionLostError as lost:
            raise errors.at(self._unavailable(lost), _path_of(request)) from lost
        except errors.TimedOut as error:
            errors.at(error, _path_of(request))
            raise

    def mutate(self, method: str, request: Any, deadline: float | None = None) -> Any:
        """`call` for a request that changes something."""
        request.request_id = secrets.token_bytes(REQUEST_ID_BYTES)
        return self.call(method, request, deadline)

    def attempt(
        self,
        method: str,
        request: Any,
        exchange: Callable[[Connection], T],
        deadline: float | None = None,
        path: str | None = None,
    ) -> T:
        """`exchange` of this request about `path`, tried again while the connection breaks.

        Every request may be repeated: it either changes nothing, or carries
        the id by which the gateway recognises the repetition. A `request` of None is a read.
        """
        began = time.monotonic()
        deadline = began + self._endpoint.timeout if deadline is None else deadline
        connect_by = deadline
        sent = renewed = False
        last: ConnectionLostError | None = None
        for attempt in range(ATTEMPTS):
            connecting = True
            if attempt:
                pause = pause_s(attempt)
                if last is not None and time.monotonic() + pause >= connect_by:
                    break
                time.sleep(pause)
            try:
                # Not `connection()`, which takes three microseconds more.
                connection = self.borrow(deadline, connect_by, trusting=request is None)
                connecting = False
                try:
                    return exchange(connection)
                finally:
                    self.give_back(connection)
            except ConnectionLostError as lost:
                if last is None:
                    # If a gateway doesn't accept connections now, wait for it once.
                    since = time.monotonic() if lost.sent else began
                    connect_by = min(deadline, since + CONNECT_TIMEOUT_S)
                last, sent = lost, sent or lost.sent
                self._drop_idle()
                if hasattr(request, "is_retry"):
                    request.is_retry = sent or bool(request.is_retry)
            except errors.StraitError as error:
                if isinstance(error, errors.Unauthenticated) and not renewed:
                    # The session idled out, or its gateway was replaced.
                    renewed = True
                    self._drop_idle()
                    continue
                if connecting and sent and hasattr(request, "request_id"):
                    raise self._unknown(method, request, error) from error
                if isinstance(error, errors.TimedOut):
                    # While it connected, nothing of this request was sent.
                    error.retry_safe = connecting or not hasattr(request, "request_id")
                    errors.at(error, path)
                raise
        assert last is not None, "a second Unauthenticated is raised"
        self._silences.count += 1
        if sent and hasattr(request, "request_id"):
            raise self._unknown(method, request, last) from last
        raise errors.at(self._unavailable(last), path) from last

    @staticmethod
    def _unknown(method: str, request: Any, why: Exception) -> errors.OutcomeUnknown:
        """The error of a change that was sent, if no gateway can be asked about it."""
        return errors.OutcomeUnknown(
            f"{method}: the connection broke, and no gateway tells whether it was done ({why})",
            _path_of(request),
        )

    def release(self, handle: int) -> None:
        """Closes an open file or listing of the gateway that needs no answer."""
        try:
            if not self.closed:
                with self.connection(self.parting()) as connection:
                    connection.call("closeFile", CloseFileRequest(handle=handle))
        except (errors.StraitError, ConnectionLostError):
            pass  # the gateway forgets the handle with the session

    def abandon(self, handle: int) -> None:
        """Has the gateway abandon a file that is being written; doesn't wait for the answer."""
        try:
            if not self.closed:
                with self.connection(self.parting()) as connection:
                    # With an id, it runs though the connection ends.
                    id_ = secrets.token_bytes(REQUEST_ID_BYTES)
                    request = CloseFileRequest(handle=handle, request_id=id_, abandon=True)
                    connection.send("closeFile", request)
        except (errors.StraitError, ConnectionLostError):
            pass  # the gateway forgets the handle with the session

    @contextlib.contextmanager
    def connection(self, deadline: float) -> Iterator[Connection]:
        """A connection for the caller alone."""
        connection = self.borrow(deadline)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def borrow(
        self, deadline: float, connect_by: float | None = None, *, trusting: bool = False
    ) -> Connection:
        """A connection to use until `deadline`; `trusting`, maybe one that has just ended.

        Without an idle one, another is opened: by `connect_by`, if that is given.
        """
        self._notice_fork()
        if self.closed:
            raise ValueError("I/O operation on a closed client")
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if (trusting and connection.is_fresh()) or not connection.ended_while_idle():
                connection.wait_until(deadline)
                return connection
            connection.close()
        return self._connect(deadline, connect_by)

    def give_back(self, connection: Connection) -> None:
        stale = connection.login != self._login or connection.is_a_parents()
        usable = not (connection.broken or connection.in_flight or stale or self.closed)
        with self._lock:
            if usable and len(self._idle) < self.max_idle:
                self._idle.append(connection)
                return
        connection.close()

    # -- Session and connections

    def _connect(self, deadline: float, connect_by: float | None = None) -> Connection:
        """A new connection, attached to the session."""
        endpoint = self._endpoint
        limit = deadline if connect_by is None else connect_by
        sock = connect(endpoint.host, endpoint.port, endpoint.tls, limit)
        connection = Connection(
            sock, endpoint.wire, endpoint.address, endpoint.timeout, self._silences
        )
        connection.wait_until(deadline)
        try:
            self._check_secrecy(connection)
            self._attach(connection, deadline)
        except ConnectionLostError as lost:
            # The caller's own request wasn't sent yet.
            never = connection.never_answered
            raise ConnectionLostError(lost, sent=False, tls=lost.tls, unanswered=never) from lost
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_secrecy(self, connection: Connection) -> None:
        """Refuses to send what the caller logs in with where others could read it."""
        endpoint = self._endpoint
        is_secret = endpoint.password is not None or endpoint.token is not None
        if not is_secret or endpoint.tls or ipaddress.ip_address(connection.peer()).is_loopback:
            return
        raise errors.Unauthenticated(
            "a password or token isn't sent to another machine in the clear; "
            "use TLS (tls=True, or the file of certificates to trust)"
        )

    def _attach(self, connection: Connection, deadline: float) -> None:
        """By the session's token, side by side with others; by a login that serves all."""
        refused = -1  # the login whose token isn't good any more
        while True:
            with self._lock:
                token, login = self.token, self._login
            if token is not None and login != refused:
                try:
                    self._open(connection, login, token=token)
                except errors.Unauthenticated:
                    # The token has expired. With a password, or if none is needed, log in again.
                    if self._endpoint.token is not None or connection.broken:
                        raise
                    refused = login
                else:
                    return
            endpoint = self._endpoint
            turn = self._turn.take(deadline, endpoint.address, endpoint.timeout)
            with turn as is_ours:
                if is_ours and login == self._login:
                    self._log_in(connection)
                    return
            # Another thread has logged in meanwhile; its token serves this one, too.

    def _log_in(self, connection: Connection) -> None:
        endpoint = self._endpoint
        self._open(
            connection,
            self._login + 1,
            store=endpoint.store,
            user=endpoint.user,
            password=endpoint.password,
        )

    def _open(self, connection: Connection, login: int, **credentials: str | None) -> None:
        reply = connection.call(
            "openSession", OpenSessionRequest(version=ProtocolVersion.V1, **credentials)
        )
        chunk_bytes = None if reply.limits is None else reply.limits.max_chunk_bytes
        if chunk_bytes is not None and chunk_bytes <= 0:
            raise errors.Internal(f"openSession: the gateway's max_chunk_bytes is {chunk_bytes}")
        connection.login = login
        with self._lock:
            if login < self._login:
                return  # of a session that another login has replaced meanwhile
            self._login = login
            self.token = reply.token
            self.incarnation = reply.incarnation
            self.user = reply.user or ""
            if reply.store is not None:
                self.store = StoreInfo._of(reply.store)
            if chunk_bytes is not None:
                self.max_chunk_bytes = chunk_bytes

    def _notice_fork(self) -> None:
        """In a child process: leaves the parent's connections to the parent."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        # Another thread of the parent may have held these locks.
        self._lock, self._turn = threading.RLock(), LoginInTurn()
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()

    def _unavailable(self, lost: ConnectionLostError) -> errors.Unavailable:
        endpoint = self._endpoint
        if lost.tls:
            return errors.Unavailable(f"TLS with {endpoint.address}: {lost}")
        may_want_tls = lost.unanswered and endpoint.tls is None
        question = (
            "is it running, is the address right, and does it serve TLS only?"
            if may_want_tls
            else "is it running, and is the address right?"
        )
        return errors.Unavailable(f"no gateway at {endpoint.address} ({lost}); {question}")

    def close(self) -> None:
        """Ends the session, unless it is a parent process's."""
        if self.closed:
            return
        self._notice_fork()
        try:
            if self._owner == self._process and self._endpoint.token is None:
                with self.connection(self.parting()) as connection:
                    connection.call("closeSession", CloseSessionRequest())
        except (ConnectionLostError, errors.Unauthenticated, errors.TimedOut):
            pass  # gone already; but a file that it fails to close is an error
        finally:
            self.closed = True
            self._drop_idle()
