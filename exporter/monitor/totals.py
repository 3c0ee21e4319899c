"""What one process has done so far: sums that only grow, kept by the loop's thread. No effects."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from exporter.core.manifest import COPIES, FILTERED, MICROS, STEPS, TOMBSTONES

SECS_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
RECORDS_BOUNDS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7)
FAILED = ("refused", "unknown")
"""Outcomes of commits that were offered and did not land."""


@dataclass
class Spread:
    """How often a quantity was at most each bound; the last count is of what lies beyond all bounds."""

    bounds: tuple[float, ...] = SECS_BOUNDS
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, quantity: float) -> None:
        self.counts[bisect_left(self.bounds, quantity)] += 1
        self.sum += quantity

    def copy(self) -> Spread:
        """A copy that later counts do not change."""
        return Spread(self.bounds, [*self.counts], self.sum)


@dataclass
class Totals:
    """committed: rows by event type. filtered: records that its filter leaves out, of which a commit has told; those
    of the dead letters are of no table (protocol 3.9). outcomes: commits by (event type, outcome), one of several
    partitions once per outcome. lookups: of schema ids, by outcome. stages: seconds by stage. counts: what the tasks of
    the rounds counted, summed.
    """

    records: int = 0
    bytes: int = 0
    rounds: int = 0
    rounds_failed: int = 0
    staged_rows: int = 0
    committed: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    refused: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    rebalances: Counter[str] = field(default_factory=Counter)
    lookups: Counter[str] = field(default_factory=Counter)
    stages: dict[str, Spread] = field(default_factory=dict)
    round_records: Spread = field(default_factory=lambda: Spread(RECORDS_BOUNDS))

    @property
    def skipped(self) -> int:
        """Records that were read and not staged: their tables had them, or they are poison. Without those that are
        in no table by a named filter; one that several tables have is one."""
        filtered = sum(count for name, count in self.counts.items() if name.startswith(FILTERED))
        found = self.staged_rows + self.counts[TOMBSTONES] + filtered - self.counts[COPIES]
        return max(0, self.records - found)

    @property
    def dead_letters(self) -> int:
        """Records that were staged as such."""
        return self.counts["dead_letters"]

    @property
    def failed_share(self) -> float | None:
        """Of the commits that were offered, those that did not land; None before the first one."""
        failed = sum(count for (_, outcome), count in self.outcomes.items() if outcome in FAILED)
        landed = sum(count for (_, outcome), count in self.outcomes.items() if outcome == "landed")
        return failed / (failed + landed) if failed + landed else None

    def took(self, stage: str, secs: float) -> None:
        """Add one turn of a stage: read, commit or recover."""
        self.stages.setdefault(stage, Spread()).add(secs)

    def steps(self) -> dict[str, float]:
        """Seconds that the tasks of the rounds were at each of their steps, over all tasks."""
        return {step: self.counts[MICROS + step] / 1e6 for step in STEPS if MICROS + step in self.counts}

    def secs(self) -> dict[str, float]:
        """Where the time went: seconds by stage of the loop, and below `read` by step of its tasks."""
        stages = {stage: round(spread.sum, 2) for stage, spread in sorted(self.stages.items())}
        return stages | {f"read.{step}": round(secs, 2) for step, secs in self.steps().items()}

    def copy(self) -> Totals:
        """As they are now. By hand, for each iteration of the loop asks for it, and copy.deepcopy is slow."""
        found = object.__new__(Totals)
        for name, value in vars(self).items():
            if isinstance(value, Counter):
                kept = Counter[Any]()
                dict.update(kept, value)  # Counter.copy counts them all over again
                value = kept
            elif isinstance(value, Spread):
                value = value.copy()
            setattr(found, name, value)
        found.stages = {stage: spread.copy() for stage, spread in self.stages.items()}
        return found
