"""The write-ahead log with a real broker and DynamoDB Local: whatever ends or is out of reach, each record is once."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest
from kafka import TopicPartition as KafkaTopicPartition

import exporter.task.group_offset
from exporter.core.routing import DEAD_LETTERS
from exporter.drill import kills
from exporter.errors import CannotRepair, InvariantBroken
from exporter.faults import Fault
from exporter.kafka.topics import FirstPosition
from exporter.operate.check.deep import compare
from exporter.operate.offsets_view import OffsetRow, offset_rows
from exporter.operate.repair.repair import repair
from exporter.operate.repair.steps import RepairRow
from exporter.operate.start_plan import start_plan
from exporter.wal.dynamodb import DynamoDbLog
from exporter.workbench import open_journal
from offsets import Invariant
from offsets.intents import Intent, WalUnreachable
from tests.support import naive
from tests.support.lakes import (
    DDL,
    EVERYWHERE_SELDOM,
    Crash,
    Export,
    Exports,
    Going,
    mixed,
    struck,
    wait_until,
    wrong_places,
)
from tests.support.services import administered, fresh_name
from tests.support.wals import Log

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OF_A_PROCESS = {Fault.BEFORE_SPARK, Fault.AFTER_SPARK, Fault.AFTER_JOIN, Fault.IN_REBALANCE, Fault.BEFORE_STAGED_FILE}
"""And of its workers: they are passed before a service is made, or elsewhere."""
TYPES = (DEAD_LETTERS, "click", "order", "payment")


@pytest.fixture
def log(dynamodb: str) -> Log:
    return Log(dynamodb, fresh_name("wal"))


@pytest.fixture
def export(exports: Exports, log: Log) -> Export:
    """Two partitions, with a log that is required."""
    return log.of(exports(2))


def rows(e: Export, spark: Any) -> dict[tuple[str, int], OffsetRow]:
    """exporter offsets"""
    with e.bench(spark) as bench:
        return {(row.event_type, row.tp.partition): row for row in offset_rows(bench, e.settings())}


def repaired(e: Export, spark: Any, action: str, apply: bool = True) -> list[RepairRow]:
    """exporter repair --<action> [--apply]"""
    with e.bench(spark) as bench:
        return repair(bench, action, "", FirstPosition(), apply, open_journal(e.settings(), bench.routing))


def produce_more(e: Export, first: int, count: int = 60) -> None:
    e.send({0: mixed(count, first=first), 1: mixed(count, first=first + 1_000)})


def is_level(e: Export, spark: Any, log: Log) -> None:
    """Everything once, nothing open in the log, and the log's newest commit is what each table holds."""
    assert wrong_places(e) == {}
    assert not log.states()["started"]
    newest = log.newest()
    for (name, partition), row in rows(e, spark).items():
        assert row.position is not None
        assert (row.verdict, row.started) == ("agree", 0), row
        assert newest[name, partition] == row.logged <= row.position.offset


STRIKES = [one for one in kills.POINTS if one[0] not in OF_A_PROCESS | {Fault.IN_LEASE_RENEWAL}]


@EVERYWHERE_SELDOM
def test_a_task_that_ends_at_any_point_is_made_good_by_the_next_start(export: Export, spark: Any, log: Log) -> None:
    """Each start meets what the one before left, and is struck itself; the drill kills real ones at the same points.

    Of a commit these are: started | Delta | completed | group offset. The first makes the tables, the last switches the
    configuration.
    """
    e = log.of(export, round_records_max=120, roll_records_max=20, carried_bytes_max=4_000)
    left: dict[Fault, int] = {}
    for number, (fault, hit) in enumerate(STRIKES):
        if fault is Fault.AFTER_SEAL:
            e = e.with_({**DDL, "payment": DDL["payment"] + ", x INT"})
        produce_more(e, 200 * number, 150)
        with struck(f"{fault.value}:raise:{hit}", by=Crash):
            e.with_(group=fresh_name("group")).run(spark)
        left[fault] = log.states()["started"]
        if fault is Fault.BEFORE_WAL_COMPLETED:
            with e.bench(spark) as bench:
                planned = start_plan(bench, e.settings())
            steps = [step for one in planned.partitions for step in one.steps]
            assert any(step.startswith("complete in the log:") for step in steps), steps
            assert "finish log" in {row.verdict for row in rows(e, spark).values()}
    assert left[Fault.AFTER_WAL_STARTED] > 0 and left[Fault.BEFORE_WAL_COMPLETED] > 0
    e.run(spark)
    is_level(e, spark, log)
    assert log.states()["failed"] > 0, "what was begun and not committed is called failed once it is passed"


