"""The service by all five ways: curl, requests, zeep, and Apache Thrift's Python library."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import zeep
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

HERE = Path(__file__).parent
SALE = {"symbol": "CSCO", "price": 25.5, "size": 100, "seq_num": 1}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """A running server's ports."""
    out = tmp_path_factory.mktemp("gen")
    subprocess.run(
        ["thrift", "--gen", "py", "-o", out, HERE / "trade.thrift"], check=True
    )
    sys.path.insert(0, str(out / "gen-py"))
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", out / "gen-py", "0", "0", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        words = server.stdout.readline().split()
        yield dict(zip(words[::2], map(int, words[1::2]), strict=True))
    finally:
        server.kill()
        server.wait()


def last_sale(transport: Any, protocol: Any) -> dict[str, Any]:
    """The answers to a client of Thrift's library."""
    from trade import TradeHistory

    transport.open()
    try:
        return vars(TradeHistory.Client(protocol(transport)).get_last_sale("CSCO"))
    finally:
        transport.close()


@pytest.mark.parametrize(
    ("name", "protocol"), [("json", TJSONProtocol), ("binary", TBinaryProtocol)]
)
def test_thrift_over_tcp(ports: dict[str, int], name: str, protocol: Any) -> None:
    socket = TSocket("127.0.0.1", ports[name])
    assert last_sale(TBufferedTransport(socket), protocol) == SALE


def test_thrift_over_http(ports: dict[str, int]) -> None:
    transport = THttpClient(f"http://127.0.0.1:{ports['http']}/thrift")
    assert last_sale(transport, TJSONProtocol) == SALE


@pytest.mark.parametrize(
    "target", ["/v1/trades/CSCO/last_sale", "/tradehistory/get_last_sale?symbol=CSCO"]
)
def test_rest_by_both_forms_and_from_a_cache(
    ports: dict[str, int], target: str
) -> None:
    url = f"http://127.0.0.1:{ports['http']}{target}"
    assert json.loads(subprocess.check_output(["curl", "-sSf", url])) == SALE
    first = requests.get(url, timeout=10)
    assert "max-age" in first.headers["Cache-Control"]
    again = requests.get(
        url, headers={"If-None-Match": first.headers["ETag"]}, timeout=10
    )
    assert (again.status_code, again.content) == (304, b"")


def test_soap_by_the_description(ports: dict[str, int]) -> None:
    client = zeep.Client(f"http://127.0.0.1:{ports['http']}/soap?wsdl")
    sale = client.service.get_last_sale(symbol="CSCO")
    assert {name: sale[name] for name in SALE} == SALE
    with pytest.raises(zeep.exceptions.Fault, match="not a request of this service"):
        client.service.get_last_sale(symbol="no symbol")


@pytest.mark.parametrize("target", ["/trade.raml", "/application.wadl", "/soap?wsdl"])
def test_descriptions_are_served(ports: dict[str, int], target: str) -> None:
    answer = requests.get(f"http://127.0.0.1:{ports['http']}{target}", timeout=10)
    assert answer.status_code == 200
    assert "symbol" in answer.text


def test_bad_input_gets_4xx(ports: dict[str, int]) -> None:
    base = f"http://127.0.0.1:{ports['http']}"
    for target in [
        "/v1/trades/..%2f/last_sale",
        "/tradehistory/get_last_sale",
        "/v1/other",
    ]:
        assert 400 <= requests.get(base + target, timeout=10).status_code < 500
    for target, body in [("/thrift", "[1,"), ("/soap", "x" * 70_000)]:
        assert (
            400 <= requests.post(base + target, data=body, timeout=10).status_code < 500
        )


def test_bad_soap_gets_a_fault(ports: dict[str, int]) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "a">]><x>&a;</x>'
    for body in [bomb, "<", "<x/>"]:
        answer = requests.post(
            f"http://127.0.0.1:{ports['http']}/soap", data=body, timeout=10
        )
        assert answer.status_code == 500
        assert "<faultcode>s:Client</faultcode>" in answer.text
