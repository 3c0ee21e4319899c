"""A person is forgotten, and the proof still holds: no file has a row of them, no task brings one back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.core.subject import DataSubject
from exporter.derive.jobs import jobs_of, made_from
from exporter.faults import Fault
from exporter.kafka.topics import FirstPosition
from exporter.lake.lake import Lake
from exporter.operate.erase import run as erasing
from exporter.operate.erase.run import ErasureStatus, FoundSubject
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.repair.repair import repair
from tests.support.lakes import Crash, Export, Exports, Record, bad, event, struck, wait_until
from tests.support.sessions import Kept

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TYPES = {
    "order": "id BIGINT, customer STRING, lines ARRAY<STRUCT<sku: STRING, buyer: BIGINT>>",
    "click": "id BIGINT, who STRUCT<name: STRING>, page JSON",
    "payment": "id BIGINT",
}
PATHS = (("customer",), ("lines", "buyer"), ("who", "name"), ("page", "by", "id"))
SUBJECT = DataSubject(PATHS, frozenset({"4711", "Ann"}))
OF_ANN = [1, 2, 4, 5, 7, 9]


def ten() -> list[Record]:
    """In each of TYPES and in the dead letters some of the subject, and others that look like it."""
    return [
        event("order", 0, customer="47110"),
        event("order", 1, customer="4711"),
        event("order", 2, customer="x", lines=[{"sku": "a", "buyer": 1}, {"sku": "b", "buyer": 4711}]),
        event("click", 3, who={"name": "Anna"}, page={"by": {"id": 4712}}),
        event("click", 4, who={"name": "Ann"}, page=None),
        event("click", 5, who={"name": "Bob"}, page={"by": {"id": 4711}}),
        event("payment", 6, note="4711"),
        event("payment", 7, customer=4711),
        bad(b'{"type": "order", "id": "4711"}'),
        bad(b'{"type": "order", "at": "2026-01-31T12:00:00Z", "id": "no", "after": {"customer": "Ann"}}'),
    ]


def erased(e: Export, spark: Any, monkeypatch: pytest.MonkeyPatch, apply: bool = True) -> FoundSubject:
    """`exporter erase`, in the session of the tests."""
    with monkeypatch.context() as ours:
        ours.setattr("exporter.operate.maintain.run.open_lake", lambda settings: e.lake(Kept(spark)))
        return erasing.erase(e.settings(), SUBJECT, apply, lambda step: None)


def status(e: Export, spark: Any, monkeypatch: pytest.MonkeyPatch) -> ErasureStatus:
    """`exporter erase --status`, in the session of the tests."""
    with monkeypatch.context() as ours:
        ours.setattr("exporter.operate.maintain.run.open_lake", lambda settings: e.lake(Kept(spark)))
        return erasing.status(e.settings())


def turn(e: Export, spark: Any) -> list[tuple[str, str]]:
    """What `exporter maintain --apply` does of erasures."""
    work = Maintenance(Lake(spark, e.root / "lake", e.app), MaintenanceLimits(3600, 1 << 29, 21_600))
    return [(step.table, step.outcome) for step in work.steps(work.tables([]), True) if step.what in ("erase", "table")]


def ids(e: Export) -> list[int]:
    """Offsets that have a row anywhere."""
    return sorted(row["_kafka"]["offset"] for name in e.tables() for row in e.rows(name))


def grep(folder: Path, words: Sequence[bytes]) -> list[str]:
    """The files in which a word stands, columns of Parquet decoded."""
    found = []
    for file in folder.rglob("*"):
        if file.is_file():
            raw = file.read_bytes()
            if file.suffix == ".parquet":
                raw += repr(pq.read_table(file).to_pylist()).encode()
            found += [str(file)] if any(word in raw for word in words) else []
    return found


def test_nothing_of_a_subject_is_left_and_nothing_brings_it_back(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between any two of its commits; the next turn of maintenance ends it. A RESTORE, a repair and a rewind
    bring nothing back, and audits are clean all the while."""
    e = exports(types=TYPES)
    e.send({0: ten()})
    e.run(spark)
    assert ids(e) == [*range(10)] and e.proven(spark).once == 10
    before = e.table("order").version()

    dry = erased(e, spark, monkeypatch, apply=False)
    assert dry.rows == {"order": 2, "click": 2, "payment": 1, DEAD_LETTERS: 1} and dry.records == 6
    assert dry.topics == {e.topic: 6} and ids(e) == [*range(10)] and e.table("order").version() == before

    with struck(f"{Fault.AFTER_ERASURE.value}:raise", Crash), monkeypatch.context() as ours:
        erased(e, spark, ours)
    assert ids(e) == [*range(10)] and e.proven(spark).erased == 0
    assert {one.table: one.rows for one in status(e, spark, monkeypatch).tables} == dry.rows
    with struck(f"{Fault.AFTER_ERASING.value}@order:raise", Crash):
        turn(e, spark)
    assert e.proven(spark).once + e.proven(spark).erased == 10
    with struck(f"{Fault.AFTER_ERASED.value}@order:raise", Crash):
        turn(e, spark)
    assert [name for name, _ in turn(e, spark)] == ["order", "payment"] and turn(e, spark) == []
    left = [offset for offset in range(10) if offset not in OF_ANN]
    assert ids(e) == left
    report = e.proven(spark)
    assert (report.once, report.erased) == (4, 6)

    again = erased(e, spark, monkeypatch)
    assert (again.records, again.erasure, again.steps) == (0, 0, [])

    spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF 0")
    with e.bench(spark) as bench:
        repair(bench, "rewind", "", FirstPosition(), True)
    e.send({0: [event("order", 10, customer="y")]})
    e.run(spark)
    assert ids(e) == [*left, 10]
    report = e.proven(spark)
    assert (report.once, report.erased) == (5, 6)
    spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {before}")
    with e.bench(spark) as bench:
        repair(bench, "rewind", "", FirstPosition(), True)
    e.run(spark)
    assert {1, 2} <= {*ids(e)} and turn(e, spark) == [("order", "done")]
    assert ids(e) == [*left, 10] and e.proven(spark).erased == 6

    left_over = {one.table: one for one in status(e, spark, monkeypatch).tables}
    assert {name for name, one in left_over.items() if one.files} == {"order", "click", "payment", DEAD_LETTERS}
    assert all(one.rows == 0 and one.log_files for one in left_over.values())
    for day in (e.root / "lake" / "order").glob("day=*"):  # as a DELETE leaves them, where a table wants changes kept
        shutil.copytree(day, day.parent / "_change_data" / day.name)
    (order,) = (one for one in status(e, spark, monkeypatch).tables if one.table == "order")
    assert order.files == 2 * left_over["order"].files
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM {e.sql_name('order')} RETAIN 0 HOURS")
    (order,) = (one for one in status(e, spark, monkeypatch).tables if one.table == "order")
    assert order.files == 0 and order.log_files
    _forget(e, spark)
    over = status(e, spark, monkeypatch)
    assert over.is_over and over.erasures == 1 and over.topics == {e.topic: 6}
    words = [b"customer': '4711'", b"buyer': 4711", b"'Ann'", b'"Ann"', b"id\\\":4711", b'"customer":4711']
    assert grep(e.root / "lake", words) == []


