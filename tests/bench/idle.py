"""Part idle: what a caught-up exporter of 50 types costs while nothing arrives.

Budget 2 min: one catch-up, one start, 20 s to settle, 60 s that count. Heartbeats as by default.
"""

from __future__ import annotations

import time

from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Target, rounded
from tests.bench.load import Load

RECORDS = 20_000
SETTLE_SECS, COUNTED_SECS = 20.0, 60.0
PERCENT_MAX = 3.0


def run(desk: Desk) -> Outcome:
    """One idle minute."""
    with desk.broker():
        topic = desk.topic(Load(types=50), desk.count(RECORDS, least=2_000))
        config = desk.config(topic, desk.lake())
        desk.export(config)
        with desk.exporting(config) as task:
            time.sleep(desk.secs(SETTLE_SECS))
            since = time.time()
            time.sleep(desk.secs(COUNTED_SECS))
            until = time.time()
            done = task.stop()
    used = done.usage.between(since, until)
    percent = {group: secs / (until - since) * 100 for group, secs in used.items()}
    commits = sum(since <= line["at"] <= until for line in done.of("commit_landed"))
    whole = sum(percent.values())
    row = {"secs": rounded(until - since), "CPU seconds": rounded(sum(used.values())), "commits": commits}
    return Outcome(
        targets=[Target("50 types, nothing arriving: per cent of one core", whole, PERCENT_MAX, "%")],
        tables={"Idle": [{**row, "% of a core": rounded(whole)}]},
        bars={"per cent of one core, by thread group": percent},
    )
