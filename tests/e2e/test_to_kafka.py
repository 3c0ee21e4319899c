"""Jobs of kind to_kafka: what a topic has of the rows of tables that a real export made."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import deltalake
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kafka.admin import NewTopic

from exporter.derive.jobs import jobs_of
from exporter.errors import ConfigError, InvariantBroken
from exporter.lake.lake import Lake
from exporter.operate.chosen import parse_ranges
from exporter.operate.dead_letters.listing import Chosen
from exporter.operate.dead_letters.replay import Replay
from tests.support.lakes import DDL, NOON, Export, Exports, event, millis, mixed
from tests.support.pages import PageExport
from tests.support.processes import ROOT
from tests.support.sent import Got, got
from tests.support.services import Record, administered, fresh_name, produce

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.broker, pytest.mark.spark]
PROTO = """
syntax = "proto3"; package shop;
message Other { int32 x = 1; }
message Order { optional string amount = 1; int64 id = 8; optional string note = 3; }
"""


@dataclass(frozen=True)
class Exported:
    """A lake that was exported once, for jobs to topics of their own."""

    export: Export
    spark: Any

    def job(self, source: str = "order", more: str = "", **settings: Any) -> tuple[Any, str]:
        """A job, and its topic. more: tables below its own."""
        to = settings.pop("topic", fresh_name("sent"))
        headers = settings.pop("headers", {})
        lines = {"kind": "to_kafka", "source": source, "topic": to, "key": "id", **settings}
        text = ["[derive.out]", *(f"{name} = {json.dumps(one)}" for name, one in lines.items()), "[derive.out.headers]"]
        text += [f"{name} = {json.dumps(one)}" for name, one in headers.items()]
        e = replace(self.export, more="\n".join([*text, more]))
        return opened(e, self.spark), to

    def got(self, topic: str) -> list[Got]:
        return got(self.export.kafka, topic)

    def rows(self, event_type: str = "order") -> list[dict[str, Any]]:
        return self.export.rows(event_type)


def opened(export: Export, spark: Any, name: str = "out") -> Any:
    settings = export.settings()
    (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app), [name])
    return job


def until_caught_up(job: Any) -> int:
    """Run it, as often as it says that there is more; the rows that were sent."""
    rows = 0
    while True:
        ran = job.run()
        rows += ran.rows
        if not ran.more:
            return rows


def require_clean(job: Any) -> None:
    """Its audit has compared something, and finds nothing."""
    lines = job.audit()
    assert [line for line in lines if not line.clean] == []
    assert [line.rows for line in lines if line.rows] != []


def ids(found: Sequence[Got]) -> list[int]:
    return sorted(json.loads(one.value or b"")["id"] for one in found)


@pytest.fixture(scope="module")
def exported(kafka: str, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """60 records in each of two partitions."""
    topic = fresh_name("in")
    with administered(kafka) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    export = Export(kafka, topic, tmp_path_factory.mktemp("sent"), fresh_name("app"))
    produce(kafka, topic, {0: mixed(60), 1: mixed(60, first=1_000)})
    export.run(spark)
    return Exported(export, spark)


def test_each_row_is_sent_once_and_in_order(kafka: str, exports: Exports, spark: Any) -> None:
    """The topic is made as it is asked for; what the source gains follows, replays too; else nothing is sent."""
    e = exports(2, types={"click": DDL["click"]})
    narrow = e.with_({"payment": DDL["payment"]}, new_type="dead_letter")
    e.send({0: [event("payment", 1), *(event("click", number) for number in range(20))]})
    narrow.run(spark)
    e = replace(narrow, types={"payment": DDL["payment"], "click": DDL["click"]})
    clicks = {one: [event("click", number + 1000 * one) for number in range(30, 70)] for one in (0, 1)}
    e.send(clicks)
    e.run(spark)
    job, to = Exported(e, spark).job("click", partitions=3, rows_max=7)
    assert until_caught_up(job) == 80
    assert job.run().idle
    found = got(kafka, to)
    assert ids(found) == sorted(row["id"] for row in e.rows("click"))
    assert all(one.key == str(json.loads(one.value or b"")["id"]).encode() for one in found)
    assert {one.partition for one in found} == {0, 1, 2}
    for partition in range(3):
        sent = [json.loads(one.value or b"")["id"] for one in found if one.partition == partition]
        for line in ([one for one in sent if one < 1000], [one for one in sent if one > 1000]):
            assert line == sorted(line) != []
    require_clean(job)
    replayed(e, spark)
    e.send({0: [event("click", number) for number in range(200, 210)]})
    e.run(spark)
    assert until_caught_up(job) == 30
    assert ids(got(kafka, to)) == sorted(row["id"] for row in e.rows("click"))
    require_clean(job)
    assert job.status().behind == {"click": 0}


def replayed(e: Export, spark: Any) -> None:
    """The dead letters become rows."""
    with e.bench(spark) as bench:
        Replay(bench.lake, bench.routing, Chosen(offsets=parse_ranges("0:0-100", [e.topic]))).run(apply=True)


def test_avro_is_what_others_read_and_headers_and_deletes_come_with_it(exported: Exported, registry: str) -> None:
    """By confluent-kafka's deserialiser; keys of columns have a schema of their own, null deletes, null headers go."""
    job, to = exported.job(
        format="avro", key=["id", "_kafka.partition AS source"], delete="id % 5 = 0", value=["id", "amount", "note"],
        headers={"kind": "'order'", "note": "nullif(note, 'n2')"}, partitions=2,
        more=f"[schema_registry]\nurls = [{json.dumps(registry)}]",
    )  # fmt: skip
    assert until_caught_up(job) == len(exported.rows())
    read = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    found = {}
    for one in exported.got(to):
        key = read(one.key, SerializationContext(to, MessageField.KEY))
        value = read(one.value, SerializationContext(to, MessageField.VALUE)) if one.value else None
        found[key["id"]] = key["source"], value, dict(one.headers)
    for row in exported.rows():
        value = None if row["id"] % 5 == 0 else {name: row[name] for name in ("id", "amount", "note")}
        headers = {"kind": b"order", "note": row["note"].encode()}
        headers = headers if row["note"] != "n2" else {"kind": b"order"}
        assert found.pop(row["id"]) == (row["_kafka"]["partition"], value, headers)
    assert found == {}
    require_clean(job)


