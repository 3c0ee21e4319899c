"""Records that name versions of schemas in AWS Glue's registry, while it answers and while it does not."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import fastavro
import pytest
from aws_schema_registry import DataAndSchema, SchemaRegistryClient
from aws_schema_registry.adapter.kafka import KafkaSerializer
from aws_schema_registry.avro import AvroSchema
from aws_schema_registry.codec import encode

from exporter.core.routing import DEAD_LETTERS
from exporter.core.schemas import GUID
from exporter.local.proxy import WELL, Down, FaultyProxy, Troubles
from exporter.operate.check.registry import check_registry
from exporter.registry.pins import Pins
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition
from tests.support.glue_registry import REGISTRY, LocalGlue
from tests.support.lakes import NOON, Export, Exports, millis, wait_until
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.usefixtures("aws_credentials")]

FIRST = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
SECOND = {**FIRST, "fields": [*FIRST["fields"], NOTE]}
PROTOBUF = """
    syntax = "proto3"; package shop;
    message Zero { int64 id = 1; }
    message Order { int64 id = 1; message Line { string sku = 1; } repeated Line lines = 2; }"""


@pytest.fixture
def proxy(glue: LocalGlue) -> Iterator[FaultyProxy]:
    """What stands before it."""
    with FaultyProxy(glue.endpoint) as found:
        yield found


@pytest.fixture
def export(exports: Exports, proxy: FaultyProxy) -> Export:
    """Two partitions of Avro in Glue's frame; no column is declared."""
    lines = ['kind = "avro"', "[schema_registry]", 'kind = "glue"', f'endpoint_url = "{proxy.endpoint}"']
    lines += ['region = "us-east-1"', f'registry_name = "{REGISTRY}"', "timeout_secs = 2", "unknown_after_secs = 0.5"]
    return exports(
        2, types={}, new_type="table", event_time='kind = "record"', type_from='kind = "schema"\nname = "short"',
        value_format="\n".join(lines),
    )  # fmt: skip


def record(value: bytes) -> Record:
    return Record(b"Order", value, timestamp_ms=millis(NOON))


