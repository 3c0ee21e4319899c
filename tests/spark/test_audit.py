"""The audit against a real broker and real tables: a clean lake has no finding, each planted fault has its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, TypeFrom
from exporter.errors import InvariantBroken
from exporter.kafka.topics import FirstPosition
from exporter.lake.later import Later
from exporter.operate.chosen import parse_offsets
from offsets.ranges import TopicPartition
from offsets.selection import Topics
from tests.spark.audit_lake import Exported, assert_finds, routing_of
from tests.support.lakes import seldom
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("audit")]

DDL = {
    "click": "id BIGINT, name STRING, ok BOOLEAN, x DOUBLE, at STRUCT<x: INT, y: INT>, tags ARRAY<STRING>, "
    "ts TIMESTAMP",
    "view": "id BIGINT, page STRING, price DECIMAL(10,2), ts TIMESTAMP",
}
KAFKA_MS = 1_741_608_000_000
"""2025-03-10T12:00:00Z."""
BYTES_MAX = 4_000


def click(number: int, day: str = "2025-03-10") -> bytes:
    """A click, written with blanks and escapes."""
    fields = {"type": "click", "id": number, "name": f"é{number}", "ok": number % 2 == 0, "ts": f"{day}T10:00:00+02:00"}
    x = -0.0 if number == 4 else number / 3
    return json.dumps({**fields, "x": x, "at": {"x": number, "y": None}, "tags": ["a", None]}).encode()


def view(number: int, day: str = "2025-03-09") -> bytes:
    """A view, written as compact as can be."""
    fields = {"type": "view", "id": number, "page": "/", "price": 1.25, "ts": f"{day}T23:59:59.999999Z"}
    return json.dumps(fields, separators=(",", ":")).encode()


BAD: list[bytes | None] = [
    None,
    b"",
    b"not json",
    b'{"type":"click","id":1',
    b'{"type":"click","id":"1","ts":"2025-03-10T00:00:00Z"}',
    b'{"type":"click","id":1,"id":2,"ts":"2025-03-10T00:00:00Z"}',
    b'{"type":"other","id":1,"ts":"2025-03-10T00:00:00Z"}',
    b'{"type":5}',
    b'{"type":""}',
    b'{"id":1}',
    b"[1,2]",
    b'{"type":"click","ts":"2925-03-10T00:00:00Z"}',
    b'{"type":"click","name":"\xff","ts":"2025-03-10T00:00:00Z"}',
    b'{"type":"click","ts":"2025-03-10T00:00:00Z","name":"' + b"y" * BYTES_MAX + b'"}',
    b"[" * 300 + b"]" * 300,
]
ODD: list[bytes] = [
    b'{"type":"\\u0063lick","id":-0,"x":1e400000,"ts":"2025-03-10T00:00:00Z"}',
    b' {"ts":"2025-03-10 00:00:00.123456789","x":-0,"type":"click"} ',
    b'{"type":"click","x":0.1e-5,"unknown":{"a":[1]},"ts":"2025-03-10"}',
    b'{"type":"click","x":18446744073709551616,"unknown":' + b"1" * 1_500 + b',"ts":"2025-03-10T01:02"}',
    b'{"type":"click","name":"\\ud83d\\ude00\\u0000 \\n","at":{},"tags":[],"ts":"2025-03-10T00:00:00-0530"}',
]
"""Good or bad at the exporter's choice: whichever it is, the audit must agree."""


def records(values: list[bytes | None]) -> list[Record]:
    return [Record(b"k", value, (), KAFKA_MS + number) for number, value in enumerate(values)]


@pytest.fixture(scope="module")
def exported(spark, kafka, tmp_path_factory) -> Exported:
    """Two partitions of clicks, views, bad and odd records, exported; then a tail that is not."""
    mixed: list[bytes | None] = [
        value for n in range(15) for value in (click(n, f"2025-03-{8 + n % 3:02d}"), view(n), BAD[n])
    ]
    routing = routing_of(DDL, record_bytes_max=BYTES_MAX)
    lake = Exported(spark, kafka, fresh_name(), tmp_path_factory.mktemp("lake") / "l", routing)
    lake.sent(records(mixed), records([*ODD, *(click(n) for n in range(20))]))
    produce(kafka, lake.topic, {0: records([click(99), view(99), None])})
    return lake


