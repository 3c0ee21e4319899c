"""What stands in `_rescued` for columns that a table has by now goes into them (FILLED, protocol 4.15).

    partition ── its files with something in `_rescued` ── which have what a column is there for ── these are rewritten
    files before ── one commit: they go, those that were written come; no change of rows, as OPTIMIZE's is none

One commit for each partition, by compare-and-set on the files that go and on the columns. Whoever ends before it has
left files that no version names, which VACUUM takes. Rows are as many as before, and each record's document stays what
it was (1.6): no derived table has anything to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from exporter.arrow.spark_types import arrow_type, as_ddl
from exporter.column.spark_json import struct_of
from exporter.core.fillable import fillable_columns
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.errors import InvariantBroken
from exporter.executor.empty import RESCUED
from exporter.executor.filled_files import MADE, FilesOrder, counted_files, filled_files
from exporter.executor.filling import COUNTS, LEFT, FillOrder, counted, fill
from exporter.faults import Fault, point
from exporter.lake.change import Change, said_beside
from exporter.lake.fillable import unfillable
from exporter.lake.lake import Lake
from exporter.lake.rows import Add, by_file_name, file_name, has_values, is_plain, records_of
from exporter.lake.settling import Expect, Moved, commit_or_moved
from exporter.lake.sizes import live_files
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.rewriting import Rewriting
from exporter.operate.maintain.step import MaintenanceStep, attempted
from exporter.sql_text import column
from offsets import Invariant
from offsets.backfilled import backfilled_app_id
from offsets.partitions import Partition
from offsets.table_log import TableView

FILES_AT_ONCE = 4
"""Tasks for each core: files are of unlike sizes."""


@dataclass(frozen=True)
class Fillable:
    """Files of one partition. adds: path as the log writes it -> `add` action. rows, columns: that would be filled, or
    were.

    columns: name -> rows; not told of what was done. by_spark: whether Spark alone can read one of the files.
    """

    partition: Partition
    adds: Mapping[str, Add]
    rows: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)
    by_spark: bool = True


class Backfill:
    """Of one table at a snapshot."""

    def __init__(self, lake: Lake, routing: Routing, table: DeltaTable, view: TableView) -> None:
        self._lake = lake
        self._table = table
        self._view = view
        self._rewriting = Rewriting(lake, table, view)
        name, there = table.event_type, struct_of(view.schema_json).named
        columns = fillable_columns(routing, name, view.schema_json, view.partition_columns)
        self._order = FillOrder(name, columns, routing, lake.options.rescue_empty)
        self._schema = _schema_of_files(view)
        self.has_columns = name != DEAD_LETTERS and RESCUED in there and bool(columns)

    def partitions(self) -> Iterator[Fillable]:
        """Those with files that may have something to be filled, by their statistics; oldest first."""
        found = live_files(self._table, self._view) if self.has_columns else {}
        for partition in sorted(found):
            if adds := {add["path"]: add for add in found[partition] if has_values(RESCUED, add)}:
                by_spark = self._schema is None or not is_plain(self._view, [*adds.values()])
                yield Fillable(partition, adds, by_spark=by_spark)

    def look(self, some: Fillable, once: bool = False) -> Fillable | None:
        """What would be filled; None if nothing would. once: it is enough to know in which files."""
        if some.by_spark:
            by_name = by_file_name(self._table.event_type, some.adds)
            found = [(by_name[file_name(file)], *more) for file, *more in self._counted(some, once)]
        else:
            found = self._each(some, partial(counted_files, once=once), COUNTS)
            if any(rows == LEFT for _, _, rows in found):
                return self.look(replace(some, by_spark=True), once)
        files, columns, count = set(), dict[str, int](), 0
        for file, name, rows in found:
            files.add(file)
            if name:
                columns[name] = columns.get(name, 0) + rows
            else:
                count += rows
        if not files:
            return None
        return replace(some, adds={path: some.adds[path] for path in sorted(files)}, rows=count, columns=columns)

    def apply(self, some: Fillable) -> Fillable | None:
        """Rewrite the files in which something can be filled; None if there are none. Raises Moved, ExporterError."""
        found = self.look(some, once=True)
        if found is None:
            return None
        rows = self._rewrite_by_spark(found) if found.by_spark else self._rewrite(found)
        point(Fault.AFTER_BACKFILL, self._table.event_type)
        return replace(found, rows=rows, columns={})

    def _rewrite(self, found: Fillable) -> int:
        """File by file; how many rows have been filled."""
        made = self._each(found, filled_files, MADE)
        adds = [json.loads(add) for add, _ in made]
        before, after = (records_of(some) for some in (found.adds.values(), adds))
        if before is not None and before != after:
            why = f"table {self._table.event_type}: {after} rows were made of {before}; nothing is committed"
            raise InvariantBroken(Invariant.ONCE, why)
        self._rewriting.commit(found.adds, None, "backfill", found.partition.label, adds=adds)
        return sum(rows for _, rows in made)

    def _rewrite_by_spark(self, found: Fillable) -> int:
        rows = self._rewriting.rows(found.adds)
        count = self._lake.session.sparkContext.accumulator(0)
        filled = rows.mapInArrow(partial(fill, self._order, count=count), rows.schema)
        self._rewriting.commit(found.adds, filled, "backfill", found.partition.label)
        return int(count.value)

    def _counted(self, some: Fillable, once: bool) -> list[Any]:
        """COUNTS by Spark, with its own names of files."""
        names = ["_kafka", RESCUED, *self._order.columns]
        rows = self._rewriting.rows(some.adds)
        rows = rows.select(sf.input_file_name().alias("file"), *(sf.col(column(name)) for name in names))
        return [*rows.mapInArrow(partial(counted, self._order, once=once), as_ddl(COUNTS)).collect()]

    def _each(self, some: Fillable, run: Callable[..., Any], made: Any) -> list[Any]:
        """What is told of each file, in the columns of `made`."""
        lake, adds = self._lake, [*some.adds.values()]
        to = replace(lake.destination(), sync=lake.sync)  # nobody looks at these files before their commit
        order = FilesOrder(self._order, to, self._schema, adds)
        tasks = min(len(adds), FILES_AT_ONCE * lake.session.sparkContext.defaultParallelism)
        numbers = lake.session.range(0, len(adds), 1, tasks)
        return [*numbers.mapInArrow(partial(run, order), as_ddl(made)).collect()]


def _schema_of_files(view: TableView) -> Any:
    """The columns of a table's data files, in Arrow; None if Spark alone may write them."""
    if unfillable(view):
        return None
    try:
        fields = [
            (one.name, arrow_type(one.type))
            for one in struct_of(view.schema_json).fields
            if one.name not in view.partition_columns
        ]
    except KeyError:  # a user's column of another kind
        return None
    return pa.schema(fields)


