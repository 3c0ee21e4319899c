"""Columns that their values have outgrown: what a wider type of its kind would hold is in `_rescued`. Reads only."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from exporter.core.columns import NO_COLUMNS
from exporter.lake.lake import Lake
from exporter.lake.rows import arrow_rows, has_values
from exporter.lake.schema_history import SchemaHistory
from exporter.operate.schema.columns import column_rows
from exporter.operate.schema.rescued import WIDER, RescuedRow, rescued_rows
from offsets.table_log import TableView

RESCUED = pa.schema([("_rescued", pa.string())])


def rescued_texts(lake: Lake, name: str, view: TableView, most: int) -> list[str]:
    """What is in `_rescued`, of so many rows at most that have something there. Raises TableUnreadable."""
    texts: list[str] = []
    for rows in arrow_rows(lake, name, view, RESCUED, partial(has_values, "_rescued")):
        texts += rows.column(0).drop_null().slice(0, most - len(texts)).to_pylist()
        if len(texts) == most:
            break
    return texts


def outgrown(lake: Lake, name: str, view: TableView, rows_max: int) -> tuple[RescuedRow, ...]:
    """Of the evolved columns of a table those that are, by `rows_max` rows with something in `_rescued`.

    A table without a column that can be is not looked at. Raises TableUnreadable.
    """
    evolved = [one for one in column_rows(view.schema_json, NO_COLUMNS, (), NO_HISTORY, {}) if one.origin == "evolved"]
    types = {one.path: one.type for one in evolved}
    if not any(kind.partition("(")[0] in WIDER for kind in types.values()):
        return ()
    return tuple(row for row in rescued_rows(rescued_texts(lake, name, view, rows_max), types) if row.outgrown)


NO_HISTORY = SchemaHistory({}, False)
