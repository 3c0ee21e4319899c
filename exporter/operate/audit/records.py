"""The records of the topics by kafka-python's consumer, which knows nothing of how the export reads (fetch/).

Some at a time, of all partitions that are asked for, by one consumer. What a timestamp cannot say in microseconds is
null, and of a value that is longer than any good one only the first bytes are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporter.arrow.kafka_time import LEAST_US, MOST_US
from exporter.log import hushed
from exporter.memory import bounded
from offsets.ranges import TopicPartition

WHOLE_BYTES_MAX = 32 << 20
"""Of a value that is too long anyway (record_bytes_max) so many bytes are kept, or as many as may be in a good one. A
longer one is not read: of its table nothing can be said, nor of its contents. A dead letter keeps no more either."""
POLL_RECORDS = 5_000
STALL_SECS = 60.0
"""How long nothing may come."""
MEMORY_BYTES = 3 << 30
"""That the process may take beyond what it has; what a batch of a producer unpacks to is bounded by nothing else."""

_KINDS = {0: "CreateTime", 1: "LogAppendTime"}


class AuditedRecord(NamedTuple):
    """micros: the Kafka timestamp, since 1970; None where no table can hold it. size: bytes of the whole value.

    headers: `key` and `value` of each. kind: whose its timestamp is, of none None.
    """

    tp: TopicPartition
    offset: int
    micros: int | None
    key: bytes | None
    value: bytes | None
    size: int
    headers: list[dict[str, Any]]
    kind: str | None = None

    def as_seen(self) -> dict[str, Any]:
        """As SQL sees it (rules/sights.py)."""
        said = {"offset": self.offset, "timestamp": self.micros, "key": self.key, "headers": self.headers}
        return {**self.tp._asdict(), **said}


class AuditedStretch(NamedTuple):
    """Offsets start..end-1 of a partition, and the records that are there, in order."""

    tp: TopicPartition
    start: int
    end: int
    records: Sequence[AuditedRecord]


@dataclass(frozen=True)
class AuditedOffsets:
    """Offsets start..end-1 of a partition."""

    tp: TopicPartition
    start: int
    end: int


@dataclass(frozen=True)
class AuditedTopic:
    """client: keywords of kafka-python's clients. bytes_max: of a good value."""

    client: Mapping[str, Any]
    isolation: str
    bytes_max: int

    def stretches(self, wanted: Sequence[AuditedOffsets]) -> Iterator[AuditedStretch]:
        """Every record of the ranges that a consumer sees; those of one partition in order and without a gap.

        Of each partition one range at most. Raises KafkaError for offsets that are not there any more and for a batch
        that is damaged, ValueError for those that are not there yet, TimeoutError.
        """
        some = [one for one in wanted if one.end > one.start]
        if some:
            with hushed("kafka"):  # what matters is raised
                yield from self._stretches(some)

    def _stretches(self, wanted: Sequence[AuditedOffsets]) -> Iterator[AuditedStretch]:
        from kafka import KafkaConsumer
        from kafka import TopicPartition as KafkaTopicPartition

        consumer = KafkaConsumer(
            **self.client, enable_auto_commit=False, auto_offset_reset="none", isolation_level=self.isolation,
            max_poll_records=POLL_RECORDS, max_partition_fetch_bytes=4 << 20, fetch_max_bytes=8 << 20,
            fetch_max_wait_ms=20,
        )  # fmt: skip
        consumer._cluster.config["allow_auto_create_topics"] = False  # a topic that is gone is not to be made by asking
        left = {KafkaTopicPartition(*one.tp): one for one in wanted}
        at = {one: left[one].start for one in left}
        try:
            consumer.assign([*left])
            for one, end in consumer.end_offsets([*left]).items():
                if end < left[one].end:  # nothing would come, for ever
                    raise ValueError(f"{left[one].tp}: the log ends at {end}, before {left[one].end}")
            for one, start in at.items():
                consumer.seek(one, start)
            since = time.monotonic()
            while left:
                with bounded(MEMORY_BYTES):
                    polled = consumer.poll(timeout_ms=500)
                for one in [*polled] or [*left]:
                    if one not in left or (position := consumer.position(one)) <= at[one]:
                        continue
                    tp, end = left[one].tp, left[one].end
                    records = [self._record(tp, found) for found in polled.get(one, ()) if found.offset < end]
                    yield AuditedStretch(tp, at[one], min(position, end), records)
                    since = time.monotonic()  # whoever takes it may need a minute for it: that is no silence
                    at[one] = position
                    if position >= end:
                        del left[one]
                        consumer.pause(one)
                if time.monotonic() - since > STALL_SECS:
                    one = next(iter(left))
                    what = f"{left[one].tp}: nothing came from offset {at[one]} on for {STALL_SECS:.0f} s"
                    raise TimeoutError(what)
        finally:
            consumer.close(timeout_ms=3000)

    def _record(self, tp: TopicPartition, found: Any) -> AuditedRecord:
        """One of the oldest format has no timestamp: -1."""
        micros = (-1 if found.timestamp is None else found.timestamp) * 1000
        value, bytes_max = found.value, max(WHOLE_BYTES_MAX, self.bytes_max)
        size = 0 if value is None else len(value)
        return AuditedRecord(
            tp,
            found.offset,
            micros if LEAST_US <= micros <= MOST_US else None,
            found.key,
            value[:bytes_max] if size > bytes_max else value,
            size,
            [{"key": name, "value": text} for name, text in found.headers or ()],
            None if found.timestamp is None else _KINDS.get(found.timestamp_type),
        )


def around(wanted: AuditedOffsets, left_out: frozenset[int]) -> Iterator[AuditedOffsets]:
    """The ranges between offsets that are left out."""
    first = wanted.start
    for offset in sorted(offset for offset in left_out if wanted.start <= offset < wanted.end):
        if first < offset:
            yield AuditedOffsets(wanted.tp, first, offset)
        first = offset + 1
    if first < wanted.end:
        yield AuditedOffsets(wanted.tp, first, wanted.end)
