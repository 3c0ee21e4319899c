"""Partitions that wait for schemas: which go on, what is asked when, what is said meanwhile (protocol 3.8)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.manifest import RoundResult
from exporter.core.schemas import Schemas, UnknownId
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey
from exporter.errors import DependencyUnreachable, InvariantBroken
from exporter.kafka.assignment import Assigned, Leaving
from exporter.monitor.outages import REGISTRY
from exporter.monitor.watch import Watch
from exporter.protocol.known import KnownTables
from exporter.task import schema_ids
from exporter.task.schema_ids import SchemaIds
from offsets import Invariant
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.fake_schemas import FRAMED, TEXT, FakeSource
from tests.support.lakes import wait_until
from tests.support.snapshots import P0, P1
from tests.unit.task.test_recovering import ROUTING
from tests.unit.task.test_service import END, FINGERPRINT, ReadAtOnce, World

ENDS = {P0: 100, P1: 200}


class Task:
    """One task's machine, with a clock of its own; look-ups are over when `passes` returns."""

    def __init__(self, source: FakeSource, give_up_secs: float = 600.0) -> None:
        self.now = 1_000.0
        self.watch = Watch(give_up_secs=give_up_secs)
        self.running: list[Future[Any]] = []
        self.ids = SchemaIds(source=source, registry="default", watch=self.watch, waking=self.waking)

    def waking(self, future: Future[Any]) -> Future[Any]:
        self.running.append(future)
        return future

    def ended(self, tp: TopicPartition, at: int, *missing: int, frontier: int | None = None, ours: int = 1) -> None:
        """A fragment that ended there is integrated."""
        key = WriterKey("order", tp)
        writers = {key: Writer(key, 0, 1, 0, at - 1 if frontier is None else frontier)}
        plan = PartitionPlan(tp, 1, 0, 5, at, {"order": 4})
        self.ids.take([Fragment(plan, missing=frozenset(missing))], writers, {tp: ours})

    def passes(self, secs: float = 0.0) -> None:
        """Look, and take what was found."""
        self.now += secs
        self.ids.tick(self.now, ENDS)
        for future in self.running:
            future.exception(10)
        self.running.clear()
        self.ids.tick(self.now, ENDS)


def test_a_partition_goes_on_once_its_id_is_decided() -> None:
    """The other one is never held; both ends are handed over, for what is unknown is so through them."""
    source = FakeSource({7: TEXT})
    task = Task(source)
    task.ended(P0, 8, 7, 9)
    assert set(task.ids.waiting) == {P0} and not task.ids.stuck() and task.watch.schema_ids == 2
    task.passes()
    assert not task.ids.waiting and task.watch.schema_ids == 0
    assert source.recorded == {7: (TEXT,), 9: (UnknownId({P0: 99}),)}
    assert task.watch.totals.lookups == {"text": 1, "unknown": 1}


def test_an_unknown_id_is_so_for_the_record_itself_even_where_the_ends_are_of_before() -> None:
    """Else nothing would have been decided of it."""
    source = FakeSource()
    task = Task(source)
    task.ended(P0, 150, 7)
    task.passes()
    assert source.recorded[7] == (UnknownId({P0: 150}),)


def test_what_is_not_decided_yet_is_asked_again_ever_more_rarely_and_said_meanwhile() -> None:
    """The registry's answer may still change (replicas lag)."""
    source = FakeSource(sure=False)
    task = Task(source)
    task.ended(P0, 8, 7)
    task.passes()
    assert task.ids.stuck() == {
        P0: "from offset 8 on it waits for schema id 7: the registry has no such schema so far"
    }
    asked = []
    for _ in range(40):
        before = len(source.asked)
        task.passes(0.5)
        asked.append(len(source.asked) - before)
    assert 3 <= sum(asked) <= 6
    assert not task.watch.outages.open
    source.sure = True
    task.passes(30.0)
    assert not task.ids.waiting


def test_one_partition_may_go_on_while_the_other_waits() -> None:
    """Each by its own ids; one of them is enough to read on to the next."""
    source = FakeSource({7: TEXT}, sure=False)
    task = Task(source)
    task.ended(P0, 8, 7, 9)
    task.ended(P1, 8, 9)
    task.passes()
    assert set(task.ids.waiting) == {P1}


