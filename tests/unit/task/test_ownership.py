"""Which partitions are a task's, and what of a reading counts for them: without a group."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest
from structlog.testing import capture_logs

from exporter.core.writers import WriterKey
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.monitor.totals import Totals
from exporter.task.ownership import Ownership
from offsets.ranges import TopicPartition
from tests.support.snapshots import P0, P1, writer


class Dropping:
    """Counts 7 staged rows for each partition whose writers are dropped."""

    def __init__(self) -> None:
        self.dropped: list[set[TopicPartition]] = []
        self.ownership = Ownership(totals=Totals(), drop=self.drop)

    def drop(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.dropped.append(set(tps))
        return dict.fromkeys(tps, 7)


def owning(*tps: TopicPartition) -> Ownership:
    ownership = Dropping().ownership
    ownership.take([Assigned(tp, 1) for tp in tps])
    return ownership


def test_what_is_assigned_waits_and_what_is_revoked_is_forgotten() -> None:
    """Its writers are dropped on both occasions; how many rows were lost with them is told."""
    one = Dropping()
    one.ownership.take([Assigned(P0, 1), Assigned(P1, 2)])
    with capture_logs() as logs:
        one.ownership.take([Revoked(P1, lost=True)])
    assert (one.ownership.owned, one.ownership.waiting) == ({P0: 1}, [P0])
    assert one.dropped == [{P0, P1}, {P1}]
    assert [(line["event"], line["dropped_rows"]) for line in logs] == [("partition_revoked", 7)]


def test_a_partition_that_comes_and_goes_between_two_passings_is_as_it_is_last() -> None:
    """Each assignment has an ownership epoch of its own."""
    one = owning(P0)
    one.take([Revoked(P0, lost=False), Assigned(P0, 5), Assigned(P1, 6), Revoked(P1, lost=False)])
    assert (one.owned, one.waiting) == ({P0: 5}, [P0])


def test_a_leaving_partition_stays_owned_and_is_not_read() -> None:
    """What it has is still committed; nothing new is begun for it."""
    one = owning(P0, P1)
    one.take([Leaving(frozenset({P0}), threading.Event())])
    assert (one.owned.keys(), one.staying.keys(), one.waiting) == ({P0, P1}, {P1}, [P1])
    assert one.unrecovered == {P0, P1}


def test_all_of_a_reading_counts_where_nothing_has_happened() -> None:
    """With the ownership epochs under which it began."""
    one = owning(P0, P1)
    assert one.begin_reading() == {P0: 1, P1: 1} and one.waiting == [] and one.unrecovered == {P0, P1}
    assert one.reading_is_whole and one.end_reading() == {P0: 1, P1: 1}
    assert one.unrecovered == set()


@pytest.mark.parametrize(
    ("changes", "owned", "waits"),
    [
        ([Revoked(P0, lost=False)], {P1: 1}, []),
        ([Revoked(P0, lost=True), Assigned(P0, 9)], {P0: 9, P1: 1}, [P0]),
        ([Assigned(P0, 9)], {P0: 9, P1: 1}, [P0]),
    ],
    ids=["revoked", "revoked and assigned again", "assigned again, the loss unseen"],
)
def test_what_was_taken_away_meanwhile_does_not_count(
    changes: list[AssignmentChange], owned: dict[TopicPartition, int], waits: list[TopicPartition]
) -> None:
    """Another one has been its owner: it is read again if it is ours again (protocol 5.3); the others count."""
    one = owning(P0, P1)
    one.begin_reading()
    one.take(changes)
    assert not one.reading_is_whole and one.end_reading() == {P1: 1}
    assert (one.owned, one.waiting) == (owned, waits)


def test_what_is_leaving_or_asked_for_again_does_not_count() -> None:
    """The one waits until it is gone or stays after all, the other is read once more."""
    one = owning(P0, P1)
    one.begin_reading()
    one.take([Leaving(frozenset({P0}), threading.Event())])
    one.read_again([P1])
    assert one.end_reading() == {} and one.waiting == [P1] and one.unrecovered == {P0, P1}


def test_a_reading_that_comes_to_nothing_is_begun_again() -> None:
    """For what is still ours."""
    one = owning(P0, P1)
    one.begin_reading()
    one.take([Revoked(P0, lost=False)])
    assert one.end_reading(came_to_nothing=True) == {} and one.waiting == [P1]


def test_a_leaving_partition_is_let_go_once_it_is_committed() -> None:
    """One that waits for its first reading, or is being read, has nothing to be committed."""
    one, rolled = owning(P0, P1), threading.Event()
    one.begin_reading()
    one.take([Leaving(frozenset({P0}), rolled)])
    one.let_go({WriterKey("order", P0): writer("order", P0, 4, 9)})
    assert not rolled.is_set()
    one.let_go({WriterKey("order", P0): writer("order", P0, 9)})
    assert rolled.is_set()
    read, other = threading.Event(), owning(P0)
    other.begin_reading()
    other.take([Leaving(frozenset({P0}), read)])
    other.let_go({})
    assert read.is_set()
