"""The values that operations return."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from strait._gen.ttypes import FileType

# The first and the last second of `datetime`, in milliseconds since 1970-01-01 UTC.
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A store's status of one path."""

    path: str
    is_dir: bool
    #: Bytes; 0 for a directory.
    length: int
    #: Bytes a block; 0 for a directory.
    block_size: int
    #: Requested replicas; 0 for a directory.
    replication: int
    #: Last modification, milliseconds since 1970-01-01 UTC.
    modified_ms: int
    #: Last access, milliseconds since 1970-01-01 UTC; 0 if not kept.
    accessed_ms: int
    #: Permission bits, 0o7777 at most.
    permission: int
    owner: str
    group: str

    @property
    def is_file(self) -> bool:
        return not self.is_dir

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def modified(self) -> datetime:
        """`modified_ms` as a time; the first or last one that `datetime` has, if it is beyond."""
        ms = min(max(self.modified_ms, FIRST_MS), LAST_MS)
        return datetime.fromtimestamp(ms / 1000, UTC)

    @classmethod
    def _of(cls, wire: Any) -> "FileInfo":
        return cls(
            wire.path or "",
            wire.type == FileType.DIRECTORY,
            wire.length or 0,
            wire.block_size or 0,
            wire.replication or 0,
            wire.modified_ms or 0,
            wire.accessed_ms or 0,
            wire.permission or 0,
            wire.owner or "",
            wire.group or "",
        )


@dataclass(frozen=True, slots=True)
class BlockLocation:
    """One block of a file and where it lies."""

    #: First byte's offset in the file.
    offset: int
    #: Bytes.
    length: int
    #: Host names, nearest first if the store sorts them.
    hosts: tuple[str, ...]
    #: host:port of the data service on each host; may be empty.
    addresses: tuple[str, ...]
    #: The store knows no good replica.
    corrupt: bool

    @classmethod
    def _of(cls, wire: Any) -> "BlockLocation":
        return cls(
            wire.offset or 0,
            wire.length or 0,
            tuple(wire.hosts or ()),
            tuple(wire.addresses or ()),
            bool(wire.corrupt),
        )


@dataclass(frozen=True, slots=True)
class Checksum:
    """A store's checksum of a file; comparable under the same algorithm only."""

    algorithm: str
    value: bytes


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Capacity of a whole store, in bytes."""

    capacity: int
    used: int
    remaining: int
    #: The store has just started, and doesn't know the location of all bytes yet: blocks without
    #: hosts may still exist.
    settling: bool = False


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store that the gateway's operator configured."""

    name: str
    uri: str
    #: Names of the store's abilities, for example "append".
    capabilities: frozenset[str]
    #: An abandoned file is writable again after this time at the latest, in milliseconds.
    recovery_ms: int

    @classmethod
    def _of(cls, wire: Any) -> "StoreInfo":
        return cls(
            wire.name or "",
            wire.uri or "",
            frozenset(wire.capabilities or ()),
            wire.recovery_ms or 0,
        )


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A gateway's description of itself."""

    #: The program and its version, for people.
    server: str
    protocol_version: int
    stores: tuple[StoreInfo, ...]
