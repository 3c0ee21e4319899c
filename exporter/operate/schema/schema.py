"""`exporter schema`: the columns of each table, where each came from, and what found none. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.columns import NO_COLUMNS, reserved
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.schema_history import schema_history
from exporter.lake.views import views_of
from exporter.operate.schema.columns import ColumnRow, column_rows
from exporter.operate.schema.outgrown import rescued_texts
from exporter.operate.schema.rescued import RescuedRow, rescued_rows
from exporter.text import first_line
from offsets.table_log import TableView


@dataclass(frozen=True)
class TableSchema:
    """One table. looked_at: rows with something in `_rescued` that were looked at; whole: that is all of them."""

    event_type: str
    version: int
    columns: tuple[ColumnRow, ...]
    rescued: tuple[RescuedRow, ...]
    looked_at: int
    whole: bool

    def as_dict(self) -> dict[str, Any]:
        """The columns of a table, for JSON."""
        return {
            **vars(self),
            "columns": [one._asdict() for one in self.columns],
            "rescued": [one._asdict() for one in self.rescued],
        }


def table_schemas(
    lake: Lake,
    declared: Mapping[str, str],
    hints: Mapping[str, Mapping[str, str]],
    only: Collection[str],
    rows_max: int,
) -> Iterator[TableSchema]:
    """The tables of the app but the dead letters, in the order of their names.

    declared: event type -> Spark schema JSON. hints: event type -> dotted path -> type. only: event types; none for
    all. rows_max: of a table that are looked at. Raises ConfigError for a type without a table, TableUnreadable.
    """
    names = {name for name in lake.event_types() if name != DEAD_LETTERS}
    if missing := sorted(set(only) - names):
        raise ConfigError(f"there is no table {missing[0]} under {lake.root}", "see `exporter offsets`")
    for name, view in views_of(lake, sorted(only or names)):
        yield _table_schema(lake, name, view, declared.get(name, NO_COLUMNS), hints.get(name, {}), rows_max)


def _table_schema(
    lake: Lake, name: str, view: TableView, declared_json: str, hints: Mapping[str, str], rows_max: int
) -> TableSchema:
    try:
        history = schema_history(lake.table(name).store, view.version)
    except Exception as error:  # py4j raises its own kinds
        raise TableUnreadable(f"table {name} cannot be read: {first_line(error)}") from error
    texts = rescued_texts(lake, name, view, rows_max + 1) if rows_max else []
    columns = column_rows(view.schema_json, declared_json, reserved(lake.spec_of(name, view)), history, hints)
    looked_at = texts[:rows_max]
    rows = rescued_rows(looked_at, {one.path: one.type for one in columns})
    return TableSchema(name, view.version, columns, rows, len(looked_at), len(texts) <= rows_max)
