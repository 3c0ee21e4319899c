"""Part freshness: from the moment a record is produced to that in which a reader of its table can see it.

Nothing is polled: a record's timestamp, set by the producer, is compared with the time at which the commit's file in
`_delta_log` that names its data file was written. Budget 5.5 min: four rates, 10 s of start, 15 s of warm-up, 45 s that
count (30 s where nothing is promised), and a tail so that these end in an ordinary roll.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from exporter.arrow.own_columns import KAFKA_COLUMN
from exporter.local.children import FOLLOW_PARENT
from tests.bench import feeder
from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

WARM_SECS, PROMISED_SECS, OTHER_SECS, TAIL_SECS = 15.0, 45.0, 30.0, 4.0
FEEDER = FOLLOW_PARENT + "from tests.bench.feeder import main; main()"


@dataclass(frozen=True)
class Case:
    """p99_max: seconds; 0 = nothing is promised."""

    per_sec: int
    roll_age_secs: int
    p99_max: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.per_sec:,} records/s, roll age {self.roll_age_secs} s"


CASES = (Case(1_000, 5), Case(10_000, 5, 9.0), Case(50_000, 5), Case(10_000, 1, 4.0))


def run(desk: Desk) -> Outcome:
    """All rates."""
    outcome, rows = Outcome(), []
    for case in CASES:
        with desk.broker():
            row = _one(desk, case)
        rows.append(row)
        p99 = float(row["p99, s"] or 0)
        if case.p99_max:
            outcome.targets.append(Target(f"{case.name}: p99", p99, case.p99_max, "s"))
        outcome.bars[f"{case.name}: seconds until readable"] = {
            "p50": float(row["p50, s"] or 0), "p99": p99, "longest": float(row["longest, s"] or 0),
        }  # fmt: skip
    outcome.tables["10 types, 360 B, 2 partitions"] = rows
    outcome.notes.append(
        "The producer and the broker share the cores with the exporter. Produced at: the record's own timestamp; "
        "readable at: when the file of the commit was written. A reader's own time is not counted."
    )
    return outcome


def _one(desk: Desk, case: Case) -> Row:
    """One rate; fails if a record of the counted time is missing."""
    load, lake = Load(), desk.lake()
    warm, counted = desk.secs(WARM_SECS), desk.secs(PROMISED_SECS if case.p99_max else OTHER_SECS)
    topic = desk.topic(load, 0)
    per_sec = desk.count(case.per_sec, least=100) if desk.scale < 1 else case.per_sec
    secs = warm + counted + case.roll_age_secs + TAIL_SECS
    with desk.exporting(desk.config(topic, lake, roll_age_max_secs=case.roll_age_secs)) as task:
        with desk.running([FEEDER, *feeder.words(topic.bootstrap, topic.name, load, per_sec, secs)]) as feeding:
            fed = feeding.wait()
        sent, since = int(fed.of("fed")[0]["sent"]), float(fed.of("feeding")[0]["since"]) + warm
        task.until("the last commit", lambda run: run.rows >= sent, secs_max=300)
        used = sum(task.usage.between(since, since + counted).values())
    found = waits(lake, since, since + counted)
    if abs(len(found) - per_sec * counted) > 0.05 * per_sec * counted:
        raise RuntimeError(f"{len(found):,} records are in the tables of {per_sec * counted:,.0f} that were produced")
    p50, p99 = (float(np.percentile(found, share, method="inverted_cdf")) for share in (50, 99))
    return {
        "case": case.name, "records": len(found), "p50, s": rounded(p50), "p99, s": rounded(p99),
        "longest, s": rounded(float(found.max())), "cores used": rounded(used / counted),
        "producer late, s": rounded(float(fed.of("fed")[0]["late_secs"])),
    }  # fmt: skip


def waits(lake: Path, since: float, until: float) -> Any:
    """Seconds from produced to readable of each record that was produced within a time (seconds since 1970)."""
    found = [np.empty(0)]
    for data, readable_at in committed(lake):
        made = pq.ParquetFile(data).read(columns=[f"{KAFKA_COLUMN}.timestamp"])
        stamps = made.column(KAFKA_COLUMN).combine_chunks().field("timestamp").cast("int64").to_numpy() / 1e6
        found.append(readable_at - stamps[(stamps >= since) & (stamps < until)])
    return np.concatenate(found)


def committed(lake: Path) -> Iterator[tuple[Path, float]]:
    """Every data file of every table, and when its commit was written (seconds since 1970)."""
    for log in lake.glob("*/_delta_log/*.json"):
        written = log.stat().st_mtime
        for line in log.read_text().splitlines():
            if add := json.loads(line).get("add"):
                yield log.parents[1] / add["path"], written
