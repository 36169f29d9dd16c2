"""The shared cases, the URIs and the shared faults, through a client in any language (driver.py).

shared_cases.py [OPTION...] HOST:PORT STORE IDL.json COMMAND...

IDL.json is what `thrift --gen json` writes; nobody reads it if there are no requests. The last line of the
output counts cases that ran, and those that were skipped for a missing capability. The options:
`--no-requests` skips cases with requests below the client, for a client over a library that runs them by
itself; `--no-uris` skips the URIs, for the same reason.
`--cancels`: the driver can cancel a call that waits.
`--page`: the client runs in a browser (shared_faults.py).
`--attempts`: how often the client tries, if not as often as docs/client-protocol.md says.
"""

import dataclasses
import itertools
import json
import re
import secrets
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python/tests"))

import cases
import driver
import faults
import shared_faults
import strait

# No call waits longer for a busy machine.
CANCEL_LIMIT_S = 10
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


def check_deadlines(call: driver.Driver, port: int) -> None:
    """Each request says how long its client waits."""
    proxy = faults.FaultyProxy(port)
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
    proxy = faults.FaultyProxy(port)
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
    proxy.strike(faults.SILENT)
    call("begin_stat", "/missing")
    assert proxy.held.wait(CANCEL_LIMIT_S), "no request"
    began = time.monotonic()
    assert call("cancel") == [b"cancelled"]
    took = time.monotonic() - began
    assert took < CANCEL_LIMIT_S, f"{took:.1f} s"
    proxy.strike(faults.NONE)
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
            native, message = failure.__notes__
            assert failure.filename == "/missing" and "/missing" in message
            print("  a missing file is", native)
        else:
            raise AssertionError("no error")
    client.close()


def main(arguments: list[str]) -> int:
    options = set(itertools.takewhile(lambda one: one.startswith("--"), arguments))
    address, store, idl, *command = arguments[len(options) :]
    requests = "--no-requests" not in options
    traits = shared_faults.Traits(is_page="--page" in options)
    for option in options:
        if option.startswith("--attempts="):
            attempts = int(option.partition("=")[2])
            traits = dataclasses.replace(traits, attempts=attempts)
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
            check_deadlines(call, port)
            check_preflights(call, port)
            if "--cancels" in options:
                check_cancellation(call, port)
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read()[-4000:].decode(errors="replace"))
            raise
        finally:
            shared_faults.end(child)
    faulty, faults_failed = shared_faults.run(command, address, traits)
    failed += faults_failed
    lacks = ", ".join(f"{count} {name}" for name, count in sorted(skipped.items()))
    without = f" (skipped for lack of: {lacks})" if lacks else ""
    failures = f", {failed} failed" if failed else ""
    also = f", {uris} URIs" if uris else ""
    also += f", {faulty} faults"
    print(f"{store}: {ran} shared cases{without}{failures}{also}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
