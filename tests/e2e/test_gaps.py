"""Kafka deleted what was not exported yet, and `on_gap = record`: one row says so, the rest goes on (protocol 5.5)."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import pytest

from exporter.core.backoff import Backoff
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import Fenced, InvariantBroken, RoundFailed
from exporter.kafka.topics import TopicReader
from exporter.protocol.gap_rows import GapRows
from exporter.rounds.read import RoundReader
from offsets import Invariant
from tests.support.lakes import (
    DDL,
    Export,
    Exports,
    crashed_after,
    delete_before,
    expected_places,
    mixed,
    wait_until,
)
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ALL = (DEAD_LETTERS, *DDL)


@pytest.fixture
def export(exports: Exports) -> Export:
    """One partition; gaps are recorded."""
    return exports(on_gap="record")


def gap_rows(e: Export) -> dict[str, list[tuple[int, int]]]:
    """Event type -> the ranges of its gap rows, in order, read by deltalake."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in e.table(DEAD_LETTERS).to_pyarrow_table().to_pylist():
        if row["stage"] == "gap":
            found[row["event_type"]].append((row["first_offset"], row["last_offset"]))
    return {name: sorted(ranges) for name, ranges in found.items()}


def expect(e: Export, spark: Any, log_start: int) -> None:
    """From the log's start on each record is once in its place; no offset is twice; the audit is clean."""
    placed = {at: names for at, names in e.placed().items() if at[1] is not None}
    wanted = expected_places(e.kafka, e.topic)
    assert {at: names for at, names in placed.items() if at[1] >= log_start} == wanted
    assert all(len(names) == 1 for names in placed.values())
    report = e.proven(spark)
    ranges = [lost for some in gap_rows(e).values() for lost in some]
    assert len([note for note in report.notes if "recorded gap" in note]) == len(ranges)


def lose_ahead_of_all_but(e: Export, spark: Any, landing: str, log_start: int) -> None:
    """100 records; `landing` has all of them, the others 20; then the log begins at `log_start`."""
    e.send({0: mixed(20)})
    e.run(spark)
    e.send({0: mixed(80, first=20)})
    with crashed_after(landing):
        e.run(spark)
    assert {name: offset for name, (_, offset) in e.positions().items()} == {
        name: 99 if name == landing else 19 for name in ALL
    }
    delete_before(e, log_start)


def test_a_gap_while_running_loses_nothing_that_is_staged(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records read but not committed yet are committed first; the gap begins after them; the task goes on.

    Its row says which offsets, and nothing of a record. Kills between rows and moves are a drill's (`retention`).
    """
    e, before = export.with_(roll_age_max_secs=600, heartbeat_secs=600), datetime.now(timezone.utc).date()
    silent = threading.Event()
    real = RoundReader.read
    monkeypatch.setattr("exporter.rounds.rounds.PAUSE", Backoff(0.1, 0.1))

    def read(self: RoundReader, order: Any) -> Any:
        if silent.is_set():
            raise RoundFailed("the broker is silent")
        return real(self, order)

    monkeypatch.setattr(RoundReader, "read", read)
    e.send({0: mixed(40)})
    with e.going(spark) as task:
        totals = task.service.totals
        wait_until(lambda: totals.records == 40, 60, "40 records are staged")
        assert set(e.positions().values()) == {(0, -1)}
        silent.set()
        e.send({0: mixed(60, first=40)})
        delete_before(e, 60)
        wait_until(lambda: set(e.positions().values()) == {(0, 59)}, 60, "all positions pass the gap")
        silent.clear()
        wait_until(lambda: totals.records >= 80, 60, "the rest is read")
    assert gap_rows(e) == {name: [(40, 59)] for name in ALL}
    row = next(r for r in e.table(DEAD_LETTERS).to_pyarrow_table().to_pylist() if r["stage"] == "gap")
    assert row["_kafka"] == {"topic": e.topic, "partition": 0, "epoch": 0, "offset": None, "timestamp": None}
    assert row["reason"].startswith("gap") and before <= row["day"] <= datetime.now(timezone.utc).date()
    assert (row["key"], row["value"], row["headers"]) == (None, None, None)
    assert [offset for offset in range(40) if (0, offset) not in e.placed()] == []
    assert set(e.positions().values()) == {(0, 99)}
    expect(e, spark, 60)


@pytest.mark.long
def test_two_tasks_that_meet_the_same_gap_at_once_write_one_row(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have decided from the same reading; the compare-and-set lets one of them write, the other reads again."""
    e = export
    e.send({0: mixed(100)})
    e.run(spark)
    e.send({0: mixed(40, first=100)})
    delete_before(e, 120)
    both, real = threading.Barrier(2, timeout=60), GapRows.close
    first_time = threading.local()

    def close(self: GapRows, views: Any, gaps: Any) -> None:
        if not getattr(first_time, "met", False):
            first_time.met = True
            both.wait()
        real(self, views, gaps)

    monkeypatch.setattr(GapRows, "close", close)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(e.with_(group=fresh_name("group")).run, spark) for _ in range(2)]
        for run in runs:
            with suppress(Fenced):
                run.result(120)
    assert gap_rows(e) == {name: [(100, 119)] for name in ALL}
    e.run(spark)
    assert set(e.positions().values()) == {(0, 139)}
    expect(e, spark, 120)


def test_a_gap_is_recorded_before_a_new_configuration_drains_the_old_one(export: Export, spark: Any) -> None:
    """Stop names the range and changes nothing; recorded, the drain and the switch go on after it."""
    e = export
    lose_ahead_of_all_but(e, spark, "click", 60)
    wider = {**DDL, "click": DDL["click"] + ", ref BIGINT"}
    before = {name: e.table(name).version() for name in e.tables()}
    with pytest.raises(InvariantBroken, match=r"offsets 20\.\.59 were deleted by retention") as stopped:
        e.with_(wider, on_gap="stop").run(spark)
    assert (stopped.value.invariant, stopped.value.exit_code) == (Invariant.COVER, 70)
    assert "on-gap record" in stopped.value.hint
    assert {name: e.table(name).version() for name in e.tables()} == before
    new = e.with_(wider)
    new.run(spark)
    assert gap_rows(new) == {name: [(20, 59)] for name in ALL if name != "click"}
    assert new.positions() == dict.fromkeys(ALL, (1, 99))
    expect(new, spark, 60)


@pytest.mark.long
def test_lost_records_that_come_back_are_no_finding_of_the_audit(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unclean election may bring a log start back: what is recorded as lost is neither missing nor read again."""
    e = export
    e.send({0: mixed(30)})
    e.run(spark)
    e.send({0: mixed(30, first=30)})
    with monkeypatch.context() as patch:
        patch.setattr(TopicReader, "first_offsets", lambda self, tps: dict.fromkeys(tps, 50))
        e.run(spark)
    assert gap_rows(e) == {name: [(30, 49)] for name in ALL}
    report = e.proven(spark)
    assert (report.once, report.pending) == (40, 20)
    e.run(spark)
    assert sorted(at[1] for at in e.placed() if at[1] is not None) == [*range(30), *range(50, 60)]
