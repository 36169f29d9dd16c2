"""Login, reconnecting, threads and forks."""

import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from fake_gateway import failure

import strait
from strait import _session
from strait._gen.ttypes import ErrorCode, GetStoreStatusReply

FIRST_PAUSE_S = _session.FIRST_PAUSE_S


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", 0.001)


def test_a_request_survives_a_broken_connection(fake, client):
    fake.files["/x"] = bytearray(b"abc")
    fake.break_connections()
    assert client.stat("/x").length == 3


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
def test_a_mutation_cut_off_is_done_once(fake, client, cut):
    fake.files["/x"] = bytearray()
    getattr(fake, cut).append("removePath")
    client.remove("/x")  # a second execution would find nothing
    assert not fake.files


def test_a_mutation_after_a_restart_is_no_retry(fake, client):
    fake.files["/x"] = bytearray()
    fake.break_connections()
    with pytest.raises(FileExistsError):
        client.open("/x", "xb")
    assert not fake.retries["createFile"]


def test_the_session_is_taken_up_again_by_its_token(fake, client):
    token = client.token
    fake.break_connections()
    assert not client.exists("/x")
    assert client.token == token


def test_a_session_that_ended_is_replaced_where_the_login_is_known(fake, client):
    fake.files["/x"] = bytearray()
    fake.tokens.clear()
    fake.raises["getFileInfo"] = failure(ErrorCode.UNAUTHENTICATED, "Unauthenticated")
    assert client.exists("/x")


def test_a_store_that_has_just_started_says_that_it_does_not_know_all_yet(fake, client):
    reply = GetStoreStatusReply(capacity=3, used=2, remaining=1, settling=True)
    fake.answers["getStoreStatus"] = reply
    assert client.status() == strait.StoreStatus(3, 2, 1, settling=True)
    assert not client.status().settling  # as of a gateway that doesn't know the field


def test_a_token_that_expired_is_the_callers_error(fake):
    with pytest.raises(strait.Unauthenticated):
        strait.connect(fake.address, token="of last year")


def test_a_mutation_without_an_answer_has_an_unknown_outcome(fake, client):
    fake.cut_after.append("removePath")
    fake.files["/x"] = bytearray()
    fake.cut_before += ["openSession"] * 100
    with pytest.raises(strait.OutcomeUnknown) as caught:
        client.remove("/x")
    assert isinstance(caught.value, ConnectionError)
    assert not caught.value.retry_safe


def test_a_change_that_was_never_sent_may_be_repeated(fake):
    with strait.connect(fake.address, timeout=0.2) as client:
        fake.break_connections()
        fake.silent.add("openSession")
        with pytest.raises(strait.TimedOut) as caught:
            client.remove("/x")
        fake.resume()
    assert caught.value.retry_safe
    assert not fake.calls["removePath"]


def test_a_gateway_that_went_away_is_unavailable(fake, client):
    fake.cut_before += ["getFileInfo"] * 100
    with pytest.raises(strait.Unavailable) as caught:
        client.stat("/x")
    assert caught.value.retry_safe


def test_a_request_is_tried_six_times_after_growing_pauses(fake, client, monkeypatch):
    pauses = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append)
    monkeypatch.setattr(_session, "time", clock)
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", FIRST_PAUSE_S)
    fake.cut_before += ["getFileInfo"] * 100
    with pytest.raises(strait.Unavailable):
        client.stat("/x")
    assert fake.calls["getFileInfo"] == 6
    # Half of each is random.
    longest_s = [0.1, 0.2, 0.4, 0.8, 1.6]
    shares = [pause / longest for pause, longest in zip(pauses, longest_s, strict=True)]
    assert all(0.5 <= share <= 1 for share in shares), pauses
    assert len(set(shares)) == 5


def test_no_gateway_is_said_at_once_with_its_address():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionError, match=f"no gateway at 127.0.0.1:{port}"):
        strait.connect(f"127.0.0.1:{port}")


def test_requests_say_how_long_the_client_waits(fake):
    fake.files["/x"] = bytearray(b"abc")
    with strait.connect(fake.address, timeout=50) as client:
        client.stat("/x")
        client.remove("/x")
    for method in ["openSession", "getFileInfo", "removePath", "closeSession"]:
        assert 0 < fake.deadlines[method] <= 50_000, method


def test_silence_is_a_timeout(fake):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            strait.connect(f"127.0.0.1:{port}", timeout=0.05)


