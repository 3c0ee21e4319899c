"""Records of whole batches as Arrow: all of them are read at once, field by field, no object per record. Pure.

    length  attributes  timestamp  offset  key length  key  value length  value  number of headers  headers

Whatever is odd about a batch (Odd) is for the exact way (exact.py), which decides; both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from exporter.arrow.kafka_time import LEAST_US, MOST_US, TIMESTAMP_TYPE, US
from exporter.arrow.own_columns import HEADERS_TYPE, RECORD_FIELDS
from exporter.fetch.batches import LogBatch
from exporter.formats.binary.columns import Lists, Out, Spans, Structs, in_order
from exporter.formats.binary.cursor import PAD, Ints, LockstepCursor, ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from offsets.ranges import TopicPartition

HEADERS_MAX = 64
"""Of a record: each costs as much as a field of many records does."""
BYTES_MAX = 1 << 30
"""Of all batches together: places are numbers of 32 bits."""
SLAB = pa.schema([*RECORD_FIELDS, (TIMESTAMP_TYPE, pa.int32())])
_PLACES = ReasonPaths(["$"])
_AT = 0


class Odd(Exception):
    """Records that are for the exact way."""


class Body(NamedTuple):
    """A batch and its records, unpacked."""

    batch: LogBatch
    records: bytes | memoryview


def slab(bodies: Sequence[Body], tp: TopicPartition, start: int, end: int) -> pa.RecordBatch:
    """The records of some batches, those whose offsets are start..end-1, as SLAB. Raises Odd."""
    if sum(len(one.records) for one in bodies) > BYTES_MAX:
        raise Odd
    batches, counts = [one.batch for one in bodies], [one.batch.records for one in bodies]
    data, starts, ends = _laid_out(bodies)
    cursor = LockstepCursor(data, starts, ends)
    cursor.byte(_AT)
    millis = _of_each([one.base_ms for one in batches], counts) + cursor.zigzag(_AT)
    base = _of_each([one.base for one in batches], counts)
    offsets = base + cursor.zigzag(_AT)
    key, value = _nullable(cursor), _nullable(cursor)
    headers = _headers(cursor)
    # One odd record makes the whole batch odd: it is read again record by record, which says which one it is.
    if cursor.bad.any() or (cursor.pos != cursor.end).any():
        raise Odd
    last = _of_each([one.last for one in batches], counts)
    if (offsets < base).any() or (offsets > last).any() or (np.diff(offsets) <= 0).any():
        raise Odd
    appended = _of_each([one.is_appended for one in batches], counts)
    if appended.any():
        millis = np.where(appended, _of_each([one.greatest_ms for one in batches], counts), millis)
    # No table holds such a time: the exact way keeps its milliseconds beside a null (kafka_time.py).
    if len(millis) and not LEAST_US // 1000 <= millis.min() <= millis.max() <= MOST_US // 1000:
        raise Odd
    out, rows = Out(data), np.arange(len(offsets))
    columns = [
        key.arrow(out, rows), value.arrow(out, rows), pa.repeat(tp.topic, len(rows)),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), len(rows)), pa.array(offsets),
        pa.Array.from_buffers(US, len(rows), [None, pa.py_buffer(millis * 1000)]),
        headers.arrow(out, rows), pa.array(appended.astype(np.int32)),
    ]  # fmt: skip
    if out.odd:  # a name of a header that is not UTF-8
        raise Odd
    found = pa.RecordBatch.from_arrays(columns, schema=SLAB)
    if not len(rows) or (start <= offsets[0] and offsets[-1] < end):
        return found
    return found.filter(pa.array((start <= offsets) & (offsets < end)))


def _laid_out(bodies: Sequence[Body]) -> tuple[ValueBytes, Ints, Ints]:
    """All bytes one behind the other, and where each record begins, behind its length, and ends. Raises Odd."""
    starts: list[int] = []
    ends: list[int] = []
    base = PAD
    for batch, records in bodies:
        _walk(records, batch.records, base, starts, ends)
        base += len(records)
    raw = bodies[0].records if len(bodies) == 1 else b"".join(one.records for one in bodies)
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int32))
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(raw)])
    return ValueBytes(whole, _PLACES), np.array(starts, np.int64), np.array(ends, np.int64)


def _walk(records: bytes | memoryview, count: int, base: int, starts: list[int], ends: list[int]) -> None:
    """Go from length to length: what comes next is known of each record only once its length is."""
    at = 0
    try:
        for _ in range(count):
            size = records[at]
            at += 1
            if size > 0x7F:
                shift, more = 7, size
                size &= 0x7F
                while more > 0x7F:
                    more = records[at]
                    at += 1
                    size |= (more & 0x7F) << shift
                    shift += 7
            if size & 1:  # less than nothing
                raise Odd
            starts.append(base + at)
            at += size >> 1
            ends.append(base + at)
    except IndexError:
        raise Odd from None
    if at != len(records):
        raise Odd


def _of_each(numbers: Sequence[int], counts: Sequence[int]) -> Ints:
    """A number of each batch, for each of its records."""
    return np.repeat(np.array(numbers, np.int64), counts)


def _nullable(cursor: LockstepCursor) -> Spans:
    """Bytes behind their length, -1 for null."""
    sizes = cursor.zigzag(_AT)
    null = sizes == -1
    sizes[null] = 0
    begins = cursor.span(sizes, _AT)
    return Spans(begins, sizes, pa.binary(), _AT, valid=~null if null.any() else None)


def _headers(cursor: LockstepCursor) -> Lists:
    """Name and value of each, those of all records by their number. Raises Odd for records with very many."""
    counts = cursor.zigzag(_AT)
    if len(counts) and not 0 <= counts.min() <= counts.max() <= HEADERS_MAX:
        raise Odd
    parts = []
    for number in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > number)
        some = cursor.take(rows)
        sizes = some.zigzag(_AT)
        name = Spans(some.span(sizes, _AT), sizes, pa.string(), _AT)
        parts.append((rows, Structs((name, _nullable(some)), HEADERS_TYPE.value_type, len(rows))))
        cursor.put(rows, some)
    if parts:
        _, items = in_order(parts)
    else:
        none = np.zeros(0, np.int64)
        items = Structs((Spans(none, none, pa.string(), _AT), Spans(none, none, pa.binary(), _AT)),
                        HEADERS_TYPE.value_type, 0)  # fmt: skip
    return Lists(counts, items, HEADERS_TYPE, _AT)
