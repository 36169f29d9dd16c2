"""Runs the ```console blocks of some pages, each page against a fresh gateway.

tour.py [--update]

Each `$ ` line is a command, `> ` goes on with it, and what follows is its
output, both streams; `…` in a line stands for anything. --update writes the
output found in place of the one there, except where that matches.

The pages say 127.0.0.1:9090; the gateway here takes a free port.
"""

import argparse
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/tour.md", "docs/rest.md"]
# Pages whose gateway has a user ann, with the password secret.
WITH_LOGIN = ["docs/rest.md"]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
WRITTEN_ADDRESS = "127.0.0.1:9090"
# Below Linux's range of ephemeral ports: from there the cluster's own servers or an outgoing
# connection may take it first. A client that retries a port of that range can also get it as its
# own source port, and connect to itself.
PORTS = (10_000, 32_768)
READY_SECONDS = 30
COMMAND_SECONDS = 60


def free_port() -> int:
    """A port that was free a moment ago, of those that no outgoing connection is given."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def build() -> Path:
    """Builds the command, if STRAIT_BIN doesn't name one; its directory."""
    if built := os.environ.get("STRAIT_BIN"):
        return Path(built).parent
    subprocess.run(["cargo", "build", "--quiet", "--locked", "-p", "strait"], cwd=ROOT, check=True)
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug"


@contextmanager
def gateway(programs: Path, scratch: Path, with_login: bool) -> Iterator[str]:
    """A gateway over an empty store; its address."""
    address = f"127.0.0.1:{free_port()}"
    log = scratch / "gateway.log"
    flags: list[str | Path] = []
    if with_login:
        passwords = scratch / "passwords"
        add: list[str | Path] = [programs / "strait", "passwd", "--file", passwords, "ann"]
        subprocess.run(add, input=b"secret\n", check=True, stdout=subprocess.DEVNULL)
        flags = ["--passwords", passwords]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [programs / "strait", "up", "--data", scratch / "data", "--listen", address, *flags],
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the gateway didn't start:\n{log.read_text()}")
            time.sleep(0.02)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def commands(block: str) -> Iterator[tuple[list[str], list[str]]]:
    """The lines of each command of a block, and of its expected output."""
    command: list[str] = []
    output: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = [line], []
        elif line.startswith("> ") and not output:
            command.append(line)
        else:
            output.append(line)
    if command:
        yield command, output


def matches(expected: list[str], found: list[str]) -> bool:
    """Line by line, `…` for anything."""
    if len(expected) != len(found):
        return False
    pairs = zip(expected, found, strict=True)
    return all(
        re.fullmatch(".*".join(map(re.escape, line.split("…"))), seen.rstrip())
        for line, seen in pairs
    )


class Tour:
    """Runs blocks; counts the commands that ran and those that differ."""

    def __init__(self, page: str, address: str, programs: Path, scratch: Path) -> None:
        """A tour of a page against the gateway at `address`."""
        self.page = page
        self.address = address
        self.ran = self.wrong = 0
        self.home = scratch / "home"
        self.home.mkdir()
        path = f"{programs}:{ROOT / '.venv/bin'}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "HOME": str(self.home)}

    def run(self, block: str) -> str:
        """Runs a block's commands; the block with the output found."""
        lines: list[str] = []
        for command, expected in commands(block):
            found = self.output(command)
            self.ran += 1
            if not matches(expected, found):
                self.wrong += 1
                print(f"{self.page}:", *command, sep="\n  ")
                print("expected:", *expected, "found:", *found, sep="\n  ")
                expected = found
            lines += command + expected
        return "".join(f"{line}\n" for line in lines)

    def output(self, command: list[str]) -> list[str]:
        """The output of a command."""
        script = "\n".join(line[2:] for line in command).replace(WRITTEN_ADDRESS, self.address)
        found = subprocess.run(
            ["bash", "-c", f"cd {shlex.quote(str(self.home))}\n{script}"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            check=False,
            text=True,
        )
        return found.stdout.replace(self.address, WRITTEN_ADDRESS).splitlines()


def run_page(page: str, programs: Path, update: bool) -> bool:
    """Runs a page's blocks; whether it has some, and all are as written."""
    text = (ROOT / page).read_text()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with gateway(programs, scratch, page in WITH_LOGIN) as address:
            tour = Tour(page, address, programs, scratch)
            written = BLOCK.sub(lambda block: tour.run(block[0]), text)
    if update:
        (ROOT / page).write_text(written)
    print(f"tour: {tour.ran} commands of {page} ran, {tour.wrong} differ")
    return update or (tour.ran > 0 and tour.wrong == 0)


def main() -> None:
    """Runs the tour; exit code 1 where a page isn't true."""
    parser = argparse.ArgumentParser(description="Runs the console blocks of the pages.")
    parser.add_argument("--update", action="store_true", help="write the output found")
    update = parser.parse_args().update
    programs = build()
    results = [run_page(page, programs, update) for page in PAGES]
    if not all(results):
        sys.exit("tour: some output differs; make docs UPDATE=1")


if __name__ == "__main__":
    main()
