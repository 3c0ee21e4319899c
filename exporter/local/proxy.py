"""A faulty HTTP proxy before a server on this machine, for the drill and the tests: what clients see of its bad days.

    client ──> down? ──> slow? ──> throttled? ──> server ──> reply lost? failed? ──> client

Every request goes on as it came, head and body, block by block: so nothing here grows with what passes. What is wrong
is one value that may be exchanged at any moment; requests that come from then on have it.

A request that hangs is sent on when the proxy is up again, also if its client has given it up: as a server does that
was asleep, and as a network may.
"""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from exporter.local.server import free_ports

if TYPE_CHECKING:
    from typing_extensions import Self

CONNECTIONS_MAX = 512
"""More are closed as soon as they come."""
IDLE_SECS_MAX = 300.0
REPLY_SECS_MAX = 120.0
BLOCK_BYTES = 1 << 16
HOP = frozenset({"connection", "keep-alive", "expect", "transfer-encoding", "proxy-connection"})
"""Headers that are of one connection only."""
SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
INTERNAL = (500, "InternalError", "We encountered an internal error. Please try again.")
NO_LINGER = struct.pack("ii", 1, 0)
"""A socket that is closed with it resets its connection."""


class Down(Enum):
    """REFUSES: nothing listens, and open connections are reset. HANGS: requests are taken, and not answered."""

    NO = auto()
    REFUSES = auto()
    HANGS = auto()


@dataclass(frozen=True)
class Troubles:
    """What goes wrong from now on. Without arguments: nothing.

    throttled: share of the requests that are told to slow down, before the server sees them. delay_secs: that each
    request waits. lost_every: of so many PUTs one has no reply, after the server has done it; failed_every: of so many
    one is told that it failed, after the server has done it; 0: none. path: only requests with this text in their
    decoded target have these troubles. down: for all.
    """

    throttled: float = 0.0
    delay_secs: float = 0.0
    lost_every: int = 0
    failed_every: int = 0
    path: str = ""
    down: Down = Down.NO


WELL = Troubles()


class RequestFate(Enum):
    """What becomes of one request."""

    PASSED = auto()
    THROTTLED = auto()
    LOST = auto()
    FAILED = auto()


class FaultyProxy:
    """Listens on a port of 127.0.0.1, in threads of this process; as a context manager inside the block.

    `troubles` is set by one thread; `requests` and `fates` count on while others read them.
    """

    def __init__(self, target: str, seed: int = 0) -> None:
        """target: http://host:port of the server, which need not run yet. seed: of who is throttled."""
        address = urlsplit(target)
        self._target = (address.hostname or "127.0.0.1", address.port or 80)
        (self._port,) = free_ports(1)
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._up = threading.Event()
        self._closed = threading.Event()
        self._server: _Server | None = None
        self._troubles = WELL
        self._puts = 0
        self.requests: Counter[str] = Counter()
        """Kind (kind_of) -> requests that came."""
        self.fates: Counter[RequestFate] = Counter()
        """What became of them."""

    @property
    def endpoint(self) -> str:
        """Address for clients, the same whatever happens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def troubles(self) -> Troubles:
        return self._troubles

    @troubles.setter
    def troubles(self, troubles: Troubles) -> None:
        self._troubles = troubles
        if troubles.down is Down.HANGS:
            self._up.clear()
        else:
            self._up.set()
        if troubles.down is Down.REFUSES:
            self._stop()
        elif not self._closed.is_set():
            self._listen()

    def start(self) -> None:
        """Listen. Does nothing if it does."""
        self._closed.clear()
        self.troubles = self._troubles

    def close(self) -> None:
        """Listen no more, and reset what is open."""
        self._closed.set()
        self._up.set()
        self._stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> http.client.HTTPConnection:
        """A connection to the server, opened with its first request."""
        return http.client.HTTPConnection(*self._target, timeout=REPLY_SECS_MAX)

    def fate(self, method: str, target: str, kind: str) -> RequestFate:
        """Let a request wait as long as it has to; what is to become of it then."""
        with self._lock:
            self.requests[kind] += 1
        self._up.wait()
        troubles = self._troubles
        if troubles.path not in unquote(target):
            troubles = WELL
        self._closed.wait(troubles.delay_secs)
        with self._lock:
            fate = self._drawn(troubles, method)
            self.fates[fate] += 1
        return fate

    def _drawn(self, troubles: Troubles, method: str) -> RequestFate:
        if self._random.random() < troubles.throttled:
            return RequestFate.THROTTLED
        if method == "PUT":
            self._puts += 1
            if _hits(self._puts, troubles.lost_every):
                return RequestFate.LOST
            if _hits(self._puts, troubles.failed_every):
                return RequestFate.FAILED
        return RequestFate.PASSED

    def _listen(self) -> None:
        if self._server is None:
            self._server = _Server(("127.0.0.1", self._port), self)
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.reset()
            self._server = None


def kind_of(method: str, target: str, headers: Iterable[str]) -> str:
    """What a request of S3's is counted as: its method, LIST, or PUT-IF for one with a condition."""
    names = {name.lower() for name in headers}
    if method == "PUT" and names & {"if-none-match", "if-match"}:
        return "PUT-IF"
    return "LIST" if method == "GET" and "list-type=" in target else method


