"""Part audits: what the proof costs, of many records and of many tables.

Budget 5 min: two exports, and an audit of each, twice. The second of two finds the files in the page cache.
"""

from __future__ import annotations

from pathlib import Path

from tests.bench.desk import EXPORTER, Desk, checked
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

MANY_TYPES, MANY_RECORDS = 50, 1_000_000
FEW_TYPES, FEW_RECORDS = 58, 1_000
MANY_CORE_SECS_MAX, MANY_SECS_MAX, FEW_SECS_MAX = 24.0, 15.0, 10.0


def run(desk: Desk) -> Outcome:
    """Two lakes, each proven twice."""
    many = desk.count(MANY_RECORDS, least=5_000)
    with desk.broker():
        first = proven(desk, Load(types=MANY_TYPES, bad_every=0), many)
        second = proven(desk, Load(types=FEW_TYPES, bad_every=0), desk.count(FEW_RECORDS, least=500))
    cores = min(row["core-seconds"] for row in first) * 1_000_000 / many
    return Outcome(
        targets=[
            Target("audit, 50 types: core-seconds per million records", cores, MANY_CORE_SECS_MAX, ""),
            Target("audit of 1,000,000 records of 50 types", min(row["secs"] for row in first), MANY_SECS_MAX, "s"),
            Target("audit of 1,000 records in 58 tables", min(row["secs"] for row in second), FEW_SECS_MAX, "s"),
        ],
        tables={"Many records": [*first], "Many tables": [*second]},
    )


def proven(desk: Desk, load: Load, count: int) -> list[Row]:
    """A topic, exported, and its audit twice."""
    topic = desk.topic(load, count)
    config = desk.config(topic, desk.lake())
    checked(desk.export(config), topic)
    return [audited(desk, config, name) for name in ("first", "second")]


def audited(desk: Desk, config: Path, name: str) -> Row:
    done = desk.run([EXPORTER, "audit", "--config", str(config)])
    secs, cores = done.ended - done.started, done.usage.total()
    return {"audit": name, "secs": rounded(secs), "core-seconds": rounded(cores)}
