"""What the loop commits when a leader begins a round, and when none does. No Spark, no Kafka."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from exporter.core.due import Occasion, due_writers
from exporter.core.outcome import Report
from exporter.core.roll import RollLimits
from exporter.core.writers import Claim, Writer, WriterKey
from exporter.kafka.assignment import Assigned, Leaving
from exporter.task.service import Service
from offsets.ranges import TopicPartition
from tests.support.settings import looping
from tests.support.snapshots import P0, P1, file
from tests.unit.task.test_service import DEAD0, END, World

GRACE_SECS = 20.0


class Asked:
    """Commits that wait until they are let, and rounds that the test begins."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.round_id = ""
        self.submitted: list[tuple[list[WriterKey], str]] = []
        self.ready: list[tuple[str, list[TopicPartition]]] = []
        self.open: list[tuple[str, Sequence[Claim], Future[Report]]] = []
        self.told: list[TopicPartition] = []
        self.hurried = self.closed = False

    def submit(self, event_type: str, claims: Sequence[Claim], in_hurry: bool) -> Future[Report]:
        self.submitted.append(([claim.key for claim in claims], "" if in_hurry else self.round_id))
        future: Future[Report] = Future()
        self.open.append((event_type, claims, future))
        return future

    def lands(self) -> None:
        """Everything that is open is committed."""
        while self.open:
            event_type, claims, future = self.open.pop()
            future.set_result(self._world.committer.commit(event_type, claims))

    def occasion(self, flushing: bool) -> Occasion:
        return Occasion(flushing, bool(self.round_id), GRACE_SECS)

    def rolled(self, partitions: Collection[TopicPartition]) -> None:
        self.told = sorted(partitions)
        if self.round_id:
            self.ready.append((self.round_id, sorted(partitions)))
        self.round_id = ""

    def hurry(self) -> None:
        self.hurried = True
        self.lands()

    def close(self) -> None:
        self.closed = True


class Coordinated(World):
    """The world of the loop's other stories, with commits that a leader makes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked(self)
        self.service = Service(replace(self.service._parts, commits=lambda pool: self.asked))


@pytest.fixture
def world() -> Iterator[Coordinated]:
    made = Coordinated()
    yield made
    made.tables.let.set()
    made.service._recovering.close()
    made.service._pool.shutdown()


def test_a_round_takes_all_that_is_staged_and_says_whose_it_is(world: Coordinated) -> None:
    """Long before the limits of a roll of its own; without a round nothing is offered."""
    world.owns_and_has_staged()
    world.service._passed()
    assert world.asked.submitted == []
    world.asked.round_id = "r1"
    world.service._passed()
    assert world.asked.submitted == [([DEAD0], "r1")] and world.asked.ready == [("r1", [P0])]
    world.asked.lands()
    world.iterates_until(lambda: world.position(P0) == END - 1, "it is settled")


def test_a_task_whose_partitions_are_read_is_ready_all_the_same(world: Coordinated) -> None:
    """What stays is not committed meanwhile, and the others' round does not wait for it."""
    world.owns_and_has_staged()
    world.reads_beside()
    world.asked.round_id = "r1"
    world.service._passed()
    assert world.asked.submitted == [] and world.asked.ready == [("r1", [P0, P1])]


def test_so_is_one_that_drains(world: Coordinated) -> None:
    """A drain commits by itself."""
    world.owns_and_has_staged()
    world.tables.draining = True
    world.reads_beside()
    world.iterates_until(lambda: world.service._recovering.draining, "the drain")
    world.asked.round_id = "r1"
    world.service._passed()
    assert world.asked.submitted == [] and world.asked.ready == [("r1", [P0, P1])]


def test_what_leaves_waits_for_no_round(world: Coordinated) -> None:
    """Nor for the end of one that has begun: the group waits for it."""
    world.owns_and_has_staged()
    world.group.news = [Assigned(P1, 2)]
    world.iterates_until(lambda: world.staged(P1) == 1, "P1 is staged")
    world.group.news = [Leaving(frozenset({P0}), threading.Event())]
    world.asked.round_id = "r1"
    world.service._passed()
    ((keys, round_id),) = world.asked.submitted
    assert DEAD0 in keys and round_id == "" and len(world.asked.ready) == 1


