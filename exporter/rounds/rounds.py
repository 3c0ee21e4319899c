"""Rounds: sized, read in threads of their own, retried and bisected when they fail.

One at a time; while much is left to read, one more waits behind it: Spark gives its tasks the cores that the first
round's have left, instead of none until the last of them is done. Results are taken in the order of the plans.
Belongs to the loop's thread; only `RoundReader.read` runs elsewhere, on frozen values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from exporter import threads
from exporter.clock import monotonic
from exporter.core.backoff import Backoff
from exporter.core.bisection import Bisection
from exporter.core.manifest import RoundResult
from exporter.core.order import StagingOrder
from exporter.core.plan import Budget, spare
from exporter.core.writers import PartitionPlan
from exporter.errors import DependencyUnreachable, RoundFailed
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.rounds.read import RoundReader
from offsets.ranges import TopicPartition

log = get_logger(__name__)

PAUSE = Backoff(0.5, 30.0)
CANCEL_SECS_MAX = 60.0
EXECUTORS_SECS_MAX = 180.0
"""How long a round waits while its cluster gives no executor. A master that was restarted and knows nothing of this
application never does; another start asks for some anew."""
LOOK_SECS = 5.0
"""Between two looks whether there are executors."""
LEAST_RECORD_BYTES = 1.0
"""A tombstone without a key has no bytes: without it the guess of a size would come down to nothing, to divide by."""
AHEAD_SHARE = 2
"""A round waits behind another where at least one such part of a round is left to read: less is better read later,
together with what comes meanwhile."""


@dataclass
class _Reading:
    """A round that is read, or that waits for cores. started: when it came to be the first one; monotonic seconds.

    cancelled: on purpose, so that its failure is none.
    """

    order: StagingOrder
    future: Future[RoundResult]
    started: float
    cancelled: bool = False

    @property
    def plans(self) -> tuple[PartitionPlan, ...]:
        return tuple(self.order.plans.values())


class Rounds:
    """The running rounds, if any, and what the ones before taught: record sizes and troubled partitions."""

    def __init__(
        self,
        reader: RoundReader,
        records_max: int,
        bytes_max: int,
        secs_max: float,
        waking: Callable[[Future[Any]], Future[Any]],
        storage_trouble: Callable[[], str] = str,
    ) -> None:
        """waking: makes a future wake the loop when it is done. storage_trouble: why the storage is out, or empty."""
        self._storage_trouble = storage_trouble
        self._reader = reader
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._secs_max = secs_max
        self._waking = waking
        self._pool = threads.pool(2, "round")
        self._readings: deque[_Reading] = deque()
        self._not_before = 0.0
        self._waits: dict[TopicPartition, float] = {}
        self._bytes_per_record = 0.0
        self._begun = 0
        self.failures = 0
        self.secs = 0.0
        self.error = ""
        self.raw: dict[TopicPartition, Any] = {}
        """Of partitions that failed alone, the first record of the plan that failed last, if it could be read raw."""
        self.trouble = Bisection()
        self.starved = ""
        """Why no round can begin: its cluster gives no executor. Empty if it does."""
        self._starved_since = self._looked_at = float("-inf")

    @property
    def running(self) -> bool:
        return bool(self._readings)

    @property
    def plans(self) -> tuple[PartitionPlan, ...]:
        """Plans of all running rounds, oldest round first."""
        return tuple(plan for reading in self._readings for plan in reading.plans)

    @property
    def carried_bytes(self) -> int:
        """Bytes that the tasks of the running rounds may still carry."""
        return sum(reading.order.carried_bytes for reading in self._readings)

    def may_start(self, ends: Mapping[TopicPartition, int], now: float) -> bool:
        """False during the pause after a failed one, and while one runs, unless much is left behind it and all is well.

        ends: topic partition -> offset after the last readable record.
        """
        if now < self._not_before or len(self._readings) > 1:
            return False
        if not self._readings:
            return True
        calm = not self.failures and not self.trouble.ailing and self._bytes_per_record > 0
        left = sum(max(0, ends.get(plan.tp, 0) - plan.end) for plan in self.plans)
        return calm and left * AHEAD_SHARE >= self.budget().records and self._reader.begun()

    def budget(self) -> Budget:
        return Budget.of(self._records_max, self._bytes_max, self._bytes_per_record)

    def expect(self, bytes_per_record: float) -> None:
        """Set the expected record size until the first round has measured it. 0: unknown."""
        self._bytes_per_record = self._bytes_per_record or bytes_per_record

    def choose(
        self, plans: Sequence[PartitionPlan], poison_offsets: Mapping[TopicPartition, Collection[int]], now: float
    ) -> tuple[PartitionPlan, ...]:
        """The plans that may run now: all, or in times of trouble some (protocol 3.7).

        poison_offsets: they are never read again.
        """
        ready = tuple(plan for plan in plans if self._waits.get(plan.tp, now) <= now)
        self._begun += 1
        return tuple(spare(plan, poison_offsets.get(plan.tp, ())) for plan in self.trouble.limit(ready, self._begun))

    def start(self, order: StagingOrder) -> None:
        """Read the order's plans in a round thread."""
        future = self._waking(self._pool.submit(self._reader.read, order))
        self._readings.append(_Reading(order, future, monotonic()))

    def take(self, now: float) -> RoundResult | None:
        """The result of a round that has just finished; None if none has, or if it failed."""
        if self.starved or self._readings:
            self._look_for_executors(now)
        if not self._readings:
            return None
        first = self._readings[0]
        if not first.future.done():
            if self.starved:
                first.started = now  # its time begins with its tasks
            elif now - first.started > self._secs_max:
                self._timed_out(now - first.started)
            return None
        self._readings.popleft()
        for behind in self._readings:
            behind.started = now
        try:
            result = first.future.result()
        except RoundFailed as error:
            if not first.cancelled:
                self._failed(first.plans, error, now)
            return None
        if not result.storage:  # else it has still to be read
            self._passed(first, result, now)
        return result

    def cancel(self) -> None:
        """Cancel the running rounds; their results are dropped when they come."""
        for reading in self._readings:
            reading.cancelled = True
        if self._readings:
            self._reader.cancel(dropped=True)

    def abandon(self) -> None:
        """Forget the running rounds, whatever becomes of them: nobody waits for them any more."""
        self.cancel()
        self._readings.clear()

    def close(self) -> None:
        self.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _passed(self, reading: _Reading, result: RoundResult, now: float) -> None:
        records, size = result.counts.get("records", 0), result.counts.get("bytes", 0)
        if records:
            self._bytes_per_record = max(size / records, self._bytes_per_record / 2, LEAST_RECORD_BYTES)
        self.failures = self.failures if result.unwritten else 0
        self.trouble = self.trouble.passed(reading.plans)
        self.secs = now - reading.started
        log.info(Event.ROUND_READ, records=records, secs=round(self.secs, 2))

    def _look_for_executors(self, now: float) -> None:
        """Raises DependencyUnreachable if there have been none for so long that there will be none."""
        if now - self._looked_at < LOOK_SECS:
            return
        self._looked_at = now
        if self._reader.has_executors():
            self.starved = ""
            return
        self._starved_since = self._starved_since if self.starved else now
        self.starved, secs = "the cluster gives it no executor", now - self._starved_since
        if secs > min(EXECUTORS_SECS_MAX, self._secs_max):
            what = f"Spark has had no executor for {secs:.0f} s"
            raise DependencyUnreachable(what, "see what the cluster's master says; a new start asks it anew")

    def _timed_out(self, secs: float) -> None:
        """Cancel; raises DependencyUnreachable if Spark does not even answer that (a restarted master, design 3)."""
        if secs > self._secs_max + CANCEL_SECS_MAX:
            raise DependencyUnreachable(f"a round of {secs:.0f} s cannot be cancelled", "Spark hangs; start again")
        log.warning(Event.ROUND_TIMED_OUT, secs=round(secs))
        self._reader.cancel()

    def _failed(self, plans: tuple[PartitionPlan, ...], error: RoundFailed, now: float) -> None:
        """Pause after a failure: a round of several partitions stops all, a round of one stops that one."""
        if error.lost:
            self.trouble = self.trouble.lost(plans, error.message)
            self._came_to_nothing(error.message)
            log.warning(Event.ROUND_LOST, error=error.message, failures=self.failures)
            self.pause(now)
            return
        if len(plans) == 1:
            self.raw[plans[0].tp] = error.raw
        readable = error.raw is not None and not self._storage_trouble()  # else the record is not to blame
        self.trouble = self.trouble.failed(plans, readable, error.message)
        self._came_to_nothing(error.message)
        log.warning(Event.ROUND_FAILED, error=error.message, failures=self.failures)
        if len(plans) > 1:
            self.pause(now)
            return
        (plan,) = plans
        self._waits[plan.tp] = now + PAUSE.after(0 if readable else self.trouble.ailing[plan.tp].failures)

    def spoiled(self, error: str, now: float) -> None:
        """Discard what was read last: it could not be written, and the storage is to blame."""
        self._came_to_nothing(error)
        log.warning(Event.ROUND_FAILED, error=error, failures=self.failures)
        self.pause(now)

    def _came_to_nothing(self, error: str) -> None:
        """Discard the failed round and the one queued behind it, which was planned on top of it."""
        self.failures += 1
        self.error = error
        self.abandon()

    def pause(self, now: float) -> None:
        """Start no round for a while, the longer the more have failed in a row."""
        self._not_before = now + PAUSE.after(self.failures)

    def pause_left(self, plans: Sequence[PartitionPlan], now: float) -> float:
        """Seconds until a round of any of the plans may start."""
        waits = min((self._waits.get(plan.tp, now) for plan in plans), default=now)
        return max(0.0, self._not_before - now, waits - now)
