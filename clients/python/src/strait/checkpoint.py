"""Many ranks write one `.safetensors` file at once, without gathering tensors or joining shards.

>>> from strait import checkpoint
>>> layout = checkpoint.Layout.of(specs_of_all_ranks)        # the same on every rank
>>> checkpoint.write(uri, layout, rank, my_tensors)          # each rank, side by side
>>> checkpoint.finalize(uri, target)                         # one rank, when all have written

A rank's tensors are one contiguous part of the file, so `finalize` moves no bytes on stores that
join files. Any number of ranks can read the result, by the plain safetensors library or `Reader`.
"""

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from strait import plfs

#: Bytes of an element, by the format's names of types.
BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
# Where data begin, so that a reader can map them as any type.
_ALIGNMENT = 8
# The format's own limit of a header.
_MOST_HEADER_BYTES = 100_000_000
# NumPy's kinds and sizes, as the format calls them.
_OF_NUMPY = {"b": "BOOL", "u": "U", "i": "I", "f": "F", "c": "C"}


@dataclass(frozen=True)
class Spec:
    """A tensor's type (as the format calls it) and shape."""

    dtype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.dtype not in BYTES:
            raise ValueError(f"safetensors has no type {self.dtype!r}")
        if any(length < 0 for length in self.shape):
            raise ValueError(f"a shape with a negative length: {self.shape}")

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * BYTES[self.dtype]

    @classmethod
    def of(cls, array: Any) -> Self:
        """The spec of an array with NumPy's attributes."""
        kind, size = array.dtype.kind, array.dtype.itemsize
        name = _OF_NUMPY.get(kind, "")
        bits = "" if kind == "b" else str(8 * size)
        return cls(f"{name}{bits}", tuple(array.shape))


class Layout:
    """The place of each tensor in the file, which all ranks compute alike."""

    def __init__(
        self, ranks: Sequence[Mapping[str, Spec]], metadata: Mapping[str, str] | None = None
    ) -> None:
        """`ranks`: the tensors of each rank. A name belongs to one rank."""
        self.ranks = [dict(tensors) for tensors in ranks]
        header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
        self.offsets: dict[str, int] = {}
        at = 0
        for tensors in self.ranks:
            # A reader maps tensors where they lie: the widest types first.
            for name, spec in sorted(tensors.items(), key=lambda of: (-BYTES[of[1].dtype], of[0])):
                if name in self.offsets or name == "__metadata__":
                    raise ValueError(f"two tensors are called {name!r}")
                self.offsets[name] = at
                header[name] = {
                    "dtype": spec.dtype,
                    "shape": list(spec.shape),
                    "data_offsets": [at, at + spec.nbytes],
                }
                at += spec.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        if len(text) > _MOST_HEADER_BYTES:
            raise ValueError(f"a header of {len(text)} bytes: the format has at most 100 MB")
        #: The file's first bytes.
        self.header = struct.pack("<Q", len(text)) + text
        #: The file's length.
        self.nbytes = len(self.header) + at

    @classmethod
    def of(
        cls, ranks: Iterable[Mapping[str, Any]], metadata: Mapping[str, str] | None = None
    ) -> Self:
        """The layout of tensors given as specs, as ``(dtype, shape)``, or as arrays."""
        return cls(
            [{n: _spec(value) for n, value in tensors.items()} for tensors in ranks], metadata
        )

    def place(self, name: str) -> int:
        """A tensor's offset in the file."""
        return len(self.header) + self.offsets[name]


def _spec(value: Any) -> Spec:
    if isinstance(value, Spec):
        return value
    if isinstance(value, tuple):
        dtype, shape = value
        return Spec(dtype, tuple(shape))
    return Spec.of(value)


def write(uri: str, layout: Layout, rank: int, tensors: Mapping[str, Any]) -> None:
    """Writes a rank's tensors, and for rank 0 the header. They are durable when it returns.

    `tensors`: contiguous buffers, such as NumPy arrays, of the shapes that the layout has for it.
    """
    due = layout.ranks[rank]
    if tensors.keys() != due.keys():
        missing, odd = due.keys() - tensors.keys(), tensors.keys() - due.keys()
        raise ValueError(f"rank {rank}: missing {sorted(missing)}, not in the layout {sorted(odd)}")
    with plfs.open(uri, "w", rank=rank) as file:
        if rank == 0:
            file.pwrite(layout.header, 0)
        # In the file's order, so that the rank's log has them in that order, too.
        for name in sorted(due, key=layout.place):
            view = _bytes_of(tensors[name])
            if len(view) != due[name].nbytes:
                raise ValueError(f"{name}: {len(view)} bytes, the layout has {due[name].nbytes}")
            file.pwrite(view, layout.place(name))


def _bytes_of(tensor: Any) -> memoryview:
    view = memoryview(tensor)
    if not view.c_contiguous:
        raise ValueError("a tensor isn't contiguous")
    if view.format[:1] in (">", "!"):
        raise ValueError(f"a tensor is big-endian ({view.format}); the format is little-endian")
    # An empty shape can't be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


def finalize(uri: str, target: str) -> int:
    """Turns the file that all ranks have written into a plain one; says how many bytes moved."""
    return plfs.finalize(uri, target)


class Reader:
    """A `.safetensors` file that ranks have written, before it is finalized."""

    def __init__(self, uri: str) -> None:
        self._file = plfs.open(uri, "r")
        try:
            self._begin, self._header = _read_header(self._file)
        except BaseException:
            self._file.close()
            raise
        #: The file's own texts.
        self.metadata: dict[str, str] = self._header.pop("__metadata__", {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def spec(self, name: str) -> Spec:
        """A tensor's type and shape."""
        of = self._header[name]
        return Spec(of["dtype"], tuple(of["shape"]))

    def read(self, name: str) -> bytearray:
        """A tensor's bytes."""
        start, end = self._header[name]["data_offsets"]
        buffer = bytearray(end - start)
        if self._file.preadinto(buffer, self._begin + start) < len(buffer):
            raise EOFError(f"{self._file.name} ends within {name}: not all ranks have written")
        return buffer

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_header(file: plfs.File) -> tuple[int, dict[str, Any]]:
    begin = file.pread(8, 0)
    length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
    if not 2 <= length <= _MOST_HEADER_BYTES:
        raise ValueError(f"{file.name} has no header of safetensors; has rank 0 written?")
    header = json.loads(file.pread(length, 8))
    if not isinstance(header, dict):
        raise ValueError(f"{file.name} has a damaged header")
    return 8 + length, header
