"""The records of the topics as a frame: by Spark's Kafka source, or with care where that may not survive them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame

from exporter.operate.audit import careful
from exporter.operate.audit.columns import PARTITION
from exporter.operate.audit.job import Job, Log
from exporter.operate.audit.pin import Pinned
from offsets.ranges import TopicPartition

FETCH_OPTIONS = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.max.wait.ms": "10",
    "kafka.allow.auto.create.topics": "false",
}
"""At the end of a partition a client has asked for more already, and waits for what does not come: by default half a
second for each of them, which was most of an audit of many partitions."""
SLICE_RECORDS_MIN = 20_000
TASKS_PER_CORE = 16
"""More partitions than so many for each core share tasks, so that these do not cost more than the records."""


def topic_records(job: Job, logs: Mapping[TopicPartition, Log]) -> DataFrame:
    """The raw records of the ranges to read, with headers."""
    read = {tp: one for tp, one in logs.items() if one.next > one.first}
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    if not read:
        kinds = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
        ddl = f"{kinds}, headers array<struct<key: string, value: binary>>"
        empty: DataFrame = job.session.createDataFrame([], ddl)
        return empty.select(columns)
    records = sum(one.next - one.first for one in read.values())
    topics = sorted({tp.topic for tp in read})
    slices = max(len(read), min(job.session.sparkContext.defaultParallelism, records // SLICE_RECORDS_MIN))
    options = {
        **FETCH_OPTIONS,
        **job.kafka_options,
        "kafka.isolation.level": job.routing.isolation,
        "failOnDataLoss": "true",
        "assign": json.dumps({t: sorted(tp.partition for tp in read if tp.topic == t) for t in topics}),
        "startingOffsets": _offsets_json(topics, {tp: one.first for tp, one in read.items()}),
        "endingOffsets": _offsets_json(topics, {tp: one.next for tp, one in read.items()}),
        "minPartitions": str(slices),
        "includeHeaders": "true",
    }
    frame: DataFrame = job.session.read.format("kafka").options(**options).load()
    return frame.select(columns).coalesce(_tasks_max(job))


def _tasks_max(job: Job) -> int:
    return TASKS_PER_CORE * int(job.session.sparkContext.defaultParallelism)


def careful_records(job: Job, pinned: Pinned, logs: Mapping[TopicPartition, Log]) -> DataFrame:
    """The same by careful.py, but for records that were condemned: these may be what cannot be read at all."""
    wanted = [
        careful.Wanted(job.client, tp, start, end, job.routing.isolation, job.routing.record_bytes_max)
        for tp, one in logs.items()
        for start, end in _around(one.first, one.next, pinned.condemned.get(tp, frozenset()))
    ]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from careful.records(wanted[number])

    tasks = max(1, min(len(wanted), _tasks_max(job)))
    frame = job.session.range(0, len(wanted), 1, tasks).mapInArrow(run, careful.DDL)
    return cast("DataFrame", frame.select("key", "value", *PARTITION, "offset", "timestamp", "headers"))


def _around(first: int, following: int, left_out: frozenset[int]) -> Iterator[tuple[int, int]]:
    """The ranges of first..following-1 between offsets that are left out."""
    for offset in sorted(offset for offset in left_out if first <= offset < following):
        if first < offset:
            yield first, offset
        first = offset + 1
    if first < following:
        yield first, following


def _offsets_json(topics: Sequence[str], offsets: Mapping[TopicPartition, int]) -> str:
    return json.dumps({t: {str(tp.partition): at for tp, at in offsets.items() if tp.topic == t} for t in topics})
