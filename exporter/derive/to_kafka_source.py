"""What a to_kafka job reads: an exported table, or the table of another job, pinned; what is new of it, in its order.

    exported   topic, partition, offset     rows that replays put below the cursor first, as one part
    sql        the same: by the `_kafka` of its rows, through the cursor of its own last commit
    bundles    _seq
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.specs import table_spec
from exporter.derive.audited_rows import rows_through
from exporter.derive.source import NoSource, PinnedSource, others_told, pin, readable
from exporter.derive.to_kafka_progress import SendProgress
from exporter.derive.to_kafka_rows import RowPlace, by_offset, by_sequence
from exporter.errors import ConfigError, InvariantBroken
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.rows import rows_of
from exporter.lake.table import DeltaTable
from exporter.settings.derive_bundles import BundlesTable
from exporter.settings.derive_sql import SqlTable
from exporter.settings.derive_tables import DeriveTable
from offsets import Invariant
from offsets.cursors import NOTHING, Cursor, cursor_of, head_of, rebuilds, replayed, slices, window
from offsets.positions import Position
from offsets.table_log import TableView

OFFSETS_MAX = 1_000_000
"""About as many offsets of a source are sorted at once."""
ANEW = "name another `topic` for it, or delete this one: a topic cannot take back what was sent"


@dataclass(frozen=True)
class RowsPart:
    """Rows to be sent. place: the columns that order them. after: the places of the rows of a transaction -> progress
    through them, asked in order; None: all rows are sent as one. done: progress once all are sent."""

    frame: DataFrame
    place: tuple[Column, ...]
    after: Callable[[Iterable[RowPlace]], SendProgress] | None
    done: SendProgress


class SendableSource(Protocol):
    """A source at one version."""

    @property
    def version(self) -> int:
        """Of the table that has the rows."""

    @property
    def view(self) -> TableView:
        """That table."""

    def frame(self) -> DataFrame:
        """All rows of the source at its version."""

    def require_kept(self, progress: SendProgress, job: str) -> None:
        """Raises InvariantBroken if rows were taken back that were sent, or may have been."""

    def parts(self, progress: SendProgress) -> tuple[list[RowsPart], bool]:
        """What is new, and whether there is more beyond it."""

    def ranges(self, progress: SendProgress) -> Mapping[str, str]:
        """What is new, for people."""

    def behind(self, progress: SendProgress) -> int:
        """How much: offsets, or rows of a sequence."""

    def as_of(self, progress: SendProgress) -> SendableSource:
        """The source as it was when a progress was made, where that can still be read: for an audit."""

    def sent(self, progress: SendProgress) -> tuple[DataFrame, tuple[Column, ...]]:
        """All rows through a progress, and the columns that order them: for an audit."""

    def facts(self) -> Mapping[str, int]:
        """What a status has to say of it."""


@dataclass(frozen=True)
class ByOffset:
    """A source whose rows have coordinates. view: of the table that has the rows. rebuilt: of a job's table, the run
    that began it anew last."""

    pinned: PinnedSource
    view: TableView
    rebuilt: int = 0

    @property
    def version(self) -> int:
        return self.view.version

    def frame(self) -> DataFrame:
        return self.pinned.frame()

    def require_kept(self, progress: SendProgress, job: str) -> None:
        require_same_run(progress, self.rebuilt, job)
        self.pinned.require_kept(progress.cursor, job)

    def parts(self, progress: SendProgress) -> tuple[list[RowsPart], bool]:
        since, now = progress.cursor, self.pinned.now
        if not self.pinned.has_new(since):
            return [], False
        progress, found = replace(progress, rebuilt=self.rebuilt), []
        seen = replace(since, replays=now.replays, version=now.version, table_id=now.table_id, former={})
        if replayed(since, now):
            below = self.pinned.rows(since, until=since)
            found.append(RowsPart(below, by_offset(slices(NOTHING, now)), None, replace(progress, cursor=seen)))
        until = window(since, now, OFFSETS_MAX)
        new = slices(since, until)
        if new:
            epochs = {
                (one.tp, one.first): now.positions[one.tp].epoch if one.before is None
                else min(now.positions[one.tp].epoch, one.before - 1)
                for one in new
            }  # fmt: skip
            positions = {**seen.positions}

            def after(places: Iterable[RowPlace]) -> SendProgress:
                for place in {one.tp: one for one in places}.values():  # the last one of each
                    if place.tp is not None:
                        positions[place.tp] = Position(epochs[place.tp, place.first], place.at)
                return replace(progress, cursor=replace(seen, positions={**positions}))

            rows = self.pinned.rows(replace(seen, former=since.former), until)
            done = replace(progress, cursor=replace(until, former={}))
            found.append(RowsPart(rows, by_offset(new), after, done))
        return found, until != now

    def ranges(self, progress: SendProgress) -> Mapping[str, str]:
        return {str(one.tp): str(one) for one in slices(progress.cursor, self.pinned.now)}

    def behind(self, progress: SendProgress) -> int:
        return sum(one.offsets for one in slices(progress.cursor, self.pinned.now))

    def sent(self, progress: SendProgress) -> tuple[DataFrame, tuple[Column, ...]]:
        found = slices(NOTHING, replace(progress.cursor, former=self.pinned.now.former))
        return rows_through(self.pinned, progress.cursor), by_offset(found)

    def as_of(self, progress: SendProgress) -> SendableSource:
        if isinstance(self.pinned, _OfSql):
            return self
        return replace(self, pinned=(then := readable(self.pinned, progress.cursor.version)), view=then.view)

    def facts(self) -> Mapping[str, int]:
        return {} if isinstance(self.pinned, _OfSql) else others_told(self.pinned)


@dataclass(frozen=True)
class BySequence:
    """The table of a bundles job. taken: the last number of its sequence."""

    later: Later
    table: DeltaTable
    view: TableView
    taken: int
    rebuilt: int

    @property
    def version(self) -> int:
        return self.view.version

    def frame(self) -> DataFrame:
        return rows_of(self.later.session, self.table, self.version).where("_seq IS NOT NULL")

    def require_kept(self, progress: SendProgress, job: str) -> None:
        require_same_run(progress, self.rebuilt, job)
        table_id = progress.cursor.table_id
        if self.taken < progress.seq or (table_id and table_id != self.view.table_id):
            what = f"derive {job}: its source took back rows that were sent, through _seq {progress.seq}"
            raise InvariantBroken(Invariant.ONCE, what, ANEW)

    def parts(self, progress: SendProgress) -> tuple[list[RowsPart], bool]:
        until = min(self.taken, progress.seq + OFFSETS_MAX)
        if until <= progress.seq:
            return [], False
        cursor = Cursor(version=self.version, table_id=self.view.table_id)
        progress = replace(progress, cursor=cursor, rebuilt=self.rebuilt)
        rows = self.frame().where(sf.col("_seq").between(progress.seq + 1, until))

        def after(places: Iterable[RowPlace]) -> SendProgress:
            *_, last = places
            return replace(progress, seq=last.at)

        return [RowsPart(rows, by_sequence(), after, replace(progress, seq=until))], until < self.taken

    def ranges(self, progress: SendProgress) -> Mapping[str, str]:
        return {"_seq": f"{progress.seq + 1}..{self.taken}"} if self.behind(progress) else {}

    def behind(self, progress: SendProgress) -> int:
        return max(0, self.taken - progress.seq)

    def sent(self, progress: SendProgress) -> tuple[DataFrame, tuple[Column, ...]]:
        return self.frame().where(sf.col("_seq") <= progress.seq), by_sequence()

    def as_of(self, progress: SendProgress) -> SendableSource:
        return self

    def facts(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True)
class _OfSql(PinnedSource):
    """An exported table as the table of a sql job has it. made: that one, at a version. taken: its cursor."""

    made: PinnedSource
    taken: Cursor

    @cached_property
    def now(self) -> Cursor:
        return self.taken

    def frame(self) -> DataFrame:
        return self.made.frame()


def source_of(lake: Lake, later: Later, name: str, jobs: Mapping[str, DeriveTable]) -> SendableSource:
    """jobs: of the settings; a source that is called as one of them is that one's table.

    Raises NoSource, ConfigError, LogCleaned, TableUnreadable.
    """
    job = jobs.get(name)
    if job is None:
        pinned = pin(lake, later, name)
        return ByOffset(pinned, pinned.view)
    if not isinstance(job, BundlesTable | SqlTable):
        what = f"[derive.{name}] is of kind {job.kind}, whose rows have no order in which they came"
        raise ConfigError(what, "a source is an event type, or a job of kind sql or bundles")
    table = lake.derived(name)
    view = table.view()
    if view is None:
        raise NoSource(f"[derive.{name}] has not made its table yet", f"`exporter derive run {name}` makes it")
    rebuilt = rebuilds(view.transactions, lake.app, name)
    if isinstance(job, BundlesTable):
        taken = view.transactions.get(f"{head_of(lake.app, name)}seq", 0)
        return BySequence(later, table, view, taken, rebuilt)
    cursor = cursor_of(view.transactions, lake.app, name, job.source)
    exported = pin(lake, later, job.source)
    taken_by_sql = replace(cursor, former=exported.now.former)
    made = PinnedSource(lake, later, table, view)
    if "_kafka" not in made.schema.names:
        raise ConfigError(f"the rows of [derive.{name}] have no `_kafka`, so no order", "select `_kafka` there, too")
    return ByOffset(
        _OfSql(lake, later, exported.table, exported.view, made, taken_by_sql), view, rebuilt
    )


def own_columns(frame: DataFrame, view: TableView) -> tuple[str, ...]:
    """The columns of a table that are none of the exporter's own."""
    of_time = {column.name for column in table_spec(view).time_columns}
    return tuple(name for name in frame.columns if not name.startswith("_") and name not in of_time)


def require_same_run(progress: SendProgress, rebuilt: int, job: str) -> None:
    """Raises InvariantBroken if a job's table was begun anew since rows of it were sent."""
    if progress.rows and rebuilt != progress.rebuilt:
        what = f"derive {job}: its source was made anew by a rebuild, after {progress.rows} rows of it had been sent"
        raise InvariantBroken(Invariant.ONCE, what, ANEW)
