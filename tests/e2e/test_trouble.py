"""Records that a reader, a worker or the broker does not pass: the export goes on, each is once in the lake."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pyarrow.compute as pc
import pytest

from exporter.core.backoff import Backoff
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import PartitionPlan
from exporter.errors import CannotRepair, ConfigError, Fenced, FoundProblem
from exporter.fetch import ranges
from exporter.kafka.topics import FirstPosition
from exporter.local.broker import Broker, create_topic
from exporter.operate.audit.records import AuditedOffsets, AuditedTopic
from exporter.operate.audit.records import AuditedRecord as Read
from exporter.operate.repair.reading import NothingToRepair
from exporter.operate.repair.repair import repair
from exporter.operate.repair.skip import skipped_offsets
from exporter.operate.repair.steps import RepairRow
from exporter.protocol.poison import Poisoned, spare
from exporter.rounds import rounds
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.lakes import NOON, Export, Exports, Going, event, millis, mixed, wait_until, wrong_places
from tests.support.naive import assert_each_once
from tests.support.processes import running
from tests.support.segments import damage, damaged_batches, segment_of
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""What brokers let through before their version 4."""


@pytest.fixture
def export(exports: Exports) -> Export:
    """Two partitions that take any timestamp."""
    return exports(2, config=ANY_TIME)


def test_kafka_timestamps_in_micro_and_nanoseconds_make_dead_letters_and_stop_nobody(
    export: Export, spark: Any
) -> None:
    """Nanoseconds for milliseconds are more than microseconds of 64 bits: whole batches of them, and no round fails."""
    at = millis(NOON)
    wrong = [event("order", number, at=NOON)._replace(key=b"dead_letters") for number in range(40)]
    micros = [one._replace(timestamp_ms=at * 1_000) for one in wrong[:3]]
    nanos = [one._replace(timestamp_ms=at * 10**6) for one in wrong[3:]]
    sent = {0: [*mixed(30), *micros, *mixed(5, first=30), *nanos, *mixed(30, first=40)], 1: mixed(50, first=100)}
    export.send(sent)
    service = export.run(spark)
    assert wrong_places(export) == {}
    assert service.totals.rounds_failed == 0
    rows = [row for row in export.rows(DEAD_LETTERS) if row["reason"].startswith("kafka_timestamp_out_of_range")]
    assert len(rows) == 40
    assert {(row["stage"], row["event_type"], row["_kafka"]["timestamp"], str(row["day"])) for row in rows} == {
        ("route", "order", None, "1970-01-01")
    }
    assert {row["reason"].split()[1] for row in rows} == {str(at * 1_000), str(at * 10**6)}
    assert {row["value"] for row in rows} == {one.value for one in wrong}
    assert_each_once(export)


@pytest.mark.long
def test_a_record_that_unpacks_to_more_than_the_heap_becomes_a_dead_letter_of_its_size(
    export: Export, spark: Any
) -> None:
    """150 MB out of 150 kB: it is unpacked a piece at a time, and what may be kept of it is kept."""
    size = 150_000_000
    export.send({0: mixed(40), 1: mixed(40, first=100)})
    produce(export.kafka, export.topic, {0: [Record(b"dead_letters", b"x" * size)]}, HUGE)
    export.send({0: mixed(40, first=41)})
    small = export.with_(driver_memory="512m")
    with running(small, "--until-caught-up") as task:
        assert task.wait() == 0, task.text[-4000:]
        assert "round_failed" not in task.text, task.text[-4000:]
    assert wrong_places(export) == {}
    (row,) = [row for row in export.rows(DEAD_LETTERS) if row["_kafka"]["offset"] == 40]
    assert (row["stage"], len(row["value"])) == ("size", ranges.WHOLE_BYTES_MAX)
    assert row["reason"] == f"too_long: {size} bytes, the limit is 10000000, the first {len(row['value'])} are kept"
    export.proven(spark)


def skipped(e: Export, spark: Any, offsets: str, apply: bool) -> list[RepairRow]:
    """exporter repair --skip OFFSETS [--apply]"""
    with e.bench(spark) as made:
        wanted = skipped_offsets(offsets, [e.topic])
        return repair(made, "skip", "", FirstPosition(), apply, None, wanted)