@pytest.mark.parametrize("given", [False, pytest.param(True, marks=pytest.mark.long)])
def test_protobuf_is_what_its_message_says(exported: Exported, registry: str, tmp_path: Path, given: bool) -> None:
    """Of a message that follows from the columns, and of one of a file; the audit reads both by the registry's."""
    (tmp_path / "order.proto").write_text(PROTO)
    more = {"proto": str(tmp_path / "order.proto"), "message": "shop.Order"} if given else {}
    lines = f"[schema_registry]\nurls = [{json.dumps(registry)}]"
    job, to = exported.job(format="protobuf", more=lines, headers={"id": "id"}, **more)
    until_caught_up(job)
    assert {one.value[5:7] for one in exported.got(to) if one.value} == {b"\x02\x02"} if given else {b"\0\x08"}
    require_clean(job)


def test_a_plan_shows_what_would_be_sent_and_sends_nothing(exported: Exported) -> None:
    """Ranges and three records; the topic is not even made."""
    job, to = exported.job(headers={"at": "_event_time"}, where="id >= 1000")
    planned = job.plan()
    assert len(planned.ranges) == 2 and len(planned.statements) == 3
    assert '1000 -> {"id":1000,"amount":1000.25,"note":"n1000"} at=2026-01-3' in planned.statements[0]
    with administered(exported.export.kafka) as admin:
        assert to not in admin.list_topics()
    assert job.audit() == ()
    assert job.status().behind["order"] > 0
    until_caught_up(job)
    assert min(ids(exported.got(to))) == 1000
    assert job.plan().ranges == {}


@pytest.mark.long
def test_a_topic_that_is_there_is_left_as_it_is(exported: Exported, topic: Callable[..., str]) -> None:
    """Its partitions count; one that somebody has written to is refused, as is a rebuild over what was sent."""
    to = topic(3)
    job, _ = exported.job(topic=to, partitions=1)
    job.run()
    assert {one.partition for one in exported.got(to)} == {0, 1, 2}
    with pytest.raises(ConfigError, match="has rows of an earlier run") as told:
        job.rebuild()
    assert "name another `topic`" in told.value.hint
    require_clean(job)
    used = topic(1)
    produce(exported.export.kafka, used, {0: [Record(b"k", b"somebody's")]})
    other, _ = exported.job(topic=used)
    with pytest.raises(InvariantBroken, match="no progress there"):
        other.run()
    fresh, to = exported.job()
    assert fresh.rebuild().rows == len(exported.rows()) == len(exported.got(to))


def test_a_record_that_is_too_large_is_told_with_its_place(exported: Exported, topic: Callable[..., str]) -> None:
    """Whether it is more than the settings allow or more than the topic takes; nothing of its transaction is there."""
    job, to = exported.job(value=["id", "repeat('x', 5000) AS much"], request_bytes_max=4_000)
    with pytest.raises(ConfigError, match=r"row at .*-0 offset 0 has 5.* bytes"):
        job.run()
    assert exported.got(to) == []
    narrow = topic(1, config={"max.message.bytes": "2000"})
    job, _ = exported.job(topic=narrow, value=["id", "repeat('x', CAST(id AS INT) * 100) AS much"], rows_max=500)
    with pytest.raises(ConfigError, match=r"row at .*-1 offset \d+ has .* the topic refuses it"):
        job.run()
    assert exported.got(narrow) == []


