"""What becomes of coordinated commits when tasks, leaders and messages fail: the cases of those before us, and more.

The coordinator's five and the participant's six are those of Hudi's Kafka Connect sink; after them the recovery cases
of Iceberg's. In all of them every record is in the tables once in the end, which `require_exact` looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from exporter.core.coordination import Begin, Merged, Message, Offer, Outcome, Ready
from exporter.core.memory_merger import MemoryMerger
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.positions import Position
from tests.support.coordinated import INTERVAL_SECS, TIMEOUT_SECS, TYPES, Task, World


@pytest.fixture
def world() -> Iterator[World]:
    """Four partitions of two tasks, of which the first leads; exact in the end, whatever happened."""
    made = World()
    yield made
    made.topic.loses()
    made.until(made.is_all_there, 3 * TIMEOUT_SECS, "everything is committed")
    made.require_exact()


def two(world: World) -> tuple[Task, Task]:
    return world.start(0, 1), world.start(2, 3)


def ended(task: Task) -> dict[str, int]:
    return {why: count for why, count in task.member.ended.items() if count}


# Hudi's coordinator


def test_all_tasks_succeed_and_a_round_is_one_version_of_each_table(world: World) -> None:
    """ALL_CONNECT_TASKS_SUCCESS: five rounds, five versions, each with the claims of both tasks."""
    leader, follower = two(world)
    for number in range(1, 6):
        world.produce(10)
        world.passes(INTERVAL_SECS)
        assert [world.versions(name) for name in TYPES] == [number, number]
    assert leader.leader.leads and not follower.leader.leads
    assert leader.commits.state().rounds == {"ready": 6, "late": 0}, "its second one begins early"
    assert ended(leader) == ended(follower) == {"answered": 10}
    assert (leader.commits.state().commits, leader.commits.state().merged) == (10, 20)


def test_tasks_without_records_take_part_and_a_round_ends_without_them(world: World) -> None:
    """ALL_CONNECT_TASKS_WITH_EMPTY_WRITE_STATUS: a round closes on positions, not on rows; nothing is committed."""
    leader, _ = two(world)
    world.passes(5 * INTERVAL_SECS)
    assert leader.commits.state().rounds == {"ready": 6, "late": 0}, "its second one begins early"
    assert [world.versions(name) for name in TYPES] == [0, 0]
    world.produce(10, 3, types=["order"])
    world.passes(INTERVAL_SECS)
    assert [world.versions(name) for name in TYPES] == [0, 1]


def test_an_offer_that_cannot_land_is_left_out_and_the_others_land(world: World) -> None:
    """SUBSET_WRITE_STATUS_FAILED: no round fails for one partition's trouble; its rows are staged anew, and come later.

    It lands whole or not at all: what else was in that offer is in one of another id.
    """
    leader, follower = two(world)
    world.produce(10)
    world.until(lambda: follower.member.pending == 2, 1.0, "it has offered")
    ((claim, _), _) = follower.claims["order"]
    follower.committer.file_vanishes("order", claim.files[0].path)
    world.passes(1.0)
    assert leader.commits.state().left_out == 1 and leader.commits.state().rounds["late"] == 0
    lacks = claim.key.tp
    assert world.tables["order"].positions == {tp: Position(0, -1 if tp == lacks else 9) for tp in world.tps}
    world.passes(2 * INTERVAL_SECS)
    assert world.is_all_there() and claim.files[0].path in world.tables["order"].gone


def test_what_a_task_could_not_decode_is_rows_of_the_dead_letters_and_no_round_waits(world: World) -> None:
    """SUBSET_WRITE_STATUS_FAILED_BUT_IGNORED: records that fail are rows too; here only one table has some."""
    leader, _ = two(world)
    world.produce(10, types=["order"])
    world.produce(1, 2, types=["click"])
    world.passes(INTERVAL_SECS)
    assert [world.versions(name) for name in TYPES] == [1, 1] and world.is_all_there()
    assert leader.commits.state().rounds["late"] == 0


def test_tasks_that_are_silent_do_not_hold_up_the_others(world: World) -> None:
    """SUBSET_CONNECT_TASKS_FAILED: the round ends without them after its time, and they join a later one."""
    leader, follower = two(world)
    world.produce(10)
    follower.hung = True
    world.passes(INTERVAL_SECS + 0.3)
    assert leader.commits.state().rounds["late"] == 1
    assert world.tables["order"].positions[world.tps[0]] == Position(0, 9)
    assert world.tables["order"].positions[world.tps[2]] == Position(0, -1)
    follower.hung = False
    world.passes(2 * INTERVAL_SECS)
    assert world.is_all_there() and world.versions("order") == 2


# Hudi's participant


def test_a_task_offers_commits_nothing_by_itself_and_goes_on(world: World) -> None:
    """REGULAR_SCENARIO: from one round to the next, without a commit of its own."""
    _, follower = two(world)
    for _ in range(3):
        world.produce(5)
        world.passes(INTERVAL_SECS)
        assert world.is_all_there()
    assert follower.committer.reports and all(not report.error for report in follower.committer.reports)
    assert follower.member.ended["unanswered"] == 0 and follower.refused == 0


def test_a_leader_that_fails_after_it_has_begun_a_round_is_replaced(world: World) -> None:
    """COORDINATOR_FAILED_AFTER_START_COMMIT: what was offered to it is said again to the next one."""
    leader, follower = two(world)
    world.produce(10)
    world.until(lambda: any(isinstance(one, Begin) for one in world.topic.said), 1.0, "a round begins")
    world.kill(leader)
    world.passes(1.0)
    assert follower.member.pending == 2
    world.gives(follower, 0, 1)
    world.passes(INTERVAL_SECS + 1.0)
    assert world.is_all_there() and follower.leader.leads
    assert follower.member.ended["unanswered"] == 0, "nobody waited for the time-out"


def test_a_leader_that_fails_before_it_has_committed_is_replaced(world: World) -> None:
    """COORDINATOR_FAILED_AFTER_END_COMMIT: every task has offered; the next leader commits it, or its tasks do."""
    leader, follower = two(world)
    leader.merger.commit = lambda table, offers: Merged()  # type: ignore[method-assign]
    world.produce(10)
    world.passes(1.0)
    assert world.versions("order") == 0 and follower.member.pending == 2
    world.kill(leader)
    world.gives(follower, 0, 1)
    world.passes(INTERVAL_SECS + 1.0)
    assert world.is_all_there()


@pytest.mark.parametrize("said", [(), (Begin,), (Begin, Offer)], ids=["before", "after_begin", "after_offer"])
def test_a_task_that_fails_leaves_its_partitions_to_the_next_one(
    world: World, said: tuple[type[Message], ...]
) -> None:
    """FAILURE_BEFORE_START_COMMIT, _AFTER_START_COMMIT, _AFTER_END_COMMIT: of what it has offered the leader commits
    all or nothing, and the next task begins where the table is."""
    leader, follower = two(world)
    world.produce(10)
    if said:
        of_it = ("", follower.name)
        world.until(
            lambda: {type(one) for one in world.topic.said if getattr(one, "owner", "") in of_it} >= {*said},
            1.0, "it has heard and said so much",
        )  # fmt: skip
    world.kill(follower)
    world.passes(INTERVAL_SECS + 0.5)
    heir = world.start(2, 3)
    world.produce(10)
    world.passes(2 * INTERVAL_SECS)
    assert world.is_all_there() and heir.refused == 0 and leader.refused == 0


# Iceberg's recovery cases


def test_a_worker_that_fails_while_it_processes_is_refused_when_it_wakes_up(world: World) -> None:
    """Another one has had its partitions meanwhile: its offer is dropped, it looks, and reads its position again."""
    _, zombie = two(world)
    world.produce(10)
    zombie.hung = True
    world.passes(0.5)
    zombie.commits.step(0.0)
    assert zombie.member.begun(), "it stopped when it had heard that a round begins"
    heir = world.start(2, 3)
    world.passes(2 * INTERVAL_SECS)
    assert world.is_all_there()
    zombie.hung = False
    world.passes(2 * INTERVAL_SECS)
    assert zombie.refused == len(TYPES) * 2 and heir.refused == 0


def test_a_worker_that_misses_the_beginning_of_a_round_hears_it_again_or_joins_the_next(world: World) -> None:
    """Nothing that it has staged waits for longer than two rounds."""
    two(world)
    world.topic.loses(Begin)
    world.passes(1.0)
    world.topic.loses()
    world.produce(10)
    world.passes(INTERVAL_SECS)
    assert world.is_all_there()
    late = world.start()
    assert late.member.begun() == ""


def test_a_leader_that_stops_while_it_waits_and_wakes_up_doubles_nothing(world: World) -> None:
    """Two lead at once then: the same offers are committed once, by whoever is first (FENCE)."""
    leader, follower = two(world)
    world.topic.loses(Ready)
    world.produce(10)
    world.passes(0.5)
    leader.hung = True
    world.topic.loses()
    follower.owned = list(world.tps)  # its other two partitions have the hung one's claims before them: see below
    world.gives(follower, 0, 1)
    world.passes(INTERVAL_SECS + 1.0)
    assert follower.leader.leads and world.is_all_there()
    leader.hung = False
    world.passes(INTERVAL_SECS)
    assert leader.leader.leads, "it does not know yet"
    leader.owned = []
    world.produce(10)
    world.passes(2 * INTERVAL_SECS)
    assert not leader.leader.leads and leader.leader.rounds.pending == 0 and world.is_all_there()


@pytest.mark.parametrize("arrived", [True, False])
def test_a_leader_that_does_not_know_what_became_of_its_commit_tells_nobody(world: World, arrived: bool) -> None:
    """Its tasks look when their time is over: what is there is theirs, what is not they commit, under the same id."""
    leader, follower = two(world)
    for _ in TYPES:
        leader.merger.reply_is_lost(arrived=arrived)
    world.produce(10)
    world.passes(1.0)
    assert [world.versions(name) for name in TYPES] == [int(arrived)] * 2
    world.passes(TIMEOUT_SECS)
    assert world.is_all_there()
    if arrived:
        assert follower.member.ended["answered"] + follower.member.ended["unanswered"] == 2


def test_a_table_that_is_rolled_back_stops_the_tasks_and_no_leader_goes_on_in_silence(world: World) -> None:
    """A RESTORE takes rows away; the leader's commit fails, and each task finds it by its own look (4.5)."""
    leader, follower = two(world)
    world.produce(10)

    def restored(*_: object) -> Merged:
        raise InvariantBroken(Invariant.MONOTONE, "a RESTORE took rows away", "see the handbook")

    leader.merger.commit = restored  # type: ignore[method-assign]
    follower.committer.found = restored  # type: ignore[method-assign,assignment]
    with pytest.raises(InvariantBroken, match="RESTORE"):
        world.passes(TIMEOUT_SECS + 2.0)
    assert leader.commits.state().failed >= 2 and leader.commits.state().commits == 0
    world.kill(follower)
    leader.merger.commit = MemoryMerger(world.tables).commit  # type: ignore[method-assign]
    world.gives(leader, 2, 3)