def test_a_registry_that_does_not_answer_is_an_outage_and_decides_nothing() -> None:
    """Its partitions wait, and are named; it is over when it answers."""
    source = FakeSource({7: TEXT})
    source.down = "refused"
    task = Task(source)
    task.ended(P0, 8, 7)
    task.passes()
    assert task.watch.outages.open[REGISTRY].error == "refused; events-0 waits for it"
    assert task.ids.stuck() == {P0: "from offset 8 on it waits for schema id 7: refused"}
    assert source.recorded == {} and task.watch.totals.lookups == {"unreachable": 1}
    source.down = ""
    task.passes(60.0)
    assert not task.watch.outages.open and not task.ids.waiting


def test_an_id_without_an_answer_holds_back_no_other_one() -> None:
    """It comes last when they are asked again."""
    source = FakeSource({7: TEXT})
    source.stalled = {3}
    task = Task(source)
    task.ended(P0, 8, 3)
    task.passes()
    task.ended(P1, 8, 7)
    task.passes(60.0)
    assert set(task.ids.waiting) == {P0} and task.watch.outages.open


def test_a_registry_that_has_not_answered_for_too_long_ends_the_task() -> None:
    """With the exit code of what is unreachable; meanwhile it is asked, but not at every iteration."""
    source = FakeSource()
    source.down = "refused"
    task = Task(source, give_up_secs=100.0)
    task.ended(P0, 8, 7)
    with pytest.raises(DependencyUnreachable, match="events-0") as caught:
        for _ in range(400):
            task.passes(0.5)
    assert caught.value.exit_code == 69
    assert len(source.asked) < 60


def test_a_registry_that_contradicts_what_is_recorded_ends_the_task() -> None:
    """What was read by the recorded text cannot be read by another one."""
    source = FakeSource()
    source.broken = InvariantBroken(Invariant.ROUTE, "id 7 has another text")
    task = Task(source)
    task.ended(P0, 8, 7)
    with pytest.raises(InvariantBroken, match="another text"):
        task.passes()


@pytest.mark.parametrize("fragment", [{"frontier": 3}, {"ours": 2}], ids=["discarded", "of an earlier ownership"])
def test_a_fragment_that_does_not_count_holds_nothing_back(fragment: Any) -> None:
    """It ends there again, if it has to, when it is read again."""
    task = Task(FakeSource())
    task.ended(P0, 8, 7, **fragment)
    assert not task.ids.waiting


def test_a_partition_that_was_taken_away_waits_for_nothing() -> None:
    """Nor does an outage that nobody is in the way of go on."""
    source = FakeSource()
    source.down = "refused"
    task = Task(source)
    task.ended(P0, 8, 7)
    task.passes()
    task.ids.forget([P0])
    task.passes()
    assert not task.ids.waiting and not task.watch.outages.open and task.watch.schema_ids == 0


def test_many_ids_are_taken_bit_by_bit_those_first_that_were_asked_longest_ago(monkeypatch: Any) -> None:
    """A slow registry holds up no partition whose id it has answered already."""
    monkeypatch.setattr(schema_ids, "LOOK_SECS", -1.0)
    source = FakeSource(sure=False)
    task = Task(source)
    task.ended(P0, 8, *range(5))
    for _ in range(5):
        task.passes()
    assert source.asked == [*range(5)]


# --- in the loop


class EndsAtMissing(ReadAtOnce):
    """Rounds that end before an offset of P0 whose schema is missing until something is decided of it."""

    missing = 4

    def __init__(self) -> None:
        super().__init__()
        self.planned: list[tuple[TopicPartition, int]] = []

    def start(self, order: Any) -> None:
        fragments = []
        for plan in order.plans.values():
            self.planned.append((plan.tp, plan.start))
            lacks = plan.tp == P0 and plan.start <= self.missing and not order.schemas.decisions
            end = self.missing if lacks else plan.end
            path = f"day=2026-01-31/{plan.tp}-{plan.start}"
            file = StagedFile(path, OffsetRange(plan.start, end - 1), 1, 1, fingerprint=FINGERPRINT)
            files = {"dead_letters": (file,)} if end > plan.start else {}
            missing = frozenset({7}) if lacks else frozenset[int]()
            fragments.append(Fragment(replace(plan, end=end), files, missing=missing))
        self.results.append(RoundResult(tuple(fragments), {"records": 1}))


