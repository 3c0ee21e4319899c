"""Rows that a table keeps no more: the bound is said first, then the rows go (AGED, protocol 4.14).

    files before the bound ── <app>/aged = bound, in a commit of its own ── the files before it, in another one

Whoever ends between the two leaves rows that may go; the next turn takes them. So do rows that came late, or that a
RESTORE brought back. Files go as they were seen, and nothing is read of the table: what a task adds to the same day
meanwhile is in nobody's way, so that clocks which are always wrong hold up nothing. A table that is not cut by time has
its files written anew, by a DELETE.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from pyspark.sql import functions as sf

from exporter.core.columns import EVENT_TIME
from exporter.core.days_kept import bound_of, is_too_old
from exporter.core.specs import table_spec
from exporter.faults import Fault, point
from exporter.lake.change import Change, said_beside
from exporter.lake.lake import Lake
from exporter.lake.settling import Expect, commit_or_moved
from exporter.lake.sizes import live_files
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.rewriting import Rewriting, view_now
from offsets.aged import aged_app_id, aged_before
from offsets.table_log import TableView

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Aging:
    """What is too old in one table at a snapshot."""

    def __init__(self, lake: Lake, table: DeltaTable, view: TableView, now: datetime, days: int) -> None:
        """now: UTC. days: that the table keeps."""
        self._lake = lake
        self._table = table
        self._view = view
        self._spec = table_spec(view)
        self.bound = bound_of(self._spec, now, days)

    def files(self) -> list[int] | None:
        """The bytes of each file that goes as a whole; None if nothing is too old.

        Of a table that is not cut by time files are rewritten, and none are counted.
        """
        if not self._spec.time_columns:
            return [] if self._rows_frame().limit(1).count() else None
        return [add["size"] for add in self._old(self._view)] or None

    def apply(self) -> None:
        """Raises Moved, ExporterError, and what Delta raises."""
        self._say()
        point(Fault.AFTER_AGED_BOUND, self._table.event_type)
        self._take_out()
        point(Fault.AFTER_AGED_DELETE, self._table.event_type)

    def _take_out(self) -> None:
        if not self._spec.time_columns:
            self._table.commands().delete(self._rows)
            return
        view = view_now(self._table)
        if paths := [add["path"] for add in self._old(view)]:
            Rewriting(self._lake, self._table, view).commit(paths, None, "retention", "", tags=None)

    def _old(self, view: TableView) -> list[dict[str, Any]]:
        """The `add` action of each live file that goes as a whole."""
        name, files = self._table.event_type, live_files(self._table, view)
        return [add for partition, some in files.items() if is_too_old(name, partition, self.bound) for add in some]

    def _say(self) -> None:
        """The bound, unless it is said. Not a commit of the app's tasks: it looked at nothing that came before it."""
        app, bound_us = self._lake.app, (self.bound - _EPOCH) // timedelta(microseconds=1)
        said = aged_before(self._view.transactions, app)
        if said is not None and said >= bound_us:
            return
        metadata = said_beside("retention", before=self.bound.isoformat())
        change = Change((aged_app_id(app),), {aged_app_id(app): bound_us}, metadata)
        commit_or_moved(self._table, change, Expect(self._view, app, ours=True))

    @cached_property
    def _rows(self) -> Any:
        """What is true of the rows that are too old, as a column of Spark."""
        return sf.col(EVENT_TIME) < sf.lit(self.bound)

    def _rows_frame(self) -> Any:
        return self._table.commands().toDF().where(self._rows)
