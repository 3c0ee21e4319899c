"""Rounds: one at a time, sized, read in a thread of their own, retried and bisected when they fail.

Belongs to the loop's thread; only `RoundReader.read` runs elsewhere, on frozen values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from exporter.condemn import Trouble
from exporter.errors import DependencyUnreachable
from exporter.log import get_logger
from exporter.plan import Budget
from exporter.read import RoundFailed, RoundReader, RoundResult
from exporter.stage import StagingOrder
from exporter.writers import PartitionPlan

log = get_logger(__name__)

PAUSE_SECS_MAX = 30.0
CANCEL_SECS_MAX = 60.0
LEAST_RECORD_BYTES = 1.0
"""Tombstones count as no bytes: without it the guess of their size would come down to nothing, to divide by."""


class Rounds:
    """The running round, if any, and what the ones before taught: record sizes and troubled partitions."""

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
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="round")
        self._future: Future[RoundResult] | None = None
        self._started = 0.0
        self._not_before = 0.0
        self._bytes_per_record = 0.0
        self._begun = 0
        self.plans: tuple[PartitionPlan, ...] = ()
        self.failures = 0
        self.secs = 0.0
        self.error = ""
        self.raw: Any = None
        self.trouble = Trouble()

    def warm(self) -> None:
        """Warm the workers up; if that fails, the first round fails too and tells why."""
        self._pool.submit(self._reader.warm)

    @property
    def running(self) -> bool:
        return self._future is not None

    def may_start(self, now: float) -> bool:
        """False while one runs, and during the pause after a failed one."""
        return self._future is None and now >= self._not_before

    def budget(self) -> Budget:
        return Budget.of(self._records_max, self._bytes_max, self._bytes_per_record)

    def expect(self, bytes_per_record: float) -> None:
        """As long as no round has told how large records are. 0: not known."""
        self._bytes_per_record = self._bytes_per_record or bytes_per_record

    def choose(self, plans: tuple[PartitionPlan, ...]) -> tuple[PartitionPlan, ...]:
        """The plans that may run now: all, or in times of trouble some (protocol 3.7)."""
        self._begun += 1
        return self.trouble.limit(plans, self._begun)

    def start(self, order: StagingOrder) -> None:
        """Read the order's plans in the round thread."""
        self.plans, self._started = tuple(order.plans.values()), time.monotonic()
        sized = replace(order, record_bytes=self._bytes_per_record)
        self._future = self._waking(self._pool.submit(self._reader.read, sized))

    def take(self, now: float) -> RoundResult | None:
        """The result of a round that has just finished; None if none has, or if it failed."""
        if self._future is None:
            return None
        if not self._future.done():
            if now - self._started > self._secs_max:
                self._timed_out(now)
            return None
        finished, self._future = self._future, None
        try:
            result = finished.result()
        except RoundFailed as error:
            self._failed(error, now)
            return None
        self._passed(result, now)
        return result

    def cancel(self) -> None:
        """Cancel the running round; its result is dropped when it comes."""
        if self._future is not None:
            self._reader.cancel()

    def close(self) -> None:
        self.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _passed(self, result: RoundResult, now: float) -> None:
        records, size = result.counts.get("records", 0), result.counts.get("bytes", 0)
        if records:
            self._bytes_per_record = max(size / records, self._bytes_per_record / 2, LEAST_RECORD_BYTES)
        self.failures = self.failures if result.unwritten else 0
        self.trouble = self.trouble.passed(self.plans)
        self.secs = now - self._started
        log.info("round_read", records=records, secs=round(self.secs, 2))

    def _timed_out(self, now: float) -> None:
        """Cancel; raises DependencyUnreachable if Spark does not even answer that (a restarted master, design 3)."""
        secs = now - self._started
        if secs > self._secs_max + CANCEL_SECS_MAX:
            raise DependencyUnreachable(f"a round of {secs:.0f} s cannot be cancelled", "Spark hangs; start again")
        log.warning("round_timed_out", secs=round(secs))
        self._reader.cancel()

    def _failed(self, error: RoundFailed, now: float) -> None:
        self.failures += 1
        self.error = error.message
        self.raw = error.raw
        readable = error.raw is not None and not self._storage_trouble()  # else the record is not to blame
        self.trouble = self.trouble.failed(self.plans, readable)
        self.pause(now)
        log.warning("round_failed", error=error.message, failures=self.failures)

    def spoiled(self, error: str, now: float) -> None:
        """What was read last could not be written, and the storage is to blame: it is read again later."""
        self.failures += 1
        self.pause(now)
        log.warning("round_failed", error=error, failures=self.failures)

    def pause(self, now: float) -> None:
        """Start no round for a while, the longer the more have failed in a row."""
        self._not_before = now + min(PAUSE_SECS_MAX, 0.5 * 2.0 ** min(self.failures, 6))
