"""When a spared record is settled. No Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.order import TableTarget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Claim, Writer, WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.settling import Moved
from exporter.protocol.known import KnownTables
from exporter.protocol.poison import Spared
from exporter.task.settling import Settling
from offsets import Invariant
from offsets.poison import spared_transactions
from offsets.positions import TOMBSTONE, Position, poison_offsets, spared_offsets
from tests.support.snapshots import P0, P1

ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (("click", "id BIGINT"),))
DEAD, CLICK = WriterKey(DEAD_LETTERS, P0), WriterKey("click", P0)


class Place:
    """Offset 10 of a partition is spared; the dead letters are past it, and so is click unless a test says otherwise.
    """

    def __init__(self) -> None:
        nothing: Any = None
        self.committer = committer = MemoryCommitter("app", {"routing": "r"})
        self.known = KnownTables(app="app", routing=ROUTING, topics=nothing, committer=committer)
        self.known.tables |= {DEAD_LETTERS: TableTarget("f"), "click": TableTarget("c")}
        self.known.add_poison(P0, 10)
        self.writers = {DEAD: Writer(DEAD, 2, 1, 10, 10), CLICK: Writer(CLICK, 2, 1, 12, 14)}
        self.settled = list[Spared]()
        self.raises: list[Exception] = []
        self.damaged: set[int] = set()
        self.machine = Settling(
            routing=ROUTING, known=self.known, committer=committer, poison=self  # type: ignore[arg-type]
        )

    def settle(self, spared: Spared) -> None:
        if self.raises:
            raise self.raises.pop()
        if spared.offset in self.damaged:
            raise OSError("crc")
        self.settled.append(spared)

    def tick(self, now: float = 0.0) -> set[Any]:
        return self.machine.tick(now, self.writers)


def test_a_spared_record_is_settled_once_all_tables_are_past_it() -> None:
    """What is read and not committed does not count; a partition without writers is not this task's."""
    place = Place()
    place.known.add_poison(P1, 3)
    place.writers[CLICK] = replace(place.writers[CLICK], covered=9)
    assert place.tick() == set() and not place.settled and not place.machine.waits(place.writers)
    place.writers[CLICK] = replace(place.writers[CLICK], covered=10)
    assert place.machine.waits(place.writers) and place.tick() == set()
    (spared,) = place.settled
    assert (spared.tp, spared.offset, spared.footer, spared.routing) == (P0, 10, {"routing": "r"}, ROUTING)
    assert place.tick() == set() and len(place.settled) == 1 and not place.machine.waits(place.writers)
    assert place.known.poison_offsets == {P0: {10}, P1: {3}} and place.known.spared == {P0: set(), P1: {3}}


def test_what_others_have_spared_is_settled_too() -> None:
    """A task that has lost the partition has spared a record since: the next look of a commit sees it, and once."""
    place = Place()
    place.known.settled(P0, 10)
    place.committer.tables[DEAD_LETTERS] = MemoryTable({})
    view = place.committer.view(DEAD_LETTERS)
    assert view is not None and place.tick() == set() and not place.settled
    at = Position(2, 10)
    spared = {**spared_transactions("app", P0, 7, at), **spared_transactions("app", P1, 8, at)}
    place.committer.found_dead_letters = replace(view, transactions=spared)
    assert place.tick() == place.tick() == set()
    assert [(one.tp, one.offset) for one in place.settled] == [(P0, 7)]
    assert place.known.poison_offsets == {P0: {7, 10}} and place.known.spared == {P0: set()}


def test_it_waits_while_the_dead_letters_are_committed() -> None:
    """Their position may move, and what is written goes by it."""
    place = Place()
    place.writers[DEAD] = replace(place.writers[DEAD], claim=Claim(DEAD, 2, 10, 14, (), 0))
    assert place.tick() == set() and not place.settled and place.machine.waits(place.writers)


def test_what_stands_in_its_way_is_read_again_or_waited_for() -> None:
    """A table that is behind after all: the partition is read again. Trouble: later, and the later the more often."""
    place = Place()
    place.raises = [Moved("table order is behind")]
    assert place.tick() == {P0} and place.known.spared == {P0: {10}}
    place.raises = [OSError("no"), OSError("no")]
    assert place.tick(1.0) == set() and len(place.raises) == 1
    assert place.tick(1.5) == set() and len(place.raises) == 1
    assert place.tick(40.0) == set() and not place.raises
    assert place.tick(100.0) == set() and len(place.settled) == 1
    place = Place()
    place.raises = [InvariantBroken(Invariant.MONOTONE, "gone", "put it back")]
    with pytest.raises(InvariantBroken):
        place.tick()


def test_a_record_that_cannot_be_settled_holds_up_no_other_and_is_told() -> None:
    """Its partition is stuck, until it can be; a run with an end does not wait for it for ever."""
    place = Place()
    place.known.add_poison(P0, 9)
    place.damaged = {9}
    assert place.tick() == set() and [one.offset for one in place.settled] == [10] and not place.machine.stuck()
    for now in (10.0, 20.0):
        place.tick(now)
    assert place.machine.stuck() == {P0: "a poison record of it cannot be settled: offset 9, OSError: crc"}
    assert place.machine.waits(place.writers) and not place.machine.waits(place.writers, {P0: "stuck"})
    place.damaged = set()
    place.tick(100.0)
    assert [one.offset for one in place.settled] == [10, 9] and not place.machine.stuck()


def test_who_takes_a_partition_over_knows_what_is_spared() -> None:
    """By the dead letters alone; a record that was settled since is not."""
    said = {"app/spared/t/0/10": 2, "app/spared/t/0/11": TOMBSTONE, "app/skipped/t/0/11": 2}
    tp = type(P0)("t", 0)
    assert (poison_offsets(said, "app", tp), spared_offsets(said, "app", tp)) == ({10, 11}, {10})
