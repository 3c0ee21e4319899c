"""A schema registry in this process, as Confluent's answers, that can be made to misbehave in any way.

    with FakeRegistry() as registry:
        number = registry.add("orders-value", '{"type": "long"}')
        registry.failure = Failure(503, b"sorry")     # until it is None again
        registry.wipe()
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_OID, uuid5

JSON_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True)
class Failure:
    """What every request is answered instead. after_secs: before the head; drip_secs: between single bytes of the body,
    drip_head: of the head too.

    hang_up: the connection is closed without a word.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after_secs: float = 0.0
    drip_secs: float = 0.0
    drip_head: bool = False
    hang_up: bool = False
    paths: str = ".*"


class FakeRegistry:
    """schemas: id -> what was registered. requests: (path, headers) of all that came, in order. has_guids: whether it
    is of a version that has them."""

    def __init__(self, authorization: str = "", certificate: Path | None = None, clients: Path | None = None) -> None:
        """authorization: the header that it asks for. certificate: PEM of its key and certificate: it speaks TLS.
        clients: PEM of the authority whose certificates clients have to show."""
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.failure: Failure | None = None
        self.on_request: Callable[[str], None] | None = None
        self.next_id = 1
        self.has_guids = True
        self._authorization = authorization
        self._closing = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry._handle(self, b"")

            def do_POST(self) -> None:
                registry._handle(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(str(certificate))
            if clients:
                context.load_verify_locations(str(clients))
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        """Of all requests."""
        return [path for path, _ in self.requests]

    def add(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
        number: int | None = None,
    ) -> int:
        """Register a schema, under its old id if there is one; number: the id that it is to have."""
        made = {"schema": text, "schemaType": kind, "references": [dict(one) for one in references]}
        found = next((one for one, there in self.schemas.items() if there == made), None)
        number = number or found or self.next_id
        self.next_id = max(self.next_id, number + 1)
        self.schemas[number] = made
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def guid(self, number: int) -> str:
        """The GUID of a schema: one of what it says, whatever its id."""
        return str(uuid5(NAMESPACE_OID, json.dumps(self.schemas[number], sort_keys=True)))

    def wipe(self, next_id: int = 1) -> None:
        """Forget everything. next_id: of what is registered then."""
        self.schemas, self.subjects, self.next_id = {}, {}, next_id

    def __enter__(self) -> FakeRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handle(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append((request.path, dict(request.headers.items())))
        if self.on_request:
            self.on_request(request.path)
        failure = self.failure
        if failure and re.fullmatch(failure.paths, request.path):
            return self._fail(request, failure)
        if self._authorization and request.headers.get("Authorization") != self._authorization:
            return _send(request, 401, _error(401, "Unauthorized"))
        status, answer = self._answer(unquote(urlsplit(request.path).path), body)
        return _send(request, status, json.dumps(answer).encode())

    def _told(self, number: int) -> dict[str, Any]:
        return {**self.schemas[number], **({"guid": self.guid(number)} if self.has_guids else {})}

    def _fail(self, request: BaseHTTPRequestHandler, failure: Failure) -> None:
        self._closing.wait(failure.after_secs)
        request.close_connection = True
        if failure.hang_up:
            return
        head = b"HTTP/1.1 %d\r\nContent-Length: %d\r\n\r\n" % (failure.status, len(failure.body))
        try:
            if not failure.drip_head:
                _head(request, failure.status, len(failure.body), failure.headers)
            for byte in (head if failure.drip_head else b"") + failure.body if failure.drip_secs else ():
                request.wfile.write(bytes([byte]))
                if self._closing.wait(failure.drip_secs):
                    return
            if not failure.drip_secs:
                request.wfile.write(failure.body)
        except OSError:
            return

    def _answer(self, path: str, body: bytes) -> tuple[int, Any]:
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            schema = self.schemas.get(int(found[1]))
            return (200, schema) if schema else (404, json.loads(_error(40403, "Schema not found")))
        if self.has_guids and (found := re.fullmatch(r"/schemas/guids/([0-9a-f-]{36})", path)):
            number = next((one for one in self.schemas if self.guid(one) == found[1]), 0)
            return (200, self._told(number)) if number else (404, json.loads(_error(40403, "Schema not found")))
        if path == "/subjects":
            return 200, sorted(self.subjects)
        found = re.fullmatch(r"/subjects/([^/]+(?:/[^/]+)*?)(/versions(?:/(\w+))?)?", path)
        if not found:
            return 404, json.loads(_error(404, "HTTP 404 Not Found"))
        subject, versions, version = found.groups()
        if body:
            asked = json.loads(body)
            kind, references = asked.get("schemaType", "AVRO"), asked.get("references") or ()
            number = self.add(subject, asked["schema"], kind, references)
            at = self.subjects[subject].index(number) + 1
            return 200, {"id": number, "version": at, "subject": subject, **self._told(number)}
        ids = self.subjects.get(subject)
        if ids is None or not versions:
            return 404, json.loads(_error(40401, f"Subject '{subject}' not found."))
        if version is None:
            return 200, [*range(1, len(ids) + 1)]
        at = len(ids) if version == "latest" else int(version)
        if not 1 <= at <= len(ids):
            return 404, json.loads(_error(40402, f"Version {version} not found."))
        return 200, {"subject": subject, "version": at, "id": ids[at - 1], **self.schemas[ids[at - 1]]}


def _error(code: int, message: str) -> bytes:
    return json.dumps({"error_code": code, "message": message}).encode()


def _head(request: BaseHTTPRequestHandler, status: int, length: int, headers: Mapping[str, str]) -> None:
    request.send_response(status)
    for name, text in {"Content-Type": JSON_TYPE, "Content-Length": str(length), **headers}.items():
        request.send_header(name, text)
    request.end_headers()


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    _head(request, status, len(body), {})
    request.wfile.write(body)


def wait_for(condition: Callable[[], bool], secs: float = 10.0) -> None:
    """Return when it holds; RuntimeError if it does not in time."""
    deadline = time.monotonic() + secs
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("it did not come to be")
        time.sleep(0.01)  # pace of the polling, bounded by the deadline
