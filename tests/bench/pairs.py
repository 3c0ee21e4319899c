"""Part structured: the exporter and the Structured Streaming job (structured.py) on the same topic, in turn.

Budget 25 min: per number of types the job at three triggers, then three pairs at the best one of them; a run is 10 s
of start, for the job with 50 types 25 s, and 10 to 100 s of work. A trial is over once it has taken longer than the
best one before it, or would at the pace of its last batch. What is likely to be best is tried last: if it is, that run
is the job's side of the first pair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tests.bench.desk import CORES, Desk, Filled, Run, checked
from tests.bench.figures import Outcome, Row, Target, ratios, rounded
from tests.bench.load import Load

PAIRS = 3
JOB_HEAP = "3g"
"""Of the job's JVM: as much as all processes of the exporter take together. With 1g the larger batches end it."""
JAVA_DEFAULTS = (
    "-XX:Tier4InvocationThreshold=5000 -XX:Tier4MinInvocationThreshold=600 -XX:Tier4CompileThreshold=15000 "
    "-XX:NewRatio=2 -XX:-UseTransparentHugePages"
)
"""The exporter's JVM compiles later than Java would by itself, keeps half its heap for what passes and asks for huge
pages (spark/session.py), which suits work that is done in Python. A job whose work and cache are the JVM's gets Java's
own values."""
RECORDS = 1_000_000
"""Of each topic. The more types, the more a large batch helps the job: smaller topics keep its best size from it."""
TRIGGERS = (0.5, 0.25, 1.0)
"""Sizes that are tried, in this order, as shares of the records."""
TIMES = {10: 5.0, 50: 10.0, 1: 2.0}
"""Number of types -> what the exporter has to reach, as a multiple of the job's records/s."""


def run(desk: Desk) -> Outcome:
    """All cases."""
    outcome, rows, trials = Outcome(), [], []
    for types, times in TIMES.items():
        with desk.broker():
            topic = desk.topic(Load(types=types), desk.count(RECORDS, least=4_000))
            tried = tried_at(desk, topic)
            best = max(tried, key=lambda size: tried[size].speed)
            ours, theirs = _pairs(desk, topic, best, tried[best] if best == [*tried][-1] else None)
        trials += [{"types": types, "records per trigger": size, **row(one)} for size, one in tried.items()]
        each, middle = ratios([one.speed for one in ours], [one.speed for one in theirs])
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            for who, one in zip(("exporter", "structured"), pair, strict=True):
                about: Row = {"types": types, "pair": number + 1, "who": who}
                rows.append({**about, **row(one), "ratio": rounded(each[number])})
        name = f"{types} type{'s' * (types > 1)}"
        outcome.bars[f"{name}: records/s, medians"] = {
            "exporter": median(one.speed for one in ours),
            "structured streaming": median(one.speed for one in theirs),
        }
        outcome.targets.append(
            Target(f"{name}: records/s, times the Structured Streaming job", middle, times, "x", at_least=True)
        )
    outcome.tables = {"Pairs, one after the other on the same topic": rows, "The job at three trigger sizes": trials}
    outcome.notes.append(
        "The exporter's time is that from its known positions to its last commit, the job's that from its query's "
        "start to its end; both have their session and their tables by then. One record in 5,000 is bad; the exporter "
        "makes dead letters of these, the job does not look. A trial without rows was stopped when it had taken longer "
        "than a whole one, or would have at the pace of its last batch. The last trial, if it is the best, is the "
        "job's side of the first pair."
    )
    return outcome


@dataclass(frozen=True)
class Timed:
    """One run of either. core_secs: within its time."""

    rows: int
    secs: float
    core_secs: float

    @property
    def speed(self) -> float:
        return self.rows / self.secs


