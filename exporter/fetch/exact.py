"""Records one at a time, whatever is odd about them: what this says of a record is what counts.

Reads a batch as it unpacks, and keeps of a very long value its first bytes: nothing is held that could be too much.
Formats 0 and 1 are read by kafka-python. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.fetch.batches import FORMAT, LogBatch
from exporter.fetch.codecs import BadBytes, unpacked
from exporter.fetch.stream import CorruptBatch, CountedStream

_WRAP, _SIGN = 1 << 64, 1 << 63


class ExactRecord(NamedTuple):
    """As it was sent. millis: of its timestamp; -1 for none. timestamp_type: as TIMESTAMP_TYPE; -1 for none.

    value_bytes: of a value of which not all is here.
    """

    offset: int
    millis: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    value_bytes: int | None


def records(batch: LogBatch, raw: bytes | memoryview, keep: int) -> Iterator[ExactRecord]:
    """The records of a batch. raw: the response. keep: of a value so many bytes are kept.

    Raises CorruptBatch, and BadBytes for bytes that do not unpack.
    """
    view = memoryview(raw)
    if batch.format > FORMAT:
        raise BadBytes(f"format {batch.format} is unknown")
    if batch.format < FORMAT:
        yield from _older(bytes(view[batch.begin : batch.end]), keep)
        return
    stream = CountedStream(unpacked(batch.codec, view[batch.body : batch.end]))
    following = batch.base
    for _ in range(batch.records):
        found = _record(batch, stream, keep)
        if not following <= found.offset <= batch.last:
            raise CorruptBatch(f"offset {found.offset} stands where {following} to {batch.last} may")
        following = found.offset + 1
        yield found
    if stream.read_some(1):
        raise CorruptBatch(f"bytes are left behind the {batch.records} records of the batch at offset {batch.base}")


def _record(batch: LogBatch, stream: CountedStream, keep: int) -> ExactRecord:
    size = stream.varint()
    end = stream.at + size
    stream.exactly(1)
    # Wrapped as the int64 of the fast way are: both have to give the same (slabs.py).
    millis = _wrapped(batch.base_ms + stream.varint())
    offset = batch.base + stream.varint()
    key = _bytes(stream, end)
    value_size = stream.varint()
    if not -1 <= value_size <= end - stream.at:
        raise CorruptBatch(f"the value at offset {offset} has {value_size} bytes")
    value = None if value_size < 0 else stream.exactly(min(value_size, keep))
    stream.skip(max(0, value_size - keep))
    headers = [_header(stream, end) for _ in range(_count(stream, end))]
    if stream.at != end:
        raise CorruptBatch(f"the record at offset {offset} ends {stream.at - end} bytes behind its length")
    appended = batch.is_appended
    return ExactRecord(
        offset, batch.greatest_ms if appended else millis, int(appended), key, value, headers,
        value_size if value_size > keep else None,
    )  # fmt: skip


def _count(stream: CountedStream, end: int) -> int:
    """How many headers there are: each takes two bytes or more."""
    count = stream.varint()
    if not 0 <= 2 * count <= end - stream.at:
        raise CorruptBatch(f"a record has {count} headers")
    return count


def _header(stream: CountedStream, end: int) -> tuple[str, bytes | None]:
    name = _bytes(stream, end)
    if name is None:
        raise CorruptBatch("a header has no name")
    return name.decode("utf-8", "replace"), _bytes(stream, end)


def _bytes(stream: CountedStream, end: int) -> bytes | None:
    size = stream.varint()
    if not -1 <= size <= end - stream.at:
        raise CorruptBatch(f"a part of a record has {size} bytes")
    return None if size < 0 else stream.exactly(size)


def _wrapped(number: int) -> int:
    """As 64 bits hold it."""
    return (number + _SIGN) % _WRAP - _SIGN


def _older(message: bytes, keep: int) -> Iterator[ExactRecord]:
    """A message of format 0 or 1, or those within it."""
    from kafka.record import MemoryRecords

    batch = MemoryRecords(message).next_batch()
    if not batch.validate_crc():
        raise CorruptBatch("the checksum of a message is wrong")
    for one in batch:
        millis, kind = (-1, -1) if one.timestamp is None else (one.timestamp, one.timestamp_type)
        value, long = one.value, one.value is not None and len(one.value) > keep
        yield ExactRecord(
            one.offset, millis, kind, one.key, value[:keep] if long else value, [],
            len(value) if long else None,
        )  # fmt: skip
