"""Answers the requests of tests/languages/driver.py that faults consist of."""

import struct
import sys
from typing import Any, BinaryIO

import strait

MODES = {"read": "rb", "create": "xb", "overwrite": "wb", "append": "ab"}


class Operations:
    """A method for each operation."""

    def __init__(self) -> None:
        self._client: Any = None
        self._clients: dict[bytes, strait.Client] = {}
        self._files: dict[bytes, Any] = {}

    def connect(self, name, address, timeout_ms):
        self._client = strait.connect(address.decode(), timeout=int(timeout_ms) / 1000)
        self._clients[name] = self._client
        return [",".join(self._client.store.capabilities)]

    def use(self, name):
        self._client = self._clients[name]

    def disconnect(self, name):
        self._clients.pop(name).close()

    def open(self, name, path, mode, permission):
        options = {"permission": int(permission)} if permission else {}
        self._files[name] = self._client.open(path.decode(), MODES[mode.decode()], **options)

    def read(self, name, length):
        return [self._files[name].read(int(length))]

    def pread(self, name, offset, length):
        return [self._files[name].raw.pread(int(length), int(offset))]

    def write(self, name, data):
        self._files[name].write(data)

    def flush(self, name):
        self._files[name].flush()

    def close(self, name):
        self._files[name].close()
        del self._files[name]

    def stat(self, path):
        info = self._client.stat(path.decode())
        kind = "directory" if info.is_dir else "file"
        times = [info.modified_ms, info.accessed_ms]
        return [kind, info.length, info.permission, info.replication, *times]

    def exists(self, path):
        return [int(self._client.exists(path.decode()))]

    def list(self, path, page):
        size = int(page) if page else None
        return [entry.name for entry in self._client.scandir(path.decode(), page_size=size)]

    def mkdirs(self, path, permission):
        self._client.makedirs(path.decode(), int(permission) if permission else None, exist_ok=True)

    def rename(self, source, target, replace):
        move = self._client.replace if replace == b"1" else self._client.rename
        move(source.decode(), target.decode())

    def remove(self, path, recursive):
        (self._client.rmtree if recursive == b"1" else self._client.remove)(path.decode())


def answer(operations: Operations, parts: list[bytes]) -> list[Any]:
    try:
        return ["ok", *(getattr(operations, parts[0].decode())(*parts[1:]) or [])]
    except strait.StraitError as failure:
        native = f"{type(failure).__module__}.{type(failure).__qualname__}"
        return ["error", failure.kind, failure.filename or "", str(failure), native]


def main(source: BinaryIO, target: BinaryIO) -> None:
    def number() -> int:
        return struct.unpack(">I", source.read(4))[0]

    operations = Operations()
    while head := source.read(4):
        parts = [source.read(number()) for _ in range(struct.unpack(">I", head)[0])]
        told = [
            part if isinstance(part, bytes) else str(part).encode()
            for part in answer(operations, parts)
        ]
        target.write(struct.pack(">I", len(told)))
        for part in told:
            target.write(struct.pack(">I", len(part)) + part)
        target.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
