"""A stand-in for Google Cloud Storage: the documented XML API, in front of moto's S3.

Neither Google's service nor an emulator of Google's: it shows that a client keeps to the
documentation as far as this file has it. It adds to S3:

- generation numbers, and conditions on them, which make a change atomic;
- refusals of conditions in the requests of multipart uploads (400 NotImplemented), and of
  entity tags as conditions in other changes: the documentation has those for reads;
- bearer tokens instead of signatures, and 404 for the removal of an object that isn't there.

https://cloud.google.com/storage/docs/request-preconditions
https://cloud.google.com/storage/docs/multipart-uploads
https://cloud.google.com/storage/docs/xml-api/reference-headers
"""

import io
import itertools
import signal
import sys
import threading
from urllib.parse import parse_qs, quote

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple
from werkzeug.test import EnvironBuilder

GENERATION = "HTTP_X_GOOG_IF_GENERATION_MATCH"
ENTITY_TAGS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
# moto reads the service and the region from it, and checks no signature.
S3_LOGIN = (
    "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, Signature=0"
)


class Google:
    def __init__(self):
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.generations = {}
        self.next_generation = itertools.count(1)
        # A change and the look at its condition are one step.
        self.objects = threading.Lock()

    def __call__(self, environ, start_response):
        environ["wsgi.input"] = io.BytesIO(
            environ["wsgi.input"].read(length_of(environ))
        )
        status, headers, body = self.answer(environ)
        headers = [(name, value) for name, value in headers if not is_of_s3(name)]
        start_response(status, headers)
        return [body]

    def answer(self, environ):
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
        conditions = [name for name in (GENERATION, *ENTITY_TAGS) if name in environ]
        if not environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer "):
            return refusal("401 Unauthorized", "AuthenticationRequired")
        if conditions and ("uploads" in query or "uploadId" in query):
            return refusal("400 Bad Request", "NotImplemented")
        if not is_read and any(name in environ for name in ENTITY_TAGS):
            return refusal("400 Bad Request", "InvalidArgument")
        key = environ["PATH_INFO"]
        if key.count("/") < 2 or "uploads" in query or "partNumber" in query:
            return self.forward(environ)
        with self.objects:
            return self.of_object(environ, key, is_read, "uploadId" in query)

    def of_object(self, environ, key, is_read, is_of_upload):
        method, there = environ["REQUEST_METHOD"], self.generations.get(key)
        if GENERATION in environ and environ.pop(GENERATION) != str(there or 0):
            return refusal("412 Precondition Failed", "PreconditionFailed")
        if method == "DELETE" and not is_of_upload and there is None:
            return refusal("404 Not Found", "NoSuchKey")
        status, headers, body = self.forward(environ)
        if status.startswith("2") and not is_read:
            if method != "DELETE":
                self.generations[key] = next(self.next_generation)
            elif not is_of_upload:
                del self.generations[key]
        if status.startswith("2") and key in self.generations:
            headers.append(("x-goog-generation", str(self.generations[key])))
            headers.append(("x-goog-metageneration", "1"))
        return status, headers, body

    def make_bucket(self, name):
        made, _, told = self.forward(
            EnvironBuilder(f"/{name}", method="PUT").get_environ()
        )
        assert made.startswith("200"), (made, told)

    def forward(self, environ):
        environ["HTTP_AUTHORIZATION"] = S3_LOGIN
        if "HTTP_X_GOOG_COPY_SOURCE" in environ:
            environ["HTTP_X_AMZ_COPY_SOURCE"] = environ.pop("HTTP_X_GOOG_COPY_SOURCE")
        # Google's clients encode the slashes of a key, too.
        path = quote(environ["PATH_INFO"].encode("latin-1"))
        environ["RAW_URI"] = environ["REQUEST_URI"] = (
            f"{path}?{environ.get('QUERY_STRING', '')}"
        )
        answered = []
        body = b"".join(self.moto(environ, lambda *answer: answered.extend(answer)))
        return answered[0], answered[1], body


def length_of(environ):
    return int(environ.get("CONTENT_LENGTH") or 0)


def is_of_s3(name):
    return name.lower().startswith("x-amz") or name.lower() in (
        "connection",
        "transfer-encoding",
    )


def refusal(status, code):
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
    return (
        status,
        [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
        body,
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port, bucket, google = int(sys.argv[1]), sys.argv[2], Google()
    google.make_bucket(bucket)
    run_simple(
        "127.0.0.1", port, google, threaded=True, request_handler=MotoRequestHandler
    )
