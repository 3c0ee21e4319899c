"""A server of a test's own that answers what is posted to it, or asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Answer = Callable[[str, Mapping[str, str]], tuple[int, str]]
"""The text that was posted, if any, and its headers -> status, and the text to give."""


Serve = Callable[[str, str, str, Mapping[str, str]], tuple[int, str]]
"""The method and the path first, then as Answer."""


def answering(answer: Answer, certificate: Path | None = None) -> AbstractContextManager[str]:
    """As serving(), whatever the path."""
    return serving(lambda method, path, text, headers: answer(text, headers), certificate)


@contextmanager
def serving(serve: Serve, certificate: Path | None = None) -> Iterator[str]:
    """Its URL; it listens inside the block. certificate: PEM file with its key; without one it speaks no TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            status, told = serve(self.command, self.path, text, self.headers)
            body = told.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http{'s' if certificate else ''}://127.0.0.1:{listening.server_port}/"
        listening.shutdown()
