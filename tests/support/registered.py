"""Records of three versions of their schemas, written by confluent-kafka's serialisers, and what they say by others.

    Avro      shop.Order refers to shop.Address. 2: a wider `id`, a new `note`. 3: `legacy` is gone, `name` is now
              `customer`, `priority` is new and has a default.
    Protobuf  shop.Payment is the second message of its file, shop.Receipt.Line stands in the first one; the file
              imports another. 2: wider numbers, new fields. 3: `method` is gone, `note` is called `remark`.

The values are read here by fastavro, with the reader's schema, and by Google's library (upb), and not by the exporter.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.proto_oracle import value_of

VERSIONS = (1, 2, 3)
ADDRESS = {
    "type": "record", "name": "Address", "namespace": "shop",
    "fields": [{"name": "street", "type": "string"}, {"name": "city", "type": ["null", "string"], "default": None}],
}  # fmt: skip
_TO = {"name": "to", "type": "shop.Address"}
_LEGACY = {"name": "legacy", "type": "string", "default": ""}
_NOTE = {"name": "note", "type": ["null", "string"], "default": None}
FIELDS: dict[int, list[dict[str, Any]]] = {
    1: [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}, _TO, _LEGACY],
    2: [_LEGACY, {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, _NOTE, _TO],
    3: [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string", "aliases": ["name"]},
        _TO,
        _NOTE,
        {"name": "priority", "type": "int", "default": 7},
    ],
}
ORDERS = {
    version: {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    for version, fields in FIELDS.items()
}
COMMON = 'syntax = "proto3"; package shop; message Money { int64 units = 1; optional int32 nanos = 2; }'
PAYMENTS = {
    1: """
    message Receipt { repeated Line lines = 1; message Line { int32 id = 1; string sku = 2; Money price = 3; } }
    message Payment { int32 id = 1; Money amount = 2; string method = 3; google.protobuf.Timestamp at = 4; }
    """,
    2: """
    message Receipt { repeated Line lines = 1;
        message Line { int64 id = 1; string sku = 2; Money price = 3; optional int32 count = 4; } }
    message Payment { int64 id = 1; Money amount = 2; string method = 3; google.protobuf.Timestamp at = 4;
                      optional string note = 5; }
    """,
    3: """
    message Receipt { repeated Line lines = 1;
        message Line { int64 id = 1; string sku = 2; Money price = 3; optional int32 count = 4; repeated Money cut = 5;
        } }
    message Payment { int64 id = 1; Money amount = 2; reserved 3; google.protobuf.Timestamp at = 4;
                      optional string remark = 5; repeated string tags = 6; }
    """,
}
HEAD = """
    syntax = "proto3"; package shop; import "shop/common.proto"; import "google/protobuf/timestamp.proto";
"""
_MONEY = "STRUCT<units: BIGINT, nanos: INT>"
TYPES = {
    "Order": "id BIGINT, customer STRING, `to` STRUCT<street: STRING, city: STRING>, note STRING, priority INT",
    "Payment": f"id BIGINT, amount {_MONEY}, at TIMESTAMP, remark STRING, tags ARRAY<STRING>",
    "Line": f"id BIGINT, sku STRING, price {_MONEY}, count INT, cut ARRAY<{_MONEY}>",
}
"""The tables, with the columns of the newest versions."""
PLACES = {(1,): "Payment", (0, 0): "Line"}
"""Message indexes -> type."""


class Said(NamedTuple):
    """What a value says: its type, the columns of the reader's schema, and what only the writer has."""

    kind: str
    row: dict[str, Any]
    rest: dict[str, Any]


def write_reader(folder: Path) -> None:
    """The reader's schemas, in files: order.avsc, address.avsc, proto3/shop/payments.proto."""
    (folder / "order.avsc").write_text(json.dumps(ORDERS[3]))
    (folder / "address.avsc").write_text(json.dumps(ADDRESS))
    messages(3, folder)