@pytest.fixture
def lake(exported: Exported, tmp_path: Path) -> Exported:
    """A copy of the exported lake, to be spoilt."""
    return exported.copy(tmp_path / "copy")


def live_file(lake: Exported, event_type: str, day: str) -> Path:
    return next(Path(lake.folder(event_type), f"day={day}").glob("*.parquet"))


def add_by_hand(lake: Exported, event_type: str, path: Path, day: str) -> None:
    """A Delta commit as another tool would write it: one more file, no position."""
    folder = Path(lake.folder(event_type))
    version = max(int(p.stem) for p in (folder / "_delta_log").glob("*.json")) + 1
    add = {"path": str(path.relative_to(folder)), "partitionValues": {"day": day}, "size": path.stat().st_size,
           "modificationTime": 0, "dataChange": True}  # fmt: skip
    (folder / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"add": add}))


def test_a_topic_of_many_partitions_is_read_by_one_consumer(kafka):
    """Each record once; offsets without a record are gone through as well."""
    from exporter.local.broker import create_topic
    from exporter.operate.audit.records import AuditedOffsets, AuditedTopic

    topic, partitions = fresh_name(), 40
    create_topic(kafka, topic, partitions)
    produce(kafka, topic, {number: records([click(number), None]) for number in range(partitions)})
    wanted = [AuditedOffsets(TopicPartition(topic, number), number % 3, 2) for number in range(partitions)]
    found = [*AuditedTopic({"bootstrap_servers": [kafka]}, "read_committed", BYTES_MAX).stretches(wanted)]
    assert sorted((one.tp.partition, one.start, one.end) for one in found) == [
        (one.tp.partition, one.start, 2) for one in wanted if one.start < 2
    ]
    read = sorted((one.tp.partition, record.offset) for one in found for record in one.records)
    assert read == [(one.tp.partition, at) for one in wanted for at in range(one.start, 2)]


def test_a_clean_lake_has_no_finding(exported):
    """Each record is once in its table or in the dead letters; a tail that is not exported yet is pending."""
    report = exported.finds()
    assert (report.checked, report.once, report.pending) == (70, 70, 3)
    assert report.dead_letters >= len(BAD)
    assert {table.event_type: table.days for table in report.tables}["click"] == 3
    assert report.checked_columns == {
        "click": ("id", "name", "ok", "x", "at", "tags", "ts"), "view": ("id", "page", "price", "ts"),
    }  # fmt: skip


def test_a_file_that_is_committed_again_under_another_name_is_found(lake):
    """Twice: every offset of the file, counted and named."""
    file = live_file(lake, "click", "2025-03-09")
    copy = file.with_name("copy-" + file.name)
    shutil.copy(file, copy)
    add_by_hand(lake, "click", copy, "2025-03-09")
    report = lake.finds(twice=5)
    assert str(report.examples[0]) == f"twice: click {lake.topic}-0: 3, 12, 21, 30, 39 (also in click)"


def test_a_live_file_that_is_gone_is_found_with_its_offsets(lake):
    """The file is named, and each of its records is missing; the other files are still compared."""
    live_file(lake, "click", "2025-03-09").unlink()
    report = lake.finds(absent_files=1, missing=5)
    assert (report.absent[0].table, report.absent[0].first_offset, report.absent[0].last_offset) == ("click", 3, 39)
    assert str(report.examples[0]) == f"missing: click {lake.topic}-0: 3, 12, 21, 30, 39"


@pytest.mark.long
def test_a_live_file_that_was_cut_is_found(lake):
    """A file of another size than the table says is not read, and named."""
    file = live_file(lake, "view", "2025-03-09")
    file.write_bytes(file.read_bytes()[:100])
    assert lake.finds(absent_files=1, missing=15).absent[0].why == "another size"