@pytest.mark.parametrize("wire", ["binary", "framed-binary", "compact", "framed-compact"])
@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x80\x01\x00\x02\xff", b"\xff"]
)
def test_another_protocol_is_said_to_be_no_gateway(wire, answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(answer + bytes(100) + b"\xff" * 1000)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(strait.Unavailable):
            strait.connect(f"127.0.0.1:{server.getsockname()[1]}", wire=wire)
        thread.join()


@pytest.mark.parametrize("address", ["", "http://host/", "strait://host:1/path", "strait:///"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="not the address"):
        strait.connect(address)


def test_a_path_that_the_wire_cannot_carry_harms_nobody_else(fake, client):
    fake.files["/x"] = bytearray()
    with pytest.raises(ValueError, match="surrogates"):
        client.stat("/\udcff")
    assert client.exists("/x")


def test_threads_share_a_client(fake, client):
    fake.files = {f"/{n}": bytearray(f"{n}".encode() * 400_000) for n in range(8)}
    wrong = []

    def work(path):
        for _ in range(5):
            if client.stat(path).length != len(fake.files[path]):
                wrong.append(path)
            with client.open(path, "rb") as file:
                if file.read() != fake.files[path]:
                    wrong.append(path)

    threads = [threading.Thread(target=work, args=(path,)) for path in fake.files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def side_by_side(count, work):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_attach_side_by_side(fake, client):
    fake.files["/x"] = bytearray(b"abc")
    fake.silent.add("openSession")
    fake.break_connections()
    lengths = []
    threads = side_by_side(6, lambda: lengths.append(client.stat("/x").length))
    fake.await_waiting("openSession", 6)
    fake.resume()
    for thread in threads:
        thread.join()
    assert lengths == [3] * 6


def test_one_login_serves_all_threads(fake, client):
    fake.files["/x"] = bytearray(b"abc")
    fake.silent.add("openSession")
    fake.tokens.clear()
    fake.break_connections()
    lengths = []
    threads = side_by_side(6, lambda: lengths.append(client.stat("/x").length))
    fake.await_waiting("openSession", 6)  # all with the token that isn't good any more
    fake.resume()
    for thread in threads:
        thread.join()
    assert lengths == [3] * 6
    assert len(fake.tokens) == 1


def test_a_forked_child_and_its_parent_both_go_on(fake, client):
    fake.files["/x"] = bytearray(b"abc" * 1_000_000)
    reader = client.open("/x", "rb")
    start = reader.read(1_500_000)
    writer = client.open("/y", "wb", buffering=0)
    writer.write(b"parent's")
    child = os.fork()
    if not child:
        try:
            assert client.stat("/x").length == 3_000_000
            assert start + reader.read() == fake.files["/x"]
            client.close()  # not the parent's session
            with pytest.raises(ValueError, match="stays with the process"):
                writer.write(b"child's")
            os._exit(0)
        finally:
            os._exit(1)
    assert start + reader.read() == fake.files["/x"]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    assert fake.files["/y"] == b"parent's"
    assert fake.calls["closeSession"] == 0


def test_closing_ends_the_session_once(fake):
    with strait.connect(fake.address) as client:
        pass
    client.close()
    assert fake.calls["closeSession"] == 1
    with pytest.raises(ValueError, match="closed client"):
        client.stat("/")


def test_no_secret_shows(fake):
    client = strait.connect(fake.address, user="u", password="geheim")
    assert "geheim" not in repr(client._session._endpoint)
    assert client.user == "u"


def test_what_is_no_port_is_a_wrong_argument():
    for address in ("strait://127.0.0.1:99999/", "127.0.0.1:x"):
        with pytest.raises(strait.InvalidArgument, match="address"):
            strait.connect(address)


def test_a_change_that_was_sent_is_unknown_if_the_next_login_fails(fake, client):
    fake.files["/x"] = bytearray()
    fake.cut_after.append("removePath")
    fake.tokens.clear()  # the kept token is refused
    fake.raises["openSession"] = failure(ErrorCode.BUSY, "Busy")
    with pytest.raises(strait.OutcomeUnknown):
        client.remove("/x")
    assert "/x" not in fake.files


def test_what_ends_while_this_thread_holds_the_lock_does_not_wait_for_it(fake, client):
    """As where the garbage collector ends a listing within the client's own code."""
    fake.files["/x"] = bytearray()

    def release():
        with client._session._lock:
            client._session.release(1)

    thread = threading.Thread(target=release, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
