"""How the thread that runs jobs is stopped, also in the middle of a long Spark job."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from exporter.aside import aside

CANCEL_SECS = 0.2


class Stopping:
    """Of one thread, whose Spark jobs are one group; what it had not committed the next process does again."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._group = f"derive-{uuid.uuid4().hex}"
        self._asked = threading.Event()
        self._wake = threading.Event()
        self._left = threading.Event()

    def asked(self) -> bool:
        """Whether it is to stop."""
        return self._asked.is_set()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Around all that the thread does."""
        self._context.setJobGroup(self._group, "exporter derive")
        try:
            yield
        finally:
            self._left.set()

    def rest(self, secs: float) -> None:
        """Wait for so long; less if there is something to do, or nothing any more."""
        self._wake.wait(secs)
        self._wake.clear()

    def pause(self, secs: float) -> None:
        """Wait for so long, whatever there is to do; less only if it is to stop."""
        self._asked.wait(secs)

    def wake(self) -> None:
        """End a rest; callable from every thread."""
        self._wake.set()

    def ask(self) -> None:
        """Callable from every thread, and waits for nothing: a JVM need not answer."""
        if not self._asked.is_set():
            self._asked.set()
            self._wake.set()
            aside("cancel", self._cancel)

    def _cancel(self) -> None:
        """Again and again, for what is cancelled may begin another Spark job."""
        while not self._left.wait(CANCEL_SECS):
            self._context.cancelJobGroup(self._group)
