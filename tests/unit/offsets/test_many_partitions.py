"""What a task does once per partition costs what that partition needs, however many others there are. Counted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core import plan, writers
from exporter.core.plan import Budget, expected, plan_round
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Writer, WriterKey
from exporter.lake.accidents import AppHistory
from exporter.operate.audit.audit import _logs
from exporter.operate.audit.pin import PinnedTables, pin
from exporter.protocol.recover import Recovery
from exporter.wal.check import history
from offsets.crosscheck import Agree, Switch
from offsets.names import AppId
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import APP_PROPERTY, CONFIG_PROPERTY, ROUTING_PROPERTY, LoggedCommit, TableView
from tests.support.recovering import recovery_of
from tests.unit.wal.test_keeper import metadata

APP = "app"
TPS = [TopicPartition("events", number) for number in range(40)]
TYPES = ("click", "order", "refund")
OLD, NEW = (
    Routing(TypeFrom("json", "type"), EventTime("record"), tuple((name, "{}") for name in TYPES), generation=number)
    for number in (0, 1)
)


class Table:
    """One table with a position and an anchor in every partition, and nothing in its log that is not ours."""

    def __init__(self, name: str) -> None:
        self.event_type = name
        self.appids = [AppId(APP, tp, 0, kind) for tp in TPS for kind in (None, "anchor")]

    def view(self) -> TableView:
        properties = {APP_PROPERTY: APP}
        if self.event_type == DEAD_LETTERS:
            properties |= {f"{ROUTING_PROPERTY}{tp}": f'{{"0": "{OLD.fingerprint()}"}}' for tp in TPS}
            properties[f"{CONFIG_PROPERTY}{OLD.fingerprint()}"] = OLD.to_json()
        return TableView(0, "id", "f", {str(app_id): 9 for app_id in self.appids}, properties)

    def logged(self, version: int) -> LoggedCommit:
        return LoggedCommit(version, "", "", (), (), False)


def lake() -> Any:
    """Tables of TYPES and the dead letters."""
    tables = {name: Table(name) for name in (*TYPES, DEAD_LETTERS)}
    return SimpleNamespace(app=APP, table=tables.__getitem__, event_types=lambda: tuple(sorted(tables)))


def recovery(routing: Routing) -> Recovery:
    """Start-up over these tables."""
    nothing: Any = None
    return recovery_of(lake(), nothing, routing, nothing)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, say: Any = lambda *given: given) -> list[Any]:
    """What say(*arguments) makes of each call of owner.name from now on; the call itself goes on as before."""
    calls, real = [], getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        calls.append(say(*given))
        return real(*given, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_start_parses_each_position_of_each_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 1,500 partitions had all appIds of five tables parsed, three times over: two minutes with nothing new."""
    task = recovery(OLD)
    parsed = counted(monkeypatch, AppId, "parse")
    verdicts = task.verdicts(task.reader.read(TPS))
    assert {tp: type(found) for tp, found in verdicts.items()} == dict.fromkeys(TPS, Agree)
    assert len(parsed) == (len(TYPES) + 1) * len(TPS) * 2


def test_the_configuration_in_force_is_read_once_for_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one text, however many partitions are to be switched from it."""
    task = recovery(NEW)
    read = counted(monkeypatch, Routing, "from_json")
    verdicts = task.verdicts(task.reader.read(TPS))
    assert {found.in_force_active for found in verdicts.values() if isinstance(found, Switch)} == {OLD.active_types}
    assert len(verdicts) == len(TPS) and len(read) == 1


def test_a_plan_is_integrated_among_the_writers_of_its_own_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan of a round copied the writers of all partitions: a million of them for a round of 200."""
    keys = [WriterKey(name, tp) for tp in TPS for name in TYPES]
    state = {key: Writer(key, 0, 1, 4, 4) for key in keys}
    plans = plan_round(state, dict.fromkeys(TPS, 10), Budget(10_000), 0.0)
    seen = []
    for module in (plan, writers):
        if hasattr(module, "integrate"):
            seen.append(counted(monkeypatch, module, "integrate", lambda some, *_: len(some)))
    after = expected(state, plans, 0.0)
    assert len(plans) == len(TPS) and {one.frontier for one in after.values()} == {9}
    assert sum(map(sum, seen)) == len(keys)