def test_a_row_in_the_table_of_another_type_is_found(lake):
    """A click that is in the views and not in the clicks is in another table than expected."""
    lake.sql("INSERT INTO {v} (_kafka, id, day) SELECT _kafka, id, day FROM {c} WHERE id = 3 AND _kafka.partition = 0",
             v="view", c="click")  # fmt: skip
    lake.finds(twice=1)
    lake.sql("DELETE FROM {c} WHERE id = 3 AND _kafka.partition = 0", c="click")
    report = lake.finds(wrong_table=1)
    assert str(report.examples[0]) == f"in another table: view {lake.topic}-0: 9 (expected in click)"


def test_deleted_rows_are_missing(lake):
    """A record at or below the position without a row is missing, a dead letter too."""
    lake.sql("DELETE FROM {t} WHERE id >= 10", t="view")
    lake.sql("DELETE FROM {t} WHERE value IS NULL", t=DEAD_LETTERS)
    lake.finds(missing=6)


def test_changed_values_are_found(lake):
    """Columns, event time, day, and the dead letters' bytes and reason are compared with the topic."""
    changes = (
        ("click", "name = 'other' WHERE id = 7 AND _kafka.partition = 0"),
        ("click", "x = NULL WHERE id = 8 AND _kafka.partition = 0"),
        ("click", "at = named_struct('x', 9, 'y', 1) WHERE id = 9 AND _kafka.partition = 0"),
        ("view", "day = DATE'2025-01-01' WHERE id = 7"),
        ("view", "_event_time = _event_time + INTERVAL 1 MICROSECOND WHERE id = 8"),
        (DEAD_LETTERS, "value = CAST('x' AS BINARY) WHERE value IS NULL"),
        (DEAD_LETTERS, "reason = '' WHERE value = CAST('not json' AS BINARY)"),
    )
    for table, change in changes:
        lake.sql(f"UPDATE {{t}} SET {change}", t=table)
    report = lake.finds(different=7)
    offsets = {"click": "21, 24, 27", "view": "22, 25", DEAD_LETTERS: "2, 8"}
    said = [f"different values: {table} {lake.topic}-0: {which}" for table, which in offsets.items()]
    assert sorted(map(str, report.examples)) == sorted(said)


def test_a_row_beyond_the_position_is_found(lake):
    """A table must not hold what it does not claim to cover, not even if the record exists."""
    lake.sql(
        "INSERT INTO {c} (_kafka, id, day) SELECT named_struct('topic', _kafka.topic, 'partition', 0, 'epoch', 0, "
        "'offset', 45L, 'timestamp', _kafka.timestamp), 99, day FROM {c} WHERE id = 3 AND _kafka.partition = 0",
        c="click",
    )
    lake.finds(outside=1)


@pytest.mark.long
def test_a_row_without_coordinates_is_found(lake):
    """A row that somebody else inserted has no record."""
    lake.sql("INSERT INTO {v} (id, day) VALUES (1, DATE'2025-03-09'), (2, DATE'2025-03-09')", v="view")
    lake.finds(foreign=2)


def test_a_table_that_is_gone_is_found(lake):
    """The dead letters list the tables; one that is not there is a problem, and its records are missing."""
    shutil.rmtree(lake.folder("view"))
    assert lake.finds(problems=1, missing=15).problems == ("table view is gone",)


def test_findings_can_be_limited_to_a_day_and_to_offsets(lake):
    """--day looks at rows of that day and records of that event day; --from-offsets leaves out what is below."""
    from datetime import date

    lake.sql("DELETE FROM {c} WHERE id IN (3, 4, 7) AND _kafka.partition = 0", c="click")
    assert lake.audit(day=date(2025, 3, 9)).missing == 2
    assert lake.audit(from_offsets={TopicPartition(lake.topic, 0): 10}).missing == 2
    starts = {TopicPartition(lake.topic, 0): 22, TopicPartition(lake.topic, 1): 5}
    assert assert_finds(lake.audit(from_offsets=starts)).checked == (45 - 22) + 20


