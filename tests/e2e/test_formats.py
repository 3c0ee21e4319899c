"""Formats of values from the settings to the tables: raw ones, JSON behind a frame, several of them in one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from exporter.settings.load import load
from exporter.task.build import build_service
from exporter.workbench import open_workbench
from tests.support.lakes import NOON, Export, Exports, millis
from tests.support.processes import ROOT
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RAW = {"type_from": 'kind = "topic"', "event_time": 'kind = "record"'}
OWN = {"key_column": "_key", "headers_column": "_headers", "timestamp_type_column": "_timestamp_type"}
AT = millis(NOON)
FRAME = b"\0\0\0\0\7"
Sent = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


def read_topic(kafka: str, topic: str, count: int) -> tuple[list[Sent], set[int]]:
    """The records of partition 0 by a client that the exporter has nothing to do with; and their timestamps' kinds."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": fresh_name("reader"), "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Any] = []
    while len(messages) < count:
        found = consumer.consume(count - len(messages), 30.0)
        assert found and not any(one.error() for one in found)
        messages += found
    consumer.close()
    sent = [(one.key(), one.value(), tuple(one.headers() or ()), one.timestamp()[1]) for one in messages]
    return sent, {one.timestamp()[0] for one in messages}


def rebuilt(rows: Sequence[dict[str, Any]]) -> list[Record]:
    """The records that a raw table is of, in the order of their offsets."""
    return [
        Record(
            row["_key"],
            row["value"],
            [(one["key"], one["value"]) for one in row["_headers"] or ()],
            round(row["_kafka"]["timestamp"].timestamp() * 1000),
        )
        for row in rows
    ]


