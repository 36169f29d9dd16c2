"""The cases of every client language, over each wire of this client, on every store at hand."""

import secrets
from collections import Counter
from typing import get_args

import cases
import gateways
import pytest

import strait
from strait._wire import Wire

CASES = cases.load()


@pytest.fixture(scope="module", params=gateways.stores())
def place(request):
    gateways.require()
    with gateways.gateway(request.param) as gateway:
        yield request.param, gateway


@pytest.mark.parametrize("wire", get_args(Wire))
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(place, wire, case, record_property):
    store, gateway = place
    run = cases.Run(gateway.address, f"{gateway.root}/{secrets.token_hex(4)}", wire=wire)
    try:
        lacking = sorted(set(case.get("needs", [])) - run.capabilities)
        record_property("conformance", (store, lacking))
        if lacking:
            pytest.skip(f"the store {store} declares no {', '.join(lacking)}")
        run.steps(case["steps"])
    finally:
        run.close()


def test_the_patterns_of_the_cases_are_as_documented():
    assert cases.pattern(7, 0, 3) == bytes([7, 8, 9])
    far = cases.pattern(7, 20_000, 1000)
    assert list(far) == [(7 + i + i // 251) % 256 for i in range(20_000, 21_000)]


def test_a_failed_step_fails_its_case():
    class Client:
        def __getattr__(self, name):
            raise strait.NotFound("not there", "/d/f")

    run = cases.Run.__new__(cases.Run)
    run._client, run._directory = Client(), "/d"
    run._step({"op": "stat", "path": "/f", "error": {"kind": "NotFound", "path": "/f"}})
    for error in (None, {"kind": "Busy"}, {"kind": "NotFound", "path": "/g"}):
        with pytest.raises(AssertionError):
            run._step({"op": "stat", "path": "/f"} | ({"error": error} if error else {}))


def summary(reports) -> list[str]:
    """Lines of counts by store, for the end of the run."""
    ran: Counter[str] = Counter()
    skipped: dict[str, Counter[str]] = {}
    for report in reports:
        for name, value in report.user_properties:
            if name == "conformance":
                store, lacking = value
                skipped.setdefault(store, Counter()).update(lacking[:1])
                ran[store] += not lacking
    return [
        f"conformance Python {store}: {ran[store]} run, {sum(reasons.values())} skipped"
        + "".join(f", {count} for lack of {name}" for name, count in sorted(reasons.items()))
        for store, reasons in skipped.items()
    ]