# messages


@dataclass
class Each:
    """Whether it is the turn of a message: each n-th of a kind."""

    kind: type[Message]
    step: int
    seen: int = 0

    def __call__(self, message: Message) -> bool:
        self.seen += isinstance(message, self.kind)
        return isinstance(message, self.kind) and self.seen % self.step == 0


@pytest.mark.parametrize("kind", [Begin, Offer, Ready, Outcome])
@pytest.mark.parametrize("step", [1, 2])
def test_no_message_has_to_arrive(world: World, kind: type[Message], step: int) -> None:
    """Of each kind all or each second one: what is offered is committed in time, in the worst case by its task."""
    leader, follower = two(world)
    world.topic.lost = Each(kind, step)
    for _ in range(6):
        world.produce(10)
        world.passes(INTERVAL_SECS)
    world.topic.loses()
    if kind is Outcome and step == 1:
        assert leader.member.ended["unanswered"] and leader.refused == follower.refused == 0


@pytest.mark.parametrize("kind", [Begin, Offer, Ready, Outcome])
def test_a_message_that_comes_twice_counts_once(world: World, kind: type[Message]) -> None:
    """No version is made for it, and nobody is refused."""
    leader, follower = two(world)
    world.topic.doubles(kind)
    for number in range(1, 4):
        world.produce(10)
        world.passes(INTERVAL_SECS)
        assert [world.versions(name) for name in TYPES] == [number, number]
    assert leader.refused == follower.refused == 0


