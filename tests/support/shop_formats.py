"""Orders and views as Avro and as Protobuf, in the frame of Confluent's serialisers; by fastavro and by protobuf.

    id 1   Order: id, at, name, price, f, raw, born, tags, who, note (Protobuf: price is a text, born a number)
    id 2   View: id, at, page                        (Protobuf: the second message of id 1's file)
    id 3   Order as a later writer has it: with `extra`
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Literal

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from exporter.core.schemas import SchemaText

Kind = Literal["avro", "protobuf"]
AT_US = 1_741_600_800_123_456
"""2025-03-10T10:00:00.123456Z."""
_TIME = {"type": "long", "logicalType": "timestamp-micros"}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_WHO = {"type": "record", "name": "Who", "fields": [{"name": "n", "type": "int"}]}
_ORDER: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "at", "type": _TIME},
    {"name": "name", "type": "string"},
    {"name": "price", "type": _MONEY},
    {"name": "f", "type": "float"},
    {"name": "raw", "type": "bytes"},
    {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "who", "type": ["null", _WHO]},
    {"name": "note", "type": ["null", "string"]},
]
_VIEW = [{"name": "id", "type": "long"}, {"name": "at", "type": _TIME}, {"name": "page", "type": "string"}]
AVRO: Mapping[int, Any] = {
    1: {"type": "record", "name": "shop.Order", "fields": _ORDER},
    2: {"type": "record", "name": "shop.View", "fields": _VIEW},
    3: {"type": "record", "name": "shop.Order", "fields": [*_ORDER, {"name": "extra", "type": "string"}]},
}
DDL: Mapping[Kind, Mapping[str, str]] = {
    "avro": {
        "Order": "id BIGINT, at TIMESTAMP, name STRING, price DECIMAL(9,2), f FLOAT, raw BINARY, born DATE, "
        "tags ARRAY<STRING>, who STRUCT<n: INT>, note STRING",
        "View": "id BIGINT, page STRING",
    },
    "protobuf": {
        "Order": "id BIGINT, at TIMESTAMP, name STRING, price STRING, f FLOAT, raw BINARY, born INT, "
        "tags ARRAY<STRING>, who STRUCT<n: INT>, note STRING",
        "View": "id BIGINT, page STRING",
    },
}


def texts(kind: Kind) -> dict[int, SchemaText]:
    """The schemas by their ids."""
    if kind == "avro":
        return {number: SchemaText("AVRO", json.dumps(schema)) for number, schema in AVRO.items()}
    return {number: SchemaText("PROTOBUF", _set(number == 3)) for number in (1, 2, 3)}


def order(kind: Kind, number: int, extra: str | None = None) -> bytes:
    """An order; with `extra` by the later writer."""
    fields: dict[str, Any] = {
        "id": number, "at": AT_US + number, "name": f"né {number}", "price": Decimal(number) / 4, "f": number / 10,
        "raw": bytes([number, 255]), "born": 20_000 + number, "tags": ["a", ""], "who": {"n": -number},
        "note": None if number % 2 else "",
    }  # fmt: skip
    if extra is not None:
        fields["extra"] = extra
    return _written(kind, 1 if extra is None else 3, "Order", fields)


def view(kind: Kind, number: int) -> bytes:
    """A view."""
    return _written(kind, 2, "View", {"id": number, "at": AT_US, "page": f"/{number}"})


def _written(kind: Kind, schema_id: int, name: str, fields: dict[str, Any]) -> bytes:
    head = b"\0" + schema_id.to_bytes(4, "big")
    if kind == "avro":
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, _parsed(schema_id), fields)
        return head + stream.getvalue()
    message = _classes(schema_id == 3)[name]()
    micros = fields.pop("at")
    message.at.seconds, message.at.nanos = micros // 1_000_000, micros % 1_000_000 * 1_000
    if (who := fields.pop("who", None)) is not None:
        message.who.n = who["n"]
    for field, value in fields.items():
        if isinstance(value, list):
            getattr(message, field).extend(value)
        elif value is not None:
            setattr(message, field, str(value) if isinstance(value, Decimal) else value)
    return head + (b"\0" if name == "Order" else b"\2\2") + bytes(message.SerializeToString(deterministic=True))


@cache
def _parsed(schema_id: int) -> Any:
    return fastavro.parse_schema(AVRO[schema_id])


@cache
def _set(later: bool) -> str:
    """The descriptors of a file and of what it imports, in base64."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order_, view_, who = (file.message_type.add(name=name) for name in ("Order", "View", "Who"))
    plain = {"id": kinds.TYPE_INT64, "name": kinds.TYPE_STRING, "price": kinds.TYPE_STRING, "f": kinds.TYPE_FLOAT,
             "raw": kinds.TYPE_BYTES, "born": kinds.TYPE_INT32}  # fmt: skip
    plain |= {"extra": kinds.TYPE_STRING} if later else {}
    for number, (name, kind) in enumerate(plain.items(), 1):
        order_.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    order_.field.add(name="tags", number=20, type=kinds.TYPE_STRING, label=kinds.LABEL_REPEATED)
    order_.oneof_decl.add(name="_note")
    order_.field.add(
        name="note", number=21, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL, proto3_optional=True, oneof_index=0
    )
    order_.field.add(
        name="who", number=22, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=".shop.Who"
    )
    who.field.add(name="n", number=1, type=kinds.TYPE_SINT32, label=kinds.LABEL_OPTIONAL)
    view_.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    view_.field.add(name="page", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    for one in (order_, view_):
        one.field.add(
            name="at", number=15, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL,
            type_name=".google.protobuf.Timestamp",
        )  # fmt: skip
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return base64.b64encode(files.SerializeToString(deterministic=True)).decode()


@cache
def _classes(later: bool) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(_set(later))).file:
        pool.Add(one)
    made = (pool.FindMessageTypeByName(f"shop.{name}") for name in ("Order", "View"))
    return {one.name: message_factory.GetMessageClass(one) for one in made}