@EVERYWHERE_SELDOM
def test_the_group_offset_waits_until_the_log_knows_the_commit(
    export: Export, spark: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ORDER: tables | log | group. All tables have landed, the log cannot be told: that is no group offset yet."""
    # two tables: as many as are committed at the same time
    e = log.of(export.with_({"click": DDL["click"]}), roll_age_max_secs=0.2, heartbeat_secs=0.3)
    refused: list[int] = []
    real, answers = DynamoDbLog.complete, Event()

    def complete(self: DynamoDbLog, intents: Sequence[Intent], version: int) -> None:
        if not answers.is_set():
            wait_until(lambda: min(at for _, at in e.positions().values()) >= 119, 60, "all tables have landed")
            refused.append(version)
            raise WalUnreachable("the completion is not taken")
        real(self, intents, version)

    def group_offset(partition: int) -> int:
        with administered(e.kafka) as admin:
            found = admin.list_group_offsets([e.app])[e.app].get(KafkaTopicPartition(e.topic, partition))
        return -1 if found is None else found.offset

    produce_more(e, 0)
    e.run(spark)
    assert group_offset(0) == 60
    monkeypatch.setattr(DynamoDbLog, "complete", complete)
    monkeypatch.setattr(exporter.task.group_offset, "PAUSE_SECS", 0.0)
    produce_more(e, 100)
    with e.going(spark):
        wait_until(lambda: len(refused) >= 4, 60, "the completions are offered again")
        assert group_offset(0) == group_offset(1) == 60
        answers.set()
        wait_until(lambda: group_offset(0) == group_offset(1) == 120, 60, "the group's offset follows")
    naive.assert_each_once(e)
    assert not log.states()["started"]


@pytest.mark.long
@pytest.mark.parametrize("secs", [0.0, 70.0])
def test_a_task_goes_on_through_outages_of_its_log_and_through_its_loss(
    export: Export, spark: Any, log: Log, caplog: pytest.LogCaptureFixture, secs: float
) -> None:
    """Cut off, made anew while it runs, three calls in ten failing, made anew while it is stopped: nothing is lost."""
    caplog.set_level(logging.INFO, "exporter")

    def said(event: str) -> list[dict[str, Any]]:
        lines = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
        return [line for line in lines if line["event"] == event]

    e = log.of(export, roll_age_max_secs=0.2, heartbeat_secs=0.3)
    produce_more(e, 0)
    with e.going(spark, 240.0) as task:
        wait_until(lambda: log.newest().get(("order", 1), -1) >= 55, 60, "a first commit")
        log.cut()
        mended_at = time.monotonic() + secs
        wait_until(lambda: said("wal_unreachable"), 30, "the outage is told")
        held = e.positions()
        read = task.service.totals.records
        produce_more(e, 100)
        wait_until(lambda: task.service.totals.records >= read + 120, 60, "reading goes on")
        wait_until(lambda: time.monotonic() > mended_at, secs + 1, "the end of the outage")
        assert e.positions() == held, "nothing is committed meanwhile"
        assert len(said("wal_unreachable")) == 1 + int(secs / 60), "once a minute"
        log.mend()
        wait_until(lambda: min(at for _, at in e.positions().values()) >= 119, 60, "it goes on by itself")
        wait_until(lambda: not log.states()["started"], 30, "what is owed is paid")
        log.delete()
        wait_until(lambda: "--create-wal" in said("wal_unreachable")[-1]["advice"], 30, "the missing table is told")
        log.create()
        wait_until(lambda: {line["table"] for line in said("wal_rebuilt")} == {*TYPES}, 30, "the log is filled again")
        produce_more(e, 200)
        log.fail_share = 0.3
        produce_more(e, 300)
        wait_until(lambda: min(at for _, at in e.positions().values()) >= 239, 90, "it goes on with failing calls")
        log.fail_share = 0.0
        wait_until(lambda: not log.states()["started"], 30, "what is owed is paid")
    is_level(e, spark, log)
    naive.assert_each_once(e)
    log.delete()
    log.create()
    assert {row.verdict for row in rows(e, spark).values()} == {"repair log"}
    assert {row.says[:17] for row in repaired(e, spark, "log", apply=False)} == {"is written to the"}
    e.run(spark)
    is_level(e, spark, log)
    with pytest.raises(CannotRepair, match="nothing to repair in the log"):
        repaired(e, spark, "log")


@EVERYWHERE_SELDOM
def test_a_restore_that_the_tables_own_log_has_forgotten_is_found_by_the_write_ahead_log(
    export: Export, spark: Any, log: Log
) -> None:
    """Exit 70 names table, partitions and offsets; repaired, exactly the missing records are exported again."""
    e = export.with_(round_records_max=60, roll_records_max=10)
    produce_more(e, 0, 180)
    e.run(spark)
    first = e.table("order").version() - 3
    spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {first}")
    spark.sql(f"OPTIMIZE {e.sql_name('order')}")
    delta = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    delta.forTable(spark._jsparkSession, e.uri("order")).checkpoint()
    version = e.table("order").version()
    for older in range(version):
        e.place.delete(f"order/_delta_log/{older:020d}.json")
    delta.clearCache()
    left = len(e.rows("order"))
    with pytest.raises(InvariantBroken) as stopped:
        e.run(spark)
    assert (stopped.value.invariant, stopped.value.exit_code) == (Invariant.MONOTONE, 70)
    assert re.search(rf"table order .*{e.topic}-\d: .* offsets \d+\.\.179 are missing", stopped.value.message)
    planned = {(r.table, r.tp.partition): r for r in repaired(e, spark, "rewind", apply=False) if r.tp is not None}
    back = {at: r.old.offset - r.new.offset for at, r in planned.items() if r.old and r.new}
    assert {at for at, offsets in back.items() if offsets > 0} == {("order", 0), ("order", 1)}, back
    assert e.table("order").version() == version, "a dry run writes nothing"
    repaired(e, spark, "rewind")
    assert len(e.rows("order")) == left
    service = e.run(spark)
    assert service.totals.committed["order"] == len(e.rows("order")) - left
    assert {name: service.totals.committed[name] for name in TYPES if name != "order"} == dict.fromkeys(
        set(TYPES) - {"order"}, 0
    )
    is_level(e, spark, log)
    with e.bench(spark) as bench:
        deep = [*compare(bench, e.settings())]
    assert [(one.what, one.level) for one in deep] == [("write-ahead log", "ok"), ("audit", "ok")], deep


@EVERYWHERE_SELDOM
def test_of_two_static_tasks_with_one_share_the_second_waits_for_the_lease(
    export: Export, spark: Any, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """It commits nothing until the first one gives its leases back; the commits carry the rising token."""
    caplog.set_level(logging.INFO, "exporter")
    e = log.of(export, assignment="static", partitions="0/1", lease_secs=5.0, roll_age_max_secs=0.2, heartbeat_secs=0.3)

    def done(task: Going) -> int:
        return sum(task.service.totals.committed.values())

    produce_more(e, 0)
    with e.going(spark) as first:
        wait_until(lambda: done(first) == 120, 60, "the first commits")
        with e.going(spark) as second:
            produce_more(e, 100)
            wait_until(lambda: done(first) == 240, 60, "the first task goes on")
            assert second.service.totals.commits == 0
            first.stop()
            produce_more(e, 200)
            wait_until(lambda: done(second) == 120, 60, "the second task goes on")
            assert second.service.totals.refused == 0
    is_level(e, spark, log)
    tokens = [said.get("token") for said in _claims(e, "order")]
    assert tokens == sorted(tokens) and set(tokens) == {1, 2}
    assert not [record for record in caplog.records if isinstance(record.msg, dict)
                and record.msg["event"] == "static_assignment"], "the warning is for tasks without leases"  # fmt: skip


def _claims(e: Export, event_type: str) -> list[dict[str, Any]]:
    """What each commit of a table says of partition 0, oldest first."""
    found = []
    for file in e.log(event_type):
        for line in e.place.read(file).splitlines():
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            metadata = json.loads(text) if text else {}
            if "action" not in metadata and f"{e.topic}-0" in metadata.get("partitions", {}):
                found.append(metadata["partitions"][f"{e.topic}-0"])
    return found
