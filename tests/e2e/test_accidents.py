"""Accidents to tables and topics: one message, the command in it helps, and then each record is there once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import CannotRepair, Fenced, InvariantBroken, LogCleaned
from exporter.kafka.topics import FirstPosition
from exporter.lake.table import DeltaTable
from exporter.local.broker import Broker, create_topic
from exporter.operate.check.deep import compare
from exporter.operate.repair.repair import repair
from exporter.operate.repair.steps import RepairRow
from exporter.protocol.trusted import TrustedTables
from exporter.workbench import first_position
from offsets import Invariant
from tests.support import naive
from tests.support.lakes import (
    DDL,
    EVERYWHERE_SELDOM,
    Export,
    Exports,
    deadly,
    delete_before,
    event,
    mixed,
    seldom,
    struck,
    wait_until,
    wrong_places,
)
from tests.support.services import fresh_name, make_again

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ALL = (DEAD_LETTERS, "click", "order", "payment")


def repaired(e: Export, spark: Any, action: str = "rewind", former: str = "", apply: bool = True) -> list[RepairRow]:
    """exporter repair --<action> [--apply]"""
    with e.bench(spark) as made:
        return repair(made, action, former, FirstPosition(), apply)


def sql(e: Export, spark: Any, statement: str) -> None:
    """SQL with {order} and the like replaced by tables."""
    spark.sql(statement.format(**{name: e.sql_name(name) for name in ALL}))


def versions(e: Export) -> dict[str, int]:
    return {name: e.table(name).version() for name in e.tables()}


def forget(spark: Any) -> None:
    """Delta's cache of logs, as in a fresh process."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def twice_exported(e: Export, spark: Any) -> dict[str, int]:
    """Two runs of 100 records in each of two partitions; the versions after the first."""
    e.send({0: mixed(100), 1: mixed(100, first=1000)})
    e.run(spark)
    first = versions(e)
    e.send({0: mixed(100, first=100), 1: mixed(100, first=1100)})
    e.run(spark)
    return first


def stops(e: Export, spark: Any, table: str, operation: str) -> InvariantBroken:
    """The next start exits 70; its one message names the table, what happened, a partition, offsets and the command."""
    before = versions(e)
    with pytest.raises(InvariantBroken) as stopped:
        e.run(spark)
    error = stopped.value
    assert (error.invariant, error.exit_code) == (Invariant.MONOTONE, 70)
    assert f"table {table}" in error.message and operation in error.message, error.message
    assert re.search(rf"{e.topic}-\d (offsets \d+\.\.\d+|through)", error.message), error.message
    assert "exporter repair --rewind" in error.hint
    assert versions(e) == before
    return error


def goes_on(e: Export, spark: Any) -> None:
    """More records arrive and are exported; each record of the topic is once where it must be."""
    e.send({0: mixed(50, first=5000)})
    e.run(spark)
    assert wrong_places(e) == {}


def is_whole(e: Export, spark: Any) -> None:
    """It goes on, and a naive audit is clean."""
    goes_on(e, spark)
    naive.assert_each_once(e)


def is_clean(e: Export, spark: Any) -> None:
    """It goes on, and the audit is clean."""
    goes_on(e, spark)
    e.proven(spark)


def restore(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {first['order']}")


def restore_by_time(e: Export, spark: Any, first: dict[str, int]) -> None:
    written = e.place.written_at(f"order/_delta_log/{first['order']:020d}.json")
    at = datetime.fromtimestamp(written, timezone.utc) + timedelta(milliseconds=1)
    sql(e, spark, f"RESTORE TABLE {{order}} TO TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'")


def restore_over_optimize(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "OPTIMIZE {order}")
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {first['order']}")
    sql(e, spark, "OPTIMIZE {order}")


def restore_dead_letters(e: Export, spark: Any, first: dict[str, int]) -> None:
    """To its creation: without rows, and without the list of tables that it recorded afterwards."""
    sql(e, spark, "RESTORE TABLE {dead_letters} TO VERSION AS OF 0")


def insert_overwrite(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "INSERT OVERWRITE {click} SELECT * FROM {click} WHERE _kafka.offset < 40")


def overwrite_one_day(e: Export, spark: Any, first: dict[str, int]) -> None:
    path = e.uri("click")
    frame = spark.read.format("delta").load(path).filter("day = '2026-01-29' AND _kafka.offset > 150")
    frame.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)


