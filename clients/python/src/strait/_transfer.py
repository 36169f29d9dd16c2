"""Whole files: one side read while the other is written."""

import contextlib
import errno
import io
import itertools
import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from strait import errors
from strait._gen.ttypes import GetFileInfoRequest, RemovePathRequest
from strait._writer import RemoteWriter

if TYPE_CHECKING:
    from strait._open import CreateOptions
    from strait.client import Client

#: Called with the bytes copied so far and the bytes in all (0: not known).
Progress: TypeAlias = Callable[[int, int], None]

# Chunks read and not yet written. Two would suffice for sides of steady speed.
QUEUE_CHUNKS = 4
CHUNK_BYTES = 1 << 20
# Permission bits that a copy can get: a set-id bit belongs only to the original.
PERMISSION_BITS = 0o777
# Mode of a local file whose original has no permission bits, as on some stores.
DEFAULT_PERMISSION = 0o666


def get(
    client: "Client",
    source: str,
    local: "str | os.PathLike[str] | BinaryIO",
    progress: Progress | None,
    *,
    overwrite: bool,
) -> int:
    """See `Client.get`."""
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(client.open(source, "rb", buffering=0))
        reader.expect_all()
        length = reader.length  # later, it may be that of a file opened again
        if isinstance(local, str | os.PathLike):
            appearing = _appearing(client, source, Path(local), overwrite=overwrite)
            target = stack.enter_context(appearing)
        else:
            target = local
        # One chunk being read, one being written, the others queued.
        buffers = itertools.cycle(
            [memoryview(bytearray(CHUNK_BYTES)) for _ in range(QUEUE_CHUNKS + 2)]
        )

        def read() -> memoryview:
            buffer = next(buffers)
            return buffer[: reader.readinto(buffer)]

        copied = _copy(read, lambda data: _write_all(target, data), length, progress)
        if copied < length:
            raise errors.Busy("the file became shorter while it was read", source)
        return copied


def put(
    client: "Client",
    local: "str | os.PathLike[str] | BinaryIO",
    target: str,
    progress: Progress | None,
    *,
    overwrite: bool,
) -> int:
    """See `Client.put`."""
    target = within(client, local, target)
    if not overwrite and client.exists(target):
        raise errors.AlreadyExists("the path is taken", target)
    directory = target.rstrip("/").rpartition("/")[0]
    # Doesn't contain the target's name, which may already have the maximum length.
    temporary = f"{directory}/.strait-put-{secrets.token_hex(8)}"
    options: CreateOptions = {}
    with contextlib.ExitStack() as stack:
        if isinstance(local, str | os.PathLike):
            source: BinaryIO = stack.enter_context(Path(local).open("rb", buffering=0))
            status = os.fstat(source.fileno())
            total = status.st_size
            options["permission"] = status.st_mode & PERMISSION_BITS & ~_umask()
        else:
            source, total = local, 0
        if client.isdir(target):
            raise errors.IsADirectory("the target is a directory", target)
        try:
            try:
                writer = client.open(temporary, "xb", buffering=0, **options)
                # Unlike `close`, this doesn't try once more after a failure.
                stack.callback(writer.give_up)
                chunk_bytes = writer.chunk_bytes
                copied = _copy(
                    lambda: _read_some(source, chunk_bytes),
                    lambda data: _append_all(writer, data),
                    total,
                    progress,
                )
                writer.close()
            except errors.OutcomeUnknown as error:
                # In any outcome, no part of it is visible under the target's name.
                raise errors.Unavailable(error.strerror or "", target) from error
            if overwrite:
                take_name(client, temporary, target)
            else:
                client.rename(temporary, target)
        except BaseException as error:
            stack.close()
            _remove_quietly(client, temporary)
            name_asked_for(error, temporary, target)
            raise
    return copied


def take_name(client: "Client", temporary: str, target: str) -> None:
    """Gives a complete file its name. A file that has the name gives way."""
    if "rename_replace" in client.store.capabilities:
        client.replace(temporary, target)
        return
    with contextlib.suppress(errors.NotFound):
        client.remove(target)
    client.rename(temporary, target)


def _remove_quietly(client: "Client", path: str) -> None:
    session, request = client._session, RemovePathRequest(path=path, recursive=False)
    with contextlib.suppress(errors.StraitError):
        session.mutate("removePath", request, session.parting())