def test_without_a_topic_each_task_commits_by_itself_and_with_one_again_in_rounds(world: World) -> None:
    """It may be deleted at any time, and made again."""
    leader, follower = two(world)
    world.produce(10)
    world.passes(INTERVAL_SECS)
    world.topic.is_deleted()
    world.produce(10)
    before = world.versions("order")
    for task in (leader, follower):
        claims = world.claims(task, "order")
        task.claims["order"] = (claims, task.commits.submit("order", claims, in_hurry=True))
    world.passes(1.0)
    assert world.versions("order") == before + 2 and leader.member.ended["silent"] == 1
    world.topic.is_back()
    world.passes(2 * INTERVAL_SECS)
    before = world.versions("order")
    world.produce(10)
    world.passes(INTERVAL_SECS)
    assert world.versions("order") == before + 1


def test_a_task_that_ends_commits_by_itself_at_once(world: World) -> None:
    """What it has offered, under the same id, and what comes; it says nothing more but that it is ready."""
    leader, follower = two(world)
    leader.merger.commit = lambda table, offers: Merged()  # type: ignore[method-assign]
    world.produce(10)
    world.passes(1.0)
    assert follower.member.pending == 2
    said = [one.id for one in world.topic.said if isinstance(one, Offer) and one.owner == follower.name]
    follower.commits.hurry()
    assert follower.member.pending == 0 and ended(follower) == {"hurried": 2}
    logged = [world.tables[name].commits[-1] for name in TYPES]
    assert sorted(one for ids in logged for one in ids) == sorted(said)
    leader.merger.commit = MemoryMerger(world.tables).commit  # type: ignore[method-assign]


