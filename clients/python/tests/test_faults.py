"""A client fails within its stated time, in whatever state its gateway falls silent or goes."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import faults
import pytest
import waits
from fake_gateway import FakeGateway, failure

import strait
from strait import _session
from strait._gen.ttypes import ErrorCode

TIMEOUT_S = 0.5
# The timeout, time for cleanup after it, and time for a busy machine. A stutter takes far longer: a
# tenth of a second for each byte.
LIMIT_S = TIMEOUT_S + _session.PARTING_S + 4
CONTENT = bytes(range(256)) * 20
FIRST_PAUSE_S = 0.01
# More than there are processors.
SIDE_BY_SIDE = 8
TRIES = 10


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", FIRST_PAUSE_S)


@pytest.fixture
def proxy(fake):
    with contextlib.closing(proxied(fake)) as proxy:
        yield proxy


def proxied(fake):
    fake.files |= {"/file": bytearray(CONTENT), "/other": bytearray()}
    return faults.FaultyProxy(fake.port)


def connected(proxy, timeout=TIMEOUT_S):
    return strait.connect(f"127.0.0.1:{proxy.port}", timeout=timeout)


@contextlib.contextmanager
def within_the_limit():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LIMIT_S


def attach(client, struck):
    """On a new connection, by the token."""
    with client.open("/file", "rb", buffering=0):  # which keeps one connection for itself
        client._session._drop_idle()
        struck()
        client.stat("/file")


def look(client, struck):
    struck()
    client.stat("/file")


def open_to_read(client, struck):
    struck()
    client.open("/file", "rb")


def open_to_write(client, struck):
    struck()
    client.open("/new", "wb")


def read(client, struck):
    with client.open("/file", "rb", buffering=0) as file:
        file.read(10)
        file.read(10)  # now it reads ahead
        struck()
        while file.read(1000):
            pass
        file.seek(0)
        file.readall()


def read_somewhere(client, struck):
    with client.open("/file", "rb", buffering=0) as file:
        struck()
        file.pread(100, 3)


def read_much_somewhere(client, struck):
    client._session.max_chunk_bytes = 1 << 20
    with client.open("/file", "rb", buffering=0) as file:
        struck()
        file.pread(1 << 20, 0)


def append(client, struck):
    with client.open("/new", "wb", buffering=0) as file:
        struck()
        for _ in range(40):  # more than may be in flight
            file.write(CONTENT)


def flush(client, struck):
    with client.open("/new", "wb", buffering=0) as file:
        struck()
        file.flush()


def close(client, struck):
    file = client.open("/new", "wb", buffering=0)
    struck()
    file.close()


def list_directory(client, struck):
    entries = client.scandir("/")
    next(entries)
    struck()
    list(entries)


def change(client, struck):
    struck()
    client.rename("/file", "/renamed")


def get(client, struck):
    client.get("/file", "/dev/null", lambda done, total: None)
    struck()
    client.get("/file", "/dev/null")


def put(client, struck):
    def progress(done, total):
        struck()

    with open("/dev/zero", "rb", buffering=0) as endless:  # noqa: PTH123
        client.put(endless, "/new", progress)


STATES = [
    attach, look, open_to_read, open_to_write, read, read_somewhere, read_much_somewhere,
    append, flush, close, list_directory, change, get, put,
]  # fmt: skip


SILENCES = {"silent": faults.SILENT, "half": faults.HALF, "stutter": faults.STUTTER}
FAULTS = {**SILENCES, "gone": faults.GONE}


@pytest.fixture(scope="module")
def outcomes():
    """The error in each state by each fault: futures, side by side, since they mostly wait."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        patch.setattr(_session, "FIRST_PAUSE_S", FIRST_PAUSE_S)
        yield {
            (state, fault): pool.submit(struck, state, fault)
            for fault in FAULTS
            for state in STATES
        }


class Strike:
    """Strikes a proxy when it is called, and knows when it was first."""

    def __init__(self, proxy, fault):
        self._proxy = proxy
        self._fault = fault
        self.at = None

    def __call__(self):
        self.at = self.at or time.monotonic()
        self._proxy.strike(self._fault)


