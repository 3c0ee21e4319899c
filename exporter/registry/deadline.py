"""Requests that end in time, whatever drips: at the deadline their sockets are shut down.

A time-out of a socket counts from each byte anew, so that a server which sends its head, or its side of TLS, byte by
byte would outlast any.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import Any


class Deadline:
    """Of what is done while this is open. passed: whether it was too late for it."""

    def __init__(self, secs: float) -> None:
        self.passed = False
        self._held: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(secs, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for sock in self._held:
                sock.close()
            self._held.clear()

    def hold(self, sock: socket.socket) -> socket.socket:
        """The same socket, which from now on lasts no longer than this."""
        with self._lock:
            self._held.append(sock.dup())  # TLS takes the socket itself away from whoever has it
        if self.passed:
            self._pass()
        return sock

    def _pass(self) -> None:
        self.passed = True
        with self._lock:
            for sock in self._held:
                with suppress(OSError):  # the other side was faster
                    sock.shutdown(socket.SHUT_RDWR)


def pools(context: ssl.SSLContext | None, deadline: Deadline) -> Any:
    """urllib3's PoolManager, whose connections are held."""
    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
    from urllib3.connection import HTTPConnection, HTTPSConnection

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return deadline.hold(super()._new_conn())

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return deadline.hold(super()._new_conn())

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    manager = PoolManager(1, ssl_context=context)
    manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return manager
