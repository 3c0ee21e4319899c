"""The records of the topics by kafka-python's consumer, which knows nothing of how the export reads (fetch/).

Spark's source, or its JVM, ends on records that pass here: a timestamp that its microseconds do not hold, a value that
unpacks to more than its heap. What it gives is what the source would give, so that no verdict depends on who read a
record, with two columns more: KAFKA_MS, and VALUE_BYTES of a value of which only the first bytes are kept. It is
several times slower. Runs on Spark executors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import KAFKA_MS, LEAST_US, MOST_US, TIMESTAMP_TYPE, VALUE_BYTES
from exporter.arrow.own_columns import RECORD_FIELDS
from exporter.arrow.spark_types import as_ddl
from exporter.log import hushed
from exporter.memory import bounded
from offsets.ranges import TopicPartition

WHOLE_BYTES_MAX = 32 << 20
"""Of a value that is too long anyway (record_bytes_max) so many bytes are kept, or as many as may be in a good one."""
BATCH_BYTES, BATCH_RECORDS = 8 << 20, 5_000
STALL_SECS = 60.0
"""How long nothing may come."""
MEMORY_BYTES = 3 << 30
"""That a worker may take beyond what it has; what a batch of a producer unpacks to is bounded by nothing else."""
COLUMNS = pa.schema([*RECORD_FIELDS, (TIMESTAMP_TYPE, pa.int32()), (KAFKA_MS, pa.int64()), (VALUE_BYTES, pa.int64())])
DDL = as_ddl(COLUMNS)


@dataclass(frozen=True)
class Wanted:
    """Offsets start..end-1 of a partition. client: keywords of kafka-python's clients. bytes_max: of a good value."""

    client: Mapping[str, Any]
    tp: TopicPartition
    start: int
    end: int
    isolation: str
    bytes_max: int


def records(wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Every record of the range that a consumer sees, in order; no batch is empty.

    Raises KafkaError for offsets that are not there any more and for a batch that is damaged, ValueError for those that
    are not there yet, TimeoutError.
    """
    with hushed("kafka"):  # what matters is raised
        yield from _records(wanted)


def _records(wanted: Wanted) -> Iterator[pa.RecordBatch]:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaTopicPartition

    consumer = KafkaConsumer(
        **wanted.client, enable_auto_commit=False, auto_offset_reset="none", isolation_level=wanted.isolation,
        max_poll_records=BATCH_RECORDS, max_partition_fetch_bytes=4 << 20, fetch_max_bytes=8 << 20,
    )  # fmt: skip
    consumer._cluster.config["allow_auto_create_topics"] = False  # a topic that is gone is not to be made by asking
    at = KafkaTopicPartition(*wanted.tp)
    rows = _Rows(max(WHOLE_BYTES_MAX, wanted.bytes_max))
    try:
        consumer.assign([at])
        if (end := consumer.end_offsets([at])[at]) < wanted.end:  # nothing would come, for ever
            raise ValueError(f"{wanted.tp}: the log ends at {end}, before {wanted.end}")
        consumer.seek(at, wanted.start)
        position, since = wanted.start, time.monotonic()
        while position < wanted.end:
            with bounded(MEMORY_BYTES):
                polled = consumer.poll(timeout_ms=500).get(at, ())
            for record in polled:
                if record.offset < wanted.end:
                    rows.add(record)
                if rows.full:
                    yield rows.taken()
            if (now_at := consumer.position(at)) > position:
                position, since = now_at, time.monotonic()
            elif time.monotonic() - since > STALL_SECS:
                raise TimeoutError(f"{wanted.tp}: nothing came from offset {position} on for {STALL_SECS:.0f} s")
        if rows.some:
            yield rows.taken()
    finally:
        consumer.close(timeout_ms=3000)


class _Rows:
    """Records on their way to a batch."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    @property
    def some(self) -> bool:
        return bool(self._rows)

    @property
    def full(self) -> bool:
        return self._bytes >= BATCH_BYTES or len(self._rows) >= BATCH_RECORDS

    def add(self, record: Any) -> None:
        """Add a record as kafka-python gives it. One of the oldest format has no timestamp: -1, as for Spark."""
        value, millis = record.value, -1 if record.timestamp is None else record.timestamp
        long = value is not None and len(value) > self._bytes_max
        kept = value[: self._bytes_max] if long else value
        self._rows.append(
            {
                "key": record.key,
                "value": kept,
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": millis * 1000 if LEAST_US <= millis * 1000 <= MOST_US else None,
                "headers": [{"key": name, "value": text} for name, text in record.headers or ()],
                TIMESTAMP_TYPE: record.timestamp_type,
                KAFKA_MS: millis,
                VALUE_BYTES: len(value) if long else None,
            }
        )
        self._bytes += len(record.key or b"") + len(kept or b"")

    def taken(self) -> pa.RecordBatch:
        rows, self._rows, self._bytes = self._rows, [], 0
        return pa.RecordBatch.from_arrays(
            [pa.array([row[field.name] for row in rows], field.type) for field in COLUMNS], schema=COLUMNS
        )
