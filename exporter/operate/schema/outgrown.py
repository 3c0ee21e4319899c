"""Columns that their values have outgrown: what a wider type of its kind would hold is in `_rescued`. Reads only."""

from __future__ import annotations

from exporter.core.columns import NO_COLUMNS
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.rows import rows_at
from exporter.lake.schema_history import SchemaHistory
from exporter.operate.schema.columns import column_rows
from exporter.operate.schema.rescued import WIDER, RescuedRow, rescued_rows
from exporter.text import first_line
from offsets.table_log import TableView


def rescued_texts(lake: Lake, name: str, view: TableView, most: int) -> list[str]:
    """What is in `_rescued`, of so many rows at most that have something there. Raises TableUnreadable."""
    try:
        found = rows_at(lake, name, view).where("_rescued IS NOT NULL").select("_rescued").limit(most)
        texts: list[str] = found.toArrow().column(0).to_pylist()
    except Exception as error:  # py4j raises its own kinds
        raise TableUnreadable(f"table {name} cannot be read: {first_line(error)}") from error
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
