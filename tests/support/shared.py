"""Services that all test processes of a run share, kept by the process that started them.

    worker: fixture `kafka` --"kafka"--> Keeper: starts it when it is first asked for --address--> worker

A server ends with the keeper's process, whatever ends that (exporter/local/server.py), and with nothing else: a test
process may come late or die. Where tests run in one process, that starts what it needs by itself.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import pytest

from tests.support import services

KEEPER = "keeper"
"""Name of the keeper's address in what a test process is told."""
START_SECS_MAX = 700.0
"""What a test process waits for an address; each server's own deadline is shorter."""


class Keeper:
    """Starts each of services.ADDRESSES once, in threads of this process; `close` ends them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="exporter-tests-")
        self.address = str(Path(self._folder.name) / "services")
        self._listener = Listener(self.address, family="AF_UNIX")
        self._servers = ExitStack()
        self._found: dict[str, str] = {}
        self._turns = {name: threading.Lock() for name in services.ADDRESSES}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                asked = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: Connection) -> None:
        with asked:
            name = asked.recv()
            try:
                asked.send((self.of(name), ""))
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                asked.send(("", f"{type(error).__name__}: {error}"))

    def of(self, name: str) -> str:
        """Where the service is; whatever its start raises."""
        with self._turns[name]:
            if name not in self._found:
                self._found[name] = self._servers.enter_context(services.ADDRESSES[name]())
            return self._found[name]

    def close(self) -> None:
        self._listener.close()
        self._servers.close()
        self._folder.cleanup()


@contextmanager
def service(name: str, config: pytest.Config) -> Iterator[str]:
    """Where one of services.ADDRESSES is."""
    worker: Mapping[str, str] = getattr(config, "workerinput", {})
    if KEEPER not in worker:
        with services.ADDRESSES[name]() as address:
            yield address
        return
    with Client(worker[KEEPER], family="AF_UNIX") as keeper:
        keeper.send(name)
        if not keeper.poll(START_SECS_MAX):
            raise RuntimeError(f"no address of {name} within {START_SECS_MAX} s")
        address, failed = keeper.recv()
    if failed:
        raise RuntimeError(f"{name} did not start: {failed}")
    yield address
