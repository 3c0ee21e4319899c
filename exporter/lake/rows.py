"""The rows of a table as they were at a snapshot: by Spark, or from its files, without a JVM, where these tell all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from exporter.errors import ExporterError, TableUnreadable
from exporter.lake.fillable import COLUMN_MAPPING
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.stores.file_rows import file_rows, in_columns
from exporter.stores.live import is_elsewhere
from exporter.text import first_line
from offsets.table_log import TableView

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Add: TypeAlias = "Mapping[str, Any]"
"""An `add` action."""


def rows_at(lake: Lake, name: str, view: TableView) -> DataFrame:
    """All rows of a table at a version, by Spark."""
    lake.gateway.activate()
    return rows_of(lake.session, lake.table(name), view.version)


def rows_of(session: Any, table: DeltaTable, version: int) -> DataFrame:
    """All rows of a table at a version, by a session of Spark."""
    frame: DataFrame = session.read.format("delta").option("versionAsOf", version).load(table.uri)
    return frame


def arrow_rows(
    lake: Lake, name: str, view: TableView, wanted: Any, may: Callable[[Add], bool] = lambda add: True
) -> Iterator[Any]:
    """As table_rows(), of an event type's table."""
    return table_rows(lake, lake.table(name), view, wanted, may)


def table_rows(
    lake: Lake, table: DeltaTable, view: TableView, wanted: Any, may: Callable[[Add], bool] = lambda add: True
) -> Iterator[Any]:
    """Some columns of the rows, as Arrow tables of some of them; by Spark where the files ask for more than is known.

    wanted: an Arrow schema, its columns in types that the table's can be cast to; one that a file lacks is null. may:
    whether a file may hold rows that the caller wants; others may be left out. Raises TableUnreadable.
    """
    try:
        adds = table.files_at(view.version)
        if is_plain(view, adds):
            for add in filter(may, adds):
                yield from file_rows(table.store, add, wanted)
        else:
            yield _by_spark(lake, table, view, wanted)
    except ExporterError:
        raise
    except Exception as error:  # py4j raises its own kinds
        raise TableUnreadable(f"table {table.event_type} cannot be read: {first_line(error)}") from error


def by_file_name(name: str, paths: Iterable[str]) -> dict[str, str]:
    """File name, as file_name() has it -> path as the log writes it. name: of the table. Raises TableUnreadable."""
    some = [*paths]
    named = {file_name(path): path for path in some}
    if len(named) != len(some):
        raise TableUnreadable(f"table {name}: two of its files have the same name")
    return named


def file_name(path: str) -> str:
    """The name in a path of a log, or in what Spark's input_file_name() says."""
    return unquote(path).rpartition("/")[2]


def has_values(column: str, add: Add) -> bool:
    """Whether a file may have values in a column, by its statistics."""
    stats = json.loads(add.get("stats") or "{}")
    nulls = stats.get("nullCount", {}).get(column)
    return nulls is None or nulls != stats.get("numRecords")


def records_of(adds: Iterable[Add]) -> int | None:
    """How many rows some files have, by their statistics; None if one of them does not tell."""
    told = [json.loads(add.get("stats") or "{}").get("numRecords") for add in adds]
    return None if None in told else sum(told)


def is_plain(view: TableView, adds: Sequence[Add]) -> bool:
    """Whether all rows of the files are the table's, under its own names, below its own folder."""
    mapped = view.properties.get(COLUMN_MAPPING, "none") != "none"
    return not mapped and not any("deletionVector" in add or is_elsewhere(add["path"]) for add in adds)


def _by_spark(lake: Lake, table: DeltaTable, view: TableView, wanted: Any) -> Any:
    there = {field["name"] for field in json.loads(view.schema_json)["fields"]}
    lake.gateway.activate()
    rows = rows_of(lake.session, table, view.version)
    held = rows.select([field.name for field in wanted if field.name in there]).toArrow()
    return in_columns(held, wanted, held.num_rows)
