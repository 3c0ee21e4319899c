"""What the fields of an Arrow schema are marked with, and schemas without these marks. Pure.

    exporter.evolved    nobody declared the field: it, and all below it, refuses no record (VERDICT)
    exporter.json       the text of the field is that of any JSON value

Marks are for readers of values. The columns that these give, and files, have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from exporter.core.columns import EVOLVED, JSON_TEXT

Columns = Sequence[pa.Array | pa.ChunkedArray]
_EVOLVED, _JSON_TEXT = EVOLVED.encode(), JSON_TEXT.encode()
JSON_MARK = {_JSON_TEXT: b"."}
"""Metadata of a field for any JSON value."""


def is_evolved(field: pa.Field) -> bool:
    """Whether the field is the topmost one of what was not declared."""
    return field.metadata is not None and _EVOLVED in field.metadata


def evolved_mark(origin: str) -> dict[bytes, bytes]:
    """Metadata of a field that nobody declared. origin: where it was seen first."""
    return {_EVOLVED: origin.encode()}


def holds_json(field: pa.Field) -> bool:
    """Whether the field is text that is any JSON value."""
    return field.metadata is not None and _JSON_TEXT in field.metadata and pa.types.is_string(field.type)


def has_evolved(fields: Iterable[pa.Field]) -> bool:
    """Whether there is a field, at any level, that nobody declared."""
    return any(is_evolved(one) or has_evolved(_inside(one.type)) for one in fields)


def declared_only(schema: pa.Schema) -> pa.Schema:
    """The fields that were declared, at every level, with their marks."""
    return pa.schema(_declared(schema))


def unmarked(schema: pa.Schema) -> pa.Schema:
    """The same fields without a mark."""
    return pa.schema([_unmarked(field) for field in schema])


def bare(kind: pa.DataType) -> pa.DataType:
    """A type without a mark in it."""
    inside = _inside(kind)
    return _rebuilt(kind, [_unmarked(one) for one in inside]) if inside else kind


def widened(columns: Columns, have: pa.Schema, want: pa.Schema, rows: int) -> list[pa.Array | pa.ChunkedArray]:
    """The columns of a schema as those of one with more fields, which are null. rows: the length of each column."""
    there = dict(zip(have.names, columns, strict=True))
    wanted = {field.name: bare(field.type) for field in want}
    return [there[name].cast(kind) if name in there else pa.nulls(rows, kind) for name, kind in wanted.items()]


def _inside(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a type; the keys of a map are none."""
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []


def _rebuilt(kind: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """A type with other fields in it."""
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, fields[0])
    return pa.list_(fields[0])


def _declared(fields: Iterable[pa.Field]) -> list[pa.Field]:
    return [
        field.with_type(_rebuilt(field.type, _declared(inside))) if (inside := _inside(field.type)) else field
        for field in fields
        if not is_evolved(field)
    ]


def _unmarked(field: pa.Field) -> pa.Field:
    return field.remove_metadata().with_type(bare(field.type))