def test_since_asks_for_what_is_new_and_an_audit_says_where_the_next_one_goes_on(lake):
    """Where not all tables were complete it goes on; old damage is not looked for, and what is left out is told."""
    lake.export(types=("click",))
    starts = parse_offsets(lake.report().next_since, Topics((lake.topic,)))
    assert starts == {TopicPartition(lake.topic, 0): 45, TopicPartition(lake.topic, 1): 25}
    lake.sql("DELETE FROM {c} WHERE id = 3", c="click")
    report = assert_finds(lake.report(from_offsets=starts))
    assert (report.left_out, report.pending, report.once) == (45 + 25, 2, 1)
    lake.export()
    lake.sql("DELETE FROM {v} WHERE id = 99", v="view")
    assert assert_finds(lake.report(from_offsets=starts), missing=1).checked == 3
    assert lake.report().missing == 3


def test_rows_behind_deletion_vectors_are_missing(lake):
    """Their files hold them still: what is deleted there is Spark's to say."""
    lake.sql("ALTER TABLE {v} SET TBLPROPERTIES (delta.enableDeletionVectors = true)", v="view")
    lake.sql("DELETE FROM {v} WHERE id IN (2, 9)", v="view")
    assert any(Path(lake.folder("view")).rglob("deletion_vector_*.bin"))
    assert_finds(lake.report(), missing=2)


def test_tables_at_different_positions_are_no_finding(lake):
    """One type runs ahead of the others and of the dead letters: nothing is missing, nothing twice."""
    lake.export(types=("click",))
    assert lake.finds().pending == 2


def test_what_lies_before_the_first_position_is_not_asked_for(spark, kafka, topic: Callable[..., str], tmp_path):
    """A lake that was started at the latest offset owes nothing before it; an empty lake owes nothing."""
    lake = Exported(spark, kafka, topic(), tmp_path / "lake", routing_of(DDL))
    produce(kafka, lake.topic, {0: records([click(n) for n in range(5)])})
    assert lake.audit().pending == 5
    lake.export(first_position=FirstPosition("latest"))
    lake.finds()
    produce(kafka, lake.topic, {0: records([click(n) for n in range(3)])})
    lake.export()
    report = lake.finds()
    assert (report.before_first, report.once) == (5, 3)


def test_records_that_left_the_log_are_no_finding(lake, topic, tmp_path):
    """Below the log's start only the tables are compared with each other."""
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as KafkaTopicPartition

    fresh = replace(lake, topic=topic(), root=tmp_path / "fresh")
    produce(fresh.kafka, fresh.topic, {0: records([click(n) for n in range(6)])})
    fresh.export()
    admin = KafkaAdminClient(bootstrap_servers=fresh.kafka)
    admin.delete_records({KafkaTopicPartition(fresh.topic, 0): 4})
    admin.close()
    fresh.sql("DELETE FROM {c} WHERE id = 1", c="click")
    report = fresh.finds()
    assert (report.checked, report.gone) == (2, 3)


@pytest.mark.long
def test_aborted_transactions_have_no_rows(spark, kafka, topic, tmp_path):
    """Offsets of aborted records and markers are no finding; a row at such an offset has no record."""
    from confluent_kafka import Producer

    lake = Exported(spark, kafka, topic(), tmp_path / "lake", routing_of(DDL))
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": lake.topic})
    producer.init_transactions()
    for number, abort in enumerate((False, True, False)):
        producer.begin_transaction()
        for row in range(3):
            producer.produce(lake.topic, click(number * 10 + row), timestamp=KAFKA_MS)
        producer.flush()  # else an abort drops what was not sent
        producer.abort_transaction() if abort else producer.commit_transaction()
    lake.export()
    assert lake.finds().once == 6
    lake.sql("UPDATE {c} SET _kafka.offset = 5 WHERE id = 1", c="click")
    lake.finds(foreign=1, missing=1)


