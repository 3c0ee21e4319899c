"""A task's side of coordinated commits, by itself: what it says, when it is ready, what it does with its futures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from exporter.coordinate.member import ROUNDS_MAX, RoundMember
from exporter.coordinate.memory import MemoryChannel, MemoryTopic
from exporter.core.coordination import Begin, Message, Offer, Outcome, Ready
from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.memory_merger import MemoryMerger
from exporter.core.outcome import Landed, Prepared, Report, Unknown
from exporter.errors import StorageSilent, TableUnreadable
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.coordinated import Inline, claim_of, reported

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
TIMEOUT = 30.0


class Later(Executor):
    """Runs what it is given when it is let."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def let(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


class World:
    """One member, and a leader who is the test."""

    def __init__(self, pool: Executor | None = None) -> None:
        self.now = 0.0
        self.topic = MemoryTopic()
        tables = {name: MemoryTable({P0: Position(0, -1), P1: Position(0, -1)}) for name in ("order", "click")}
        self.committer = MemoryCommitter(owner="me", tables=tables)
        for name in tables:
            view = self.committer.view(name)
            assert view is not None
            self.committer.trust(name, view)
        self.merger = MemoryMerger(tables)
        self.woken = 0
        self.member = RoundMember(
            "app", "me", self.committer, pool or Inline(), MemoryChannel(self.topic), TIMEOUT, self.wake,
            lambda: self.now,
        )  # fmt: skip

    def wake(self) -> None:
        self.woken += 1

    def begins(self, number: int = 1, leader: str = "leader") -> str:
        round_id = f"{leader}-{number}"
        self.member.hear(Begin("app", leader, round_id, number), self.now)
        return round_id

    def said(self, kind: type[Message]) -> list[Any]:
        return [one for one in self.topic.said if isinstance(one, kind)]

    def commits(self, offers: Sequence[Offer]) -> None:
        """The leader commits, and says so."""
        merged = self.merger.commit("order", offers)
        ids = merged.landed, merged.dropped
        self.member.hear(Outcome("app", "leader", "", "order", merged.version, merged.rows, *ids), self.now)


@pytest.fixture
def world() -> World:
    return World()


def test_a_claim_is_offered_and_done_when_the_log_has_it(world: World) -> None:
    """Not when somebody says so: the version in the report is that of the leader's commit."""
    round_id = world.begins()
    future = world.member.submit("order", [claim_of("order", P0, -1, 9)], round_id)
    (offer,) = world.said(Offer)
    assert (offer.round_id, offer.owner, [one.tp for one in offer.claims]) == (round_id, "me", [P0])
    assert not future.done() and world.member.pending == 1
    world.commits([offer])
    assert reported(future) == [Landed] and future.result(0).version == 1 and world.member.pending == 0


def test_ready_is_said_when_all_of_the_round_is_offered() -> None:
    """Not before what was submitted has been prepared, and once more when the round is begun again."""
    pool = Later()
    world = World(pool)
    round_id = world.begins()
    world.member.submit("order", [claim_of("order", P0, -1, 9)], round_id)
    world.member.rolled(round_id, [P1, P0])
    assert world.said(Ready) == [] and world.member.begun() == ""
    pool.let()
    assert [type(one) for one in world.topic.said] == [Offer, Ready]
    assert world.said(Ready)[0] == Ready("app", "me", round_id, (P0, P1))
    world.begins()
    assert [type(one) for one in world.topic.said] == [Offer, Ready, Offer, Ready]


def test_a_task_without_anything_is_ready_at_once(world: World) -> None:
    """A round does not wait for idle partitions, nor for a task that has none."""
    world.member.rolled(world.begins(), [])
    assert world.said(Ready) == [Ready("app", "me", "leader-1", ())]


def test_a_round_begins_once_and_wakes_the_loop(world: World) -> None:
    """The same beginning again, or one of a leader that has been replaced, asks for nothing."""
    first = world.begins()
    assert world.member.begun() == first and world.woken == 1
    world.member.rolled(first, [P0])
    world.begins()
    assert world.member.begun() == "" and world.woken == 1
    second = world.begins(1, "new")
    world.begins(1, "leader")
    assert world.member.begun() == second and world.woken == 2


def test_open_offers_are_said_again_to_a_new_leader_and_after_a_whole_round(world: World) -> None:
    """Its own leader is not told twice at once: what was offered since the last beginning is on its way."""
    world.begins(1)
    world.now = 1.0
    world.member.submit("order", [claim_of("order", P0, -1, 9)], "leader-1")
    world.now = 10.0
    world.begins(2)
    assert len(world.said(Offer)) == 1
    world.now = 20.0
    world.begins(3)
    assert len(world.said(Offer)) == 2, "nothing was heard of it for a whole round"
    world.now = 21.0
    world.begins(1, "new")
    offers = world.said(Offer)
    assert len(offers) == 3 and len({one.id for one in offers}) == 1


