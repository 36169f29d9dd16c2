"""A gateway that is killed and started again in the middle of a client's files and listings."""

import contextlib
import random
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cases
import driver
import faults
import gateways
import strait
import waits

# Errors of a client whose file or listing can't go on. docs/client-protocol.md has the rules.
BYTES = 3_000_000
# Three pages, also of a client that chooses their size: the gateway's limit is 1,000 entries.
ENTRIES = 2500
PAGE = 1000


class Gateway:
    """One over a directory of its own, whose key survives it."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        self._directory = directory
        self.data.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        # Not one of the kernel's own choice, since a client that retries could get it as its own port.
        while True:
            self.port = random.randrange(10_000, 32_768)
            with contextlib.suppress(OSError):
                socket.create_server(("127.0.0.1", self.port)).close()
                break
        self.start()

    def start(self) -> None:
        binary = gateways.binary()
        assert binary, "no command strait: build it (cargo build -p strait)"
        flags = ["serve", "--listen", f"127.0.0.1:{self.port}"]
        flags += [
            "--store",
            self.data.as_uri(),
            "--token-key",
            str(self._directory / "key"),
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([binary, *flags], stdout=log, stderr=log)
        waits.eventually("the gateway answers", self._answers)

    def _answers(self) -> bool:
        assert self._process and self._process.poll() is None, (
            self._directory / "log"
        ).read_text()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        return False

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()


class RestartingProxy(faults.FaultyProxy):
    """Restarts the gateway after a number of requests for pages, before their client gets the last answer."""

    def __init__(self, gateway: Gateway) -> None:
        self.pages_left = 0
        self._gateway = gateway
        super().__init__(gateway.port)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, is_reply: bool
    ) -> None:
        while data := source.recv(1 << 16):
            if is_reply and b"listDirectory" in data and self.pages_left > 0:
                self.pages_left -= 1
                if self.pages_left == 0:
                    self._gateway.restart()
                    target.sendall(data)
                    return
            target.sendall(data)


class ClosingProxy(faults.FaultyProxy):
    """Counts the files and listings that its clients close."""

    def __init__(self, port: int) -> None:
        self.closed_files = 0
        super().__init__(port)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, is_reply: bool
    ) -> None:
        if is_reply:
            super()._pass_on(source, target, is_reply)
            return
        while data := source.recv(1 << 16):
            self.closed_files += data.count(b"closeFile")
            target.sendall(data)


@contextlib.contextmanager
def fails(*kinds: str) -> Iterator[None]:
    try:
        yield
    except strait.StraitError as failure:
        assert failure.kind in kinds, f"{failure.kind} in place of {kinds}: {failure}"
    else:
        raise AssertionError(f"no error of {kinds}")


def check(call: driver.Driver) -> int:
    """The number of checks."""
    checks = (
        a_reader_goes_on,
        a_reader_never_gets_another_files_bytes,
        a_writer_doesnt_know_what_was_written,
        a_listing_ends,
        a_client_recovers_from_silences,
    )
    for one in checks:
        with tempfile.TemporaryDirectory(prefix="strait-restarts-") as directory:
            gateway = Gateway(Path(directory))
            try:
                one(call, gateway)
            except AssertionError as failure:
                raise AssertionError(f"{one.__name__}: {failure}") from failure
            finally:
                gateway.kill()
    return len(checks)


def connected(call: driver.Driver, gateway: Gateway) -> driver.Client:
    return driver.Client(call, "restarts", f"127.0.0.1:{gateway.port}")


def a_reader_goes_on(call: driver.Driver, gateway: Gateway) -> None:
    content = cases.pattern(3, 0, BYTES)
    (gateway.data / "f").write_bytes(content)
    client = connected(call, gateway)
    with client.open("/f", "rb") as file:
        assert file.read(10) == content[:10]
        gateway.restart()
        assert file.read() == content[10:]
    client.close()


def a_reader_never_gets_another_files_bytes(
    call: driver.Driver, gateway: Gateway
) -> None:
    """Of a file that replaced the one that it had opened."""
    (gateway.data / "f").write_bytes(bytes(BYTES))
    client = connected(call, gateway)
    file = client.open("/f", "rb")
    assert file.read(10) == bytes(10)
    gateway.kill()
    (gateway.data / "other").write_bytes(b"x" * BYTES)
    (gateway.data / "other").rename(gateway.data / "f")
    gateway.start()
    # Bytes that the client had read ahead are still right.
    for _ in range(3):
        with contextlib.suppress(strait.StraitError):
            assert b"x" not in file.read(), "bytes of the other file"
    with fails("Unavailable"):
        file.pread(10, BYTES - 10)
    file.close()
    client.close()


def a_writer_doesnt_know_what_was_written(
    call: driver.Driver, gateway: Gateway
) -> None:
    client = connected(call, gateway)
    file = client.open("/f", "xb")
    file.write(b"one")
    file.flush()
    gateway.restart()
    with fails("OutcomeUnknown", "Unavailable"):
        file.write(b"two")
        file.close()
    with contextlib.suppress(strait.StraitError):
        file.close()
    assert client.exists("/f"), "the client stays usable"
    client.close()


def a_listing_ends(call: driver.Driver, gateway: Gateway) -> None:
    for number in range(ENTRIES):
        (gateway.data / str(number)).touch()
    proxy = RestartingProxy(gateway)
    client = driver.Client(call, "restarts", f"127.0.0.1:{proxy.port}")
    proxy.pages_left = 2
    with fails("Unavailable"):
        list(client.scandir("/", page_size=PAGE))
    assert proxy.pages_left == 0, "no second page"
    assert len(list(client.scandir("/", page_size=PAGE))) == ENTRIES
    client.close()
    proxy.close()


def a_client_recovers_from_silences(call: driver.Driver, gateway: Gateway) -> None:
    """After some requests without an answer, it still closes its files."""
    proxy = ClosingProxy(gateway.port)
    client = driver.Client(call, "restarts", f"127.0.0.1:{proxy.port}", timeout_ms=1000)
    for _ in range(3):
        proxy.strike("silent")
        with fails("TimedOut"):
            client.stat("/missing")
        proxy.strike("none")
        assert not client.exists("/missing")
    with client.open("/f", "xb") as file:
        file.write(b"one")
    with client.open("/f", "ab") as file:
        file.write(b"two")
    assert (gateway.data / "f").read_bytes() == b"onetwo"
    closed = proxy.closed_files
    client.open("/f", "rb").close()
    # A client needn't wait for the answer.
    waits.eventually("a reader's handle is closed", lambda: proxy.closed_files > closed)
    client.close()
    proxy.close()
