"""What stands in `_rescued` for columns that a table has by now goes into them (FILLED, protocol 4.15).

    partition ── its files with something in `_rescued` ── which have what a column is there for ── these are rewritten
    files before ── one commit: they go, those that were written come; no change of rows, as OPTIMIZE's is none

One commit for each partition, by compare-and-set on the files that go and on the columns. Whoever ends before it has
left files that no version names, which VACUUM takes. Rows are as many as before, and each record's document stays what
it was (1.6): no derived table has anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial

from pyspark.sql import functions as sf

from exporter.column.spark_json import struct_of
from exporter.core.fillable import fillable_columns
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.executor.empty import RESCUED
from exporter.executor.filling import COUNTS_DDL, FillOrder, counted, fill
from exporter.faults import Fault, point
from exporter.lake.change import Change, said_beside
from exporter.lake.lake import Lake
from exporter.lake.rows import by_file_name, file_name, has_values
from exporter.lake.settling import Expect, Moved, commit_or_moved
from exporter.lake.sizes import live_files
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.rewriting import Rewriting
from exporter.operate.maintain.step import MaintenanceStep, attempted
from exporter.sql_text import column
from offsets.backfilled import backfilled_app_id
from offsets.partitions import Partition
from offsets.table_log import TableView


@dataclass(frozen=True)
class Fillable:
    """Files of one partition. sizes: path as the log writes it -> bytes. rows, columns: that would be filled, or were.

    columns: name -> rows; not told of what was done.
    """

    partition: Partition
    sizes: Mapping[str, int]
    rows: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)


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
        self.has_columns = name != DEAD_LETTERS and RESCUED in there and bool(columns)

    def partitions(self) -> Iterator[Fillable]:
        """Those with files that may have something to be filled, by their statistics; oldest first."""
        found = live_files(self._table, self._view) if self.has_columns else {}
        for partition in sorted(found):
            if sizes := {add["path"]: add["size"] for add in found[partition] if has_values(RESCUED, add)}:
                yield Fillable(partition, sizes)

    def look(self, some: Fillable, once: bool = False) -> Fillable | None:
        """What would be filled; None if nothing would. once: it is enough to know in which files."""
        by_name = by_file_name(self._table.event_type, some.sizes)
        names = ["_kafka", RESCUED, *self._order.columns]
        rows = self._rewriting.rows(some.sizes)
        rows = rows.select(sf.input_file_name().alias("file"), *(sf.col(column(name)) for name in names))
        found = rows.mapInArrow(partial(counted, self._order, once=once), COUNTS_DDL).collect()
        files, columns, count = set(), dict[str, int](), 0
        for row in found:
            files.add(by_name[file_name(row["file"])])
            if row["column"]:
                columns[row["column"]] = columns.get(row["column"], 0) + row["rows"]
            else:
                count += row["rows"]
        if not files:
            return None
        return Fillable(some.partition, {path: some.sizes[path] for path in sorted(files)}, count, columns)

    def apply(self, some: Fillable) -> Fillable | None:
        """Rewrite the files in which something can be filled; None if there are none. Raises Moved, ExporterError."""
        found = self.look(some, once=True)
        if found is None:
            return None
        rows = self._rewriting.rows(found.sizes)
        count = self._lake.session.sparkContext.accumulator(0)
        filled = rows.mapInArrow(partial(fill, self._order, count=count), rows.schema)
        self._rewriting.commit(found.sizes, filled, "backfill", found.partition.label)
        point(Fault.AFTER_BACKFILL, self._table.event_type)
        return replace(found, rows=count.value, columns={})


def _filled(work: Backfill, files: Fillable, due: MaintenanceStep, apply: bool) -> MaintenanceStep | None:
    found = work.apply(files) if apply else work.look(files)
    if found is None:
        return None
    says = ", ".join(f"{one} {rows:,}" for one, rows in sorted(found.columns.items()))
    told = replace(due, files=len(found.sizes), bytes=sum(found.sizes.values()), says=says, rows=found.rows)
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
