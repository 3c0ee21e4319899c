"""Stories of the loop while tables are read: commits, leaving partitions, a stop, an outage. No Spark, no Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.bisection import Bisection
from exporter.core.manifest import RoundResult
from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.order import Destination
from exporter.core.outcome import Report
from exporter.core.plan import Budget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Claim, Fragment, PartitionPlan, StagedFile, WriterKey
from exporter.errors import StorageSilent, TableUnreadable
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.kafka.topics import TopicIdentity
from exporter.lake.schema import table_schema
from exporter.monitor.watch import Watch
from exporter.protocol.known import KnownTables
from exporter.stores.file import FileStore
from exporter.task.others import nobody
from exporter.task.own_commits import OwnCommits
from exporter.task.parts import Parts
from exporter.task.service import Service
from exporter.wal.journal import Journal
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import fingerprint_of
from tests.support.lakes import wait_until
from tests.support.settings import looping
from tests.support.snapshots import P0, P1
from tests.unit.task.test_recovering import ROUTING, Tables

DEAD0, DEAD1 = WriterKey(DEAD_LETTERS, P0), WriterKey(DEAD_LETTERS, P1)
END = 10
FINGERPRINT = fingerprint_of("frame", table_schema(None))


class Group:
    """Changes that the loop has not seen yet."""

    failure, trouble = None, ""

    def __init__(self) -> None:
        self.news: list[AssignmentChange] = []

    def changes(self) -> list[AssignmentChange]:
        news, self.news = self.news, []
        return news

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        return ""

    def is_spare(self) -> bool:
        return False

    def waits(self) -> bool:
        return False

    def close(self) -> None:
        pass


class ReadAtOnce:
    """Rounds that are done when they are started: each plan stages one file of all its offsets."""

    failures, secs, error, carried_bytes, starved = 0, 0.0, "", 0, ""

    def __init__(self) -> None:
        self.trouble, self.unread = Bisection(), dict[TopicPartition, int]()
        self.results: list[RoundResult] = []

    @property
    def running(self) -> bool:
        return bool(self.results)

    @property
    def plans(self) -> tuple[PartitionPlan, ...]:
        return ()

    def may_start(self, ends: Any, now: float) -> bool:
        return not self.results

    def budget(self) -> Budget:
        return Budget(1_000)

    def choose(self, plans: Sequence[PartitionPlan], poison_offsets: Any, now: float) -> tuple[PartitionPlan, ...]:
        return tuple(plans)

    def start(self, order: Any) -> None:
        fragments = []
        for plan in order.plans.values():
            path = f"day=2026-01-31/{plan.tp}-{plan.start}"
            file = StagedFile(path, OffsetRange(plan.start, plan.end - 1), 1, 1, fingerprint=FINGERPRINT)
            fragments.append(Fragment(plan, {DEAD_LETTERS: (file,)}))
        self.results.append(RoundResult(tuple(fragments), {"records": 1}))

    def take(self, now: float) -> RoundResult | None:
        return self.results.pop() if self.results else None

    def cancel(self) -> None:
        self.results.clear()

    def close(self) -> None:
        pass


class Committing(MemoryCommitter):
    """Commits when it is let."""

    def __init__(self) -> None:
        super().__init__("app")
        self.let = threading.Event()
        self.let.set()
        self.fails: Exception | None = None
        self.begun = 0

    def commit(self, event_type: str, claims: Sequence[Claim]) -> Report:
        self.begun += 1
        assert self.let.wait(10)
        if self.fails is not None:
            raise self.fails
        return super().commit(event_type, claims)


class World:
    """One task over the dead letters alone; every record of the topic, offsets 0 to 9 of both partitions, is one."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.tables.at = -1
        self.tables.let.set()
        self.committer = Committing()
        at = {P0: Position(0, -1), P1: Position(0, -1)}
        self.committer.tables[DEAD_LETTERS] = MemoryTable(at, "id", "frame", table_schema(None))
        self.group = Group()
        self.end = END
        self.trouble = ""
        self.watch = Watch(probe=lambda: self.trouble)
        self.rounds = ReadAtOnce()
        given: Any = SimpleNamespace(**self.given())
        self.service = Service(Parts(**vars(given)))

    def given(self) -> dict[str, Any]:
        view: Callable[[], Any] = lambda: self.committer.view(DEAD_LETTERS)  # noqa: E731
        lake: Any = SimpleNamespace(
            type_widening=False, app="app", root="lake", destination=lambda: Destination("lake", "app"),
            table=lambda name: SimpleNamespace(view=view, store=FileStore("/lake")), store=FileStore("/lake"),
        )  # fmt: skip
        topics: Any = SimpleNamespace(
            high_watermarks=self.ends,
            end_offsets=self.ends,
            first_offsets=lambda tps: dict.fromkeys(tps, 0),
            identities_of=lambda names: {"events": TopicIdentity("c", "t1", (0, 1))},
        )
        recovery: Any = SimpleNamespace(
            recover=self.tables.recover, met=SimpleNamespace(anchor=None), unread=dict, stuck=dict, undecided=dict,
            close=lambda: None,
        )  # fmt: skip
        return {
            "lake": lake, "topics": topics, "routing": ROUTING, "membership": self.group, "others": nobody(),
            "rounds": lambda waking: self.rounds, "recovery": recovery, "committer": self.committer,
            "known": KnownTables(app="app", routing=ROUTING, topics=topics, committer=self.committer),
            "commits": lambda pool: OwnCommits(self.committer, pool),
            "journal": Journal(), "log_check": SimpleNamespace(said={}),
            "poison": SimpleNamespace(is_next=lambda *_: False, passed=lambda: None), "watch": self.watch,
            "settings": looping(),
            "wake": threading.Event(), "until_caught_up": False, "alive": lambda: True,
            "on_progress": lambda progress: None,
        }  # fmt: skip

    def ends(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, self.end)

    def rolls_at_once(self) -> None:
        """What is staged is due from now on."""
        self.service._settings = looping(roll_records_max=1, roll_age_max_secs=0.0, heartbeat_secs=0.0)

    def iterates_until(self, condition: Callable[[], bool], what: str) -> None:
        """The loop iterates until something is so."""
        wait_until(lambda: (self.service._passed(), condition())[1], 10, what)

    def staged(self, tp: TopicPartition) -> int:
        writer = self.service._writers.get(WriterKey(DEAD_LETTERS, tp))
        return -1 if writer is None else len(writer.staged)

    def position(self, tp: TopicPartition) -> int:
        return self.committer.tables[DEAD_LETTERS].positions[tp].offset

    def owns_and_has_staged(self) -> None:
        """P0 is recovered and all of it is staged."""
        self.group.news = [Assigned(P0, 1)]
        self.iterates_until(lambda: self.staged(P0) == 1, "P0 is staged")

    def reads_beside(self) -> None:
        """P1 is assigned, and its reading waits."""
        self.tables.let.clear()
        self.tables.begun.clear()
        self.group.news = [Assigned(P1, 2)]
        self.iterates_until(self.tables.begun.is_set, "the reading of P1")


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.tables.let.set()
    made.committer.let.set()
    made.service._recovering.close()
    made.service._pool.shutdown()


