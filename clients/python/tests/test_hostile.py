"""A broken or hostile gateway can do one thing to a program: raise a typed error."""

import contextlib
import io
import socket
import threading

import pytest
from fake_gateway import Handler
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

import strait
from strait import _reader, _session
from strait._gen import ttypes as t
from strait._wire import MAX_MESSAGE_BYTES
from strait.fsspec import StraitFileSystem


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", 0.001)


def reply_to_open_session(sequence: int, kind: int = TMessageType.REPLY, unknown_bytes: int = 0):
    """In the binary protocol, with this many bytes of fields that nobody knows."""
    buffer = TMemoryBuffer()
    out = TBinaryProtocol(buffer)
    out.writeMessageBegin("openSession", kind, sequence)
    for _ in range(unknown_bytes >> 16):
        out.writeFieldBegin("", TType.STRING, 99)
        out.writeBinary(bytes(1 << 16))
    out.writeFieldBegin("", TType.STRUCT, 0)
    t.OpenSessionReply(token="t").write(out)
    out.writeFieldStop()
    return buffer.getvalue()


def is_taken_for_a_gateway(answer: bytes) -> bool:
    """Whether a client takes to who answers its first request so, and hangs up."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            with sock:
                sock.recv(10_000)
                sock.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            strait.connect(f"127.0.0.1:{listener.getsockname()[1]}", wire="binary", token="t")
        except strait.Unavailable:
            return False
        finally:
            thread.join()
        return True


def test_a_reply_to_another_request_is_no_answer():
    assert is_taken_for_a_gateway(reply_to_open_session(1))
    assert not is_taken_for_a_gateway(reply_to_open_session(2))
    assert not is_taken_for_a_gateway(reply_to_open_session(1, TMessageType.CALL))


def test_a_reply_without_an_end_is_given_up_on_a_wire_without_frames_too():
    endless = reply_to_open_session(1, unknown_bytes=MAX_MESSAGE_BYTES)
    assert not is_taken_for_a_gateway(endless)


@pytest.mark.parametrize(
    "nested",
    [b"\x0c\0\x63" * 300_000, b"\x0f\0\x63" + b"\x0f\0\0\0\1" * 300_000],
    ids=["structs", "lists"],
)
def test_a_reply_of_any_depth_crashes_nothing(nested):
    """By the runtime, from the version on that pyproject.toml wants."""
    buffer = TMemoryBuffer()
    TBinaryProtocol(buffer).writeMessageBegin("openSession", TMessageType.REPLY, 1)
    assert not is_taken_for_a_gateway(buffer.getvalue() + nested)


def test_a_string_of_a_field_that_nobody_knows_is_bounded_too():
    buffer = TMemoryBuffer()
    out = TBinaryProtocol(buffer)
    out.writeMessageBegin("openSession", TMessageType.REPLY, 1)
    out.writeFieldBegin("", TType.STRING, 99)
    out.writeI32((1 << 31) - 1)  # its length; the client would wait for the bytes
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        done = threading.Event()

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(10_000)
                sock.sendall(buffer.getvalue())
                done.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(strait.Unavailable):
                strait.connect(address, wire="binary", timeout=20)
        finally:
            done.set()
            thread.join()


def test_a_reply_without_what_was_asked_for_is_no_answer(fake, client):
    fake.answers["getFileInfo"] = t.GetFileInfoReply()
    with pytest.raises(strait.Internal):
        client.stat("/f")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_lets_no_byte_through_is_refused(fake, limit):
    fake.max_chunk_bytes = limit
    with pytest.raises(strait.Internal, match="max_chunk_bytes"):
        strait.connect(fake.address)


def test_a_gateway_may_name_no_limit(fake):
    fake.max_chunk_bytes = None
    with strait.connect(fake.address) as client:
        client.put(io.BytesIO(b"data"), "/x")
    assert fake.files == {"/x": b"data"}


def test_an_open_file_keeps_the_limit_that_it_was_opened_with(fake, client):
    with client.open("/x", "wb", buffering=0) as file:
        assert file.write(bytes(5000)) == 5000
        file.flush()
        client._session.max_chunk_bytes = 1000  # as at another connection's login
        assert file.write(bytes(5000)) == 5000
    assert len(fake.files["/x"]) == 10_000


def test_a_files_length_is_believed_only_as_its_bytes_come(fake, client):
    fake.files["/f"] = bytearray(b"all there is")
    fake.answers["openFile"] = t.OpenFileReply(handle=1, length=1 << 62)
    fake.handles[1] = "/f"
    assert client.open("/f", "rb").read() == b"all there is"


def test_a_range_to_the_end_of_a_files_length_is_believed_only_as_its_bytes_come(fake, client):
    fs = StraitFileSystem(fake.host, fake.port)
    for read in (
        lambda: fs.cat_file("/f", start=4),
        lambda: fs.cat_ranges(["/f"], [4], None)[0],
        lambda: client.open("/f", "rb", buffering=0).pread(1 << 62, 4),
    ):
        fake.files["/f"] = bytearray(b"all there is")
        fake.answers["openFile"] = t.OpenFileReply(handle=1, length=1 << 62)
        fake.handles[1] = "/f"
        assert read() == b"there is"
    fs.close()


def test_a_range_longer_than_is_believed_is_read_whole(fake, client, monkeypatch):
    monkeypatch.setattr(_reader, "BELIEVED_BYTES", 20_000)
    fake.files["/f"] = bytearray(range(256)) * 1000
    fake.shorten = lambda _, length: min(length, 7777)
    with client.open("/f", "rb", buffering=0) as file:
        assert file.pread(1 << 40, 5) == fake.files["/f"][5:]
        assert file.pread(100_000, 5) == fake.files["/f"][5:100_005]


def test_a_file_longer_than_is_believed_is_read_whole(fake, client, monkeypatch):
    monkeypatch.setattr(_reader, "BELIEVED_BYTES", 1000)
    fake.files["/f"] = bytearray(range(256)) * 30
    with client.open("/f", "rb") as file:
        assert file.read(5) == bytes(range(5))
        fake.files["/f"] += b"grown"
        assert file.read() == fake.files["/f"][5:]


def test_a_directory_of_pages_without_entries_has_an_end(fake, client):
    fake.answers["listDirectory"] = t.ListDirectoryReply(entries=[], cursor=1)
    with pytest.raises(strait.Internal):
        client.listdir("/")
    assert fake.calls["listDirectory"] == 1


@pytest.mark.parametrize(
    "entry",
    ["/d/../x", "/d/..", "/d/.", "/d/", "/d", "/d/x/../../y", "/etc/x", "/d//x", "x", "", "/d/\0"],
)
def test_a_listing_names_only_what_is_in_the_directory(fake, client, entry):
    good = t.FileInfo(path="/d/good", type=t.FileType.FILE)
    evil = t.FileInfo(path=entry, type=t.FileType.FILE)
    for path in ("/d", "//d/"):
        fake.answers["listDirectory"] = t.ListDirectoryReply(entries=[good, evil])
        with pytest.raises(strait.Internal, match="which isn't in this directory") as caught:
            client.listdir(path)
        assert caught.value.filename == path


def test_a_recursive_get_fails_where_a_listing_leads_out_of_it(fake, monkeypatch, tmp_path):
    evil = t.FileInfo(path="/d/../x", type=t.FileType.FILE)
    reply = t.ListDirectoryReply(entries=[t.FileInfo(path="/d/good", type=t.FileType.FILE), evil])
    monkeypatch.setattr(Handler, "listDirectory", lambda *_: reply)
    fake.files |= {"/d/good": bytearray(), "/d/../x": bytearray(b"evil")}
    (tmp_path / "to").mkdir()
    fs = StraitFileSystem(fake.host, fake.port)
    with pytest.raises(strait.Internal, match="isn't in this directory"):
        fs.get("/d", f"{tmp_path}/to/", recursive=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    fs.close()


def test_a_file_has_the_name_that_was_asked_for(fake):
    lie = t.FileInfo(path="/../../x", type=t.FileType.FILE, length=1)
    fs = StraitFileSystem(fake.host, fake.port)
    fake.answers["getFileInfo"] = t.GetFileInfoReply(info=lie)
    assert fs.info("/d//x/")["name"] == "/d/x"
    fs.close()


@pytest.mark.parametrize("path", ["/", "//", "/a", "/a/", "//a//d", "/@lab"])
def test_an_honest_listing_is_accepted(fake, client, path):
    plain = "/" + "/".join(filter(None, path.split("/")))
    infos = [t.FileInfo(path=f"{plain.rstrip('/')}/{name}") for name in ("..x", "@y", "a\nb")]
    fake.answers["listDirectory"] = t.ListDirectoryReply(entries=infos)
    assert client.listdir(path) == ["..x", "@y", "a\nb"]


@pytest.mark.parametrize(("ms", "year"), [((1 << 63) - 1, 9999), (-(1 << 63), 1), (0, 1970)])
def test_a_time_beyond_those_of_python_breaks_no_listing(fake, ms, year):
    info = t.FileInfo(path="/d/a", type=t.FileType.FILE, modified_ms=ms)
    fake.answers["listDirectory"] = t.ListDirectoryReply(entries=[info])
    fs = StraitFileSystem(fake.host, fake.port)
    assert [entry["mtime"].year for entry in fs.ls("/d")] == [year]
    fs.close()


def test_a_page_of_a_listing_whose_reply_is_lost_isnt_skipped(fake, client):
    fake.files |= {"/a": bytearray(), "/b": bytearray(), "/c": bytearray()}
    entries = client.scandir("/")
    assert next(entries).path == "/a"
    fake.cut_after.append("listDirectory")
    with pytest.raises(strait.Unavailable):
        next(entries)


def test_a_listing_left_early_is_closed(fake, client):
    fake.files |= {"/a": bytearray(), "/b": bytearray(), "/c": bytearray()}
    for entry in client.scandir("/"):
        assert entry.path == "/a"
        break
    assert fake.calls["closeFile"] == 1
    assert client.listdir("/")
    assert fake.calls["closeFile"] == 1, "not at the end"


def test_a_listing_that_outlives_its_gateway_says_to_list_anew(fake, client):
    fake.files |= {"/a": bytearray(), "/b": bytearray(), "/c": bytearray()}
    entries = client.scandir("/")
    assert next(entries).path == "/a"
    fake.restart()
    with pytest.raises(strait.Unavailable, match="list anew") as caught:
        next(entries)
    assert caught.value.filename == "/"


def test_a_cursor_that_the_gateway_doesnt_know_is_its_error(fake, client):
    fake.files |= {"/a": bytearray(), "/b": bytearray(), "/c": bytearray()}
    entries = client.scandir("/")
    next(entries)
    fake.handles.clear()
    with pytest.raises(strait.InvalidArgument):
        next(entries)


def test_an_address_names_no_user_and_a_password_in_it_isnt_told_on(fake):
    with pytest.raises(strait.InvalidArgument) as caught:
        strait.connect(fake.address.replace("://", "://ada:secret@"))
    assert "secret" not in str(caught.value)


def test_silence_in_a_handshake_is_a_timeout():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(strait.TimedOut),
    ):
        strait.connect(f"127.0.0.1:{silent.getsockname()[1]}", tls=True, timeout=0.05)


def test_a_name_that_cant_be_resolved_is_told_so():
    with pytest.raises(strait.Unavailable, match=r"gateway\.invalid can't be resolved: .* DNS"):
        strait.connect("gateway.invalid")


def test_a_wrong_port_is_told_so():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(strait.Unavailable, match=f"no gateway at 127.0.0.1:{port} .*refused"):
        strait.connect(f"127.0.0.1:{port}")