def test_a_topic_is_rebuilt_byte_for_byte_from_a_raw_table(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Keys, values, headers and times of each record, and which of the two kinds its time is."""
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("", b""), ("a", b"\xff\0")]
    sent = [
        Record(None, b"no key", (), AT),
        Record(b"", b"", headers, AT + 1),
        Record(b"\xff\0k", bytes(range(256)), [("only", None)], AT + 2),
        *(Record(b"%d" % number, b"x" * number, [("n", b"%d" % number)], AT + number) for number in range(3, 60)),
    ]
    topics = [topic(), topic(config={"message.timestamp.type": "LogAppendTime"})]
    for name in topics:
        produce(kafka, name, {0: sent})
    e = Export(
        kafka, topics[0], tmp_path, fresh_name("app"), types=dict.fromkeys(topics, ""), value_format='kind = "bytes"',
        scalars={"topics": topics, **OWN}, **RAW,
    )  # fmt: skip
    e.run(spark)
    for name, kind in zip(topics, ("CreateTime", "LogAppendTime"), strict=True):
        rows = e.rows(name)
        original, kinds = read_topic(kafka, name, len(sent))
        again = topic()
        produce(kafka, again, {0: rebuilt(rows)})
        assert read_topic(kafka, again, len(sent))[0] == original
        assert {row["_timestamp_type"] for row in rows} == {kind}
        assert kinds == {1 if kind == "CreateTime" else 2}
        assert {field.name for field in spark.table(f"delta.`{e.folder(name)}`").schema} == {
            "_kafka", "_event_time", "value", *OWN.values(), "_rescued", "day"
        }  # fmt: skip
    assert not e.rows("dead_letters")


def test_two_topics_of_different_formats_are_exported_in_one_run(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Text, JSON, and JSON behind the id of a schema; what is none of its format is a dead letter that says so."""
    texts, objects, framed = topic(), topic(), topic()
    e = Export(
        kafka, objects, tmp_path, fresh_name("app"), types={texts: "", objects: "id BIGINT", framed: "id BIGINT"},
        scalars={"topics": [texts, objects, framed]}, **RAW,
        more=f'[topic_formats."{texts}"]\nkind = "string"\ntombstones = "count"\n'
             f'[topic_formats."{framed}"]\nframe = "confluent"\n',
    )  # fmt: skip
    produce(kafka, texts, {0: [Record(None, one, (), AT) for one in (b"a", None, b"\xc3\xa9", b"\xff", None)]})
    produce(kafka, objects, {0: [Record(None, one, (), AT) for one in (b'{"id":1}', b"a", FRAME + b'{"id":2}', None)]})
    produce(kafka, framed, {0: [Record(None, one, (), AT) for one in (FRAME + b'{"id":3}', b'{"id":4}', FRAME[:4])]})
    service = e.run(spark)
    assert [row["value"] for row in e.rows(texts)] == ["a", "\u00e9"]
    assert [row["id"] for row in e.rows(objects)] == [1]
    assert [row["id"] for row in e.rows(framed)] == [3]
    reasons = {(row["_kafka"]["topic"], row["_kafka"]["offset"]): row["reason"] for row in e.rows("dead_letters")}
    assert reasons == {
        (texts, 3): "not_utf8: byte 0 of the value",
        (objects, 1): reasons[objects, 1],
        (objects, 2): reasons[objects, 2],
        (objects, 3): "tombstone: the value is null",
        (framed, 1): "not_framed: the value begins with byte 7b, and not with 00 and the id of a schema",
        (framed, 2): "not_framed: 4 bytes are too short for 00 and the id of a schema",
    }
    assert reasons[objects, 1].startswith("not_json: ")
    assert reasons[objects, 2].startswith("not_json: ")
    assert service.totals.counts["tombstones"] == 2


def test_columns_of_the_record_come_to_tables_that_are_there_and_a_drain_fills_what_is_there(
    exports: Exports, spark: Any
) -> None:
    """Without a switch of the configuration; rows from before have null there."""
    e = exports(types={"order": "id BIGINT"})
    record = [Record(b"k%d" % n, json.dumps({"type": "order", "at": NOON.isoformat(), "id": n}).encode(),
                     [("h", b"%d" % n)], AT) for n in range(4)]  # fmt: skip
    e.send({0: record[:1]})
    e.run(spark)
    fingerprint = e.with_(**OWN)
    e.send({0: record[1:2]})
    fingerprint.run(spark)
    assert e.position("order") == (0, 1)
    e.send({0: record[2:3]})
    fingerprint.with_(unknown_fields="ignore").run(spark)
    assert e.position("order") == (1, 2)
    rows = e.rows("order")
    assert [row["_key"] for row in rows] == [None, b"k1", b"k2"]
    assert [row["_headers"] for row in rows] == [None, [{"key": "h", "value": b"1"}], [{"key": "h", "value": b"2"}]]
    assert [row["_timestamp_type"] for row in rows] == [None, "CreateTime", "CreateTime"]
    e.send({0: record[3:]})
    e.with_(unknown_fields="ignore", generation=1).run(spark)
    assert [row["_key"] for row in e.rows("order")] == [None, b"k1", b"k2", None]


def test_a_topic_of_registered_types_needs_the_few_lines_of_the_handbook_and_no_columns(
    kafka: str, registry: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Two types in one topic, one of them in two versions: a table each, with the columns of all its schemas."""
    text = (ROOT / "deploy" / "handbook" / "formats.md").read_text("utf-8")
    lines = text.split("```toml\n")[1].split("```")[0]
    assert len(lines.splitlines()) <= 12
    name = topic()
    toml = tmp_path / "exporter.toml"
    ours = {
        "localhost:9092": kafka, '["shop"]': f'["{name}"]', '"exporter"': f'"{fresh_name("app")}"',
        "/var/lib/exporter/tables": f"{tmp_path}/lake", "http://localhost:8081": registry,
    }  # fmt: skip
    for told, here in ours.items():
        assert told in lines
        lines = lines.replace(told, here)
    toml.write_text(lines)
    client = SchemaRegistryClient({"url": registry})
    old = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
    new = {**old, "fields": [*old["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
    click = {"type": "record", "name": "Click", "namespace": "shop", "fields": [{"name": "page", "type": "string"}]}
    values = []
    for schema, value in ((old, {"id": 1}), (click, {"page": "/"}), (new, {"id": 2, "note": "n"}), (old, {"id": 3})):
        options = {"subject.name.strategy": lambda context, record: f"{name}-{record}", "auto.register.schemas": True}
        write = AvroSerializer(client, json.dumps(schema), conf=options)
        values.append(write(value, SerializationContext(name, MessageField.VALUE)))
    produce(kafka, name, {0: [Record(None, value, (), AT) for value in values]})
    settings = load(toml, {}, {})
    bench = open_workbench(settings, spark)
    try:
        bench.load_schemas()
        build_service(settings, bench, until_caught_up=True).run()
    finally:
        bench.topics.close()
    e = Export(kafka, name, tmp_path, "app")
    assert [(row["id"], row["note"]) for row in e.rows("Order")] == [(1, None), (2, "n"), (3, None)]
    assert [row["page"] for row in e.rows("Click")] == ["/"]
    assert not e.rows("dead_letters")


def test_json_with_a_registered_schema_gets_its_columns(
    kafka: str, registry: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """The event type is the schema's title; what gives no column, and what the schema does not tell, is rescued."""
    name = topic()
    schema = {
        "title": "Order", "type": "object", "properties": {
            "id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"},
            "to": {"type": "object", "properties": {"city": {"type": ["string", "null"]}}},
            "either": {"type": ["string", "integer"]},
        },
    }  # fmt: skip
    write = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": registry}), lambda value, _: value)
    at = NOON.isoformat()
    sent = [{"id": 1, "at": at, "to": {"city": "X"}, "either": 5}, {"id": 2, "at": at, "to": {"city": None}, "new": 1}]
    values = [write(one, SerializationContext(name, MessageField.VALUE)) for one in sent]
    e = Export(
        kafka, name, tmp_path, fresh_name("app"), types={"Order": ""}, type_from='kind = "schema"',
        value_format='kind = "json_schema"', more=f'[schema_registry]\nurls = ["{registry}"]\n',
        event_time='kind = "field"\npath = "at"',
    )  # fmt: skip
    records = [*values, values[0][:5] + b"{", b"{}", b"\0\x7f\xff\xff\xff{}"]
    produce(kafka, name, {0: [Record(None, value, (), AT) for value in records]})
    e = replace(e, more=f"{e.more}unknown_after_secs = 0\n")
    e.run(spark)
    rows = e.rows("Order")
    assert [(row["id"], row["at"], row["to"]) for row in rows] == [(1, NOON, {"city": "X"}), (2, NOON, {"city": None})]
    assert [json.loads(row["_rescued"]) for row in rows] == [{"either": 5}, {"new": 1}]
    reasons = [row["reason"].partition(":")[0] for row in e.rows("dead_letters")]
    assert reasons == ["not_json", "not_framed", "unknown_schema_id"]
    e.proven(spark)
