"""The client for programs with an event loop.

>>> async with strait.aio.connect("strait://127.0.0.1:9090/") as client:
...     async with client.open("/data/x", "wb") as file:
...         await file.write(b"hello")
...     print((await client.stat("/data/x")).length)

The methods are those of `strait.Client`, awaited. Sessions, deadlines and retries are too: each
request runs in one of 16 threads of the client, so the loop never waits for a gateway. A
cancelled task stops to wait; its request ends in its thread, by its reply or the deadline.
"""

import asyncio
import contextlib
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

import strait.client
from strait._reader import RemoteReader
from strait._types import FileInfo, StoreInfo
from strait.client import Client, RemotePath

P = ParamSpec("P")
R = TypeVar("R")

# Requests at once, and connections kept for them. A thread waits most of its time.
THREADS = 16
# Entries of a directory that pass between the threads at once: a hop costs as much as some twenty.
ENTRIES = 1000


class _Closing(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closing)


class Opening(Generic[C]):
    """Opened by ``await``, or by ``async with``, which also closes it."""

    def __init__(self, opening: Coroutine[Any, Any, C]) -> None:
        self._opening = opening
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, Any, C]:
        return self._opening.__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def connect(address: str, **options: Any) -> "Opening[AsyncClient]":
    """Opens a session; arguments as those of `strait.connect`."""
    return Opening(_connect(address, options))


async def _connect(address: str, options: dict[str, Any]) -> "AsyncClient":
    threads = ThreadPoolExecutor(THREADS, "strait-aio")
    connecting = functools.partial(strait.client.connect, address, **options)
    try:
        client = await _opened(threads, connecting)
    except BaseException:
        threads.shutdown(wait=False)
        raise
    return AsyncClient(client, threads)


async def _opened(threads: ThreadPoolExecutor, opening: Callable[[], R]) -> R:
    """What `opening` gives. If the task is cancelled, a thread closes that: its drop would do so in
    the loop's thread."""
    running = threads.submit(opening)
    try:
        return await asyncio.wrap_future(running)
    except asyncio.CancelledError:
        if not running.cancel():  # it runs, or is done
            with contextlib.suppress(RuntimeError):  # the client is closed
                threads.submit(_close, running)
        raise


def _close(opening: Future[Any]) -> None:
    with contextlib.suppress(Exception):  # nobody waits for it
        opening.result().close()


