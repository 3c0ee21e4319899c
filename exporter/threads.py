"""The one place from which a task has threads, and what threads wait for. tests/sim runs all of them in one.

Rooms that a task's loop reaches make no thread, pool, event or lock elsewhere (tests/test_tidy.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Thread(Protocol):
    """A thread that is running, and for which no end of the process waits."""

    def join(self, timeout: float | None = None) -> None: ...


class Threads:
    """The threads of this process, as Python has them."""

    def pool(self, most: int, name: str) -> Executor:
        return ThreadPoolExecutor(most, thread_name_prefix=name)

    def started(self, run: Callable[[], Any], name: str) -> Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def event(self) -> threading.Event:
        return threading.Event()

    def lock(self) -> AbstractContextManager[Any]:
        return threading.RLock()

    def wait(self, running: Collection[Future[Any]], secs: float) -> None:
        futures.wait(running, secs)


_threads = Threads()


def run_threads_by(threads: Threads) -> Threads:
    """Put others in the place of those so far, which are returned."""
    global _threads
    before, _threads = _threads, threads
    return before


def pool(most: int, name: str) -> Executor:
    """A pool of so many threads at most. name: how those of its threads begin."""
    return _threads.pool(most, name)


def started(run: Callable[[], Any], name: str) -> Thread:
    """A thread that runs this, and for whose end no end of the process waits."""
    return _threads.started(run, name)


def event() -> threading.Event:
    """One that is not set."""
    return _threads.event()


def lock() -> AbstractContextManager[Any]:
    """One that the thread that holds it may take again."""
    return _threads.lock()


def wait(running: Collection[Future[Any]], secs: float) -> None:
    """Until all of these have ended, for so many seconds at most."""
    _threads.wait(running, secs)