def test_a_task_that_stops_is_in_a_hurry(world: Coordinated) -> None:
    """It waits for no leader, and lets go of the channel at its end."""
    world.owns_and_has_staged()
    assert not world.asked.hurried
    world.service.stop()
    world.service._passed()
    assert world.asked.hurried
    world.asked.lands()
    world.service.run()
    assert world.position(P0) == END - 1 and world.asked.closed


def test_what_no_leader_asks_for_is_offered_by_its_age(world: Coordinated) -> None:
    """In a hurry then: whoever leads by now commits it at once."""
    world.owns_and_has_staged()
    world.service._settings = looping(roll_age_max_secs=0.0)
    world.service._passed()
    assert world.asked.submitted == [([DEAD0], "")] and world.asked.ready == []


LIMITS = RollLimits(1_000, 1_000, 20.0)
STAGED = Writer(WriterKey("order", P0), 0, 1, 9, 19, 0.0, staged=(file(10, 19),), oldest_at=90.0)
IDLE = Writer(WriterKey("order", P1), 0, 1, 9, 19, behind_at=90.0)
OTHER = Writer(WriterKey("click", P1), 0, 1, 9, 19, behind_at=90.0)
WRITERS = {one.key: one for one in (STAGED, IDLE, OTHER)}


def test_markers_ride_in_a_round_where_a_commit_of_their_type_is_made_anyway() -> None:
    """Of types that roll here, or in which others had rows; the rest waits for its heartbeat."""
    asked = Occasion(asked=True)
    assert due_writers(WRITERS, {}, LIMITS, 60.0, 100.0, asked) == {"order": [STAGED.key, IDLE.key]}
    lively = Occasion(asked=True, is_lively=lambda name: name == "click")
    assert due_writers(WRITERS, {}, LIMITS, 60.0, 100.0, lively) == {
        "order": [STAGED.key, IDLE.key],
        "click": [OTHER.key],
    }
    assert due_writers(WRITERS, {}, LIMITS, 10.0, 100.0, asked)["click"] == [OTHER.key], "its heartbeat is due"


def test_without_a_round_age_and_heartbeats_say_what_is_due() -> None:
    """By age with the type's markers, by heartbeats, all of it for a flush, and what leaves at once."""
    nothing = Occasion()
    assert due_writers(WRITERS, {}, LIMITS, 60.0, 100.0, nothing) == {}
    assert due_writers(WRITERS, {}, LIMITS, 60.0, 110.0, nothing) == {"order": [STAGED.key, IDLE.key]}
    assert due_writers(WRITERS, {}, LIMITS, 10.0, 100.0, nothing) == {"order": [IDLE.key], "click": [OTHER.key]}
    flushed = due_writers(WRITERS, {}, LIMITS, 0.0, 100.0, Occasion(flushing=True))
    assert flushed == due_writers({}, WRITERS, LIMITS, 60.0, 100.0, nothing)
    assert flushed == {"order": [STAGED.key, IDLE.key], "click": [OTHER.key]}


def test_with_what_leaves_goes_all_of_its_types_where_there_are_rounds() -> None:
    """The next round passes by a type of which something is offered already, and the rest would wait for one more."""
    staying = {key: writer for key, writer in WRITERS.items() if key != IDLE.key}
    leaving = {IDLE.key: IDLE}
    assert due_writers(staying, leaving, LIMITS, 60.0, 100.0, Occasion()) == {"order": [IDLE.key]}
    found = due_writers(staying, leaving, LIMITS, 60.0, 100.0, Occasion(grace_secs=20.0))
    assert found == {"order": [STAGED.key, IDLE.key]}


def test_a_partition_that_comes_while_a_round_is_open_is_said_to_be_ready_too(world: Coordinated) -> None:
    """Whoever speaks with the leader hears it in each iteration."""
    world.owns_and_has_staged()
    world.asked.round_id = "r1"
    world.service._passed()
    world.service._ownership.owned[P1] = 9
    assert (world.asked.ready, world.asked.told) == ([("r1", [P0])], [P0])
    world.service._offer_due(0.0)
    assert world.asked.told == [P0, P1]
