"""Short reads, coded at once, against Thrift's own coder."""

import random

import gateways
import pytest
from fake_gateway import FakeGateway
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

import strait
from strait import _ranges, _wire
from strait._gen import DfsV2
from strait._gen.ttypes import DfsError, ReadRangeReply, ReadRangeRequest

I64_MAX = (1 << 63) - 1


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4) + message


def reply_by_thrift(number, kind=TMessageType.REPLY, **result) -> bytes:
    memory = TMemoryBuffer()
    protocol = TBinaryProtocol(memory)
    protocol.writeMessageBegin("readRange", kind, number)
    DfsV2.readRange_result(**result).write(protocol)
    protocol.writeMessageEnd()
    return memory.getvalue()


@pytest.mark.parametrize(
    ("number", "handle", "offset", "length"),
    [(0, 1, 0, 4096), (7, I64_MAX, I64_MAX, 1), ((1 << 31) - 1, 0, -1, 16_000)],
)
def test_a_request_is_what_thrift_would_write(number, handle, offset, length):
    memory = TMemoryBuffer()
    client = DfsV2.Client(TBinaryProtocol(memory))
    client._seqid = number
    client.send_readRange(ReadRangeRequest(handle=handle, offset=offset, length=length))
    by_thrift = memory.getvalue()
    assert _ranges.encode_request(number, handle, offset, length) == framed(by_thrift)


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 16])
def test_the_data_of_a_reply_that_thrift_wrote_is_found(data):
    reply = reply_by_thrift(5, success=ReadRangeReply(data=data))
    for message, is_framed in [(reply, False), (framed(reply), True)]:
        begin, end = _ranges.find_data(message, 5, framed=is_framed)
        assert message[begin:end] == data
        assert message[end:] == _ranges.REPLY_END
        assert len(framed(reply)) == _ranges.REPLY_BYTES + len(data)
        # As soon as its head has arrived.
        assert _ranges.find_data(message[:begin], 5, framed=is_framed) == (begin, end)
        for length in range(begin):
            assert _ranges.find_data(message[:length], 5, framed=is_framed) is None


def test_what_is_another_reply_is_left_to_thrift():
    data = ReadRangeReply(data=b"abc")
    good = reply_by_thrift(5, success=data)
    negative = bytearray(good)
    negative[-9:-5] = b"\xff\xff\xff\xff"
    others = [
        reply_by_thrift(6, success=data),
        reply_by_thrift(5, TMessageType.EXCEPTION, success=data),
        reply_by_thrift(5, error=DfsError(message="x" * 100)),
        reply_by_thrift(5, success=ReadRangeReply()) + bytes(20),
        bytes(negative),
        bytes(64),
    ]
    for other in others:
        assert _ranges.find_data(other, 5, framed=False) is None
        assert _ranges.find_data(framed(other), 5, framed=True) is None
    longer_frame = (len(good) + 1).to_bytes(4) + good
    assert _ranges.find_data(longer_frame, 5, framed=True) is None


@pytest.mark.parametrize("wire", ["framed-binary", "binary", "framed-compact", "compact"])
def test_short_reads_give_the_same_on_every_wire(wire):
    gateway = FakeGateway(wire)
    content = bytes(n * n % 251 for n in range(100_000))
    gateway.files["/f"] = bytearray(content)
    with strait.connect(gateway.address, wire=wire) as client:
        file = client.open("/f", "rb", buffering=0)
        for offset, length in [(0, 1), (1, 4096), (50_000, 16_384), (99_990, 4096), (0, 0)]:
            assert file.pread(length, offset) == content[offset : offset + length]
        assert file.pread(10, 100_000) == b""
        piece = bytearray(300)
        file.seek(70_000)
        assert file.readinto(piece) == 300
        assert piece == content[70_000:70_300]
    gateway.close()


@pytest.mark.parametrize("wire", ["framed-binary", "binary", "framed-compact", "compact"])
@pytest.mark.parametrize("more", [1, 4, 5])
def test_more_bytes_than_were_asked_for_are_refused_on_every_wire(wire, more):
    gateway = FakeGateway(wire)
    gateway.files["/f"] = bytearray(1000)
    gateway.shorten = lambda _, length: length + more
    with strait.connect(gateway.address, wire=wire) as client:
        file = client.open("/f", "rb", buffering=0)
        with pytest.raises(strait.Internal, match="more bytes than asked for"):
            file.pread(10, 0)
    gateway.close()


def test_a_negative_length_is_refused_before_a_gateway_hears_of_it():
    gateway = FakeGateway()
    gateway.files["/f"] = bytearray(b"abc")
    with strait.connect(gateway.address) as client, client.open("/f", "rb", buffering=0) as file:
        handles = dict(gateway.handles)
        with pytest.raises(ValueError, match="negative"):
            file.pread(-1, 0)
        assert gateway.handles == handles
    gateway.close()


@pytest.mark.parametrize("wire", ["framed-binary", "binary"])
def test_a_real_gateway_answers_short_reads_as_thrift_would(wire, tmp_path, monkeypatch):
    gateways.require()
    content = random.Random(2).randbytes(50_000)
    (tmp_path / "f").write_bytes(content)
    with gateways.started(f"file://{tmp_path}") as address:
        client = strait.connect(address, wire=wire)
        file = client.open("/f", "rb", buffering=0)
        # None of this uses Thrift's coder.
        monkeypatch.setattr(_wire, "ReadRangeRequest", None)
        with monkeypatch.context() as patched:
            patched.setattr(_wire.Connection, "receive", None)
            for offset in range(0, len(content), 4096):
                assert file.pread(4096, offset) == content[offset : offset + 4096]
        with pytest.raises(strait.InvalidArgument):
            file.pread(10, -1)
        assert file.pread(10, 5) == content[5:15], "errors leave the connection as it was"
        client.close()
