"""The client: a connected gateway's file system."""

import io
import os
import ssl
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeAlias, Unpack, get_args, overload

from strait import _transfer, errors
from strait._gen.ttypes import (
    ConcatFilesRequest,
    GetBlockLocationsRequest,
    GetChecksumRequest,
    GetFileInfoRequest,
    GetStoreStatusRequest,
    ListDirectoryRequest,
    MakeDirectoriesRequest,
    RemovePathRequest,
    RenamePathRequest,
    ServerInfoRequest,
    SetAttributesRequest,
    TruncateFileRequest,
)
from strait._open import CreateOptions, open_raw
from strait._reader import RemoteReader
from strait._session import Endpoint, Session
from strait._transfer import Progress
from strait._types import BlockLocation, Checksum, FileInfo, ServerInfo, StoreInfo, StoreStatus
from strait._uri import parse_address
from strait._wire import Wire
from strait._writer import BufferedWriter, RemoteWriter, TextWriter

#: A path in a store, absolute, with ``/`` between names.
RemotePath: TypeAlias = str | os.PathLike[str]
#: A path on this machine.
LocalPath: TypeAlias = str | os.PathLike[str]

# Time limit for one answer. Longer than the minute or so after which a store drops a machine that
# has gone away.
DEFAULT_TIMEOUT_S = 120.0
# Longer than any useful wait; some systems don't allow a longer one for a socket.
MAX_TIMEOUT_S = 366 * 86_400.0
# As large as a request: smaller writes would be copied once more.
DEFAULT_BUFFER_BYTES = 1 << 20


def connect(
    address: str,
    *,
    store: str | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls: bool | LocalPath | ssl.SSLContext = False,
    wire: Wire = "framed-binary",
    timeout: float = DEFAULT_TIMEOUT_S,
) -> "Client":
    """Opens a session at the gateway `address`: ``strait://host:port/`` or ``host:port``.

    ``/@NAME`` behind it, or `store`, names one of the gateway's stores (none: its
    default); `Uri` takes addresses with paths apart. Log in with
    `user` and `password`, or with the `token` of an earlier session, or with
    neither where the gateway allows that; without TLS no password or token is
    sent to another machine. `tls` is true for this machine's trusted certificates,
    the path of a file of those to trust (PEM), or a context of one's own.
    `timeout`, in seconds, bounds each request with all that belongs to it: connecting
    (10 s at most), a new login, other tries, and the whole of the answer.
    """
    uri = parse_address(address)
    if store is not None and uri.store not in (None, store):
        raise errors.InvalidArgument(
            f"the address names the store {uri.store}, and the option names {store}; give one"
        )
    if not 0 < timeout <= MAX_TIMEOUT_S:
        raise errors.InvalidArgument(f"the timeout {timeout} isn't above 0 and a year at most")
    if wire not in get_args(Wire):
        raise errors.InvalidArgument(
            f"invalid wire {wire!r}: give one of {', '.join(get_args(Wire))}"
        )
    context = _tls_context(tls)
    store = uri.store if store is None else store
    return Client(
        Endpoint(uri.host, uri.port, wire, timeout, context, store, user, password, token)
    )


