"""An S3 in this process that has the faults that a test wants: objects are put, read, listed and deleted over HTTP.

    with FakeS3() as s3:
        s3.faults["PUT"] = ["lost", 503, "hangs"]     what becomes of the next three

It checks no signature, and knows one condition, `If-None-Match: *`.
"""

from __future__ import annotations

import ssl
import threading
from collections import defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CODES = {
    503: "SlowDown", 409: "ConditionalRequestConflict", 403: "AccessDenied", 404: "NoSuchBucket",
}  # fmt: skip
Fault = int | str
"""A status; `lost`: done, but the connection is closed instead of an answer; `500 done`; `hangs`; Code=status."""


class FakeS3:
    """objects: key with its bucket -> body. asked: of each request, its method and its key. conditional: or ignored."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.asked: list[tuple[str, str]] = []
        self.conditional = True
        self.over = threading.Event()
        handler = type("Handler", (_Handler,), {"s3": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeS3:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def listens_with(self, secured: ssl.SSLContext) -> None:
        """From now on it speaks TLS only."""
        self._server.socket = secured.wrap_socket(self._server.socket, server_side=True)
        self.endpoint = self.endpoint.replace("http://", "https://")

    def times(self, method: str) -> int:
        return sum(asked == method for asked, _ in self.asked)


class _Handler(BaseHTTPRequestHandler):
    s3: FakeS3
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        key, query = unquote(url.path).lstrip("/"), parse_qs(url.query, keep_blank_values=True)
        method = "DELETE" if self.command == "POST" else "LIST" if "list-type" in query else self.command
        self.s3.asked.append((method, key))
        fault = self.s3.faults[method].pop(0) if self.s3.faults[method] else ""
        if fault == "hangs":
            self.s3.over.wait(60)
            self.close_connection = True
            return
        if fault and fault not in ("lost", "500 done"):
            code, _, status = (fault if isinstance(fault, str) else f"{CODES.get(fault, 'Odd')}={fault}").partition("=")
            self._answer(int(status), f"<Error><Code>{code}</Code><Message>words</Message></Error>".encode())
            return
        status, text, headers = self._done(method, key, query, body)
        if fault == "lost":
            self.close_connection = True
        elif fault == "500 done":
            self._answer(500, b"<Error><Code>InternalError</Code></Error>")
        else:
            self._answer(status, text, headers)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any

    def _done(
        self, method: str, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        objects, here = self.s3.objects, {"etag": '"1"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if method == "PUT":
            if self.s3.conditional and "if-none-match" in self.headers and key in objects:
                return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
            objects[key] = body
            return 200, b"", here
        if method == "LIST":
            return 200, self._listed(key, query), {}
        if method == "DELETE":
            named = [one.partition("<")[0] for one in body.decode().split("<Key>")[1:]]
            for one in named:
                objects.pop(f"{key}/{one}", None)
            deleted = "".join(f"<Deleted><Key>{one}</Key></Deleted>" for one in named)
            return 200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), {}
        if key not in objects:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        found, wanted = objects[key], self.headers.get("range", "")
        if not wanted:
            return 200, found, here
        first, last = (int(text) for text in wanted.removeprefix("bytes=").split("-"))
        part = found[first : last + 1]
        return 206, part, {**here, "content-range": f"bytes {first}-{first + len(part) - 1}/{len(found)}"}

    def _listed(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        below = sorted(key.removeprefix(f"{bucket}/") for key in self.s3.objects)
        below = [key for key in below if key.startswith(prefix)]
        cut = [key for key in below if delimiter and delimiter in key.removeprefix(prefix)]
        folders = {prefix + key.removeprefix(prefix).partition(delimiter)[0] + delimiter for key in cut}
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.s3.objects[f'{bucket}/{key}'])}</Size><ETag>1</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in below
            if key not in cut
        ) + "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{text}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):  # who asked may want no more
                self.wfile.write(body)
