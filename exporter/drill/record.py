"""What came of a drill's runs, as values: to JSON and back, and summed up. Pure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FORMAT = 1
PARTS = ("process", "jvm", "spark", "join", "positions", "round", "commit")
"""What the time from a kill to the first commit consists of, in order.

process: until the JVM of the new task is started (Python, its imports, Spark's launcher). jvm: until Spark begins in
it. spark: until Spark is there. join: until the group has given it partitions. positions: until they are read from the
tables. round: until the first records are staged. commit: until the first commit is in a table's log.
"""


@dataclass
class Strike:
    """One fault that ended or cut off a task. at: seconds since the run's start.

    recovered_secs: until the first commit of another task, None if that was struck before. parts: of them, by PARTS.
    """

    at: float
    what: str
    task: str
    recovered_secs: float | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Moment:
    """One moment of the timeline. kind: start, end, owns, gives, commit, refused or strike."""

    at: float
    task: str
    kind: str
    text: str = ""


@dataclass
class RunRecord:
    """One run on a lake of its own. failure: empty if all was as it must be. schedule: what was drawn for it.

    records: in the topic at the end. reread: read and staged more than once. orphans: data files at the end that no
    commit names. refused: commits that another task's kept from landing. figures: what else its scenario has measured.
    """

    scenario: str
    run: int
    seed: int
    failure: str = ""
    secs: float = 0.0
    records: int = 0
    reread: int = 0
    orphans: int = 0
    refused: int = 0
    commits: int = 0
    lives: int = 0
    checks: int = 0
    audits: int = 0
    schedule: list[str] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    marks: list[Moment] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.failure

    @property
    def reason(self) -> str:
        """The failure without the last words of the task."""
        return self.failure.partition("\n")[0]

    @property
    def key(self) -> tuple[str, int]:
        return self.scenario, self.run


@dataclass
class Book:
    """All runs of a seed. failed_before: runs that were not clean and were done again later."""

    seed: int
    environment: dict[str, str] = field(default_factory=dict)
    runs: list[RunRecord] = field(default_factory=list)
    failed_before: list[RunRecord] = field(default_factory=list)

    def done(self) -> set[tuple[str, int]]:
        """The runs that need not be done again."""
        return {record.key for record in self.runs if record.ok}

    def add(self, record: RunRecord) -> None:
        """In place of an earlier one of the same run."""
        self.failed_before += [old for old in self.runs if old.key == record.key and not old.ok]
        self.runs = [*(old for old in self.runs if old.key != record.key), record]

    def to_json(self) -> str:
        """The whole book, its summary first."""
        parts = {"format": FORMAT, "seed": self.seed, "environment": self.environment, "summary": summary(self.runs)}
        runs = {"runs": [asdict(one) for one in self.runs]}
        return json.dumps({**parts, **runs, "failed_before": [asdict(one) for one in self.failed_before]}, indent=1)


def read_book(text: str) -> Book:
    """What to_json wrote. Raises ValueError for another format."""
    given: dict[str, Any] = json.loads(text)
    if given.get("format") != FORMAT:
        raise ValueError(f"format {given.get('format')!r} instead of {FORMAT}")
    runs, before = (list(map(_record, given[name])) for name in ("runs", "failed_before"))
    return Book(given["seed"], given["environment"], runs, before)


def _record(given: Mapping[str, Any]) -> RunRecord:
    nested = {
        "strikes": [Strike(**one) for one in given["strikes"]],
        "marks": [Moment(**one) for one in given["marks"]],
    }
    return RunRecord(**{**given, **nested})


def recoveries(runs: Iterable[RunRecord], kills_only: bool = False) -> list[Strike]:
    """The strikes after which a new task got to a commit; kills_only: of kill -9 alone."""
    struck = [strike for record in runs for strike in record.strikes if strike.recovered_secs is not None]
    return [strike for strike in struck if not kills_only or strike.what.startswith("kill -9")]


def summary(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """Totals; times in seconds, medians over all kill -9 that were recovered from."""
    found = recoveries(runs, kills_only=True)
    secs = [strike.recovered_secs for strike in found if strike.recovered_secs is not None]
    whole = [strike.parts for strike in found if strike.parts.keys() == set(PARTS)]
    return {
        "runs": len(runs),
        "clean": sum(record.ok for record in runs),
        "failed": [f"{one.scenario} {one.run}: {one.reason}" for one in runs if not one.ok],
        "strikes": sum(len(record.strikes) for record in runs),
        "kills": sum(strike.what.startswith("kill -9") for record in runs for strike in record.strikes),
        "recovered": len(secs),
        "recovery_secs": spread(secs),
        "recovery_parts_median_secs": {
            part: round(statistics.median(parts[part] for parts in whole), 2) for part in PARTS if whole
        },
        **{
            name: sum(getattr(record, name) for record in runs)
            for name in ("records", "reread", "orphans", "refused", "commits", "lives", "checks", "audits")
        },
        "minutes": round(sum(record.secs for record in runs) / 60, 1),
        **{one.scenario: one.figures for one in runs if one.figures},
    }


def spread(secs: Sequence[float]) -> dict[str, float]:
    """Least, median, nine tenths and most; empty for nothing."""
    if not secs:
        return {}
    ordered = sorted(secs)
    nine_tenths = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    at = {"min": ordered[0], "median": statistics.median(ordered), "p90": nine_tenths, "max": ordered[-1]}
    return {name: round(value, 2) for name, value in at.items()}
