"""Announcing on real log entries in memory: each version with rows, in order, at least once, whatever fails."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from exporter.announce.follower import KEEP_SECS, RELOOK_SECS, Follower, Passed
from exporter.announce.logs import TableLogs
from exporter.announce.memory import MemoryKept, MemorySink
from exporter.announce.pointers import Pointer
from exporter.announce.seams import Trouble
from exporter.lake.log_files import entry
from exporter.stores.memory import MemoryStore
from tests.support.announced import APP, MARKER, OPTIMIZED, Consumer, Lake, committed, rows
from tests.support.services import fresh_name


class Place:
    """A lake, a sink, what is kept, and followers one after the other, as after crashes."""

    def __init__(self) -> None:
        self.lake = Lake(MemoryStore.at(f"memory://{fresh_name()}"))
        self.sink, self.kept = MemorySink(), MemoryKept()
        self.now = 0.0
        self.follower = self.started()

    def started(self) -> Follower:
        logs = TableLogs(self.lake.store, sync=True)
        self.follower = Follower(APP, logs, self.sink, self.kept, clock=lambda: self.now)
        return self.follower

    def passed(self, may_go_on: Callable[[], bool] = lambda: True) -> Passed:
        self.now += RELOOK_SECS
        self.follower.begin()
        return self.follower.passed(may_go_on)

    @property
    def told(self) -> list[tuple[str, int, int]]:
        """(table, after, version) of all that was taken."""
        read = [(table, json.loads(message)) for table, message in self.sink.taken]
        return [(table, one["after"], one["version"]) for table, one in read]


@pytest.fixture
def place() -> Place:
    return Place()


def test_every_version_with_rows_is_told_and_no_other(place: Place) -> None:
    """Markers, OPTIMIZE and another app's commits stand between them; each message names the one before."""
    place.follower.begin()
    place.lake.write("order", MARKER, rows(1), OPTIMIZED, rows(2), committed("z", *rows()[1:], app="other"), MARKER)
    place.lake.write("dead_letters", rows(1))
    place.lake.store.create("_schemas.pins/r/1/0.json", b"{}")
    passed = place.passed()
    assert sorted(place.told) == [("dead_letters", -1, 0), ("order", -1, 1), ("order", 1, 3)]
    assert passed == Passed(3, 0, "", ())
    assert place.passed().messages == 0


def test_a_lake_that_is_there_begins_at_its_versions(place: Place) -> None:
    """What was exported before anybody asked for messages is not told; later tables are told from their first."""
    place.lake.write("order", rows(1), rows(2))
    assert place.follower.begin() == {"order": 1}
    place.lake.write("order", rows(3))
    place.lake.write("click", rows(1))
    place.passed()
    assert sorted(place.told) == [("click", -1, 0), ("order", 1, 2)]


def test_what_a_sink_does_not_take_comes_first_when_it_does(place: Place) -> None:
    """The next version of that table waits behind it; the other tables go on."""
    place.follower.begin()
    place.lake.write("order", rows(1), rows(2))
    place.lake.write("click", rows(1), rows(2))
    place.sink.failing = {"order": "HTTP 500"}
    assert place.passed().trouble == "HTTP 500"
    assert place.told == [("click", -1, 0), ("click", 0, 1)]
    place.sink.failing = {}
    assert place.passed().trouble == ""
    assert place.told[2:] == [("order", -1, 0), ("order", 0, 1)]


def test_pointers_that_cannot_be_kept_hold_nothing_up(place: Place) -> None:
    """It is told; what was announced meanwhile is kept once that goes again."""
    place.follower.begin()
    place.lake.write("order", rows(1))
    place.kept.trouble = "the coordinator does not answer"
    with pytest.raises(Trouble, match="coordinator"):
        place.passed()
    place.kept.trouble = ""
    place.passed()
    assert place.told == [("order", -1, 0)]
    assert place.kept.load() == {"order": Pointer(0, 0)}


def test_pointers_are_kept_anew_before_brokers_forget_them(place: Place) -> None:
    """Those of tables that stand still among them."""
    place.lake.write("order", rows(1))
    place.passed()
    saves = place.kept.saves
    place.passed()
    assert place.kept.saves == saves
    place.now += KEEP_SECS
    place.passed()
    assert place.kept.saves == saves + 1


def test_versions_that_the_log_has_lost_are_told_by_their_numbers(place: Place) -> None:
    """Nobody announced for longer than the log is kept; what comes behind them goes on."""
    place.lake.write("order", rows(1))
    place.passed()
    place.lake.write("order", rows(2), MARKER, rows(3), rows(4))
    place.lake.clean("order", before=3)
    place.started()
    assert place.passed() == Passed(3, 1, "", ())
    kinds = [(one["kind"], one.get("first"), one["version"]) for _, one in map(_read, place.sink.taken)]
    assert kinds == [("skipped", 1, 2), ("version", None, 3), ("version", None, 4)]
    assert place.told == [("order", 0, 2), ("order", 2, 3), ("order", 3, 4)]


def test_versions_without_rows_that_are_cleaned_up_are_not_missed(place: Place) -> None:
    """A table that only moved its position for a month has lost nothing that would have been told."""
    place.lake.write("order", rows(1))
    place.passed()
    place.lake.write("order", *[MARKER] * 250)
    place.passed()
    assert place.kept.load() == {"order": Pointer(0, 250)}
    place.lake.clean("order", before=200)
    place.lake.write("order", rows(2))
    place.started()
    assert place.passed() == Passed(1, 0, "", ())
    assert place.told == [("order", 0, 251)]


