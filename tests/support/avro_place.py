"""Values of the format's contract as Avro writes them: one registered schema per fields that there are, and types."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import fastavro

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.avro.format import Avro

NAMES = ("id", "s", "u", "v", "t", "at", "n")
TYPES = (None, "long", "string")
"""Digits of an id, to the base of three: what a field is, if it is there."""


def spec_of(schema_id: int) -> dict[str, Any]:
    """The schema of an id."""
    types = {name: TYPES[schema_id // 3**at % 3] for at, name in enumerate(NAMES)}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items() if kind]
    return {"type": "record", "name": "Pairs", "fields": fields}


@cache
def known() -> KnownSchemas:
    """All of them."""
    return KnownSchemas({one: [SchemaText("AVRO", json.dumps(spec_of(one)))] for one in range(3 ** len(NAMES))})


@cache
def _parsed(schema_id: int) -> Any:
    return fastavro.parse_schema(spec_of(schema_id))


def framed(schema_id: int, body: bytes) -> bytes:
    """A value with its frame."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def value_of(fields: dict[str, Any]) -> bytes:
    """Fields by the schema that has them, and no others."""
    kinds = [2 if isinstance(fields.get(name), str) else int(name in fields) for name in NAMES]
    schema_id = sum(kind * 3**at for at, kind in enumerate(kinds))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _parsed(schema_id), fields)
    return framed(schema_id, body.getvalue())


class InAvro:
    """Framed records."""

    form = Avro(ValueFormat("avro", "confluent"), known())
    refused_types = ("interval", "variant", "void",
                     {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True})  # fmt: skip
    broken = (b"", b"\0\0\0\0", b"\1\0\0\0\1\2\2", framed(1, b""), framed(1, b"\2"), framed(1, b"\2\2\2"),
              framed(1, b"\4\2"), framed(1, b"\1"), framed(1, b"\2\x80"), framed(1, b"\2" + b"\xff" * 10),
              framed(6, b"\2\2\xff"), framed(6, b"\2\4x"), framed(6, b"\2\1"), framed(3 ** len(NAMES), b""),
              value_of({"id": "x"}), value_of({"s": 5}), value_of({"at": "x"}))  # fmt: skip

    def value(self, fields: dict[str, Any]) -> bytes:
        return value_of(fields)

    def unknown(self, rescued: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(rescued)
        return found


_OTHER = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": ["null", "string"]}]}


@cache
def known_unions() -> KnownSchemas:
    """The same schemas, each the second branch of a union at the root."""
    texts = {one: json.dumps(["null", spec_of(one), _OTHER]) for one in range(3 ** len(NAMES))}
    return KnownSchemas({one: [SchemaText("AVRO", text)] for one, text in texts.items()})


def _in_union(value: bytes) -> bytes:
    """A value of a record as one of its branch."""
    return value[:5] + b"\2" + value[5:] if value[:1] == b"\0" and len(value) >= 5 else value


class InAvroUnion(InAvro):
    """Framed branches of a union at the root."""

    form = Avro(ValueFormat("avro", "confluent"), known_unions())
    broken = (*map(_in_union, InAvro.broken), framed(1, b""), framed(1, b"\6"), framed(1, b"\1"), framed(1, b"\x80"),
              framed(1, b"\0\0"), framed(1, b"\xff" * 11))  # fmt: skip

    def value(self, fields: dict[str, Any]) -> bytes:
        return _in_union(value_of(fields))
