"""The last hour of a task in a few figures, for the charts of its page; in memory alone. Pure.

Belongs to the health server's thread; `points` is replaced as a whole, so that whoever asks reads it as it is.
"""

from __future__ import annotations

from exporter.display.live import Point
from exporter.monitor.snapshot import Snapshot

EVERY_SECS = 10.0
POINTS_MAX = 360
"""One hour."""


class PointHistory:
    """The points of the last hour, the oldest first."""

    def __init__(self) -> None:
        self.points: tuple[Point, ...] = ()

    def note(self, snapshot: Snapshot | None) -> None:
        """Take one point of a moment; a moment that was noted already, as of a loop that hangs, is not."""
        if snapshot is None or (self.points and self.points[-1].at_ms >= snapshot.wall_ms):
            return
        self.points = (*self.points[1 - POINTS_MAX :], point(snapshot))


def point(snapshot: Snapshot) -> Point:
    """lag: over the partitions; None as long as it is not known of one."""
    lags = [one.lag for one in snapshot.partitions]
    behind = None if None in lags else sum(lag for lag in lags if lag is not None)
    totals = snapshot.totals
    return Point(snapshot.wall_ms, behind, totals.records, sum(totals.committed.values()), totals.dead_letters)
