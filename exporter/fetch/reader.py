"""A fetch response's records as Arrow, whole batches at once where that goes, else one at a time (exact.py). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import KAFKA_MS, LEAST_US, MOST_US, TIMESTAMP_TYPE, VALUE_BYTES
from exporter.fetch import exact
from exporter.fetch.batches import FORMAT, LogBatch
from exporter.fetch.codecs import PLAIN, unpacked
from exporter.fetch.slabs import SLAB, Body, Odd, slab
from exporter.memory import bounded
from offsets.ranges import TopicPartition

SLAB_BYTES = 16 << 20
"""Unpacked, that are read at once."""
UNPACKED_BYTES_MAX = 64 << 20
"""Of one batch; what is more is read one record at a time."""
ROWS, ROW_BYTES = 5_000, 8 << 20
MEMORY_BYTES = 3 << 30
"""That the exact way may take: keys, and batches of the older formats, come whole, whatever they unpack to."""
EXACT = pa.schema([*SLAB, (KAFKA_MS, pa.int64()), (VALUE_BYTES, pa.int64())])


class FetchPart(NamedTuple):
    """Of a response what is wanted: of a partition's records those at start..end-1. keep: as exact.records has it."""

    raw: bytes | memoryview
    tp: TopicPartition
    start: int
    end: int
    keep: int


def arrow(part: FetchPart, batches: Sequence[LogBatch]) -> Iterator[pa.RecordBatch]:
    """The wanted records of some batches of the response, in order: as SLAB, or as EXACT. None is empty."""
    held: list[Body] = []
    size = 0
    for batch in batches:
        if batch.last < part.start or batch.base >= part.end:
            continue
        records = _unpacked(batch, part.raw)
        if records is not None:
            held.append(Body(batch, records))
            size += len(records)
        if held and (records is None or size >= SLAB_BYTES):
            yield from _of(held, part)
            held, size = [], 0
        if records is None:
            yield from _exactly(batch, part)
    if held:
        yield from _of(held, part)


def _unpacked(batch: LogBatch, raw: bytes | memoryview) -> bytes | memoryview | None:
    """None if it is for the exact way."""
    body = memoryview(raw)[batch.body : batch.end]
    if batch.format != FORMAT:
        return None
    if batch.codec == PLAIN:
        return body
    try:
        # One byte beyond the bound tells that there is more, without unpacking it.
        records = unpacked(batch.codec, body).read(UNPACKED_BYTES_MAX + 1)
    except Exception:  # noqa: BLE001 - the exact way says what it is
        return None
    return records if len(records) <= UNPACKED_BYTES_MAX else None


def _of(held: Sequence[Body], part: FetchPart) -> Iterator[pa.RecordBatch]:
    """Of several batches one that is odd goes its own way, and the others theirs."""
    try:
        found = slab(held, part.tp, part.start, part.end)
    except Odd:
        if len(held) == 1:
            yield from _exactly(held[0].batch, part)
            return
        for one in held:
            yield from _of([one], part)
        return
    if found.num_rows:
        yield found


def _exactly(batch: LogBatch, part: FetchPart) -> Iterator[pa.RecordBatch]:
    every = exact.records(batch, part.raw, part.keep)
    found = (one for one in every if part.start <= one.offset < part.end)
    while True:
        # Not around the yield: the bound is the process's, and would be that of whoever reads on.
        with bounded(MEMORY_BYTES):
            rows = _some(found)
        if not rows:
            return
        yield rows_as_arrow(rows, part.tp)


def _some(records: Iterator[exact.ExactRecord]) -> list[exact.ExactRecord]:
    """As many of the next ones as make a batch of rows."""
    rows: list[exact.ExactRecord] = []
    size = 0
    for one in records:
        rows.append(one)
        size += len(one.key or b"") + len(one.value or b"")
        if len(rows) >= ROWS or size >= ROW_BYTES:
            break
    return rows


def as_exact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as EXACT, however it was read."""
    if batch.schema == EXACT:
        return batch
    millis = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
    return pa.RecordBatch.from_arrays([*batch.columns, millis, pa.nulls(batch.num_rows, pa.int64())], schema=EXACT)


def rows_as_arrow(rows: Sequence[exact.ExactRecord], tp: TopicPartition) -> pa.RecordBatch:
    """Records of one partition as a batch of the schema EXACT."""
    columns = {
        "key": [one.key for one in rows],
        "value": [one.value for one in rows],
        "topic": [tp.topic] * len(rows),
        "partition": [tp.partition] * len(rows),
        "offset": [one.offset for one in rows],
        "timestamp": [one.millis * 1000 if LEAST_US <= one.millis * 1000 <= MOST_US else None for one in rows],
        "headers": [[{"key": name, "value": value} for name, value in one.headers] for one in rows],
        TIMESTAMP_TYPE: [one.timestamp_type for one in rows],
        KAFKA_MS: [one.millis for one in rows],
        VALUE_BYTES: [one.value_bytes for one in rows],
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in EXACT], schema=EXACT)
