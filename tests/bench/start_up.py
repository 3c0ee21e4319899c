"""Part start-up: seconds from the start of the process to the first round and to the first commit.

Budget 6 min: one table with 10, 1,000 and 20,000 commits behind it, then 1, 50 and 200 tables with 100 each. Each lake
is made by the exporter, made older by history.py, given a real last commit by the exporter, and then started thrice, or
once where nothing is promised.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from exporter.core.routing import DEAD_LETTERS
from offsets.ranges import TopicPartition
from tests.bench.desk import GROUP, Desk, Filled, Run
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.history import Place, extend
from tests.bench.load import Load

HISTORIES = (10, 1_000, 20_000)
TABLES = (1, 50, 200)
COMMITS_EACH = 94
"""With that of the making, of the last one and of those that are measured just under 100: the commit number 100 would
write a checkpoint, whose time is not that of a start."""
STARTS = 3
PROMISED_TABLES = 50
FRESH = 20
"""Records for each start to find."""
FIRST_ROUND_SECS_MAX, LONG_HISTORY_TIMES_MAX = 8.0, 1.3


def run(desk: Desk) -> Outcome:
    """Both series."""
    outcome, rows = Outcome(), []
    found = _histories(desk, [desk.count(commits, least=10) for commits in HISTORIES])
    rows += [_row(f"1 table, {commits:,} commits", runs) for commits, runs in found.items()]
    shortest, longest = (median(_first_rounds(found[end])) for end in (min(found), max(found)))
    times = longest / shortest if len(found) > 1 else None
    for tables in sorted({desk.count(tables) for tables in TABLES}):
        runs = _tables(desk, tables)
        rows.append(_row(f"{tables} tables, {COMMITS_EACH} commits each", runs))
        if tables == PROMISED_TABLES:
            first = median(_first_rounds(runs))
            outcome.targets.append(Target("50 types: process start to first round", first, FIRST_ROUND_SECS_MAX, "s"))
    outcome.targets.append(
        Target("first round with 20,000 commits of history, times that with 10", times, LONG_HISTORY_TIMES_MAX, "x")
    )
    outcome.tables["Seconds since the start of the process; medians of so many starts"] = rows
    outcome.bars["seconds to the first round"] = {str(row["case"]): float(row["first round"] or 0) for row in rows}
    outcome.bars["seconds to the first commit"] = {str(row["case"]): float(row["first commit"] or 0) for row in rows}
    return outcome


def _histories(desk: Desk, lengths: Sequence[int]) -> dict[int, list[Run]]:
    """Starts by length of the one table's history; in turn, as they are compared."""
    with desk.broker():
        topic, base = made(desk, 1)
        lakes = {commits: desk.lake() for commits in lengths}
        for lake in lakes.values():
            shutil.copytree(base, lake)
        desk.add(topic, max(lengths) + FRESH)
        for commits, lake in lakes.items():
            age(topic, lake, commits)
            if commits > COMMITS_EACH:
                desk.module("tests.bench.history", [str(lake), GROUP])
            desk.export(desk.config(topic, lake))
        runs: dict[int, list[Run]] = {commits: [] for commits in lakes}
        for number in range(STARTS):
            desk.add(topic, FRESH)
            for commits, lake in lakes.items():
                if not number or commits in (min(lakes), max(lakes)):
                    runs[commits].append(desk.export(desk.config(topic, lake)))
    return runs


def _tables(desk: Desk, tables: int) -> list[Run]:
    """Starts of one lake of so many tables."""
    with desk.broker():
        topic, lake = made(desk, tables)
        desk.add(topic, tables * COMMITS_EACH + FRESH)
        age(topic, lake, COMMITS_EACH)
        config = desk.config(topic, lake)
        desk.export(config)
        runs = []
        for _ in range(STARTS if tables == PROMISED_TABLES else 1):
            desk.add(topic, FRESH)
            runs.append(desk.export(config))
    return runs


def made(desk: Desk, tables: int) -> tuple[Filled, Path]:
    """An empty topic and tables that are anchored before its first record."""
    topic, lake = desk.topic(Load(types=tables, size="small", partitions=1, bad_every=0), 0), desk.lake()
    desk.export(desk.config(topic, lake))
    return topic, lake


def age(topic: Filled, lake: Path, commits: int) -> None:
    """Give every table, the dead letters included, so many commits more."""
    names = list(topic.load.declared())
    tp = TopicPartition(topic.name, 0)
    for number, name in enumerate(names):
        extend(Place(lake / name, GROUP, tp, len(names), number), commits)
    extend(Place(lake / DEAD_LETTERS, GROUP, tp, len(names), None), commits)


def _first_rounds(runs: Sequence[Run]) -> list[float]:
    return [run.at("round_read") - run.started for run in runs]


def _row(name: str, runs: Sequence[Run]) -> Row:
    """Medians."""

    def at(event: str) -> float:
        return rounded(median(run.at(event) - run.started for run in runs))

    return {
        "case": name,
        "starts": len(runs),
        "Spark is there": at("spark_started"),
        "positions known": at("positions_recovered"),
        "first round": at("round_read"),
        "first commit": at("commit_landed"),
        "all": rounded(median(run.ended - run.started for run in runs)),
        "core-seconds": rounded(median(run.usage.total() for run in runs)),
    }
