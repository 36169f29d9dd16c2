"""Calls a gateway on every wire of Apache Thrift's Python library.

wires.py HOST PORT CA_FILE
"""

import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Any

from strait._gen import DfsV2, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport

HOST, PORT, CA_FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
PROTOCOLS = {
    "binary": TBinaryProtocol,
    "compact": TCompactProtocol,
    "json": TJSONProtocol,
}
TEXT = 'a line, "quoted" \\ and ä\n'
BYTES = bytes(range(256)) * 5


def transports(name: str, tls: bool) -> Any:
    if name == "http":
        if tls:
            context = ssl.create_default_context(cafile=CA_FILE)
            return THttpClient(f"https://{HOST}:{PORT}/thrift", ssl_context=context)
        return THttpClient(f"http://{HOST}:{PORT}/thrift")
    socket = TSSLSocket(HOST, PORT, ca_certs=CA_FILE) if tls else TSocket(HOST, PORT)
    return TFramedTransport(socket) if name == "framed" else TBufferedTransport(socket)


def of_2009(client: Any, directory: str) -> None:
    ch = client.init("")
    assert ch.id > 0, ch
    assert client.mkdir(ch, directory)
    dh = client.open(ch, directory + "/f", 2)
    data = TEXT.encode()
    assert client.write(ch, dh, data, -1, len(data))
    assert client.close(ch, dh)
    dh = client.open(ch, directory + "/f", 1)
    assert client.read(ch, dh, 0, 4096) == TEXT
    assert client.close(ch, dh)
    assert [status.length for status in client.listFiles(ch, directory)] == [len(data)]
    try:
        client.stat(ch, directory + "/missing")
        raise AssertionError("a missing file was found")
    except ttypes.DfsServiceIOException:
        pass
    assert client.closeClient(ch)


def v2(client: Any, directory: str) -> None:
    session = client.openSession(ttypes.OpenSessionRequest()).token
    path = directory + "/g"
    client.makeDirectories(
        ttypes.MakeDirectoriesRequest(session=session, path=directory)
    )
    handle = client.createFile(
        ttypes.CreateFileRequest(session=session, path=path)
    ).handle
    client.appendData(
        ttypes.AppendDataRequest(
            session=session, handle=handle, expected_offset=0, data=BYTES
        )
    )
    client.closeFile(ttypes.CloseFileRequest(session=session, handle=handle))
    handle = client.openFile(ttypes.OpenFileRequest(session=session, path=path)).handle
    read = ttypes.ReadRangeRequest(
        session=session, handle=handle, offset=0, length=4096
    )
    assert client.readRange(read).data == BYTES
    try:
        client.getFileInfo(
            ttypes.GetFileInfoRequest(session=session, path=directory + "/missing")
        )
        raise AssertionError("a missing file was found")
    except ttypes.DfsError as error:
        assert error.kind == "NotFound", error
    client.closeSession(ttypes.CloseSessionRequest(session=session))


def cells() -> Iterator[tuple[str, str, bool, str, Callable[[Any, str], None]]]:
    for protocol in PROTOCOLS:
        for transport in ("unframed", "framed", "http"):
            for tls in (False, True):
                yield protocol, transport, tls, "2009", of_2009
                yield protocol, transport, tls, "v2", v2


for protocol, name, tls, generation, run in cells():
    cell = f"python {protocol} {name} {'tls' if tls else 'plain'} {generation}"
    try:
        transport = transports(name, tls)
        transport.open()
        run(DfsV2.Client(PROTOCOLS[protocol](transport)), "/" + cell.replace(" ", "-"))
        transport.close()
        print(cell, "ok", flush=True)
    except Exception as error:  # noqa: BLE001 - any failure is this cell's outcome
        print(cell, "WRONG", repr(error), flush=True)
