"""Defaults of a schema's fields, as Arrow: written as a writer would, and read as any other value. Pure."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.formats.avro.nodes import AvroNode
from exporter.formats.avro.schema import AvroField, Schema
from exporter.formats.binary.columns import Out
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths


class BadDefault(ValueError):
    """A default that is no value of its schema."""


def default_of(field: AvroField, node: AvroNode, places: ReasonPaths) -> pa.Array:
    """An array of the default alone. node: reads values of the field's schema. Raises BadDefault."""
    try:
        value = encoded(field.schema, field.default)
    except _WRONG:
        raise BadDefault(f"its default {str(field.default)[:40]!r} is no {field.schema.kind}") from None
    batch = ValueBytes(pa.array([value], pa.binary()), places)
    cursor = batch.cursor()
    column, out = node.read(cursor), Out(batch)
    array = column.arrow(out, np.zeros(1, np.int64))
    if cursor.bad[0] or out.odd:
        raise BadDefault(f"its default {str(field.default)[:40]!r} cannot be read")
    return array


_WRONG = (TypeError, ValueError, KeyError, OverflowError, AttributeError, struct.error)


def encoded(schema: Schema, value: Any) -> bytes:
    """A default, which is JSON, in binary. Raises ValueError, TypeError and the like if it is none of the schema's."""
    kind = schema.kind
    if kind == "union":
        for at, branch in enumerate(schema.branches):
            try:
                return _long(at) + encoded(branch, value)
            except _WRONG:
                continue
        raise ValueError("it is of no branch")
    if kind == "null":
        return _is(value is None, b"")
    if kind == "boolean":
        return _is(isinstance(value, bool), b"\x01" if value else b"\x00")
    if kind in ("int", "long"):
        whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
        return _long(value) if whole else _is(False, b"")
    if kind in ("float", "double"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return struct.pack("<f" if kind == "float" else "<d", value) if number else _is(False, b"")
    if kind == "string":
        return _sized(value.encode())
    if kind == "bytes":
        return _sized(value.encode("latin-1"))
    if kind == "fixed":
        raw: bytes = value.encode("latin-1")
        return _is(len(raw) == schema.size, raw)
    if kind == "enum":
        return _long(schema.symbols.index(value))
    if kind == "array":
        return _blocks([encoded(_items(schema), one) for one in _is(isinstance(value, list), value)])
    if kind == "map":
        return _blocks([_sized(key.encode()) + encoded(_items(schema), one) for key, one in value.items()])
    return b"".join(_field(field, _is(isinstance(value, dict), value)) for field in schema.fields)


def _field(field: AvroField, record: dict[str, Any]) -> bytes:
    if field.name not in record and not field.has_default:
        raise KeyError(field.name)
    return encoded(field.schema, record.get(field.name, field.default))


def _is(condition: bool, found: Any) -> Any:
    if not condition:
        raise ValueError("it is of another type")
    return found


def _items(schema: Schema) -> Schema:
    if schema.items is None:
        raise ValueError("it has no items")
    return schema.items


def _long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def _sized(raw: bytes) -> bytes:
    return _long(len(raw)) + raw


def _blocks(items: list[bytes]) -> bytes:
    return b"".join([_long(len(items)), *items, b"\x00"]) if items else b"\x00"