def test_a_reading_waits_for_the_commit_that_is_under_way(world: World) -> None:
    """Also for one of other partitions: nothing of ours is to land while positions are read (protocol 5.3)."""
    world.owns_and_has_staged()
    world.committer.let.clear()
    world.rolls_at_once()
    world.iterates_until(lambda: world.committer.begun == 1, "the commit of P0")
    world.group.news = [Assigned(P1, 2)]
    for _ in range(3):
        world.service._passed()
    assert world.tables.read == [[P0]] and world.service._ownership.waiting == [P1]
    world.committer.let.set()
    world.iterates_until(lambda: world.staged(P1) >= 0, "P1 is recovered")
    assert world.tables.read == [[P0], [P1]] and world.position(P0) == END - 1


def test_what_stays_is_not_committed_while_tables_are_read_and_no_round_begins(world: World) -> None:
    """The tables that are read are to come to rest; all goes on with the end of the reading."""
    world.owns_and_has_staged()
    world.reads_beside()
    world.rolls_at_once()
    world.end = 2 * END
    for _ in range(3):
        world.service._passed()
    assert world.committer.begun == 0 and world.staged(P0) == 1 and not world.rounds.running
    world.tables.let.set()
    world.iterates_until(lambda: world.position(P0) == world.position(P1) == 2 * END - 1, "both are committed")


def test_a_leaving_partition_is_committed_and_let_go_while_tables_are_read(world: World) -> None:
    """The group does not wait for the reading of another partition."""
    world.owns_and_has_staged()
    world.reads_beside()
    rolled = threading.Event()
    world.group.news = [Leaving(frozenset({P0}), rolled)]
    world.iterates_until(rolled.is_set, "P0 is let go")
    assert world.position(P0) == END - 1 and world.service._recovering.running
    world.group.news = [Revoked(P0, lost=False)]
    world.tables.let.set()
    world.iterates_until(lambda: world.staged(P1) == 1, "P1 goes on")
    assert world.service._ownership.owned == {P1: 2} and DEAD0 not in world.service._writers


