"""The record batches of a fetch response: where each stands, and which of them a consumer sees. Pure.

    base offset  length  epoch  format  crc  attributes  last delta  base ms  greatest ms  producer ..  count | records

A response begins with the batch that holds the offset that was asked for, and ends where its bytes do: the last batch
may be cut off. Formats 0 and 1 have one message each where format 2 has a batch. Source: Kafka's record format, and
what its Java client makes of transactions.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from exporter.fetch.stream import CorruptBatch, CountedStream

FORMAT = 2
"""Of batches; 0 and 1 are those of single messages."""
HEAD = struct.Struct(">qiibIhiqqqhii")
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ENTRY, _CRC, _FORMAT_AT, _CRC_AT = struct.Struct(">qi"), struct.Struct(">I"), 16, 17
_KEY = struct.Struct(">hh")
_ABORT = 0
"""Type of the marker that ends an aborted transaction."""


class LogBatch(NamedTuple):
    """A batch of format 2, or a message of an older one.

    base, last: offsets; a base of -1 is unknown. attributes: as they stand there. base_ms: what its records' timestamps
    count from. greatest_ms: of them, or when the broker appended it. producer: -1 for none. epoch: of the leader that
    wrote it. records: how many. begin, body, end: places in the response of the whole and of its records.
    """

    base: int
    last: int
    format: int
    attributes: int
    base_ms: int
    greatest_ms: int
    producer: int
    epoch: int
    records: int
    begin: int
    body: int
    end: int

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def is_appended(self) -> bool:
        """Whether the broker gave the timestamp, the same to all records."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it is a marker of the broker's, which no consumer sees."""
        return bool(self.attributes & _CONTROL)


def log_batches(records: bytes | memoryview) -> Iterator[LogBatch]:
    """The whole batches of a response, in order. Raises CorruptBatch for a length or a count that there cannot be."""
    at, size = 0, len(records)
    while size - at >= _ENTRY.size:
        base, length = _ENTRY.unpack_from(records, at)
        end = at + _ENTRY.size + length
        if length < 0:
            raise CorruptBatch(f"a batch at offset {base} has {length} bytes")
        if end > size:
            return
        if length <= _FORMAT_AT - _ENTRY.size:
            raise CorruptBatch(f"a batch at offset {base} has {length} bytes")
        kind = records[at + _FORMAT_AT]
        yield _message(base, kind, at, end) if kind < FORMAT else _batch(records, at, end)
        at = end


def _message(last: int, kind: int, at: int, end: int) -> LogBatch:
    """One that is compressed holds others, and has the offset of the last: nobody knows yet where it begins."""
    return LogBatch(-1, last, kind, 0, -1, -1, -1, -1, 1, at, at, end)


def _batch(records: bytes | memoryview, at: int, end: int) -> LogBatch:
    if end - at < HEAD.size:
        raise CorruptBatch(f"a batch of {end - at} bytes is shorter than its head")
    base, _, epoch, kind, _, attributes, delta, *more = HEAD.unpack_from(records, at)
    base_ms, greatest_ms, producer, _, _, count = more
    if count < 0 or delta < 0:
        raise CorruptBatch(f"the batch at offset {base} has {count} records up to {base + delta}")
    return LogBatch(
        base, base + delta, kind, attributes, base_ms, greatest_ms, producer, epoch, count, at, at + HEAD.size, end
    )


def require_whole(one: LogBatch, records: bytes | memoryview) -> None:
    """Raises CorruptBatch for a checksum that is wrong. Of older formats kafka-python looks at it."""
    if one.format < FORMAT:
        return
    (crc,) = _CRC.unpack_from(records, one.begin + _CRC_AT)
    if crc32c(memoryview(records)[one.begin + _CRC_AT + _CRC.size : one.end]) != crc:
        raise CorruptBatch(f"the checksum of the batch at offset {one.base} is wrong")


def seen(
    batches: Iterable[LogBatch], records: bytes | memoryview, aborted: Sequence[tuple[int, int]] | None
) -> Iterator[LogBatch]:
    """Those whose records a consumer sees.

    aborted: (producer, first offset) of each transaction that the response names; None where aborted ones are seen,
    too. From there on the producer's batches count for nothing, until its abort marker.
    """
    waiting = sorted(aborted or (), key=lambda one: one[1], reverse=True)
    dead: set[int] = set()
    for one in batches:
        if aborted is not None and one.producer >= 0:
            while waiting and waiting[-1][1] <= one.last:
                dead.add(waiting.pop()[0])
            if _is_abort(one, records):
                dead.discard(one.producer)
            elif one.is_transactional and one.producer in dead:
                continue
        if not one.is_control:
            yield one


def _is_abort(one: LogBatch, records: bytes | memoryview) -> bool:
    """Markers have one record, which is not compressed. Its key holds a version and a type of 16 bits each."""
    if not one.is_control or not one.records:
        return False
    marker = CountedStream(io.BytesIO(memoryview(records)[one.body : one.end]))
    marker.varint()  # length
    marker.exactly(1)  # attributes
    marker.varint()  # timestamp
    marker.varint()  # offset
    if marker.varint() < _KEY.size:
        return False
    _, kind = _KEY.unpack(marker.exactly(_KEY.size))
    return bool(kind == _ABORT)


def next_offset(batches: Sequence[LogBatch], position: int) -> int:
    """Where a consumer goes on behind these batches. position: where it was."""
    return max(position, batches[-1].last + 1) if batches else position
