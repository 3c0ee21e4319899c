"""A reading as a state of the loop: what becomes of it when something happens while it is under way. No Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.core.memory_committer import MemoryCommitter
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Writer, WriterKey
from exporter.errors import (
    BrokerSilent,
    DependencyUnreachable,
    Fenced,
    InvariantBroken,
    JvmEnded,
    RegistryUnreachable,
    TableUnreadable,
)
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.kafka.topics import TopicIdentity
from exporter.lake.schema import table_schema
from exporter.monitor.outages import KAFKA, REGISTRY, STORAGE
from exporter.monitor.watch import Watch
from exporter.protocol.drain import Interrupted
from exporter.protocol.known import KnownTables
from exporter.protocol.recover import Recovered
from exporter.task.ownership import Ownership
from exporter.task.recovering import Recovering
from offsets import Invariant
from offsets.crosscheck import Agree
from offsets.intents import WalUnreachable
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import TableView
from tests.support.lakes import wait_until
from tests.support.snapshots import P0, P1

ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), ())


class Tables:
    """The dead letters alone, whose position of each partition is `at`. A recovery waits until it is let.

    fails: what it raises, as it began and as it ends. draining: it asks whether it may go on, as a drain does.
    """

    def __init__(self) -> None:
        self.at, self.epoch, self.skipped = 4, 0, {P0: set[int](), P1: set[int]()}
        self.read: list[list[TopicPartition]] = []
        self.let, self.begun = threading.Event(), threading.Event()
        self.fails: Exception | None = None
        self.draining = False

    def recover(
        self,
        tps: Collection[TopicPartition],
        *,
        unchanged: Collection[str],
        go_on: Callable[[], None],
        tell: Callable[[Mapping[TopicPartition, str]], None],
    ) -> Recovered:
        self.read.append(sorted(tps))
        found = self.found(tps)
        tell(dict.fromkeys(tps, "agree"))
        self.begun.set()
        while not self.let.wait(0.005):
            if self.draining:
                go_on()
        if self.fails is not None:
            raise self.fails
        return found

    def undecided(self) -> dict[TopicPartition, str]:
        return {P0: "it waits for schema id 7"}

    def found(self, tps: Collection[TopicPartition]) -> Recovered:
        """As the tables are now."""
        versions = {str(AppId("app", tp, self.epoch)): self.at for tp in tps}
        for tp in tps:
            versions |= {f"app/skipped/{tp.topic}/{tp.partition}/{offset}": 0 for offset in self.skipped[tp]}
        view = TableView(3, "id", "fingerprint", versions, schema_json=table_schema(None))
        agreed = {tp: Agree(self.epoch, {DEAD_LETTERS: self.at}, (), self.at) for tp in tps}
        return Recovered(agreed, {DEAD_LETTERS: view}, {"events": TopicIdentity("c", "t1", (0, 1))})


class Task:
    """What a recovery needs of a task."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.watch = Watch(probe=lambda: self.trouble)
        self.trouble = ""
        self.lives = True
        nothing: Any = None
        self.known = KnownTables(app="app", routing=ROUTING, topics=nothing, committer=MemoryCommitter())
        self.writers: dict[WriterKey, Writer] = {}
        self.ownership = Ownership(totals=self.watch.totals, drop=self.drop)
        recovery: Any = self.tables
        self.machine = Recovering(
            recovery=recovery,
            known=self.known,
            ownership=self.ownership,
            watch=self.watch,
            alive=lambda: self.lives,
            waking=lambda future: future,
        )

    def drop(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        for key in [key for key in self.writers if key.tp in tps]:
            del self.writers[key]
        return {}

    def tick(self, may_begin: bool = True, now: float | None = None, waited_for: bool = False) -> None:
        self.writers |= self.machine.tick(time.monotonic() if now is None else now, may_begin, waited_for)

    def begin(self, *changes: AssignmentChange) -> None:
        """The group says something, and a reading is under way."""
        self.ownership.take(changes)
        self.tick()
        assert self.tables.begun.wait(10)

    def end(self, now: float | None = None) -> None:
        """The reading ends, and the loop looks at it."""
        self.tables.let.set()
        wait_until(lambda: self.machine._reading is None or self.machine._reading.done(), 10, "the reading's end")
        self.tick(now=now)

    def recovered(self) -> dict[TopicPartition, tuple[int, int]]:
        """Partition -> its writer's ownership epoch and position."""
        return {key.tp: (one.ownership, one.covered) for key, one in self.writers.items()}


@pytest.fixture
def task() -> Iterator[Task]:
    made = Task()
    yield made
    made.tables.let.set()
    made.machine.close()


BOTH = (Assigned(P0, 1), Assigned(P1, 2))


def test_the_loop_goes_on_while_tables_are_read(task: Task) -> None:
    """Nothing is taken before the reading is done; then every partition has writers where its tables are."""
    task.begin(*BOTH)
    task.tick()
    assert task.machine.running and task.recovered() == {} and task.watch.busy_since is not None
    assert task.known.said == {P0: "agree", P1: "agree"}
    task.end()
    assert task.recovered() == {P0: (1, 4), P1: (2, 4)}
    assert not task.machine.running and task.watch.busy_since is None and task.ownership.unrecovered == set()


def test_no_reading_begins_while_a_commit_of_ours_is_under_way(task: Task) -> None:
    """It might land after its positions were read (protocol 5.3)."""
    task.ownership.take(BOTH)
    task.tick(may_begin=False)
    assert not task.machine.running and task.ownership.waiting == [P0, P1]
    task.tick()
    assert task.machine.running


def test_a_partition_that_was_revoked_meanwhile_gets_no_writers(task: Task) -> None:
    """The others do."""
    task.begin(*BOTH)
    task.ownership.take([Revoked(P0, lost=False)])
    task.end()
    assert task.recovered() == {P1: (2, 4)} and task.ownership.waiting == []


def test_a_partition_that_came_back_meanwhile_is_read_again(task: Task) -> None:
    """Its other owner may have spared a record: what was read before does not skip it: two rows."""
    task.begin(*BOTH)
    task.ownership.take([Revoked(P0, lost=True)])
    task.tables.at, task.tables.skipped[P0] = 9, {7}
    task.ownership.take([Assigned(P0, 5)])
    task.end()
    assert task.recovered() == {P1: (2, 4)}
    task.tick()
    task.end()
    assert task.recovered() == {P0: (5, 9), P1: (2, 4)} and task.known.poison_offsets[P0] == {7}
    assert task.tables.read == [[P0, P1], [P0]]


def test_a_partition_that_is_leaving_is_let_go_at_once_and_gets_no_writers(task: Task) -> None:
    """The group need not wait for a reading that is for nothing."""
    rolled = threading.Event()
    task.begin(*BOTH)
    task.ownership.take([Leaving(frozenset({P0}), rolled)])
    task.ownership.let_go(task.writers)
    assert rolled.is_set() and task.machine.running
    task.end()
    assert task.recovered() == {P1: (2, 4)}


def test_a_partition_that_is_assigned_meanwhile_has_the_next_reading(task: Task) -> None:
    """One at a time."""
    task.begin(Assigned(P0, 1))
    task.ownership.take([Assigned(P1, 2)])
    task.tick()
    task.end()
    assert task.recovered() == {P0: (1, 4)} and task.ownership.waiting == [P1]
    task.tick()
    task.end()
    assert task.recovered() == {P0: (1, 4), P1: (2, 4)} and task.tables.read == [[P0], [P1]]


@pytest.mark.parametrize("why", [Revoked(P0, lost=False), Leaving(frozenset({P0}), threading.Event())])
def test_a_drain_ends_when_a_partition_of_it_is_taken_away(task: Task, why: AssignmentChange) -> None:
    """The new owner drains it; ours would only meet its commits. What is left is read again at once."""
    task.tables.draining = True
    task.begin(*BOTH)
    task.ownership.take([why])
    with capture_logs() as logs:
        wait_until(lambda: (task.tick(), not task.machine.running)[1], 10, "the drain's end")
    assert [line["reason"] for line in logs if line["event"] == "drain_interrupted"] == [
        "a partition of it was taken away"
    ]
    assert task.recovered() == {} and task.ownership.waiting == [P1]
    task.tick()
    task.end()
    assert task.recovered() == {P1: (2, 4)}


def test_a_drain_ends_for_partitions_on_their_way_out(task: Task) -> None:
    """It commits by itself, so nothing else is offered beside it; it begins again once they are committed."""
    task.tables.draining = True
    task.begin(*BOTH)
    wait_until(lambda: task.machine.draining, 10, "the drain's first question")
    wait_until(lambda: (task.tick(waited_for=True), not task.machine.running)[1], 10, "the drain's end")
    assert not task.machine.draining
    task.tick(waited_for=True)
    assert not task.machine.running and task.ownership.waiting == [P0, P1]
    task.tick()
    task.end()
    assert task.recovered() == {P0: (1, 4), P1: (2, 4)}


def test_a_reading_that_does_not_drain_is_not_ended_for_them(task: Task) -> None:
    """It commits nothing that they commit to; a drain that it comes to asks before its first commit."""
    task.begin(*BOTH)
    task.tick(waited_for=True)
    assert task.machine.running and not task.machine.draining
    task.tables.draining = True
    wait_until(lambda: (task.tick(waited_for=True), not task.machine.running)[1], 10, "the drain's end")


def test_a_stop_ends_a_drain_and_begins_no_reading(task: Task) -> None:
    """A plain reading is waited for, as long as the stop may take."""
    task.tables.draining = True
    task.begin(*BOTH)
    task.machine.stop()
    wait_until(lambda: (task.tick(), not task.machine.running)[1], 10, "the drain's end")
    task.tick()
    assert not task.machine.running and task.ownership.waiting == [P0, P1]


def test_a_drain_ends_with_the_jvm(task: Task) -> None:
    """Nobody waits for what cannot come."""
    task.tables.draining = True
    task.begin(*BOTH)
    task.lives = False
    with pytest.raises(JvmEnded):
        wait_until(lambda: task.tick(), 10, "the drain's end")


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (BrokerSilent("nothing", "wait"), 1.0),
        (Interrupted("a round failed", 3.0), 3.0),
        (RegistryUnreachable("refused"), 1.0),
        (WalUnreachable("nothing"), 0.0),
    ],
    ids=["broker", "drain", "registry", "log"],
)
def test_what_passes_by_itself_is_tried_again_later(task: Task, error: Exception, waits: float) -> None:
    """Not before its pause is over; nothing of it counts."""
    task.tables.fails = error
    task.begin(*BOTH)
    now = time.monotonic()
    task.end(now)
    assert task.recovered() == {} and task.ownership.waiting == [P0, P1]
    assert (KAFKA in task.watch.outages.open) == isinstance(error, BrokerSilent)
    assert (REGISTRY in task.watch.outages.open) == isinstance(error, RegistryUnreachable)
    task.tables.fails = None
    if waits:
        task.tick(now=now + waits - 0.1)
        assert not task.machine.running
    task.tick(now=now + waits + 1.0)
    task.end()
    assert task.recovered().keys() == {P0, P1} and REGISTRY not in task.watch.outages.open


