"""Opening files: the requests for the first letters of modes."""

from typing import TypedDict

from strait import errors
from strait._gen.ttypes import AppendFileRequest, CreateFileRequest
from strait._reader import RemoteReader
from strait._session import Session
from strait._writer import RemoteWriter


class CreateOptions(TypedDict, total=False):
    """Settings of a new file; the store has a default for each."""

    #: Permission bits, exactly as the file gets them (no umask).
    permission: int
    replication: int
    #: Bytes a block.
    block_size: int
    #: With fewer replicas on disk, sync and close fail. It can only raise the store's own minimum.
    min_replicas: int


def open_raw(
    session: Session, path: str, action: str, options: CreateOptions
) -> RemoteReader | RemoteWriter:
    """Opens to read (r), to write anew (w), to write a new file (x) or at the end (a)."""
    if action == "r":
        if options:
            raise ValueError(f"only a file that is made takes {', '.join(options)}")
        return RemoteReader(session, path)
    if action != "a":
        return _create(session, path, f"{action}b", options)
    try:
        return _append(session, path)
    except errors.NotFound:
        try:
            return _create(session, path, "ab", options)
        except errors.AlreadyExists:
            return _append(session, path)  # another client made it in between


def _append(session: Session, path: str) -> RemoteWriter:
    opened = session.mutate("appendFile", AppendFileRequest(path=path))
    return RemoteWriter(session, path, "ab", opened)


def _create(session: Session, path: str, mode: str, options: CreateOptions) -> RemoteWriter:
    request = CreateFileRequest(path=path, overwrite=mode == "wb", **options)
    return RemoteWriter(session, path, mode, session.mutate("createFile", request))
