"""`exporter plan` says what the next start then does, and writes nothing, whatever it finds."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from exporter.cli.main import cli
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import FoundProblem
from exporter.operate.start_plan import PartitionStart, start_plan
from exporter.workbench import Workbench
from tests.support.lakes import DDL, Export, Exports, crashed_after, delete_before, mixed

pytestmark = [pytest.mark.broker, pytest.mark.spark]

BEHIND = (DEAD_LETTERS, "order", "payment")


@pytest.fixture
def export(exports: Exports) -> Export:
    return exports()


def planned(e: Export, spark: Any) -> PartitionStart:
    """The plan of the one partition; nothing may be written meanwhile."""
    before = {name: e.table(name).version() for name in e.tables()}
    with e.bench(spark) as bench:
        found = start_plan(bench, e.settings())
    assert {name: e.table(name).version() for name in e.tables()} == before
    assert found.refusal is None
    return found.partitions[0]


def typed(e: Export, spark: Any, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Result:
    """`exporter plan` on the shared session."""
    with e.bench(spark) as bench, monkeypatch.context() as patch:
        patch.setattr("exporter.workbench.open_workbench", lambda settings: replace(bench))
        patch.setattr(Workbench, "close", lambda self: None)
        for name in ("EXPORTER_CACHE_DIR", "EXPORTER_TEST_KAFKA"):
            patch.delenv(name, raising=False)
        return CliRunner().invoke(cli, ["plan", "--config", str(e.write()), *flags])


def test_the_plan_says_what_the_next_start_does(export: Export, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """First start, a type that is behind, a new configuration, a gap, and a table that is gone."""
    e = export
    e.send({0: mixed(20)})
    first = planned(e, spark)
    assert (first.verdict, first.floor, first.lag) == ("firststart", 0, 20)
    assert first.steps == ("anchor dead_letters, click, order, payment at -1",)
    assert e.tables() == []
    assert planned(e.with_(first_position="latest"), spark).floor == 20
    e.run(spark)

    e.send({0: mixed(80, first=20)})
    with crashed_after("click"):
        e.run(spark)
    behind = planned(e, spark)
    assert (behind.verdict, behind.floor, behind.held_back_by, behind.lag) == ("agree", 20, BEHIND, 80)
    assert (behind.steps, behind.refusal) == ((), None)

    wider = e.with_({**DDL, "refund": "id BIGINT"})
    switch = planned(wider, spark)
    assert (switch.verdict, switch.floor) == ("switch", 20)
    assert [step.partition(" under")[0] for step in switch.steps] == [
        *(f"drain {name} 20..99" for name in BEHIND),
        "seal epoch 0 of click, order, payment, refund, dead_letters at 99",
        "begin epoch 1",
    ]

    delete_before(e, 60)
    lost = planned(e, spark)
    assert lost.refusal is not None
    assert (lost.refusal.exit_code, lost.refusal.invariant) == (70, "COVER")
    assert "offsets 20..59" in lost.refusal.reason and "on-gap record" in lost.refusal.hint
    recorded = planned(e.with_(on_gap="record"), spark)
    assert (recorded.floor, recorded.held_back_by, recorded.lag) == (60, BEHIND, 40)
    assert recorded.steps == tuple(f"record and pass the gap 20..59 of {name}" for name in BEHIND)

    refused = typed(e, spark, monkeypatch)
    assert isinstance(refused.exception, FoundProblem)
    assert "would exit 70: COVER" in refused.output and "hint: " in refused.output
    fine = typed(e.with_(on_gap="record"), spark, monkeypatch, "--format", "json")
    assert fine.exit_code == 0, fine.output
    assert json.loads(fine.stdout)["partitions"][0]["floor"] == 60

    e.with_(on_gap="record").run(spark)
    assert set(e.positions().values()) == {(0, 99)}
    assert planned(e, spark).held_back_by == ()
    shutil.rmtree(e.root / "lake" / "order")
    with e.bench(spark) as bench:
        gone = start_plan(bench, e.settings())
    assert gone.refusal is not None and gone.partitions == ()
    assert "table order is gone" in gone.refusal.reason
    assert json.loads(typed(e, spark, monkeypatch, "--format", "json").stdout)["runs"] is False