@cache
def messages(version: int, folder: Path) -> dict[str, Any]:
    """Type -> its class in a version, of a pool of their own. folder: scratch."""
    from grpc_tools import protoc

    root = folder / f"proto{version}"
    (root / "shop").mkdir(parents=True)
    (root / "shop" / "common.proto").write_text(COMMON)
    (root / "shop" / "payments.proto").write_text(HEAD + PAYMENTS[version])
    google = str(Path(protoc.__file__).parent / "_proto")
    out = root / "all.desc"
    arguments = ["protoc", f"-I{root}", f"-I{google}", "--include_imports", f"--descriptor_set_out={out}"]
    assert protoc.main([*arguments, "shop/payments.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    names = {"Payment": "shop.Payment", "Line": "shop.Receipt.Line"}
    found = {kind: pool.FindMessageTypeByName(name) for kind, name in names.items()}
    return {kind: message_factory.GetMessageClass(one) for kind, one in found.items()}


class Writer:
    """Values of both topics. Each version is registered when it is used for the first time.

    ids: what the registry gave, -> the kind and the version.
    """

    def __init__(self, url: str, avro: str, protobuf: str, folder: Path, rng: random.Random) -> None:
        self.client = SchemaRegistryClient({"url": url})
        self.ids: dict[int, tuple[str, int]] = {}
        self._avro, self._protobuf, self._folder, self._rng = avro, protobuf, folder, rng
        self._serializers: dict[tuple[str, int], Any] = {}

    def order(self, version: int, number: int) -> bytes:
        """An order, framed."""
        value: dict[str, Any] = {
            "id": number if version == 1 else number + 2**40,
            "customer" if version == 3 else "name": f"c{number} \u00e9",
            "to": {"street": "s" * (number % 9), "city": self._rng.choice([None, "Ulm"])},
        }
        value |= {"legacy": f"l{number % 10}"} if version < 3 else {"priority": number % 5}
        value |= {"note": self._rng.choice([None, "", "x"])} if version > 1 else {}
        return self._framed("Order", version, value, self._avro)

    def message(self, version: int, number: int) -> bytes:
        """A payment or a line of a receipt, framed."""
        money = {"units": -number, **({"nanos": number % 1000} if number % 3 else {})}
        later = {"id": number if version == 1 else number + 2**40}
        if number % 2:
            note = {"remark" if version == 3 else "note": "" if number % 8 == 3 else "n"}
            later |= note if version > 1 and number % 3 else {}
            later |= {"tags": ["a"] * (number % 3)} if version > 2 else {"method": "card"}
            at = {"seconds": 1_700_000_000 + number, "nanos": number % 10**6 * 1000}
            value = {"amount": money, "at": at, **later}
            return self._framed("Payment", version, messages(version, self._folder)["Payment"](**value), self._protobuf)
        later |= {"count": number % 5} if version > 1 and number % 3 else {}
        later |= {"cut": [money] * (number % 3)} if version > 2 else {}
        value = {"sku": f"sku{number}", "price": money, **later}
        return self._framed("Line", version, messages(version, self._folder)["Line"](**value), self._protobuf)

    def _framed(self, kind: str, version: int, value: Any, topic: str) -> bytes:
        context = SerializationContext(topic, MessageField.VALUE)
        if (kind, version) not in self._serializers:
            self._serializers[kind, version] = self._serializer(kind, version, topic)
        found: bytes = self._serializers[kind, version](value, context)
        self.ids.setdefault(int.from_bytes(found[1:5], "big"), ("avro" if kind == "Order" else "protobuf", version))
        return found

    def _serializer(self, kind: str, version: int, topic: str) -> Any:
        if kind != "Order":
            message = messages(version, self._folder)[kind]
            return ProtobufSerializer(message, self.client, {"use.deprecated.format": False})
        subject = f"{topic}-address"
        self.client.register_schema(subject, Schema(json.dumps(ADDRESS), "AVRO"))
        schema = Schema(json.dumps(ORDERS[version]), "AVRO", [SchemaReference("shop.Address", subject, 1)])
        return AvroSerializer(self.client, schema)

    def said(self, value: bytes) -> Said:
        """What a framed value says, by fastavro or by Google's library."""
        kind, version = self.ids[int.from_bytes(value[1:5], "big")]
        if kind == "avro":
            return order_of(version, value[5:])
        place, body = indexes(value[5:])
        return message_of(version, PLACES[place], body, self._folder)


@cache
def _order(version: int) -> Any:
    named: dict[str, Any] = {}
    fastavro.parse_schema(ADDRESS, named_schemas=named)
    return fastavro.parse_schema(ORDERS[version], named_schemas=named)


def order_of(version: int, body: bytes) -> Said:
    """By fastavro: once with the reader's schema, once as it was written."""
    row: Any = fastavro.schemaless_reader(io.BytesIO(body), _order(version), _order(3))
    whole: Any = fastavro.schemaless_reader(io.BytesIO(body), _order(version), None)
    return Said("Order", row, {name: whole[name] for name in ("legacy",) if name in whole})


def message_of(version: int, kind: str, body: bytes, folder: Path) -> Said:
    """By Google's library: by the newest version, and by the writer's own one, which says what there can be."""
    newest, own = (messages(one, folder)[kind] for one in (3, version))
    known, theirs = newest.DESCRIPTOR.fields_by_number, own.DESCRIPTOR.fields_by_number
    read, written = value_of(newest.FromString(body)), value_of(own.FromString(body))
    row = {one.name: read[one.name] if number in theirs else None for number, one in known.items()}
    return Said(kind, row, {one.name: written[one.name] for number, one in theirs.items() if number not in known})


def indexes(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """The message indexes in front of a message, all below 64; and the message."""
    count = body[0] >> 1
    return (tuple(one >> 1 for one in body[1 : 1 + count]) or (0,)), body[1 + count :]


def columns_of(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Some columns of a row."""
    return {name: row[name] for name in names}