@pytest.mark.parametrize(
    "error", [TableUnreadable("no such file"), InvariantBroken(Invariant.MONOTONE, "is gone", "put it back")]
)
def test_what_tables_seem_to_say_while_the_storage_is_out_counts_for_nothing(task: Task, error: Exception) -> None:
    """Also if it is back by the time that the loop looks; with the storage there it stops the task."""
    task.tables.fails, task.trouble = error, "nothing mounted"
    task.begin(*BOTH)
    task.tables.let.set()
    wait_until(lambda: task.machine._reading is None or task.machine._reading.done(), 10, "the reading's end")
    task.trouble = ""
    now = time.monotonic()
    task.tick(now=now)
    assert STORAGE in task.watch.outages.open and task.ownership.waiting == [P0, P1]
    task.tick(now=now + 60.0)
    with pytest.raises(type(error)):
        task.end()


@pytest.mark.parametrize(
    ("error", "believed"),
    [
        (Fenced("another task is switching", ""), False),
        (InvariantBroken(Invariant.ROUTE, "replaced", ""), False),
        (TableUnreadable("cut short"), False),
        (DependencyUnreachable("Spark hangs", ""), True),
    ],
)
def test_an_error_of_a_reading_that_is_not_whole_any_more_is_not_believed(
    task: Task, error: Exception, believed: bool
) -> None:
    """It may be about a partition that another one has by now; what is left is read again and says it again."""
    task.tables.fails = error
    task.begin(*BOTH)
    task.ownership.take([Revoked(P0, lost=False)])
    if believed:
        with pytest.raises(type(error)):
            task.end()
        return
    task.end()
    assert task.ownership.waiting == [P1]
    task.tick()
    with pytest.raises(type(error)):
        task.end()


