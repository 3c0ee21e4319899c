"""Part coordinated: what it costs that a leader commits, and how many versions that saves.

Budget 9 min: three rounds of exports of 3 M records each, in turn, into new tables; then TASKS processes over 12
partitions that get records all the time, once with commits of their own and once coordinated, as often.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from exporter.local.broker import create_topic
from offsets.names import LOG_FOLDER, table_folder
from tests.bench import feeder
from tests.bench.desk import Desk, Filled
from tests.bench.figures import Outcome, Row, Target, ratios, rounded
from tests.bench.freshness import FEEDER
from tests.bench.load import Load
from tests.bench.pairs import Timed, compared, exported, in_turn

ROUNDS, RECORDS = 3, 3_000_000
SHARE_MIN = 0.9
OWN, AS_OFTEN, COORDINATED = "own", "own, every 10 s", "coordinated"
"""With defaults, and with commits as often as rounds are by default."""
TASKS, PARTITIONS, PER_SEC, INTERVAL_SECS = 4, 12, 1_000, 5
SETTLE_SECS, COUNTED_SECS = 15.0, 60.0
VERSIONS_MAX = 1.2


def run(desk: Desk) -> Outcome:
    """Both halves."""
    outcome = Outcome()
    _catches_up(desk, outcome)
    rows = [_shares(desk, name) for name in (OWN, COORDINATED)]
    outcome.tables[f"{TASKS} processes, {PARTITIONS} partitions, 10 types, commits every {INTERVAL_SECS} s"] = rows
    what = f"{TASKS} processes: versions per table and round, coordinated"
    outcome.targets.append(Target(what, float(rows[1]["versions per table and round"] or 0), VERSIONS_MAX, ""))
    return outcome


def _catches_up(desk: Desk, outcome: Outcome) -> None:
    """A backlog: one process, which is its own leader, in each mode."""
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        settings: Mapping[str, Callable[[], Mapping[str, object]]] = {
            OWN: dict, AS_OFTEN: lambda: {"roll_age_max_secs": 10}, COORDINATED: lambda: rounds_over(topic),
        }  # fmt: skip

        def exports(name: str) -> Timed:
            return exported(desk, topic, desk.config(topic, desk.lake(), **settings[name]()))

        done = in_turn(ROUNDS, {name: partial(exports, name) for name in settings})
    speeds = compared(outcome, "A backlog of 10 types, one process", done)
    for other in (OWN, AS_OFTEN):
        _, share = ratios(speeds[COORDINATED], speeds[other])
        name = f"coordinated commits, of the throughput with {other}"
        outcome.targets.append(Target(name, share, SHARE_MIN, "x", at_least=True))


def rounds_over(topic: Filled, **more: object) -> Mapping[str, object]:
    """The settings of coordinated commits, over a control topic that is made for them."""
    control = f"bench-control-{uuid.uuid4().hex[:8]}"
    create_topic(topic.bootstrap, control, 1)
    return {"control_topic": control, **more}


def _shares(desk: Desk, name: str) -> Row:
    """Several processes share a topic; the versions that come within a time."""
    load, lake = Load(size="small", partitions=PARTITIONS, bad_every=0), desk.lake()
    settle, counted = desk.secs(SETTLE_SECS, least=2 * INTERVAL_SECS), desk.secs(COUNTED_SECS, least=4 * INTERVAL_SECS)
    with desk.broker(), ExitStack() as stack:
        topic = desk.topic(load, 0)
        coordinated = name == COORDINATED
        settings = rounds_over(topic, commit_interval_secs=INTERVAL_SECS) if coordinated else {}
        often = {} if coordinated else {"roll_age_max_secs": INTERVAL_SECS}
        config = desk.config(topic, lake, **settings, **often)
        tasks = [stack.enter_context(desk.exporting(config)) for _ in range(TASKS)]
        secs = settle + counted + INTERVAL_SECS
        words = feeder.words(topic.bootstrap, topic.name, load, PER_SEC, secs)
        with desk.running([FEEDER, *words]) as feeding:
            feeding.until("the feeder", lambda run: bool(run.of("feeding")))
            time.sleep(settle)
            since = time.time()
            time.sleep(counted)
            until = time.time()
            feeding.wait()
        used = sum(sum(task.usage.between(since, until).values()) for task in tasks)
        for task in tasks:
            task.stop()
    versions = [_versions(lake / table_folder(table), since, until) for table in load.declared()]
    per_round = median(versions) / (counted / INTERVAL_SECS)
    return {
        "commits": name,
        "versions per table, median": median(versions),
        "versions per table and round": rounded(per_round),
        "% of a core, all processes": rounded(used / (until - since) * 100),
    }


def _versions(table: Path, since: float, until: float) -> int:
    """Entries of a table's log that were written within a time, seconds since 1970."""
    written = [entry.stat().st_mtime for entry in (table / LOG_FOLDER).glob("*.json")]
    return sum(since <= at <= until for at in written)
