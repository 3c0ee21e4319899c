"""Tables are maintained while tasks read and commit: neither is in the other's way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.lake.lake import Lake
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.maintain.step import MaintenanceStep
from tests.support import naive
from tests.support.lakes import DDL, Export, Exports, Gate, event, wait_until
from tests.support.processes import running

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ALL = (DEAD_LETTERS, "order")
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)
WAIT_SECS = 120


@pytest.fixture
def export(exports: Exports) -> Export:
    """One event type; a commit for each round of 20 records."""
    scalars = {"round_records_max": 20, "roll_records_max": 1, "carried_bytes_max": 0}
    return exports(types={"order": DDL["order"]}, **scalars)


def send(e: Export, first: int, count: int) -> None:
    """Orders of one closed day; ids are offsets."""
    e.send({0: [event("order", number) for number in range(first, first + count)]})


def turn(e: Export, spark: Any) -> list[MaintenanceStep]:
    """`exporter maintain --apply --types order`."""
    return list(Maintenance(Lake(spark, e.root / "lake", e.app), LIMITS).steps(["order"], True))


def orphan(e: Export) -> Path:
    """A file of nobody, old enough for VACUUM."""
    path = next(e.folder("order").glob("day=*")) / "part-0.parquet"
    path.write_bytes(b"PAR1 half")
    os.utime(path, (time.time() - 8 * 86_400,) * 2)
    return path


@pytest.mark.long
def test_a_task_that_runs_meanwhile_notices_nothing(
    export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a commit with staged files waits, and while others land; nothing is read twice, both audits are clean."""
    e = export
    send(e, 0, 40)
    e.run(spark)
    gate, before = Gate(monkeypatch, "order"), e.files("order")
    old = orphan(e)
    send(e, 40, 20)
    with e.going(spark, secs_max=2 * WAIT_SECS) as task:
        wait_until(lambda: gate.waiting, WAIT_SECS, "a commit is about to be written")
        staged, position = e.files("order") - before - {f"{old.parent.name}/{old.name}"}, e.position("order")
        assert [(step.what, step.outcome, step.files) for step in turn(e, spark)] == [
            ("optimize", "done", 2), ("vacuum", "done", 1)
        ]  # fmt: skip
        assert staged and staged <= e.files("order") and not old.exists()
        assert e.position("order") == position
        gate.open()
        send(e, 60, 20)
        assert {step.outcome for step in turn(e, spark)} <= {"done"}
        wait_until(lambda: {e.position(name)[1] for name in ALL} == {79}, WAIT_SECS, "all positions at 79")
        assert staged <= e.files("order")
        assert task.service.totals.records == 40, "something was read twice"
    assert e.offsets("order") == list(range(80))
    naive.assert_each_once(e)
    e.proven(spark)


@pytest.mark.long
@pytest.mark.drill
def test_a_schedule_works_at_its_time_and_ends_when_told(export: Export, spark: Any) -> None:
    """A process of its own, beside a task: each minute once; SIGTERM to its group ends it with 0."""
    e = export.with_(maintain_cron="* * * * *")
    send(e, 0, 40)
    e.run(spark)
    before = e.positions()
    with e.going(spark, secs_max=4 * WAIT_SECS), running(e, "--apply", "--schedule", verb="maintain") as process:
        process.wait_for("table_maintained", 2 * WAIT_SECS)
        wait_until(lambda: process.text.count("maintenance_scheduled") == 2, WAIT_SECS, "it waits again")
        assert len(e.live("order")) == 1
        process.signal_group(signal.SIGTERM)
        assert process.wait() == 0, process.text[-2000:]
        wait_until(lambda: not process.left(), WAIT_SECS, "its JVM has ended as well")
    assert e.positions() == before
    naive.assert_each_once(e)
