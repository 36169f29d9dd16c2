"""The shared faults, through a client in any language (driver.py): clients/conformance/README.md has the rules.

shared_faults.py [--jobs=N] COMMAND...: on a gateway over a directory. COMMAND starts a driver. The last line of
the output counts the faults that ran.
"""

import contextlib
import dataclasses
import queue
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python/tests"))

import cases
import driver
import faults
import restarting
import strait
import waits

# Faults mostly wait.
JOBS = 6
# docs/client-protocol.md
ATTEMPTS = 6
TIMEOUT_MS = 30_000
CONNECT_TRIES = 5
# Closing a client takes 2 s at most; and time for a busy machine.
CLOSE_LIMIT_S = 10
# Beyond these, a driver hangs.
FAULT_LIMIT_S = 180
END_LIMIT_S = 20


@dataclasses.dataclass(frozen=True)
class Traits:
    """The properties of a client on which faults depend."""

    #: How often it tries a request.
    attempts: int = ATTEMPTS
    #: It runs in a browser: below it, a request may be repeated, and only one driver runs at a time. No page
    #: may ask the gateways that this program starts.
    is_page: bool = False


def fault_of(program: dict[str, Any]) -> faults.Fault:
    given = dict(program)
    after = given.pop("after", [] if given["do"] == "gone" else [0])
    return faults.Fault(
        after=tuple(after) if isinstance(after, list) else (after,), **given
    )


def edit_of(find: bytes, put: bytes) -> faults.Fault:
    assert len(find) == len(put) > 0, f"{find!r} isn't as long as {put!r}"
    return faults.Fault("edit", find=find, put=put)


def restarts(fault: dict[str, Any]) -> bool:
    return any(
        "restart" in (step.get("op"), step.get("do"))
        for step in [fault.get("proxy", {}), *fault["steps"]]
    )


class Run(cases.Run):
    """A fault, in a directory of its own."""

    def __init__(
        self, call: driver.Driver, proxy: faults.FaultyProxy, direct: strait.Client
    ) -> None:
        self._driver, self._proxy, self._direct = call, proxy, direct
        self._address = f"127.0.0.1:{proxy.port}"
        self._directory = f"/faults-{secrets.token_hex(4)}"
        self._files, self._saved, self._random, self._others = {}, {}, {}, {}

    def run(
        self, fault: dict[str, Any], traits: Traits, gateway: restarting.Gateway | None
    ) -> None:
        self._traits, self._gateway = traits, gateway
        self._timeout_ms = fault.get("timeout_ms", TIMEOUT_MS)
        self._direct.makedirs(self._directory)
        self._client = self._first()
        try:
            self._proxy.strike(fault_of(fault.get("proxy", {"do": "none"})))
            for step in fault["steps"]:
                self._step(dict(step))
            began = time.monotonic()
            for file in self._files.values():
                with contextlib.suppress(strait.StraitError):
                    file.close()
            self._client.close()
            took = time.monotonic() - began
            assert took < CLOSE_LIMIT_S, f"it took {took:.1f} s to close the client"
        finally:
            self._proxy.close()
            self._direct.rmtree(self._directory)

    def _first(self) -> driver.Client:
        """A busy machine may exceed the timeout before any fault."""
        for _ in range(CONNECT_TRIES):
            with contextlib.suppress(strait.StraitError):
                return self._connected("first")
        return self._connected("first")

    def _connected(self, name: str) -> driver.Client:
        return driver.Client(self._driver, name, self._address, self._timeout_ms)

    def _step(self, step: dict[str, Any]) -> None:
        if step.pop("direct", False):
            through, self._client = self._client, self._direct
            try:
                super()._step(step)
            finally:
                self._client = through
        else:
            self._began = time.monotonic()
            super()._step(step)

    def _check_error(self, failure: Any, error: Any, shown: str) -> None:
        took = time.monotonic() - self._began
        super()._check_error(failure, error, shown)
        native, message = failure.__notes__
        assert native, f"{shown}\n  has no native error"
        limit_ms = error.get("within_ms", FAULT_LIMIT_S * 1000)
        assert took * 1000 < limit_ms, f"{shown}\n  {took:.1f} s"
        said = [error.get("says", "").replace("$address", self._address)]
        if "path" in error:
            said.append(self._path(error["path"]))
        for text in said:
            assert text in message, f"{shown}\n  {message!r} doesn't name {text}"

    def _mkdirs(
        self, path: str, permission: Any = None, count: int | None = None
    ) -> None:
        if self._client is self._direct and self._gateway and count:
            # Thousands of requests would take most of the time.
            for number in range(count):
                (self._gateway.data / f"{path[1:]}{number}").mkdir(parents=True)
        else:
            super()._mkdirs(path, permission, count)

    # -- Steps of faults alone

    def _fault(self, **program: Any) -> None:
        if program["do"] == "edit":
            find, put = (self._bytes(program[key]) for key in ("find", "put"))
            self._proxy.strike(edit_of(find, put))
        else:
            self._proxy.strike(fault_of(program))

    def _restart(self) -> None:
        assert self._gateway
        self._gateway.restart()

    def _connect(self) -> None:
        self._connected("other").close()
        self._driver("use", "first")

    def _struck(self, times: Any = None, at_least: int = 0) -> None:
        got, wanted = self._proxy.strikes, times
        if times == "attempts":
            wanted = self._traits.attempts
            if self._traits.is_page:
                # The browser repeats a request with its number, which is behind the method's name.
                sent = re.findall(b"(?s)getFileInfo(.{4})", self._proxy.requests)
                got = len(set(sent))
        assert wanted in (None, got) and got >= at_least, f"struck {got} times"

    def _requests(self, method: str, at_least: int) -> None:
        """A client needn't wait for each answer."""
        waits.eventually(
            f"{at_least} times {method}",
            lambda: self._proxy.requests.count(method.encode()) >= at_least,
        )

    def _one_fails(self, steps: list[dict[str, Any]]) -> None:
        """Fails as the first step that does."""
        for step in steps:
            given = dict(step)
            operation = getattr(self, f"_{given.pop('op')}")
            operation(**given)


