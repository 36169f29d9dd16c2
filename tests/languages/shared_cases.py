"""The shared cases, the URIs and faults, through a client in any language (driver.py).

shared_cases.py [OPTION...] HOST:PORT STORE IDL.json COMMAND...

IDL.json is what `thrift --gen json` writes; nobody reads it if there are no requests. The last line of the
output counts cases that ran, and those that were skipped for a missing capability. The options:
`--no-requests` skips cases with requests below the client, for a client over a library that runs them by
itself; `--no-uris` skips the URIs, for the same reason.
`--cancels`: the driver can cancel a call that waits.
`--repeats`: what is below the client may repeat a request, as browsers do on a used connection.
`--no-restarts`: without gateways of this program's own, which pages can't reach.
`--attempts`: how often the client tries, if not as often as docs/client-protocol.md says.
"""

import contextlib
import itertools
import json
import re
import secrets
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python/tests"))

import cases
import driver
import faults
import restarts
import strait

TIMEOUT_MS = 1500
# The timeout, 2 s to clean up, and time for a busy machine. A stutter takes minutes.
SILENCE_LIMIT_S = 10
# Six attempts with pauses of 1.6 to 3.1 s, and time for a busy machine.
GONE_LIMIT_S = 15
# docs/client-protocol.md
ATTEMPTS = 6
# A connection passes on so many bytes each way, then it is cut: within frames, at other places each time.
CUT_AFTER = (1_700_001, 2_000_003, 1_900_027)
# Firefox sends a preflight ten times, which would hide how often the client sends its request.
PREFLIGHT_REPLY = b"HTTP/1.1 204 "
CODES = {
    "bool": 2,
    "i16": 6,
    "i32": 8,
    "i64": 10,
    "string": 11,
    "binary": 11,
    "enum": 8,
}


class Schema:
    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text())
        self._structs = {
            struct["name"]: struct["fields"] for struct in document["structs"]
        }
        (service,) = [one for one in document["services"] if one["name"] == "DfsV2"]
        self._methods = {one["name"]: one for one in service["functions"]}

    def request(self, method: str) -> dict[str, Any]:
        (argument,) = self._methods[method]["arguments"]
        return {
            field["name"]: field for field in self._structs[argument["type"]["class"]]
        }

    def reply(self, method: str) -> dict[int, Any]:
        reply = self._methods[method]["returnType"]["class"]
        return {field["key"]: field for field in self._structs[reply]}


def code(field: dict[str, Any]) -> int:
    kind = field["typeId"]
    return CODES["enum" if kind == "enum" else kind]


class Run(cases.Run):
    """A case through a driver."""

    def __init__(
        self, call: driver.Driver, address: str, schema: Schema | None
    ) -> None:
        self._driver, self._schema, self._address = call, schema, address
        self._client = driver.Client(call, "first", address)
        self._directory = f"/cases-{secrets.token_hex(4)}"
        self._files, self._saved, self._random, self._others = {}, {}, {}, {}

    def _request(self, method, args, expect=None, save=None, client=None) -> None:
        if client is not None and client not in self._others:
            self._others[client] = driver.Client(self._driver, client, self._address)
            # The client's own steps are the first one's.
            self._driver("use", "first")
        assert self._schema, "an IDL for requests"
        fields = self._schema.request(method)
        sent: list[Any] = []
        for key, value in args.items():
            sent += [fields[key]["key"], code(fields[key]), self._value(key, value)]
        answer = self._driver("request", client or "first", method, *sent)
        known = self._schema.reply(method)
        reply = {}
        for number, value in zip(answer[0::2], answer[1::2], strict=True):
            field = known[int(number)]
            is_text = field["typeId"] in ("string", "binary")
            reply[field["name"]] = value if is_text else int(value)
        for field, value in (expect or {}).items():
            if field == "data":
                self._same(reply.get("data", b""), value)
            else:
                assert reply[field] == self._value(field, value), (field, reply)
        for field, name in (save or {}).items():
            self._saved[name] = reply[field]


def check_uris(call: driver.Driver) -> int:
    document = json.loads(cases.FILE.read_text())
    for case in document["uris"]:
        if "error" in case:
            try:
                call("uri", case["uri"])
            except strait.StraitError as failure:
                assert failure.kind == case["error"], f"{case}: {failure}"
                assert case.get("says", "") in str(failure), f"{case}: {failure}"
                assert "password" not in str(failure).replace(
                    "user and password", ""
                ), case
            else:
                raise AssertionError(f"{case} succeeded")
        else:
            host, port, store, path = (
                part.decode() for part in call("uri", case["uri"])
            )
            parts = {
                "host": host,
                "port": int(port),
                "store": store or None,
                "path": path,
            }
            assert {"uri": case["uri"], **parts} == case, parts
    return len(document["uris"])


