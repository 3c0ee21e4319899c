"""kind = "sql": rows that one SELECT makes of each new row of a source, appended once (protocol 9.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import StructType

from exporter.derive.columns import UnfitCell, grown
from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.locating import failing
from exporter.derive.places import within
from exporter.derive.query import Query
from exporter.derive.source import PinnedSource, others_told, pin
from exporter.derive.sql_audit import compared
from exporter.derive.target import RunCommit, RunFailed, Target
from exporter.errors import ConfigError, ExporterError
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.rows import rows_of
from exporter.settings.derive_sql import SqlTable
from offsets.cursors import Cursor, Slice, as_transactions, cursor_of, replayed, slices, window
from offsets.table_log import TableView

QUERY_PROPERTY = "exporter.derive.sql"
"""Of a job's table: the source and the query that made its rows, as JSON."""


class SqlJob:
    """One [derive.<name>] of kind sql."""

    kind = "sql"

    def __init__(self, name: str, table: SqlTable, lake: Lake, later: Later, owner: str) -> None:
        """later: the job's own session, of which nobody else uses the views and the configuration."""
        self.name = name
        self._table = table
        self._lake = lake
        self._later = later
        self._target = Target(lake, name, self.kind, owner)
        self._query = Query(name, table.query, later)

    def plan(self) -> Planned:
        """The new offsets, the query, and the columns that it makes."""
        view, source = self._target.view(), self._pinned()
        since = self._kept(view, source)
        until = self._until(since, source)
        made = self._columns(view, source, since)
        ranges = {str(one.tp): str(one) for one in slices(since, until)}
        for tp, (taken, last) in replayed(since, source.now).items():
            ranges[f"{tp} replays"] = f"{taken + 1}..{last}"
        says = f"columns: {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in made)}"
        return Planned(self.name, self.kind, ranges, (self._query.text,), says)

    def run(self) -> Ran:
        """What is new, as much as a run takes, in one commit."""
        view, source = self._target.view(), self._pinned()
        since = self._kept(view, source)
        made = self._query.schema(source.schema)
        if not source.has_new(since):
            return Ran(self.name)
        until = self._until(since, source)
        rows = self._query.over(source.rows(since, until))
        commit = RunCommit(rows, self._said(until), evolve=None if view is None else self._grown(view, made))
        try:
            return self._committed(view, commit, made, until, source)
        except RunFailed as failed:
            raise self._located(failed, source, slices(since, until)) from failed

    def rebuild(self) -> Ran:
        """Take out all rows and put in what the source makes now, in one commit."""
        view, source = self._target.view(), self._pinned()
        made = self._query.schema(source.schema)
        same = view is None or StructType.fromJson(json.loads(view.schema_json)) == made
        commit = RunCommit(
            self._query.over(source.rows()),
            self._said(source.now),
            evolve=None if same else made.json(),
            properties={QUERY_PROPERTY: self._property},
            removes_all=True,
        )
        return self._committed(view, commit, made, source.now, source)

    def status(self) -> JobStatus:
        """Where the job stands, by its cursors alone."""
        view, source = self._target.view(), self._pinned()
        behind = sum(one.offsets for one in slices(self._since(view), source.now))
        version, facts = view.version if view else None, others_told(source)
        return JobStatus(self.name, self.kind, version, {self._table.source: behind}, facts)

    def audit(self) -> Sequence[AuditLine]:
        """The table is what the query makes of all rows of the source up to the cursor, each as often."""
        view, source = self._target.view(), self._pinned()
        if view is None:
            return [AuditLine(self.name, "rows", True, 0, "there is no table yet")]
        since = self._kept(view, source)
        rows = rows_of(self._later.session, self._target.table, view.version)
        return [compared(self.name, rows, self._query, source, since)]

    def _committed(
        self, view: TableView | None, commit: RunCommit, made: StructType, until: Cursor, source: PinnedSource
    ) -> Ran:
        """The first one makes the table."""
        if view is None:
            commit = replace(commit, create=made.json(), properties={QUERY_PROPERTY: self._property})
        version = self._target.commit(view, commit)
        more = until.positions != source.now.positions
        return Ran(self.name, self._target.added_rows(version), version, more)

    def _located(self, failed: RunFailed, source: PinnedSource, new: Sequence[Slice]) -> ExporterError:
        """The failure, with the record that the query fails on, if it does."""

        def fails(some: Sequence[Slice]) -> bool:
            try:
                self._query.over(source.frame().where(within(some))).write.format("noop").mode("overwrite").save()
            except Exception:  # noqa: BLE001 - it is asked whether there is one
                return True
            return False

        one = failing(new, fails)
        return failed if one is None else RunFailed(f"{failed.message} (at {one.tp} offset {one.through})", failed.hint)

    def _pinned(self) -> PinnedSource:
        return pin(self._lake, self._later, self._table.source)

    def _since(self, view: TableView | None) -> Cursor:
        transactions = view.transactions if view else {}
        return cursor_of(transactions, self._lake.app, self.name, self._table.source)

    def _kept(self, view: TableView | None, source: PinnedSource) -> Cursor:
        """The cursor, if what was taken before still goes with the source and the query. Raises ExporterError."""
        if view is not None and view.properties.get(QUERY_PROPERTY) != self._property:
            raise ConfigError(
                f"[derive.{self.name}]: its table was made by another query, or of another source",
                f"`exporter derive run {self.name} --rebuild` makes all its rows anew; another name, a table beside it",
            )
        since = self._since(view)
        source.require_kept(since, self.name)
        return since

    def _until(self, since: Cursor, source: PinnedSource) -> Cursor:
        return window(since, source.now, self._table.offsets_max)

    def _said(self, until: Cursor) -> dict[str, int]:
        return as_transactions(until, self._lake.app, self.name, self._table.source)

    @property
    def _property(self) -> str:
        return json.dumps({"source": self._table.source, "query": self._table.query}, ensure_ascii=False)

    def _columns(self, view: TableView | None, source: PinnedSource, since: Cursor) -> StructType:
        """Of the rows that it makes: the table's, where the source has those that it had for the last run; else Spark
        says it. Raises ConfigError for what the table cannot hold."""
        if view is not None and source.has_columns_of(since.version):
            return StructType.fromJson(json.loads(view.schema_json))
        made = self._query.schema(source.schema)
        if view is not None:
            self._grown(view, made)
        return made

    def _grown(self, view: TableView, made: StructType) -> str | None:
        """The table's schema with the columns that the rows have and it lacks; None if it lacks none."""
        try:
            found = grown(StructType.fromJson(json.loads(view.schema_json)), made)
        except UnfitCell as unfit:
            what = f"[derive.{self.name}]: {unfit} by now, since the source's column was changed"
            hint = f"cast it in the query and `exporter derive run {self.name} --rebuild`, or rebuild it as it is"
            raise ConfigError(what, hint) from unfit
        return None if found is None else found.json()
