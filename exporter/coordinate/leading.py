"""Who leads, where no lease says so: the task that owns the least partition of the topics. A hint (protocol 4.11)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future

from exporter.errors import ExporterError
from offsets.ranges import TopicPartition

Partitions = frozenset[TopicPartition]


class OwnsLeast:
    """A Leadership: this task's, while the least of all partitions is."""

    def __init__(
        self, owned: Callable[[], Collection[TopicPartition]], everything: Callable[[], Collection[TopicPartition]]
    ) -> None:
        """owned: what is this task's now. everything: all partitions of the topics, none while they are not known."""
        self._owned = owned
        self._everything = everything

    def is_mine(self) -> bool:
        return min(self._everything(), default=None) in self._owned()

    def close(self) -> None:
        """Nothing to give up: who owns the partition next leads."""


class AllPartitions:
    """All partitions of the topics, looked at every so often in the pool: whoever asks does not wait for a broker."""

    def __init__(
        self,
        look: Callable[[], Collection[TopicPartition]],
        pool: Executor,
        refresh_secs: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """look: asks the brokers; raises ExporterError where they do not answer."""
        self._look = look
        self._pool = pool
        self._refresh_secs = refresh_secs
        self._clock = clock
        self._next_look = float("-inf")
        self._looking: Future[Collection[TopicPartition]] | None = None
        self._known: Partitions = frozenset()

    def __call__(self) -> Partitions:
        """As far as they are known. For one thread."""
        if self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            self._take(looked)
        if self._looking is None and self._clock() >= self._next_look:
            self._next_look = self._clock() + self._refresh_secs
            self._looking = self._pool.submit(self._look)
        return self._known

    def _take(self, looked: Future[Collection[TopicPartition]]) -> None:
        """A broker that was silent is asked again soon."""
        try:
            self._known = frozenset(looked.result())
        except ExporterError:
            self._next_look = self._clock() + min(1.0, self._refresh_secs)
