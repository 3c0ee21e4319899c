"""Coordinated commits of static tasks: who leads is by a lease in the write-ahead log, not by the least partition."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from exporter.local.broker import create_topic
from exporter.settings import model
from tests.support import naive
from tests.support.lakes import Export, Exports, Going, mixed, wait_until
from tests.support.services import fresh_name
from tests.support.wals import Log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def log(dynamodb: str) -> Log:
    return Log(dynamodb, fresh_name("wal"))


@pytest.fixture
def export(kafka: str, exports: Exports, log: Log, monkeypatch: pytest.MonkeyPatch) -> Export:
    """One partition for each of two tasks. Only rounds commit within the time of the test."""
    monkeypatch.setattr(model, "ROUNDS_MISSED", 60)
    control = fresh_name("control")
    create_topic(kafka, control)
    return log.of(
        exports(2), assignment="static", partitions="0/1",
        lease_secs=4.0, control_topic=control, commit_interval_secs=1.0, heartbeat_secs=60,
    )  # fmt: skip


def test_the_next_task_leads_although_the_least_partition_is_nobody_s(export: Export, spark: Any, log: Log) -> None:
    """Its share is not given to anybody: by the least partition nobody would lead, and each batch would time out."""
    rows = 0

    def written(*partitions: int) -> int:
        nonlocal rows
        export.send({p: mixed(40, 1_000 * p + rows) for p in partitions})
        rows += 40 * len(partitions)
        return rows

    def leads(task: Going) -> bool:
        return bool(task.service._commits.state().leads)

    def in_tables(count: int) -> Callable[[], bool]:
        return lambda: sum(map(len, export.placed().values())) == count

    with ExitStack() as stack:
        first, second = (
            stack.enter_context(export.with_(partitions=f"{share}/2").going(spark)) for share in range(2)
        )
        wait_until(in_tables(written(0, 1)), 60, "both commit")
        wait_until(lambda: leads(first) or leads(second), 60, "one leads")
        assert not (leads(first) and leads(second))
        leader, other = (first, second) if leads(first) else (second, first)
        leader.stop()
        wait_until(lambda: leads(other), 60, "the other one leads")
        wait_until(in_tables(written(0 if other is first else 1)), 60, "and commits in rounds of its own")
        wait_until(lambda: other.service._commits.state().commits > 0, 60, "whose outcomes are told")
        assert not set(other.service._commits.state().ended) - {"answered"}
    naive.assert_each_once(export)
    assert not log.states()["started"]
    export.proven(spark)