class Client:
    """The files of one store, as one user. For any number of threads at once.

    Close it, or use it in a ``with`` statement. In a forked child it goes on
    with connections of its own; files open to write stay with the parent.
    Paths are absolute within the store, with ``/`` between names; a
    `pathlib.PurePosixPath` will do too.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._session = Session(endpoint)

    # -- The session

    @property
    def user(self) -> str:
        """As whom the gateway acts."""
        return self._session.user

    @property
    def token(self) -> str | None:
        """Stands for the login until it expires; keep it secret."""
        return self._session.token

    @property
    def store(self) -> StoreInfo:
        """The store of this session."""
        return self._session.store

    def server_info(self) -> ServerInfo:
        """The gateway's version, and the stores it serves."""
        reply = self._session.call("serverInfo", ServerInfoRequest())
        stores = tuple(StoreInfo._of(store) for store in reply.stores or ())
        return ServerInfo(reply.server or "", int(reply.version or 0), stores)

    def status(self) -> StoreStatus:
        """Capacity and use of the whole store."""
        reply = self._session.call("getStoreStatus", GetStoreStatusRequest())
        sizes = (reply.capacity or 0, reply.used or 0, reply.remaining or 0)
        return StoreStatus(*sizes, settling=bool(reply.settling))

    def close(self) -> None:
        """Ends the session; close its files first."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- Looking

    def stat(self, path: RemotePath) -> FileInfo:
        """The status of the file or directory at `path`."""
        reply = self._session.call("getFileInfo", GetFileInfoRequest(path=_text(path)))
        if reply.info is None:
            why = "stat: the gateway's reply has no file status (a defect of the gateway)"
            raise errors.Internal(why, _text(path))
        return FileInfo._of(reply.info)

    def exists(self, path: RemotePath) -> bool:
        """Whether anything lies at `path`."""
        return self._stat_or_none(path) is not None

    def isdir(self, path: RemotePath) -> bool:
        """Whether a directory lies at `path`."""
        info = self._stat_or_none(path)
        return info is not None and info.is_dir

    def isfile(self, path: RemotePath) -> bool:
        """Whether a file lies at `path`."""
        info = self._stat_or_none(path)
        return info is not None and info.is_file

    def _stat_or_none(self, path: RemotePath) -> FileInfo | None:
        try:
            return self.stat(path)
        except (errors.NotFound, errors.NotADirectory):
            return None

    def scandir(self, path: RemotePath, *, page_size: int | None = None) -> Iterator[FileInfo]:
        """A directory's entries, in the store's own order; fetched page by page."""
        path, cursor = _text(path), None
        incarnation = self._session.incarnation
        while True:
            request = ListDirectoryRequest(path=path, cursor=cursor, max_entries=page_size)
            # A cursor is good for one page.
            call = self._session.call if cursor is None else self._session.call_once
            try:
                reply = call("listDirectory", request)
            except errors.InvalidArgument as error:
                # If another gateway answers, an unknown cursor isn't the caller's mistake.
                if cursor is None or self._session.incarnation == incarnation:
                    raise
                raise errors.Unavailable(
                    "the gateway's session ended in the middle of the listing; list anew", path
                ) from error
            entries = [FileInfo._of(entry) for entry in reply.entries or ()]
            # The protocol lists a file as itself; Python's scandir doesn't.
            if cursor is None and len(entries) == 1 and _is_same_path(entries[0].path, path):
                raise errors.NotADirectory("only directories have entries", path)
            if not entries and reply.cursor is not None:
                raise errors.Internal(
                    "scandir: the gateway sent an empty page that isn't the last "
                    "(a defect of the gateway)",
                    path,
                )
            for entry in entries:
                _check_is_in(entry.path, path)
            try:
                yield from entries
            except GeneratorExit:
                if reply.cursor is not None:
                    self._session.release(reply.cursor)
                raise
            cursor = reply.cursor
            if cursor is None:
                return

    def listdir(self, path: RemotePath) -> list[str]:
        """The names in a directory, in the store's own order."""
        return [entry.name for entry in self.scandir(path)]

    def locate(
        self, path: RemotePath, offset: int = 0, length: int | None = None
    ) -> list[BlockLocation]:
        """The blocks of a range of the file (to its end without `length`) and their hosts."""
        reply = self._session.call(
            "getBlockLocations",
            GetBlockLocationsRequest(path=_text(path), offset=offset, length=length),
        )
        return [BlockLocation._of(block) for block in reply.blocks or ()]

    def checksum(self, path: RemotePath) -> Checksum:
        """The store's own checksum of a file."""
        reply = self._session.call("getChecksum", GetChecksumRequest(path=_text(path)))
        return Checksum(reply.algorithm or "", reply.value or b"")

    # -- Files

    @overload
    def open(  # type: ignore[overload-overlap]
        self,
        path: RemotePath,
        mode: Literal["rb"],
        buffering: Literal[0],
        **options: Unpack[CreateOptions],
    ) -> RemoteReader: ...

    @overload
    def open(  # type: ignore[overload-overlap]
        self,
        path: RemotePath,
        mode: Literal["wb", "xb", "ab"],
        buffering: Literal[0],
        **options: Unpack[CreateOptions],
    ) -> RemoteWriter: ...

    @overload
    def open(
        self,
        path: RemotePath,
        mode: Literal["rb"],
        buffering: int = -1,
        **options: Unpack[CreateOptions],
    ) -> io.BufferedReader: ...

    @overload
    def open(
        self,
        path: RemotePath,
        mode: Literal["wb", "xb", "ab"],
        buffering: int = -1,
        **options: Unpack[CreateOptions],
    ) -> BufferedWriter: ...

    @overload
    def open(
        self,
        path: RemotePath,
        mode: Literal["w", "x", "a", "wt", "xt", "at"],
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> TextWriter: ...

    @overload
    def open(
        self,
        path: RemotePath,
        mode: Literal["r", "rt"] = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> io.TextIOWrapper: ...

    def open(
        self,
        path: RemotePath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Unpack[CreateOptions],
    ) -> io.IOBase:
        """Opens a file as the built-in `open` does; text is UTF-8 where nothing else is said.

        Modes are r, w, x and a, with b for bytes. None with +: stores only
        append. A file made by w, x or a can be given `permission`,
        `replication`, `block_size` and `min_replicas`; its missing parents
        are made.

        An open file isn't for several threads at once, `RemoteReader.pread`
        excepted. One that is written stays open after `NoSpace` and `Unavailable`,
        even if that was the error of `close`: see `RemoteWriter`.
        """
        binary = mode[1:] == "b"
        if mode[:1] not in tuple("rwxa") or mode[1:] not in ("", "b", "t"):
            raise ValueError(f"invalid mode: {mode!r}; stores read, or append, but not both")
        if binary and not encoding == errors == newline is None:
            raise ValueError("a file of bytes takes no encoding, errors or newline")
        if not binary and buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        raw = open_raw(self._session, _text(path), mode[0], options)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else DEFAULT_BUFFER_BYTES
        encoding, by_line = encoding or "utf-8", buffering == 1
        text: io.TextIOWrapper
        if isinstance(raw, RemoteWriter):
            writer = BufferedWriter(raw, size)
            if binary:
                return writer
            with raw.telling_text():
                text = TextWriter(writer, encoding, errors, newline, line_buffering=by_line)
        else:
            reader = io.BufferedReader(raw, size)
            if binary:
                return reader
            text = io.TextIOWrapper(reader, encoding, errors, newline, by_line)
        text.mode = mode  # type: ignore[misc]  # as the built-in open does
        return text

    # -- Changing names

    def mkdir(self, path: RemotePath, permission: int | None = None) -> None:
        """Makes one directory.

        Its parent must exist, and `path` must not. The gateway looks first and
        makes it then: against other clients, use `makedirs`.
        """
        path = _text(path)
        if self.exists(path):
            raise errors.AlreadyExists("the path is taken", path)
        self.stat(path.rstrip("/").rpartition("/")[0] or "/")
        self.makedirs(path, permission, exist_ok=True)

    def makedirs(
        self, path: RemotePath, permission: int | None = None, *, exist_ok: bool = False
    ) -> None:
        """Makes a directory and its missing parents."""
        if not exist_ok and self.exists(path):
            raise errors.AlreadyExists("the path is taken", _text(path))
        self._session.mutate(
            "makeDirectories", MakeDirectoriesRequest(path=_text(path), permission=permission)
        )

    def rename(self, source: RemotePath, target: RemotePath) -> None:
        """Renames a file or directory; `target` is the new name itself and must be free."""
        self._rename(source, target, replace=False)

    def replace(self, source: RemotePath, target: RemotePath) -> None:
        """Renames; a file at `target` gives way."""
        self._rename(source, target, replace=True)

    def _rename(self, source: RemotePath, target: RemotePath, *, replace: bool) -> None:
        self._session.mutate(
            "renamePath",
            RenamePathRequest(source=_text(source), target=_text(target), replace=replace),
        )

    def remove(self, path: RemotePath) -> None:
        """Removes a file, or a directory without entries."""
        self._session.mutate("removePath", RemovePathRequest(path=_text(path), recursive=False))

    def rmtree(self, path: RemotePath) -> None:
        """Removes a file, or a directory with all that lies beneath it."""
        self._session.mutate("removePath", RemovePathRequest(path=_text(path), recursive=True))

    # -- Changing attributes

    def chmod(self, path: RemotePath, permission: int) -> None:
        """Sets the permission bits, 0o7777 at most."""
        self._set(path, permission=permission)

    def chown(self, path: RemotePath, owner: str | None = None, group: str | None = None) -> None:
        """Sets owner, group or both."""
        self._set(path, owner=owner, group=group)

    def utime(self, path: RemotePath, times: tuple[float, float] | None = None) -> None:
        """Sets access and modification time, in seconds since 1970 UTC; none: now."""
        accessed, modified = times or (time.time(),) * 2
        self._set(path, accessed_ms=round(accessed * 1000), modified_ms=round(modified * 1000))

    def setrep(self, path: RemotePath, replication: int) -> None:
        """Sets how many replicas a file has."""
        self._set(path, replication=replication)

    def _set(self, path: RemotePath, **attributes: Any) -> None:
        self._session.mutate("setAttributes", SetAttributesRequest(path=_text(path), **attributes))

    def truncate(self, path: RemotePath, length: int) -> None:
        """Cuts a closed file to `length` bytes."""
        self._session.mutate("truncateFile", TruncateFileRequest(path=_text(path), length=length))

    def concat(self, path: RemotePath, sources: Iterable[RemotePath]) -> None:
        """Moves the bytes of `sources`, in order, to the end of a closed file, and removes them.

        It happens in one step, and copies nothing. Needs the capability "concat".
        """
        request = ConcatFilesRequest(
            path=_text(path), sources=[_text(source) for source in sources]
        )
        self._session.mutate("concatFiles", request)

    # -- Whole files

    def get(
        self,
        source: RemotePath,
        local: "LocalPath | BinaryIO",
        progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> int:
        """Copies a remote file to a local path or binary file object; says how many bytes.

        A local path appears only when all is there; where a file has it already
        and may not be replaced (`overwrite`), that is a `FileExistsError`. A file that
        becomes shorter meanwhile is `Busy`.
        `progress` is called with the bytes copied so far and the bytes in all.
        """
        return _transfer.get(self, _text(source), local, progress, overwrite=overwrite)

    def put(
        self,
        local: "LocalPath | BinaryIO",
        target: RemotePath,
        progress: Progress | None = None,
        *,
        overwrite: bool = False,
    ) -> int:
        """Copies a local path or binary file object to a remote file; says how many bytes.

        `target` appears, or with `overwrite` is replaced, only when it is complete
        and closed. A failed put tries to remove its temporary file. After
        `OutcomeUnknown` or `TimedOut`, `target` may be there, complete. Where it is
        a directory, a local path goes into it under its own name. `progress` as in
        `get`.
        """
        return _transfer.put(self, local, _text(target), progress, overwrite=overwrite)


def _text(path: RemotePath) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path in a store is text or a PurePath, not {type(path).__name__}")
    return text


def _tls_context(tls: bool | LocalPath | ssl.SSLContext) -> ssl.SSLContext | None:
    if isinstance(tls, ssl.SSLContext):
        return tls
    if isinstance(tls, bool):
        return ssl.create_default_context() if tls else None
    if not isinstance(tls, str | os.PathLike):
        raise TypeError(
            "tls is True, a file of certificates to trust, or an ssl.SSLContext, "
            f"not {type(tls).__name__}"
        )
    try:
        return ssl.create_default_context(cafile=tls)
    except ssl.SSLError:
        raise errors.InvalidArgument("no PEM certificate in it", os.fspath(tls)) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(tls)) from None


def _is_same_path(one: str, other: str) -> bool:
    return plain_path(one) == plain_path(other)


def plain_path(path: str) -> str:
    """An absolute path as the gateway spells it: without repeated or trailing slashes."""
    return "/" + "/".join(filter(None, path.split("/")))


def _check_is_in(entry: str, directory: str) -> None:
    """Programs join entries' names to local paths, and a wrong name could lead out of those."""
    name = entry.rpartition("/")[2]
    is_child = entry == f"{plain_path(directory).rstrip('/')}/{name}"
    if not is_child or name in ("", ".", "..") or "\0" in name:
        message = f"scandir: the gateway named {entry!r}, which isn't in this directory"
        raise errors.Internal(message, directory)
