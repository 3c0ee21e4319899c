"""`exporter maintain`: what tables need now and then, outside the commit path; beside tasks that go on.

    per table ─ lease ─ what is too old goes ─ each closed partition: backfill, OPTIMIZE ─ checkpoint ─ sweep ─ VACUUM

Positions are never touched: OPTIMIZE rewrites files without changing data, and every txn action stays as it is.
Tasks append meanwhile, and neither is in the other's way: an append reads nothing but its own positions, and OPTIMIZE
conflicts only with what takes its files away or changes the table's metadata. Then the partition waits for the next
turn.

Never two at once for a table: LOCK in its folder is leased while one works there (stores/lease.py); that of a killed
one is free a minute later. Even two that did not see each other's lease could only waste work: of two OPTIMIZE of a
partition Delta lets one land, since both take the same files away; the second checkpoint, sweep or VACUUM finds its
work done or does it again, by the same rules, and none of these depends on being alone.

VACUUM deletes by age alone, staged files too (TEMP), so it refuses a retention that could reach one that may still be
committed. It keeps what the table's property delta.deletedFileRetentionDuration says, a week where it says nothing,
unless a person gives another retention for this turn.

What was erased (`exporter erase`) and is still there, for somebody died or a RESTORE brought it back, goes first.
What is too old (`retention_days`) goes behind the bound that says so (AGED, protocol 4.14).
This module must never delete a file by itself: the sweep and VACUUM do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import TypeAlias

from exporter.core.days_kept import DaysKept
from exporter.core.routing import Routing
from exporter.core.specs import table_spec
from exporter.errors import ConfigError, ExporterError, TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.properties import DELETED_FILE_RETENTION, check_properties
from exporter.lake.retention import RETENTION_DEFAULT, protects_staged
from exporter.lake.sizes import live_sizes
from exporter.lake.table import DeltaTable
from exporter.lake.views import views_of
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.erase.erasing import ErasedRows, Erasing
from exporter.operate.maintain.aging import Aging
from exporter.operate.maintain.backfill import backfilled, closed_since
from exporter.operate.maintain.due import CHECKPOINT_COMMITS, Due, due_partitions
from exporter.operate.maintain.ordering import Ordering
from exporter.operate.maintain.step import MaintenanceStep, Outcome, attempted
from exporter.operate.maintain.sweep import listed_files, sweep
from exporter.protocol.erasures import Erasures
from exporter.stores.lease import leased
from exporter.text import first_line
from offsets.erased import Erased
from offsets.names import LOG_FOLDER
from offsets.partitions import Spec
from offsets.table_log import TableView

log = get_logger(__name__)

_Work: TypeAlias = "Callable[[str, bool], Iterator[MaintenanceStep]]"
LOCK = "_maintenance.lock"
"""A file in a table's folder; Delta passes over names that begin like this one."""
ORDER_HINT = "correct order_by: a column that is there, and has an order"
DRY_RUN_FILES = 1000
"""Files that Delta's VACUUM lists at most without deleting them."""


@dataclass(frozen=True)
class MaintenanceLimits:
    """The settings that maintenance goes by.

    backfills: by which columns, if it does so. orders: event type -> columns by which its rows are put in order.
    vacuum_hours: for how long VACUUM keeps deleted files; 0 for what each table says.
    """

    late_secs: float
    file_bytes_max: int
    stage_age_max_secs: float
    retention: DaysKept = field(default_factory=DaysKept)
    backfills: Routing | None = None
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vacuum_hours: int = 0


