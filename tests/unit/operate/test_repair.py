"""Repairs over tables in memory: what each of them plans, and how a plan is put into effect. No JVM, no broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.specs import Specs
from exporter.errors import CannotRepair, DependencyUnreachable
from exporter.lake.change import Change
from exporter.operate.repair.adopt import Adopt
from exporter.operate.repair.applying import Applying
from exporter.operate.repair.reading import NothingToRepair
from exporter.operate.repair.rebase import Rebase
from exporter.operate.repair.wal import put_log_right
from exporter.wal.check import LogCheck
from exporter.wal.journal import Journal
from exporter.wal.memory import MemoryLog
from offsets.intents import Intent, IntentKey, IntentState, WalUnreachable
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.rewind import Bound, Cut
from offsets.table_log import (
    APP_PROPERTY,
    CLUSTER_PROPERTY,
    CONFIG_PROPERTY,
    ROUTING_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
)
from tests.support.memory_tables import MemoryTable, nothing

APP, TP = "app", TopicPartition("events", 0)
ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (("order", '{"type":"struct","fields":[]}'),))
THEN = {"events": TopicIdentity("cluster", "topic", (0,))}
NOW = {"events": TopicIdentity("cluster", "made anew", (0,))}


class Table(MemoryTable):
    """As a repair sees it."""

    def __init__(self, lake: MemoryLake, name: str, app: str, at: int, properties: dict[str, str]) -> None:
        said = {"epoch": 0, "expected": at - 10, "new": at, "first": at - 9, "last": at, "rows": 10}
        own = {"commit_id": f"{name}-1", "app": app, "checked_through": 0, "partitions": {str(TP): said}}
        super().__init__(name, {TP: at}, app, properties, [{}, own])
        self.lake = lake

    def commit(self, change: Change, check: Callable[[TableView], Any]) -> int:
        before, self.before = self.before, nothing
        before()
        version = super().commit(change, check)
        self.lake.written.append(self.event_type)
        return version

    def commands(self) -> Any:
        """Of Delta's package."""
        return SimpleNamespace(delete=lambda condition: self.lake.written.append(f"DELETE {self.event_type}"))


class MemoryLake:
    """One type's table and the dead letters; written: which of them was committed to, in order."""

    root, specs = "lake", Specs()

    def __init__(self, app: str = APP, tables_of: str = APP) -> None:
        self.app = app
        self.written: list[str] = []
        fingerprint = ROUTING.fingerprint()
        known = {CLUSTER_PROPERTY: "cluster", f"{TOPIC_PROPERTY}events": "topic"}
        dead_letters = {
            **known,
            f"{ROUTING_PROPERTY}{TP}": json.dumps({"0": fingerprint}),
            f"{CONFIG_PROPERTY}{fingerprint}": ROUTING.to_json(),
            f"{TABLE_PROPERTY}order": "id of order",
        }
        self.tables = {
            "order": Table(self, "order", tables_of, 19, known),
            DEAD_LETTERS: Table(self, DEAD_LETTERS, tables_of, 29, dead_letters),
        }

    def event_types(self) -> tuple[str, ...]:
        return tuple(sorted(self.tables))

    def table(self, name: str) -> Any:
        """One that is not there has no view, as in a lake."""
        return self.tables.get(name) or SimpleNamespace(view=lambda: None)

    def positions(self) -> dict[str, Position | None]:
        return {name: table.view().position(self.app, TP) for name, table in self.tables.items()}


@pytest.fixture
def lake() -> Any:
    return MemoryLake()


def rebase(lake: Any, starts: int = 5, identities: dict[str, TopicIdentity] = NOW) -> Rebase:
    return Rebase(lake, identities, lambda tps: dict.fromkeys(tps, starts))