def _filled(work: Backfill, files: Fillable, due: MaintenanceStep, apply: bool) -> MaintenanceStep | None:
    found = work.apply(files) if apply else work.look(files)
    if found is None:
        return None
    says = ", ".join(f"{one} {rows:,}" for one, rows in sorted(found.columns.items()))
    size = sum(add["size"] for add in found.adds.values())
    told = replace(due, files=len(found.adds), bytes=size, says=says, rows=found.rows)
    return replace(told, outcome="done") if apply else told


@dataclass(frozen=True)
class Closed:
    """Which partitions a turn of maintenance looks at, and what the table is told when it has. done: an appId."""

    wanted: Callable[[Partition], bool]
    done: str
    at_ms: int


def closed_since(app: str, view: TableView, now: datetime, late_secs: float) -> Closed:
    """Those that are closed by now and were not when the last turn with the same columns looked.

    What comes later is written by tasks that know these columns. now: UTC.
    """
    done = backfilled_app_id(app, view.fingerprint)
    said = view.transactions.get(done)
    last = None if said is None else datetime.fromtimestamp(said / 1000, timezone.utc)

    def wanted(partition: Partition) -> bool:
        return partition.is_closed(now, late_secs) and not (last and partition.is_closed(last, late_secs))

    return Closed(wanted, done, int(now.timestamp() * 1000))


def backfilled(
    lake: Lake, routing: Routing, table: DeltaTable, view: TableView, apply: bool, closed: Closed | None = None
) -> Iterator[MaintenanceStep]:
    """What is due for a table, partition by partition; with `apply` it is done. closed: of which; None for all.

    What another commit was in the way of is left for the next time. Raises ExporterError.
    """
    name, work, whole = table.event_type, Backfill(lake, routing, table, view), True
    some = [one for one in work.partitions() if closed is None or closed.wanted(one.partition)]
    for files in some:
        due = MaintenanceStep(name, "backfill", "due", files.partition.label)
        step = attempted(due, partial(_filled, work, files, due, apply), f"{due.day} cannot be filled")
        if step is not None:
            whole &= step.outcome != "skipped"
            yield step
    if apply and closed is not None and some and whole:
        with suppress(Moved):  # the next turn looks once more
            change = Change((), {closed.done: closed.at_ms}, said_beside("backfilled"))
            commit_or_moved(table, change, Expect(view, lake.app, columns=True))
