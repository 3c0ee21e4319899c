"""Part commits: what a commit costs, how long so many tables take to be rolled, and a first start with new tables.

Budget 5 min: per number of types one first start that makes the tables, then a service that gets bursts of one record
per type and partition, each awaited, and then records of one type only, upon which all others move by heartbeats.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.desk import Desk, Filled, Run, Task
from tests.bench.figures import Outcome, Row, Target, percentile, rounded
from tests.bench.load import Load, Record, Sender, one_of_each

HEARTBEAT_SECS = 4
"""Of the service, so that they need not be awaited for a minute."""
BEATS = 3


@dataclass(frozen=True)
class Case:
    """bursts: how many are counted; one more comes before, for the JVM to warm up."""

    types: int
    bursts: int


CASES = (Case(1, 9), Case(10, 6), Case(50, 6), Case(200, 4))
COMMIT_SECS_MAX, ROLL_SECS_MAX, FIRST_START_SECS_MAX = 0.15, 20.0, 25.0


def run(desk: Desk) -> Outcome:
    """All numbers of types."""
    outcome = Outcome()
    rows: list[Row] = []
    for case in CASES:
        with desk.broker():
            row = _one(desk, case)
        rows.append(row)
        for name, (types, column, limit) in _PROMISED.items():
            if types == case.types:
                outcome.targets.append(Target(name, float(row[column] or 0), limit, "s"))
    outcome.tables["2 partitions; seconds, and core-seconds of driver, JVM and workers"] = rows
    for column in ("commit, median", "core-s per commit", "core-s per heartbeat", "roll of all types"):
        outcome.bars[column] = {f"types: {row['types']}": float(row[column] or 0) for row in rows}
    outcome.notes.append(
        "Core-seconds per commit are all that the exporter used from a burst's first record to its last commit, the "
        "round that read it included, divided by the commits of that time. First start: from the start of the process "
        "until the first round is read, all tables made. That a commit runs no Spark job is for the tests to say."
    )
    return outcome


_PROMISED = {
    "a commit of one type, median": (1, "commit, median", COMMIT_SECS_MAX),
    "200 types are rolled": (200, "roll of all types", ROLL_SECS_MAX),
    "first start with 50 new tables": (50, "first start", FIRST_START_SECS_MAX),
}


def _one(desk: Desk, case: Case) -> Row:
    """One number of types."""
    load, lake = Load(types=case.types, size="small", bad_every=0), desk.lake()
    topic = desk.topic(load, 20 * case.types)
    first = desk.export(desk.config(topic, lake))
    config = desk.config(topic, lake, roll_age_max_secs=1, heartbeat_secs=HEARTBEAT_SECS, poll_secs=0.2)
    with desk.exporting(config) as task:
        bursts = [_burst(task, topic) for _ in range(1 + max(2, desk.count(case.bursts)))][1:]
        beats = [_beat(task, topic) for _ in range(BEATS)]
        time.sleep(1.0)  # for the last look at its CPU
        rows = _costs(task.so_far(), bursts), _costs(task.so_far(), beats)
        done = task.so_far()
    with_files = [line for span in bursts for line in _within(done, span) if line["files"]]
    secs = [float(line["secs"]) for line in with_files]
    markers = [float(line["secs"]) for span in beats for line in _within(done, span) if not line["files"]]
    return {
        "types": case.types,
        "commit, median": rounded(median(secs)),
        "commit, p90": rounded(percentile(secs, 0.9)),
        "commits": len(secs),
        "core-s per commit": rounded(rows[0]),
        "heartbeat, median": rounded(median(markers)),
        "heartbeats": len(markers),
        "core-s per heartbeat": rounded(rows[1]),
        "roll of all types": rounded(median(_roll_secs(_within(done, span)) for span in bursts)),
        "first start": rounded(first.at("round_read") - first.started),
        "first roll": rounded(first.at("commit_landed", last=True) - first.at("round_read", last=True)),
    }


Span = tuple[float, float]


def one_burst(task: Task, topic: Filled) -> list[float]:
    """Seconds of each commit with files of one burst."""
    span = _burst(task, topic)
    return [float(line["secs"]) for line in _within(task.so_far(), span) if line["files"]]


def _burst(task: Task, topic: Filled) -> Span:
    """One record per type and partition; from then until all are committed."""
    return _sent(task, topic, one_of_each(topic.load))


def _beat(task: Task, topic: Filled) -> Span:
    """A record of one type; until all other tables have moved their positions by heartbeats."""
    since, _ = _sent(task, topic, one_of_each(topic.load)[:1])
    tables = len(topic.load.declared())  # one type less, and the dead letters

    def moved(run: Run) -> bool:
        return len({line["table"] for line in _within(run, (since, time.time())) if not line["files"]}) >= tables

    task.until("heartbeats", moved)
    return since, time.time()


def _sent(task: Task, topic: Filled, records: Sequence[Record]) -> Span:
    """To each partition; until their rows are committed."""
    before, since = task.so_far().rows, time.time()
    sender = Sender(topic.bootstrap, topic.name, linger_ms=5)
    for record in records:
        for partition in range(topic.load.partitions):
            sender.send(record.key, record.value, partition)
    sender.flush()
    wanted = before + len(records) * topic.load.partitions
    task.until("the commits of a burst", lambda run: run.rows >= wanted)
    return since, time.time()


def _within(run: Run, span: Span) -> list[Mapping[str, Any]]:
    return [line for line in run.of("commit_landed") if span[0] <= line["at"] <= span[1]]


def _costs(run: Run, spans: Sequence[Span]) -> float:
    """Core-seconds per commit of any kind."""
    used = sum(sum(run.usage.between(*span).values()) for span in spans)
    return used / max(1, sum(len(_within(run, span)) for span in spans))


def _roll_secs(lines: Sequence[Mapping[str, Any]]) -> float:
    """From the begin of the first commit with files to the end of the last."""
    rolled = [line for line in lines if line["files"]]
    return float(max(line["at"] for line in rolled) - min(line["at"] - line["secs"] for line in rolled))
