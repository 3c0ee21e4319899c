"""`exporter repair --log`: the write-ahead log lags behind the tables: finish what was begun, fill what was lost.

The tables come first: as long as one of them is not right, the log is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection

from exporter.errors import CannotRepair
from exporter.lake.lake import Lake
from exporter.operate.repair.reading import NothingToRepair, RepairReading
from exporter.operate.repair.steps import WHERE, RepairRow
from exporter.wal.check import LogCheck, broken
from offsets.ranges import TopicPartition
from offsets.wal_verdict import Ruling

SAYS = {
    Ruling.FINISH: "is completed in the log: ",
    Ruling.DEAD: "is marked as failed in the log: ",
    Ruling.REPAIR: "is written to the log again: ",
}


def put_log_right(lake: Lake, log_check: LogCheck, tps: Collection[TopicPartition], apply: bool) -> list[RepairRow]:
    """What was planned, or with `apply` done. Raises NothingToRepair, CannotRepair if tables come first."""
    logged = log_check.read(tps)
    if logged is None:
        raise CannotRepair("there is no write-ahead log, or it cannot be reached", "set `wal_table` and `wal_mode`")
    reading = RepairReading(lake, lake.app)
    verdicts = log_check.judge(logged, reading.views, unproven=reading.cleaned)
    if stopped := broken(verdicts):
        raise CannotRepair(stopped.message, stopped.hint)
    rows = [
        RepairRow(name, tp, at, at, 0, SAYS[one.verdict] + one.says)
        for (name, tp), found in sorted(verdicts.items())
        for one in found.of(*SAYS)
        for at in [reading.views[name].position(lake.app, tp) if name in reading.views else None]
    ]
    if not rows:
        raise NothingToRepair("there is nothing to repair in the log", WHERE)
    if apply:
        log_check.settle(verdicts, reading.views)
    return rows
