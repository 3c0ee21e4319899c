"""The health server: endpoints over the loop's latest snapshot; it takes no lock and asks nobody else.

    /          a page for people: what /status says, with charts of the last hour
    /healthz   200 while each iteration of the loop ends within its own bound, else 503: the process hangs, end it
    /readyz    200 if everything that is owned is recovered and all that is needed answers, else 503 and the reason
    /metrics   Prometheus text
    /status    JSON: per partition, table and position what is committed, read and staged
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from exporter.display.live import SCRIPT, live_page
from exporter.display.style import policy
from exporter.errors import ConfigError
from exporter.listening import family_of
from exporter.monitor.history import EVERY_SECS, PointHistory
from exporter.monitor.metrics import registry
from exporter.monitor.watch import Watch

STARTING = {"ready": False, "not_ready": "it is starting"}
START_SECS_MAX = 300.0
"""How long a start may take until the first iteration of the loop: jars, JVM, group."""
TICK_SECS_MAX = 120.0
"""How long one iteration of the loop may take: several calls to brokers that do not answer, 10 s each. Partitions are
recovered beside it; a step of that may take a round and more."""
ENDPOINTS = ("/", "/healthz", "/readyz", "/metrics", "/status")
PAGE_SECS = 2.0
"""For so long a page that was made is served again, however many look at it."""
PAGE_SHARE = 0.05
"""Of the time, at most, is spent on pages: that of many thousand positions takes longer, and is made more rarely."""
PAGE_HEADERS = (
    ("Content-Security-Policy", f"{policy(SCRIPT)}; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Health:
    """A WSGI application over one task's watch. busy_secs_max: bound of a step in which partitions are recovered."""

    def __init__(self, watch: Watch, busy_secs_max: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._busy_secs_max = busy_secs_max
        self._clock = clock
        self._metrics = make_wsgi_app(registry(lambda: watch.snapshot))
        self._history = PointHistory()
        self._page, self._page_until = "", float("-inf")

    def late(self) -> str:
        """Why the loop must be taken for hung; empty if it is not."""
        now, snapshot, busy_since = self._clock(), self._watch.snapshot, self._watch.busy_since
        bounds = []
        if busy_since is not None:
            bounds.append(("recovering partitions", busy_since, self._busy_secs_max))
        if snapshot is not None:
            bounds.append(("one iteration of the loop", snapshot.at, TICK_SECS_MAX))
        if not bounds:
            bounds.append(("the start", self._watch.started, START_SECS_MAX))
        overdue = (
            f"{what} has taken {now - since:.0f} s, {most:.0f} s at most"
            for what, since, most in bounds
            if now - since > most
        )
        return next(overdue, "")

    def not_ready(self) -> str:
        """Why the task is not at work with all that it owns; empty if it is."""
        snapshot = self._watch.snapshot
        return self.late() or (snapshot.not_ready if snapshot is not None else str(STARTING["not_ready"]))

    def note(self) -> None:
        """Take a point for the charts of the page, of the moment that the task is at."""
        self._history.note(self._watch.snapshot)

    def status(self) -> dict[str, Any]:
        """What /status answers, ready for JSON."""
        snapshot = self._watch.snapshot
        if snapshot is None:
            return {"app": self._watch.app, **STARTING, "hangs": self.late()}
        ends_secs = None if snapshot.ends_at is None else self._clock() - snapshot.ends_at
        return {**snapshot.as_dict(), "ends_secs": ends_secs, "hangs": self.late()}

    def page(self) -> str:
        """What / answers: a page that is PAGE_SECS old at most, or as old as PAGE_SHARE asks for."""
        if (began := self._clock()) > self._page_until:
            self._page = live_page(self.status(), self._history.points)
            took = self._clock() - began
            self._page_until = began + max(PAGE_SECS, took / PAGE_SHARE)
        return self._page

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _text(start_response, "405 Method Not Allowed", "only GET and HEAD")
        answer = self._answered({**environ, "REQUEST_METHOD": "GET"}, start_response)  # metrics know no other
        return answer if environ["REQUEST_METHOD"] == "GET" else ()

    def _answered(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return self._measured(environ, start_response)
        if path in ("/healthz", "/readyz"):
            trouble = self.late() if path == "/healthz" else self.not_ready()
            return _text(start_response, "503 Service Unavailable" if trouble else "200 OK", trouble or "ok")
        if path == "/status":
            return _answer(start_response, "200 OK", "application/json", json.dumps(self.status()))
        if path in ("", "/"):
            return _answer(start_response, "200 OK", "text/html; charset=utf-8", self.page(), PAGE_HEADERS)
        return _text(start_response, "404 Not Found", "there is: " + ", ".join(ENDPOINTS))

    def _measured(self, environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        """With its length, which nobody else can tell of an answer whose body is left out."""
        told: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self._metrics(environ, lambda status, headers: told.append((status, headers))))
        for status, headers in told:
            start_response(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]


def _text(start_response: StartResponse, status: str, text: str) -> list[bytes]:
    return _answer(start_response, status, "text/plain; charset=utf-8", text + "\n")


def _answer(
    start_response: StartResponse, status: str, kind: str, text: str, more: Sequence[tuple[str, str]] = ()
) -> list[bytes]:
    body = text.encode()
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    start_response(status, [*headers, *more])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    """One thread per request, none of which holds up the end of the process."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Without the look-up of this machine's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Quiet(WSGIRequestHandler):
    """Probes come every few seconds: they are not logged, and a silent client is not waited for."""

    timeout = 10

    def log_message(self, format: str, *args: Any) -> None:
        return None


class HealthServer:
    """Serves until close(). port 0: a free one (the setting's 0 means that none of this is made)."""

    def __init__(self, host: str, port: int, app: Health) -> None:
        """Raises ConfigError if nobody may listen there."""
        server_class = type("_ServerOfFamily", (_Server,), {"address_family": family_of(host)})
        try:
            self._server: WSGIServer = server_class((host, port), _Quiet)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error}", "choose another `http_port` or `http_host`"
            ) from error
        self._server.set_app(app)
        self.port: int = self._server.server_port
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="health", daemon=True),
            threading.Thread(target=self._note, args=(app,), name="history", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _note(self, app: Health) -> None:
        """A thread of its own: what it trips over takes no probe along."""
        while not self._closed.wait(EVERY_SECS):
            app.note()

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(timeout=5)
