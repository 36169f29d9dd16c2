"""browser_driver.py BROWSER PORT ROOT PAGE: a page of PORT in a browser without a screen, as a driver (driver.py).

Serves the files below ROOT, and shows PAGE of them. Answers /next from standard input, and writes to standard output
the bodies sent to /answer. With `--wait`, instead waits for the page's answer, and prints it."""

import contextlib
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parents[1] / "testkit"))

import browsers
import driver

TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8"}
SECONDS = 300


class Pages(BaseHTTPRequestHandler):
    root: Path
    asked: "queue.Queue[bytes | None]" = queue.Queue()
    answered: "queue.Queue[bytes]" = queue.Queue()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/next":
            request = self.asked.get()
            self.reply(
                204 if request is None else 200,
                request or b"",
                "application/octet-stream",
            )
        elif path == "/local":
            self.reply(
                200, Path(unquote(query)).read_bytes(), "application/octet-stream"
            )
        elif (file := self.root / path[1:]).suffix in TYPES and file.is_file():
            self.reply(200, file.read_bytes(), TYPES[file.suffix])
        else:
            self.reply(404, b"", "text/plain")

    def do_POST(self) -> None:
        self.answered.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(200, b"", "text/plain")

    def reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def relay(source: BinaryIO, target: BinaryIO) -> None:
    while True:
        try:
            request = driver.decoded(source)
        except EOFError:
            Pages.asked.put(None)
            return
        Pages.asked.put(driver.encoded(request))
        target.write(Pages.answered.get(timeout=SECONDS))
        target.flush()


def main(browser: str, port: str, root: str, page: str, *options: str) -> int:
    Pages.root = Path(root).resolve()
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Pages)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browsers.page(browser, f"http://127.0.0.1:{port}/{page}"):
        if options == ("--wait",):
            answer = Pages.answered.get(timeout=SECONDS).decode()
            print(answer)
            return answer != "done"
        relay(sys.stdin.buffer, sys.stdout.buffer)
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
