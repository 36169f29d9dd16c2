"""Files of many distributed file systems, through a Strait gateway.

>>> import strait
>>> with strait.connect("strait://127.0.0.1:9090/") as client:
...     with client.open("/data/x", "wb") as file:
...         file.write(b"hello")
...     print(client.stat("/data/x").length)
"""

from strait._reader import RemoteReader
from strait._run import PlannedInput, RunResult, RunResults, plan, run
from strait._types import BlockLocation, Checksum, FileInfo, ServerInfo, StoreInfo, StoreStatus
from strait._uri import Uri
from strait._writer import BufferedWriter, RemoteWriter, TextWriter
from strait.client import Client, connect
from strait.errors import (
    AlreadyExists,
    Busy,
    Corrupt,
    Internal,
    InvalidArgument,
    IsADirectory,
    NoSpace,
    NotADirectory,
    NotEmpty,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    StraitError,
    TimedOut,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

__all__ = [
    "AlreadyExists",
    "BlockLocation",
    "BufferedWriter",
    "Busy",
    "Checksum",
    "Client",
    "Corrupt",
    "FileInfo",
    "Internal",
    "InvalidArgument",
    "IsADirectory",
    "NoSpace",
    "NotADirectory",
    "NotEmpty",
    "NotFound",
    "OutcomeUnknown",
    "PermissionDenied",
    "PlannedInput",
    "RemoteReader",
    "RemoteWriter",
    "RunResult",
    "RunResults",
    "ServerInfo",
    "StoreInfo",
    "StoreStatus",
    "StraitError",
    "TextWriter",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "Uri",
    "connect",
    "plan",
    "run",
]
