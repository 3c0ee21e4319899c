"""Where the workers of executors get this process's token (DeskClient).

    GET / with `Authorization: Bearer <the desk's own key>`
    200  expires, in ms since 1970 \\n token
    403  another key        503  there is no token now: why not

So whatever a token is made from stays in this process, and stands in no option of Spark's. What does stand there, the
desk's address and key, leads nowhere once this process is gone.
"""

from __future__ import annotations

import functools
import hmac
import secrets
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from exporter.errors import DependencyUnreachable, ExporterError
from exporter.kafka.tokens.tokens import Token, Tokens
from exporter.listening import family_of
from exporter.secrets import keep_secret, masked

LOOPBACK = "127.0.0.1"
ASK_SECS = 10.0


@dataclass(frozen=True)
class DeskClient:
    """The desk, for who is in another process. url: of the desk. key: what it is asked with."""

    url: str
    key: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.url

    def current(self) -> Token:
        """The token that the driver has now. Raises DependencyUnreachable."""
        import urllib3

        try:
            with urllib3.PoolManager(1) as pool:
                headers = {"Authorization": f"Bearer {self.key}"}
                answer = pool.request("GET", self.url, headers=headers, timeout=ASK_SECS, retries=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise DependencyUnreachable(f"the driver gives no token: {type(error).__name__}", "see its log") from None
        text = answer.data.decode("utf-8", "replace")
        if answer.status != 200:
            raise DependencyUnreachable(f"the driver gives no token: {text}", "see its log")
        expires_ms, _, value = text.partition("\n")
        keep_secret(value)
        return Token(value, int(expires_ms) / 1000)


@functools.cache
def desk(tokens: Tokens, host: str) -> DeskClient:
    """The desk of these tokens, open for as long as this process lives. host: at which executors reach it."""
    key = secrets.token_urlsafe(32)
    keep_secret(key)
    server = _Desk(tokens, key, LOOPBACK if host == LOOPBACK else "::" if ":" in host else "0.0.0.0")
    threading.Thread(target=server.serve_forever, name="kafka-token-desk", daemon=True).start()
    return DeskClient(f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/", key)


class _Desk(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tokens: Tokens, key: str, bind: str) -> None:
        self.address_family = family_of(bind)
        self.tokens, self.expected = tokens, f"Bearer {key}"
        super().__init__((bind, 0), _Handler)

    def server_bind(self) -> None:
        """Without the look for this machine's name, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_port = self.socket.getsockname()[1]


class _Handler(BaseHTTPRequestHandler):
    server: _Desk
    timeout = ASK_SECS

    def do_GET(self) -> None:
        status, text = self._answer()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> tuple[int, str]:
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), self.server.expected.encode()):
            return 403, "another key"
        try:
            token = self.server.tokens.current()
        except ExporterError as error:
            return 503, masked(error.message)
        return 200, f"{int(token.expires * 1000)}\n{token.value}"

    def log_message(self, *_: object) -> None:
        """Nothing: it would go to standard error."""
