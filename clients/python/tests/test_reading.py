"""Reading, against a gateway that answers short, breaks off and forgets."""

import io
import random

import pytest
from fake_gateway import FakeGateway, failure

import strait
from strait import _reader
from strait._gen.ttypes import ErrorCode

MIB = 1 << 20
# No divisor of a chunk, so that it meets no boundary by chance.
DATA = random.Random(1).randbytes(9 * MIB + 12_345)


@pytest.fixture
def big(fake):
    fake.files["/big"] = bytearray(DATA)
    return fake


@pytest.mark.parametrize("wire", ["framed-binary", "binary", "framed-compact", "compact"])
def test_every_wire_carries_the_same_bytes(wire):
    gateway = FakeGateway(wire)
    gateway.files["/big"] = bytearray(DATA)
    with strait.connect(gateway.address, wire=wire) as client:
        assert client.open("/big", "rb").read() == DATA
        with client.open("/copy", "wb") as file:
            file.write(DATA)
    assert gateway.files["/copy"] == DATA
    gateway.close()


def test_open_gives_the_standard_file_objects(big, client):
    raw = client.open("/big", "rb", buffering=0)
    assert isinstance(raw, io.RawIOBase)
    assert isinstance(client.open("/big", "rb"), io.BufferedReader)
    assert isinstance(client.open("/big"), io.TextIOWrapper)
    assert raw.readable() and raw.seekable() and not raw.writable()
    assert raw.name == "/big" and raw.mode == "rb"
    with pytest.raises(io.UnsupportedOperation):
        client.open("/big", "rb").write(b"x")
    with pytest.raises(ValueError, match="invalid mode"):
        client.open("/big", "r+")


@pytest.mark.parametrize("size", [100, 4096, 300_000, 3 * MIB])
def test_sequential_reads_of_any_size_give_the_file(big, client, size):
    with client.open("/big", "rb") as file:
        assert b"".join(iter(lambda: file.read(size), b"")) == DATA


@pytest.mark.parametrize("seed", range(3))
def test_short_replies_lose_and_double_nothing(big, client, seed):
    generator = random.Random(seed)
    big.shorten = lambda _, length: generator.randint(1, length)
    with client.open("/big", "rb", buffering=0) as raw:
        parts = []
        while part := raw.read(generator.choice([70_000, MIB, 2 * MIB])):
            parts.append(part)
    assert b"".join(parts) == DATA


def test_seeking_reads_from_there(big, client):
    generator = random.Random(4)
    with client.open("/big", "rb") as file:
        for _ in range(100):
            offset, length = generator.randrange(len(DATA)), generator.randrange(200_000)
            file.seek(offset)
            assert file.read(length) == DATA[offset : offset + length]
        assert file.seek(-5, io.SEEK_END) == len(DATA) - 5
        assert file.read() == DATA[-5:]
        file.seek(len(DATA) + 10)
        assert file.read() == b""


def test_a_positional_read_leaves_the_position(big, client):
    with client.open("/big", "rb", buffering=0) as raw:
        raw.seek(7)
        assert raw.pread(2 * MIB, 5) == DATA[5 : 2 * MIB + 5]
        assert raw.pread(100, len(DATA) - 1) == DATA[-1:]
        assert raw.tell() == 7


def test_a_first_small_read_fetches_little(big, client):
    with client.open("/big", "rb") as file:
        file.read(10)
    assert big.calls["readRange"] == 1


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
def test_a_broken_connection_is_not_noticed_by_a_reader(big, client, cut):
    with client.open("/big", "rb") as file:
        start = file.read(3 * MIB)
        getattr(big, cut).append("readRange")
        assert start + file.read() == DATA


def test_an_interrupted_read_leaves_the_file_usable(big, client, monkeypatch):
    with client.open("/big", "rb", buffering=0) as raw:
        start = raw.read(MIB) + raw.read(MIB)
        receive = _reader.receive_range

        def interrupt(*arguments):
            receive(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(_reader, "receive_range", interrupt)
        with pytest.raises(KeyboardInterrupt):
            raw.read(MIB)
        monkeypatch.undo()
        assert start + raw.readall() == DATA


def test_a_rest_longer_than_is_believed_goes_on_after_a_broken_connection(big, client, monkeypatch):
    monkeypatch.setattr(_reader, "BELIEVED_BYTES", 2 * MIB)
    with client.open("/big", "rb", buffering=0) as raw:
        start = raw.read(100)
        for method in ["cut_before", "cut_after", "cut_before"]:
            getattr(big, method).append("readRange")
        assert start + raw.readall() == DATA


def test_a_handle_that_ended_with_its_session_is_opened_again(big, client):
    with client.open("/big", "rb") as file:
        start = file.read(3 * MIB)
        big.handles.clear()
        assert start + file.read() == DATA


def test_a_handle_that_ends_again_and_again_is_opened_each_time(big, client):
    endings = 3

    def end_handles(_, length):
        nonlocal endings
        if endings:
            endings -= 1
            big.handles.clear()
            raise failure(ErrorCode.INVALID_ARGUMENT, "InvalidArgument")
        return length

    big.shorten = end_handles
    with client.open("/big", "rb", buffering=0) as file:
        assert file.pread(MIB, 0) == DATA[:MIB]
    assert not endings


def test_a_handle_that_never_lasts_is_reported(big, client):
    def end_handles(_, length):
        raise failure(ErrorCode.INVALID_ARGUMENT, "InvalidArgument")

    big.shorten = end_handles
    with (
        client.open("/big", "rb", buffering=0) as file,
        pytest.raises(strait.Unavailable, match="again and again") as caught,
    ):
        file.pread(MIB, 0)
    assert caught.value.filename == "/big"


def test_a_file_replaced_by_a_shorter_one_is_an_error_not_a_mixture(big, client):
    with client.open("/big", "rb") as file:
        file.read(3 * MIB)
        big.handles.clear()
        big.files["/big"] = bytearray(b"short")
        with pytest.raises(strait.StraitError, match="replaced") as caught:
            file.read()
        assert not caught.value.retry_safe


def test_a_file_replaced_by_one_as_long_is_an_error_not_a_mixture(big, client):
    big.identities["/big"] = b"one"
    with client.open("/big", "rb") as file:
        start = file.read(3 * MIB)
        big.handles.clear()
        start += file.read(3 * MIB)
        assert start == DATA[: 6 * MIB], "the same file goes on"
        big.handles.clear()
        big.identities["/big"] = b"another"
        with pytest.raises(strait.StraitError, match="replaced by another") as caught:
            file.read()
        assert not caught.value.retry_safe


def test_bytes_appended_since_the_open_are_read(big, client):
    with client.open("/big", "rb") as file:
        file.read(100)
        big.files["/big"] += b"more"
        assert file.read() == DATA[100:] + b"more"


def test_a_file_cut_while_it_is_read_ends_there(big, client):
    with client.open("/big", "rb", buffering=0) as raw:
        start = raw.read(MIB)
        del big.files["/big"][2 * MIB + 100 :]
        assert start + raw.readall() == DATA[: 2 * MIB + 100]


def test_a_closed_file_refuses(big, client):
    raw = client.open("/big", "rb", buffering=0)
    raw.close()
    raw.close()
    for use in (raw.tell, raw.readable, lambda: raw.read(1), lambda: raw.pread(1, 0)):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert not big.handles


def test_text_is_decoded_line_by_line(fake, client):
    fake.files["/text"] = bytearray("eins\nzwölf\n".encode())
    with client.open("/text") as file:
        assert list(file) == ["eins\n", "zwölf\n"]
