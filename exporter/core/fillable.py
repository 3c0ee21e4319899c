"""Which columns of a table may be filled with what stands in `_rescued` for them (FILLED, protocol 4.15). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, StructType, Type, leaf, together
from exporter.core.columns import EVOLVED, RECORD, is_own
from exporter.core.evolved import combined
from exporter.core.routing import Routing

ORIGIN = "backfill"
"""What such a column is marked with: like one that nobody declared it refuses no value."""


def fillable_columns(
    routing: Routing, event_type: str, table_json: str, cut_by: tuple[str, ...]
) -> Mapping[str, str]:
    """Name -> a schema of this column alone, in the table's own type and marked, as Spark schema JSON: of the declared
    and the evolved columns that a table has.

    Without those that rules make of a value (`names`, expressions, functions, constants), those of the record itself,
    and those that cut the table. cut_by: the names of the latter.
    """
    table = struct_of(table_json)
    known = struct_of(combined(routing.columns_of(event_type), table_json)).named
    left_out = {*cut_by, *_made_by_rules(routing, event_type)}
    found = {}
    for one in table.fields:
        if one.name not in known or one.name in left_out or RECORD in one.metadata or is_own(one.name):
            continue
        if (kind := _within(one.type, known[one.name].type)) is not None:
            found[one.name] = text_of(StructType((Field(one.name, kind, metadata={EVOLVED: ORIGIN}),)))
    return found


def _made_by_rules(routing: Routing, event_type: str) -> set[str]:
    shape = routing.shape_by_type.get(event_type)
    declared = struct_of(routing.columns_of(event_type)).named.keys()
    decoded = struct_of(routing.decoded_of(event_type)).named.keys()
    return {*(declared - decoded), *(column for column, _ in (shape.names if shape is not None else ()))}


def _within(table: Type, known: Type) -> Type | None:
    """What of a table's type is known: without fields that users have added. None if nothing is left of it."""
    kind = together(table, known, _fields_within, lambda have, _: have)
    return None if _is_empty(kind) else kind


def _fields_within(table: StructType, known: StructType) -> StructType:
    named = known.named
    pairs = [(one, _within(one.type, named[one.name].type)) for one in table.fields if one.name in named]
    return StructType(tuple(Field(one.name, kind) for one, kind in pairs if kind is not None))


def _is_empty(kind: Type) -> bool:
    inside = leaf(kind)
    return isinstance(inside, StructType) and not inside.fields
