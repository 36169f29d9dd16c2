"""moto's S3 server, in which a change and the look at its condition are one step.

moto answers each request in a thread of its own and locks nothing. So of two requests that may
create an object only if there is none, both can succeed; S3 lets one of them.
"""

import io
import signal
import sys
import threading

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple


class OneChangeAtOnce:
    def __init__(self, moto):
        self.moto = moto
        self.changes = threading.Lock()

    def __call__(self, environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self.moto(environ, start_response)
        # First the body, so that a slow client delays no other.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with self.changes:
            return self.moto(environ, start_response)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = OneChangeAtOnce(DomainDispatcherApplication(create_backend_app))
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        server,
        threaded=True,
        request_handler=MotoRequestHandler,
    )
