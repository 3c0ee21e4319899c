"""How a table grows if its columns are not all called as the fields that fill them. Pure.

    `_rescued`, field by field     what it says of the table           decoded for the table that has it
    {"user": {"id": {"x": 1}}}     `uid` STRUCT lacks a field x        user STRUCT<id STRUCT<..., x>>
    {"user": {"mail": "a"}}        there is no column `user`           user STRUCT<id ..., mail>
    {"uid": 1}                     nothing: `uid` is another's         uid is unknown

with uid = "user.id". So a column of `names` grows by what stands at its paths, and what is unknown beside them becomes
columns under its own names; but never under a name that another field, an expression or a constant fills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, StructType, together
from exporter.core.columns import folded
from exporter.core.evolved import combined
from exporter.core.naming import decoded_schema, named_columns, without
from exporter.core.routing import Routing
from exporter.core.seen import Seen


class NamedGrowth:
    """Of the table of one type."""

    def __init__(self, routing: Routing, event_type: str) -> None:
        shape = routing.shape_by_type.get(event_type)
        self._decoded = routing.decoded_of(event_type)
        self._names = () if shape is None else shape.names
        self._columns = named_columns(self._decoded, self._names)
        declared = struct_of(routing.columns_of(event_type)).named
        self._not_of_values = declared.keys() - struct_of(self._columns).named.keys()
        self._others = {*self._not_of_values, *(column for column, _ in self._names)}
        self._ignores_case = routing.ignores_case(event_type)

    def decoded(self, table_json: str) -> str:
        """What is decoded: the declared columns, and what evolution has made of the table. All Spark schema JSON."""
        table = struct_of(table_json)
        kept = tuple(one for one in table.fields if one.name not in self._not_of_values)
        grown = combined(self._columns, text_of(replace(table, fields=kept)))
        return decoded_schema(grown, self._names)

    def seen(self, seen: Seen) -> Seen:
        """What was seen of the values' fields as if they were called as their columns."""
        found: dict[str, Seen] = {}
        for column, paths in self._names:
            for path in paths:
                seen, there = _taken(seen, path.split("."))
                if there is not None:
                    found.setdefault(column, Seen()).merge(there, depth=1)
        left = {name: one for name, one in seen.fields.items() if name not in self._others}
        return _with_fields(seen, {**left, **found})

    def fields(self, fields: Sequence[Field]) -> list[Field]:
        """The same for fields that are known beforehand."""
        left = tuple(fields)
        if self._ignores_case:
            left = _spelled(StructType(left), struct_of(self._decoded)).fields
        found: dict[str, Field] = {}
        for column, paths in self._names:
            for path in paths:
                left, there = without(left, path.split("."))
                if there is not None:
                    found.setdefault(column, replace(there, name=column))
        return [*(one for one in left if one.name not in self._others), *found.values()]


def naming_of(routing: Routing, event_type: str) -> NamedGrowth | None:
    """None of a type whose columns are called as the fields that fill them, and are filled by nothing else."""
    shaped = event_type in routing.shape_by_type or routing.constants
    return NamedGrowth(routing, event_type) if shaped else None


def _with_fields(seen: Seen, fields: Mapping[str, Seen]) -> Seen:
    made = Seen()
    made.kinds, made.item, made.crowded, made.first = seen.kinds, seen.item, seen.crowded, seen.first
    made.fields = {**fields}
    return made


def _taken(seen: Seen, where: Sequence[str]) -> tuple[Seen, Seen | None]:
    """What was seen but for what was at a path, and that."""
    name, *below = where
    if name not in seen.fields:
        return seen, None
    others = {key: one for key, one in seen.fields.items() if key != name}
    if not below:
        return _with_fields(seen, others), seen.fields[name]
    rest, there = _taken(seen.fields[name], below)
    return _with_fields(seen, {**others, name: rest}), there


def _spelled(struct: StructType, known: StructType) -> StructType:
    """A struct with its fields by the names of known ones that differ by case only."""
    by_fold = {folded(one.name): one for one in known.fields}
    return replace(struct, fields=tuple(_as(one, by_fold.get(folded(one.name))) for one in struct.fields))


def _as(one: Field, known: Field | None) -> Field:
    if known is None:
        return one
    return replace(one, name=known.name, type=together(one.type, known.type, _spelled, lambda kind, _: kind))
