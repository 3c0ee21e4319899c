"""The Avro schema that follows from columns, by rule, and rows as its bytes. Pure.

Each field may be null and is null by default, at every level, so a schema with more columns reads what fewer wrote, and
the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from struct import pack
from typing import Any

from exporter.column.scalars import spelling
from exporter.column.spark_json import as_json
from exporter.column.types import DecimalType, ListType, MapType, ScalarType, StructType, Type
from exporter.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_EXACT = Context(prec=100)
"""More digits than a column has: nothing is rounded."""


def record_name(subject: str) -> str:
    """The name of a subject's record: orders.v1-value -> orders_v1_value."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", subject)
    return name if _NAME.match(name) else f"_{name}"


def avro_schema(struct: StructType, name: str) -> dict[str, Any]:
    """The record of a struct; structs in it are named by where they stand.

    Raises ConfigError for what Avro has no name or no type for.
    """
    fields = []
    for field in struct.fields:
        if not _NAME.match(field.name):
            what = f"a field of Avro cannot be called {field.name!r}"
            raise ConfigError(what, "give it another name in `value`: `... AS name`")
        kind = _type(field.type, f"{name}_{field.name}")
        fields.append({"name": field.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _type(kind: Type, name: str) -> Any:
    if isinstance(kind, StructType):
        return avro_schema(kind, name)
    if isinstance(kind, ListType):
        return {"type": "array", "items": ["null", _type(kind.inner, f"{name}_element")]}
    if isinstance(kind, MapType) and kind.key == ScalarType("string"):
        return {"type": "map", "values": ["null", _type(kind.inner, f"{name}_value")]}
    plain, logical = ("", "") if isinstance(kind, MapType) else spelling(kind).avro
    if not plain:
        what = f"Avro has no type for {name}: {as_json(kind)}"
        raise ConfigError(what, "cast it to STRING in `value`, or leave it out there")
    digits = {"precision": kind.digits, "scale": kind.scale} if isinstance(kind, DecimalType) else {}
    return {"type": plain, "logicalType": logical, **digits} if logical else plain


Writer = Callable[[bytearray, Any], None]


def writer(struct: StructType) -> Writer:
    """Writes rows of a struct by avro_schema()'s record: dictionaries, a map as pairs, times as numbers.

    Source: the Avro specification 1.12, binary encoding.
    """
    fields = [(field.name, _nullable(_writer(field.type))) for field in struct.fields]

    def write(out: bytearray, row: Any) -> None:
        for name, put in fields:
            put(out, row[name])

    return write


def _nullable(put: Writer) -> Writer:
    """The union of null and a type: which of both, then the value."""

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(2)
            put(out, value)

    return write


def _writer(kind: Type) -> Writer:
    if isinstance(kind, StructType):
        return writer(kind)
    if isinstance(kind, DecimalType):
        return _decimal_writer(kind.scale)
    if isinstance(kind, ScalarType):
        return _WRITERS[kind.name]
    item = _nullable(_writer(kind.inner))
    if isinstance(kind, ListType):
        return _block_writer(item)

    def entry(out: bytearray, pair: Any) -> None:
        _text(out, pair[0])
        item(out, pair[1])

    return _block_writer(entry)


def _block_writer(put: Writer) -> Writer:
    def write(out: bytearray, values: Any) -> None:
        if values:
            _long(out, len(values))
            for one in values:
                put(out, one)
        out.append(0)

    return write


def _decimal_writer(scale: int) -> Writer:
    def write(out: bytearray, value: Decimal) -> None:
        number = int(value.scaleb(scale, _EXACT))
        _raw(out, number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True))

    return write


def _long(out: bytearray, value: int) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _raw(out: bytearray, value: bytes) -> None:
    _long(out, len(value))
    out += value


def _text(out: bytearray, value: str) -> None:
    _raw(out, value.encode())


def _boolean(out: bytearray, value: bool) -> None:
    out.append(value)


def _float(out: bytearray, value: float) -> None:
    out += pack("<f", value)


def _double(out: bytearray, value: float) -> None:
    out += pack("<d", value)


_WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"), _long),
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "string": _text,
    "binary": _raw,
}