class Drivers:
    """Drivers that run the command."""

    def __init__(self, command: list[str], log: BinaryIO) -> None:
        self._command, self._log = command, log
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()

    @contextlib.contextmanager
    def one(self) -> Iterator[driver.Driver]:
        """Ends it after a fault that fails, since it may hang then."""
        try:
            call, child = self._idle.get_nowait()
        except queue.Empty:
            call, child = driver.process(self._command, self._log)
        watchdog = threading.Timer(FAULT_LIMIT_S, child.kill)
        watchdog.start()
        try:
            yield call
        except BaseException:
            with contextlib.suppress(subprocess.TimeoutExpired):
                end(child)
            raise
        finally:
            watchdog.cancel()
        self._idle.put((call, child))

    def close(self) -> None:
        while not self._idle.empty():
            _, child = self._idle.get()
            end(child)


def end(child: Any) -> None:
    """Ends a driver, by its standard input."""
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise


def run_one(
    fault: dict[str, Any], drivers: Drivers, address: str, traits: Traits
) -> str | None:
    """The failure."""
    began = time.monotonic()
    try:
        with contextlib.ExitStack() as stack:
            own = None
            if restarts(fault):
                own = stack.enter_context(restarting.gateway())
                address = f"127.0.0.1:{own.port}"
            port = int(address.rpartition(":")[2])
            direct = stack.enter_context(strait.connect(address))
            proxy = faults.FaultyProxy(port, own and own.restart)
            stack.callback(proxy.close)
            Run(stack.enter_context(drivers.one()), proxy, direct).run(
                fault, traits, own
            )
    except (AssertionError, OSError, EOFError) as failure:
        took = time.monotonic() - began
        return f"failed after {took:.1f} s: {fault['name']}: {failure}"
    return None


def run(
    command: list[str], address: str, traits: Traits, jobs: int = JOBS
) -> tuple[int, int]:
    """Prints the failures. The number of faults that ran, and of those that failed."""
    chosen = [
        fault
        for fault in cases.load("faults")
        if not (traits.is_page and restarts(fault))
    ]
    with (
        tempfile.TemporaryFile() as log,
        contextlib.closing(Drivers(command, log)) as drivers,
    ):
        with ThreadPoolExecutor(1 if traits.is_page else jobs) as pool:
            outcomes = list(
                pool.map(lambda fault: run_one(fault, drivers, address, traits), chosen)
            )
        failures = [outcome for outcome in outcomes if outcome]
        for failure in failures:
            print(failure)
        if failures:
            log.seek(0)
            sys.stderr.write(log.read()[-4000:].decode(errors="replace"))
    return len(chosen), len(failures)


def main(arguments: list[str]) -> int:
    jobs = JOBS
    if arguments[0].startswith("--jobs="):
        jobs = int(arguments.pop(0).partition("=")[2])
    with restarting.gateway() as gateway:
        ran, failed = run(arguments, f"127.0.0.1:{gateway.port}", Traits(), jobs)
    failures = f", {failed} failed" if failed else ""
    print(f"FAULTS file: {ran} faults{failures}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
