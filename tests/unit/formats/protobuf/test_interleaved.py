"""Three versions of a schema, written at random by confluent-kafka's serialiser, are read as Google's parser has them.

Fields come new, get other names and wider types; the message is the second of its file in one version, and imports
another file in all.
"""

from __future__ import annotations

import base64
import random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.arrow.kafka_time import US
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from exporter.formats.protobuf.compile import descriptor_set
from tests.contract.test_format import struct

MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; string currency = 2; }'
HEAD = 'syntax = "proto3"; package shop; import "money.proto"; '
VERSIONS = [
    HEAD + "message Order { int64 id = 1; optional string name = 2; Money price = 3; int32 count = 4; }",
    HEAD + "message Line { string sku = 1; } message Order { int64 id = 1; optional string customer = 2; "
    "Money price = 3; int32 count = 4; repeated Line lines = 5; }",
    HEAD + "message Order { int64 id = 1; optional string customer = 2; Money price = 3; int64 count = 4; "
    "repeated Line lines = 5; optional bool gift = 6; message Line { string sku = 1; int32 rows = 2; } }",
]
NAMES = {1: "id", 2: "customer", 3: "price", 4: "count", 5: "lines", 6: "gift"}
_MONEY = {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}
                                       for name, kind in (("units", "long"), ("currency", "string"))]}  # fmt: skip
_LINE = {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}
                                      for name, kind in (("sku", "string"), ("rows", "integer"))]}  # fmt: skip
COLUMNS = struct(("id", "long", False), ("customer", "string", True), ("price", _MONEY, True), ("count", "long", True),
                 ("lines", {"type": "array", "elementType": _LINE, "containsNull": True}, True),
                 ("gift", "boolean", True))  # fmt: skip


def order_class(version: int) -> Any:
    """The message by Google's library; each version in a pool of its own."""
    raw = descriptor_set({"money.proto": MONEY, "order.proto": VERSIONS[version]})
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(raw).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def filled(kind: Any, rng: random.Random, number: int) -> Any:
    """A message with some of its fields."""
    made = kind(id=number)
    for field in kind.DESCRIPTOR.fields:
        if field.number == 2 and rng.random() < 0.7:
            setattr(made, field.name, f"n\u00e9 {number}")
        elif field.number == 3 and rng.random() < 0.8:
            made.price.units, made.price.currency = rng.randint(-(10**9), 10**9), "CHF"
        elif field.number == 4:
            made.count = rng.choice((0, 1, 2**31 - 1, -1))
        elif field.number == 5:
            for _ in range(rng.choice((0, 0, 1, 3))):
                made.lines.add(sku=f"s{number}")
        elif field.number == 6 and rng.random() < 0.5:
            made.gift = rng.random() < 0.5
    return made


def expected(raw: bytes, kind: Any) -> dict[str, Any]:
    """A row, of what Google's parser makes of a message; fields that its version lacks are null."""
    message = kind.FromString(raw)
    row: dict[str, Any] = dict.fromkeys(NAMES.values())
    for field in kind.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.number == 3:
            value = {"units": value.units, "currency": value.currency}
        if field.number == 5:
            value = [{"sku": line.sku, "rows": getattr(line, "rows", None)} for line in value]
        row[NAMES[field.number]] = None if field.has_presence and not message.HasField(field.name) else value
    return row


def known(client: Any, ids: set[int]) -> KnownSchemas:
    """What the registry has of some ids, with what they refer to."""

    def text_of(schema: Any) -> SchemaText:
        below = ((one.name, client.get_version(one.subject, one.version)) for one in schema.references)
        return SchemaText("PROTOBUF", schema.schema_str, tuple((name, text_of(got.schema)) for name, got in below))

    return KnownSchemas({one: [text_of(client.get_schema(one))] for one in ids})


@pytest.mark.parametrize("records", [3_000, pytest.param(100_000, marks=[pytest.mark.long])])
def test_three_writers_at_random_are_equal_to_google_s_reading(records: int) -> None:
    """Each row, in the order of the records; nothing is unknown, nothing refused."""
    rng = random.Random(records)
    client = SchemaRegistryClient.new_client({"url": "mock://interleaved"})
    kinds = [order_class(version) for version in range(3)]
    writers = [ProtobufSerializer(kind, client, {"use.deprecated.format": False}) for kind in kinds]
    values, rows, ids = [], [], set()
    for number in range(records):
        version = rng.randrange(3)
        message = filled(kinds[version], rng, number)
        values.append(writers[version](message, SerializationContext("orders", MessageField.VALUE)))
        ids.add(int.from_bytes(values[-1][1:5], "big"))
        rows.append(expected(message.SerializeToString(), kinds[version]))
    assert len(ids) == 3
    files = (("order.proto", known_file()),)
    form = ValueFormat("protobuf", "confluent", schemas=files)
    routing = Routing(TypeFrom("topic"), EventTime("record"), (("orders", COLUMNS),), value_format=form)
    decoder = Decoder.of("orders", routing, topic="orders", schemas=known(client, ids))
    at = 0
    while at < records:
        part = pa.array(values[at : at + 10_000], pa.binary())
        found = decoder.decode(part, pa.array([10**15] * len(part), US))
        assert not found.bad and found.table["_rescued"].null_count == len(part)
        assert found.table.select(list(NAMES.values())).to_pylist() == rows[at : at + 10_000]
        at += 10_000


def known_file() -> str:
    """The newest version as a file of the settings."""
    return base64.b64encode(descriptor_set({"money.proto": MONEY, "order.proto": VERSIONS[2]})).decode()
