"""Tables without a declared column: confluent-kafka's serialisers write, and each type of a schema has its column."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.e2e import test_avro as avro
from tests.e2e import test_protobuf as protobuf
from tests.support.fake_registry import FakeRegistry
from tests.support.lakes import NOON, Export, Exports, millis, wrong_places
from tests.support.read_back import READERS
from tests.support.services import Record, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    """Empty."""
    with FakeRegistry() as found:
        yield found


@pytest.fixture
def export(exports: Exports, server: FakeRegistry) -> Exports:
    """Makes exports of fresh topics: export("avro"). No type and no column is declared."""

    def make(kind: str) -> Export:
        formats = [f'kind = "{kind}"', "[schema_registry]", f'urls = ["{server.url}"]', "timeout_secs = 2"]
        by_schema = 'kind = "schema"\nname = "short"'
        return exports(types={}, new_type="table", type_from=by_schema, value_format="\n".join(formats))

    return make


def of(value: bytes) -> Record:
    return Record(b"Order", value, timestamp_ms=millis(NOON))


def context(e: Export) -> SerializationContext:
    return SerializationContext(e.topic, MessageField.VALUE)


def test_avro_without_a_declared_column(export: Exports, server: FakeRegistry, spark: Any) -> None:
    """Each type has its column from the first file on, and each value is read back; a later version adds to them."""
    e, client = export("avro"), SchemaRegistryClient({"url": server.url})
    serializer = AvroSerializer(client, json.dumps(avro.ORDER))
    values = [serializer(one, context(e)) for one in avro.rows(avro.LINES)]
    e.send({0: [of(value) for value in values]})
    e.run(spark)
    assert wrong_places(e) == {}
    assert {name: avro.ddl(kind) for name, kind in e.columns("Order").items()} == {
        "at": "TIMESTAMP", **{name: line.column for name, line in avro.LINES.items()},
    }  # fmt: skip
    wanted = [{name: line.held[at] for name, line in avro.LINES.items()} for at in range(2)]
    for reader, read in READERS.items():
        assert read(spark, e, "Order", [*avro.LINES]) == wanted, reader
    assert [row["_rescued"] for row in e.rows("Order")] == [None, None]

    more = {**avro.ORDER, "fields": [avro.AT, {"name": "long", "type": "string"}, {"name": "more", "type": "int"}]}
    value = AvroSerializer(client, json.dumps(more))({"at": millis(NOON), "long": "x", "more": 7}, context(e))
    e.send({0: [of(value)]})
    e.run(spark)
    row = e.rows("Order")[-1]
    assert (row["more"], row["long"], row["_rescued"]) == (7, None, '{"long":"x"}')
    e.proven(spark)


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class of test_protobuf.PROTO's message, of a module that Google's compiler has made."""
    name = fresh_name("p").replace("-", "_")
    (tmp_path / f"{name}.proto").write_text(protobuf.PROTO.replace("package shop", f"package {name}"))
    google = Path(str(importlib.import_module("grpc_tools").__file__)).parent / "_proto"
    arguments = ["", f"-I{tmp_path}", f"-I{google}", f"--python_out={tmp_path}", f"{name}.proto"]
    assert importlib.import_module("grpc_tools.protoc").main(arguments) == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(f"{name}_pb2").Order
    del sys.modules[f"{name}_pb2"]


def test_protobuf_without_a_declared_column(export: Exports, server: FakeRegistry, order: Any, spark: Any) -> None:
    """Its message is the second one of its file."""
    e, client = export("protobuf"), SchemaRegistryClient({"url": server.url})
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    messages = [order(at=protobuf.AT, **protobuf.FULL), order(at=protobuf.AT)]
    e.send({0: [of(serializer(one, context(e))) for one in messages]})
    e.run(spark)
    assert wrong_places(e) == {}
    assert {name: avro.ddl(kind) for name, kind in e.columns("Order").items()} == {
        "at": "TIMESTAMP", **{name: column for name, (column, *_) in protobuf.COLUMNS.items()},
    }  # fmt: skip
    wanted = [{name: found[at] for name, (_, *found) in protobuf.COLUMNS.items()} for at in range(2)]
    for reader, read in READERS.items():
        assert read(spark, e, "Order", [*protobuf.COLUMNS]) == wanted, reader
    assert [row["_rescued"] for row in e.rows("Order")] == [None, None]
