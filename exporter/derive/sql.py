"""kind = "sql": rows that one SELECT makes of each new row of a source, appended once (protocol 9.1)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.source import Pinned, pin
from exporter.derive.target import Commit, Target
from exporter.lake.lake import Lake
from exporter.settings.derive_sql import SqlTable
from offsets.cursors import Cursor, as_transactions, cursor_of, slices
from offsets.table_log import TableView

VIEW = "source"
"""What the query calls the source."""


class SqlJob:
    """One [derive.<name>] of kind sql."""

    kind = "sql"

    def __init__(self, name: str, table: SqlTable, lake: Lake, session: object, owner: str) -> None:
        """session: the job's own, of which nobody else uses the views and the configuration."""
        self.name = name
        self._table = table
        self._lake = lake
        self._session = session
        self._target = Target(lake, name, self.kind, owner)

    def plan(self) -> Planned:
        """The new offsets, and the query."""
        view, source = self._target.view(), pin(self._lake, self._session, self._table.source)
        since = self._since(view)
        source.require_kept(since, self.name)
        ranges = {str(one.tp): str(one) for one in slices(since, source.now)}
        return Planned(self.name, self.kind, ranges, (self._table.query,))

    def run(self) -> Ran:
        """All that is new, in one commit."""
        view, source = self._target.view(), pin(self._lake, self._session, self._table.source)
        since = self._since(view)
        source.require_kept(since, self.name)
        if not source.has_new(since):
            return Ran(self.name)
        return self._committed(view, source, self._made(source, since))

    def rebuild(self) -> Ran:
        """Take out all rows and put in what the source makes now."""
        source = pin(self._lake, self._session, self._table.source)
        return self._committed(self._target.view(), source, self._made(source, Cursor()), removes_all=True)

    def status(self) -> JobStatus:
        """By cursors alone."""
        view, source = self._target.view(), pin(self._lake, self._session, self._table.source)
        behind = sum(one.offsets for one in slices(self._since(view), source.now))
        return JobStatus(self.name, self.kind, view.version if view else None, {self._table.source: behind})

    def audit(self) -> Sequence[AuditLine]:
        """Not yet."""
        return ()

    def _since(self, view: TableView | None) -> Cursor:
        transactions = view.transactions if view else {}
        return cursor_of(transactions, self._lake.app, self.name, self._table.source)

    def _made(self, source: Pinned, since: Cursor) -> DataFrame:
        source.rows(since).createOrReplaceTempView(VIEW)
        rows: DataFrame = self._session.sql(self._table.query)  # type: ignore[attr-defined]
        return rows

    def _committed(self, view: TableView | None, source: Pinned, rows: DataFrame, removes_all: bool = False) -> Ran:
        positions = as_transactions(source.now, self._lake.app, self.name, self._table.source)
        create = rows.schema.json() if view is None else None
        version = self._target.commit(view, Commit(rows, positions, create=create, removes_all=removes_all))
        return Ran(self.name, 0, version)
