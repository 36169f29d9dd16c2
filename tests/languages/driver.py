"""A client in any language, driven from here: the shared cases need no reader of JSON in each language.

A driver is a program in its language. It reads requests from its standard input, and answers each on its
standard output. A message is a list of parts: their number, then each part's length and bytes; numbers are
of four bytes, the highest first. A request is an operation and its arguments, numbers in decimal digits; an
empty argument stands for none. An answer is `ok` and results, or `error`, kind, path, message, and
the exception's own name.
"""

import dataclasses
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

import strait
from strait import errors

KINDS = {
    value.kind: value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, strait.StraitError)
}
MAX_PART = 64 << 20


def encoded(parts: list[bytes]) -> bytes:
    return struct.pack(">I", len(parts)) + b"".join(
        struct.pack(">I", len(part)) + part for part in parts
    )


def decoded(source: BinaryIO) -> list[bytes]:
    def number() -> int:
        return struct.unpack(">I", exactly(4))[0]

    def exactly(length: int) -> bytes:
        assert length <= MAX_PART, f"a part of {length} bytes"
        data = source.read(length)
        if len(data) < length:
            raise EOFError("the other end closed")
        return data

    return [exactly(number()) for _ in range(number())]


def spelled(argument: Any) -> bytes:
    match argument:
        case None:
            return b""
        case bool():
            return b"1" if argument else b"0"
        case bytes():
            return argument
    return str(argument).encode()


class Driver:
    """Raises a driver's errors as the Python client's, with the names of its own exception and its message as notes."""

    def __init__(self, exchange: Callable[[list[bytes]], list[bytes]]) -> None:
        self._exchange = exchange

    def __call__(self, operation: str, *arguments: Any) -> list[bytes]:
        answer = self._exchange([operation.encode(), *map(spelled, arguments)])
        if answer[0] == b"ok":
            return answer[1:]
        assert answer[0] == b"error", answer[:2]
        kind, path, message, native = (part.decode() for part in answer[1:5])
        assert kind in KINDS, f"{operation}: {kind} {native}: {message}"
        failure = KINDS[kind](message, path or None)
        failure.add_note(native)
        failure.add_note(message)
        raise failure


def process(
    command: list[str], log: BinaryIO
) -> tuple[Driver, subprocess.Popen[bytes]]:
    """A driver that this command starts; it ends with its standard input."""
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
    )
    assert child.stdin and child.stdout
    stdin, stdout = child.stdin, child.stdout

    def exchange(parts: list[bytes]) -> list[bytes]:
        stdin.write(encoded(parts))
        stdin.flush()
        return decoded(stdout)

    return Driver(exchange), child


@dataclasses.dataclass
class Info:
    is_dir: bool
    length: int
    permission: int
    replication: int
    modified_ms: int
    accessed_ms: int


@dataclasses.dataclass
class Entry:
    name: str


@dataclasses.dataclass
class Block:
    offset: int
    length: int
    hosts: int


class File:
    """An open file of a driver, as the cases in Python use one."""

    _numbers = iter(range(1 << 30))

    def __init__(
        self, driver: Driver, path: str, mode: str, permission: int | None
    ) -> None:
        self._driver, self._name = driver, str(next(File._numbers))
        driver("open", self._name, path, mode, permission)
        self.raw = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def read(self, length: int = -1) -> bytes:
        return self._driver("read", self._name, length)[0]

    def pread(self, length: int, offset: int) -> bytes:
        return self._driver("pread", self._name, offset, length)[0]

    def write(self, data: bytes) -> None:
        self._driver("write", self._name, data)

    def tell(self) -> int:
        return int(self._driver("position", self._name)[0])

    def flush(self) -> None:
        self._driver("flush", self._name)

    def sync(self) -> None:
        self._driver("sync", self._name)

    def close(self) -> None:
        self._driver("close", self._name)


class Client:
    """A driver's client, with the names of the Python client that the cases use."""

    def __init__(
        self, driver: Driver, name: str, address: str, timeout_ms: int = 120_000
    ) -> None:
        self.driver, self.name = driver, name
        (capabilities,) = driver("connect", name, address, timeout_ms)
        self.capabilities = frozenset(capabilities.decode().split(","))

    @property
    def store(self) -> "Client":
        return self

    def close(self) -> None:
        self.driver("disconnect", self.name)

    def open(self, path: str, mode: str, permission: int | None = None) -> File:
        names = {"rb": "read", "xb": "create", "wb": "overwrite", "ab": "append"}
        return File(self.driver, path, names[mode], permission)

    def stat(self, path: str) -> Info:
        kind, *numbers = self.driver("stat", path)
        return Info(kind == b"directory", *map(int, numbers))

    def exists(self, path: str) -> bool:
        return self.driver("exists", path) == [b"1"]

    def scandir(self, path: str, page_size: int | None = None) -> Iterator[Entry]:
        return (Entry(name.decode()) for name in self.driver("list", path, page_size))

    def makedirs(
        self, path: str, permission: int | None = None, exist_ok: bool = True
    ) -> None:
        assert exist_ok
        self.driver("mkdirs", path, permission)

    def rename(self, source: str, target: str) -> None:
        self.driver("rename", source, target, False)

    def replace(self, source: str, target: str) -> None:
        self.driver("rename", source, target, True)

    def remove(self, path: str) -> None:
        self.driver("remove", path, False)

    def rmtree(self, path: str) -> None:
        self.driver("remove", path, True)

    def chmod(self, path: str, permission: int) -> None:
        self.driver("attributes", path, permission, None, None, None)

    def setrep(self, path: str, replication: int) -> None:
        self.driver("attributes", path, None, replication, None, None)

    def utime(self, path: str, times: tuple[float, float]) -> None:
        accessed, modified = (round(seconds * 1000) for seconds in times)
        self.driver("attributes", path, None, None, modified, accessed)

    def truncate(self, path: str, length: int) -> None:
        self.driver("truncate", path, length)

    def concat(self, path: str, sources: list[str]) -> None:
        self.driver("concat", path, *sources)

    def put(self, local: Path, path: str, overwrite: bool) -> None:
        self.driver("put", local, path, overwrite)

    def locate(
        self, path: str, offset: int = 0, length: int | None = None
    ) -> list[Block]:
        numbers = map(int, self.driver("locate", path, offset, length))
        return [Block(*block) for block in zip(numbers, numbers, numbers, strict=True)]

    def checksum(self, path: str) -> list[bytes]:
        return self.driver("checksum", path)

    def status(self) -> Any:
        capacity, used, remaining = map(int, self.driver("status"))
        return strait.StoreStatus(capacity=capacity, used=used, remaining=remaining)
