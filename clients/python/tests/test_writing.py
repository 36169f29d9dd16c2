"""Writing, against a gateway that breaks off and refuses."""

import io
import random

import gateways
import pytest
from fake_gateway import failure

import strait
from strait._gen.ttypes import CloseFileReply, ErrorCode

MIB = 1 << 20
DATA = random.Random(2).randbytes(6 * MIB + 4_321)


def test_open_gives_the_standard_file_objects(client):
    with client.open("/x", "wb") as file:
        assert isinstance(file, io.BufferedWriter)
        assert isinstance(file.raw, io.RawIOBase)
        assert file.writable() and not file.readable() and not file.seekable()
        assert file.mode == "wb" and file.name == "/x"
    with client.open("/x", "w") as text:
        assert isinstance(text, io.TextIOWrapper)


@pytest.mark.parametrize("size", [1, 1000, 300_000, 3 * MIB])
def test_writes_of_any_size_make_the_file(fake, client, size):
    data = DATA[: size * 2000]
    with client.open("/x", "wb") as file:
        for start in range(0, len(data), size):
            assert file.write(data[start : start + size]) == len(data[start : start + size])
        assert file.tell() == len(data)
    assert fake.files["/x"] == data


def test_the_caller_may_reuse_its_buffer(fake, client):
    with client.open("/x", "wb", buffering=0) as raw:
        buffer = bytearray(100_000)
        for value in range(20):
            buffer[:] = bytes([value]) * len(buffer)
            raw.write(buffer)
    assert fake.files["/x"] == b"".join(bytes([value]) * 100_000 for value in range(20))


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
def test_appends_in_flight_when_the_connection_breaks_arrive_once(fake, client, cut):
    with client.open("/x", "wb") as file:
        file.write(DATA[: 2 * MIB])
        getattr(fake, cut).append("appendData")
        file.write(DATA[2 * MIB :])
    assert fake.files["/x"] == DATA


def test_a_writer_whose_gateway_forgot_it_says_that_its_outcome_is_unknown(fake, client):
    file = client.open("/x", "wb", buffering=0)
    file.write(DATA[:MIB])
    file.flush()
    fake.cut_before.append("appendData")
    fake.handles.clear()
    file.write(DATA[:MIB])
    with pytest.raises(strait.OutcomeUnknown, match="/x"):
        file.close()
    assert fake.files["/x"] == DATA[:MIB]


def act(step, file):
    """A step of a writer's, and the call that shows its outcome."""
    if step == "write":
        file.write(b"more")
        step = "flush"
    getattr(file, step)()


def fail_at(step, file):
    """A writer whose gateway is gone fails at this step."""
    with pytest.raises(strait.OutcomeUnknown, match="/x"):
        act(step, file)
    if not file.closed:
        with pytest.raises(strait.OutcomeUnknown, match="/x"):
            file.close()


@pytest.mark.parametrize("step", ["write", "flush", "sync", "close"])
def test_a_writer_whose_gateway_was_restarted_says_that_its_outcome_is_unknown(fake, client, step):
    file = client.open("/x", "wb", buffering=0)
    file.write(DATA[:MIB])
    file.flush()
    fake.restart()
    client.exists("/")  # the session continues; the file doesn't
    fail_at(step, file)
    with client.open("/y", "wb") as other:
        other.write(b"y")


@pytest.mark.parametrize("step", ["write", "flush", "close"])
def test_files_of_a_real_gateway_that_is_restarted(tmp_path, step):
    gateways.require()
    if gateways.binary() is None:
        gateways.lacks("no command strait, whose gateway could be restarted")
    with gateways.started(tmp_path.as_uri()) as address:
        client = strait.connect(address)
        file = client.open("/x", "wb", buffering=0)
        file.write(b"data")
        file.flush()
        reader = client.open("/x", "rb")
    port = int(address.rpartition(":")[2])
    with gateways.started(tmp_path.as_uri(), port=port), client, reader:
        fail_at(step, file)
        assert reader.read() == b"data"


def test_an_append_without_an_answer_is_none_to_repeat(fake):
    with strait.connect(fake.address, timeout=0.3) as client:
        file = client.open("/x", "wb", buffering=0)
        fake.silent.add("appendData")
        file.write(b"x")
        with pytest.raises(strait.TimedOut) as caught:
            file.flush()
        assert not caught.value.retry_safe
        fake.resume()


def test_a_refused_append_is_no_unknown_outcome(fake, client):
    file = client.open("/x", "wb", buffering=0)
    fake.raises["appendData"] = failure(ErrorCode.INVALID_ARGUMENT, "InvalidArgument")
    file.write(b"x")
    with pytest.raises(strait.InvalidArgument):
        file.flush()
    with pytest.raises(strait.InvalidArgument):
        file.close()


def test_an_error_of_an_append_surfaces_by_the_flush_at_the_latest(fake, client):
    file = client.open("/x", "wb", buffering=0)
    fake.raises["appendData"] = failure(ErrorCode.CORRUPT, "Corrupt")
    file.write(b"x")
    with pytest.raises(strait.Corrupt) as caught:
        file.flush()
    assert caught.value.filename == "/x"
    with pytest.raises(strait.Corrupt):
        file.write(b"y")
    with pytest.raises(strait.Corrupt):
        file.close()
    assert file.closed


def test_an_error_of_an_append_surfaces_by_the_close_at_the_latest(fake, client):
    file = client.open("/x", "wb")
    file.write(b"x")
    fake.raises["appendData"] = failure(ErrorCode.CORRUPT, "Corrupt")
    with pytest.raises(strait.Corrupt):
        file.close()
    assert file.closed


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_closed_file_has_the_bytes_that_were_written(fake, client, mode):
    for length in (None, 5, -1):
        fake.answers["closeFile"] = CloseFileReply(length=length)
        with client.open("/x", mode) as file:
            file.write(b"abcde" if mode == "wb" else "abcde")
    file = client.open("/x", mode)
    file.write(b"abcde" if mode == "wb" else "abcde")
    fake.answers["closeFile"] = CloseFileReply(length=4)
    with pytest.raises(strait.Internal, match="has 4 bytes instead of 5") as caught:
        file.close()
    assert caught.value.filename == "/x"
    assert file.closed
    fake.answers["closeFile"] = CloseFileReply(length=0)
    with pytest.raises(strait.Internal) as caught:
        client.put(io.BytesIO(b"data"), "/y")
    assert caught.value.filename == "/y"
    assert [*fake.files] == ["/x"]


def test_flush_reaches_the_gateway_and_close_flushes_no_more(fake, client):
    with client.open("/x", "wb") as file:
        file.write(b"abc")
        assert not fake.files["/x"]
        file.flush()
        assert fake.files["/x"] == b"abc"
        assert fake.calls["flushFile"] == 1
        file.write(b"def")
    assert fake.calls["flushFile"] == 1
    assert fake.files["/x"] == b"abcdef"


def test_exclusive_creation_refuses_a_taken_path(fake, client):
    fake.files["/x"] = bytearray(b"old")
    with pytest.raises(FileExistsError):
        client.open("/x", "xb")
    assert fake.files["/x"] == b"old"


def test_a_file_of_a_closed_client_refuses_instead_of_losing_bytes(fake):
    client = strait.connect(fake.address)
    file = client.open("/x", "wb")
    file.write(b"lost?")
    client.close()
    with pytest.raises(ValueError, match="closed"):
        file.close()