def test_records_that_only_together_are_too_large_for_the_topic_are_sent(
    exported: Exported, topic: Callable[..., str]
) -> None:
    """The producer's batches are larger than the topic takes, and are split while a transaction waits for them."""
    narrow = topic(1, config={"max.message.bytes": "3000"})
    job, _ = exported.job(topic=narrow, value=["id", "repeat('x', 900) AS much"], rows_max=500)
    until_caught_up(job)
    assert len(exported.got(narrow)) == len(exported.rows())
    require_clean(job)


def test_the_audit_finds_what_somebody_else_did(exported: Exported) -> None:
    """A record more, a record twice, records in another order in what would else be the same topic."""
    job, to = exported.job(partitions=1)
    until_caught_up(job)
    require_clean(job)
    first, *_, last = exported.got(to)
    produce(exported.export.kafka, to, {0: [Record(first.key, first.value)]})
    content, order = job.audit()
    assert not content.clean and "1 records of the topic are no rows, or there twice" in content.says
    assert not order.clean and "in partition 0 is not the next row" in order.says
    assert last.value is not None


def test_the_table_of_a_query_is_sent_row_by_row(exported: Exported) -> None:
    """Several rows of one record stay together, whatever the size of a transaction."""
    query = "SELECT _kafka, id, part FROM source LATERAL VIEW explode(array(1, 2, 3)) AS part"
    more = f'[derive.parts]\nkind = "sql"\nsource = "order"\nquery = "{query}"'
    job, to = exported.job("parts", more=more, rows_max=2)
    with pytest.raises(ConfigError, match="has not made its table yet"):
        job.run()
    maker = opened(replace(exported.export, more=more), exported.spark, "parts")
    until_caught_up(maker)
    assert until_caught_up(job) == 3 * len(exported.rows())
    assert sorted({*ids(exported.got(to))}) == sorted(row["id"] for row in exported.rows())
    require_clean(job)
    maker.rebuild()
    with pytest.raises(InvariantBroken, match="made anew by a rebuild"):
        job.run()


BUNDLES = """[derive.sums]
kind = "bundles"
inputs.o.source = "order"
inputs.o.transaction = "CAST(id % 7 AS STRING)"
inputs.o.done = "id >= 1030"
outputs.sums = "SELECT _transaction, count(*) AS n, max(id) AS id FROM o GROUP BY _transaction"
"""


def test_bundles_are_sent_in_the_order_of_their_sequence(exported: Exported) -> None:
    """And only those of the output that `where` names."""
    job, to = exported.job("sums", more=BUNDLES, where="_output = 'sums'", rows_max=2)
    maker = opened(replace(exported.export, more=BUNDLES), exported.spark, "sums")
    until_caught_up(maker)
    assert until_caught_up(job) > 3
    assert job.run().idle
    table = deltalake.DeltaTable(str(exported.export.root / "lake" / "_derived.tables" / "sums")).to_pyarrow_table()
    made = sorted((row["_seq"], row["n"], row["id"]) for row in table.to_pylist() if row["_output"] == "sums")
    sent = [json.loads(one.value or b"") for one in exported.got(to)]
    assert [(one["n"], one["id"]) for one in sent] == [(n, number) for _, n, number in made]
    require_clean(job)


PAGE = ROOT / "deploy" / "handbook" / "derive-to-kafka.md"


def test_the_settings_of_the_page_are_what_it_takes(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """As they are written there, but for the places: the rows are in the topic, deleted ones as nulls."""
    text = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.S)[0]
    assert len(text.splitlines()) <= 15
    told, to = tomllib.loads(text), fresh_name("sent")
    e = PageExport(kafka, topic(), tmp_path, fresh_name("app"), more=text.replace('"shop.orders"', json.dumps(to)))
    orders = [{"type": "order", "order_id": n, "at": "2026-01-31T12:00:00Z", "amount": n, "cancelled": n == 2}
              for n in range(3)]  # fmt: skip
    records = [Record(b"order", json.dumps(one).encode(), timestamp_ms=millis(NOON)) for one in orders]
    produce(kafka, e.topic, {0: records})
    e.run(spark)
    (name,) = told["derive"]
    job = opened(e, spark, name)
    assert job.run().rows == 3
    value = b'{"order_id":%d,"at":"2026-01-31T12:00:00.000000Z","amount":%d.00,"cancelled":false}'
    assert [(one.key, one.value) for one in got(kafka, to)] == [
        (b"0", value % (0, 0)), (b"1", value % (1, 1)), (b"2", None),
    ]  # fmt: skip
    require_clean(job)
