"""An exported table as a source: pinned at a version, and its rows since a cursor (protocol 9.1, 9.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.places import PLACED, count_of_none, may_be_within, may_have_others, rows_within, within
from exporter.derive.replays import brought, coordinates_of, replays_since
from exporter.errors import ConfigError, InvariantBroken, LogCleaned
from exporter.lake.accidents import AppHistory
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.rows import Add, arrow_rows, rows_of
from exporter.lake.table import DeltaTable
from exporter.stores.many import each
from offsets import Invariant
from offsets.cursors import NOTHING, Cursor, Slice, replayed, setbacks, slices, whole
from offsets.table_log import APP_PROPERTY, TableView

REBUILD = "`exporter derive run {job} --rebuild` begins the job anew, from what the source holds now"


class NoSource(ConfigError):
    """A source's table is not there, or not yet."""


@dataclass(frozen=True)
class PinnedSource:
    """A source at one version. later: the job's own session."""

    lake: Lake
    later: Later
    table: DeltaTable
    view: TableView

    @property
    def session(self) -> Any:
        """The job's own."""
        return self.later.session

    @property
    def name(self) -> str:
        """The event type."""
        return self.table.event_type

    @cached_property
    def now(self) -> Cursor:
        """All that it holds."""
        return whole(self.view, self.lake.app)

    @cached_property
    def schema(self) -> StructType:
        """Of its rows at that version."""
        return StructType.fromJson(json.loads(self.view.schema_json))

    def frame(self) -> DataFrame:
        """All rows of the source at the pinned version."""
        return rows_of(self.session, self.table, self.view.version)

    def rows(self, since: Cursor = NOTHING, until: Cursor | None = None) -> DataFrame:
        """Those that are new, through `until` (a window()), with those that replays have put below `since`.

        Delta reads only files whose statistics allow for an offset that is new. Raises InvariantBroken if it cannot be
        told any more which rows a replay has put there, or rows are missing.
        """
        self.require_whole()
        frame = self.frame()
        new = frame.where(within(slices(since, until or self.now)))
        replays = replays_since(self.table, since, self.now)
        if not replays:
            return new
        spans = [span for one in replays for span in one.spans]
        below = frame.where(within(spans)).where(~within(slices(since, self.now)))
        return new.unionByName(brought(below, coordinates_of(self.table, self.session, replays)))

    def own(self) -> DataFrame:
        """All rows that are the source's: of the app's topic partitions, at or below its positions (protocol 9.1)."""
        return self.frame().where(within(slices(NOTHING, self.now)))

    def of_others(self) -> int:
        """How many rows are of no topic partition in which the app has a position; files are skipped by statistics."""
        known = self.now.positions
        return sum(count_of_none(rows, known) for rows in self.placed(lambda add: may_have_others(add, known)))

    def has_rows(self, found: Sequence[Slice]) -> bool:
        """Whether any row is of these offsets."""
        return any(len(rows_within(rows, found)) for rows in self.placed(lambda add: may_be_within(add, found)))

    def placed(self, may: Callable[[Add], bool]) -> Iterator[Any]:
        """The rows of the files that may be wanted, PLACED, as arrow_rows() has them."""
        return arrow_rows(self.lake, self.name, self.view, PLACED, may)

    def has_new(self, since: Cursor) -> bool:
        """Whether anything can be new: offsets, or a replay below them."""
        return bool(slices(since, self.now) or replayed(since, self.now))

    def has_columns_of(self, version: int) -> bool:
        """Whether its columns are those of an earlier version, of which the log still tells."""
        if version < 0 or version == self.view.version:
            return version >= 0
        try:
            return self.table.view_at(version).schema_json == self.view.schema_json
        except LogCleaned:
            return False

    def require_whole(self) -> None:
        """Raises InvariantBroken while rows are missing that a position stands for, until the export is repaired."""
        if self._history.accidents:
            raise self._history.broken()

    @cached_property
    def _history(self) -> AppHistory:
        return AppHistory(self.table, self.lake.app, self.view)

    def require_kept(self, since: Cursor, job: str) -> None:
        """Raises InvariantBroken if rows at or below the cursor were taken back since, or may have been."""
        if self.view.version != since.version:  # else that was looked at when the cursor came there
            self.require_whole()
        if since.table_id and since.table_id != self.view.table_id:
            self._broken(job, f"table {self.name} is another one by now: it was made anew")
        for one in setbacks(since, self.view, self.lake.app):
            took = f"offsets {one.through + 1}..{one.taken} of {one.tp}"
            self._broken(job, f"table {self.name} took back {took}, which were taken from it: it was rewound")

    def _broken(self, job: str, what: str) -> NoReturn:
        raise InvariantBroken(Invariant.ONCE, f"derive {job}: {what}", REBUILD.format(job=job))


def pin(lake: Lake, later: Later, event_type: str, version: int | None = None) -> PinnedSource:
    """A source now, or as it was at a version. Raises NoSource, ConfigError, LogCleaned, TableUnreadable."""
    table = lake.table(event_type)
    view = table.view() if version is None else table.view_at(version)
    if view is None:
        what = f"there is no table of the event type {event_type!r} yet"
        raise NoSource(what, "export it first; `exporter status` shows the tables")
    if event_type == DEAD_LETTERS:
        what = "the dead letters are no source: rows come there out of the order of their offsets, and leave it again"
        raise ConfigError(what, "`exporter dead-letters replay` makes rows of their types' tables of them")
    if view.properties.get(APP_PROPERTY) != lake.app:
        raise ConfigError(f"table {event_type} is not of the app {lake.app}", "check the settings app and table_root")
    return PinnedSource(lake, later, table, view)


def readable(source: PinnedSource, version: int) -> PinnedSource:
    """The source as it was at a version, if all of its rows can still be read; else as it is, of which the rows through
    a cursor are the same but for what users have done to them since."""
    if version < 0 or version == source.view.version:
        return source
    try:
        then = pin(source.lake, source.later, source.name, version)
    except LogCleaned:
        return source
    return then if is_there(then) else source


def is_there(source: PinnedSource) -> bool:
    """Whether the files of a version are: VACUUM may have taken those that are not live any more."""
    now = source.table.view()
    if now is None or now.version == source.view.version:
        return True
    by = ("path", "deletionVector")
    then, live = (DataFrame(source.table.adds_at(one), source.session) for one in (source.view.version, now.version))
    same = [then[name].eqNullSafe(live[name]) for name in by]
    gone = then.join(live, same, "left_anti").selectExpr("path", "deletionVector.storageType AS kept").collect()
    if any(row["kept"] not in (None, "i") for row in gone):
        return False  # it has a file of deletion vectors, of which only Delta knows the name
    return all(size is not None for size in each(lambda row: source.table.store.size(unquote(row["path"])), gone))


def others_told(source: PinnedSource) -> dict[str, int]:
    """For a status: rows in a source's table that no job takes, if there are any."""
    count = source.of_others()
    return {f"rows of others in {source.name}": count} if count else {}
