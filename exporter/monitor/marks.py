"""Through which time a partition is exported, as far as offsets tell. Pure.

A mark (offset, time) says: what lies at or below the offset was there by then, and what comes later was not. Two
things make marks: the end of the log, looked at by our clock, and a round, by the Kafka time of what it read last.
A quiet partition whose end is looked at again moves on with the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

MARKS_MAX = 600
"""Marks of one partition; beyond that the older half is thinned out, which only makes answers more careful."""


@dataclass(frozen=True)
class Marks:
    """Offsets and their times (ms since 1970), both strictly ascending."""

    offsets: tuple[int, ...] = ()
    times_ms: tuple[int, ...] = ()

    def add(self, offset: int, time_ms: int) -> Marks:
        """These marks and one more; a mark that says less than those that are there changes nothing."""
        at = bisect_right(self.offsets, offset)
        if at and self.times_ms[at - 1] >= time_ms:
            return self
        before = at - 1 if at and self.offsets[at - 1] == offset else at
        after = bisect_right(self.times_ms, time_ms, lo=at)
        offsets = (*self.offsets[:before], offset, *self.offsets[after:])
        times = (*self.times_ms[:before], time_ms, *self.times_ms[after:])
        if len(offsets) <= MARKS_MAX:
            return Marks(offsets, times)
        half = MARKS_MAX // 2
        return Marks(offsets[:half:2] + offsets[half:], times[:half:2] + times[half:])

    def time_ms(self, offset: int) -> int | None:
        """The time through which everything is at or below the offset; None if that is not known."""
        at = bisect_right(self.offsets, offset)
        return self.times_ms[at - 1] if at else None

    def since(self, offset: int) -> Marks:
        """These marks without those that nothing at or beyond the offset needs."""
        at = max(0, bisect_right(self.offsets, offset) - 1)
        return Marks(self.offsets[at:], self.times_ms[at:])
