"""The facts of the report: what the write-ahead log remembers of commits that failed. No JVM, no network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from exporter.operate.report import facts as report
from exporter.operate.report.page import Failed
from exporter.wal.dynamodb import HISTORY_PAGES, DynamoDbLog
from exporter.wal.dynamodb_calls import Calls
from exporter.wal.dynamodb_items import TABLE
from offsets.intents import Intent, IntentKey
from offsets.ranges import TopicPartition
from tests.support.fake_dynamodb import FakeDynamoDb, Wrapped

TPS = [TopicPartition("events", number) for number in range(3)]
NOTHING: Any = None


def intent(tp: TopicPartition, new: int, commit_id: str) -> Intent:
    key = IntentKey("order", tp, 0)
    return Intent(key, commit_id, "host-b", new - 10, new, new - 9, new, 7, 3, "T", "R", 1_000 + new)


def log_over(monkeypatch: pytest.MonkeyPatch, client: Any) -> DynamoDbLog:
    """The settings' log, on a client."""
    wal = DynamoDbLog(Calls(client, 0.0), "wal", "app")
    monkeypatch.setattr(report, "open_wal", lambda settings: wal)
    return wal


def test_the_report_tells_every_commit_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all partitions; not what landed, and not what may still land."""
    dynamo = FakeDynamoDb()
    dynamo.create_table(TableName="wal", **TABLE)
    wal = log_over(monkeypatch, dynamo)
    made = [intent(tp, new, f"c{new}") for tp in TPS for new in (9, 19, 29)]
    wal.start(made)
    wal.complete(made[::3], 4)
    wal.fail(made[1::3])
    notes: list[str] = []
    found = report._failed(NOTHING, TPS, notes)
    assert found == [Failed(1_019, "order", tp, (10, 19), 7, "host-b") for tp in TPS] and notes == []


def test_a_log_that_does_not_answer_or_holds_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is not known which commits failed, or not of all; without a log nobody says that it should be."""
    dynamo = FakeDynamoDb(page=1)
    dynamo.create_table(TableName="wal", **TABLE)
    wal = log_over(monkeypatch, dynamo)
    made = [replace(intent(TPS[0], 9 + at, f"c{at}")) for at in range(HISTORY_PAGES + 1)]
    wal.start(made)
    wal.fail(made)
    notes: list[str] = []
    found = report._failed(NOTHING, TPS, notes)
    assert found is not None and len(found) == HISTORY_PAGES
    assert len(notes) == 1 and "events-0" in notes[0] and "more commits than were looked through" in notes[0]

    def cut(name: str, go_on: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="nowhere")

    log_over(monkeypatch, Wrapped(dynamo, cut))
    assert report._failed(NOTHING, TPS, notes) is None and "Commits that failed are not shown" in notes[1]
    monkeypatch.setattr(report, "open_wal", lambda settings: None)
    assert report._failed(NOTHING, TPS, notes) is None and len(notes) == 2
