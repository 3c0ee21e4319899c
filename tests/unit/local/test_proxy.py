"""The faulty proxy: what it lets pass is untouched, and each of its troubles is what it says."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from exporter.local.proxy import Down, FaultyProxy, RequestFate, Troubles

BIG = bytes(range(256)) * 4096


class Origin(ThreadingHTTPServer):
    """Keeps what it is sent, and gives it back; `/chunked` in two chunks."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Keeper)
        self.kept: dict[str, bytes] = {}
        self.heads: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Keeper(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin

    def do_PUT(self) -> None:
        self.server.heads.append(dict(self.headers))
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                body += self.rfile.read(size + 2)[:size]
            while self.rfile.readline() != b"\r\n":
                pass
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.kept[self.path] = body
        self.answer(b"")

    def do_GET(self) -> None:
        if self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        else:
            self.answer(self.server.kept.get(self.path, b""))

    do_HEAD = do_GET

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(origin: Origin) -> Iterator[FaultyProxy]:
    with FaultyProxy(origin.url) as proxy:
        yield proxy


def connected(proxy: FaultyProxy, timeout: float = 10.0) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=timeout)


def asked(client: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    client.request(method, path, body)
    reply = client.getresponse()
    return reply.status, reply.read()


def raw(proxy: FaultyProxy, *parts: bytes) -> socket.socket:
    address = urlsplit(proxy.endpoint)
    client = socket.create_connection((address.hostname, address.port), timeout=10.0)
    for part in parts:
        client.sendall(part)
    return client


def test_requests_pass_as_they_came_over_one_connection(proxy: FaultyProxy, origin: Origin) -> None:
    """Bodies of any size, headers, HEAD with its length and no body, replies in chunks; and they are counted."""
    client = connected(proxy)
    client.request("PUT", "/lake/a%20b?x=1", BIG, {"If-None-Match": "*", "x-amz-meta-k": "v"})
    reply = client.getresponse()
    assert (reply.status, reply.read(), reply.headers["ETag"]) == (200, b"", '"e"')
    assert asked(client, "GET", "/lake/a%20b?x=1") == (200, BIG)
    client.request("HEAD", "/lake/a%20b?x=1")
    reply = client.getresponse()
    assert (reply.headers["Content-Length"], reply.read()) == (str(len(BIG)), b"")
    assert asked(client, "GET", "/chunked") == (200, b"abcde")
    assert asked(client, "GET", "/?list-type=2&prefix=a") == (200, b"")
    assert origin.heads[0]["If-None-Match"] == "*" and origin.heads[0]["x-amz-meta-k"] == "v"
    assert origin.heads[0]["Host"] == urlsplit(proxy.endpoint).netloc, "it is signed"
    assert proxy.requests == {"PUT-IF": 1, "GET": 2, "HEAD": 1, "LIST": 1}
    assert proxy.fates == {RequestFate.PASSED: 5}


def test_chunks_with_trailers_pass_as_they_stand(proxy: FaultyProxy, origin: Origin) -> None:
    """AWS's newer SDKs send their checksums behind the body."""
    head = b"PUT /chunks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nx-amz-trailer: sum\r\n\r\n"
    with raw(proxy, head, b"4;s=1\r\nabcd\r\n", b"2\r\nef\r\n0\r\nsum: 1\r\n\r\n") as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert origin.kept["/chunks"] == b"abcdef"


def test_a_client_that_waits_for_100_continue_gets_it(proxy: FaultyProxy, origin: Origin) -> None:
    """s3a asks so before it sends a body."""
    head = b"PUT /expected HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with raw(proxy, head) as client:
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    assert origin.kept["/expected"] == b"abc" and "Expect" not in origin.heads[0]


def test_of_so_many_puts_one_is_done_and_its_reply_lost(proxy: FaultyProxy, origin: Origin) -> None:
    """The server has what the client knows nothing of; reads are never lost."""
    proxy.troubles = Troubles(lost_every=3)
    ends = []
    for number in range(6):
        client = connected(proxy)
        assert asked(client, "GET", "/chunked")[0] == 200
        try:
            ends.append(asked(client, "PUT", f"/{number}", b"x")[0])
        except (http.client.RemoteDisconnected, ConnectionError):
            ends.append(0)
    assert ends == [200, 200, 0, 200, 200, 0] and len(origin.kept) == 6
    assert proxy.fates[RequestFate.LOST] == 2


def test_of_so_many_puts_one_is_done_and_told_to_have_failed(proxy: FaultyProxy, origin: Origin) -> None:
    """500 after success; the connection stays."""
    proxy.troubles = Troubles(failed_every=2)
    client = connected(proxy)
    told = [asked(client, "PUT", f"/{number}", b"x") for number in range(4)]
    assert [status for status, _ in told] == [200, 500, 200, 500] and b"InternalError" in told[1][1]
    assert len(origin.kept) == 4


def test_a_share_of_requests_is_told_to_slow_down_before_the_server_sees_them(
    proxy: FaultyProxy, origin: Origin
) -> None:
    """503 SlowDown, also for HEAD, which has no body; the connection stays."""
    proxy.troubles = Troubles(throttled=0.5)
    client = connected(proxy)
    told = [asked(client, "PUT", f"/{number}", BIG) for number in range(40)]
    passed = sum(status == 200 for status, _ in told)
    assert passed == len(origin.kept) and 8 < passed < 32
    assert all(b"SlowDown" in body for status, body in told if status == 503)
    proxy.troubles = Troubles(throttled=1.0)
    assert asked(client, "HEAD", "/1") == (503, b"") and asked(client, "GET", "/1")[0] == 503
    proxy.troubles = Troubles()
    assert asked(client, "GET", "/1")[0] == 200


def test_requests_of_a_path_alone_have_its_troubles(proxy: FaultyProxy) -> None:
    """One table's, say: its name is in the target of all that is asked of it, encoded or not."""
    proxy.troubles = Troubles(throttled=1.0, path="lake/order/")
    client = connected(proxy)
    assert asked(client, "GET", "/?list-type=2&prefix=lake%2Forder%2F")[0] == 503
    assert asked(client, "PUT", "/lake/order/x", b"x")[0] == 503
    assert asked(client, "PUT", "/lake/click/x", b"x")[0] == 200


def test_each_request_waits_as_long_as_it_is_told(proxy: FaultyProxy) -> None:
    """So that a store is slow, and not out."""
    proxy.troubles = Troubles(delay_secs=0.2)
    began = time.monotonic()
    assert asked(connected(proxy), "GET", "/chunked")[0] == 200
    assert time.monotonic() - began >= 0.2


def test_a_proxy_that_refuses_resets_what_is_open_and_comes_back_on_its_port(proxy: FaultyProxy) -> None:
    """Nothing listens meanwhile."""
    client = connected(proxy)
    assert asked(client, "GET", "/chunked")[0] == 200
    for _ in range(2):
        proxy.troubles = Troubles(down=Down.REFUSES)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            asked(client, "GET", "/chunked")
        with pytest.raises(ConnectionRefusedError):
            asked(connected(proxy), "GET", "/chunked")
        proxy.troubles = Troubles()
        client = connected(proxy)
        assert asked(client, "GET", "/chunked")[0] == 200


def test_what_hung_is_done_later_though_its_client_has_gone(proxy: FaultyProxy, origin: Origin) -> None:
    """As by a server that was asleep: a request that was given up may still come."""
    proxy.troubles = Troubles(down=Down.HANGS)
    with pytest.raises(TimeoutError):
        asked(connected(proxy, timeout=0.2), "PUT", "/late", b"x")
    assert not origin.kept
    proxy.troubles = Troubles()
    deadline = time.monotonic() + 10
    while not origin.kept and time.monotonic() < deadline:
        time.sleep(0.01)
    assert origin.kept == {"/late": b"x"}


def test_a_server_that_is_gone_ends_its_clients_connections(proxy: FaultyProxy, origin: Origin) -> None:
    """The proxy makes up no answers of its own."""
    with FaultyProxy("http://127.0.0.1:9") as alone, pytest.raises((http.client.HTTPException, ConnectionError)):
        asked(connected(alone), "GET", "/")
