"""Commands on the hosts that hold the files, by the command `strait` (docs/run.md).

`strait run --framed` prints a line of JSON and the output of each command; errors are lines of
JSON on its standard error.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Literal

from strait import errors

#: More failed commands than this have the same exit code (docs/run.md, "Failures").
_MANY_FAILED = 101

Launcher = Literal["ssh", "local", "slurm"]


@dataclass(frozen=True)
class PlannedInput:
    """One input of a plan: where its command would run."""

    #: The file's URI.
    path: str
    #: The part of the file; both are None for all of it.
    start: int | None
    end: int | None
    #: Bytes of the input.
    length: int
    #: The host's name; `:` is this one.
    host: str


@dataclass(frozen=True)
class RunResult:
    """How the command of one input ended. It unpacks into path, status and output."""

    #: The file's URI.
    path: str
    #: Its exit code, or minus the number of the signal that ended it, as in `subprocess`.
    #: None: it didn't run to its end, and `error` tells why.
    status: int | None
    #: What it wrote to standard output.
    output: bytes
    #: The part of the file that it read; both are None for all of it.
    start: int | None
    end: int | None
    #: Where it ran; None if no host could.
    host: str | None
    error: str | None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.path, self.status, self.output))


class RunResults(Iterator[RunResult]):
    """The results of one `run`. Closing it, or dropping it, ends all of its commands."""

    def __init__(self, words: list[str], stdin: bytes, environment: dict[str, str]) -> None:
        self._process = _Process(words, stdin, environment)
        self._failed = 0

    def __next__(self) -> RunResult:
        header = self._process.read_header()
        if header is None:
            self._process.finish(min(self._failed, _MANY_FAILED))
            raise StopIteration
        output = self._process.stdout.read(header["output_bytes"])
        if len(output) < header["output_bytes"]:
            self._process.finish(None)
        status = -header["signal"] or header["exit"]
        error = header["failure"]
        self._failed += bool(status or error)
        return RunResult(
            header["uri"],
            None if error else status,
            output,
            header["start"],
            header["end"],
            header["host"],
            error,
        )

    def close(self) -> None:
        """Ends all commands that run."""
        self._process.close()

    def __enter__(self) -> "RunResults":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Without a process if the command couldn't be started.
        if hasattr(self, "_process"):
            self.close()


def run(
    uris: str | Iterable[str],
    command: Sequence[str | os.PathLike[str]],
    *,
    launcher: Launcher = "ssh",
    hosts: Iterable[str] = (),
    split: int | Literal["chunk"] | None = None,
    ship: Iterable[str | os.PathLike[str]] = (),
    jobs: int | None = None,
    ordered: bool = True,
    retries: int = 1,
    command_timeout: int | None = None,
    user: str | None = None,
    password: str | None = None,
    options: Sequence[str] = (),
    strait: str | os.PathLike[str] | None = None,
) -> RunResults:
    """Runs a command for each file, or with `split` for each piece of it, where its bytes are.

    A string may be a pattern. The URIs of an iterable are taken as they are. Yields a `RunResult`
    for each input, in their order or, without `ordered`, as commands end. Afterwards it raises the
    first error that belongs to no command, such as `NotFound` for a URI. The commands' standard
    error goes to `sys.stderr`, each line after its input's URI.

    `split` is a number of bytes, or "chunk". `options` are further flags of `strait run`. `strait`
    is the command's path; by default it is found in PATH. The other arguments are its flags.
    """
    words, stdin = _words(uris, launcher, hosts, split, user, options, strait)
    words += ["--framed", "--retries", str(retries)]
    words += [word for file in ship for word in ("--ship", os.fspath(file))]
    words += [] if jobs is None else ["--jobs", str(jobs)]
    words += [] if ordered else ["--unordered"]
    words += [] if command_timeout is None else ["--command-timeout", str(command_timeout)]
    return RunResults(
        [*words, "--", *(os.fspath(word) for word in command)], stdin, _environment(password)
    )


def plan(
    uris: str | Iterable[str],
    *,
    launcher: Launcher = "ssh",
    hosts: Iterable[str] = (),
    split: int | Literal["chunk"] | None = None,
    user: str | None = None,
    password: str | None = None,
    options: Sequence[str] = (),
    strait: str | os.PathLike[str] | None = None,
) -> list[PlannedInput]:
    """Where `run` would run its commands, for callers with a launcher of their own.

    The inputs of a host are together, in the order in which it would get them.
    """
    words, stdin = _words(uris, launcher, hosts, split, user, options, strait)
    process = _Process([*words, "--dry-run", "--", "true"], stdin, _environment(password))
    planned = []
    try:
        while (line := process.read_header()) is not None:
            planned.append(
                PlannedInput(line["uri"], line["start"], line["end"], line["bytes"], line["host"])
            )
        process.finish(0)
    finally:
        process.close()
    return planned


def _words(
    uris: str | Iterable[str],
    launcher: Launcher,
    hosts: Iterable[str],
    split: int | Literal["chunk"] | None,
    user: str | None,
    options: Sequence[str],
    strait: str | os.PathLike[str] | None,
) -> tuple[list[str], bytes]:
    """The command line up to the flags of `run` alone, and the command's input."""
    program = os.fspath(strait) if strait is not None else shutil.which("strait")
    if program is None:
        raise errors.NotFound(
            "run: there is no command strait in PATH; install it, or name it with strait=", "strait"
        )
    words = [program, "--json", "run", "--launcher", launcher]
    words += [word for host in hosts for word in ("--host", host)]
    words += [] if split is None else ["--split", str(split)]
    words += [] if user is None else ["--user", user]
    words += options
    if isinstance(uris, str):
        return [*words, uris], b""
    # On standard input, which takes any number of them.
    return [*words, "--null", "-"], b"\0".join(os.fsencode(uri) for uri in uris)


def _environment(password: str | None) -> dict[str, str]:
    # In no argument, which other users of this host could see.
    return dict(os.environ) | ({} if password is None else {"STRAIT_PASSWORD": password})


class _Process:
    """The command `strait`, and what it prints."""

    def __init__(self, words: list[str], stdin: bytes, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout: IO[bytes] = self._process.stdout
        self._errors: list[errors.StraitError] = []
        self._last_line = ""
        self._listening = threading.Thread(
            target=self._listen, args=[self._process.stderr], daemon=True
        )
        self._listening.start()
        # If it has ended already, its exit code tells why.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(stdin)

    def read_header(self) -> Any:
        """The next line of JSON; None at the end."""
        line = b"" if self.stdout.closed else self.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def finish(self, expected: int | None) -> None:
        """Waits for its end. Raises its first error, or one if the exit code isn't this one."""
        if self.stdout.closed:
            return
        code = self._process.wait()
        self._listening.join()
        self.stdout.close()
        if self._errors:
            raise self._errors[0]
        if code != expected:
            told = f": {self._last_line}" if self._last_line else ""
            raise errors.StraitError(f"run: the command strait ended with exit code {code}{told}")

    def close(self) -> None:
        """Ends it, and with it its commands."""
        self.stdout.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        self._listening.join()

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                text = line.decode(errors="replace")
                told = {}
                # Lines of commands begin with their inputs' URIs.
                if text.startswith("{"):
                    with contextlib.suppress(ValueError):
                        told = json.loads(line)
                if "error" in told:
                    self._errors.append(errors.from_command(told))
                elif "warning" in told:
                    print("strait:", told["warning"], file=sys.stderr)
                else:
                    self._last_line = text.rstrip("\n")
                    sys.stderr.write(text)