def struck(state, fault):
    """The error, which must come within the limit, and the gateway's port."""
    # The client itself detects that one is gone, and mustn't mistake that for a silence.
    timeout = TIMEOUT_S if fault in SILENCES else 6 * TIMEOUT_S
    for _ in range(TRIES):
        with (
            contextlib.closing(FakeGateway()) as fake,
            contextlib.closing(proxied(fake)) as proxy,
        ):
            strike = Strike(proxy, FAULTS[fault])
            with pytest.raises(strait.StraitError) as caught, connected(proxy, timeout) as client:
                state(client, strike)
        if strike.at is not None:
            assert time.monotonic() - strike.at < LIMIT_S
            return caught.value, proxy.port
        # A busy machine exceeded the timeout before the fault.
    raise caught.value


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("fault", SILENCES)
def test_a_gateway_that_doesnt_answer_wholly_is_given_up_in_time(outcomes, fault, state):
    error, port = outcomes[state, fault].result()
    assert isinstance(error, strait.TimedOut)
    assert f": no complete answer from 127.0.0.1:{port} within {TIMEOUT_S} s" in str(error)
    assert error.filename is not None and error.filename in str(error)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_gateway_that_is_gone_is_noticed_in_time(outcomes, state):
    error, _ = outcomes[state, "gone"].result()
    assert isinstance(error, strait.Unavailable | strait.OutcomeUnknown)


def test_only_a_connection_that_never_answered_suggests_tls(proxy):
    with connected(proxy, 6 * TIMEOUT_S) as client, client.open("/file", "rb", buffering=0) as file:
        proxy.strike(faults.GONE)
        with pytest.raises(strait.Unavailable) as caught:
            file.readall()
    assert "TLS" not in str(caught.value)
    listener = socket.create_server(("127.0.0.1", 0))

    def close_each():
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()

    thread = threading.Thread(target=close_each)
    thread.start()
    with pytest.raises(strait.Unavailable, match="does it serve TLS only"):
        strait.connect(f"127.0.0.1:{listener.getsockname()[1]}")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_gateway_that_takes_no_connection_is_given_up_in_time():
    with (
        faults.full_backlog() as port,
        within_the_limit(),
        pytest.raises(strait.Unavailable, match="timed out"),
    ):
        strait.connect(f"127.0.0.1:{port}", timeout=TIMEOUT_S)


def test_closing_a_client_of_a_silent_gateway_ends_in_time(proxy):
    client = connected(proxy)
    proxy.strike(faults.SILENT)
    with within_the_limit():
        client.close()


def stat_by_threads(fake, client, threads):
    """Each asks for /x once, and needs a login. Returns the list of failures, and the threads."""
    fake.silent.add("openSession")
    fake.tokens.clear()
    fake.break_connections()
    failures = []

    def stat():
        try:
            client.stat("/x")
        except strait.StraitError as error:
            failures.append(error)

    running = [threading.Thread(target=stat) for _ in range(threads)]
    for thread in running:
        thread.start()
    return failures, running


def test_threads_share_the_outcome_of_a_login_without_an_answer(fake):
    fake.files["/x"] = bytearray()
    client = strait.connect(fake.address, timeout=2)
    threads = 6
    failures, running = stat_by_threads(fake, client, threads)
    fake.await_waiting("openSession", threads)  # all with the token that isn't good any more
    began = time.monotonic()
    fake.resume_once("openSession")
    for thread in running:
        thread.join()
    # One after the other they would take six times as long.
    assert time.monotonic() - began < 2 * 2 + 1
    assert [type(error) for error in failures] == [strait.TimedOut] * threads
    assert len({id(error) for error in failures}) == threads
    assert fake.calls["openSession"] == 1 + threads  # and the login, which has no answer yet
    fake.resume()


def test_threads_share_a_login_that_is_refused(fake):
    client = strait.connect(fake.address, timeout=20)
    threads = 6
    failures, running = stat_by_threads(fake, client, threads)
    fake.await_waiting("openSession", threads)
    fake.resume_once("openSession")
    # Until the one login waits, for which the others wait in turn.
    waits.eventually(
        "one login that waits",
        lambda: fake.calls["openSession"] >= 1 + threads and fake.waiting["openSession"] == 1,
    )
    fake.raises["openSession"] = failure(ErrorCode.BUSY, "Busy")
    fake.resume()
    for thread in running:
        thread.join()
    assert [error.kind for error in failures] == ["Busy"] * threads
