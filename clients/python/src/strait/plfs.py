"""Logical files that many processes write at once, by Strait's C library.

>>> from strait import plfs
>>> with plfs.open("kadoop://host:port/run/ckpt", "w", rank=3) as file:
...     file.pwrite(b"bytes of rank 3", 3 << 20)

Each process opens the file by itself, and writes at any offsets. No gateway is needed. The library
`libstrait.so` is found by the loader's usual rules, or by its path in STRAIT_LIBRARY.
"""

import ctypes
import functools
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

Mode: TypeAlias = Literal["r", "w", "x", "r+"]

_FLAGS = {
    "r": os.O_RDONLY,
    "w": os.O_RDWR | os.O_CREAT,
    "x": os.O_RDWR | os.O_CREAT | os.O_EXCL,
    "r+": os.O_RDWR,
}
# Most bytes of one call: the library copies them.
_PIECE_BYTES = 16 << 20


class _Status(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint64),
        ("modified_ms", ctypes.c_int64),
        ("accessed_ms", ctypes.c_int64),
        ("mode", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("replication", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Status:
    """A logical file's status: what was synced or closed, also while writers have it open."""

    size: int
    #: Milliseconds since 1970 UTC.
    modified_ms: int
    #: Permission bits.
    mode: int
    uid: int
    gid: int


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ.get("STRAIT_LIBRARY") or "libstrait.so", use_errno=True)
    handle, text, offset = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    size = ctypes.c_size_t
    for name, result, arguments in (
        ("open", handle, (text, ctypes.c_int, ctypes.c_uint, ctypes.c_uint32)),
        ("pwrite", ctypes.c_ssize_t, (handle, handle, size, offset)),
        ("pread", ctypes.c_ssize_t, (handle, handle, size, offset)),
        ("sync", ctypes.c_int, (handle,)),
        ("truncate", ctypes.c_int, (handle, offset)),
        ("length", offset, (handle,)),
        ("close", ctypes.c_int, (handle,)),
        ("flatten", ctypes.c_int, (text, text)),
        ("finalize", ctypes.c_int64, (text, text)),
        ("rename", ctypes.c_int, (text, text)),
        ("stat", ctypes.c_int, (text, ctypes.POINTER(_Status))),
        ("remove", ctypes.c_int, (text,)),
    ):
        function = getattr(library, f"strait_plfs_{name}")
        function.restype, function.argtypes = result, arguments
    library.strait_error.restype, library.strait_error.argtypes = text, ()
    return library


def _call(name: str, *arguments: Any) -> Any:
    """Calls the library; raises the OSError of its errno."""
    for argument in arguments:
        if isinstance(argument, bytes) and b"\0" in argument:
            # C would take the part before it for the whole.
            raise ValueError("embedded null byte")
    library = _library()
    function: Callable[..., Any] = getattr(library, f"strait_plfs_{name}")
    result = function(*arguments)
    if result is None or result == -1:
        code = ctypes.get_errno()
        raise OSError(code, library.strait_error().decode(errors="replace"))
    return result


def open(uri: str, mode: Mode = "r", *, rank: int = 0, permission: int = 0o644) -> "File":
    """Opens a logical file: ``r`` to read, ``w`` to write and read, and make it where it is missing
    (nothing is truncated: other ranks may write already), ``x`` only to make it, ``r+`` not to.

    `rank` numbers this writer; several may have the same.
    """
    if mode not in _FLAGS:
        raise ValueError(f"no mode of a logical file: {mode!r}")
    return File(_call("open", uri.encode(), _FLAGS[mode], permission, rank), uri, mode)


class File(io.RawIOBase):
    """An open logical file. Bytes are visible to others, and survive crashes, after sync or close.

    `pread` and `pwrite` may be called from several threads; `read`, `write` and `seek` share a
    position.
    """

    def __init__(self, handle: int, name: str, mode: Mode) -> None:
        self._handle: int | None = handle
        self.name = name
        self._mode = mode
        self._position = 0

    def _open(self) -> int:
        if self._handle is None:
            raise ValueError("I/O operation on closed file")
        return self._handle

    def pwrite(self, data: "ReadableBuffer", offset: int) -> int:
        """Writes all of `data` at an offset."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), _PIECE_BYTES):
            piece = view[at : at + _PIECE_BYTES]
            _call("pwrite", self._open(), _address(piece), len(piece), offset + at)
        return len(view)

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset; fewer only at the end."""
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self.preadinto(buffer, offset)])

    def preadinto(self, buffer: "WriteableBuffer", offset: int) -> int:
        """Fills the buffer from an offset on; says how many bytes, fewer only at the end."""
        view = memoryview(buffer).cast("B")
        if not view:
            return 0
        target = (ctypes.c_char * len(view)).from_buffer(view)
        count: int = _call("pread", self._open(), ctypes.addressof(target), len(view), offset)
        return count

    def sync(self) -> None:
        """Makes what was written durable, and visible to others."""
        _call("sync", self._open())

    def length(self) -> int:
        """The length with all synced bytes of all writers; syncs this one first."""
        length: int = _call("length", self._open())
        return length

    # -- As a file object

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return self._mode != "r"

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        count = self.preadinto(buffer, self._position)
        self._position += count
        return count

    def write(self, data: "ReadableBuffer") -> int:
        count = self.pwrite(data, self._position)
        self._position += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        position = offset + (self.length() if base is None else base)
        if position < 0:
            raise ValueError(f"negative position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        length = self._position if size is None else size
        _call("truncate", self._open(), length)
        return length

    def close(self) -> None:
        handle, self._handle = self._handle, None
        super().close()
        if handle is not None:
            _call("close", handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _address(view: memoryview) -> Any:
    """The address of the view's bytes, which a read-only one gives too."""
    if view.readonly:
        return ctypes.cast(ctypes.c_char_p(view.tobytes()), ctypes.c_void_p)
    return ctypes.addressof((ctypes.c_char * len(view)).from_buffer(view))


def finalize(uri: str, target: str) -> int:
    """Turns a logical file into a plain one of the same store, and says how many bytes that moved:
    none where each rank wrote a contiguous part, and the store can join files."""
    moved: int = _call("finalize", uri.encode(), target.encode())
    return moved


def flatten(uri: str, target: str) -> None:
    """Copies a logical file to a plain one of the same store."""
    _call("flatten", uri.encode(), target.encode())


def rename(uri: str, target: str) -> None:
    """Renames a logical file within its store."""
    _call("rename", uri.encode(), target.encode())


def stat(uri: str) -> Status:
    """The status of a logical file."""
    found = _Status()
    _call("stat", uri.encode(), ctypes.byref(found))
    permission = found.mode & 0o7777
    return Status(found.size, found.modified_ms, permission, found.uid, found.gid)


def remove(uri: str) -> None:
    """Removes a logical file."""
    _call("remove", uri.encode())
