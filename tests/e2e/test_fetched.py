"""Whatever producers and brokers make of a log: a worker reads of any range what Spark's source reads of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka as ck
import pyarrow as pa
import pytest

from exporter.fetch import ranges
from offsets.ranges import TopicPartition
from tests.support.lakes import NOON, messages, millis, seldom, wait_until
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = {
    "cleanup.policy": "compact", "segment.bytes": "4194304", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000",
    "delete.retention.ms": "0",
}  # fmt: skip
KINDS: Mapping[str, Mapping[str, str]] = {
    "as sent": {},
    "times of the broker": {"message.timestamp.type": "LogAppendTime"},
    "compacted": COMPACTED,
    "packed by the broker": {"compression.type": "zstd"},
}


def headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    count = rng.choice([0, 0, 0, 1, 2, 3, 70 if rng.random() < 0.01 else 0, 10_000 if rng.random() < 0.0005 else 0])
    return [(rng.choice(["", "a", "ä€", "x" * 70]), rng.choice([None, b"", b"v" * 100])) for _ in range(count)]


def write(kafka: str, topic: str, rng: random.Random, count: int, keyed: bool) -> None:
    """One producer's records, in no transaction or in several, of which some are aborted. keyed: none has no key."""
    transactions = rng.choice([0, 0, 1, 3])
    options: dict[str, Any] = {
        "bootstrap.servers": kafka, "compression.type": rng.choice(CODECS), "log_level": 3, "linger.ms": 20,
        "batch.num.messages": rng.choice([1, 10, 10_000]), "message.max.bytes": 10_000_000,
    }  # fmt: skip
    producer = ck.Producer(options | ({"transactional.id": fresh_name()} if transactions else {}))
    if not transactions:
        send(producer, topic, rng, count, keyed)
        return
    producer.init_transactions(30)
    for _ in range(transactions):
        producer.begin_transaction()
        send(producer, topic, rng, 1 + count // transactions, keyed)
        rng.choice([producer.commit_transaction, producer.abort_transaction])(30)


def send(producer: ck.Producer, topic: str, rng: random.Random, count: int, keyed: bool) -> None:
    failed: list[object] = []
    for _ in range(count):
        size = rng.choice([0, 1, 63, 64, 300, 8192, 3_000_000 if rng.random() < 0.001 else 300])
        key = rng.choice([None, b"", b"k%d" % rng.randrange(50)])
        stamp = millis(NOON) + rng.choice([0, 0, rng.randrange(-(10**9), 10**9)])
        key = b"k" if keyed and key is None else key
        value = rng.choice([None, rng.randbytes(size // 2) + b"y" * (size - size // 2)])
        while True:
            try:
                producer.produce(
                    topic, value, key, headers=headers(rng), timestamp=stamp,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0 and not failed


def has_holes(kafka: str, topic: str, rng: random.Random, count: int) -> bool:
    """Whether most is gone. One more record closes the segment, else nobody compacts it."""
    write(kafka, topic, rng, 1, keyed=True)
    return sum(1 for _ in messages(kafka, topic, "read_uncommitted")) < count // 2


def by_source(spark: Any, kafka: str, wanted: ranges.RangeWanted) -> pa.Table:
    at = [json.dumps({wanted.tp.topic: {"0": offset}}) for offset in (wanted.start, wanted.end)]
    options = {
        "kafka.bootstrap.servers": kafka, "assign": json.dumps({wanted.tp.topic: [0]}), "includeHeaders": "true",
        "startingOffsets": at[0], "endingOffsets": at[1], "kafka.isolation.level": wanted.isolation,
        "failOnDataLoss": "true",
    }  # fmt: skip
    found: pa.Table = spark.read.format("kafka").options(**options).load().toArrow()
    return found


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("offset", "key", "value", "timestamp", "timestampType", "topic", "partition")
    columns = [table.column(name).to_pylist() for name in names]
    heads = [[(one["key"], one["value"]) for one in each or ()] for each in table.column("headers").to_pylist()]
    return list(zip(*columns, heads, strict=True))


def read_alike(spark: Any, kafka: str, wanted: ranges.RangeWanted) -> None:
    found = pa.Table.from_batches(ranges.exactly(wanted), schema=ranges.EXACT)
    assert rows(found) == rows(by_source(spark, kafka, wanted)), (wanted.isolation, wanted.start, wanted.end)


def undisturbed(kafka: str, topic: str, check: Callable[[], None]) -> None:
    """A check that reads twice what the broker goes on to compact: it counts where the log stayed the same."""

    def offsets() -> list[int]:
        return [one.offset() for one in messages(kafka, topic, "read_uncommitted")]

    def checked() -> bool:
        before = offsets()
        try:
            check()
        except AssertionError:
            if offsets() == before:
                raise
            return False
        return True

    wait_until(checked, 120, "a log that stays as it is")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "count"), [(1, 3_000), *(seldom(seed, 60_000) for seed in range(2, 8))])
def test_a_worker_reads_what_the_source_reads(
    kafka: str, topic: Callable[..., str], spark: Any, kind: str, seed: int, count: int
) -> None:
    """Producers of every codec and size of batch, transactions, tombstones, headers; the whole and ranges of it."""
    rng = random.Random(f"{kind} {seed}")
    name, compacted = topic(1, {"max.message.bytes": "10000000", **KINDS[kind]}), kind == "compacted"
    left = count
    while left > 0:
        write(kafka, name, rng, some := min(left, rng.choice([1, 10, 500, 1 + count // 10])), compacted)
        left -= some
    tp = TopicPartition(name, 0)
    if compacted:
        wait_until(lambda: has_holes(kafka, name, rng, count), 120, "the log is compacted")
    consumer = ck.Consumer({"bootstrap.servers": kafka, "group.id": "x", "isolation.level": "read_uncommitted"})
    _, end = consumer.get_watermark_offsets(ck.TopicPartition(name, 0), timeout=30)
    consumer.close()
    for isolation in ("read_committed", "read_uncommitted"):
        bounds = [(0, end), *(sorted(rng.sample(range(end + 1), 2)) for _ in range(3))]
        for start, until in bounds:
            wanted = ranges.RangeWanted({"bootstrap_servers": [kafka]}, tp, start, until, isolation, 10_000_000)
            if compacted:
                undisturbed(kafka, name, lambda wanted=wanted: read_alike(spark, kafka, wanted))
            else:
                read_alike(spark, kafka, wanted)


@pytest.mark.long
def test_records_of_fifty_megabytes_are_read_as_the_source_reads_them(
    kafka: str, topic: Callable[..., str], spark: Any
) -> None:
    """Alone in their batches, beside small ones; packed to next to nothing, and as they are."""
    name, most = topic(1, {"max.message.bytes": "60000000"}), 50_000_000
    rng, failed = random.Random(50), list[object]()
    for codec in CODECS:
        producer = ck.Producer({"bootstrap.servers": kafka, "compression.type": codec, "message.max.bytes": 60_000_000})
        for value in (b"1", rng.randbytes(most) if codec in ("none", "lz4") else b"y" * most, b"", b"2"):
            producer.produce(name, value, b"k", on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(120) == 0 and not failed
    end = 4 * len(CODECS)
    for start, until in [(0, 7), (7, 12), (12, end)]:
        wanted = ranges.RangeWanted(
            {"bootstrap_servers": [kafka]}, TopicPartition(name, 0), start, until, "read_committed", 60_000_000
        )
        read_alike(spark, kafka, wanted)