class Maintenance:
    """One turn over the tables. stopped: asked between steps."""

    def __init__(self, lake: Lake, limits: MaintenanceLimits, stopped: Callable[[], bool] = lambda: False) -> None:
        session = lake.session.newSession()  # what is set here is nobody else's
        session.conf.set("spark.databricks.delta.optimize.minFileSize", str(limits.file_bytes_max))
        session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(limits.file_bytes_max))
        session.conf.set("spark.databricks.io.skipping.mdc.sortWithinFiles", "true")
        if limits.vacuum_hours:  # Delta passes over it, and refuses less than a table says: what may stay is known here
            session.conf.set("spark.databricks.delta.vacuum.retentionWindowIgnore.enabled", "false")
            session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        cores = str(lake.session.sparkContext.defaultParallelism)  # VACUUM would have 10,000 tasks
        session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", cores)
        self._lake = Lake(session, lake.store, lake.app, lake.sync, lake.options)
        self._limits = limits
        self._stopped = stopped

    def tables(self, only: Collection[str]) -> list[str]:
        """The event types of `only`, or of all tables of the app. Raises ConfigError, TableUnreadable."""
        known = self._lake.event_types()
        if unknown := sorted(set(only) - set(known)):
            raise ConfigError(f"there is no table of event type {unknown[0]!r}", f"there are: {', '.join(known)}")
        ours = sorted(name for name, _ in views_of(self._lake, only or known))
        if foreign := sorted(set(only) - set(ours)):
            raise ConfigError(f"the table of {foreign[0]!r} is not one of app {self._lake.app}", "correct --types")
        return ours

    def steps(self, names: Sequence[str], apply: bool) -> Iterator[MaintenanceStep]:
        """What is due, table by table; with `apply` it is done. What fails for one table leaves the others alone."""
        return self._each(names, apply, self._table)

    def backfill(self, names: Sequence[str], apply: bool, routing: Routing) -> Iterator[MaintenanceStep]:
        """The same of all that `_rescued` has for columns that are there by now, open days too."""

        def work(name: str, apply: bool) -> Iterator[MaintenanceStep]:
            if (found := self._mine(name)) is not None:
                yield from backfilled(self._lake, routing, *found, apply)

        return self._each(names, apply, work)

    def erase(self, names: Sequence[str], apply: bool) -> Iterator[MaintenanceStep]:
        """The same of rows of erased records that are still there."""
        return self._each(names, apply, self._erase)

    def _erase(self, name: str, apply: bool) -> Iterator[MaintenanceStep]:
        if (found := self._mine(name)) is None:
            return
        work = Erasing(self._lake, *found, self._erased)
        if work.is_due:
            due = MaintenanceStep(name, "erase", "due")
            step = attempted(due, work.apply if apply else work.look, "rows of erased records stay")
            yield step if isinstance(step, MaintenanceStep) else _told(due, step, "done" if apply else "due")

    @cached_property
    def _erased(self) -> Erased:
        return Erasures(self._lake).read()

    def _each(self, names: Sequence[str], apply: bool, work: _Work) -> Iterator[MaintenanceStep]:
        for name in names:
            if self._stopped():
                return
            try:
                for step in self._alone(name, work) if apply else work(name, apply):
                    yield self._told(step)
                    if self._stopped():
                        return
            except ExporterError as error:
                yield self._told(MaintenanceStep(name, "table", "failed", says=f"{error.message} ({error.hint})"))

    def _alone(self, name: str, work: _Work) -> Iterator[MaintenanceStep]:
        with _locked(self._lake.table(name)) as alone:
            if alone:
                yield from work(name, True)
            else:
                yield MaintenanceStep(name, "table", "skipped", says="another maintenance is at work there")

    def _told(self, step: MaintenanceStep) -> MaintenanceStep:
        about = {name: value for name, value in step.as_dict().items() if value not in ("", 0)}
        del about["outcome"]
        if step.outcome == "done":
            log.info(Event.TABLE_MAINTAINED, **about)
        elif step.outcome == "skipped":
            log.warning(Event.MAINTENANCE_SKIPPED, **about)
        elif step.outcome == "failed":
            log.warning(Event.MAINTENANCE_FAILED, **about)
        return step

    def _mine(self, name: str) -> tuple[DeltaTable, TableView] | None:
        """A table of the app; None if there is none."""
        table = self._lake.table(name)
        if (view := table.view()) is not None:
            check_properties(name, view, self._lake.app)
        return None if view is None else (table, view)

    def _table(self, name: str, apply: bool) -> Iterator[MaintenanceStep]:
        yield from self._erase(name, apply)
        if (found := self._mine(name)) is None:
            return
        (table, view), limits = found, self._limits
        if days := limits.retention.of(name):
            yield from self._age(table, view, days, apply)
            view = table.view() or view
        if limits.backfills is not None:
            closed = closed_since(self._lake.app, view, _now(), limits.late_secs)
            yield from backfilled(self._lake, limits.backfills, table, view, apply, closed)
            view = table.view() or view
        if columns := limits.orders.get(name):
            yield from self._order(table, view, columns, apply)
        else:
            for due in due_partitions(live_sizes(table, view), _now(), limits.late_secs, limits.file_bytes_max):
                yield self._optimize(table, due, apply)
        if table.checkpoint(CHECKPOINT_COMMITS, apply):
            yield MaintenanceStep(name, "checkpoint", "done" if apply else "due")
        for swept in sweep(self._lake, apply, [name]):
            if swept.paths:
                yield MaintenanceStep(name, "sweep", "done" if apply else "due", "", len(swept.paths), swept.bytes)
        yield from self._vacuum(table, view, apply)

    def _age(self, table: DeltaTable, view: TableView, days: int, apply: bool) -> Iterator[MaintenanceStep]:
        """Take out what is older than so many days; what failed is tried again in the next turn."""
        name, aging = table.event_type, Aging(self._lake, table, view, _now(), days)
        files, label = aging.files(), f"{aging.bound:%Y-%m-%d}"
        if files is None:
            return
        due = MaintenanceStep(name, "retention", "due", label, len(files), sum(files))
        yield _done(due, aging.apply, f"rows before {label} stay") if apply else due

    def _order(
        self, table: DeltaTable, view: TableView, columns: Sequence[str], apply: bool
    ) -> Iterator[MaintenanceStep]:
        """In place of OPTIMIZE: files of as many bytes, rows in order. Raises TableUnreadable."""
        name, work = table.event_type, Ordering(self._lake, table, view, columns)
        for due in work.partitions(_now(), self._limits.late_secs):
            step = MaintenanceStep(name, "order", "due", due.partition.label, len(due.paths), due.bytes)
            do, cannot = partial(work.apply, due, self._limits.file_bytes_max), f"no order for {step.day}"
            yield _done(step, do, cannot, ORDER_HINT) if apply else step

    def _optimize(self, table: DeltaTable, due: Due, apply: bool) -> MaintenanceStep:
        """Rewrite one partition; Delta itself tries again what does not touch its files. Raises TableUnreadable."""
        label = due.partition.label
        step = MaintenanceStep(table.event_type, "optimize", "due", label, due.files, due.bytes)
        do = partial(_optimized, table, due.condition, step)
        return attempted(step, do, f"partition {label} cannot be rewritten") if apply else step

    def _vacuum(self, table: DeltaTable, view: TableView, apply: bool) -> Iterator[MaintenanceStep]:
        """Looks first: where nothing is to be deleted, nothing is written to the table's log either."""
        name, spec, hours = table.event_type, table_spec(view), self._limits.vacuum_hours
        of_table = view.properties.get(DELETED_FILE_RETENTION, RETENTION_DEFAULT)
        retention, said = (f"interval {hours} hours", "--vacuum-hours") if hours else (of_table, DELETED_FILE_RETENTION)
        if not protects_staged(retention, self._limits.stage_age_max_secs):
            says = (
                f"{said} = {retention} is not longer than a staged file may wait, and an hour: "
                "VACUUM could delete staged files"
            )
            yield MaintenanceStep(name, "vacuum", "failed", says=says)
            return
        before = listed_files(table.store, spec)
        try:
            self._lake.gateway.activate()  # Delta's Python package only deletes: SQL alone can look
            retain = f" RETAIN {int(hours)} HOURS" if hours else ""
            found = [row.path for row in self._lake.session.sql(f"VACUUM {table.sql_name}{retain} DRY RUN").collect()]
            if of_log := [path for path in found if f"/{LOG_FOLDER}/" in path]:
                raise OSError(f"it would delete entries of the table's log, {of_log[0]} is one")
            paths = {path for path in (_relative(one, spec) for one in found) if path in before}
            if paths and apply:
                table.commands().vacuum(hours or None)
                paths = before.keys() - listed_files(table.store, spec).keys()
        except Exception as error:
            raise TableUnreadable(f"table {name}: VACUUM failed: {first_line(error)}") from error
        if paths:
            says = f"at least {DRY_RUN_FILES}" if len(paths) >= DRY_RUN_FILES and not apply else ""
            size = sum(before[path] for path in paths)
            yield MaintenanceStep(name, "vacuum", "done" if apply else "due", "", len(paths), size, says)