def _awaited(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate["AsyncClient", P], Awaitable[R]]:
    @functools.wraps(method)
    async def asynchronous(self: "AsyncClient", *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(functools.partial(method, self._client, *args, **kwargs))

    return asynchronous  # type: ignore[return-value]  # it names `self`, as methods do


class AsyncClient:
    """The files of one store, as one user, for the tasks of one event loop."""

    def __init__(self, client: Client, threads: ThreadPoolExecutor) -> None:
        self._client = client
        self._threads = threads
        client._session.max_idle = THREADS

    async def _run(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the session; close its files first."""
        if self._client._session.closed:
            return
        try:
            await self._run(self._client.close)
        finally:
            self._threads.shutdown(wait=False)

    @property
    def user(self) -> str:
        """As whom the gateway acts."""
        return self._client.user

    @property
    def token(self) -> str | None:
        """Stands for the login until it expires; keep it secret."""
        return self._client.token

    @property
    def store(self) -> StoreInfo:
        """The store of this session."""
        return self._client.store

    server_info = _awaited(Client.server_info)
    status = _awaited(Client.status)
    stat = _awaited(Client.stat)
    exists = _awaited(Client.exists)
    isdir = _awaited(Client.isdir)
    isfile = _awaited(Client.isfile)
    listdir = _awaited(Client.listdir)
    locate = _awaited(Client.locate)
    checksum = _awaited(Client.checksum)
    mkdir = _awaited(Client.mkdir)
    makedirs = _awaited(Client.makedirs)
    rename = _awaited(Client.rename)
    replace = _awaited(Client.replace)
    remove = _awaited(Client.remove)
    rmtree = _awaited(Client.rmtree)
    chmod = _awaited(Client.chmod)
    chown = _awaited(Client.chown)
    utime = _awaited(Client.utime)
    setrep = _awaited(Client.setrep)
    truncate = _awaited(Client.truncate)
    concat = _awaited(Client.concat)
    get = _awaited(Client.get)
    put = _awaited(Client.put)

    async def scandir(
        self, path: RemotePath, *, page_size: int | None = None
    ) -> AsyncIterator[FileInfo]:
        """A directory's entries, in the store's own order; fetched page by page."""
        entries = cast(
            Generator[FileInfo, None, None], self._client.scandir(path, page_size=page_size)
        )
        try:
            while some := await self._run(lambda: [*itertools.islice(entries, ENTRIES)]):
                for entry in some:
                    yield entry
        finally:
            # If a cancelled task left it running, its end is the listing's too.
            with contextlib.suppress(ValueError):
                await self._run(entries.close)

    def open(
        self, path: RemotePath, mode: str = "r", buffering: int = -1, **options: Any
    ) -> "Opening[AsyncFile]":
        """Opens a file; arguments as those of `Client.open`."""
        return Opening(self._open(path, mode, buffering, options))

    async def _open(
        self, path: RemotePath, mode: str, buffering: int, options: dict[str, Any]
    ) -> "AsyncFile":
        opening: Callable[..., Any] = self._client.open
        work = functools.partial(opening, path, mode, buffering, **options)
        file = await _opened(self._threads, work)
        return AsyncFile(self, file)


class AsyncFile:
    """An open file: of bytes or text, as its mode says.

    Its operations run one after the other, `pread` excepted. After the task of a write was
    cancelled, the write may still happen; `close` waits for it.
    """

    def __init__(self, client: AsyncClient, file: Any) -> None:
        self._client = client
        self._file = file
        self._order = asyncio.Lock()  # of tasks
        self._turn = threading.Lock()  # after a cancelled task, its thread still has it

    async def _run(self, name: str, *args: Any) -> Any:
        def work() -> Any:
            with self._turn:
                return getattr(self._file, name)(*args)

        async with self._order:
            return await self._client._run(work)

    @property
    def name(self) -> str:
        """The path in the store."""
        return str(self._file.name)

    @property
    def mode(self) -> str:
        return str(self._file.mode)

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    async def read(self, size: int = -1) -> Any:
        """Up to `size` bytes or characters; the rest of the file without `size`."""
        return await self._run("read", size)

    async def readline(self) -> Any:
        return await self._run("readline")

    async def pread(self, length: int, offset: int) -> bytes:
        """Bytes of a range; for many tasks at once. The position stays."""
        # From below the layers of `io`.
        raw = self._file
        while not isinstance(raw, RemoteReader):
            raw = raw.buffer if hasattr(raw, "buffer") else raw.raw
        return await self._client._run(lambda: raw.pread(length, offset))

    async def write(self, data: Any) -> int:
        """Writes all of `data`."""
        return int(await self._run("write", data))

    async def flush(self) -> None:
        """Makes the written bytes visible to readers who open the file afterwards.

        In object stores it promises nothing.
        """
        await self._run("flush")

    async def sync(self) -> int | None:
        """Puts the written bytes on stable storage; returns how many replicas hold them, at least.

        In object stores it promises nothing.
        """
        return cast(int | None, await self._run("sync"))

    async def seek(self, offset: int, whence: int = 0) -> int:
        return int(await self._run("seek", offset, whence))

    async def tell(self) -> int:
        return int(await self._run("tell"))

    async def close(self) -> None:
        """As `RemoteWriter.close`: after `NoSpace` and `Unavailable` the file stays open."""
        await self._run("close")

    async def __aiter__(self) -> AsyncIterator[Any]:
        """The lines."""
        while line := await self.readline():
            yield line

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
