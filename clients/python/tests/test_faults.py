"""A client fails within its stated time, in whatever state its gateway falls silent or goes."""

import contextlib
import socket
import threading
import time

import faults
import pytest
from fake_gateway import failure

import strait
from strait import _session
from strait._gen.ttypes import ErrorCode

TIMEOUT_S = 0.5
# The timeout, time for cleanup after it, and time for a busy machine. A stutter takes far longer: a
# tenth of a second for each byte.
LIMIT_S = TIMEOUT_S + _session.PARTING_S + 4
CONTENT = bytes(range(256)) * 20


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", 0.01)


@pytest.fixture
def proxy(fake):
    fake.files |= {"/file": bytearray(CONTENT), "/other": bytearray()}
    proxy = faults.FaultyProxy(fake.port)
    yield proxy
    proxy.close()


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


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("fault", ["silent", "half", "stutter"])
def test_a_gateway_that_doesnt_answer_wholly_is_given_up_in_time(proxy, fault, state):
    with within_the_limit(), pytest.raises(strait.TimedOut) as caught, connected(proxy) as client:
        state(client, lambda: proxy.strike(fault))
    message = str(caught.value)
    assert f": no complete answer from 127.0.0.1:{proxy.port} within {TIMEOUT_S} s" in message
    assert caught.value.filename is not None and caught.value.filename in message


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_gateway_that_is_gone_is_noticed_in_time(proxy, state):
    with (
        within_the_limit(),
        pytest.raises((strait.Unavailable, strait.OutcomeUnknown)),
        # The client detects this itself, and mustn't mistake it for a silence.
        connected(proxy, 6 * TIMEOUT_S) as client,
    ):
        state(client, lambda: proxy.strike("gone"))


def test_only_a_connection_that_never_answered_suggests_tls(proxy):
    with connected(proxy, 6 * TIMEOUT_S) as client, client.open("/file", "rb", buffering=0) as file:
        proxy.strike("gone")
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


@pytest.mark.parametrize("fault", ["silent", "half", "stutter"])
def test_a_login_without_an_answer_is_given_up_in_time(proxy, fault):
    proxy.strike(fault)
    with within_the_limit(), pytest.raises(strait.TimedOut):
        connected(proxy)


def test_a_gateway_that_takes_no_connection_is_given_up_in_time():
    with (
        faults.full_backlog() as port,
        within_the_limit(),
        pytest.raises(strait.Unavailable, match="timed out"),
    ):
        strait.connect(f"127.0.0.1:{port}", timeout=TIMEOUT_S)


def test_closing_a_client_of_a_silent_gateway_ends_in_time(proxy):
    client = connected(proxy)
    proxy.strike("silent")
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
    limit = time.monotonic() + 10
    while fake.calls["openSession"] < 1 + threads or fake.waiting["openSession"] != 1:
        assert time.monotonic() < limit
        time.sleep(0.01)
    fake.raises["openSession"] = failure(ErrorCode.BUSY, "Busy")
    fake.resume()
    for thread in running:
        thread.join()
    assert [error.kind for error in failures] == ["Busy"] * threads