def test_a_topic_that_was_made_anew_begins_a_new_epoch_the_dead_letters_last(lake: Any) -> None:
    """Protocol 5.4: as long as they have not followed, every task stays away; the log is told before and after."""
    wal = MemoryLog(APP)
    rows = Applying(lake, Journal(wal, True, "me", "R"), "rebase").run(rebase(lake).plan, apply=True)
    assert lake.written == ["order", DEAD_LETTERS]
    assert lake.positions() == dict.fromkeys(("order", DEAD_LETTERS), Position(1, 4))
    assert {table.properties[f"{TOPIC_PROPERTY}events"] for table in lake.tables.values()} == {"made anew"}
    assert json.loads(lake.tables[DEAD_LETTERS].properties[f"{ROUTING_PROPERTY}{TP}"])["1"] == ROUTING.fingerprint()
    assert [(row.table, row.old, row.new) for row in rows] == [
        ("order", Position(0, 19), Position(1, 4)), (DEAD_LETTERS, Position(0, 29), Position(1, 4)),
    ]  # fmt: skip
    logged = [(one.key.event_type, one.key.epoch, one.new, one.rows, one.state, one.version) for one in wal.read(TP)]
    assert logged == [
        (DEAD_LETTERS, 1, 4, 0, IntentState.COMPLETED, 2), ("order", 1, 4, 0, IntentState.COMPLETED, 2),
    ]  # fmt: skip


def test_a_dry_run_tells_the_same_and_writes_nothing(lake: Any) -> None:
    """Also not to the log."""
    wal = MemoryLog(APP)
    rows = Applying(lake, Journal(wal, True, "me", "R"), "rebase").run(rebase(lake).plan, apply=False)
    assert [row.table for row in rows] == ["order", DEAD_LETTERS]
    assert lake.written == [] and wal.read(TP) == () and lake.positions()["order"] == Position(0, 19)


def test_a_table_that_is_written_meanwhile_is_read_again(lake: Any) -> None:
    """Nothing is committed to another version than the one that was read."""
    table = lake.tables["order"]

    def somebody_commits() -> None:
        table.said.append({})

    table.before = somebody_commits
    Applying(lake, Journal(), "rebase").run(rebase(lake).plan, apply=True)
    assert lake.written == ["order", DEAD_LETTERS] and len(table.said) == 4
    assert table.said[-1]["checked_through"] == 2


def test_a_table_that_appears_meanwhile_is_moved_before_the_dead_letters(lake: Any) -> None:
    """They are written by a plan that finds nothing else to do."""
    properties = {CLUSTER_PROPERTY: "cluster", f"{TOPIC_PROPERTY}events": "topic"}
    lake.tables["order"].before = lambda: lake.tables.update(zebra=Table(lake, "zebra", APP, 29, properties))
    Applying(lake, Journal(), "rebase").run(rebase(lake).plan, apply=True)
    assert lake.written == ["order", "zebra", DEAD_LETTERS]


def test_a_repair_that_was_interrupted_goes_on_where_it_ended(lake: Any) -> None:
    """By the tables alone: the type is in the next epoch, the dead letters are not."""
    lake.tables[DEAD_LETTERS].before = lambda: (_ for _ in ()).throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        Applying(lake, Journal(), "rebase").run(rebase(lake).plan, apply=True)
    assert lake.positions() == {"order": Position(1, 4), DEAD_LETTERS: Position(0, 29)}
    assert [step.name for step in rebase(lake).plan()] == [DEAD_LETTERS]
    Applying(lake, Journal(), "rebase").run(rebase(lake).plan, apply=True)
    assert lake.written == ["order", DEAD_LETTERS]
    assert lake.positions() == dict.fromkeys(("order", DEAD_LETTERS), Position(1, 4))


def test_the_topic_that_was_exported_is_nothing_to_rebase(lake: Any) -> None:
    """For the verb that is no failure."""
    with pytest.raises(NothingToRepair, match="nothing to rebase"):
        Applying(lake, Journal(), "rebase").run(rebase(lake, identities=THEN).plan, apply=True)
    assert lake.written == []


