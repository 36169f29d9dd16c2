"""readRange of few bytes in the binary wire, each message coded at once.

Thrift's coder makes some forty calls in Python for such a read: as much time as its
round trip on loopback. `tests/test_ranges.py` compares these bytes with those of
Thrift's coder.
"""

import struct

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType, TType

FRAME_BYTES = 4

_NAME = b"readRange"


def _begin(kind: int) -> bytes:
    version = (TBinaryProtocol.VERSION_1 | kind) & 0xFFFF_FFFF
    return struct.pack(f">Ii{len(_NAME)}s", version, len(_NAME), _NAME)


def _field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


# Few and long parts, since each takes time.
_CALL = _begin(TMessageType.CALL)
_HANDLE = _field(TType.STRUCT, 1) + _field(TType.I64, 2)
_OFFSET = _field(TType.I64, 3)
_LENGTH = _field(TType.I32, 4)
_ENDS = bytes([TType.STOP, TType.STOP])
_REQUEST = struct.Struct(
    f">I{len(_CALL)}si{len(_HANDLE)}sq{len(_OFFSET)}sq{len(_LENGTH)}si{len(_ENDS)}s"
)
_REQUEST_BYTES = _REQUEST.size - FRAME_BYTES

_REPLY = _begin(TMessageType.REPLY)
_DATA = _field(TType.STRUCT, 0) + _field(TType.STRING, 1)
_REPLY_HEAD = struct.Struct(f">{len(_REPLY)}si{len(_DATA)}si")
_FRAMED_HEAD = struct.Struct(f">I{len(_REPLY)}si{len(_DATA)}si")
#: The bytes after the data.
REPLY_END = _ENDS
#: Bytes of a reply with its frame, beside the data.
REPLY_BYTES = _FRAMED_HEAD.size + len(REPLY_END)


def encode_request(number: int, handle: int, offset: int, length: int) -> bytes:
    """The request, framed."""
    return _REQUEST.pack(
        _REQUEST_BYTES, _CALL, number, _HANDLE, handle, _OFFSET, offset, _LENGTH, length, _ENDS
    )


def find_data(reply: bytes, number: int, *, framed: bool) -> tuple[int, int] | None:
    """Where the data begins and ends in a reply, whose last bytes may still be to come.

    None: another reply, or the same in other words. Thrift's coder is to read it.
    """
    head = _FRAMED_HEAD if framed else _REPLY_HEAD
    data = head.size
    if len(reply) < data:
        return None
    *frame, begin, replied, fields, length = head.unpack_from(reply)
    if begin != _REPLY or replied != number or fields != _DATA or length < 0:
        return None
    end: int = data + length
    if framed and frame[0] != end + len(REPLY_END) - FRAME_BYTES:
        return None
    return data, end