def test_a_version_that_comes_between_two_looks_is_not_taken_for_a_lost_one(place: Place) -> None:
    """The entry was not there when it was asked for, and is when the log is listed."""
    logs = TableLogs(place.lake.store, sync=True)
    follower, lines = Follower(APP, logs, place.sink, place.kept), logs.lines
    follower.begin()
    place.lake.write("order", MARKER)

    def late(table: str, version: int) -> list[str] | None:
        if version == place.lake.versions[table] + 1 == 1:
            place.lake.write("order", rows(1))
            return None
        return lines(table, version)

    logs.lines = late  # type: ignore[method-assign]
    assert follower.passed(lambda: True) == Passed(1, 0, "", ())
    assert place.told == [("order", -1, 1)]


def test_a_log_that_lacks_an_entry_is_told(place: Place) -> None:
    """Nothing says that it was cleaned up: somebody has deleted it, and nobody knows what it was."""
    place.follower.begin()
    place.lake.write("order", rows(1))
    place.passed()
    place.lake.store.below("order").create(entry(2), b'{"commitInfo": {}}\n')
    assert place.passed().trouble == "table order: its log lacks an entry"


@pytest.mark.parametrize("body", [b"", b"\n", b'{"commitInfo"', b"[]\n", b'"x"\n', b"\xff\xfe\n"])
def test_an_entry_that_cannot_be_read_is_waited_at(place: Place, body: bytes) -> None:
    """A power cut leaves an empty one, and a repair makes it anew: to go on behind it would lose its rows' message."""
    place.follower.begin()
    place.lake.write("order", rows(1))
    table = place.lake.store.below("order")
    table.create(entry(1), body)
    table.create(entry(2), b'{"commitInfo": {}}\n')
    assert "order: version 1 cannot be read" in place.passed().trouble
    assert place.told == [("order", -1, 0)]


def test_a_table_that_was_made_anew_is_told_from_its_first_version(place: Place) -> None:
    """Its versions begin again; the table's id in the messages tells the two apart."""
    place.lake.write("order", rows(1), rows(2), rows(3))
    place.passed()
    disk = place.lake.store.disk
    disk.bodies = {path: body for path, body in disk.bodies.items() if "/order/" not in path}
    disk.bodies[place.lake.store.uri(f"order/{entry(0)}")] = "\n".join(map(json.dumps, rows(1))).encode()
    place.passed()
    assert place.told == [("order", -1, 0)]


def test_an_entry_is_on_disk_before_it_is_told(place: Place) -> None:
    """Else a power cut could take the version and its number would be another's, which consumers skip."""
    place.follower.begin()
    place.lake.write("order", rows(1))
    place.sink.failing = {"": "not yet"}
    place.passed()
    assert place.lake.store.disk.synced == [place.lake.store.uri("order/_delta_log")]


def test_tables_without_room_for_their_pointers_are_named_and_told_again(place: Place) -> None:
    """After a crash they begin at their first version beside the others, which have pointers."""
    names = [f"type_{number:03d}_{'x' * 150}" for number in range(40)]
    for name in names:
        place.lake.write(name, rows(1))
    left_out = place.passed().left_out
    assert 0 < len(left_out) < 40
    place.started()
    place.passed()
    assert {table for table, _, _ in place.told} == set(left_out)


def test_who_leads_no_more_stops_at_once(place: Place) -> None:
    """In the middle of a backlog too; what it has told is kept."""
    place.follower.begin()
    place.lake.write("order", *[rows(number) for number in range(1, 9)])
    place.passed(lambda: len(place.sink.taken) < 2)
    assert place.kept.load() == {"order": Pointer(1, 1)}


@pytest.mark.parametrize("seed", range(60))
def test_a_consumer_sees_every_version_in_order_over_crashes_and_two_leaders(seed: int) -> None:
    """Two followers over one lake, crashes, sinks and keepers that fail, leaders that wake up: none is missed."""
    made, place, consumer = random.Random(seed), Place(), Consumer()
    place.follower.begin()
    followers = [place.started(), place.started()]
    expected: dict[str, list[int]] = {}
    for _ in range(120):
        action = made.random()
        if action < 0.4:
            table = made.choice("abc")
            with_rows = made.random() < 0.7
            place.lake.write(table, rows(1) if with_rows else made.choice([MARKER, OPTIMIZED]))
            expected.setdefault(table, []).extend([place.lake.versions[table]] * with_rows)
        elif action < 0.5:
            followers[made.randrange(2)] = place.started()
        elif action < 0.6:
            place.sink.failing = made.choice([{}, {}, {"": "down"}, {"a": "down"}])
            place.kept.trouble = made.choice(["", "", "silent"])
        else:
            _pass_for_a_while(made, place, made.choice(followers))
    place.sink.failing, place.kept.trouble = {}, ""
    for follower in followers:
        place.follower = follower
        place.passed()
    for _, message in place.sink.taken:
        consumer.take(message)
    assert (consumer.seen, consumer.missed) == ({table: one for table, one in expected.items() if one}, [])


def _pass_for_a_while(made: random.Random, place: Place, follower: Follower) -> None:
    turns = made.randrange(4)

    def may_go_on() -> bool:
        nonlocal turns
        turns -= 1
        return turns >= 0

    place.follower = follower
    try:
        place.passed(may_go_on)
        if made.random() < 0.3:
            follower.forget()
    except Trouble:
        pass


def _read(taken: tuple[str, bytes]) -> tuple[str, dict[str, Any]]:
    return taken[0], json.loads(taken[1])
