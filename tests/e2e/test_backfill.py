"""Columns that came later get what `_rescued` has of them, and nobody can tell that they came later."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from exporter.derive.jobs import jobs_of
from exporter.drill.producer import NOON
from exporter.faults import Fault
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.maintain.step import MaintenanceStep
from tests.support.lakes import Crash, Export, Exports, Record, event, struck

pytestmark = [pytest.mark.broker, pytest.mark.spark]

BEFORE = {"order": "id BIGINT", "click": "id BIGINT, page STRING"}
AFTER = {
    "order": "id BIGINT, amount DECIMAL(10,2), note STRING, sent TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, n: INT>>",
    "click": "id BIGINT, page STRING",
}
GOOD_IDS = (0, 1, 3, 6, 7, 9)
GOOD = f"id IN {GOOD_IDS}"
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)


def order(number: int, **fields: Any) -> Record:
    """One with all that the columns are for by now; some values fit none."""
    lines = [{"sku": "a", "n": number}, {"sku": "b", "n": "many"}]
    more = {"sent": "2026-01-31T12:00:00.123456Z", "lines": lines[: number % 3], "rest": {"x": number}}
    return event("order", number, NOON - timedelta(days=number % 2), **{**more, **fields})


def some(first: int) -> list[Record]:
    """Orders of two days, and a click that no column has come for."""
    odd = order(first + 4, amount="1.234", note=7, rest=None)
    return [*(order(first + number) for number in range(4)), odd, event("click", first + 5, more=1)]


def filled(e: Export, spark: Any, apply: bool = True) -> list[MaintenanceStep]:
    """`exporter backfill`."""
    with e.bench(spark) as bench:
        work = Maintenance(bench.lake, LIMITS)
        return list(work.backfill(work.tables([]), apply, bench.routing))


def by_readers(e: Export, spark: Any) -> list[list[tuple[Any, ...]]]:
    """The orders as Spark, delta-rs and DuckDB read them; without those that a column refuses once it is declared."""
    names = ["id", "amount", "note", "sent", "lines", "_rescued", "_event_time", "day"]
    texts = [f"CAST({name} AS STRING)" for name in names]
    frame = spark.read.format("delta").load(str(e.folder("order"))).where(GOOD).selectExpr(*texts)
    rust = [tuple(row[name] for name in names) for row in e.rows("order") if row["id"] in GOOD_IDS]
    found = duckdb.connect()
    found.register("orders", e.table("order").to_pyarrow_dataset())
    ducks = found.sql(f"SELECT {', '.join(names)} FROM orders WHERE {GOOD}").fetchall()
    return [sorted(map(tuple, frame.collect())), sorted(rust, key=str), sorted(ducks, key=str)]


def test_filled_columns_are_as_if_they_had_been_there(exports: Exports, spark: Any) -> None:
    """Killed before its commit and behind it, at any day; audits are clean all the while, and readers see no other
    table than one that had the columns from the start."""
    old = exports(types=BEFORE)
    old.send({0: some(0)})
    old.run(spark)
    assert old.proven(spark).once == 6 and filled(old, spark) == []

    e = old.with_(AFTER)
    e.send({0: some(6)})
    e.run(spark)
    assert e.proven(spark).once == 12
    versions, positions = e.table("order").version(), e.positions()
    due = filled(e, spark, apply=False)
    assert [(step.table, step.outcome, step.rows, step.files) for step in due] == [("order", "due", *n) for n in
                                                                                 ((2, 1), (3, 1))]  # fmt: skip
    assert due[1].says == "amount 2, lines 3, note 2, sent 3" and e.table("order").version() == versions

    with struck(f"{Fault.AFTER_REWRITE.value}@order:raise", Crash):
        filled(e, spark)
    assert e.proven(spark).once == 12 and e.table("order").version() == versions
    with struck(f"{Fault.AFTER_BACKFILL.value}@order:raise", Crash):
        filled(e, spark)
    assert e.proven(spark).once == 12 and e.table("order").version() == versions + 1
    assert [(step.outcome, step.rows) for step in filled(e, spark)] == [("done", 3)]
    report = e.proven(spark)
    assert report.once == 12 and filled(e, spark) == [] and e.positions() == positions

    fresh = exports(types=AFTER, topic=e.topic, root=_beside(e.root))
    fresh.run(spark)
    assert by_readers(e, spark) == by_readers(fresh, spark)


def test_jobs_and_members_go_on_beside_it(exports: Exports, spark: Any) -> None:
    """A mirror sees no change of rows, and its audit takes what it keeps in `_rescued` for the same. Maintenance fills
    days that have ended, once."""
    jobs = '[derive.orders]\nkind = "mirror"\nsource = "order"\nkeys = ["id"]\n'
    e = exports(2, types=BEFORE, more=jobs)
    e.send({0: some(0), 1: some(6)})
    e.run(spark)
    assert mirrored(e, spark) == 10
    e = replace(e.with_(AFTER), more=jobs)
    e.send({1: some(12)})
    e.run(spark)
    assert [step.outcome for step in filled(e, spark)] == ["done", "done"]
    e.send({0: [order(0), order(20)]})
    e.run(spark)
    assert mirrored(e, spark) == 4
    e.proven(spark)

    closed = {(step.table, step.outcome) for step in turn(e, spark) if step.what == "backfill"}
    assert closed == set() and turn(e, spark) == []
    with e.going(spark) as task:
        e.send({0: [order(number) for number in range(30, 60)]})
        assert filled(e, spark) == []
        assert task.error is None
    e.proven(spark)


def test_what_spark_alone_can_read_is_filled_as_well(exports: Exports, spark: Any) -> None:
    """A day with rows that are deleted in their file, which stay deleted, and one whose times are of the calendar that
    Spark 2 had."""
    old = exports(types={**BEFORE, "order": "id BIGINT, sent TIMESTAMP"})
    old.send({0: [order(number, sent=f"1500-01-0{1 + number}T00:00:00Z") for number in range(6)]})
    old.run(spark)
    folder = f"delta.`{old.folder('order')}`"
    spark.sql(f"ALTER TABLE {folder} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {folder} WHERE id = 2")
    legacy = "spark.sql.parquet.int96RebaseModeInWrite"
    spark.conf.set(legacy, "LEGACY")
    try:
        spark.sql(f"UPDATE {folder} SET sent = sent WHERE id % 2 = 1")
        spark.sql(f"REORG TABLE {folder} APPLY (PURGE)")
        spark.sql(f"DELETE FROM {folder} WHERE id = 4")
    finally:
        spark.conf.unset(legacy)
    e = old.with_(AFTER)
    e.send({0: [order(6)]})
    e.run(spark)
    assert [(step.outcome, step.rows) for step in filled(e, spark)] == [("done", 3), ("done", 1)]
    rows = spark.read.format("delta").load(str(e.folder("order"))).selectExpr("id", "amount", "CAST(sent AS STRING)")
    sent = {**{number: f"1500-01-0{1 + number} 00:00:00" for number in (0, 1, 3, 5)}, 6: "2026-01-31 12:00:00.123456"}
    assert sorted(map(tuple, rows.collect())) == [(one, Decimal(f"{one}.25"), text) for one, text in sent.items()]
    assert filled(e, spark) == []


def mirrored(e: Export, spark: Any) -> int:
    """Rows that the mirror takes in one run; its audit is clean."""
    (job,) = jobs_of(e.settings(), e.lake(spark), ["orders"])
    rows = job.run().rows
    assert all(line.clean for line in job.audit()), [*job.audit()]
    return rows


def turn(e: Export, spark: Any) -> list[MaintenanceStep]:
    """`exporter maintain --apply`, with `maintain_backfill`."""
    with e.bench(spark) as bench:
        work = Maintenance(bench.lake, replace(LIMITS, backfills=bench.routing))
        return list(work.steps(work.tables([]), True))


def _beside(root: Path) -> Path:
    made = root / "fresh"
    made.mkdir()
    return made
