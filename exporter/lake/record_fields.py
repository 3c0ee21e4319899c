"""Columns with something of the record itself, as a table has them: wanted, added, found again. Pure.

Such a column is marked (core/columns.py, RECORD): whoever compares values with rows, or makes columns of fields, knows
by that that it is no value's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.arrow.own_columns import BEFORE_COLUMN, CDC_COLUMN, CDC_TYPE, HEADERS_TYPE
from exporter.arrow.spark_types import as_json, json_field
from exporter.core.columns import RECORD, folded
from exporter.core.evolved import with_new
from exporter.core.record_columns import RecordColumns, has_before, has_cdc
from exporter.core.routing import Routing
from offsets.table_log import TableView

Fields = Sequence[Mapping[str, Any]]
"""Of a Spark schema, as parsed JSON."""


def record_fields(columns: RecordColumns, routing: Routing, event_type: str = "") -> list[dict[str, Any]]:
    """The columns that tables are to have of their records. event_type: what its table may have; empty: any of them."""
    is_told = has_cdc(routing, event_type) is not False
    kinds = [
        (columns.key, "key", "binary"),
        (columns.headers, "headers", as_json(HEADERS_TYPE)),
        (columns.timestamp_type, "timestamp_type", "string"),
        (CDC_COLUMN if is_told else "", "cdc", as_json(CDC_TYPE)),
        (BEFORE_COLUMN if is_told and has_before(routing) else "", "cdc_before", "string"),
    ]
    return [{**json_field(name, kind), "metadata": {RECORD: what}} for name, what, kind in kinds if name]


def with_record_fields(table_json: str, fields: Fields) -> str:
    """A table's schema with those that it lacks; the same text if it has them, or others of their names."""
    table = json.loads(table_json)
    there = {folded(one["name"]) for one in table["fields"]}
    new = [one for one in fields if folded(one["name"]) not in there]
    if not new:
        return table_json
    return json.dumps({**table, "fields": with_new(table["fields"], new)}, separators=(",", ":"))


def other_column(view: TableView, fields: Fields) -> str:
    """Why a table cannot have the columns; empty if it can."""
    wanted = {folded(one["name"]): one for one in fields}
    for one in json.loads(view.schema_json)["fields"]:
        want = wanted.get(folded(one["name"]))
        if want is not None and not _is_same(one, want):
            return (
                f"it has a column {one['name']} that is another than the one that the settings name so: give the "
                "record's another name"
            )
    return ""


def kept(view: TableView, fields: Fields) -> frozenset[str]:
    """The names of those that a table has now."""
    there = {one["name"]: one for one in json.loads(view.schema_json)["fields"]}
    return frozenset(one["name"] for one in fields if one["name"] in there and _is_same(there[one["name"]], one))


def _is_same(have: Mapping[str, Any], want: Mapping[str, Any]) -> bool:
    mine, wanted = (one.get("metadata", {}).get(RECORD) for one in (have, want))
    return bool(mine == wanted and have["name"] == want["name"] and have["type"] == want["type"])