def test_a_partition_that_is_dropped_meanwhile_is_read_again(task: Task) -> None:
    """The storage was out: everything in memory was dropped, and what is being read with it."""
    task.begin(*BOTH)
    task.ownership.read_again(task.ownership.owned)
    task.end()
    assert task.recovered() == {} and task.ownership.waiting == [P0, P1]


def test_an_epoch_that_a_repair_has_closed_ends_the_task_only_where_it_worked_in_it(task: Task) -> None:
    """A reading that does not count says nothing of where the task has worked."""
    task.begin(Assigned(P0, 1))
    task.ownership.take([Revoked(P0, lost=False), Assigned(P0, 2)])
    task.tables.epoch = 1
    task.end()
    task.tick()
    task.end()
    assert task.recovered() == {P0: (2, 4)}
    task.tables.epoch = 2
    task.ownership.read_again([P0])
    task.tick()
    with pytest.raises(Fenced, match="closed by a repair"):
        task.end()


def test_the_end_of_a_task_waits_a_moment_for_its_reading(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever: a table that is read may hang."""
    monkeypatch.setattr("exporter.task.recovering.CLOSE_SECS", 0.1)
    task.begin(*BOTH)
    began = time.monotonic()
    task.machine.close()
    assert time.monotonic() - began < 5.0
    task.tables.let.set()
