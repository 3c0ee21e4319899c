"""What people do to the tables of an exporter: it goes on, and the audit tells exactly what they did."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import FoundProblem, LogCleaned
from exporter.lake.lake import Lake
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support import naive
from tests.support.lakes import (
    DDL,
    NOON,
    Export,
    Exports,
    Gate,
    create_anchored,
    event,
    mixed,
    wait_until,
    wrong_places,
)

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ALL = (DEAD_LETTERS, *DDL)
SHORT = "('delta.deletedFileRetentionDuration' = 'interval 1 day', 'delta.logRetentionDuration' = 'interval 1 day')"
"""The shortest time that the exporter accepts for removed files; Delta wants as much of the log."""
UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def export(exports: Exports) -> Export:
    return exports()


def sql(e: Export, spark: Any, statement: str, *tables: str) -> None:
    """The statement for each table, {t} its name in SQL."""
    for name in tables:
        spark.sql(statement.format(t=f"delta.`{e.root / 'lake' / name}`"))


def vacuum(e: Export, spark: Any, *tables: str) -> None:
    """Whatever no version needs now is gone, staged files too."""
    spark.conf.set(UNCHECKED, "false")
    try:
        sql(e, spark, "VACUUM {t} RETAIN 0 HOURS", *tables)
    finally:
        spark.conf.unset(UNCHECKED)


def is_exact(e: Export) -> None:
    """ONCE: by the records' keys, and by the naive audit."""
    assert wrong_places(e) == {}
    naive.assert_each_once(e)


def test_optimize_and_vacuum_between_two_runs_change_nothing(export: Export, spark: Any) -> None:
    """Names and tags of rewritten files are gone, the positions stay; old files are gone, the rows stay."""
    e = export
    for first in (0, 30):
        e.send({0: [event("order", number) for number in range(first, first + 30)]})
        e.run(spark)
    before = e.files("order")
    sql(e, spark, "OPTIMIZE {t}", "order")
    vacuum(e, spark, "order")
    assert len(before) == 2 and not before & e.files("order")
    e.send({0: mixed(30, first=60)})
    e.run(spark)
    assert {offset for _, offset in e.positions().values()} == {89}
    is_exact(e)


def test_deleted_and_updated_rows_are_what_the_audit_names_and_the_export_goes_on(export: Export, spark: Any) -> None:
    """Rows that a user deleted are missing, rows that were changed differ; no other finding, nothing comes back."""
    e = export
    e.send({0: [event("order", number) for number in range(30)]})
    e.run(spark)
    sql(e, spark, "DELETE FROM {t} WHERE id IN (3, 4, 5)", "order")
    sql(e, spark, "UPDATE {t} SET note = 'redacted' WHERE id = 7", "order")
    e.send({0: [event("order", number) for number in range(30, 60)]})
    e.run(spark)
    assert e.offsets("order") == [number for number in range(60) if number not in (3, 4, 5)]
    report = e.audit(spark)
    assert (report.missing, report.different, report.findings) == (3, 1, 4), report.as_text()
    named = {str(example).partition(":")[2].strip() for example in report.examples}
    assert named == {f"order {e.topic}-0: 3..5", f"order {e.topic}-0: 7"}


