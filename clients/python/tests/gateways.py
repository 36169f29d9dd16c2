"""Real gateways for tests: one that is named in the environment, or our own.

STRAIT_TEST_GATEWAY   host:port of a gateway that runs already
STRAIT_TEST_ROOT      directory on its store for the tests (default /)
STRAIT_TEST_HDFS      hdfs://host:port, for a gateway of our own over it too
STRAIT_BIN            the command; default target/debug/strait, then release
"""

import contextlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
import waits

import strait

REPOSITORY = Path(__file__).parents[3]
STOP_DEADLINE_S = 40


@dataclass(frozen=True)
class Gateway:
    """One to test against, and the directory on its store to do that in."""

    address: str
    root: str


def binary() -> Path | None:
    """The command `strait`; None where it isn't built."""
    named = os.environ.get("STRAIT_BIN")
    if named is not None:
        assert Path(named).is_file(), f"STRAIT_BIN={named} isn't there"
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    built = [target / profile / "strait" for profile in ("debug", "release")]
    return next((path for path in built if path.is_file()), None)


def stores() -> list[str]:
    """The stores to test against: `hdfs` only if one runs."""
    named = ["file"] if os.environ.get("STRAIT_TEST_GATEWAY") else ["file", "kadoop"]
    return [*named, "hdfs"] if os.environ.get("STRAIT_TEST_HDFS") else named


def lacks(what: str) -> NoReturn:
    """Skips the test because the machine lacks something; fails it under `CI=true`."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI skips no test, and this machine has {what}")
    pytest.skip(f"this machine has {what}")


def require() -> None:
    """Skips the test, with the reason, where there is no gateway to be had."""
    if binary() is None and not os.environ.get("STRAIT_TEST_GATEWAY"):
        lacks("no gateway: build it (cargo build -p strait), or set STRAIT_TEST_GATEWAY")


def require_command() -> None:
    """Skips the test, with the reason, where no gateway of our own can be started."""
    if binary() is None:
        lacks("no command strait: build it (cargo build -p strait)")


@contextlib.contextmanager
def gateway(store: str) -> Iterator[Gateway]:
    """A gateway over the store of that kind."""
    root = f"/strait-python-{secrets.token_hex(6)}"
    with contextlib.ExitStack() as stack:
        named = os.environ.get("STRAIT_TEST_GATEWAY")
        if store == "file" and named:
            address = named
            root = os.environ.get("STRAIT_TEST_ROOT", "").rstrip("/") + root
        elif store == "file":
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="strait-python-"))
            address = stack.enter_context(started(Path(scratch).as_uri()))
        elif store == "kadoop":
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="strait-python-"))
            address = stack.enter_context(kadoop(Path(scratch)))
        else:
            address = stack.enter_context(started(os.environ["STRAIT_TEST_HDFS"]))
        yield Gateway(address, root)
        with strait.connect(address) as client:
            if client.exists(root):
                client.rmtree(root)


class SmallDisk:
    """The disk of a cluster's datanodes, in memory; it ends with the cluster's process."""

    # Beyond what datanodes leave free for others, 64 MiB.
    SIZE = 128 << 20

    def __init__(self, root: Path) -> None:
        self._ballast = root / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab") as file:
            for step in (1 << 20, 4 << 10):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)

    def relieve(self) -> None:
        self._ballast.unlink()


@contextlib.contextmanager
def kadoop(data: Path) -> Iterator[str]:
    """`strait up`, which keeps its files in that directory; its address."""
    command, address = binary(), f"127.0.0.1:{free_port()}"
    assert command is not None, "callers look first"
    with running([command, "up", "--data", data, "--listen", address], address):
        yield address


@contextlib.contextmanager
def kadoop_on_a_small_disk(scratch: Path) -> Iterator[tuple[str, SmallDisk]]:
    """`strait up`: its address, and the one disk of its datanodes. Needs root."""
    require_command()
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        lacks("no root and unshare, which mount a small disk")
    disk, data, address = scratch / "disk", scratch / "data", f"127.0.0.1:{free_port()}"
    for directory in (disk, data):
        directory.mkdir()
    for number in (1, 2, 3):
        (data / f"datanode-{number}").symlink_to(disk / str(number))
    # In a mount namespace of its own, so that the mount ends with the process.
    script = f"""
        mount -t tmpfs -o size={SmallDisk.SIZE} strait-test {disk}
        mkdir {disk}/1 {disk}/2 {disk}/3
        exec "$@"
    """
    mounted = ["unshare", "--mount", "sh", "-ec", script, "sh"]
    up = [binary(), "up", "--data", data, "--listen", address]
    with running([*mounted, *up], address) as process:
        yield address, SmallDisk(Path(f"/proc/{process.pid}/root{disk}"))


def free_port() -> int:
    """One that is free now, below Linux's range of ephemeral ports.

    Those may be given to anybody's outgoing connection, even to the one that
    knocks to see whether the gateway is there.
    """
    while True:
        port = random.randrange(10_000, 32_768)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def started(*stores: str, port: int = 0) -> Iterator[str]:
    """`strait serve` over the stores with these URIs; its address."""
    command = binary()
    assert command is not None, "callers look first"
    port = port or free_port()
    address = f"127.0.0.1:{port}"
    serve = [command, "serve", "--listen", address]
    for store in stores:
        serve += ["--store", store]
    with running(serve, address):
        yield address


@contextlib.contextmanager
def running(command: list[str | Path], address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway at this address, made by a command."""
    process = subprocess.Popen(command)
    try:

        def answers() -> bool:
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            with contextlib.suppress(strait.Unavailable), strait.connect(address):
                return True
            return False

        waits.eventually(f"{command} answers", answers)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
