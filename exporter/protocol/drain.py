"""The rounds of a drain: one at a time and waited for, under the rules of the loop's own rounds (protocol 3.7).

    a round ends well ───── what it staged is given back
    it comes to nothing ─── Interrupted: everything is read again after a pause; what failed is remembered here, so that
                            the next rounds are tried partition by partition, then by halves
    one record alone fails  it becomes a dead letter, and everything is read again at once

Before it reads and while it waits it asks whether it may go on: neither a stop nor the end of the JVM is waited out,
and nothing is condemned in a partition that was taken away. Nothing is decided here about positions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from exporter.core.manifest import RoundResult
from exporter.core.order import StagingOrder
from exporter.core.plan import Budget
from exporter.core.writers import PartitionPlan
from exporter.protocol.condemn import Poison, Poisoned
from exporter.rounds.rounds import Rounds
from offsets.ranges import TopicPartition

WAIT_SECS = 0.2


class Interrupted(Exception):
    """A drain was left as it is. Begun again later, by a full reading, it goes on where the tables are by then.

    pause_secs: how long to wait for that.
    """

    def __init__(self, why: str, pause_secs: float = 0.0) -> None:
        super().__init__(why)
        self.pause_secs = pause_secs


class DrainRounds:
    """What the drains of one task have in common: sizes of records, and partitions whose rounds failed."""

    def __init__(self, rounds: Callable[[Callable[[Future[Any]], Future[Any]]], Rounds], poison: Poison) -> None:
        """rounds: makes them, given what makes a future tell that it is done."""
        self._done = threading.Event()
        self._rounds = rounds(self._telling)
        self._poison = poison

    def budget(self) -> Budget:
        return self._rounds.budget()

    def unread(self) -> dict[TopicPartition, int]:
        return self._rounds.unread

    def stuck(self) -> dict[TopicPartition, str]:
        return self._rounds.trouble.stuck()

    def read(
        self,
        plans: Sequence[PartitionPlan],
        condemned: Mapping[TopicPartition, Collection[int]],
        order: Callable[[Sequence[PartitionPlan]], StagingOrder],
        poisoned: Callable[[PartitionPlan], Poisoned],
        go_on: Callable[[], None],
    ) -> RoundResult:
        """Read those of the plans whose turn it is, without their condemned offsets.

        order: of some plans. poisoned: of one for a single record. go_on: called first, and every moment; what it
        raises ends the wait. Raises Interrupted, Moved, InvariantBroken, and DependencyUnreachable if Spark cannot even
        cancel.
        """
        go_on()
        now = time.monotonic()
        if not (chosen := self._rounds.choose(plans, condemned, now)):
            raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, now))
        if self._poison.is_next(self._rounds, chosen[0]):
            self._condemn(poisoned(chosen[0]), plans)
        self._rounds.start(order(chosen))
        try:
            result = self._waited_for(go_on)
        finally:
            self._rounds.abandon()
        if result is not None and result.unwritten:
            self._rounds.spoiled(next(iter(result.unwritten.values())), time.monotonic())
        if result is None or result.unwritten:
            raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, time.monotonic()))
        if result.counts.get("records"):
            self._poison.passed()
        return result

    def close(self) -> None:
        self._rounds.close()

    def _waited_for(self, go_on: Callable[[], None]) -> RoundResult | None:
        """Wait for the round; None if it failed."""
        while self._rounds.running:
            go_on()
            self._done.wait(WAIT_SECS)
            self._done.clear()
            if (result := self._rounds.take(time.monotonic())) is not None:
                return result
        return None

    def _condemn(self, poisoned: Poisoned, plans: Sequence[PartitionPlan]) -> None:
        if self._poison.condemn(self._rounds, poisoned):
            raise Interrupted(f"{poisoned.plan.tp}: the record at offset {poisoned.plan.start} is a dead letter now")
        raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, time.monotonic()))

    def _telling(self, future: Future[Any]) -> Future[Any]:
        future.add_done_callback(lambda _: self._done.set())
        return future