def tried_at(desk: Desk, topic: Filled) -> dict[int, Timed]:
    """The job at each trigger, in this order; without rows if it was stopped as slower than a whole one before."""
    tried: dict[int, Timed] = {}
    for size in dict.fromkeys(max(1_000, int(share * topic.tally.records)) for share in TRIGGERS):
        whole = [one.secs for one in tried.values() if one.rows]
        tried[size] = _structured(desk, topic, size, min(whole, default=None))
    return tried


def _pairs(desk: Desk, topic: Filled, trigger: int, just_run: Timed | None) -> tuple[list[Timed], list[Timed]]:
    """Ours and the job's, each pair one right after the other, the job first in every other one, the first included.

    just_run: the job on this topic at this trigger, if that has just been run.
    """
    ours, theirs = [], []
    for number in range(PAIRS):
        if not number % 2:
            theirs.append(just_run if just_run and not number else _structured(desk, topic, trigger))
        ours.append(exported(desk, topic))
        if number % 2:
            theirs.append(_structured(desk, topic, trigger))
    return ours, theirs


def exported(desk: Desk, topic: Filled, config: Path | None = None) -> Timed:
    """One export of the whole topic. config: its settings file; None: default settings, into a new lake."""
    return timed_export(checked(desk.export(config or desk.config(topic, desk.lake())), topic))


def timed_export(done: Run) -> Timed:
    """From the known positions to the last commit."""
    return Timed(done.rows, done.secs, sum(done.usage.between(*done.window).values()))


def in_turn(rounds: int, ways: Mapping[str, Callable[[], Timed]]) -> dict[str, list[Timed]]:
    """Each way once in each round, the last one first in every other round."""
    done: dict[str, list[Timed]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in [*ways] if number % 2 else [*ways][::-1]:
            done[name].append(ways[name]())
    return done


def compared(outcome: Outcome, caption: str, done: Mapping[str, Sequence[Timed]]) -> dict[str, list[float]]:
    """Show the runs of some ways round by round, and their medians. The records/s of each."""
    rounds = range(max(map(len, done.values())))
    outcome.tables[caption] = [
        {"round": number + 1, "way": name, **row(runs[number])} for number in rounds for name, runs in done.items()
    ]
    speeds = {name: [one.speed for one in runs] for name, runs in done.items()}
    outcome.bars[f"{caption}: records/s, medians"] = {name: median(each) for name, each in speeds.items()}
    return speeds


def timed(done: Run) -> Timed:
    """A process that tells when its time began and ended, and how many rows it wrote."""
    (told,) = done.of("done")
    return Timed(
        told["rows"],
        told["until"] - told["since"],
        sum(done.usage.between(told["since"], told["until"]).values()),
    )


def _structured(desk: Desk, topic: Filled, trigger: int, secs_max: float | None = None) -> Timed:
    """The job on the whole topic; stopped, and without rows, once it takes longer than secs_max, or is going to."""
    words = ["--bootstrap", topic.bootstrap, "--topic", topic.name, "--lake", str(desk.lake())]
    words += ["--types", json.dumps(topic.load.declared()), "--trigger", str(trigger)]
    words += ["--master", f"local[{CORES}]", "--heap", JOB_HEAP]
    words += ["--secs-max", str(secs_max), "--records", str(topic.tally.records)] if secs_max else []
    done = desk.module("tests.bench.structured", words, {"_JAVA_OPTIONS": JAVA_DEFAULTS})
    found = timed(done)
    if done.of("done")[0]["given_up"]:
        return replace(found, rows=0)
    good = topic.tally.records - topic.tally.rows[""]
    if not 0.99 * good <= found.rows <= topic.tally.records:
        raise RuntimeError(f"the job wrote {found.rows:,} rows of {good:,}")
    return found


def row(one: Timed) -> Row:
    """As a table shows it."""
    return {
        "rows": one.rows,
        "secs": rounded(one.secs),
        "records/s": round(one.speed),
        "core-s/M": rounded(one.core_secs / one.rows * 1e6) if one.rows else None,
    }