def test_staged_files_that_vacuum_took_are_staged_again(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protocol 4.2: a commit never names a file that is gone; while running, without a stop."""
    e, gate = export.with_(carried_bytes_max=0), Gate(monkeypatch, "click", "order")
    e.send({0: mixed(40)})
    with e.going(spark) as task:
        wait_until(lambda: gate.waiting, 60, "a commit is about to be written")
        staged = {name: e.files(name) for name in ("click", "order")}
        assert all(staged.values())
        vacuum(e, spark, "click", "order")
        assert not any(e.files(name) & staged[name] for name in staged)
        gate.open()
        wait_until(lambda: {offset for _, offset in e.positions().values()} == {39}, 60, "all positions at 39")
        assert task.service.totals.records > 40
    is_exact(e)


@pytest.mark.parametrize("carried_bytes_max", [0, 1 << 20])
def test_a_table_whose_files_cannot_be_written_is_parked_alone(
    export: Export, spark: Any, carried_bytes_max: int
) -> None:
    """Protocol 3.6: when its round ends, or where rows are carried, at its commit; the others go on, and it follows."""
    e = export.with_(carried_bytes_max=carried_bytes_max)
    with e.going(spark) as task:
        wait_until(lambda: len(task.service._writers) == len(ALL), 60, "all positions are known")
        in_the_way = [e.root / "lake" / "order" / f"day={NOON.date() - timedelta(days=ago)}" for ago in range(5)]
        for path in in_the_way:
            path.write_text("a file where a folder should be")
        e.send({0: mixed(40)})
        others = [name for name in ALL if name != "order"]
        wait_until(lambda: {e.position(name)[1] for name in others} == {39}, 60, "the others at 39")
        order = next(key for key in task.service._writers if key.event_type == "order")
        wait_until(lambda: task.service._writers[order].parked is not None, 60, "order is parked")
        assert e.position("order") == (0, -1)
        for path in in_the_way:
            path.unlink()
        wait_until(lambda: e.position("order") == (0, 39), 90, "the parked type at 39")
    is_exact(e)


def test_a_new_column_is_staged_for_and_a_constraint_parks_its_type_alone(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both come between staging and commit; the others go on, and without the constraint the type catches up."""
    e, gate = export, Gate(monkeypatch, "click", "order")
    e.send({0: mixed(40)})
    with e.going(spark):
        wait_until(lambda: len(gate.waiting) == 2, 60, "two commits are about to be written")
        sql(e, spark, "ALTER TABLE {t} ADD COLUMNS (extra STRING)", "order")
        sql(e, spark, "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 15)", "click")
        gate.open()
        others = [name for name in ALL if name != "click"]
        wait_until(lambda: {e.position(name)[1] for name in others} == {39}, 60, "the others at 39")
        e.send({0: mixed(20, first=40)})
        wait_until(lambda: {e.position(name)[1] for name in others} == {59}, 60, "the others at 59")
        assert (e.position("click"), e.rows("click")) == ((0, -1), [])
    e.send({0: mixed(20, first=60)})
    with pytest.raises(FoundProblem, match=r"table click .*constraint small CHECK \(id < 15\); .* from 0 on"):
        e.run(spark)
    assert {e.position(name)[1] for name in others} == {79}
    with e.going(spark):
        sql(e, spark, "ALTER TABLE {t} DROP CONSTRAINT small", "click")
        wait_until(lambda: e.position("click") == (0, 79), 90, "the parked type at 79")
    assert {row["extra"] for row in e.rows("order")} == {None}
    is_exact(e)


def test_a_table_that_a_user_has_altered_is_parked_alone_and_taken_up_as_it_is(export: Export, spark: Any) -> None:
    """A widened column parks its type, which is named, until it is declared so; what asks nothing of files does not."""
    e = export
    e.send({0: mixed(30)})
    e.run(spark)
    sql(e, spark, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')", "order", "click")
    sql(e, spark, "ALTER TABLE {t} ADD COLUMNS (extra VARIANT)", "click")
    sql(e, spark, "ALTER TABLE {t} ALTER COLUMN amount TYPE DECIMAL(18,2)", "order")
    e.send({0: [*mixed(30, first=30), event("order", 60, amount=12_345_678_901.25)]})
    says = r"table order .*column amount is decimal\(18,2\) in the table and decimal\(12,2\) in the set.* from 30 on"
    with pytest.raises(FoundProblem, match=says):
        e.run(spark)
    assert {name: e.position(name)[1] for name in ALL} == {name: 29 if name == "order" else 60 for name in ALL}
    wider = e.with_({**DDL, "order": DDL["order"].replace("12,2", "18,2")})
    e.send({0: [event("order", 61, amount=12_345_678_901.25)]})
    wider.run(spark)
    assert {wider.position(name) for name in ALL} == {(1, 61)}
    amounts = spark.read.format("delta").load(str(e.folder("order"))).where("id >= 60").select("id", "amount").collect()
    assert [(row.id, str(row.amount)) for row in amounts] == [(61, "12345678901.25")]


@pytest.mark.long
def test_other_tables_and_other_rows_are_let_be(export: Export, spark: Any) -> None:
    """A plain table and another app's lake under the root; rows of another topic; rows without coordinates."""
    e = export
    lake = Lake(spark, e.root / "lake", "somebody-else")
    create_anchored(lake, "theirs", {TopicPartition(e.topic, 0): Position(0, 7)})
    e.send({0: mixed(30)})
    e.run(spark)
    plain = e.root / "lake" / "plain"
    spark.range(5).write.format("delta").save(str(plain))
    kafka = "named_struct('topic', 'elsewhere', 'partition', 0, 'epoch', 0, 'offset', 999L, 'timestamp', now())"
    insert = f"INSERT INTO {{t}} (_kafka, id, day) VALUES ({kafka}, 1, DATE'2026-01-31')"
    sql(e, spark, insert, "order")
    e.send({0: mixed(30, first=30)})
    e.run(spark)
    e.proven(spark)
    assert {offset for _, offset in (e.position(name) for name in ALL)} == {59}
    assert spark.read.format("delta").load(str(plain)).count() == 5
    sql(e, spark, "INSERT INTO {t} (id, day) VALUES (2, DATE'2026-01-31'), (3, DATE'2026-01-31')", "order")
    e.send({0: mixed(10, first=60)})
    e.run(spark)
    report = e.audit(spark)
    assert (report.foreign, report.findings) == (2, 2), report.as_text()
    view = lake.table("theirs").view()
    assert view is not None and view.version == 0


def age_log(e: Export, spark: Any, name: str) -> None:
    """Make the log of a table three days old, then a checkpoint and Delta's own clean-up of what is before it."""
    log = e.root / "lake" / name / "_delta_log"
    old = time.time() - 3 * 86_400
    for path in log.iterdir():
        os.utime(path, (old, old))
    with e.bench(spark) as bench:
        bench.lake.gateway.log(str(log.parent)).checkpoint()


def versions(e: Export, name: str) -> list[int]:
    return sorted(int(path.stem) for path in (e.root / "lake" / name / "_delta_log").glob("0*[0-9].json"))


@pytest.mark.long
def test_checkpoints_and_a_cleaned_log_change_nothing(export: Export, spark: Any) -> None:
    """Positions come from the snapshot; only operations after our last own commit are looked for in the log."""
    e = export
    for first in (0, 20, 40):
        e.send({0: mixed(20, first=first)})
        e.run(spark)
    sql(e, spark, "ALTER TABLE {t} SET TBLPROPERTIES " + SHORT, *ALL)
    e.send({0: mixed(20, first=60)})
    e.run(spark)
    for name in ALL:
        age_log(e, spark, name)
    e.send({0: mixed(20, first=80)})
    e.run(spark)
    for name in ALL:
        age_log(e, spark, name)
        assert 0 not in versions(e, name), f"nothing was cleaned up: {versions(e, name)}"
    e.send({0: mixed(20, first=100)})
    e.run(spark)
    with e.bench(spark) as bench:
        views = [bench.lake.table(name).view() for name in ALL]
    at = {view.position(e.app, TopicPartition(e.topic, 0)) for view in views if view is not None}
    assert at == {Position(0, 119)}
    assert wrong_places(e) == {}
    assert e.audit(spark).clean  # the naive one needs a whole log


def test_operations_that_nobody_can_look_at_any_more_stop_the_task(export: Export, spark: Any) -> None:
    """Exit 70 with table and version: a RESTORE among them would have taken rows away (protocol 5.1)."""
    e = export
    e.send({0: mixed(20)})
    e.run(spark)
    sql(e, spark, "ALTER TABLE {t} SET TBLPROPERTIES " + SHORT, "order")
    for _ in range(3):
        sql(e, spark, "UPDATE {t} SET note = concat(note, '.')", "order")
    age_log(e, spark, "order")
    sql(e, spark, "UPDATE {t} SET note = concat(note, '.')", "order")
    age_log(e, spark, "order")
    assert versions(e, "order")[0] > 3
    with pytest.raises(LogCleaned, match=r"table order: version \d+ is no longer in its log") as stopped:
        e.run(spark)
    assert stopped.value.exit_code == 70 and stopped.value.hint