def framed(version: UUID, schema: Any, packed: bool = True, **fields: Any) -> Record:
    """Written by hand, compressed or not."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), fields)
    value = body.getvalue()
    return record((b"\3\5" if packed else b"\3\0") + version.bytes + (zlib.compress(value) if packed else value))


def rows_of(e: Export) -> dict[int, list[int]]:
    """Partition -> the field `id` of its rows, in order."""
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in e.rows("Order") if "Order" in e.tables() else ():
        found[row["_kafka"]["partition"]].append(row["id"])
    return found


def pinned(e: Export) -> list[UUID]:
    return [UUID(int=one - GUID) for one in Pins(FileStore(str(e.root / "lake")), "default").ids()]


def test_avro_that_is_compressed_becomes_rows_and_what_is_damaged_dead_letters(
    export: Export, spark: Any, glue: LocalGlue
) -> None:
    """Written by another library and by hand, by two versions of a schema: a table gets the columns of both. An id that
    Glue does not know and damaged frames are dead letters with their whole value, and the audit finds the same."""
    serializer = KafkaSerializer(SchemaRegistryClient(glue.client, registry_name=REGISTRY))
    theirs = serializer.serialize(export.topic, DataAndSchema({"id": 1}, AvroSchema(json.dumps(FIRST))))
    first = UUID(bytes=theirs[2:18])
    second = glue.add(f"{export.topic}-value", json.dumps(SECOND))
    packed = encode(theirs[18:], first, compression=True)
    good = framed(second, SECOND, id=3, note="x" * 5_000)
    lost = framed(uuid4(), FIRST, id=100)
    whole = good.value or b""
    damaged = [b"\3\7" + whole[2:], whole[:-1], whole + b"\0", whole[:17], b"\0" + whole[1:]]
    export.send({
        0: [record(theirs), record(packed), good],
        1: [framed(second, SECOND, packed=False, id=4, note=None), lost, *map(record, damaged), good],
    })  # fmt: skip
    export.run(spark)
    assert rows_of(export) == {0: [1, 1, 3], 1: [4, 3]}
    assert [row["note"] for row in export.rows("Order")] == [None, None, "x" * 5_000, None, "x" * 5_000]
    dead_letters = {row["_kafka"]["offset"]: row for row in export.rows(DEAD_LETTERS)}
    codes = ["unknown_schema_id", "not_framed", "bad_zlib", "bad_zlib", "not_framed", "not_framed"]
    assert [dead_letters[at]["reason"].partition(":")[0] for at in range(1, 7)] == codes and len(dead_letters) == 6
    assert [dead_letters[at]["value"] for at in range(2, 7)] == damaged
    assert str(UUID(bytes=(lost.value or b"")[2:18])) in dead_letters[1]["reason"]
    assert {first, second} < {*pinned(export)}
    report = export.audit(spark)
    assert report.clean and report.checked == 11, report
    found = [one for one in check_registry(export.settings()) if export.topic in one.what]
    assert any(str(first) in one.says and str(second) in one.says for one in found), found


def test_while_glue_does_not_answer_nothing_is_lost_and_nothing_a_dead_letter(
    export: Export, spark: Any, glue: LocalGlue, proxy: FaultyProxy
) -> None:
    """What needs it waits, and says for which version; all else goes on, as does a task that starts meanwhile."""
    first, second = glue.add(f"{export.topic}-value", json.dumps(FIRST)), glue.add(fresh_name("b"), json.dumps(SECOND))
    export.send({0: [framed(first, FIRST, id=1)]})
    export.run(spark)
    proxy.troubles = Troubles(down=Down.REFUSES)
    behind = [framed(first, FIRST, id=3), framed(second, SECOND, id=4, note="n"), framed(first, FIRST, id=5)]
    export.send({0: [framed(first, FIRST, id=2)], 1: behind})
    with export.going(spark) as task:
        wait_until(lambda: rows_of(export) == {0: [1, 2], 1: [3]}, 60, "all that can be read is exported")
        tp = TopicPartition(export.topic, 1)
        said = wait_until(lambda: task.service._watch.snapshot.stuck.get(tp), 30, "it is told what waits")
        assert str(second) in said and proxy.endpoint in said
        proxy.troubles = Troubles(down=Down.HANGS)
        assert pinned(export) == [first]
        proxy.troubles = WELL
        wait_until(lambda: rows_of(export) == {0: [1, 2], 1: [3, 4, 5]}, 60, "the rest follows")
    assert export.rows(DEAD_LETTERS) == [] and {*pinned(export)} == {first, second}
    export.proven(spark)


def test_protobuf_and_json_schema_are_of_the_type_that_their_frame_says(
    export: Export, kafka: str, topic: Callable[..., str], spark: Any, glue: LocalGlue
) -> None:
    """A message by its number among all names of its file; JSON by the title of its schema."""
    of_json = topic(partitions=1)
    proto = glue.add(fresh_name("orders.proto"), PROTOBUF, "PROTOBUF")
    click = {"title": "Click", "properties": {"id": {"type": "integer"}}}
    text = glue.add(fresh_name("json"), json.dumps(click), "JSON")
    formats = export.value_format.replace('kind = "avro"', 'kind = "protobuf"', 1)
    more = f'[topic_formats.{json.dumps(of_json)}]\nkind = "json_schema"'
    e = Export(
        kafka, export.topic, export.root, export.app, {}, {"new_type": "table", "topics": [export.topic, of_json]},
        'kind = "record"', type_from=export.type_from, value_format=formats, more=more,
    )  # fmt: skip
    head, packed = b"\3\0" + proto.bytes, b"\3\5" + proto.bytes
    numbers = {"Order": b"\0", "Line": b"\1", "Zero": b"\2"}
    export.send({0: [
        record(head + numbers["Zero"] + b"\x08\x07"), record(packed + zlib.compress(numbers["Order"] + b"\x08\x09")),
        record(head + numbers["Line"] + b"\x0a\x01s"), record(head + b"\3\x08\x07"),
    ]})  # fmt: skip
    produce(kafka, of_json, {0: [record(b"\3\5" + text.bytes + zlib.compress(b'{"id": 5}'))]})
    e.run(spark)
    assert [row["id"] for row in e.rows("Zero")] == [7] and [row["sku"] for row in e.rows("Line")] == ["s"]
    assert [row["id"] for row in e.rows("Order")] == [9] and [row["id"] for row in e.rows("Click")] == [5]
    (dead_letter,) = e.rows(DEAD_LETTERS)
    assert dead_letter["reason"] == f"unresolvable_schema: id {proto}: its file has no message 3"
    report = e.audit(spark)
    assert report.clean and report.checked == 5, report
