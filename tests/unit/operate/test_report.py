"""The facts of the report: what the write-ahead log remembers of commits that failed. No JVM, no network."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from exporter.display.concerns import Concern
from exporter.operate.report import facts as report
from exporter.operate.report.model import DayFiles, FailedCommit
from exporter.wal.dynamodb import HISTORY_PAGES, DynamoDbLog
from exporter.wal.dynamodb_calls import Calls
from exporter.wal.dynamodb_items import TABLE
from offsets.intents import Intent, IntentKey
from offsets.partitions import DAY, Spec
from offsets.ranges import TopicPartition
from tests.support.fake_dynamodb import FakeDynamoDb, Wrapped

TPS = [TopicPartition("events", number) for number in range(3)]
NOTHING: Any = None
SETTINGS: Any = SimpleNamespace(event_time_late_max_secs=3600.0, maintain_file_bytes_max=1 << 20)


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
    notes: list[Concern] = []
    found = report._failed(NOTHING, TPS, notes)
    assert found == [FailedCommit(1_019, "order", tp, (10, 19), 7, "host-b") for tp in TPS] and notes == []


def test_a_log_that_does_not_answer_or_holds_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is not known which commits failed, or not of all; without a log nobody says that it should be."""
    dynamo = FakeDynamoDb(page=1)
    dynamo.create_table(TableName="wal", **TABLE)
    wal = log_over(monkeypatch, dynamo)
    made = [replace(intent(TPS[0], 9 + at, f"c{at}")) for at in range(HISTORY_PAGES + 1)]
    wal.start(made)
    wal.fail(made)
    notes: list[Concern] = []
    found = report._failed(NOTHING, TPS, notes)
    assert found is not None and len(found) == HISTORY_PAGES
    assert len(notes) == 1 and "events-0" in notes[0].what and "more commits than were looked through" in notes[0].what

    def cut(name: str, go_on: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="nowhere")

    log_over(monkeypatch, Wrapped(dynamo, cut))
    assert report._failed(NOTHING, TPS, notes) is None and "commits that failed are not shown" in notes[1].what
    monkeypatch.setattr(report, "open_wal", lambda settings: None)
    assert report._failed(NOTHING, TPS, notes) is None and len(notes) == 2


def add(name: str, stats: dict[str, Any] | None) -> str:
    """A line of a table's log."""
    text = None if stats is None else json.dumps(stats)
    return json.dumps({"add": {"path": name, "dataChange": True, **({"stats": text} if text else {})}})


def test_the_age_of_what_a_commit_brought_is_that_of_its_oldest_record() -> None:
    """As the statistics of its files have it; files that do not tell are passed over."""
    told = [{"numRecords": 1, "minValues": {"_kafka": {"timestamp": f"1970-01-01T00:00:0{at}.000Z"}}} for at in (7, 5)]
    info = json.dumps({"commitInfo": {"timestamp": 9_000, "operation": "WRITE"}})
    lines = [info, add("a", told[0]), add("b", told[1])]
    logged, oldest_ms = report._read(3, lines)
    assert (logged.version, logged.at_ms, logged.added, oldest_ms) == (3, 9_000, ("a", "b"), 5_000)
    assert report._read(3, [*lines[:1], add("a", None), add("b", {"minValues": {}})])[1] is None


def test_files_are_counted_by_day_and_those_that_maintenance_would_join_by_its_own_rule() -> None:
    """Files of a month stand at its first day, of a table without a time at none; an open day is let be."""
    sizes = {DAY.at(datetime(2026, 11, day, tzinfo=timezone.utc)): [10, 20] for day in (1, 2)}
    assert [*report._days("order", sizes)] == [DayFiles("order", f"2026-11-0{day}", 2, 30) for day in (1, 2)]
    for spec, day in ((Spec("month"), "2026-11-01"), (Spec("week"), "2026-11-09"), (Spec("none"), "-")):
        month = {spec.at(datetime(2026, 11, 9, tzinfo=timezone.utc)): [5]}
        assert [*report._days("x", month)] == [DayFiles("x", day, 1, 5)]
    now = datetime(2026, 11, 2, 12, tzinfo=timezone.utc)
    assert [*report._due(sizes, now, SETTINGS)] == [(2, 30)]