def test_without_an_outcome_in_time_it_commits_by_itself_under_the_same_id(world: World) -> None:
    """And looks first: what the leader has committed in silence is not committed again."""
    future = world.member.submit("order", [claim_of("order", P0, -1, 9)], "")
    silent = world.member.submit("click", [claim_of("click", P0, -1, 4)], "")
    offer, of_click = world.said(Offer)
    world.merger.commit("click", [of_click])
    world.now = TIMEOUT - 0.1
    world.member.tick(world.now)
    assert not future.done()
    world.now = TIMEOUT
    world.member.tick(world.now)
    assert reported(future) == reported(silent) == [Landed]
    assert world.committer.tables["order"].commits[-1] == (offer.id,)
    assert world.committer.tables["click"].version == 1
    assert world.member.ended == {"unanswered": 2}


def test_an_outcome_is_looked_after_once(world: World) -> None:
    """Whatever is heard of it meanwhile, and although its time is over."""
    pool = Later()
    world = World(pool)
    future = world.member.submit("order", [claim_of("order", P0, -1, 9)], "")
    pool.let()
    (offer,) = world.said(Offer)
    world.commits([offer])
    world.commits([offer])
    world.member.tick(TIMEOUT)
    world.member.hurry()
    assert len(pool.waiting) == 1
    pool.let()
    assert reported(future) == [Landed]


def test_in_a_hurry_nothing_is_offered_any_more(world: World) -> None:
    """What is open is committed, and what comes; that it is ready the task still says."""
    open_ = world.member.submit("order", [claim_of("order", P0, -1, 9)], "")
    world.member.hurry()
    world.member.hurry()
    round_id = world.begins()
    late = world.member.submit("click", [claim_of("click", P0, -1, 4)], round_id)
    world.member.rolled(round_id, [P0])
    assert reported(open_) == reported(late) == [Landed] and world.member.ended == {"hurried": 2}
    assert len(world.said(Offer)) == 1 and len(world.said(Ready)) == 1


def test_what_cannot_be_said_is_committed_at_once(world: World) -> None:
    """Without a topic, and where the manifest of a large offer cannot be written."""
    world.topic.is_deleted()
    assert reported(world.member.submit("order", [claim_of("order", P0, -1, 9)], "")) == [Landed]
    world.topic.is_back()

    def offer(prepared: Prepared, round_id: str) -> Offer:
        raise OSError("no space")

    world.committer.offer = offer  # type: ignore[method-assign]
    assert reported(world.member.submit("click", [claim_of("click", P0, -1, 9)], "")) == [Landed]
    assert world.member.ended == {"silent": 2} and world.member.pending == 0


def test_a_table_that_cannot_be_read_is_committed_to_all_the_same(world: World) -> None:
    """The compare-and-set decides; what cannot be told then is of unknown outcome, as in a commit of its own."""

    def found(prepared: Prepared) -> Report | None:
        raise TableUnreadable("stale file handle")

    world.committer.found = found  # type: ignore[method-assign]
    future = world.member.submit("order", [claim_of("order", P0, -1, 9)], "")
    world.committer.reply_is_lost(arrived=False)
    world.member.tick(TIMEOUT)
    assert reported(future) == [Unknown]


def test_what_preparing_raises_is_the_loop_s_and_the_round_goes_on(world: World) -> None:
    """As with a commit of its own: the loop ends, or drops everything while the storage is out."""

    def prepare(event_type: str, claims: Any) -> Prepared:
        raise StorageSilent("table order cannot be read")

    world.committer.prepare = prepare  # type: ignore[method-assign]
    round_id = world.begins()
    future = world.member.submit("order", [claim_of("order", P0, -1, 9)], round_id)
    world.member.rolled(round_id, [P0])
    assert isinstance(future.exception(0), StorageSilent) and len(world.said(Ready)) == 1


def test_a_claim_that_is_not_ready_is_not_offered(world: World) -> None:
    """Its file is gone before it was said: the loop stages it anew."""
    claim = claim_of("order", P0, -1, 9)
    world.committer.file_vanishes("order", claim.files[0].path)
    future = world.member.submit("order", [claim], "")
    assert future.done() and world.said(Offer) == [] and future.result(0).version is None


def test_a_table_is_lively_for_a_round_after_others_had_rows_for_it(world: World) -> None:
    """Then markers ride along; a commit of markers alone brings no further ones."""
    world.begins(1)
    world.member.hear(Outcome("app", "leader", "", "order", 5, 7), 0.0)
    world.member.hear(Outcome("app", "leader", "", "click", 5, 0), 0.0)
    world.begins(2)
    assert world.member.is_lively("order") and not world.member.is_lively("click")
    world.begins(3)
    assert not world.member.is_lively("order")


def test_rounds_are_not_remembered_for_ever(world: World) -> None:
    """A task runs for months."""
    for number in range(3 * ROUNDS_MAX):
        world.member.rolled(world.begins(number), [P0])
    assert len(world.member._rounds) == ROUNDS_MAX
