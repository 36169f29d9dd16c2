"""A gateway that is killed and started again, with the same address, directory and key."""

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gateways
import waits


class Gateway:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: Its store's files.
        self.data = directory / "data"
        self.data.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        # Not one of the kernel's own choice, since a client that retries could get it as its own port.
        self.port = gateways.free_port()
        self.start()

    def start(self) -> None:
        binary = gateways.binary()
        assert binary, "no command strait: build it (cargo build -p strait)"
        store, key = self.data.as_uri(), str(self._directory / "key")
        flags = ["--listen", f"127.0.0.1:{self.port}", "--store", store]
        flags += ["--token-key", key]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary, "serve", *flags], stdout=log, stderr=log
            )
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


@contextlib.contextmanager
def gateway() -> Iterator[Gateway]:
    """Over a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="strait-faults-") as directory:
        started = Gateway(Path(directory))
        try:
            yield started
        finally:
            started.kill()