def test_an_empty_log_is_filled_by_looking_at_what_each_commit_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a commit of one partition nothing is asked for the others."""
    log = ["", *(json.dumps(metadata(f"c{tp.partition}", 9, 10, tp)) for tp in TPS)]
    said = [LoggedCommit(number, "", text, (), (), False) for number, text in enumerate(log)]
    table: Any = SimpleNamespace(event_type="click", logged=said.__getitem__)
    view = TableView(len(log) - 1, "id", "f", {str(AppId(APP, tp, 0)): 9 for tp in TPS})
    asked = counted(monkeypatch, TableView, "position", lambda _, app, tp: tp)
    assert [one.key.tp for one in history(table, view, APP, TPS)] == TPS
    assert Counter(asked) == Counter(TPS)


def test_what_an_overwrite_took_away_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistics of each file that is gone are read once, and tell of each partition what it may have lost."""
    adds = [
        {
            "path": f"{tp.partition}", "stats": json.dumps(
                {end: {"_kafka": {"partition": tp.partition, "offset": 4}} for end in ("minValues", "maxValues")}
            ),
        }
        for tp in TPS
    ]  # fmt: skip
    removed = tuple(str(add["path"]) for add in adds)
    log = [
        LoggedCommit(0, "", f'{{"commit_id": "c", "app": "{APP}", "checked_through": -1}}', (), (), False),
        LoggedCommit(1, "WRITE", "", (), removed, True),
    ]
    view = Table("click").view()
    anchors = {str(AppId(APP, tp, 0, "anchor")): 1 for tp in TPS}
    view = replace(view, version=1, transactions={**view.transactions, **anchors})
    table: Any = SimpleNamespace(
        event_type="click", logged=log.__getitem__, files_at=lambda version: adds, empty_entries=lambda *_: [],
        commits=lambda after, through: log[after + 1 : through + 1], view_at=lambda version: view,
    )  # fmt: skip
    read = counted(monkeypatch, json, "loads", lambda text, *_: text)
    losses = AppHistory(table, APP, view).losses
    assert {tp: one.held for tp, one in losses.items()} == dict.fromkeys(TPS, 3)
    assert sum("_kafka" in text for text in read) == len(adds)


def test_an_audit_parses_each_position_of_each_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks each table for the spans, the position and the first epoch of each partition."""
    parsed = counted(monkeypatch, AppId, "parse")
    identities = {"events": TopicIdentity("cluster", "topic", tuple(tp.partition for tp in TPS))}
    pinned = pin(lake(), identities, OLD)
    assert len(pinned.positions) == (len(TYPES) + 1) * len(TPS)
    assert len(parsed) == (len(TYPES) + 1) * len(TPS) * 2


class Asked(dict[Any, Any]):
    """A map that counts how often all of it is gone through."""

    times = 0

    def items(self) -> Any:
        self.times += 1
        return super().items()


def test_an_audit_goes_through_all_positions_once_and_not_for_each_partition() -> None:
    """What is read of each partition: after the least anchor, through the greatest position."""
    positions = Asked({(name, tp): 9 + len(name) for name in TYPES for tp in TPS})
    spans = Asked({(name, tp): [(-1, 3), (len(name), 9)] for name in TYPES for tp in TPS})
    topics: Any = SimpleNamespace(**{
        name: lambda tps, at=at: dict.fromkeys(tps, at)
        for name, at in (("first_offsets", 0), ("end_offsets", 99), ("high_watermarks", 99))
    })  # fmt: skip
    logs = _logs(topics, TPS, PinnedTables({}, positions=positions, spans=spans), {})
    assert {(one.first, one.next) for one in logs.values()} == {(0, 16)}
    assert (positions.times, spans.times) == (1, 1)
