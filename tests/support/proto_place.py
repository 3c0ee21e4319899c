"""Values of the format's contract as Protobuf writes them: one registered schema per types that the fields have."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.protobuf.format import Protobuf
from tests.support.proto_fuzz import number

NAMES = ("id", "s", "u", "v", "t", "at", "n")
TIMELESS = 1 << len(NAMES)
"""The bit of a schema without a time: what has none fits a routing by numbers and one by instants."""
ID_MAX = 2 * TIMELESS
_FIELD = descriptor_pb2.FieldDescriptorProto
FRAMED = ValueFormat("protobuf", "confluent")


@cache
def file_of(texts: int) -> Any:
    """The file of a schema: fields whose bit is set are text, the others numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="pairs.proto", package="pairs")
    message = file.message_type.add(name="Pairs")
    for at, name in enumerate(NAMES):
        if texts & TIMELESS and name == "at":
            continue
        kind = _FIELD.TYPE_STRING if texts >> at & 1 else _FIELD.TYPE_INT64
        message.field.add(name=name, number=at + 1, type=kind, label=_FIELD.LABEL_OPTIONAL)
    return file


@cache
def known() -> KnownSchemas:
    """All of them; the id is the texts."""
    made = {texts: base64.b64encode(file_of(texts).SerializeToString()).decode() for texts in range(ID_MAX)}
    return KnownSchemas({texts: [SchemaText("PROTOBUF", text)] for texts, text in made.items()})


@cache
def _class(texts: int) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file_of(texts))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pairs.Pairs"))


def framed(schema_id: int, message: bytes, indexes: bytes = b"\0") -> bytes:
    """A value with its frame."""
    return b"\0" + schema_id.to_bytes(4, "big") + indexes + message


def value_of(fields: dict[str, Any]) -> bytes:
    """Fields by the schema that has them as they are; those that are not there are numbers, but for s, t and v."""
    plain = {"s": "", "t": "", "v": "", **fields}
    texts = sum(isinstance(plain.get(name), str) << at for at, name in enumerate(NAMES))
    texts |= 0 if "at" in fields else TIMELESS
    return framed(texts, _class(texts)(**fields).SerializeToString())


class InProtobuf:
    """Framed messages."""

    form = Protobuf(FRAMED, known())
    refused_types = ("interval", "variant", "void",
                     {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True})  # fmt: skip
    broken = (b"", b"\0\0\0\0", b"\1\0\0\0\0\0", b"\0\0\0\0\2", framed(2, b"", b"\x80"), framed(2, b"", b"\x03"),
              framed(2, b"\x08"), framed(2, b"\x08\x80"), framed(2, b"\x0d\0\0\0\0"), framed(2, b"\x08\1\x08\2"),
              framed(2, b"\x12\1\xff"), framed(2, b"\x40\1"), framed(2, b"\0"), framed(2, b"\x12\x05x"),
              framed(ID_MAX, b""), framed(2, b"", b"\2\2"), framed(2, b"\x08" + b"\xff" * 10),
              framed(2, number(6 << 3 | 2) + b"\1x"), value_of({"id": "x"}), value_of({"s": 5}),
              value_of({"at": "x"}))  # fmt: skip

    def value(self, fields: dict[str, Any]) -> bytes:
        return value_of(fields)

    def unknown(self, rescued: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(rescued)
        return found
