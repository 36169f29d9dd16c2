"""``strait://`` for fsspec, and so for pandas, polars, DuckDB, pyarrow and dask.

>>> import pandas
>>> frame = pandas.read_parquet("strait://127.0.0.1:9090/@lab/events.parquet")

Installed with the extra ``fsspec``, it registers by an entry point: nobody needs to import it.

It is synchronous. fsspec's asynchronous file systems belong to a thread with an event loop,
which a forked child doesn't have: fsspec refuses them there. This one goes on in the child, and
reads many ranges at once by threads. `strait.aio` is for programs with an event loop.
"""

import contextlib
import io
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias, TypeVar, cast

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path, tokenize

from strait import errors
from strait._reader import RemoteReader
from strait._transfer import name_asked_for, take_name, within
from strait._types import BlockLocation, FileInfo
from strait._uri import DEFAULT_PORT, SCHEME, Uri
from strait._writer import BufferedWriter, RemoteWriter
from strait.client import DEFAULT_BUFFER_BYTES, DEFAULT_TIMEOUT_S, Client, connect, plain_path

R = TypeVar("R")
#: A path, and the bounds of a slice of its file.
Range: TypeAlias = tuple[str, int | None, int | None]

# Ranges and files fetched at once: as many as a client keeps idle connections.
PARALLEL = 8
# Files open at once for their ranges. A gateway bounds the handles of a session (1,024 by default),
# and instances of several threads share one.
OPEN_FILES = 128
# Options that fsspec itself gives or takes.
FSSPEC_OPTIONS = frozenset(
    {"use_listings_cache", "listings_expiry_time", "max_paths", "asynchronous", "loop"}
)
# Programs such as Hugging Face's datasets put the scheme before an instance's paths. Then all that
# follows it is a path, and gateway and store are options.
PLACELESS = f"{SCHEME}/"
# Options of fsspec's own files, which programs pass in every mode. They mean nothing to a writer.
READING_OPTIONS = frozenset({"cache_type", "size"})

# fsspec makes an instance for each thread. They share a session by their arguments, since a gateway
# bounds the sessions of a user.
_clients: dict[str, Client] = {}
_clients_lock = threading.Lock()


def _renew_lock() -> None:
    global _clients_lock
    _clients_lock = threading.Lock()


# Another thread of the parent may have held it. The clients notice the fork by themselves.
os.register_at_fork(after_in_child=_renew_lock)


class Reader(io.BufferedReader):
    """A file open to read, with the attributes that users of fsspec look for."""

    raw: RemoteReader

    @property
    def size(self) -> int:
        """Bytes of the file when it was opened."""
        return self.raw.length

    @property
    def path(self) -> str:
        """The path in the store."""
        return self.raw.name


class Writer(BufferedWriter):
    """A file open to write. In a transaction, it takes its name at the end of that."""

    def __init__(self, raw: RemoteWriter, size: int, client: Client, target: str | None) -> None:
        super().__init__(raw, size)
        self._client = client
        self._target = target

    @property
    def path(self) -> str:
        """The path in the store."""
        return self._target or self.raw.name

    def commit(self) -> None:
        """Gives the file its name."""
        self.close()
        if self._target is not None:
            take_name(self._client, self.raw.name, self._target)

    def discard(self) -> None:
        """Removes the file, if it has no name yet."""
        self.raw.give_up()
        if self._target is not None:
            with contextlib.suppress(errors.NotFound):
                self._client.remove(self.raw.name)


class WholeFile:
    """A complete file of a transaction. It takes its name at the end of that."""

    def __init__(self, client: Client, target: str, overwrite: bool) -> None:
        self._client = client
        self._target = target
        self._overwrite = overwrite
        self.path = _beside(target)

    def commit(self) -> None:
        """Gives the file its name."""
        if self._overwrite:
            take_name(self._client, self.path, self._target)
            return
        try:
            self._client.rename(self.path, self._target)
        except errors.StraitError as error:
            with contextlib.suppress(errors.StraitError):
                self.discard()
            name_asked_for(error, self.path, self._target)
            raise

    def discard(self) -> None:
        """Removes the file."""
        with contextlib.suppress(errors.NotFound):
            self._client.remove(self.path)


class StraitFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of one store behind a gateway.

    Options are those of `strait.connect`; `host`, `port` and `store` come from a URI. The
    connection is made by the first request, so an instance costs nothing, and can be pickled with
    its options. Nothing is cached: each listing and each `info` asks the gateway.
    """

    protocol = "strait"
    root_marker = "/"

    def __init__(
        self,
        host: str | None = None,
        port: int = DEFAULT_PORT,
        store: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: bool | str = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        **fsspec_options: Any,
    ) -> None:
        if host is None:
            raise errors.InvalidArgument(
                "no gateway is named: use strait://HOST:PORT/path, or the options host and port"
            )
        unknown = fsspec_options.keys() - FSSPEC_OPTIONS
        if unknown:
            # A misspelled password would be a login as nobody.
            raise TypeError(f"strait:// has no option {', '.join(sorted(unknown))}")
        super().__init__(**fsspec_options)
        self._uri = Uri(host, int(port), store, "/")
        self._login: dict[str, Any] = {
            "user": user,
            "password": password,
            "token": token,
            "tls": tls,
            "timeout": timeout,
        }
        self._key = tokenize(host, port, store, self._login)
        # The class's own doesn't know the store.
        self._strip_protocol = self._strip_own  # type: ignore[method-assign]

    @property
    def client(self) -> Client:
        """The client that all instances with these options share."""
        client = _clients.get(self._key)
        if client is not None:
            return client
        with _clients_lock:
            client = _clients.get(self._key)
            if client is None:
                client = _clients[self._key] = connect(self._uri.gateway, **self._login)
        return client

    def close(self) -> None:
        """Ends the session of all instances with these options; the next request begins another."""
        with _clients_lock:
            client = _clients.pop(self._key, None)
        if client is not None:
            client.close()

    # -- Names

    @property
    def fsid(self) -> str:
        return f"strait_{tokenize(self._uri.gateway)}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        if path.startswith(SCHEME) and not path.startswith(PLACELESS):
            return Uri.parse(path).path
        return "/" + path.removeprefix(SCHEME).strip("/")

    def _strip_own(self, path: Any) -> Any:
        """`_strip_protocol`, which refuses a URI of another gateway or store than this one's."""
        for one in path if isinstance(path, list) else [path]:
            text = stringify_path(one)
            if text.startswith(SCHEME) and not text.startswith(PLACELESS):
                self._check_place(text)
        return type(self)._strip_protocol(path)

    def _check_place(self, text: str) -> None:
        uri, own = Uri.parse(text), self._uri
        if (uri.host.lower(), uri.port) != (own.host.lower(), own.port):
            # Programs with one file system for each scheme would copy a gateway's file onto itself.
            ours, other = f"{own.host}:{own.port}", f"{uri.host}:{uri.port}"
            raise errors.InvalidArgument(f"this file system's gateway is {ours}, not {other}", text)
        if uri.store not in (None, own.store):
            ours = own.store or "the gateway's default"
            raise errors.InvalidArgument(f"this file system's store is {ours}", text)

    def unstrip_protocol(self, name: str) -> str:
        if name.startswith(SCHEME):
            return name
        path = name.lstrip("/")
        escape = "@" if self._uri.store is None and path.startswith("@") else ""
        return f"{self._uri.gateway.rstrip('/')}/{escape}{path}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        if not path.startswith(SCHEME) or path.startswith(PLACELESS):
            return {}
        uri = Uri.parse(path)
        where: dict[str, Any] = {"host": uri.host, "port": uri.port}
        return where if uri.store is None else where | {"store": uri.store}

    # -- Looking

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        # `find` names files by it, and `get` local ones: the gateway is to have no say in that.
        return _entry(self.client.stat(path)) | {"name": plain_path(path)}

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            entries = [_entry(info) for info in self.client.scandir(path)]
        except errors.NotADirectory:
            entries = [self.info(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> Any:
        """Where a directory can't be listed, it is left out, but not where the gateway is wrong."""
        if on_error == "omit":
            on_error = _raise_internal
        return super().walk(path, maxdepth, topdown, on_error, **kwargs)

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self.client.exists(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        return self.client.isdir(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        return self.client.isfile(self._strip_protocol(path))

    def modified(self, path: str) -> datetime:
        return self.client.stat(self._strip_protocol(path)).modified

    def locate(self, path: str, offset: int = 0, length: int | None = None) -> list[BlockLocation]:
        """The blocks of a range of the file and their hosts, as `Client.locate`."""
        return self.client.locate(self._strip_protocol(path), offset, length)

    # -- Files

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> Any:
        size = block_size or DEFAULT_BUFFER_BYTES
        if mode == "rb":
            return Reader(self.client.open(path, "rb", buffering=0), size)
        target = None
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"invalid mode: {mode!r}; stores read, or append, but not both")
        created = {name: value for name, value in options.items() if name not in READING_OPTIONS}
        if not autocommit:
            if mode == "ab":
                raise errors.Unsupported("a transaction can't append", path)
            if mode == "xb" and self.exists(path):
                raise errors.AlreadyExists("the path is taken", path)
            path, target = _beside(path), path
        return Writer(
            self.client.open(path, mode, buffering=0, **created),  # type: ignore[call-overload]
            size, self.client, target,
        )  # fmt: skip

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        with self._raw(path) as file:
            return _range(file, start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """The ranges, up to eight at a time; successive ranges of a file are read by one handle.

        `max_gap` changes nothing: requests in flight cost less than bytes between ranges.
        """
        if not isinstance(paths, list):
            raise TypeError("paths is no list")
        begins, stops = (
            list(side) if isinstance(side, Sequence) else [side] * len(paths)
            for side in (starts, ends)
        )
        if not len(paths) == len(begins) == len(stops):
            raise ValueError("paths, starts and ends differ in length")
        batches = _batches(zip(paths, begins, stops, strict=True))
        return _checked([got for batch in batches for got in self._ranges(batch)], on_error)

    def _ranges(self, jobs: list[Range]) -> list[bytes | Exception]:
        with contextlib.ExitStack() as stack:
            paths = dict.fromkeys(path for path, _, _ in jobs)
            opened = _in_parallel(self._raw, paths)
            files = dict(zip(paths, opened, strict=True))
            for file in opened:
                if isinstance(file, RemoteReader):
                    stack.callback(file.close)

            def fetch(job: Range) -> bytes:
                file = files[job[0]]
                if isinstance(file, Exception):
                    raise file
                return _range(file, *job[1:])

            return _in_parallel(fetch, jobs)

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        paths = self.expand_path(path, recursive=recursive)
        if (
            len(paths) == 1
            and not isinstance(path, list)
            and paths[0] == self._strip_protocol(path)
        ):
            return self.cat_file(paths[0], **kwargs)
        got = _in_parallel(lambda one: self.cat_file(one, **kwargs), paths)
        if on_error == "omit":
            return {p: g for p, g in zip(paths, got, strict=True) if not isinstance(g, Exception)}
        return dict(zip(paths, _checked(got, on_error), strict=True))

    def _raw(self, path: str) -> RemoteReader:
        return self.client.open(self._strip_protocol(path), "rb", buffering=0)

    @contextlib.contextmanager
    def _in_transaction(self, path: str, mode: str) -> Iterator[str]:
        """The path to write a whole file to. In a transaction, it isn't `path` itself."""
        if not self._intrans:
            yield path
            return
        if self.isdir(path):
            raise errors.IsADirectory("the path is a directory", path)
        if mode != "overwrite" and self.exists(path):
            raise errors.AlreadyExists("the path is taken", path)
        file = WholeFile(self.client, path, overwrite=mode == "overwrite")
        try:
            yield file.path
        except BaseException as error:
            with contextlib.suppress(errors.StraitError):
                file.discard()
            name_asked_for(error, file.path, path)
            raise
        self.transaction.files.append(file)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        with (
            self._in_transaction(self._strip_protocol(path), mode) as path,
            self.client.open(path, "xb" if mode == "create" else "wb", **kwargs) as file,
        ):
            file.write(value)

    def get_file(
        self,
        rpath: str,
        lpath: Any,
        callback: Callback = DEFAULT_CALLBACK,
        outfile: BinaryIO | None = None,
        **kwargs: Any,
    ) -> None:
        """Reads and writes at once. The local file appears when it is complete."""
        rpath = self._strip_protocol(rpath)
        target = outfile if outfile is not None else lpath
        if isinstance(target, str | os.PathLike):
            if self.isdir(rpath):
                Path(target).mkdir(parents=True, exist_ok=True)
                return
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        self.client.get(rpath, target, _progress(callback), overwrite=True)

    def put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **kwargs: Any,
    ) -> None:
        """Reads and writes at once. The remote file appears when it is complete.

        In a transaction, it appears at the end of that.
        """
        rpath = self._strip_protocol(rpath)
        if Path(lpath).is_dir():
            self.makedirs(rpath, exist_ok=True)
            return
        if self._intrans:
            rpath = within(self.client, lpath, rpath)
        with self._in_transaction(rpath, mode) as path:
            self.client.put(lpath, path, _progress(callback), overwrite=mode == "overwrite")

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies through this machine. The new file appears when it is complete.

        In a transaction, it appears at the end of that.
        """
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self._raw(path1) as source, self._in_transaction(path2, "overwrite") as path:
            source.expect_all()
            self.client.put(cast(BinaryIO, source), path, overwrite=True)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if not truncate and self.exists(path):
            self.client.utime(path)
        else:
            self.pipe_file(path, b"")

    # -- Changing names

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.client.makedirs(path)
        else:
            self.client.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.client.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if self.isfile(path):
            raise errors.NotADirectory("rmdir removes directories", path)
        self.client.remove(path)

    def rm_file(self, path: str) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            raise errors.IsADirectory("rm_file removes files; use rmdir, or rm", path)
        self.client.remove(path)

    def _rm(self, path: str) -> None:
        self.client.remove(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            super().rm(path, recursive, maxdepth)
            return
        removed: set[PurePosixPath] = set()
        for one in self.expand_path(path):  # sorted: directories before what lies beneath
            if not recursive:
                self.rm_file(one)
            elif removed.isdisjoint(PurePosixPath(one).parents):
                self.client.rmtree(one)
                removed.add(PurePosixPath(one))

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Renames. If `path2` is a directory, the file or directory goes into it."""
        path1, path2 = stringify_path(path1), stringify_path(path2)
        if isinstance(path1, list) or "*" in path1 or maxdepth is not None:
            if self._intrans:
                # It would copy at the end, but remove at once.
                message = "in a transaction, mv takes one path, without a pattern or a depth"
                raise errors.InvalidArgument(message, str(path1))
            super().mv(path1, path2, recursive, maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if self.isdir(target):
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        self.client.replace(source, target)


def _raise_internal(error: OSError) -> None:
    if isinstance(error, errors.Internal):
        raise error


def _entry(info: FileInfo) -> dict[str, Any]:
    return {
        "name": "/" + info.path.strip("/"),
        "size": info.length,
        "type": "directory" if info.is_dir else "file",
        "mtime": info.modified,
        "mode": info.permission,
        "owner": info.owner,
        "group": info.group,
        "replication": info.replication,
        "block_size": info.block_size,
    }


def _range(file: RemoteReader, start: int | None, end: int | None) -> bytes:
    """From `start` to before `end`; negative ones count from the end, as in slices."""
    if start is None and end is None:
        file.expect_all()
        return file.readall()
    begin, stop, _ = slice(start, end).indices(file.length)
    return file.pread(max(0, stop - begin), begin)


def _batches(jobs: Iterable[Range]) -> Iterator[list[Range]]:
    """The jobs in order, each batch with a bounded number of files."""
    batch: list[Range] = []
    paths: set[str] = set()
    for job in jobs:
        if job[0] not in paths and len(paths) == OPEN_FILES:
            yield batch
            batch, paths = [], set()
        batch.append(job)
        paths.add(job[0])
    yield batch


def _beside(path: str) -> str:
    """A name in the same directory, of a file that is to be `path` later."""
    return f"{path.rpartition('/')[0]}/.strait-put-{secrets.token_hex(8)}"


def _in_parallel(work: Callable[[Any], R], jobs: Collection[Any]) -> list[R | Exception]:
    """The results in order; an exception in place of a result."""

    def caught(job: Any) -> R | Exception:
        try:
            return work(job)
        except Exception as error:
            return error

    if len(jobs) < 2:
        return [caught(job) for job in jobs]
    # Of this call alone: threads don't outlive a fork.
    with ThreadPoolExecutor(min(PARALLEL, len(jobs)), "strait-fsspec") as threads:
        return list(threads.map(caught, jobs))


def _checked(results: list[Any], on_error: str) -> list[Any]:
    if on_error != "return":
        for result in results:
            if isinstance(result, Exception):
                raise result
    return results


def _progress(callback: Callback) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if callback.size != total:
            callback.set_size(total)
        callback.absolute_update(done)

    return report
