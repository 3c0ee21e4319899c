"""Coordinated commits on a real broker: two tasks, one version of each table in a round, and a leader that leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.coordinate.messages import encode
from exporter.coordinate.signature import Signature
from exporter.core.coordination import Offer, OfferedClaim
from exporter.local.broker import create_topic
from exporter.settings import model
from exporter.task import service as _  # noqa: F401 - configures the logs before they are captured
from offsets.ranges import TopicPartition
from tests.support import naive
from tests.support.lakes import Export, Exports, Going, mixed, wait_until
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS, RECORDS = 4, 40


@pytest.fixture
def export(kafka: str, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> Export:
    """Nothing but rounds makes a commit: heartbeats and time-outs are beyond the test's end."""
    control = fresh_name("control")
    create_topic(kafka, control, 1)
    scalars = {"control_topic": control, "commit_interval_secs": 1.5, "heartbeat_secs": 60}
    monkeypatch.setattr(model, "ROUNDS_MISSED", 40)
    return exports(PARTITIONS, **scalars)


def said(e: Export, event_type: str) -> list[dict[str, Any]]:
    """What the commits of a table say of themselves that moved positions of partitions with rows, in their order."""
    entries = [json.loads(line) for file in e.log(event_type) for line in e.place.read(file).decode().splitlines()]
    metadata = [json.loads(one["commitInfo"].get("userMetadata") or "{}") for one in entries if "commitInfo" in one]
    return [one for one in metadata if any(tp.get("rows") for tp in one.get("partitions", {}).values())]


def of(logs: list[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [line for line in list(logs) if line["event"] == name]


def test_tasks_commit_together_in_rounds_and_go_on_without_their_leader(export: Export, spark: Any) -> None:
    """Each batch is one version of each table, whose metadata tell of both tasks. A leader that stops commits what it
    has by itself; the other task leads then. All is in the tables once.
    """
    written, tasks = 0, list[Going]()

    def write_and_wait() -> None:
        nonlocal written
        export.send({p: mixed(RECORDS, 1000 * p + written) for p in range(PARTITIONS)})
        written += RECORDS
        rows = PARTITIONS * written
        wait_until(lambda: sum(one.service.totals.committed.total() for one in tasks) == rows, 60, f"{rows} rows")

    with capture_logs() as logs, ExitStack() as stack:
        tasks += [stack.enter_context(export.going(spark)) for _ in range(2)]
        wait_until(lambda: all(len(one.service._ownership.owned) == 2 for one in tasks), 60, "both have two partitions")
        wait_until(lambda: not any(one.service._ownership.unrecovered for one in tasks), 60, "and are at work")
        for _ in range(2):
            write_and_wait()
        states = [one.service._commits.state() for one in tasks]
        (leader,) = [one for one, state in zip(tasks, states, strict=True) if state.leads]
        assert sum(state.commits for state in states) == len(of(logs, "offers_committed"))
        assert all(set(state.ended) <= {"answered"} for state in states), states
        for name in ("order", "click", "payment", "dead_letters"):
            merged = [one for one in said(export, name) if "offers" in one]
            assert len(merged) == len(said(export, name)) <= 6, "a batch may be staged in two rounds"
            assert max(len({tp["owner"] for tp in one["partitions"].values()}) for one in merged) == 2
        leader.stop()
        others = [one.service for one in tasks if one is not leader]
        wait_until(lambda: len(others[0]._ownership.owned) == PARTITIONS, 60, "the other one has all")
        write_and_wait()
        assert others[0]._commits.state().leads and of(logs, "leading_ended") == []
    naive.assert_each_once(export)


def test_a_made_up_offer_skips_no_record(export: Export, spark: Any) -> None:
    """Of the right app, table, position and owner, without files, beyond what was read: passed over where it is not
    signed, left out where it is, as by an owner that counts wrongly. What comes next is there, once.
    """
    with capture_logs() as logs, export.going(spark) as one:
        export.send({0: mixed(RECORDS, 0)})
        wait_until(lambda: one.service.totals.committed.total() == RECORDS, 60, "all is committed")
        wait_until(lambda: one.service._commits.state().leads, 60, "it leads")
        table, tp = one.service._parts.lake.table("order"), TopicPartition(export.topic, 0)
        at = table.view().position(export.app, tp)

        def moved() -> bool:
            return bool(table.view().position(export.app, tp) != at)

        said = {"epoch": at.epoch, "expected": at.offset, "new": at.offset + 50, "rows": 0, "first": None, "last": None}
        claim = OfferedClaim(tp, at.epoch, at.offset, at.offset + 50, said)
        forged = Offer(
            export.app, "forged", one.service._parts.watch.owner, "order", table.view().table_id, "", 0, (claim,)
        )
        control = export.settings().control_topic
        produce(export.kafka, control, {0: [Record(None, encode(forged))]})
        wait_until(lambda: of(logs, "control_message_ignored") or moved(), 60, "it is heard")
        assert not moved()
        key = (export.root / "lake" / "_control.keys" / export.app).read_bytes()
        signed = Signature(lambda: key).put_on(encode(replace(forged, id="signed")))
        produce(export.kafka, control, {0: [Record(None, signed)]})
        wait_until(lambda: of(logs, "offer_left_out") or moved(), 60, "it is heard")
        assert "the partition ends at" in of(logs, "offer_left_out")[0]["reason"]
        export.send({0: mixed(RECORDS, RECORDS)})
        wait_until(lambda: one.service.totals.committed.total() == 2 * RECORDS, 60, "what comes next is there")
    naive.assert_each_once(export)
    export.proven(spark)
