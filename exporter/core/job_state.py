"""How a job of [derive] fares in this process, run by run. Pure; the clock is the caller's.

    waiting ── its source is there ──> well <── a run that goes ── failing ── for give_up_secs ──> ended
                                        └──────── what no second try mends: fenced, broken, wrong ───┘

All times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exporter.core.backoff import Backoff

PAUSE = Backoff(1.0, 30.0)
"""From a run that failed to the next one."""


@dataclass(frozen=True)
class JobState:
    """runs: that made a version, with so many rows; failures: all that there were. version: of its table, if known.

    taken_at: when the last run began that left nothing to be taken. error: why the last run failed, or why the job
    waits; empty if it did neither. since: of the first of the failures in a row. ended: for good, in this process.
    left_out: why -> how many rows that its runs took are in no table.
    """

    name: str
    kind: str
    runs: int = 0
    rows: int = 0
    failures: int = 0
    version: int | None = None
    taken_at: float | None = None
    error: str = ""
    in_a_row: int = 0
    since: float = 0.0
    next_at: float = float("-inf")
    waits: bool = False
    ended: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    def due(self, now: float) -> bool:
        """Whether it may be run now."""
        return not self.ended and now >= self.next_at

    def ran(
        self, version: int | None, rows: int, more: bool, began: float, left_out: Mapping[str, int] | None = None
    ) -> JobState:
        """After a run that went. version: None if there was nothing to do. more: whether there is more to be done."""
        left = {why: self.left_out.get(why, 0) + count for why, count in (left_out or {}).items()}
        return replace(
            self,
            runs=self.runs + (version is not None),
            rows=self.rows + rows,
            left_out={**self.left_out, **left},
            version=self.version if version is None else version,
            taken_at=self.taken_at if more else began,
            error="",
            in_a_row=0,
            next_at=float("-inf"),
            waits=False,
        )

    def failed(self, error: str, now: float) -> JobState:
        """After a run that failed, and may go the next time."""
        return replace(
            self,
            failures=self.failures + 1,
            error=error,
            in_a_row=self.in_a_row + 1,
            since=self.since if self.in_a_row else now,
            next_at=now + PAUSE.after(self.in_a_row),
            waits=False,
        )

    def waiting(self, why: str) -> JobState:
        """Its source is not there yet, which is no failure."""
        return replace(self, error=why, in_a_row=0, next_at=float("-inf"), waits=True)

    def ends(self, error: str) -> JobState:
        """After a failure that no second try mends."""
        return replace(self, failures=self.failures + 1, error=error, waits=False, ended=True)

    def fails_for(self, now: float) -> float:
        """Seconds since the first failure in a row; 0 if the last run went."""
        return now - self.since if self.in_a_row else 0.0

    def behind_secs(self, now: float, started: float) -> float:
        """Seconds since all was taken that there was; since the process began if that never was."""
        return now - (started if self.taken_at is None else self.taken_at)
