"""Columns with something of the record itself, as a table has them: wanted, added, found again. Pure.

Such a column is marked (core/columns.py, RECORD): whoever compares values with rows, or makes columns of fields, knows
by that that it is no value's.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.arrow.own_columns import BEFORE_COLUMN, CDC_COLUMN, CDC_TYPE, HEADERS_TYPE
from exporter.arrow.spark_types import type_of
from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, ScalarType
from exporter.core.columns import RECORD, folded
from exporter.core.evolved import with_new
from exporter.core.record_columns import RecordColumns, has_before, has_cdc
from exporter.core.routing import Routing
from offsets.table_log import TableView


def record_fields(columns: RecordColumns, routing: Routing, event_type: str = "") -> list[Field]:
    """The columns that tables are to have of their records. event_type: what its table may have; empty: any of them."""
    is_told = has_cdc(routing, event_type) is not False
    kinds = [
        (columns.key, "key", ScalarType("binary")),
        (columns.headers, "headers", type_of(HEADERS_TYPE)),
        (columns.timestamp_type, "timestamp_type", ScalarType("string")),
        (CDC_COLUMN if is_told else "", "cdc", type_of(CDC_TYPE)),
        (BEFORE_COLUMN if is_told and has_before(routing) else "", "cdc_before", ScalarType("string")),
    ]
    return [Field(name, kind, metadata={RECORD: what}) for name, what, kind in kinds if name]


def with_record_fields(table_json: str, fields: Sequence[Field]) -> str:
    """A table's schema with those that it lacks; the same text if it has them, or others of their names."""
    table = struct_of(table_json)
    there = {folded(one.name) for one in table.fields}
    new = [one for one in fields if folded(one.name) not in there]
    return text_of(with_new(table, table.fields, new)) if new else table_json


def other_column(view: TableView, fields: Sequence[Field]) -> str:
    """Why a table cannot have the columns; empty if it can."""
    wanted = {folded(one.name): one for one in fields}
    for one in struct_of(view.schema_json).fields:
        want = wanted.get(folded(one.name))
        if want is not None and not _is_same(one, want):
            return (
                f"it has a column {one.name} that is another than the one that the settings name so: give the "
                "record's another name"
            )
    return ""


def kept(view: TableView, fields: Sequence[Field]) -> frozenset[str]:
    """The names of those that a table has now."""
    there = struct_of(view.schema_json).named
    return frozenset(one.name for one in fields if one.name in there and _is_same(there[one.name], one))


def _is_same(have: Field, want: Field) -> bool:
    mine, wanted = (one.metadata.get(RECORD) for one in (have, want))
    return bool(mine == wanted and have.name == want.name and have.type == want.type)
