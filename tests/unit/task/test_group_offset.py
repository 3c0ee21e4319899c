"""What the group is told, and when: without a group."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from exporter.task.group_offset import AGAIN_SECS, PAUSE_SECS, GroupOffset, NextOffsets
from tests.support.lakes import wait_until
from tests.support.snapshots import P0, P1


class Told:
    """A group that answers when it is let, with `error`; and the machine that tells it."""

    def __init__(self) -> None:
        self.calls: list[dict[object, int]] = []
        self.error = ""
        self.let = threading.Event()
        self.let.set()
        self.woken = threading.Event()
        self.machine = GroupOffset(commit=self.commit, wake=self.woken.set)

    def commit(self, offsets: NextOffsets) -> str:
        assert self.let.wait(10)
        self.calls.append(dict(offsets))
        return self.error

    def tick(self, now: float, offsets: NextOffsets, hurry: bool = False) -> None:
        """One iteration of the loop, and, if the group may answer, until it has."""
        self.machine.tick(now, lambda: offsets, lambda: hurry)
        if self.let.is_set() and not self.machine.is_settled:
            wait_until(self.woken.is_set, 10, "an answer")
            self.woken.clear()


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told()
    yield made
    made.let.set()
    made.machine.close()


def test_only_what_has_changed_is_told_and_not_more_often_than_once_in_a_while(told: Told) -> None:
    """At once where there is a hurry."""
    told.tick(0.0, {P0: 1, P1: 1})
    told.tick(PAUSE_SECS / 2, {P0: 2, P1: 1})
    assert told.calls == [{P0: 1, P1: 1}]
    told.tick(PAUSE_SECS, {P0: 2, P1: 1})
    told.tick(PAUSE_SECS, {P0: 3, P1: 1}, hurry=True)
    told.tick(9.0, {P0: 3, P1: 1})
    assert told.calls[1:] == [{P0: 2}, {P0: 3}]


def test_while_a_call_is_under_way_there_is_no_other(told: Told) -> None:
    """However long it takes; then the newest is told."""
    told.let.clear()
    told.tick(0.0, {P0: 1})
    for second in range(1, 9):
        told.tick(float(second), {P0: second}, hurry=True)
    assert not told.machine.is_settled and told.calls == []
    told.let.set()
    wait_until(told.woken.is_set, 10, "an answer")
    told.woken.clear()
    told.tick(9.0, {P0: 9})
    assert told.calls == [{P0: 1}, {P0: 9}]


def test_what_went_wrong_is_told_again(told: Told) -> None:
    """All of it: the group may know nothing."""
    told.error = "no coordinator"
    told.tick(0.0, {P0: 1, P1: 5})
    told.error = ""
    told.tick(5.0, {P0: 2, P1: 5})
    assert told.machine.is_settled
    told.tick(10.0, {P0: 2, P1: 5})
    assert told.calls == [{P0: 1, P1: 5}, {P0: 2, P1: 5}]


def test_all_is_told_again_once_in_a_while(told: Told) -> None:
    """What a former owner has said last may have arrived behind it."""
    told.tick(0.0, {P0: 1, P1: 1})
    told.tick(AGAIN_SECS - 1, {P0: 2, P1: 1})
    told.tick(AGAIN_SECS, {P0: 2, P1: 1})
    assert told.calls == [{P0: 1, P1: 1}, {P0: 2}, {P0: 2, P1: 1}]