def test_an_outcome_that_is_made_up_is_verified(world: World) -> None:
    """Told as landed and not there: its rows would be lost. The task commits what it has offered by itself."""
    leader, follower = two(world)
    leader.merger.commit = lambda table, offers: Merged(99, 1, tuple(one.id for one in offers))  # type: ignore[method-assign]
    world.produce(10)
    world.passes(2.0)
    assert world.is_all_there()
    assert follower.covered and follower.member.ended == {"answered": 2}


def test_own_commits_beside_coordinated_ones_fence_each_other_off(world: World) -> None:
    """Mixed modes: a task that has the same partitions and commits by itself; each is refused where it is late."""
    leader, follower = two(world)
    own = world.start(2, 3)
    own.hung = True
    world.produce(10)
    world.until(lambda: follower.member.pending == 2, 1.0, "it has offered")
    report = own.committer.commit("order", world.claims(own, "order"))
    assert report.version is not None
    world.passes(INTERVAL_SECS)
    assert follower.refused == 2 and leader.refused == 0 and world.is_all_there()


def said_by(world: World, kind: type[Message]) -> list[Message]:
    return [one for one in world.topic.said if isinstance(one, kind)]


def test_a_second_leader_commits_the_same_offers_once(world: World) -> None:
    """Both believe that they lead: each begins rounds; what the first has committed the second leaves out."""
    leader, follower = two(world)
    also: Callable[[], bool] = lambda: True  # noqa: E731
    follower.leader.leadership.is_mine = also  # type: ignore[method-assign]
    for _ in range(4):
        world.produce(10)
        world.passes(INTERVAL_SECS)
    assert world.is_all_there() and leader.leader.leads and follower.leader.leads
    assert len({one.leader for one in said_by(world, Begin)}) == 2  # type: ignore[union-attr]
    assert leader.refused == follower.refused == 0