@pytest.mark.parametrize(("kind", "dead_letters"), [("header", 6), seldom("key", 6), ("topic", 1)])
def test_the_event_type_may_stand_elsewhere(spark, kafka, topic, tmp_path, kind, dead_letters):
    """Header, key and topic's name: the SQL of the audit finds the same tables as the exporter."""
    name = topic()
    ddl, time = {**DDL, "b": "id INT"}, EventTime("json", "n.t", "ms")
    if kind == "topic":
        ddl, time = {name: "id BIGINT, name STRING", "b": "id BIGINT, type STRING"}, EventTime("record")
    routing = routing_of(ddl, type_from=TypeFrom(kind, "h"), event_time=time)
    lake = Exported(spark, kafka, name, tmp_path / "lake", routing)
    rows = [
        Record(event_type, b'{"id":%d,"name":"n","n":{"t":%d}}' % (n, KAFKA_MS - n * 40_000_000),
               [("h", b"b"), ("h", event_type)], KAFKA_MS)
        for n, event_type in enumerate((b"click", b"view", b"", None, b"other", b"\xff"))
    ]  # fmt: skip
    rows += [Record(b"b", b"no json", [("h", b"b")], KAFKA_MS), Record(b"b", b"{}", (), KAFKA_MS)]
    produce(kafka, name, {0: rows})
    lake.export()
    report = lake.finds()
    assert (report.once, report.dead_letters) == (8, dead_letters)


def test_each_offset_is_judged_by_the_configuration_that_was_in_force(lake):
    """Types that were added, removed and added again: what they missed are dead letters, and no finding."""
    first = lake.routing
    values = [click(1), view(1), b'{"type":"other","id":1,"ts":"2025-03-10T00:00:00Z"}']
    for number, ddl in enumerate(({**DDL, "other": "id BIGINT"}, {"click": DDL["click"]}, DDL)):
        now = replace(lake, routing=routing_of(ddl, record_bytes_max=BYTES_MAX, generation=number + 1))
        now.export()
        produce(now.kafka, now.topic, {1: records([*values])})
        now.export()
    now.finds()
    replace(lake, routing=first).finds()
    lake.sql("DELETE FROM {d} WHERE event_type = 'view' AND _kafka.epoch = 2", d=DEAD_LETTERS)
    lake.finds(missing=1)


def test_parts_and_processes_find_what_one_finds(lake, monkeypatch):
    """A few offsets each, beside each other, in parts that files reach over: the same report, and told to the end."""
    from exporter.operate.audit import parts

    lake.sql("DELETE FROM {v} WHERE id IN (2, 9)", v="view")
    lake.sql("UPDATE {c} SET name = 'other' WHERE id = 7", c="click")
    lake.sql("INSERT INTO {v} (id, day) VALUES (1, DATE'2025-03-09')", v="view")
    lake.sql("OPTIMIZE {c}", c="click")
    told: list[tuple[int, int]] = []
    whole = replace(lake.report(tell=lambda *far: told.append(far)), secs=0.0)
    assert told.pop() == (70, 70) and not told
    assert (whole.missing, whole.different, whole.foreign) == (2, 2, 1), whole.as_text()
    monkeypatch.setattr(parts, "PROCESS_OFFSETS", 20)
    monkeypatch.setattr(parts, "PART_OFFSETS", 7)
    assert replace(lake.report(tell=lambda *far: told.append(far)), secs=0.0) == whole
    assert told[-1] == (70, 70) and told == sorted(told)
    monkeypatch.setattr(parts, "CLUSTER_OFFSETS", 1)
    as_if = property(lambda self: True, lambda self, value: None)
    monkeypatch.setattr(Later, "on_cluster", as_if, raising=False)
    assert replace(lake.report(tell=lambda *far: told.append(far)), secs=0.0) == whole


def test_a_recreated_topic_is_refused(lake, topic):
    """Offsets of two topics of one name have nothing in common: no comparison."""
    from kafka import KafkaAdminClient

    fresh = replace(lake, topic=topic(), root=lake.root.parent / "fresh")
    produce(fresh.kafka, fresh.topic, {0: records([click(1)])})
    fresh.export()
    admin = KafkaAdminClient(bootstrap_servers=fresh.kafka)
    admin.delete_topics([fresh.topic])
    from exporter.local.broker import create_topic

    create_topic(fresh.kafka, fresh.topic, 1)
    admin.close()
    with pytest.raises(InvariantBroken):
        fresh.audit()