def test_a_leaving_partition_is_committed_after_a_drain_has_ended_for_it(world: World) -> None:
    """Not beside it: no two commit to a table at a time."""
    world.owns_and_has_staged()
    world.tables.draining = True
    world.reads_beside()
    wait_until(lambda: world.service._recovering.draining, 10, "the drain")
    rolled = threading.Event()
    world.group.news = [Leaving(frozenset({P0}), rolled)]
    world.service._passed()
    assert world.committer.begun == 0
    world.iterates_until(rolled.is_set, "P0 is let go")
    assert world.position(P0) == END - 1 and len(world.tables.read) >= 2


def test_a_stop_commits_what_is_staged_and_waits_for_the_reading(world: World) -> None:
    """It may be in the middle of a commit of its own; the budget of the stop bounds it."""
    world.owns_and_has_staged()
    world.reads_beside()
    world.service.stop()
    writers, told = world.service._writers, world.service._group_offset
    world.iterates_until(lambda: writers[DEAD0].covered == END - 1 and told.is_settled, "P0 is committed and told")
    for _ in range(3):
        assert not world.service._passed()
    world.tables.let.set()
    wait_until(world.service._passed, 10, "the end")
    assert world.tables.read == [[P0], [P1]]


def test_a_claim_that_stays_open_is_not_offered_again_beside_a_reading(world: World) -> None:
    """Its commit may have landed or not; that is found out when the tables are at rest."""
    world.owns_and_has_staged()
    world.committer.reply_is_lost(arrived=False)
    world.rolls_at_once()
    world.iterates_until(lambda: world.service.totals.outcomes[DEAD_LETTERS, "unknown"] == 1, "an unknown outcome")
    world.reads_beside()
    world.service._offers._retry_at.clear()
    world.group.news = [Leaving(frozenset({TopicPartition("events", 7)}), threading.Event())]
    for _ in range(3):
        world.service._passed()
    assert world.committer.begun == 1 and not world.service._offers.running
    world.tables.let.set()
    world.iterates_until(lambda: world.position(P0) == END - 1, "it is offered again")


def test_an_outage_of_the_storage_drops_what_is_being_read_as_well(world: World) -> None:
    """What it found by then counts for nothing: all is read again once the storage answers."""
    world.owns_and_has_staged()
    world.reads_beside()
    world.committer.fails, world.trouble = TableUnreadable("stale file handle"), "nothing mounted"
    world.group.news = [Leaving(frozenset({P0}), threading.Event())]
    world.iterates_until(lambda: not world.service._writers, "everything is dropped")
    world.tables.let.set()
    world.iterates_until(lambda: not world.service._recovering.running, "the reading's end")
    assert DEAD1 not in world.service._writers and world.service._ownership.waiting == [P1]
    world.committer.fails, world.trouble = None, ""
    world.service._recovering.pause_until(0.0)
    world.iterates_until(lambda: world.staged(P1) == 1, "P1 is read again")


def test_what_the_storage_did_not_give_is_asked_for_again_though_it_answers_by_now(world: World) -> None:
    """An outage that is over has lost nothing; a table that cannot be read for ever ends the task all the same."""
    world.owns_and_has_staged()
    world.committer.fails = StorageSilent("table dead_letters cannot be read: no answer")
    world.rolls_at_once()
    world.iterates_until(lambda: not world.service._writers, "everything is dropped")
    world.committer.fails = None
    world.service._recovering.pause_until(0.0)
    world.iterates_until(lambda: world.position(P0) == END - 1, "all is committed")
    world.committer.fails, world.end = StorageSilent("no answer"), 2 * END
    with pytest.raises(StorageSilent):
        world.iterates_until(lambda: bool(world.service._recovering.pause_until(0.0)), "the end")
    assert StorageSilent.exit_code == 69, "start again"


def test_a_commit_that_was_refused_has_its_partition_read_again(world: World) -> None:
    """Another task was faster: what was staged is dropped, and all goes on from the table."""
    world.owns_and_has_staged()
    world.committer.others_move(DEAD_LETTERS, P0, Position(0, 4))
    world.tables.at = 4
    world.rolls_at_once()
    world.iterates_until(lambda: world.position(P0) == END - 1, "the rest is committed")
    assert world.tables.read == [[P0], [P0]] and world.service.totals.refused == 1
