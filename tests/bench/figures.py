"""What a part of the benchmark finds: its tables, its plots, its targets; and the arithmetic. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

Row = dict[str, str | int | float | None]

JVM_GROUPS = (
    ("jvm compilers", ("C1 Compiler", "C2 Compiler")),
    ("jvm tasks", ("Executor task", "stdout writer", "Writer thread")),
    ("jvm py4j", ("Thread-",)),
    ("jvm gc", ("VM Thread", "VM Periodic", "GC ", "G1 ")),
)
"""Group of the JVM's threads -> how their names begin, as Linux cuts them (15 characters). All else: jvm other."""


@dataclass(frozen=True)
class Target:
    """One figure that the project has promised. value: None if it was not measured."""

    name: str
    value: float | None
    limit: float
    unit: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """False as well for what was not measured."""
        if self.value is None or math.isnan(self.value):
            return False
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": f"{'at least' if self.at_least else 'at most'} {self.limit:g} {self.unit}".strip(),
            "value": None if self.value is None else rounded(self.value),
            "holds": self.holds,
        }


@dataclass
class Outcome:
    """What one part found. tables, bars, stacks: by caption; a stack has kinds upon each other per label."""

    targets: list[Target] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    bars: dict[str, dict[str, float]] = field(default_factory=dict)
    stacks: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "targets": [target.as_json() for target in self.targets]}


class Sample(NamedTuple):
    """CPU seconds used until `at` (seconds since 1970) by each group of threads."""

    at: float
    cpu: Mapping[str, float]


def rounded(number: float) -> float:
    """Three digits that say something."""
    if not number or not math.isfinite(number):
        return number
    return round(number, max(0, 2 - math.floor(math.log10(abs(number)))))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` (0..1) of the values do not exceed (nearest rank). Raises ValueError if empty."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[list[float], float]:
    """Of pairs that were measured one after the other: the ratio of each, and their median."""
    found = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return found, median(found)


def secs_left(batches: Sequence[Mapping[str, Any]], records: int) -> float:
    """What the rest of so many records takes a streaming query at the pace of its last batch; 0 if that says nothing.

    batches: its progress. The first one is no measure: it warms up.
    """
    if len(batches) < 2 or not batches[-1]["numInputRows"]:
        return 0.0
    left = max(0, records - sum(batch["numInputRows"] for batch in batches))
    return float(left * batches[-1]["batchDuration"] / 1000 / batches[-1]["numInputRows"])


def group_of(thread: str) -> str:
    """The group of a thread of the JVM, by its name."""
    return next((group for group, heads in JVM_GROUPS if thread.startswith(heads)), "jvm other")


def cpu_at(samples: Sequence[Sample], at: float) -> dict[str, float]:
    """CPU seconds by group at a time, between two samples by the straight line between them."""
    before = Sample(samples[0].at, {}) if samples else Sample(at, {})
    for sample in samples:
        if sample.at >= at:
            part = (at - before.at) / (sample.at - before.at) if sample.at > before.at else 1.0
            part = max(0.0, part)
            return {
                group: before.cpu.get(group, 0.0) + part * (secs - before.cpu.get(group, 0.0))
                for group, secs in sample.cpu.items()
            }
        before = sample
    return dict(before.cpu)


def cpu_between(samples: Sequence[Sample], since: float, until: float) -> dict[str, float]:
    """CPU seconds by group within a time."""
    start, end = cpu_at(samples, since), cpu_at(samples, until)
    return {group: secs - start.get(group, 0.0) for group, secs in end.items()}