class CuttingProxy:
    """Cuts each connection after some bytes."""

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._target))
                for ends in ((client, gateway), (gateway, client)):
                    threading.Thread(
                        target=self._forward, args=ends, daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        left = CUT_AFTER[self.cuts % len(CUT_AFTER)]
        with contextlib.suppress(OSError):
            while data := source.recv(min(left, 1 << 16)):
                target.sendall(data)
                left -= len(data)
                if left == 0:
                    self.cuts += 1
                    break
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def check_cuts(call: driver.Driver, port: int) -> None:
    """Connections break in the middle of both directions: no byte is lost, no change made twice."""
    proxy = CuttingProxy(port)
    client = driver.Client(call, "cut", f"127.0.0.1:{proxy.port}")
    directory, data = f"/cut-{secrets.token_hex(4)}", cases.pattern(5, 0, 9_000_001)
    client.makedirs(directory)
    with client.open(f"{directory}/a", "xb") as file:
        for start in range(0, len(data), 700_000):
            file.write(data[start : start + 700_000])
    assert client.stat(f"{directory}/a").length == len(data)
    with client.open(f"{directory}/a", "rb") as file:
        assert file.read() == data
    client.rename(f"{directory}/a", f"{directory}/b")
    client.rmtree(directory)
    assert not client.exists(directory)
    client.close()
    proxy.close()
    assert proxy.cuts >= 6, f"only {proxy.cuts} connections were cut"


@contextlib.contextmanager
def fails(kinds: set[str], limit_s: float, says: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    except strait.StraitError as failure:
        took = time.monotonic() - began
        assert failure.kind in kinds, f"{failure.kind}: {failure}"
        assert says in str(failure), f"{failure} doesn't name {says}"
        assert took < limit_s, f"{took:.1f} s until {failure}"
    else:
        raise AssertionError(f"no error of {kinds}")


def check_silence(call: driver.Driver, port: int, fault: faults.Fault) -> None:
    """A gateway that accepts a request, and answers nothing, half, or a byte at a time."""
    proxy = faults.FaultyProxy(port)
    client = driver.Client(call, fault, f"127.0.0.1:{proxy.port}", TIMEOUT_MS)
    proxy.strike(fault)
    with fails({"TimedOut"}, SILENCE_LIMIT_S, "/missing"):
        client.stat("/missing")
    with fails({"TimedOut", "OutcomeUnknown"}, SILENCE_LIMIT_S, "/made"):
        client.makedirs("/made")
    client.close()
    proxy.close()


def check_gone(call: driver.Driver, port: int) -> None:
    proxy = faults.FaultyProxy(port)
    address = f"127.0.0.1:{proxy.port}"
    client = driver.Client(call, "gone", address)
    proxy.strike("gone")
    with fails({"Unavailable"}, GONE_LIMIT_S, address):
        client.stat("/missing")
    client.close()
    with fails({"Unavailable"}, GONE_LIMIT_S, address):
        driver.Client(call, "nobody", address)


class Recorder(faults.FaultyProxy):
    """Keeps the requests' bytes. Its one fault is `cut`, from which it spares a browser's preflights."""

    def __init__(self, port: int) -> None:
        self.requests = bytearray()
        super().__init__(port)

    def _pass_on(
        self, source: socket.socket, target: socket.socket, is_reply: bool
    ) -> None:
        while data := source.recv(1 << 16):
            if not is_reply:
                self.requests += data
            elif self.fault == "cut" and not data.startswith(PREFLIGHT_REPLY):
                self.cuts += 1
                return
            target.sendall(data)


def check_attempts(
    call: driver.Driver, port: int, expected: int, repeats: bool
) -> None:
    proxy = Recorder(port)
    address = f"127.0.0.1:{proxy.port}"
    client = driver.Client(call, "attempts", address)
    proxy.strike("cut")
    with fails({"Unavailable"}, GONE_LIMIT_S, address):
        client.stat("/missing")
    # Behind the method's name is the request's number, which a browser repeats and the client doesn't.
    numbers = set(re.findall(b"(?s)getFileInfo(.{4})", proxy.requests))
    attempts = len(numbers) if repeats else proxy.cuts
    assert attempts == expected, f"{attempts} attempts"
    proxy.strike("none")
    client.close()
    proxy.close()


def check_deadlines(call: driver.Driver, port: int) -> None:
    """Each request says how long its client waits."""
    proxy = Recorder(port)
    client = driver.Client(call, "deadlines", f"127.0.0.1:{proxy.port}", 50_000)
    client.exists("/missing")
    client.close()
    proxy.close()
    _, *requests = re.split(
        b"(?=openSession|getFileInfo|closeSession)", bytes(proxy.requests)
    )
    assert len(requests) >= 2, requests
    for request in requests:
        # An i32 with the number 15.
        _, field, value = request.partition(b"\x08\x00\x0f")
        assert field, f"no deadline: {request!r}"
        (ms,) = struct.unpack_from(">i", value)
        assert 0 < ms <= 50_000, f"{ms} ms: {request!r}"


def check_preflights(call: driver.Driver, port: int) -> None:
    """A browser asks the gateway once for a login and once for all requests after it, not before each."""
    proxy = Recorder(port)
    client = driver.Client(call, "preflights", f"127.0.0.1:{proxy.port}")
    for _ in range(5):
        client.exists("/missing")
    client.close()
    proxy.close()
    preflights = proxy.requests.count(b"OPTIONS ")
    assert preflights <= 2, f"{preflights} preflights"


def check_cancellation(call: driver.Driver, port: int) -> None:
    """A cancelled call ends, long before the client's deadline."""
    proxy = faults.FaultyProxy(port)
    client = driver.Client(call, "cancelled", f"127.0.0.1:{proxy.port}")
    proxy.strike("silent")
    call("begin_stat", "/missing")
    assert proxy.held.wait(SILENCE_LIMIT_S), "no request"
    began = time.monotonic()
    assert call("cancel") == [b"cancelled"]
    took = time.monotonic() - began
    assert took < SILENCE_LIMIT_S, f"{took:.1f} s"
    proxy.strike("none")
    assert not client.exists("/missing"), "the client stays usable"
    client.close()
    proxy.close()


def check_errors(call: driver.Driver, address: str) -> None:
    """An exception of the language's own names the path."""
    client = driver.Client(call, "errors", address)
    for use in (client.stat, client.open):
        arguments = ("/missing", "rb") if use == client.open else ("/missing",)
        try:
            use(*arguments)
        except strait.NotFound as failure:
            assert failure.filename == "/missing" and "/missing" in str(failure)
            print("  a missing file is", failure.__notes__[0])
        else:
            raise AssertionError("no error")
    client.close()


def main(arguments: list[str]) -> int:
    options = set(itertools.takewhile(lambda one: one.startswith("--"), arguments))
    address, store, idl, *command = arguments[len(options) :]
    requests = "--no-requests" not in options
    attempts = 6
    for option in options:
        if option.startswith("--attempts="):
            attempts = int(option.partition("=")[2])
    port = int(address.rpartition(":")[2])
    schema = Schema(Path(idl)) if requests else None
    skipped: Counter[str] = Counter()
    ran = failed = 0
    with tempfile.TemporaryFile() as log:
        call, child = driver.process(command, log)
        try:
            for case in cases.load():
                if not requests and any(
                    step["op"] == "request" for step in case["steps"]
                ):
                    skipped["requests below the client"] += 1
                    continue
                run = Run(call, address, schema)
                lacking = sorted(set(case.get("needs", [])) - run.capabilities)
                try:
                    if lacking:
                        skipped[lacking[0]] += 1
                        continue
                    run.steps(case["steps"])
                    ran += 1
                except (AssertionError, strait.StraitError) as failure:
                    failed += 1
                    print(f"failed: {case['name']}: {failure!r}")
                finally:
                    run.close()
            uris = 0 if "--no-uris" in options else check_uris(call)
            check_errors(call, address)
            check_cuts(call, port)
            for fault in ("silent", "half", "stutter"):
                check_silence(call, port, fault)
            check_gone(call, port)
            check_attempts(call, port, attempts, "--repeats" in options)
            check_deadlines(call, port)
            restarted = 0 if "--no-restarts" in options else restarts.check(call)
            check_preflights(call, port)
            if "--cancels" in options:
                check_cancellation(call, port)
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-4000:].decode(errors="replace"))
            raise
        finally:
            child.stdin.close()
            try:
                child.wait(20)
            except Exception:
                child.kill()
                raise
    lacks = ", ".join(f"{count} {name}" for name, count in sorted(skipped.items()))
    without = f" (skipped for lack of: {lacks})" if lacks else ""
    failures = f", {failed} failed" if failed else ""
    also = f", {uris} URIs" if uris else ""
    also += ", 6 faults"
    also += f", {restarted} restarts" if restarted else ""
    print(f"{store}: {ran} shared cases{without}{failures}{also}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
