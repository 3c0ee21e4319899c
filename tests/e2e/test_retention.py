"""Old rows go, and the proof still holds: a record is once in its table, or the table says that it keeps it no more."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from exporter.core.days_kept import DaysKept
from exporter.core.routing import DEAD_LETTERS
from exporter.faults import VARIABLE, Fault
from exporter.kafka.topics import FirstPosition
from exporter.lake.lake import Lake
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.maintain.rewriting import Rewriting
from exporter.operate.repair.repair import repair
from tests.support.lakes import DDL, Export, Exports, Record, event

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TODAY = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
"""Its begin: no broker takes a time that has not come yet."""
KEEPS = DaysKept({"order": 30, "click": 30}, dead_letters=30)


def turn(e: Export, spark: Any) -> dict[str, str]:
    """`exporter maintain --apply`: of each table what became of its retention, or of itself."""
    work = Maintenance(Lake(spark, e.root / "lake", e.app), MaintenanceLimits(3600, 1 << 29, 21_600, KEEPS))
    steps = [*work.steps(work.tables([]), True)]
    return {step.table: step.outcome for step in steps if step.what in ("retention", "table")}


def six(first: int, old: datetime) -> list[Record]:
    """An order, a click and a dead letter, of long ago and of today; ids are offsets."""
    good = [(kind, at) for kind in ("order", "click") for at in (old, TODAY)]
    bad = [Record(b"order", b"{", timestamp_ms=int(at.timestamp() * 1000)) for at in (old, TODAY)]
    return [*(event(kind, first + n, at=at, stamp=at) for n, (kind, at) in enumerate(good)), *bad]


def left(e: Export) -> tuple[list[int], list[int], int]:
    """Ids of orders and clicks, and how many dead letters there are."""
    ids = (e.table(name).to_pyarrow_table(columns=["id"]).column("id").to_pylist() for name in ("order", "click"))
    orders, clicks = map(sorted, ids)
    return orders, clicks, e.table(DEAD_LETTERS).to_pyarrow_table(columns=["stage"]).num_rows


@pytest.mark.parametrize(
    "cut", ["day", pytest.param("month", marks=pytest.mark.long), pytest.param("none", marks=pytest.mark.long)]
)
def test_rows_that_are_too_old_go_and_no_audit_misses_them(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """So do late ones and those of a RESTORE, in the next turn. One that dies between its two commits is made good."""
    cuts = {"order": f'partition_by = "{cut}"'}
    e = exports(types={name: DDL[name] for name in ("order", "click")}, cuts=cuts)
    old = TODAY - timedelta(days=70)
    e.send({0: six(0, old)})
    e.run(spark)
    assert left(e) == ([0, 1], [2, 3], 2) and e.proven(spark).aged == 0
    whole = e.table("order").version()

    with monkeypatch.context() as armed:
        armed.setenv(VARIABLE, f"{Fault.AFTER_AGED_BOUND.value}@order:raise:1+")
        assert turn(e, spark) == {"click": "done", DEAD_LETTERS: "done", "order": "failed"}
    assert left(e) == ([0, 1], [3], 1) and e.proven(spark).aged == 2
    assert turn(e, spark) == {"order": "done"}
    assert turn(e, spark) == {} and left(e) == ([1], [3], 1)
    report = e.proven(spark)
    assert (report.aged, report.once) == (3, 3)

    e.send({0: six(6, old)})
    e.run(spark)
    assert left(e) == ([1, 6, 7], [3, 8, 9], 3) and e.proven(spark).aged == 3
    assert turn(e, spark) == {"order": "done", "click": "done", DEAD_LETTERS: "done"}
    assert left(e) == ([1, 7], [3, 9], 2) and e.proven(spark).aged == 6

    spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {whole}")
    with e.bench(spark) as bench:
        repair(bench, "rewind", "", FirstPosition(), True)
    e.run(spark)
    assert left(e)[0] == [0, 1, 6, 7] and e.proven(spark).aged == 4
    assert turn(e, spark) == {"order": "done"}
    assert left(e)[0] == [1, 7] and e.proven(spark).aged == 6


def test_what_comes_to_an_old_day_meanwhile_is_in_nobody_s_way(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks that are always wrong do not hold retention up: what was seen goes, the rest in the next turn."""
    e = exports(types={"order": DDL["order"]})
    old = TODAY - timedelta(days=70)
    e.send({0: [event("order", 0, at=old, stamp=old)]})
    e.run(spark)
    commit = Rewriting.commit

    def after_a_late_one(self: Rewriting, *said: Any, **more: Any) -> None:
        e.send({0: [event("order", 1, at=old, stamp=old)]})
        e.run(spark)
        commit(self, *said, **more)

    with monkeypatch.context() as late:
        late.setattr(Rewriting, "commit", after_a_late_one)
        assert turn(e, spark) == {"order": "done"}
    assert e.offsets("order") == [1] and e.proven(spark).aged == 1
    assert turn(e, spark) == {"order": "done"}
    assert e.offsets("order") == [] and e.proven(spark).aged == 2
