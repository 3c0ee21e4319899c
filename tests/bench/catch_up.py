"""Part catch-up: how fast a backlog is exported, one thing varied at a time, and where the CPU goes.

Budget 5.5 min: 6 topics of 0.3 to 8 M records; to write, start and export 100 s for the first, 35 s for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.desk import Desk, Filled, Run, checked
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import BAD_EVERY, Load

CORE_SECS_MAX = 9.0


@dataclass(frozen=True)
class Case:
    """One topic. records: so many that the export lasts 10 to 20 s on two cores, where something is promised 40 s."""

    name: str
    load: Load
    records: int


BASE = Case("10 types, 360 B, 2 partitions", Load(), 8_000_000)
CASES = (
    BASE,
    Case("1 type", Load(types=1), 2_000_000),
    Case("50 types", Load(types=50), 1_500_000),
    Case("100 B", Load(size="small"), 3_000_000),
    Case("4 KB, nested", Load(size="large"), 300_000),
    Case("12 partitions", Load(partitions=12), 2_000_000),
)


def run(desk: Desk) -> Outcome:
    """All cases, one after the other."""
    outcome, rows, split, stages = Outcome(), [], {}, []
    for case in CASES:
        with desk.broker():
            topic = desk.topic(case.load, desk.count(case.records, least=5_000))
            done = checked(desk.export(desk.config(topic, desk.lake()), weighed=True), topic)
        rows.append({"case": case.name, **figures(done, topic)})
        stages.append({"case": case.name, **done.of("task_ended")[-1]["secs"]})
        used = done.usage.between(*done.window)
        split[case.name] = {group: secs / done.rows * 1e6 for group, secs in sorted(used.items())}
    outcome.tables["One thing varied at a time"] = rows
    outcome.bars["records/s"] = {str(row["case"]): float(row["records/s"] or 0) for row in rows}
    outcome.stacks["core-seconds per million records within the window, by thread group"] = split
    outcome.tables["Core-seconds per million records, by thread group"] = [
        {"case": name, **{group: rounded(secs) for group, secs in groups.items()}} for name, groups in split.items()
    ]
    outcome.tables["Seconds by stage of the loop; below `read` by step, summed over its tasks"] = stages
    base = float(rows[0]["core-s/M, window"] or 0)
    outcome.targets.append(Target("10 types, 360 B: core-seconds per million records", base, CORE_SECS_MAX, "core-s"))
    outcome.notes += [
        f"Exactly once, dead letters and commits included; one record in {BAD_EVERY:,} is bad. Window: from the moment "
        "the positions are known to the last commit, without the start-up; core-s/M, all: per million records with "
        "start-up and end. The broker is not counted."
    ]
    return outcome


def figures(run: Run, topic: Filled) -> Row:
    """What an export amounts to. MB: 10^6 bytes of JSON."""
    used = sum(run.usage.between(*run.window).values())
    return {
        "records": run.rows,
        "bytes each": round(topic.tally.value_bytes / run.rows),
        "secs": rounded(run.secs),
        "records/s": round(run.rows / run.secs),
        "MB/s": rounded(topic.tally.value_bytes / run.secs / 1e6),
        "core-s/M, window": rounded(used / run.rows * 1e6),
        "core-s/M, all": rounded(run.usage.total() / run.rows * 1e6),
        "start-up, s": rounded(run.window[0] - run.started),
        "commits": len(run.of("commit_landed")),
        "peak PSS, MiB": round(run.usage.pss_bytes / 2**20),
    }
