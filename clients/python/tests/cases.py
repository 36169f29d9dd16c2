"""Runs one case of clients/conformance/cases.json through the client.

The format and its rules are in clients/conformance/README.md.
"""

import itertools
import json
import secrets
import tempfile
from pathlib import Path
from typing import Any

import strait
from strait._gen import ttypes

FILE = Path(__file__).parents[2] / "conformance" / "cases.json"
MODES = {"read": "rb", "create": "xb", "overwrite": "wb", "append": "ab"}
PATHS = ("path", "source", "target")
PATTERN_PERIOD = 251 * 64


def load(section: str = "cases") -> list[dict[str, Any]]:
    document = json.loads(FILE.read_text())
    assert document["format"] == 1
    return document[section]


def pattern(seed: int, offset: int, length: int) -> bytes:
    period = bytes((seed + i + i // 251) % 256 for i in range(PATTERN_PERIOD))
    start = offset % PATTERN_PERIOD
    return (period * ((start + length) // PATTERN_PERIOD + 1))[start : start + length]


class Run:
    """One case, in a directory of its own."""

    def __init__(self, address: str, directory: str, **connect: Any) -> None:
        self._connect = lambda: strait.connect(address, **connect)
        self._client = self._connect()
        self._others: dict[str, strait.Client] = {}
        self._directory = directory
        self._files: dict[str, Any] = {}
        self._saved: dict[str, Any] = {}
        self._random: dict[str, bytes] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        return self._client.store.capabilities

    def steps(self, steps: list[dict[str, Any]]) -> None:
        self._client.makedirs(self._directory, exist_ok=True)
        try:
            for step in steps:
                self._step(dict(step))
        finally:
            for file in self._files.values():
                file.close()
            self._client.rmtree(self._directory)

    def close(self) -> None:
        for client in (self._client, *self._others.values()):
            client.close()

    def _step(self, step: dict[str, Any]) -> None:
        shown = json.dumps(step, ensure_ascii=False)
        operation = getattr(self, f"_{step.pop('op')}")
        error, either = step.pop("error", None), step.pop("or_error", None)
        if not step.pop("absolute", False):
            for key in PATHS:
                if key in step:
                    step[key] = self._path(step[key])
        try:
            operation(**step)
        except strait.StraitError as failure:
            self._check_error(failure, error or either, shown)
        except AssertionError as failure:
            raise AssertionError(f"{shown}\n  {failure}") from failure
        else:
            assert not error, f"{shown}\n  succeeded"

    def _check_error(self, failure: Any, error: dict[str, Any] | None, shown: str) -> None:
        assert error, f"{shown}\n  failed: {failure!r}"
        kinds = error["kind"] if isinstance(error["kind"], list) else [error["kind"]]
        assert failure.kind in kinds, f"{shown}\n  failed as {failure.kind}: {failure}"
        if "path" in error:
            assert failure.filename == self._path(error["path"]), shown

    def _path(self, path: str) -> str:
        return self._directory + path

    def _bytes(self, spec: dict[str, Any]) -> bytes:
        match spec:
            case {"hex": digits}:
                return bytes.fromhex(digits)
            case {"text": text}:
                return text.encode()
            case {"pattern": seed, "length": length}:
                return pattern(seed, spec.get("offset", 0), length)
            case {"concat": parts}:
                return b"".join(map(self._bytes, parts))
            case {"random": name}:
                return self._random.setdefault(name, secrets.token_bytes(16))
        raise AssertionError(f"no bytes: {spec}")

    def _same(self, got: bytes, spec: dict[str, Any] | None) -> None:
        if spec is None:
            return
        expected = self._bytes(spec)
        # Not with ==, whose report would print megabytes.
        same = got == expected
        assert same, f"{len(got)} bytes ({got[:20]!r} …) in place of {len(expected)}"

    # -- Steps through the client's own interface

    def _write(self, path, mode, bytes, piece=None, permission=None) -> None:
        data = self._bytes(bytes)
        options = {} if permission is None else {"permission": int(permission, 8)}
        with self._client.open(path, MODES[mode], **options) as file:
            for start in range(0, len(data), piece or len(data) or 1):
                file.write(data[start : start + (piece or len(data))])

    def _read(self, path, expect=None) -> None:
        with self._client.open(path, "rb") as file:
            self._same(file.read(), expect)

    def _open(self, file, path, mode) -> None:
        self._files[file] = self._client.open(path, MODES[mode])

    def _read_next(self, file, length, expect=None) -> None:
        self._same(self._files[file].read(length), expect)

    def _read_at(self, file, offset, length, expect=None) -> None:
        self._same(self._files[file].raw.pread(length, offset), expect)

    def _append(self, file, bytes) -> None:
        self._files[file].write(self._bytes(bytes))

    def _position(self, file, expect) -> None:
        assert self._files[file].tell() == expect

    def _flush(self, file, mode) -> None:
        {"flush": self._files[file].flush, "sync": self._files[file].sync}[mode]()

    def _close(self, file) -> None:
        self._files.pop(file).close()

    def _stat(self, path, expect=None) -> None:
        info = self._client.stat(path)
        for key, value in (expect or {}).items():
            if key == "type":
                assert info.is_dir == (value == "directory")
            elif key == "permission":
                assert info.permission == int(value, 8), oct(info.permission)
            else:
                assert getattr(info, key) == value

    def _exists(self, path, expect) -> None:
        assert self._client.exists(path) is expect

    def _list(self, path, expect=None, page=None) -> None:
        if isinstance(expect, dict):
            expect = [f"{expect['prefix']}{n}" for n in range(expect["count"])]
        names = [entry.name for entry in self._client.scandir(path, page_size=page)]
        assert sorted(names) == sorted(expect or [])

    def _mkdirs(self, path, permission=None, count=None) -> None:
        bits = None if permission is None else int(permission, 8)
        for one in [path] if count is None else [f"{path}{n}" for n in range(count)]:
            self._client.makedirs(one, bits, exist_ok=True)

    def _rename(self, source, target, replace) -> None:
        (self._client.replace if replace else self._client.rename)(source, target)

    def _remove(self, path, recursive) -> None:
        (self._client.rmtree if recursive else self._client.remove)(path)

    def _set_attributes(
        self, path, permission=None, replication=None, modified_ms=None, accessed_ms=None
    ) -> None:
        if permission is not None:
            self._client.chmod(path, int(permission, 8))
        if replication is not None:
            self._client.setrep(path, replication)
        if modified_ms is not None:
            self._client.utime(path, (accessed_ms / 1000, modified_ms / 1000))

    def _truncate(self, path, length) -> None:
        self._client.truncate(path, length)

    def _concat(self, path, sources) -> None:
        self._client.concat(path, [self._path(source) for source in sources])

    def _put(self, path, name, bytes, replace=False) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            local = Path(scratch, name)
            local.write_bytes(self._bytes(bytes))
            self._client.put(local, path, overwrite=replace)

    def _locate(self, path, expect=None, offset=0, length=None) -> None:
        blocks = self._client.locate(path, offset, length)
        if "none" in expect:
            assert not blocks
            return
        assert blocks[0].offset <= expect["from"]
        for block, following in itertools.pairwise(blocks):
            assert block.offset + block.length == following.offset
        assert blocks[-1].offset + blocks[-1].length >= expect["to"]
        assert all(block.length > 0 and block.hosts for block in blocks)

    def _checksum(self, path, other, expect) -> None:
        same = self._client.checksum(path) == self._client.checksum(self._path(other))
        assert same is expect

    def _status(self) -> None:
        status = self._client.status()
        assert 0 <= status.used <= status.capacity
        assert 0 <= status.remaining <= status.capacity

    # -- Requests as they stand

    def _request(self, method, args, expect=None, save=None, client=None) -> None:
        chosen = self._client
        if client is not None:
            chosen = self._others.get(client) or self._others.setdefault(client, self._connect())
        request_type = {
            "openFile": ttypes.OpenFileRequest,
            "readRange": ttypes.ReadRangeRequest,
            "createFile": ttypes.CreateFileRequest,
            "appendFile": ttypes.AppendFileRequest,
            "appendData": ttypes.AppendDataRequest,
            "flushFile": ttypes.FlushFileRequest,
            "closeFile": ttypes.CloseFileRequest,
            "listDirectory": ttypes.ListDirectoryRequest,
            "removePath": ttypes.RemovePathRequest,
            "renamePath": ttypes.RenamePathRequest,
        }[method]
        request = request_type(**{key: self._value(key, value) for key, value in args.items()})
        with chosen._session.connection(chosen._session.deadline()) as connection:
            reply = connection.call(method, request)
        for field, value in (expect or {}).items():
            if field == "data":
                self._same(bytes(reply.data or b""), value)
            else:
                assert getattr(reply, field) == self._value(field, value)
        for field, name in (save or {}).items():
            self._saved[name] = getattr(reply, field)

    def _value(self, key: str, value: Any) -> Any:
        if key in PATHS:
            return self._path(value)
        if isinstance(value, dict):
            return self._bytes(value)
        if isinstance(value, str) and value.startswith("$"):
            return self._saved[value[1:]]
        return value