class SlowSource(FakeSource):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__({7: TEXT})
        self.let = threading.Event()

    def look_up(self, *args: Any, **kwargs: Any) -> Any:
        assert self.let.wait(10)
        return super().look_up(*args, **kwargs)


class SchemaWorld(World):
    """A task whose values have ids."""

    def __init__(self, source: FakeSource) -> None:
        self.source = source
        super().__init__()

    def given(self) -> dict[str, Any]:
        self.rounds = self.ended = EndsAtMissing()
        given = {**super().given(), "schemas": self.source}
        given["routing"] = replace(ROUTING, value_format=FRAMED)
        known = {"app": "app", "routing": given["routing"], "topics": given["topics"], "committer": self.committer}
        return {**given, "known": KnownTables(**known, schemas=Schemas(self.source))}

    def frontier(self, tp: TopicPartition) -> int:
        writer = self.service._writers.get(WriterKey("dead_letters", tp))
        return -2 if writer is None else writer.frontier


@pytest.fixture
def slow() -> Any:
    world = SchemaWorld(SlowSource())
    yield world
    world.source.let.set()
    world.service._schema_ids.close()


def until(world: SchemaWorld, condition: Callable[[], bool], what: str) -> None:
    world.iterates_until(condition, what)


def test_the_loop_reads_on_where_nothing_is_missing(slow: SchemaWorld) -> None:
    """The partition that waits gets no plan; the other one is read; then the first one goes on where it ended."""
    slow.group.news = [Assigned(P0, 1), Assigned(P1, 2)]
    until(slow, lambda: slow.frontier(P1) == END - 1, "P1 is read")
    assert slow.frontier(P0) == 3
    planned = len(slow.ended.planned)
    slow.end = END + 5
    slow.service._ends.look_again()
    until(slow, lambda: slow.frontier(P1) == END + 4, "P1 is read on")
    assert {tp for tp, _ in slow.ended.planned[planned:]} == {P1} and slow.frontier(P0) == 3
    slow.source.let.set()
    until(slow, lambda: slow.frontier(P0) == END + 4, "P0 is read")
    assert slow.ended.planned[-1] == (P0, 4)


def test_what_was_staged_before_the_missing_record_is_committed(slow: SchemaWorld) -> None:
    """A partition that waits holds back nothing that it has."""
    slow.group.news = [Assigned(P0, 1)]
    until(slow, lambda: slow.frontier(P0) == 3, "P0 is read to its missing record")
    slow.rolls_at_once()
    until(slow, lambda: slow.position(P0) == 3, "it is committed")


def test_a_partition_that_leaves_does_not_wait(slow: SchemaWorld) -> None:
    """It is committed as far as it is, and handed over."""
    slow.group.news = [Assigned(P0, 1)]
    until(slow, lambda: slow.frontier(P0) == 3, "P0 is read to its missing record")
    rolled = threading.Event()
    slow.group.news = [Leaving(frozenset({P0}), rolled)]
    until(slow, rolled.is_set, "it is let go")
    assert slow.position(P0) == 3


def test_a_partition_that_waits_is_told_as_not_ready() -> None:
    """By its name, with the offset and the id."""
    world = SchemaWorld(FakeSource(sure=False))
    world.group.news = [Assigned(P0, 1)]
    until(world, lambda: bool(world.service._schema_ids.stuck()), "it was asked in vain")
    world.service._publish(0.0)
    assert world.watch.snapshot is not None
    assert world.watch.snapshot.not_ready.startswith("events-0: from offset 4 on it waits for schema id 7: ")


def test_that_the_registry_is_the_same_is_looked_for_now_and_then() -> None:
    """Nobody has to wait for anything: ids of known schemas may mean others by now."""
    source = FakeSource()
    task = Task(source)
    for _ in range(13):
        task.passes(10)
        wait_until(lambda: task.ids._verifying is None or task.ids._verifying.done(), 10, "it is looked")
    assert source.verified == 2
    source.contradicts = InvariantBroken(Invariant.ROUTE, "another schema under id 7")
    with pytest.raises(InvariantBroken, match="another schema"):
        for _ in range(13):
            task.passes(10)
            wait_until(lambda: task.ids._verifying is None or task.ids._verifying.done(), 10, "it is looked")