def replace_where(e: Export, spark: Any, first: dict[str, int]) -> None:
    where = "REPLACE WHERE _kafka.offset > 120 SELECT * FROM {click} WHERE _kafka.offset > 120 LIMIT 1"
    sql(e, spark, "INSERT INTO {click} " + where)


def truncate(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "TRUNCATE TABLE {click}")


def replace_table(e: Export, spark: Any, first: dict[str, int]) -> None:
    sql(e, spark, "CREATE OR REPLACE TABLE {click} USING delta PARTITIONED BY (day) AS "
                  "SELECT * FROM {click} WHERE _kafka.offset < 40")  # fmt: skip


Accident = Callable[[Export, Any, dict[str, int]], None]
ACCIDENTS = [
    seldom(insert_overwrite, "WRITE", restore, "order", id="insert_overwrite"),
    seldom(overwrite_one_day, "WRITE", restore_by_time, "order", id="overwrite_one_day"),
    seldom(replace_where, "WRITE", restore_over_optimize, "order", id="replace_where"),
    pytest.param(truncate, "TRUNCATE", restore_dead_letters, DEAD_LETTERS, id="truncate"),
    seldom(replace_table, "CREATE OR REPLACE TABLE AS SELECT", restore, "order", id="replace_table"),
]
"""What happens to `click`, its name in the log, what happens to another table, that table."""


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("accident, operation, other, table", ACCIDENTS)
def test_after_accidents_to_stopped_tables_repair_exports_exactly_what_is_missing(
    exports: Exports, spark: Any, accident: Accident, operation: str, other: Accident, table: str
) -> None:
    """The start exits 70 and names what is missing; a dry run writes nothing; applied, all tables are in epoch 1."""
    e = exports(2)
    first = twice_exported(e, spark)
    other(e, spark, first)
    if table != DEAD_LETTERS:
        stops(e, spark, table, "RESTORE")
    accident(e, spark, first)
    stops(e, spark, "click", operation)
    before = versions(e)
    planned = repaired(e, spark, apply=False)
    assert versions(e) == before
    assert {(row.table, str(row.tp)) for row in planned} == {(name, f"{e.topic}-{p}") for name in ALL for p in (0, 1)}
    back = {row.table for row in planned if row.old and row.new and row.new.offset < row.old.offset}
    assert back == {"click", table}
    repaired(e, spark)
    assert {epoch for epoch, _ in e.positions().values()} == {1}
    with pytest.raises(CannotRepair, match="nothing to rewind"):
        repaired(e, spark)
    is_whole(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.long
def test_a_restore_by_version_takes_the_position_back_to_that_version_and_no_further(
    exports: Exports, spark: Any
) -> None:
    """Only what the table lost is read again, the other tables keep their positions, no file of it is rewritten."""
    e = exports(2)
    first = twice_exported(e, spark)
    restore(e, spark, first)
    error = stops(e, spark, "order", "RESTORE")
    assert f"{e.topic}-0 offsets 100..199, {e.topic}-1 offsets 100..199" in error.message
    rows = {(row.table, row.tp.partition): row for row in repaired(e, spark) if row.tp is not None}
    assert {(str(row.old), str(row.new)) for at, row in rows.items() if at[0] == "order"} == {("199", "99 (epoch 1)")}
    assert {(str(row.old), str(row.new)) for at, row in rows.items() if at[0] != "order"} == {("199", "199 (epoch 1)")}
    assert [row.removed for row in rows.values()] == [0] * 8
    goes_on(e, spark)


@EVERYWHERE_SELDOM
def test_a_dead_letter_of_a_record_that_ended_its_task_comes_back_after_a_restore(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own table has passed it without it, so it is a dead letter again, whatever it would be by now (ONCE)."""
    e = exports()
    e.send({0: [*mixed(5), event("order", 5, boom=1), *mixed(5, first=6)]})
    with monkeypatch.context() as patch:
        deadly(patch)
        e.run(spark)
    assert e.placed()[(0, 5)] == [DEAD_LETTERS]
    settled = next(at for at, entry in enumerate(e.log(DEAD_LETTERS)) if b"/skipped/" in e.place.read(entry))
    sql(e, spark, f"RESTORE TABLE {{{DEAD_LETTERS}}} TO VERSION AS OF {settled - 1}")
    forget(spark)
    assert (0, 5) not in e.placed()
    stops(e, spark, DEAD_LETTERS, "RESTORE")
    repaired(e, spark)
    e.run(spark)
    placed = e.placed()
    assert placed.pop((0, 5)) == [DEAD_LETTERS]
    assert len(placed) == 10 and all(len(tables) == 1 for tables in placed.values())
    e.proven(spark)


def test_a_removed_folder_begins_anew(exports: Exports, spark: Any) -> None:
    """A dropped table, and one that somebody made anew with other rows: exit 70, then all their records again."""
    e = exports(2)
    twice_exported(e, spark)
    copied = spark.read.format("delta").load(e.uri("click")).limit(30).toPandas()
    schema = spark.read.format("delta").load(e.uri("click")).schema
    for file in [*e.place.files("order"), *e.place.files("click")]:
        e.place.delete(file.path)
    forget(spark)
    frame = spark.createDataFrame(copied, schema)
    frame.write.format("delta").partitionBy("day").save(e.uri("click"))
    with pytest.raises(InvariantBroken, match=r"table click was replaced.*-0 through offset 199") as stopped:
        e.run(spark)
    assert "exporter repair --rewind" in stopped.value.hint
    repaired(e, spark)
    is_whole(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.long
def test_a_table_with_other_columns_is_refused_until_it_is_restored(exports: Exports, spark: Any) -> None:
    """What replaced it is somebody's: the message names the RESTORE that brings the table back, and nothing is lost."""
    e = exports(2)
    twice_exported(e, spark)
    before = e.table("order").version()
    path = e.uri("order")
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    stops(e, spark, "order", "WRITE")
    with pytest.raises(CannotRepair, match="other columns") as refused:
        repaired(e, spark)
    assert f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {before}" in refused.value.hint
    sql(e, spark, f"RESTORE TABLE {{order}} TO VERSION AS OF {before}")
    error = stops(e, spark, "order", "RESTORE")
    assert "nothing seems to be missing" in error.message
    assert {str(row.new) for row in repaired(e, spark) if row.tp is not None} == {"199 (epoch 1)"}
    goes_on(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("then", ["", seldom("forgotten"), seldom("switched")])
def test_damaged_files_are_named_with_the_restore_that_helps(exports: Exports, spark: Any, then: str) -> None:
    """As a power cut leaves the newest ones. A copy, where nothing makes again what such a RESTORE takes away."""
    e = exports(2)
    first = twice_exported(e, spark)
    newest = e.live("order") - e.live("order", first["order"])
    for path in newest:
        e.place.write(f"order/{path}", b"")
    with e.bench(spark) as made:
        assert {one.what: one.level for one in compare(made, e.settings())} == {"audit": "error"}, "check --deep"
    if then == "forgotten":
        delete_before(e, 150)
    elif then == "switched":
        e = e.with_({**DDL, "click": DDL["click"] + ", ref BIGINT"})
        e.run(spark)
    with pytest.raises(CannotRepair, match=f"order: {len(newest)} of its live files are absent or damaged") as refused:
        repaired(e, spark, apply=False)
    hint = refused.value.hint
    if then:
        assert "put them back from a copy" in hint and ("earlier configuration" in hint) == (then == "switched")
        assert f"({e.topic}-0" in hint, hint
        return
    assert f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {first['order']}" in hint, hint
    restore(e, spark, first)
    repaired(e, spark)
    with pytest.raises(CannotRepair, match="nothing to rewind"):
        repaired(e, spark)
    is_whole(e, spark)


@pytest.mark.parametrize("last, checksum", [seldom(True, False), seldom(True, True), (False, True)],
                         ids=["newest", "newest-with-checksum", "built-on"])  # fmt: skip
def test_a_log_entry_that_a_power_cut_left_empty_loses_nothing(
    exports: Exports, spark: Any, last: bool, checksum: bool
) -> None:
    """The newest one is made good by the next run: a checksum that outlived it is nobody's. Built on: exit 70."""
    e = exports(2)
    twice_exported(e, spark)
    e.send({0: mixed(100, first=200), 1: mixed(100, first=1200)})
    e.run(spark)
    with_files = [file for file in e.log("order") if b'"add"' in e.place.read(file)]
    entry = with_files[-1 if last else -2].path
    e.place.write(entry, b"")
    if not checksum:
        e.place.write(entry.replace(".json", ".crc"), b"")
    forget(spark)
    if not last:
        error = stops(e, spark, "order", "empty log entry")
        assert f"{e.topic}-0 offsets 100..299, {e.topic}-1 offsets 100..299" in error.message
        repaired(e, spark)
        with pytest.raises(CannotRepair, match="nothing to rewind"):
            repaired(e, spark)
    is_whole(e, spark)
    goes_on(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("emptied", [False, seldom(True)], ids=["restored", "emptied"])
def test_what_an_earlier_configuration_exported_is_brought_back_and_not_rewound(
    exports: Exports, spark: Any, emptied: bool
) -> None:
    """The one in force could make other rows of it. What the refusal says is done word for word, and helps."""
    e = exports(2)
    first = twice_exported(e, spark)
    entry = [file for file in e.log("order") if b'"add"' in e.place.read(file)][-1]
    e = e.with_({**DDL, "click": DDL["click"] + ", ref BIGINT"})
    is_whole(e, spark)
    if not emptied:
        restore(e, spark, first)
        stops(e, spark, "order", "RESTORE")
    else:
        kept = e.place.read(entry)
        e.place.write(entry.path, b"")
        forget(spark)
        stops(e, spark, "order", "empty log entry")
    lost = rf"order lost records of {e.topic}-0 from offset 100 on, which were exported under an earlier"
    with pytest.raises(CannotRepair, match=lost) as refused:
        repaired(e, spark)
    hint = refused.value.hint
    if emptied:
        assert f"put version {int(entry.name.removesuffix('.json'))} of its _delta_log back" in hint, hint
        e.place.write(entry.path, kept)
        forget(spark)
    else:
        spark.sql(hint.partition(" brings them back")[0])
        assert "nothing seems to be missing" in stops(e, spark, "order", "RESTORE").message
        repaired(e, spark)
    with pytest.raises(CannotRepair, match="nothing to rewind"):
        repaired(e, spark)
    is_whole(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.long
@pytest.mark.parametrize("missing", [False, True], ids=["whole", "rows-missing"])
def test_a_log_that_was_cleaned_up_beyond_the_last_look_is_accepted_if_nothing_is_missing(
    exports: Exports, spark: Any, missing: bool
) -> None:
    """Exit 70: an accident cannot be excluded. The repair compares tables and topic, and refuses if one is seen."""
    e = exports(2)
    first = twice_exported(e, spark)
    if missing:
        restore(e, spark, first)
    sql(e, spark, "OPTIMIZE {order}")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, e.uri("order")).checkpoint()
    for version in range(e.table("order").version()):
        e.place.delete(f"order/_delta_log/{version:020d}.json")
    forget(spark)
    with pytest.raises(LogCleaned, match=r"table order: version \d+ is no longer in its log") as stopped:
        e.run(spark)
    assert stopped.value.exit_code == 70 and "exporter repair --rewind" in stopped.value.hint
    with e.bench(spark) as made:
        deep = {one.what: one.level for one in compare(made, e.settings())}
    table, topic = ("error", "error") if missing else ("warn", "ok")
    assert deep == {"table order": table, "audit": topic}, "exporter check --deep"
    if missing:
        with pytest.raises(CannotRepair, match="the audit found"):
            repaired(e, spark)
        return
    assert [(row.table, row.tp) for row in repaired(e, spark)] == [("order", None)]
    is_clean(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("behind_its_back", [False, seldom(True)], ids=["restored", "restored and repaired"])
def test_a_running_task_notices_a_restore_at_its_next_heartbeat(
    exports: Exports, spark: Any, behind_its_back: bool
) -> None:
    """A record of another type is enough: the restored table's empty marker is refused, and the task exits 70.

    Repaired behind its back too, it meets its own tombstone and is fenced (75): a fresh task exports what is missing.
    """
    e = exports(2, heartbeat_secs=0.2, roll_age_max_secs=0.2)
    first = twice_exported(e, spark)
    with e.going(spark) as task:
        e.send({0: [event("click", 7000)]})
        wait_until(lambda: set(e.positions().values()) == {(0, 200)}, 90, "all positions at 200")
        restore(e, spark, first)
        if behind_its_back:
            repaired(e, spark)
        e.send({0: [event("click", 7001)]})
        error = task.ended()
    if behind_its_back:
        assert isinstance(error, Fenced) and error.exit_code == 75, error
    else:
        assert isinstance(error, InvariantBroken) and error.invariant is Invariant.MONOTONE
        assert "table order: RESTORE at version" in error.message
        assert f"{e.topic}-0 offsets 100..200, {e.topic}-1 offsets 100..199" in error.message
        repaired(e, spark)
    goes_on(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize(
    "optimized", [False, seldom(True)], ids=["as-committed", "optimized"]
)
def test_rows_that_landed_after_a_restore_are_taken_out_and_exported_again(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, optimized: bool
) -> None:
    """A commit that did not see the RESTORE before it lands, because positions stay; then it looks, and exits 70.

    OPTIMIZE then puts rows from both sides of the new position in one file: those beyond are deleted first.
    """
    e = exports(2)
    first = twice_exported(e, spark)
    e.send({0: mixed(50, first=200), 1: mixed(50, first=1200)})
    real, real_look = DeltaTable.commit, TrustedTables.look_through

    def commit(self: DeltaTable, change: Any, check: Any) -> int:
        if self.event_type == "order":
            restore(e, spark, first)
        return real(self, change, check)

    def look(self: TrustedTables, table: DeltaTable, version: int, view: Any = None, landed: bool = False) -> None:
        if landed:
            real_look(self, table, version, view, landed)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "commit", commit)
        patch.setattr(TrustedTables, "look_through", look)
        with pytest.raises(InvariantBroken, match="table order: RESTORE"):
            e.run(spark)
    assert {row["_kafka"]["offset"] for row in e.rows("order")} & set(range(200, 250))
    if optimized:
        sql(e, spark, "OPTIMIZE {order}")
    error = stops(e, spark, "order", "RESTORE")
    assert f"{e.topic}-0 offsets 100..249, {e.topic}-1 offsets 100..249" in error.message
    planned = [row for row in repaired(e, spark, apply=False) if row.table == "order"]
    assert {("deleted first" in row.says, row.removed > 0) for row in planned} == {(optimized, not optimized)}
    repaired(e, spark)
    assert max(row["_kafka"]["offset"] for row in e.rows("order")) < 100
    goes_on(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("tables", [seldom(n) for n in (1, 2, 3, 4)])
def test_a_repair_that_ends_between_two_tables_is_started_over_and_ends_the_same(
    exports: Exports, spark: Any, tables: int
) -> None:
    """Until the dead letters are written every task stays away (75); whatever was done is not done again."""
    e = exports(2)
    first = twice_exported(e, spark)
    restore(e, spark, first)
    with struck(f"after_repair:raise:{tables}"):
        repaired(e, spark)
    before = versions(e)
    if tables < len(ALL):
        kind = InvariantBroken if e.position("order")[0] == 0 else Fenced
        with pytest.raises(kind):
            e.run(spark)
        assert versions(e) == before
        repaired(e, spark)
    assert e.positions() == {**dict.fromkeys(ALL, (1, 199)), "order": (1, 99)}
    goes_on(e, spark)


@EVERYWHERE_SELDOM
@pytest.mark.parametrize("interrupted", [seldom(0), 2])
def test_a_topic_that_was_made_again_is_exported_after_a_rebase(exports: Exports, spark: Any, interrupted: int) -> None:
    """Old rows stay under epoch 0; the new topic, with a partition more, is whole in epoch 1; the audit is clean."""
    e = exports(2)
    twice_exported(e, spark)
    old = {name: e.rows(name) for name in ALL}
    with pytest.raises(CannotRepair, match="nothing to rebase"):
        repaired(e, spark, "rebase")
    make_again(e.kafka, e.topic, 3)
    e.send({0: mixed(150, first=9000), 2: mixed(20, first=9500)})
    with pytest.raises(InvariantBroken, match=r"topic id of .* was .* and is ") as stopped:
        e.run(spark)
    assert (stopped.value.invariant, stopped.value.exit_code) == (Invariant.MONOTONE, 70)
    assert "exporter repair --rebase" in stopped.value.hint
    if interrupted:
        with struck(f"after_repair:raise:{interrupted}"):
            repaired(e, spark, "rebase")
    repaired(e, spark, "rebase")
    e.run(spark)
    assert set(e.positions(0).values()) == {(1, 149)}
    assert set(e.positions(1).values()) == {(1, -1)}
    assert set(e.positions(2).values()) == {(0, 19)}
    new = 0
    for name in ALL:
        rows = e.rows(name)
        kept = [row for row in rows if row["_kafka"]["epoch"] == 0 and row["_kafka"]["partition"] != 2]
        assert kept == old[name]
        new += len(rows) - len(kept)
    assert new == 170
    report = e.audit(spark)
    assert report.clean and report.once == 170, report.as_text()


@pytest.mark.long
@pytest.mark.parametrize(("begins", "again"), [("earliest", 20), ("2026-01-31T12:30:00Z", 0)])
def test_an_export_moves_to_another_cluster_with_or_without_the_records_that_were_copied_there(
    exports: Exports, spark: Any, tmp_path: Path, begins: str, again: int
) -> None:
    """Old rows stay; of the new topic all is exported, or what is not older than `first_position`."""
    e = exports(2)
    copied = {0: mixed(10), 1: mixed(10, first=100)}
    later = [one._replace(timestamp_ms=one.timestamp_ms + 3_600_000) for one in mixed(5, first=500)]
    e.send(copied)
    e.run(spark)
    with Broker(tmp_path / "other") as other:
        create_topic(other.bootstrap, e.topic, 2)
        moved = replace(e, kafka=other.bootstrap).with_(first_position=begins)
        moved.send(copied)
        moved.send({0: later})
        with pytest.raises(InvariantBroken, match=r"cluster id of .* was .* and is ") as stopped:
            moved.run(spark)
        assert stopped.value.exit_code == 70 and "exporter repair --rebase" in stopped.value.hint
        with moved.bench(spark) as made:
            repair(made, "rebase", "", first_position(moved.settings()), True)
        moved.run(spark)
        epochs = [row["_kafka"]["epoch"] for name in ALL for row in moved.rows(name)]
        assert (epochs.count(0), epochs.count(1)) == (20, again + 5)
        report = moved.audit(spark)
        assert report.clean and report.once == again + 5, report.as_text()


@EVERYWHERE_SELDOM
def test_the_tables_of_another_app_are_adopted_with_their_positions(exports: Exports, spark: Any) -> None:
    """A renamed app exits 70 and names the command; after it the export goes on, and the former app exits 70."""
    e = exports(2)
    twice_exported(e, spark)
    heir = replace(e, app=fresh_name("heir"))
    with pytest.raises(InvariantBroken) as stopped:
        heir.run(spark)
    assert f"exporter repair --adopt {e.app}" in stopped.value.hint
    with pytest.raises(CannotRepair, match="no table of app somebody_else"):
        repaired(heir, spark, "adopt", "somebody_else")
    repaired(heir, spark, "adopt", e.app)
    assert set(heir.positions().values()) == {(0, 199)}
    with pytest.raises(InvariantBroken, match=f"belongs to app '{heir.app}'"):
        e.run(spark)
    goes_on(heir, spark)
    restored = {"order": e.table("order").version() - 1}
    restore(heir, spark, restored)
    stops(heir, spark, "order", "RESTORE")
    repaired(heir, spark)
    is_clean(heir, spark)
