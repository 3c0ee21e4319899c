"""Exact offset ranges of a partition, as Arrow: what a round's tasks read. Runs on Spark executors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.arrow.spark_types import as_ddl
from exporter.core.backoff import Backoff
from exporter.fetch.batches import log_batches, next_offset, require_whole, seen
from exporter.fetch.leader import Answer, Idle, PartitionLeader
from exporter.fetch.reader import EXACT, FetchPart, arrow, as_exact
from exporter.fetch.stream import CorruptBatch
from exporter.log import hushed
from offsets.ranges import TopicPartition

WHOLE_BYTES_MAX = 32 << 20
"""Of a value that is too long anyway (record_bytes_max) so many bytes are kept, or as many as may be in a good one."""
STALL_SECS = 60.0
"""How long nothing may come."""
ANSWER_SECS = 30.0
"""How long a broker may take for one answer: one that throttles takes its time."""
PAUSE = Backoff(0.1, 2.0)
DDL = as_ddl(EXACT)
DAMAGED = "CorruptBatch"
"""Names the error of a batch whose checksum is wrong."""
GONE = "OffsetOutOfRangeError"
"""Names the error of offsets that are not there any more."""


_IDLE = Idle()
"""Of this worker, which reads one range after the other."""


@dataclass(frozen=True)
class RangeWanted:
    """Offsets start..end-1 of a partition. client: keywords of kafka-python's clients. bytes_max: of a good value."""

    client: Mapping[str, Any]
    tp: TopicPartition
    start: int
    end: int
    isolation: str
    bytes_max: int


def records(wanted: RangeWanted) -> Iterator[pa.RecordBatch]:
    """Every record of the range that a consumer sees, in order; no batch is empty.

    Raises OffsetOutOfRangeError and other KafkaErrors, CorruptBatch, ValueError for offsets that are not there yet,
    TimeoutError.
    """
    with hushed("kafka"):  # what matters is raised
        reading = _Reading(wanted)
        try:
            yield from reading.batches()
        finally:
            reading.close()


def exactly(wanted: RangeWanted) -> Iterator[pa.RecordBatch]:
    """The same, all of it as EXACT."""
    yield from map(as_exact, records(wanted))


def by_coordinates(wanted: RangeWanted) -> pa.Table:
    """The first record of a range as far as it is known without having been read."""
    tp = wanted.tp
    row = {"topic": tp.topic, "partition": tp.partition, "offset": wanted.start, "headers": []}
    return pa.Table.from_pylist([row], schema=EXACT)


class _Reading:
    """One range, over as many connections as it takes."""

    def __init__(self, wanted: RangeWanted) -> None:
        self._wanted = wanted
        self._keep = max(WHOLE_BYTES_MAX, wanted.bytes_max)
        self._leader: PartitionLeader | None = None
        self._topic_id: Any = None
        self._replica: int | None = None
        self._asked = False
        self._position = wanted.start
        self._epoch = -1
        self._since = time.monotonic()
        self._failures = 0

    def close(self, keep: bool = True) -> None:
        """The connection waits for the next range, unless something is on its way. keep: false for a broken one."""
        if self._leader is not None:
            # One that is still to answer would give the next range the answer to this one.
            if keep and not self._asked:
                _IDLE.keep(self._leader)
            else:
                self._leader.close()
        self._leader, self._asked = None, False

    def batches(self) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        while self._position < wanted.end:
            told = self._told()
            if told is None:
                continue
            found = list(log_batches(told.records))
            start, self._position = self._position, next_offset(found, self._position)
            if not found:
                self._require_progress(told)
                continue
            self._since, self._failures, self._epoch = time.monotonic(), 0, found[-1].epoch
            if self._position < wanted.end:
                self._ask_ahead()
            aborted = told.aborted if wanted.isolation == "read_committed" else None
            within = [one for one in found if one.base < wanted.end]  # what lies behind may be damaged
            for one in within:
                require_whole(one, told.records)
            visible = list(seen(within, told.records, aborted))
            yield from arrow(FetchPart(told.records, wanted.tp, start, wanted.end, self._keep), visible)
            self._since = time.monotonic()  # what is made of the records may take its time

    def _ask_ahead(self) -> None:
        """The broker sends while we read what we have."""
        try:
            self._ask()
        except OSError as error:
            self._trouble(error)

    def _ask(self) -> PartitionLeader:
        """Whoever is asked now. Raises OSError, KafkaError."""
        if self._leader is None:
            self._leader = self._logged_in()
        if not self._asked:
            self._leader.ask(self._position, self._epoch)
            self._asked = True
        return self._leader

    def _told(self) -> Answer | None:
        """The next answer; None if it has to be asked for again."""
        from kafka.errors import KafkaError, OffsetOutOfRangeError, RetriableError, for_code

        try:
            leader = self._ask()
            told = leader.answer(ANSWER_SECS)
        except (OSError, RetriableError) as error:
            self._trouble(error)
            return None
        self._asked = False
        wrong = for_code(told.error)
        lags = wrong is OffsetOutOfRangeError and not leader.leads  # what a leader says of this is true
        if lags or (told.error and issubclass(wrong, RetriableError)):
            self._trouble(wrong())
            return None
        if told.error:
            tells = f"{self._wanted.tp} at offset {self._position}"
            raise wrong(tells) if issubclass(wrong, KafkaError) else KafkaError(f"{wrong.__name__}: {tells}")
        if told.diverged >= 0:
            raise ValueError(f"{self._wanted.tp}: the log was cut at {told.diverged} and goes on otherwise")
        if told.replica >= 0 and told.replica != leader.node:
            self._replica = told.replica
            self.close()
            return None
        self._topic_id = leader.topic_id
        return told

    def _logged_in(self) -> PartitionLeader:
        wanted = self._wanted
        at = (wanted.client, wanted.tp, wanted.isolation, self._replica)
        # After a failure a login of its own: an idle one knows the leaders as they were at its own.
        if not self._failures and (idle := _IDLE.taken(*at)) is not None:
            return idle
        made = PartitionLeader(*at, self._secs_left)
        if self._topic_id not in (None, made.topic_id):
            made.close()
            raise ValueError(f"{wanted.tp.topic} was made again while it was read")
        return made

    @property
    def _secs_left(self) -> float:
        return max(1.0, STALL_SECS - (time.monotonic() - self._since))

    @property
    def _stalled(self) -> str:
        return f"{self._wanted.tp}: nothing came from offset {self._position} on for {STALL_SECS:.0f} s"

    def _trouble(self, error: Exception) -> None:
        """Begin anew with another connection, after a pause. Raises TimeoutError if nothing has come for too long."""
        from exporter.text import why

        node = "" if self._leader is None else f" by broker {self._leader.node}"
        self.close(keep=False)
        self._replica = None  # it may be gone, or lag behind its leader, which names another then
        self._failures += 1
        if time.monotonic() - self._since > STALL_SECS:
            raise TimeoutError(f"{self._stalled}{node}: {why(error)}") from error
        time.sleep(PAUSE.after(self._failures))

    def _require_progress(self, told: Answer) -> None:
        """Nothing has come, which may be because it is not there yet. Raises ValueError, TimeoutError, CorruptBatch."""
        tp = self._wanted.tp
        if told.records:
            raise CorruptBatch(f"{tp}: {len(told.records)} bytes at offset {self._position} hold no whole batch")
        if time.monotonic() - self._since < STALL_SECS:
            return
        if told.ends < self._wanted.end:
            raise ValueError(f"{tp}: the log ends at {told.ends}, before {self._wanted.end}")
        raise TimeoutError(self._stalled)