def spared(e: Export, spark: Any, tp: TopicPartition, offset: int) -> None:
    """What a task commits whose rounds end on the record."""
    with e.bench(spark) as bench:
        dead_letters = bench.lake.table(DEAD_LETTERS).view()
        at = dead_letters.position(e.app, tp)
        plan = PartitionPlan(tp, 0, 0, offset, offset + 1, {})
        spare(bench.lake, Poisoned(plan, at, dead_letters.version), "it ends its task")


@pytest.mark.long
def test_a_batch_that_is_damaged_on_the_broker_holds_up_its_partition_until_it_is_skipped(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for poison: a replica may be whole. The other partition goes on, and /readyz says which is stuck.

    One of its records was spared before: that is settled with the others.
    """
    monkeypatch.setattr(rounds, "PAUSE", Backoff(0.5, 4.0))
    with Broker(tmp_path / "broker") as broker:
        topic = fresh_name()
        create_topic(broker.bootstrap, topic, 2)
        e = Export(broker.bootstrap, topic, tmp_path, fresh_name("app"))
        for first in (0, 10, 20):
            produce(e.kafka, topic, {0: mixed(10, first=first), 1: mixed(10, first=first + 100)})
        damage(segment_of(tmp_path / "broker", topic), 1)
        assert damaged_batches(segment_of(tmp_path / "broker", topic)) == [(10, 19)]
        with e.service(spark, until_caught_up=False) as service:
            task = Going(service)
            watch = service._watch
            wait_until(lambda: watch.snapshot and watch.snapshot.stuck, 120, "a partition is stuck")
            assert re.match(rf"{topic}-0: its rounds fail again and again: .*(crc|orrupt)", watch.snapshot.not_ready)
            wait_until(lambda: set(e.positions(1).values()) == {(0, 29)}, 60, "the other partition at its end")
            wait_until(lambda: set(e.positions(0).values()) == {(0, 9)}, 60, "the first one before the damage")
            failed = service.totals.rounds_failed
            wait_until(lambda: service.totals.rounds_failed > failed + 4, 120, "it is tried again and again")
            assert not e.table(DEAD_LETTERS).to_pyarrow_table().filter(pc.field("stage") == "condemned").num_rows
            task.stop()
        spared(e, spark, TopicPartition(topic, 0), 12)
        produce(e.kafka, topic, {1: mixed(10, first=200)})
        with pytest.raises(FoundProblem, match=rf"^{topic}-0 cannot be read on, its rounds fail .*(crc|orrupt)"):
            e.with_(give_up_secs=5).run(spark)
        assert set(e.positions(1).values()) == {(0, 39)}
        with e.service(spark, until_caught_up=False) as service:
            task = Going(service)
            wait_until(lambda: service.totals.rounds_failed > 4, 120, "it is stuck again")
            before = e.positions()
            planned = skipped(e, spark, "0:10-19", apply=False)
            assert e.positions() == before and {row.new for row in planned if row.new} == {Position(1, 9)}
            skipped(e, spark, "0:10-19", apply=True)
            assert isinstance(task.ended(), Fenced)
        e.run(spark)
        rows = [row for row in e.rows(DEAD_LETTERS) if row["stage"] == "condemned"]
        assert [row["_kafka"]["offset"] for row in rows] == [*range(10, 20)]
        assert all(row["key"] is row["value"] is None and "cannot be read" in row["reason"] for row in rows)
        assert len(e.placed()) == 70 and all(len(found) == 1 for found in e.placed().values())
        e.proven(spark)
        with pytest.raises(NothingToRepair):
            skipped(e, spark, "0:10-19", apply=True)


def test_a_record_that_is_skipped_is_fenced_off_from_whoever_has_it_staged(export: Export, spark: Any) -> None:
    """It could be read all the same: its whole row is a dead letter, a task that has read it ends; it is there once."""
    e = export.with_(roll_age_max_secs=600, heartbeat_secs=600)
    e.send({0: mixed(20)})
    with e.service(spark, until_caught_up=False) as service:
        task = Going(service)
        wait_until(lambda: service.totals.staged_rows == 20, 60, "all staged")
        skipped(e, spark, f"{e.topic}:0:7", apply=True)
        task.stop()
        assert service.totals.refused
    e.run(spark)
    assert wrong_places(e) == {(0, 7): (["click"], [DEAD_LETTERS])}
    (row,) = [row for row in e.rows(DEAD_LETTERS) if row["stage"] == "condemned"]
    assert (row["value"], row["_kafka"]["timestamp"]) == (mixed(20)[7].value, NOON)
    for offsets, says in (("0:3", "every table has passed"), ("0:20", "its log holds")):
        with pytest.raises((CannotRepair, ConfigError), match=says):
            skipped(e, spark, offsets, apply=False)


HUGE = {"message.max.bytes": "400000000", "compression.type": "gzip"}
THREE: tuple[tuple[bytes | None, bytes | None, Any], ...] = (
    (b"k", b"v" * 3_000, None), (None, b"", [("a", b"1"), ("a", None), ("ü", b"")]), (b"", None, [])
)  # fmt: skip
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_what_is_read_with_care_is_what_the_source_reads(kafka: str, topic: Callable[..., str], spark: Any) -> None:
    """Every codec, nulls, headers, aborted and open transactions, both isolations: the same, column by column."""
    name = topic()
    for codec in CODECS:
        producer = ck.Producer({"bootstrap.servers": kafka, "compression.type": codec, "log_level": 3})
        for key, value, heads in THREE:
            producer.produce(name, value, key, headers=heads, timestamp=millis(NOON))
        assert producer.flush(30) == 0
    for number, ends in enumerate(("commit", "abort", "commit", "open")):
        producer = ck.Producer({"bootstrap.servers": kafka, "transactional.id": fresh_name(), "log_level": 3})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(name, f"{ends} {number}".encode())
        assert producer.flush(30) == 0
        if ends != "open":
            (producer.commit_transaction if ends == "commit" else producer.abort_transaction)(30)
    tp = TopicPartition(name, 0)
    for isolation, end in (("read_committed", len(CODECS) * 3 + 6), ("read_uncommitted", len(CODECS) * 3 + 7)):
        client = {"bootstrap_servers": [kafka]}
        parts = AuditedTopic(client, isolation, 10).stretches([AuditedOffsets(tp, 1, end)])
        found = [record for part in parts for record in part.records]
        by_spark = by_source(spark, kafka, AuditedOffsets(tp, 1, end), isolation)
        assert found == [as_read(tp, row) for row in by_spark]
        whole = ranges.RangeWanted(client, tp, 1, end, isolation, 10)
        assert [row for batch in ranges.exactly(whole) for row in batch.to_pylist()] == by_spark
        assert len(found) == end - 1 - {"read_committed": 4, "read_uncommitted": 3}[isolation]


def as_read(tp: TopicPartition, row: dict[str, Any]) -> Read:
    """A row of Spark's source as the audit has it."""
    micros, value = row["kafka_ms"] * 1000, row["value"]
    kind = ("CreateTime", "LogAppendTime")[row["timestampType"]]
    return Read(tp, row["offset"], micros, row["key"], value, len(value or b""), row["headers"], kind)


def by_source(spark: Any, kafka: str, wanted: AuditedOffsets, isolation: str) -> list[dict[str, Any]]:
    import json

    at = {wanted.tp.topic: {"0": wanted.start}}, {wanted.tp.topic: {"0": wanted.end}}
    options = {
        "kafka.bootstrap.servers": kafka, "assign": json.dumps({wanted.tp.topic: [0]}), "includeHeaders": "true",
        "startingOffsets": json.dumps(at[0]), "endingOffsets": json.dumps(at[1]),
        "kafka.isolation.level": isolation, "failOnDataLoss": "true",
    }  # fmt: skip
    rows = spark.read.format("kafka").options(**options).load().toArrow().to_pylist()
    rows = [{**row, "headers": row["headers"] or []} for row in rows]
    extra = {"kafka_ms": None, "value_bytes": None}
    return [{**extra, **row, "kafka_ms": round(row["timestamp"].timestamp() * 1000)} for row in rows]
