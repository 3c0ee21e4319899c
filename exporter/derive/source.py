"""An exported table as a source: pinned at a version, and its rows since a cursor (protocol 9.1, 9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.errors import ConfigError, InvariantBroken
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from offsets import Invariant
from offsets.cursors import NOTHING, Cursor, Slice, replayed, setbacks, slices, whole
from offsets.table_log import APP_PROPERTY, TableView

REBUILD = "`exporter derive run {job} --rebuild` begins the job anew, from what the source holds now"


class NoSource(ConfigError):
    """A source's table is not there, or not yet."""


@dataclass(frozen=True)
class Pinned:
    """A source at one version. session: the job's own."""

    lake: Lake
    session: Any
    table: DeltaTable
    view: TableView

    @property
    def name(self) -> str:
        """The event type."""
        return self.table.event_type

    @cached_property
    def now(self) -> Cursor:
        """All that it holds."""
        return whole(self.view, self.lake.app)

    def frame(self) -> DataFrame:
        """All rows."""
        reader = self.session.read.format("delta").option("versionAsOf", self.view.version)
        rows: DataFrame = reader.load(self.table.uri)
        return rows

    def rows(self, since: Cursor = NOTHING) -> DataFrame:
        """Those of the offsets after `since`; Delta reads only files whose statistics allow for one."""
        return self.frame().where(within(slices(since, self.now)))

    def has_new(self, since: Cursor) -> bool:
        """Whether anything can be new: offsets, or a replay below them."""
        return bool(slices(since, self.now) or replayed(since, self.now))

    def require_kept(self, since: Cursor, job: str) -> None:
        """Raises InvariantBroken if rows at or below the cursor were taken back since, or may have been."""
        if since.table_id and since.table_id != self.view.table_id:
            self._broken(job, f"table {self.name} is another one by now: it was made anew")
        back = setbacks(since, self.view, self.lake.app)
        if back:
            one = back[0]
            what = "its topic was created again" if one.rebased else f"offsets {one.through + 1}..{one.taken}"
            self._broken(job, f"table {self.name} took rows of {one.tp} back that were taken: {what}")

    def _broken(self, job: str, what: str) -> None:
        raise InvariantBroken(Invariant.ONCE, f"derive {job}: {what}", REBUILD.format(job=job))


def pin(lake: Lake, session: Any, event_type: str, version: int | None = None) -> Pinned:
    """A source now, or as it was at a version. Raises NoSource, ConfigError, LogCleaned, TableUnreadable."""
    table = lake.table(event_type)
    view = table.view() if version is None else table.view_at(version)
    if view is None:
        what = f"there is no table of the event type {event_type!r} yet"
        raise NoSource(what, "export it first; `exporter status` shows the tables")
    if view.properties.get(APP_PROPERTY) != lake.app:
        raise ConfigError(f"table {event_type} is not of the app {lake.app}", "check the settings app and table_root")
    return Pinned(lake, session, table, view)


def within(found: Sequence[Slice]) -> Column:
    """Whether a row is of one of these offsets; the bounds of all of them first, for skipping files by them."""
    if not found:
        return sf.lit(False)
    offset = sf.col("_kafka.offset")
    least, most = min(one.after for one in found), max(one.through for one in found)
    each = reduce(lambda a, b: a | b, map(_of, found))
    return (offset > least) & (offset <= most) & each


def _of(one: Slice) -> Column:
    offset = sf.col("_kafka.offset")
    here = (sf.col("_kafka.topic") == one.tp.topic) & (sf.col("_kafka.partition") == one.tp.partition)
    return here & (offset > one.after) & (offset <= one.through)
