"""Who leads, where no lease says so: the task that owns the least partition of the topics. A hint (protocol 4.11)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from exporter.clock import monotonic
from exporter.errors import ExporterError
from offsets.ranges import TopicPartition

Partitions = frozenset[TopicPartition]


@dataclass(eq=False, repr=False)
class OwnsLeast:
    """A Leadership: this task's, while the least of all partitions is.

    owned: what is this task's now. everything: all partitions of the topics, none while they are not known.
    """

    owned: Callable[[], Collection[TopicPartition]]
    everything: Callable[[], Partitions]
    _of: Partitions | None = None
    _least: TopicPartition | None = None

    def is_mine(self) -> bool:
        """Asked many times a second: of thousands of partitions the least is looked for once."""
        if (everything := self.everything()) is not self._of:
            self._of, self._least = everything, min(everything, default=None)
        return self._least in self.owned()

    def close(self) -> None:
        """Nothing to give up: who owns the partition next leads."""


@dataclass(eq=False, repr=False)
class AllPartitions:
    """All partitions of the topics, looked at every so often in the pool: whoever asks does not wait for a broker.

    look: asks the brokers; raises ExporterError where they do not answer.
    """

    look: Callable[[], Collection[TopicPartition]]
    pool: Executor
    refresh_secs: float
    clock: Callable[[], float] = monotonic
    _next_look: float = float("-inf")
    _looking: Future[Collection[TopicPartition]] | None = None
    _known: Partitions = frozenset()

    def __call__(self) -> Partitions:
        """As far as they are known. For one thread."""
        if self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            self._take(looked)
        if self._looking is None and self.clock() >= self._next_look:
            self._next_look = self.clock() + self.refresh_secs
            self._looking = self.pool.submit(self.look)
        return self._known

    def _take(self, looked: Future[Collection[TopicPartition]]) -> None:
        """A broker that was silent is asked again soon."""
        try:
            self._known = frozenset(looked.result())
        except ExporterError:
            self._next_look = self.clock() + min(1.0, self.refresh_secs)
