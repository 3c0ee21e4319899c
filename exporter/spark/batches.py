"""How many records Spark hands to a task at once, as one Arrow batch: so many, and only so many bytes.

measured    Spark looks at the batch's size after each row, which shows in the CPU of all
guessed     it counts rows only, so many as fit by the size of the records so far; Arrow's allocator in the JVM has a
            limit meanwhile. Where records are suddenly larger the job of the round fails by that limit

Sessions measure; rounds guess where the size is known, and one that failed by its guess runs again, measured. Spark
looks at its options when a job begins: two rounds at a time may have each its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

BATCH_RECORDS = 50_000
BATCH_BYTES = 32 << 20
RECORDS_OPTION = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_OPTION = "spark.sql.execution.arrow.maxBytesPerBatch"
MEASURED = {RECORDS_OPTION: str(BATCH_RECORDS), BYTES_OPTION: str(BATCH_BYTES)}
"""Options of a session."""

UNMEASURED = str((1 << 31) - 1)
GUESSED_BYTES_MAX = 4 * BATCH_BYTES
"""What Arrow may allocate for a guessed batch: a vector doubles as it grows, and while it does the old one is there."""
RETURNED_TIMES = 4
"""What a task returns comes as one batch and goes as another, whose vectors double as they grow."""
MEASURED_AFTERWARDS = 10
"""Rounds that are measured after the first wrong guess; after each further one twice as many."""
_NO_LIMIT = (1 << 63) - 1
_LIMIT_MET = "org.apache.arrow.memory.OutOfMemoryException"


class Batches:
    """The batches of a session's rounds, that may overlap."""

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext
        self._conf = session.conf
        self._tasks = self._context.defaultParallelism
        self._lock = threading.Lock()
        self._guessing: list[int] = []
        self._wrong = 0
        self._measured_left = 0

    @cached_property
    def _allocator(self) -> Any:
        """Arrow's root allocator if tasks run in this JVM (a local master); elsewhere None: every round is measured.

        Asked for by the first round that guesses: to load Arrow in the JVM takes a moment of a start.
        """
        if not self._context._jsc.isLocal():
            return None
        return self._context._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()

    @contextmanager
    def sized(self, record_bytes: float, carried_bytes: int) -> Iterator[None]:
        """Size the batches of one round. record_bytes: seen so far, 0: unknown. carried_bytes: what tasks return."""
        with self._lock:
            guessed = record_bytes > 0 and not self._measured_left and self._allocator is not None
            self._measured_left = max(0, self._measured_left - 1)
            if guessed:
                self._guess(record_bytes, carried_bytes)
            else:
                self._measure()
        try:
            yield
        finally:
            if guessed:
                self._guessed(carried_bytes)

    def _guess(self, record_bytes: float, carried_bytes: int) -> None:
        self._guessing.append(carried_bytes)
        self._conf.set(RECORDS_OPTION, str(max(1, min(BATCH_RECORDS, int(BATCH_BYTES / record_bytes)))))
        self._conf.set(BYTES_OPTION, UNMEASURED)
        self._allocator.setLimit(self._tasks * GUESSED_BYTES_MAX + RETURNED_TIMES * sum(self._guessing))

    def _guessed(self, carried_bytes: int) -> None:
        """Note the end of a guessed round; with the last one the limit goes."""
        with self._lock:
            self._guessing.remove(carried_bytes)
            if not self._guessing:
                self._allocator.setLimit(_NO_LIMIT)
                self._measure()

    def _measure(self) -> None:
        """Measure the batches of jobs that start from now on."""
        for name, value in MEASURED.items():
            self._conf.set(name, value)

    def outgrown(self, error: Exception) -> bool:
        """Whether a job failed because its batches were larger than guessed; if so, what begins now is measured."""
        if _LIMIT_MET not in str(error):
            return False
        with self._lock:
            self._measured_left = MEASURED_AFTERWARDS << min(self._wrong, 10)
            self._wrong += 1
            self._measure()
        return True