def test_a_task_that_goes_on_is_told(exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it staged before does not land, and it reads on."""
    e = exports(types=TYPES)
    with e.going(spark):
        e.send({0: ten()})
        wait_until(lambda: e.tables() and ids(e) == [*range(10)], 60, "the first rows")
        assert erased(e, spark, monkeypatch).records == 6
        e.send({0: [event("order", 10, customer="y"), event("payment", 11)]})
        wait_until(lambda: ids(e) == [0, 3, 6, 8, 10, 11], 60, "the new rows without the erased ones")
    assert e.proven(spark).erased == 6


JOBS = """
[derive.newest]
kind = "mirror"
source = "order"
keys = ["id"]
[derive.buyers]
kind = "sql"
source = "order"
query = "SELECT id, customer, line.buyer FROM source LATERAL VIEW OUTER explode(lines) AS line"
[derive.sums]
kind = "bundles"
inputs.o.source = "order"
inputs.o.transaction = "customer"
inputs.o.done = "true"
outputs.sums = "SELECT _transaction, count(*) AS n FROM o GROUP BY _transaction"
[derive.copies]
kind = "sql"
source = "click"
query = "SELECT id FROM source"
"""


def test_derived_tables_are_made_anew(exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is left; their audits are clean then. A table of which nothing was erased stays."""
    e = replace(exports(types=TYPES), more=JOBS)
    e.send({0: ten()[:4]})
    e.run(spark)
    lake = e.lake(spark)
    for job in jobs_of(e.settings(), lake):
        while not job.run().idle:
            pass
    assert grep(e.root / "lake" / "_derived.tables", [b"'4711'", b"'buyer': 4711"]) != []
    found = erased(e, spark, monkeypatch)
    names = made_from(e.settings().derive, found.rows)
    assert sorted(names) == ["buyers", "newest", "sums"]
    for job in jobs_of(e.settings(), lake, names):
        job.rebuild()
        assert all(line.clean for line in job.audit()), [*job.audit()]
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name in names:
        spark.sql(f"VACUUM delta.`{lake.derived(name).uri}` RETAIN 0 HOURS")
    left = grep(e.root / "lake" / "_derived.tables", [b"'4711'", b"'buyer': 4711"])
    assert [file for file in left if file.endswith(".parquet")] == []
    e.proven(spark)


def _forget(e: Export, spark: Any) -> None:
    """What time does: VACUUM, and a log that is cleaned up behind a checkpoint."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name in e.tables():
        spark.sql(f"VACUUM {e.sql_name(name)} RETAIN 0 HOURS")
        lake = e.lake(spark)
        lake.table(name).checkpoint(0, True)
        log = e.folder(name) / "_delta_log"
        newest = json.loads((log / "_last_checkpoint").read_text())["version"]
        for file in log.iterdir():
            if file.name[:20].isdigit() and int(file.name[:20]) < newest:
                file.unlink()