def _umask() -> int:
    """This process's, which no system call only looks at."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    # Not Linux. For a moment, new files of other threads are for their owner only.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_all(target: BinaryIO, data: bytes | memoryview) -> None:
    """Raw files take as much as they like at a time: pipes, sockets, full disks."""
    left = memoryview(data)
    while left:
        taken = target.write(left)
        if taken is None:  # by a raw file that doesn't block, or one that doesn't count
            if isinstance(target, io.RawIOBase):
                raise BlockingIOError(
                    errno.EAGAIN,
                    "get: the local file is non-blocking, and takes no bytes now; make it blocking",
                )
            return
        left = left[taken:]


def _append_all(writer: RemoteWriter, data: bytes | memoryview) -> None:
    # A read may give more than the writer takes. Mostly it takes all, and `bytes` uncopied.
    while data:
        data = data[writer.write(data) :]


def _read_some(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if data is None:
        raise BlockingIOError(
            errno.EAGAIN,
            "put: the local file is non-blocking, and has no bytes now; make it blocking",
        )
    return data


def within(client: "Client", local: "str | os.PathLike[str] | BinaryIO", target: str) -> str:
    """The target itself, or where it is a directory, the path in it that a local file gets."""
    if not isinstance(local, str | os.PathLike) or not client.isdir(target):
        return target
    name = Path(os.path.abspath(local)).name  # noqa: PTH100  `resolve` follows symbolic links
    return f"{target.rstrip('/')}/{name}"


def name_asked_for(error: BaseException, temporary: str, asked_for: str) -> None:
    """Names the path that was asked for: nobody knows the temporary one."""
    if isinstance(error, OSError) and error.filename == temporary:
        error.filename = asked_for


def _copy(
    read: Callable[[], bytes | memoryview],
    write: Callable[[bytes | memoryview], object],
    total: int,
    progress: Progress | None,
) -> int:
    """Calls `read` in a thread and `write` in this one until `read` gives nothing."""
    chunks: queue.Queue[bytes | memoryview | BaseException] = queue.Queue(QUEUE_CHUNKS)
    stopped = threading.Event()

    def produce() -> None:
        try:
            while not stopped.is_set():
                chunk = read()
                chunks.put(chunk)
                if not chunk:
                    return
        except BaseException as error:
            chunks.put(error)

    producer = threading.Thread(target=produce, name="strait-copy", daemon=True)
    producer.start()
    copied = 0
    try:
        while chunk := chunks.get():
            if isinstance(chunk, BaseException):
                raise chunk
            write(chunk)
            copied += len(chunk)
            if progress is not None:
                progress(copied, max(total, copied))
    finally:
        stopped.set()
        while producer.is_alive():
            with contextlib.suppress(queue.Empty):
                chunks.get_nowait()  # it may wait for room
            producer.join(timeout=0.01)
    return copied


@contextlib.contextmanager
def _appearing(client: "Client", source: str, path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A new local file that takes its name when all went well.

    It gets the source's permission bits, less those of the umask.

    An existing device or pipe is written to as it stands: the caller asked for
    that, and not for a file in its place.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as special:
            yield special
        return
    if not overwrite and os.path.lexists(path):
        raise _taken(path)
    temporary = path.with_name(f".strait-get-{secrets.token_hex(8)}")
    try:
        permission = _permission(client, source)
        with open(
            temporary, "xb", opener=lambda name, flags: os.open(name, flags, permission)
        ) as file:
            yield file
        if overwrite:
            temporary.replace(path)
        else:
            _rename_to_free(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        name_asked_for(error, str(temporary), str(path))
        raise


def _permission(client: "Client", path: str) -> int:
    reply = client._session.call("getFileInfo", GetFileInfoRequest(path=path))
    said = None if reply.info is None else reply.info.permission
    return DEFAULT_PERMISSION if said is None else said & PERMISSION_BITS


def _rename_to_free(temporary: Path, path: Path) -> None:
    """Renames where nothing has the name: a rename replaces, a link doesn't."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        # A file system without links: only another check is possible.
        if os.path.lexists(path):
            raise _taken(path) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def _taken(path: Path) -> errors.AlreadyExists:
    return errors.AlreadyExists("the file is there already", str(path))
