"""The hidden rows of deleted keys go when they are old (protocol 9.5)."""

from __future__ import annotations

from exporter.derive.mirror_merge import PURGED, Statements
from exporter.derive.mirror_rows import DELETED
from exporter.derive.target import Target
from exporter.lake.later import Later

LOOK_SECS = 3600.0
"""A look reads two columns of the whole table."""
DAY_US = 86_400_000_000


class Purge:
    """Of one mirror. What is old is told by the records' timestamps, for a backfill goes through years in an hour: a
    deleted key goes when the mirror has rows that are so much younger, and the clock says so too."""

    def __init__(self, target: Target, later: Later, statements: Statements, days: int) -> None:
        self._target = target
        self._later = later
        self._statements = statements
        self._days = days
        self._looked: float | None = None

    def due(self, now: float) -> int:
        """Look, if that was not done for an hour; how many rows went, in a commit of their own. now: monotonic."""
        if self._looked is not None and now - self._looked < LOOK_SECS:
            return 0
        self._looked = now
        view, name = self._target.view(), self._target.table.sql_name
        stamp = "unix_micros(_kafka.timestamp)"
        before, oldest = self._later.session.sql(
            f"SELECT least(max({stamp}), unix_micros(current_timestamp())) - {self._days * DAY_US}, "
            f"min({stamp}) FILTER (WHERE {DELETED}) FROM {name}"
        ).collect()[0]
        if view is None or before is None or oldest is None or oldest >= before:
            return 0
        sql = f"DELETE FROM {name} WHERE {DELETED} AND _kafka.timestamp < timestamp_micros({int(before)})"
        return max(0, self._statements.commit(view, sql, {PURGED: True})[1])
