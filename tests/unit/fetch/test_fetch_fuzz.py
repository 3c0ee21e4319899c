"""What is read of record batches at once, one at a time, and by kafka-python is the same, whatever is in them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from exporter.fetch.batches import LogBatch, log_batches, require_whole, seen
from exporter.fetch.exact import records as one_by_one
from exporter.fetch.reader import FetchPart, arrow, as_exact
from offsets.ranges import TopicPartition

TP = TopicPartition("orders", 3)
ROUNDS = 300
"""Responses per format; a long run sets more."""
NOON_MS, LAST_MS = 1_769_860_800_000, 253_402_300_799_999
KEEP = 1 << 20


def sent(rng: random.Random, magic: int, base: int, count: int) -> bytes:
    """A batch of some producer's."""
    codec = rng.choice([0, 0, 1, 2, 3, 4][: 6 if magic == 2 else 5])
    made = MemoryRecordsBuilder(
        magic=magic, compression_type=codec, batch_size=1 << 24, offset=0 if magic == 2 else base
    )  # of format 2 it leaves the batch's base at 0, whatever it is told: that comes below
    first_ms = rng.choice([0, NOON_MS, LAST_MS])
    for number in range(count):
        key = rng.choice([None, b"", b"k%d" % number, rng.randbytes(rng.choice([1, 70, 9000]))])
        value = rng.choice([None, b"", rng.randbytes(rng.choice([1, 63, 64, 65, 8191, 8192, 20_000]))])
        names = ["", "a", "ä€", "x" * 70]
        many = rng.choice([0, 0, 0, 1, 2, 5, 66 if rng.random() < 0.02 else 0])
        headers = [(rng.choice(names), rng.choice([None, b"", rng.randbytes(100)])) for _ in range(many)]
        millis = first_ms + rng.choice([0, number, -5 if first_ms else 0, rng.randrange(1 << 20)])
        made.append(millis if magic else None, key, value, headers if magic == 2 else [])
    made.close()
    raw = bytes(made.buffer())
    if magic == 2 or codec:  # as the broker does
        return struct.pack(">q", base if magic == 2 else base + count - 1) + raw[8:]
    return raw


def by_kafka_python(raw: bytes) -> Iterator[tuple[Any, ...]]:
    found = MemoryRecords(raw)
    while (batch := found.next_batch()) is not None:
        assert batch.validate_crc()
        for one in batch:
            yield one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value, [*one.headers]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    found = []
    for batch in map(as_exact, batches):
        assert batch.num_rows
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for row, micros in zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            assert micros in (None, row["kafka_ms"] * 1000)
            assert (micros is None) == (row["kafka_ms"] > LAST_MS)
            headers = [(one["key"], one["value"]) for one in row["headers"]]
            found.append((row["offset"], row["kafka_ms"], row["key"], row["value"], headers))
    return found


def whole(raw: bytes, batches: Sequence[LogBatch]) -> list[tuple[Any, ...]]:
    return rows_of(arrow(FetchPart(raw, TP, 0, 1 << 40, KEEP), batches))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_way_reads_the_same(magic: int) -> None:
    """Of a whole response and of any range within it; what is cut off at its end is left out."""
    rng, total = random.Random(magic), 0
    for number in range(ROUNDS):
        raw, base = b"", rng.randrange(1000)
        for _ in range(rng.randrange(1, 6)):
            count = rng.choice([1, 2, 50])
            raw += sent(rng, magic, base, count)
            base += count + rng.choice([0, 0, 7])
        wanted = [*by_kafka_python(raw)]
        start = rng.randrange(base + 2)
        end = rng.randrange(start, base + 20)
        batches = [*seen(log_batches(raw + sent(rng, magic, base, 3)[:15]), raw, [])]
        for one in batches:
            require_whole(one, raw)
        found = rows_of(arrow(FetchPart(raw, TP, start, end, KEEP), batches))
        assert found == [row for row in wanted if start <= row[0] < end], number
        alone = [row for one in batches for row in plain(one, raw)]
        assert alone == wanted
        total += len(wanted)
    assert total > ROUNDS * 10


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """With some bytes of its records turned over, and a checksum that is right."""
    made = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(61, len(made))
        made[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    if rng.random() < 0.2:
        struct.pack_into(">i", made, 57, rng.choice([0, 1, 2, 49, 51, 1 << 20]))  # how many records there are
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


def told(read: Callable[..., Iterable[tuple[Any, ...]]], *of: Any) -> list[tuple[Any, ...]] | None:
    """What is read; None where it is refused. Nothing but a refusal is raised."""
    try:
        return [*read(*of)]
    except ValueError:
        return None


def test_what_no_producer_writes_is_refused_or_read_by_every_way_alike() -> None:
    """The broker keeps what it is given if the checksum is right; of a batch before or behind it nothing changes."""
    rng, refused, taken = random.Random(7), 0, 0
    for number in range(ROUNDS * 4):
        raw = damaged(rng, sent(rng, 2, 100, rng.choice([1, 3, 50])))
        batches = [*log_batches(raw)]
        require_whole(batches[0], raw)
        exactly = told(plain, batches[0], raw)
        assert told(whole, raw, batches) == exactly, number
        refused, taken = refused + (exactly is None), taken + (exactly is not None)
        if exactly is None:
            continue
        good = sent(rng, 2, 200, 3)
        both = [*log_batches(raw + good)]
        assert whole(raw + good, both) == [*exactly, *by_kafka_python(good)], number
    assert refused > 50 and taken > 50


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (1, 1), (0, 2)])
def test_offsets_that_do_not_rise_within_their_batch_are_refused_by_every_way(deltas: tuple[int, int]) -> None:
    """Else a record would come twice, or another's place be taken."""
    made = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=0)
    for value in (b"a", b"b"):
        made.append(NOON_MS, None, value, [])
    made.close()
    raw = bytearray(made.buffer())
    first, second = (raw.index(b"\x01\x02" + value) - 1 for value in (b"a", b"b"))  # no key, a byte of value
    assert (raw[first], raw[second]) == (0, 2)
    raw[first], raw[second] = (2 * delta for delta in deltas)
    struct.pack_into(">I", raw, 17, crc32c(bytes(raw[21:])))
    (batch,) = log_batches(bytes(raw))
    with pytest.raises(ValueError, match="may"):
        list(plain(batch, bytes(raw)))
    with pytest.raises(ValueError, match="may"):
        whole(bytes(raw), [batch])


def plain(one: LogBatch, raw: bytes) -> Iterator[tuple[Any, ...]]:
    for row in one_by_one(one, raw, KEEP):
        yield row.offset, row.millis, row.key, row.value, row.headers
