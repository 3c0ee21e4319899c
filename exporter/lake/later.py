"""A session of Spark that is started when it is first asked for: whoever only looks at tables never asks."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any


def _nothing(session: Any) -> None:
    """Of one that somebody else ends."""


class Later:
    """One session, or none yet. start: makes it, stop: ends it; whoever asks first waits for the start.

    on_cluster: whether its tasks run on other machines.
    """

    def __init__(
        self, start: Callable[[], Any], stop: Callable[[Any], object] = _nothing, on_cluster: bool = False
    ) -> None:
        self.on_cluster = on_cluster
        self._start = start
        self._stop = stop
        self._lock = Lock()
        self._session: Any = None

    @classmethod
    def of(cls, session: Any, stop: Callable[[Any], object] = _nothing) -> Later:
        """A session that is there already."""
        made = cls(lambda: session, stop)
        made._session = session
        return made

    @property
    def started(self) -> bool:
        """Whether it is there."""
        return self._session is not None

    @property
    def session(self) -> Any:
        """Raises what the start raises, each time."""
        with self._lock:
            if self._session is None:
                self._session = self._start()
            return self._session

    def stop(self) -> None:
        """Ends it, if it was started."""
        if self._session is not None:
            self._stop(self._session)
