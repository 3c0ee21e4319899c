"""kind = "mirror": a table with the newest row of each key of a source (protocol 9.5, NEWEST)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.mirror_audit import audited
from exporter.derive.mirror_carried import carried_over
from exporter.derive.mirror_merge import IN_ALL, Statements
from exporter.derive.mirror_purge import Purge
from exporter.derive.mirror_rows import BASE, OWN, RULES, MirrorShape, counted, fingerprint, schema_of
from exporter.derive.mirror_sql import CHANGES, EVERY, bounds_sql, lacking_sql, merge_sql
from exporter.derive.mirror_todo import Todo, left_in_all, lost_keys, todo
from exporter.derive.mirror_truncated import Truncate, Truncates, property_of, taken_of
from exporter.derive.places import within
from exporter.derive.source import REBUILD, PinnedSource, others_told, pin
from exporter.derive.target import RunCommit, Target
from exporter.errors import ConfigError, InvariantBroken
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.rows import rows_of
from exporter.lake.schema import SchemaChange, schema_change
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import quoted
from offsets import Invariant
from offsets.cursors import NOTHING, head_of, slices
from offsets.table_log import TableView

SHAPE_PROPERTY = "exporter.derive.mirror"
"""Of a mirror: what its rows depend on (fingerprint())."""
RULES_PROPERTY = "exporter.derive.mirror.rules"
"""Of a mirror: by which rules its rows were made (RULES); versions before these did not say it."""
EMPTY_VERSIONS_MAX = 100
"""Versions of a source without a row for its mirror, after which the mirror's progress is committed all the same."""