def _hits(number: int, every: int) -> bool:
    return every > 0 and number % every == 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], proxy: FaultyProxy) -> None:
        self.proxy = proxy
        self._open: set[Any] = set()
        self._changing = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            full = len(self._open) >= CONNECTIONS_MAX
            if not full:
                self._open.add(request)
        if full:
            request.close()
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away and servers are killed: both ends see that by themselves."""

    def reset(self) -> None:
        """Reset all connections. Their threads end by that."""
        with self._changing:
            for request in self._open:
                with suppress(OSError):
                    request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                    request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and one to the server. What goes wrong with either ends both."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECS_MAX
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream = self.server.proxy.connect()

    def finish(self) -> None:
        self._upstream.close()
        with suppress(OSError):
            super().finish()

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def _pass(self) -> None:
        fate = self.server.proxy.fate(self.command, self.path, kind_of(self.command, self.path, self.headers))
        if fate is RequestFate.THROTTLED:
            for _ in _body(self.rfile, self.headers):
                pass
            self._refuse(*SLOW_DOWN)
            return
        reply = self._forwarded()
        if fate is RequestFate.LOST:
            self.close_connection = True
        elif fate is RequestFate.FAILED:
            reply.read()
            self._refuse(*INTERNAL)
        else:
            self._return(reply)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

    def _forwarded(self) -> http.client.HTTPResponse:
        """Send the request on; the server's reply, its body unread."""
        chunked = _chunked(self.headers)
        self._upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP:
                self._upstream.putheader(name, value)
        if chunked:
            self._upstream.putheader("Transfer-Encoding", "chunked")
        self._upstream.endheaders()
        for block in _body(self.rfile, self.headers):
            self._upstream.send(block)
        return self._upstream.getresponse()

    def _return(self, reply: http.client.HTTPResponse) -> None:
        """The reply as it came; one without a length is cut anew."""
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        bare = self.command == "HEAD" or reply.status in (204, 304)
        chunked = not bare and reply.length is None
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if reply.will_close:
            self.send_header("Connection", "close")  # and the base class closes after it
        self.end_headers()
        while block := reply.read(BLOCK_BYTES):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """An error as S3 tells it."""
        body = f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Does nothing: requests are counted, not logged."""


def _chunked(headers: Any) -> bool:
    return "chunked" in str(headers.get("Transfer-Encoding", "")).lower()


def _body(read: BufferedIOBase, headers: Any) -> Iterable[bytes]:
    """A request's body in blocks, as it stands on the wire: chunks with their sizes and trailers, too."""
    if not _chunked(headers):
        yield from _blocks(read, int(headers.get("Content-Length", 0)))
        return
    size = -1
    while size != 0:
        line = read.readline(BLOCK_BYTES)
        size = int(line.partition(b";")[0], 16)
        yield line
        yield from _blocks(read, size + 2 if size else 0)
    line = b""
    while line != b"\r\n":
        line = read.readline(BLOCK_BYTES)
        if not line:
            raise ConnectionError("the client has gone in the middle of its trailers")
        yield line


def _blocks(read: BufferedIOBase, size: int) -> Iterable[bytes]:
    while size:
        block = read.read(min(size, BLOCK_BYTES))
        if not block:
            raise ConnectionError("the client has gone in the middle of its request")
        size -= len(block)
        yield block