def test_a_log_that_does_not_answer_keeps_a_repair_from_the_tables(lake: Any) -> None:
    """What is moved is written to it first (ORDER)."""

    def cut(name: str, go_on: Callable[[], Any]) -> Any:
        raise WalUnreachable("cut")

    journal = Journal(MemoryLog(APP, around=cut), True, "me", "R")
    with pytest.raises(DependencyUnreachable, match="a repair is written to it first"):
        Applying(lake, journal, "rebase").run(rebase(lake).plan, apply=True)
    assert lake.written == []


def test_rows_that_a_table_must_not_keep_go_before_its_positions_do(lake: Any) -> None:
    """In files that hold others too; then it is read again, and only then committed to."""
    mixed = replace(rebase(lake).plan()[0], files=Cut((), ("mixed.parquet",)), bounds=(Bound(TP, 4, 0),))
    planned = iter([[mixed]])
    found = Applying(lake, Journal(), "rewind").run(lambda: next(planned, rebase(lake).plan()), apply=True)
    assert lake.written == ["DELETE order", "order", DEAD_LETTERS] and len(found) == 2


def test_tables_of_another_app_become_ours_with_all_that_they_remember() -> None:
    """Protocol 5.6: each in its epoch, at its position; the dead letters last."""
    lake: Any = MemoryLake(app="new", tables_of="old")
    assert lake.positions() == {"order": None, DEAD_LETTERS: None}
    rows = Applying(lake, Journal(), "adopt").run(Adopt(lake, THEN, "old").plan, apply=True)
    assert lake.written == ["order", DEAD_LETTERS]
    assert lake.positions() == {"order": Position(0, 19), DEAD_LETTERS: Position(0, 29)}
    assert {table.properties[APP_PROPERTY] for table in lake.tables.values()} == {"new"}
    assert {row.says for row in rows} == {"was old's, becomes new's"}


@pytest.mark.parametrize(
    ("former", "identities", "says"),
    [("new", THEN, "which is the app itself"), ("old", NOW, "knows nothing of topic events"),
     ("nobody", THEN, "there is no table of app nobody")],
)  # fmt: skip
def test_what_cannot_be_adopted_is_refused(former: str, identities: dict[str, TopicIdentity], says: str) -> None:
    """One's own tables, those of another topic, none."""
    lake: Any = MemoryLake(app="new", tables_of="old")
    if former == "nobody":
        lake.tables.clear()
    with pytest.raises(CannotRepair, match=says):
        Adopt(lake, identities, former).plan()
    assert lake.written == []


def test_a_log_that_was_lost_is_filled_from_the_tables_and_one_that_lags_is_completed(lake: Any) -> None:
    """The tables are the truth; a dry run tells what is done."""
    wal = MemoryLog(APP)
    key = IntentKey("order", TP, 0)
    wal.start([Intent(key, "order-1", "other", 9, 19, 10, 19, 10, 0, "id of order", "R", 0)])
    check = LogCheck(lake, Journal(wal, True, "me", "R"))
    told = [put_log_right(lake, check, [TP], apply) for apply in (False, True)]
    assert told[0] == told[1]
    assert [(row.table, row.says.split(":")[0]) for row in told[0]] == [
        (DEAD_LETTERS, "is written to the log again"), ("order", "is completed in the log"),
    ]  # fmt: skip
    assert {(one.key.event_type, one.state, one.version) for one in wal.read(TP)} == {
        (DEAD_LETTERS, IntentState.COMPLETED, 1), ("order", IntentState.COMPLETED, 1),
    }  # fmt: skip
    with pytest.raises(NothingToRepair):
        put_log_right(lake, check, [TP], apply=True)
    assert lake.written == []


def test_without_a_log_there_is_none_to_put_right(lake: Any) -> None:
    """And it is said how there would be one."""
    with pytest.raises(CannotRepair, match="no write-ahead log"):
        put_log_right(lake, LogCheck(lake, Journal()), [TP], apply=True)
