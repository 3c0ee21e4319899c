"""COUNT: what a filter leaves out is counted by the commit that passes it, once, whoever dies (protocol 3.9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.user_metadata import claimed
from exporter.core.writers import (
    Claim,
    Fragment,
    PartitionPlan,
    Writer,
    WriterKey,
    drop,
    freeze,
    integrate,
    landed,
)
from offsets.ranges import TopicPartition

TP = TopicPartition("orders", 0)
A = WriterKey("A", TP)


def is_filtered(offset: int) -> bool:
    """Which records of the world the filter leaves out."""
    return offset % 3 == 0


def filtered(first: int, last: int) -> int:
    """How many of them lie in a range, its ends included."""
    return sum(map(is_filtered, range(first, last + 1)))


def read(writer: Writer, bound: int, end: int) -> Writer:
    """Integrate a round that was planned for a bound and staged nothing but what it counts."""
    plan = PartitionPlan(TP, 1, 0, bound + 1, end, {"A": bound})
    fragment = Fragment(plan, filtered={"A": filtered(bound + 1, end - 1)})
    return integrate({A: writer}, fragment, 0.0).writers[A]


class World:
    """One table, and the process that fills it; another one that starts has what the table says."""

    def __init__(self) -> None:
        self.covered = -1
        self.counted = 0
        self.writer = Writer(A, 0, 1, -1, -1)
        self.planned: list[int] = []

    def plans(self, length: int) -> None:
        """A round is begun; its bound is the frontier of then."""
        self.planned.append(self.writer.frontier)

    def reads(self, length: int) -> None:
        """The oldest round ends; it is discarded if its bound is not the frontier any more."""
        bound = self.planned.pop(0) if self.planned else self.writer.frontier
        self.writer = read(self.writer, bound, bound + 1 + length)

    def freezes(self, _: int) -> None:
        """A claim is frozen, if none is open."""
        if self.writer.claim is None and self.writer.frontier > self.writer.covered:
            self.writer = freeze(self.writer, 0)

    def lands(self, told: int) -> None:
        """The claim is in the table; without being told (an even number) the process drops and reads the table."""
        claim = self.writer.claim
        if claim is None or claim.expected != self.covered:
            return
        self.covered, self.counted = claim.new, self.counted + claim.filtered
        if told % 2:
            self.writer = landed(self.writer, claim, 0.0)
        else:
            self.dies(0)

    def drops(self, _: int) -> None:
        """A staged file is missing, or the commit was refused."""
        self.writer = drop(self.writer)

    def dies(self, _: int) -> None:
        """The next process begins at the table's position."""
        self.writer, self.planned = Writer(A, 0, 1, self.covered, self.covered), []


STEPS: list[Callable[[World, int], None]] = [
    World.plans, World.reads, World.reads, World.reads, World.freezes, World.freezes, World.lands, World.lands,
    World.drops, World.dies,
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 5)), min_size=20, max_size=60))
def test_the_commits_count_each_filtered_record_once(script):
    """Over all commits: as many as lie at or below the position."""
    world = World()
    for step, number in script:
        step(world, number)
        assert world.counted == filtered(0, world.covered)


def test_what_comes_after_the_freeze_stays_with_the_writer():
    """The claim says what was counted until then, its commit too; the rest waits for the next one."""
    frozen = freeze(read(Writer(A, 0, 1, -1, -1), -1, 6), 0)
    later = read(frozen, 5, 12)
    assert later.claim is not None and later.claim.filtered == 2 and later.filtered == 4
    assert claimed(later.claim)["filtered"] == 2
    after = landed(later, later.claim, 0.0)
    assert after.filtered == 2 and drop(after).filtered == 0


@pytest.mark.parametrize("count", [0, 3])
def test_a_commit_says_nothing_of_filters_where_nothing_was_filtered(count):
    """So that what is stored stays as it was."""
    said = claimed(Claim(A, 0, -1, 9, (), 0, filtered=count))
    assert said.get("filtered", 0) == count and ("filtered" in said) == bool(count)


def test_a_type_that_is_not_integrated_counts_nothing():
    """Its files could not be written, or it is read again."""
    writer = Writer(A, 0, 1, -1, -1)
    plan = PartitionPlan(TP, 1, 0, 0, 6, {"A": -1})
    for fragment in (Fragment(plan, unwritten={"A": "full"}, filtered={"A": 2}),
                     Fragment(plan, again={"A": "a column"}, filtered={"A": 2})):  # fmt: skip
        assert integrate({A: writer}, fragment, 0.0).writers[A] == writer
