"""Part partitions: what a topic of 1,000 partitions with 20 types costs: 21,000 positions, each asked for everywhere.

Budget 2.5 min: one export, two starts with nothing new, the second of which runs on for a while, and an audit. There is
a file for each type, partition and day: a file's name holds its partition.
"""

from __future__ import annotations

import time

from tests.bench.desk import EXPORTER, Desk, Run, checked
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

TYPES, PARTITIONS, RECORDS = 20, 1_000, 100_000
SETTLE_SECS, IDLE_SECS = 5.0, 15.0
START_SECS_MAX, AUDIT_SECS_MAX = 10.0, 15.0


def run(desk: Desk) -> Outcome:
    """One lake, looked at in every way."""
    load = Load(types=TYPES, size="small", partitions=desk.count(PARTITIONS, least=20), bad_every=0)
    with desk.broker():
        topic = desk.topic(load, desk.count(RECORDS, least=2_000))
        config = desk.config(topic, desk.lake())
        exported = checked(desk.export(config), topic)
        again = desk.export(config)
        with desk.exporting(config) as task:
            time.sleep(desk.secs(SETTLE_SECS, least=2))
            since = time.time()
            time.sleep(desk.secs(IDLE_SECS))
            until = time.time()
            idle = task.stop()
        audited = desk.run([EXPORTER, "audit", "--config", str(config)])
    start = max(known(run) for run in (again, idle))
    percent = sum(idle.usage.between(since, until).values()) / (until - since) * 100
    files = sum(line["files"] for line in exported.of("commit_landed"))
    steps: list[Row] = [
        row("export of all records", exported),
        row("start with nothing new, to its end", again),
        row("audit", audited),
    ]
    return Outcome(
        targets=[
            Target("1,000 partitions, 20 types: start with nothing new, until the positions are known", start,
                   START_SECS_MAX, "s"),
            Target("the audit of 100,000 records in them", audited.ended - audited.started, AUDIT_SECS_MAX, "s"),
        ],
        tables={
            "Steps": steps,
            "Once": [{"files": files, "first export: positions known": rounded(known(exported)),
                      "idle: % of a core": rounded(percent)}],
        },
    )  # fmt: skip


def known(run: Run) -> float:
    """Seconds from the start of the process until it knows the last of its positions."""
    return run.at("positions_recovered", last=True) - run.started


def row(name: str, run: Run) -> Row:
    return {"step": name, "secs": rounded(run.ended - run.started), "core-seconds": rounded(run.usage.total())}
