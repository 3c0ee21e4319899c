"""Messages to a real HTTP server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from exporter.announce.webhook import Webhook


class Hook(ThreadingHTTPServer):
    """status: what it answers. got: path, type and body of what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.got = 200, list[tuple[str, str, bytes]]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook/s3cret?key=s3cret"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_what_is_posted_is_the_message(hook: Hook) -> None:
    """One request for each, as JSON, to the whole address."""
    webhook = Webhook(hook.url)
    assert webhook.send({"order": b'{"a":1}', "click": b"{}"}) == {}
    assert webhook.send({"order": b'{"a":2}'}) == {}
    webhook.close()
    path, kind = "/hook/s3cret?key=s3cret", "application/json"
    assert sorted(hook.got) == [(path, kind, b'{"a":1}'), (path, kind, b'{"a":2}'), (path, kind, b"{}")]


@pytest.mark.parametrize("status", [301, 400, 404, 429, 500, 503])
def test_any_other_status_is_no_acknowledgement(hook: Hook, status: int) -> None:
    """A redirect among them, which is not followed; what is told has nothing of the address but the server."""
    hook.status = status
    webhook = Webhook(hook.url)
    told = webhook.send({"order": b"{}"})
    assert told == {"order": f"http://127.0.0.1:{hook.server_port}: HTTP {status}"}
    hook.status = 204
    assert webhook.send({"order": b"{}"}) == {}
    webhook.close()


def test_a_server_that_is_not_there_is_told_by_its_name(hook: Hook) -> None:
    """And it is tried anew by the next one, once it is."""
    hook.server_close()
    told = Webhook(hook.url).send({"order": b"{}", "click": b"{}"})
    assert set(told) == {"order", "click"}
    assert "s3cret" not in str(told)