def _done(due: MaintenanceStep, do: Callable[[], None], cannot: str, *hint: str) -> MaintenanceStep:
    """A step that ends as it was due, or why it is left."""

    def did() -> MaintenanceStep:
        do()
        return replace(due, outcome="done")

    return attempted(due, did, cannot, *hint)


def _told(due: MaintenanceStep, found: ErasedRows, outcome: Outcome) -> MaintenanceStep:
    return replace(due, outcome=outcome, rows=found.rows, files=len(found.sizes), bytes=sum(found.sizes.values()))


def _optimized(table: DeltaTable, condition: str, due: MaintenanceStep) -> MaintenanceStep:
    rewriting = table.commands().optimize()
    (row,) = (rewriting.where(condition) if condition else rewriting).executeCompaction().collect()
    metrics = row.metrics
    return replace(due, outcome="done", files=metrics.numFilesRemoved, bytes=metrics.filesRemoved.totalSize or 0)


def _relative(path: str, spec: Spec) -> str:
    """The folder of the partition and the name, of a path that VACUUM names: as it is on disk, % and all."""
    return "/".join(path.split("/")[-1 - len(spec.column_names) :])


@contextmanager
def _locked(table: DeltaTable) -> Iterator[bool]:
    """Whether nobody else maintains the table, until the end. Raises TableUnreadable where nothing can be locked."""
    with ExitStack() as held:
        try:
            alone = held.enter_context(leased(table.store, LOCK))
        except OSError as error:
            raise TableUnreadable(f"table {table.event_type} cannot be locked: {error}") from error
        yield alone


def _now() -> datetime:
    return datetime.now(timezone.utc)
