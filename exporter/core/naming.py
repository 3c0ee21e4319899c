"""Which field of a value fills which column: a column's paths in the value, and names that differ by case. Pure.

    value                                   names                              table
    {"user": {"id": 7, "mail": "a"},        uid  = "user.id"                   uid BIGINT
     "phone": "1"}                          call = ["mobile", "phone"]         call STRING

    decoded: user STRUCT<id BIGINT>, mobile STRING, phone STRING
    stays unknown, under its own name: {"user": {"mail": "a"}}

A field of the value fills one column. What stands on the way to a path is an object or null. Schemas are Spark's, as
JSON text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, StructType, leaf
from exporter.core.columns import EVENT_TIME, EVOLVED, folded
from exporter.errors import ConfigError

Names: TypeAlias = Sequence[tuple[str, Sequence[str]]]
"""(column, its dotted paths in the value) in the order of the settings."""

REQUIRED = "exporter.required"
"""Metadata of a field at a path: its column is NOT NULL, which is told once all paths were looked at."""

_TAKEN = frozenset({"_rescued", EVENT_TIME})
"""What a decoder calls columns of its own."""


def decoded_schema(columns_json: str, names: Names, event_type: str = "", case: str = "exact") -> str:
    """What is decoded of the values of a type: its columns, those that `names` mentions at each of their paths.

    columns_json: the declared columns, by the names that the table has. A field at a path has its column's type and
    metadata, and may be null. Raises ConfigError for what cannot be: an unknown column, a path that is none, and two
    that fill or need one field of the value.
    """
    columns = struct_of(columns_json)
    there = columns.named
    moved = {column for column, _ in names}
    kept = tuple(one for one in columns.fields if one.name not in moved)
    for column, paths in names:
        if column not in there:
            hint = f"there are: {', '.join(there)}" if there else "give `columns`"
            raise _refused(event_type, column, "`names` mentions it, and there is no such column", hint)
        if not paths:
            raise _refused(event_type, column, "`names` gives it no path", "give one, as `user.id`, or leave it out")
        for path in paths:
            where = path.split(".")
            if what := _no_path(where):
                raise _refused(event_type, column, f"the path {path!r} {what}", "give it as `user.id`")
            try:
                kept = _with_leaf(kept, where, _leaf(there[column]))
            except _Occupied as what:
                raise _refused(event_type, column, f"the path {path!r} {what}", _ONE_FIELD) from None
    if case == "insensitive" and (pair := _alike(kept)):
        hint = 'spell them alike, or take `case = "exact"`'
        raise _refused(event_type, pair[0], f"{pair[1]} differs from it by case only", hint)
    return text_of(replace(columns, fields=kept), sort_keys=True)


def named_columns(decoded_json: str, names: Names) -> str:
    """The inverse of decoded_schema, but for the order of the columns: those of `names` come last, in its order."""
    decoded = struct_of(decoded_json)
    fields = decoded.fields
    moved = []
    for column, paths in names:
        for path in paths:
            fields, found = without(fields, path.split("."))
        if found is None:
            raise KeyError(column)
        metadata = {key: value for key, value in found.metadata.items() if key != REQUIRED}
        moved.append(replace(found, name=column, nullable=REQUIRED not in found.metadata, metadata=metadata))
    return text_of(replace(decoded, fields=(*fields, *moved)), sort_keys=True)


_ONE_FIELD = "a field of the value fills one column; copy it by `[types.X.set]`"


class _Occupied(Exception):
    """Something else stands at a path, or on the way to it; the text says what."""


def _no_path(where: Sequence[str]) -> str:
    """Why names of fields, one below the other, are no path; empty if they are one."""
    if not all(where):
        return "has an empty name in it"
    if where[0] in _TAKEN:
        return f"begins with {where[0]}, which the exporter calls a column of its own"
    bad = next((char for name in where for char in name if char in '"\\' or unicodedata.category(char) == "Cc"), "")
    return f"holds {bad!r}" if bad else ""


def _leaf(column: Field) -> Field:
    mark = {} if column.nullable else {REQUIRED: column.name}
    return replace(column, nullable=True, metadata={**column.metadata, **mark})


def _with_leaf(
    fields: Sequence[Field], where: Sequence[str], last: Field, origin: str | None = None
) -> tuple[Field, ...]:
    """The fields of a struct with one at a path. origin: of what nobody declared, if they stand in such a field.

    What nobody declared is in nobody's way: it goes, or, where it leads to the field, loses its mark to what is in it.
    """
    name, *below = where
    free = {} if origin is None else {EVOLVED: origin}
    fields = [replace(one, metadata={**free, **one.metadata}) for one in fields]
    found = next((one for one in fields if one.name == name), None)
    if found is not None and EVOLVED in found.metadata and not (below and isinstance(found.type, StructType)):
        fields.remove(found)
        found = None
    if not below:
        if found is not None:
            raise _Occupied("leads to a field that fills another column already")
        return (*fields, replace(last, name=name))
    if found is None:
        found = Field(name, StructType())
        fields.append(found)
    if not isinstance(found.type, StructType):
        raise _Occupied(f"leads through {name}, which fills a column that is no STRUCT")
    inside = _with_leaf(found.type.fields, below, last, found.metadata.get(EVOLVED))
    metadata = {key: text for key, text in found.metadata.items() if key != EVOLVED}
    way = replace(found, type=replace(found.type, fields=inside), metadata=metadata)
    return tuple(way if one is found else one for one in fields)


def without(fields: Sequence[Field], where: Sequence[str]) -> tuple[tuple[Field, ...], Field | None]:
    """The fields of a struct without the one at a path, nor what only led to it; and that one, if it is there."""
    name, *below = where
    found = next((one for one in fields if one.name == name), None)
    if found is None or not below:
        return tuple(one for one in fields if one is not found), found
    if not isinstance(found.type, StructType):
        return tuple(fields), None
    inside, taken = without(found.type.fields, below)
    changed = [replace(found, type=replace(found.type, fields=inside))] if inside else []
    return tuple(other for one in fields for other in (changed if one is found else [one])), taken


def _alike(fields: Iterable[Field]) -> tuple[str, str] | None:
    """Two fields side by side, at any level, whose names differ by case only."""
    seen: dict[str, str] = {}
    for one in fields:
        key = folded(one.name)
        if key in seen:
            return seen[key], one.name
        seen[key] = one.name
        inside = leaf(one.type)
        if isinstance(inside, StructType) and (pair := _alike(inside.fields)):
            return pair
    return None


def _refused(event_type: str, column: str, what: str, hint: str) -> ConfigError:
    where = f"types.{event_type}, column" if event_type else "column"
    return ConfigError(f"{where} {column!r}: {what}", hint)
