"""One service by five ways: SOAP, REST, and Thrift as JSON over HTTP and TCP and as binary over TCP.

server.py GEN_PY [HTTP_PORT [JSON_PORT [BINARY_PORT]]]

GEN_PY has the code that `thrift --gen py trade.thrift` writes. A port of 0 is a free one.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory, TMemoryBuffer

sys.path.insert(0, sys.argv[1])
from trade import TradeHistory
from trade.ttypes import TradeReport

HERE = Path(__file__).parent
# A body has one symbol.
MAX_BODY_BYTES = 64 << 10
# A client that sends nothing for this time has left.
IDLE_SECONDS = 30
# A sale may be shown for this time after the next one.
FRESH_SECONDS = 1
SYMBOL = re.compile(r"[A-Z0-9.]{1,12}")
# The one resource: a stock's last sale.
RESOURCE = re.compile(r"/v1/trades/([^/]+)/last_sale")
# The address in the WSDL file.
ADDRESS = "127.0.0.1:8080"
DOCUMENTS = {
    "/trade.raml": ("trade.raml", "application/raml+yaml"),
    "/application.wadl": ("trade.wadl", "application/vnd.sun.wadl+xml"),
    "/soap?wsdl": ("trade.wsdl", "text/xml; charset=utf-8"),
}


class Handler:
    """The service itself; all five ways lead here."""

    def get_last_sale(self, symbol: str) -> TradeReport:
        """The last sale of a stock."""
        return TradeReport(symbol, 25.50, 100, 1)


class Web(BaseHTTPRequestHandler):
    """Its faces over HTTP."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """REST, by either form, and the descriptions."""
        url = urlsplit(self.path)
        if document := DOCUMENTS.get(self.path):
            name, kind = document
            text = (HERE / name).read_text()
            # A client of the WSDL calls the address in it.
            here = self.headers.get("Host", ADDRESS)
            self.answer(200, kind, text.replace(ADDRESS, escape(here)).encode())
        elif resource := RESOURCE.fullmatch(url.path):
            self.report(unquote(resource[1]))
        elif url.path == "/tradehistory/get_last_sale":
            self.report(parse_qs(url.query).get("symbol", [""])[0])
        else:
            self.problem(404, "no such resource")

    def report(self, symbol: str) -> None:
        """A sale as JSON. Its number tells a cache whether it has changed."""
        if not SYMBOL.fullmatch(symbol):
            self.problem(400, "the symbol has 1 to 12 capital letters, digits and dots")
            return
        sale = HANDLER.get_last_sale(symbol)
        tag = f'"{sale.seq_num}"'
        fields = {"ETag": tag, "Cache-Control": f"public, max-age={FRESH_SECONDS}"}
        known = self.headers.get("If-None-Match", "")
        if tag in (other.strip() for other in known.split(",")):
            self.answer(304, "", b"", fields)
        else:
            body = json.dumps(vars(sale)).encode()
            self.answer(200, "application/json", body, fields)

    def do_POST(self) -> None:
        """Thrift's messages, and SOAP's."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self.problem(
                413 if length.isdecimal() else 411,
                "a body has a length, of 64 KiB at most",
            )
            return
        body = self.rfile.read(int(length))
        faces = {"/thrift": self.thrift, "/soap": self.soap}
        face = faces.get(self.path)
        if face is None:
            self.problem(404, "no such resource")
            return
        try:
            face(body)
        except Exception as error:  # noqa: BLE001 - a library's parser may raise anything
            why = f"not a request of this service: {type(error).__name__}"
            if face == self.soap:
                self.fault(why)
            else:
                self.problem(400, why)

    def thrift(self, body: bytes) -> None:
        """A message of Thrift's JSON."""
        answer = TMemoryBuffer()
        protocol = TJSONProtocolFactory().getProtocol
        PROCESSOR.process(protocol(TMemoryBuffer(body)), protocol(answer))
        self.answer(200, "application/vnd.apache.thrift.json", answer.getvalue())

    def soap(self, body: bytes) -> None:
        """A SOAP envelope. A document type could expand without end, and no envelope needs one."""
        if b"<!DOCTYPE" in body:
            raise ValueError
        found = ElementTree.fromstring(body).find(
            ".//{urn:trade}get_last_sale/{urn:trade}symbol"
        )
        if found is None or not SYMBOL.fullmatch(found.text or ""):
            raise ValueError
        sale = HANDLER.get_last_sale(found.text)
        members = "".join(f"<{k}>{escape(str(v))}</{k}>" for k, v in vars(sale).items())
        self.envelope(200, f'<trade_report xmlns="urn:trade">{members}</trade_report>')

    def fault(self, why: str) -> None:
        """A failure as SOAP 1.1 has it (section 4.4), with the status of section 6.2."""
        told = (
            f"<faultcode>s:Client</faultcode><faultstring>{escape(why)}</faultstring>"
        )
        self.envelope(500, f"<s:Fault>{told}</s:Fault>")

    def envelope(self, status: int, body: str) -> None:
        """A SOAP envelope."""
        text = (
            '<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/">'
            f"<s:Body>{body}</s:Body></s:Envelope>"
        )
        self.answer(status, "text/xml; charset=utf-8", text.encode())

    def problem(self, status: int, why: str) -> None:
        """A failure as JSON."""
        self.answer(status, "application/json", json.dumps({"error": why}).encode())

    def answer(
        self, status: int, kind: str, body: bytes, fields: dict[str, str] | None = None
    ) -> None:
        """A whole answer."""
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


HANDLER = Handler()
PROCESSOR = TradeHistory.Processor(HANDLER)


def serve_thrift(port: int, factory: object) -> int:
    """Serves Thrift over TCP by this protocol; its port."""
    socket = TServerSocket("127.0.0.1", port)
    socket.listen()
    # It would listen again.
    socket.listen = lambda: None
    server = TThreadedServer(
        PROCESSOR, socket, TBufferedTransportFactory(), factory, daemon=True
    )
    threading.Thread(target=server.serve, daemon=True).start()
    return int(socket.handle.getsockname()[1])


def main() -> None:
    """Serves until it is killed."""
    http, as_json, binary = [int(port) for port in sys.argv[2:5]] + [8080, 9091, 9090][
        len(sys.argv[2:5]) :
    ]
    web = ThreadingHTTPServer(("127.0.0.1", http), Web)
    as_json = serve_thrift(as_json, TJSONProtocolFactory())
    binary = serve_thrift(binary, TBinaryProtocolFactory())
    print(f"http {web.server_port} json {as_json} binary {binary}", flush=True)
    web.serve_forever()


main()