class MirrorJob:
    """One [derive.<name>] of kind mirror."""

    kind = "mirror"

    def __init__(self, name: str, table: MirrorTable, lake: Lake, later: Later, owner: str) -> None:
        """later: the job's own session, of which nobody else uses the views and the configuration."""
        self.name = name
        self._table = table
        self._lake = lake
        self._later = later
        self._target = Target(lake, name, self.kind, owner)
        self._statements = Statements(self._target, later)
        self._purge = Purge(self._target, later, self._statements, table.deleted_days)
        self._truncates = Truncates(name, table)

    def plan(self) -> Planned:
        """What is new, and the MERGE of it."""
        view, source = self._target.view(), self._pinned()
        shape = self._shape(source)
        sql = merge_sql(shape, self._target.table.sql_name)
        if view is None:
            due = Todo(found=slices(NOTHING, source.now), says="the table is made of all rows")
        else:
            self._require_same(view)
            due = self._due(view, source)
        ranges = {str(one.tp): str(one) for one in due.found}
        says = f"{due.rewound}: all rows are made anew" if due.rewound else due.says
        newest = self._truncates.newest(source, view)
        told = "; ".join(filter(None, (says or self._outdated(view), _empties(newest, view))))
        return Planned(self.name, self.kind, ranges, () if due.nothing else (sql,), told)

    def run(self) -> Ran:
        """All that is new, in one commit; before it one that adds new columns."""
        view, source = self._target.view(), self._pinned()
        if view is None:
            return self._made_anew(None, source)
        self._require_same(view)
        due = self._due(view, source)
        if due.rewound:
            self._require_no_loss(view, source, due)
            return self._made_anew(view, source, f"made anew: {due.rewound}")
        made = Ran(self.name)
        if outdated := self._outdated(view):
            made = self._made_anew(view, source, outdated, carries_over=True)
            view, due = self._target.view() or view, Todo(source.view.version)
        if due.forgets:
            self._target.commit(view, RunCommit(None, self._progress(source, -1)))
            view = self._target.view() or view
        newest = self._truncates.newest(source, view)
        view, emptied = self._emptied(view, source, newest, due)
        if due.nothing:
            return _both(made, emptied)
        return _both(emptied, self._merged(view, source, newest, due, commits=not emptied.idle))

    def rebuild(self) -> Ran:
        """All rows anew, from what the source holds now."""
        source = self._pinned()
        return self._made_anew(self._target.view(), source)

    def status(self) -> JobStatus:
        """Where the job stands, by versions and positions."""
        view, source = self._target.view(), self._pinned()
        due = Todo(found=slices(NOTHING, source.now))
        if view is not None:
            due = self._due(view, source)
        of_rows = due.rewound or (due.found and source.has_rows(due.found))
        behind = sum(one.offsets for one in due.found) if of_rows else 0
        facts: dict[str, Any] = {"of version": f"{due.since} of {source.view.version}", **others_told(source)}
        if says := due.rewound or due.says or self._outdated(view):
            facts["next"] = says
        if taken := taken_of(view):
            facts["emptied by"] = str(taken)
        if empties := _empties(self._truncates.newest(source, view), view):
            facts["next"] = "; ".join(filter(None, (says, empties)))
        if view is not None and (left := left_in_all(self._target.table, view, self.name)):
            facts["left out"] = ", ".join(f"{count} of {why}" for why, count in sorted(left.items()))
        return JobStatus(self.name, self.kind, view.version if view else None, {source.name: behind}, facts)

    def audit(self) -> Sequence[AuditLine]:
        """The newest row of each key, found by one query over the whole source, against the table."""
        view, source = self._target.view(), self._pinned()
        if view is None:
            return (AuditLine(self.name, "table", False, 0, "it is not there yet"),)
        if outdated := self._outdated(view):
            return (AuditLine(self.name, "newest row of each key", False, 0, f"{outdated}: run the job first"),)
        return audited(self.name, self._table, self._target.table, view, source)

    def _pinned(self) -> PinnedSource:
        return pin(self._lake, self._later, self._table.source)

    def _shape(self, source: PinnedSource) -> MirrorShape:
        spec = self._lake.spec_of(source.name, source.view)
        cut_by = [one.name for one in spec.time_columns if one.name in source.view.partition_columns]
        return MirrorShape.of(self.name, self._table, source.schema, cut_by)

    def _due(self, view: TableView, source: PinnedSource) -> Todo:
        due = todo(self._target.table, view, source, self.name)
        back = self._truncates.taken_back(source, view)
        return replace(due, rewound=back, back={}) if back and not due.rewound else due

    def _require_same(self, view: TableView) -> None:
        if view.properties.get(SHAPE_PROPERTY) != fingerprint(self._table):
            what = f"derive {self.name}: the table was made with other keys, order or ops than the settings have"
            raise ConfigError(what, REBUILD.format(job=self.name))

    def _outdated(self, view: TableView | None) -> str:
        """Why all rows are to be made anew though the source is as it was: other rules; empty if they are not."""
        if view is None or view.properties.get(RULES_PROPERTY) == RULES or f'"{BASE}"' not in view.schema_json:
            return ""
        return "made anew once: an earlier version made its rows by other rules of what deletes and late columns do"

    def _require_no_loss(self, view: TableView, source: PinnedSource, due: Todo) -> None:
        """Raises InvariantBroken where the source has no row any more of a key of which it took none back."""
        lost = lost_keys(self._target.table, view, source, self._table.keys, due.back)
        if lost:
            what = f"{due.rewound}; {lost} keys of the mirror, of which nothing was taken back, have no row in it"
            raise InvariantBroken(Invariant.MONOTONE, f"derive {self.name}: {what}", REBUILD.format(job=self.name))

    def _made_anew(
        self, view: TableView | None, source: PinnedSource, says: str = "", carries_over: bool = False
    ) -> Ran:
        """carries_over: also what the mirror has of rows that the source has lost."""
        shape, rows = self._shape(source), source.own()
        found, newest = shape.counted(rows), self._truncates.newest(source, view)
        later = self._truncates.without_older(rows, newest, source.now)
        made = shape.newest(shape.grouped(later), later if found.speaks else None)
        schema, by = schema_of(made), [quoted(key) for key in self._table.keys]
        if view is not None and carries_over:
            self._growth(view, made)
            former = rows_of(self._later.session, self._target.table, view.version)
            made = carried_over(shape, made, former, source.frame())
        properties = {SHAPE_PROPERTY: fingerprint(self._table), RULES_PROPERTY: RULES}
        if newest != taken_of(view) and not carries_over:  # what is carried over is older in part, and taken out next
            properties |= property_of(newest)
        if view is None:
            properties["delta.enableDeletionVectors"] = str(self._table.deletion_vectors).lower()
        commit = RunCommit(
            made.repartitionByRange(*by).sortWithinPartitions(*by),
            self._progress(source, source.view.version),
            says={**_told(found.left), IN_ALL: dict(found.left)},
            create=schema if view is None else None,
            evolve=None if view is None or view.schema_json == schema else schema,
            removes_all=True,
            properties=properties,
        )
        version = self._target.commit(view, commit)
        rows_now = self._target.added_rows(version)
        told = "; ".join(filter(None, (says, f"rows older than {newest} are not in it" if newest else "")))
        return Ran(self.name, rows_now, version, says=_joined(told, found.left), left_out=found.left)

    def _emptied(
        self, view: TableView, source: PinnedSource, newest: Truncate | None, due: Todo
    ) -> tuple[TableView, Ran]:
        """The mirror without what rows made that are older than a truncate, in a commit of its own; then another one
        that says so. Whoever is killed between the two does the first one again, which changes nothing."""
        if newest is None or (newest == taken_of(view) and not due.says):
            return view, Ran(self.name)
        names = [field["name"] for field in json.loads(view.schema_json)["fields"]]
        shape = replace(self._shape(source), columns=tuple(name for name in names if name not in OWN))
        name, version, changed = self._target.table.sql_name, None, 0
        touched = self._truncates.touched_sql(shape, newest, source.now)
        found = self._later.session.sql(f"SELECT 1 FROM {name} AS t WHERE {touched}")
        if not found.isEmpty():  # else Delta commits nothing
            sql = self._truncates.emptied_sql(shape, name, newest, source.now)
            version, changed = self._statements.commit(view, sql, {"emptied": str(newest)})
            view = self._target.view() or view
        if newest != taken_of(view):
            version = self._target.commit(view, RunCommit(None, {}, properties=property_of(newest)))
        says = f"{max(changed, 0)} rows were older than {newest}, or had values that were"
        return self._target.view() or view, Ran(self.name, max(changed, 0), version, says=says)

    def _progress(self, source: PinnedSource, version: int) -> dict[str, int]:
        """The txn action of a table that holds what a version of its source has."""
        return {f"{head_of(self._lake.app, self.name, source.name)}version/{source.view.table_id}": version}

    def _merged(
        self, view: TableView, source: PinnedSource, newest: Truncate | None, due: Todo, commits: bool = False
    ) -> Ran:
        """commits: also where there is no row, as the source's version is to be said."""
        shape, rows = self._shape(source), source.frame().where(within(due.found))
        later = self._truncates.without_older(rows, newest, source.now)
        groups = shape.grouped(later)
        with ExitStack() as kept:
            if not due.says:  # else they may be many, and what the mirror lacks of them is kept
                kept.enter_context(_kept(groups))
            of_groups = None if due.says else counted(groups)
            found = shape.counted(rows) if of_groups is None or newest else of_groups
            if not (found.rows or commits) and source.view.version - due.since < EMPTY_VERSIONS_MAX:
                return Ran(self.name)
            changes = shape.newest(groups, later if found.speaks else None)
            if due.says:
                changes.createOrReplaceTempView(EVERY)
                changes = self._later.session.sql(lacking_sql(shape, self._target.table.sql_name))
                kept.enter_context(_kept(changes))
            view = self._evolved(view, changes)
            changes.createOrReplaceTempView(CHANGES)
            key = self._table.keys[0]
            bounds = _bounds(key, changes) if of_groups is None else of_groups.bounds
            sql = merge_sql(shape, self._target.table.sql_name, bounds_sql(key, *bounds))
            (progress,) = self._progress(source, source.view.version).items()
            in_all = found.left if due.says else self._left_in_all(view, source, due, found.left)
            says = {**_told(found.left), IN_ALL: dict(in_all), "rows": found.rows}
            version, changed = self._statements.commit(view, sql, says, progress)
        purged = self._purge.due(time.monotonic())
        told = "; ".join(filter(None, (due.says, f"{purged} deleted keys purged" if purged else "")))
        return Ran(self.name, max(changed, 0), version, says=_joined(told, found.left), left_out=found.left)

    def _left_in_all(
        self, view: TableView, source: PinnedSource, due: Todo, now: Mapping[str, int]
    ) -> Mapping[str, int]:
        """Why -> how many rows are left out of all that the mirror has after a run; counted anew where that is not a
        sum. now: of those that the run takes."""
        before = left_in_all(self._target.table, view, self.name)
        if before is None or due.again:
            return self._shape(source).counted(source.own()).left
        return {why: before.get(why, 0) + now.get(why, 0) for why in {*before, *now}}

    def _evolved(self, view: TableView, changes: DataFrame) -> TableView:
        """The mirror with the columns that the source has gained. Raises ConfigError where one has another type."""
        change = self._growth(view, changes)
        if change.schema_json is None:
            return view
        self._target.commit(view, RunCommit(None, {}, evolve=change.schema_json, properties=change.properties))
        now = self._target.view()
        return now or view

    def _growth(self, view: TableView, rows: DataFrame) -> SchemaChange:
        """What a mirror lacks for such rows. Raises ConfigError where a column has another type."""
        try:
            return schema_change(view, schema_of(rows), widens=False)
        except ConfigError as error:
            raise ConfigError(f"derive {self.name}: {error.message}", REBUILD.format(job=self.name)) from error


def _empties(newest: Truncate | None, view: TableView | None) -> str:
    """What the next run takes out; empty if nothing."""
    return "" if newest in (None, taken_of(view)) else f"rows older than {newest} go"


def _both(first: Ran, then: Ran) -> Ran:
    """Two commits of one run."""
    if first.idle or then.idle:
        return then if first.idle else first
    says = "; ".join(filter(None, (first.says, then.says)))
    return replace(then, rows=first.rows + then.rows, says=says)


def _bounds(key: str, changes: DataFrame) -> tuple[Any, Any]:
    least, most = changes.selectExpr(f"min({quoted(key)})", f"max({quoted(key)})").collect()[0]
    return least, most


def _told(left: Mapping[str, int]) -> dict[str, Any]:
    return {"left_out": dict(left)} if left else {}


def _joined(says: str, left: Mapping[str, int]) -> str:
    return "; ".join(filter(None, (says, *(f"left out: {count} of {why}" for why, count in sorted(left.items())))))


@contextmanager
def _kept(rows: DataFrame) -> Iterator[None]:
    """In memory, and on disk where that is too small: they are looked at several times."""
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()
