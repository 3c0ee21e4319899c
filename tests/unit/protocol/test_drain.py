"""The rounds of a drain: waited for, and never waited out."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.bisection import SINGLE_FAILURES_MAX
from exporter.core.manifest import RoundResult
from exporter.core.order import StagingOrder
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import UnknownId
from exporter.core.writers import Fragment, PartitionPlan
from exporter.errors import DependencyUnreachable, JvmEnded, RegistryUnreachable, RoundFailed
from exporter.protocol.drain import DrainRounds, Interrupted
from exporter.protocol.poison import Poison, Poisoned
from exporter.rounds.rounds import Rounds
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.fake_schemas import TEXT, FakeSource
from tests.support.orders import order_of

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDER = order_of("/lake", Routing(TypeFrom("json", "type"), EventTime("record"), ()), {})


class Reader:
    """Reads what `of` says, in the round's thread; a cancelled round ends."""

    def __init__(self, of: Callable[[StagingOrder], RoundResult]) -> None:
        self.of = of
        self.cancelled = threading.Event()
        self.read_ranges: list[tuple[int, int]] = []

    def read(self, order: StagingOrder) -> RoundResult:
        self.read_ranges += [(plan.start, plan.end) for plan in order.plans.values()]
        return self.of(order)

    def has_executors(self) -> bool:
        return True

    def cancel(self, dropped: bool = False) -> None:
        self.cancelled.set()


class Remembering(Poison):
    """Remembers what it spared."""

    def __init__(self) -> None:
        self.spared: list[int] = []

    def spare(self, rounds: Rounds, poisoned: Poisoned) -> bool:
        self.spared.append(poisoned.plan.start)
        rounds.trouble = rounds.trouble.passed([poisoned.plan])
        return True

    def passed(self) -> None:
        pass


def plan(tp: TopicPartition, start: int, end: int) -> PartitionPlan:
    return PartitionPlan(tp, 0, 0, start, end, {"order": start - 1})


def order(plans: Sequence[PartitionPlan]) -> StagingOrder:
    return replace(ORDER, plans={one.tp: one for one in plans})


def poisoned(one: PartitionPlan) -> Poisoned:
    return Poisoned(one, Position(0, 4), 0)


def passed(order: StagingOrder, unwritten: str = "") -> RoundResult:
    fragments = (Fragment(one, {}, {"order": unwritten} if unwritten else {}) for one in order.plans.values())
    return RoundResult(tuple(fragments), {"records": 1, "bytes": 10})


def drain_of(reader: Any, poison: Any = None, secs_max: float = 600.0) -> DrainRounds:
    return DrainRounds(lambda waking: Rounds(reader, 1_000, 1_000_000, secs_max, waking), poison or Remembering())


def go_on() -> None:
    """Nothing stops it."""


def drained(drain: DrainRounds, poison: Remembering, ends: dict[TopicPartition, int]) -> None:
    """Readings of all tables until everything up to the ends is read."""
    at = dict.fromkeys(ends, 0)
    for reading in itertools.count(1):
        assert reading < 200
        drain._rounds._waits.clear()  # the loop would wait
        try:
            while plans := [plan(tp, at[tp], end) for tp, end in ends.items() if at[tp] < end]:
                for fragment in drain.read(plans, {T1: poison.spared}, order, poisoned, go_on).fragments:
                    at[fragment.plan.tp] = fragment.plan.end
        except Interrupted:
            continue
        return


def test_a_record_that_ends_its_task_is_found_and_spared() -> None:
    """By partition, then by halves, as in any round; everything before and after it is read."""
    poison = Remembering()

    def read(order: StagingOrder) -> RoundResult:
        deadly = T1 in order.plans and order.plans[T1].start <= 37 < order.plans[T1].end
        if deadly and not poison.spared:
            failed = RoundFailed("a worker died", raw=object())
            raise failed
        return passed(order)

    drain = drain_of(Reader(read), poison)
    drained(drain, poison, {T0: 100, T1: 100})
    assert poison.spared == [37]
    drain.close()


def test_a_round_that_fails_is_tried_again_after_a_pause() -> None:
    """The task does not end for it; the pauses grow, and nothing is spared while not even a raw read works."""
    failing = [RoundFailed("the broker is silent")] * (SINGLE_FAILURES_MAX + 2)

    def read(order: StagingOrder) -> RoundResult:
        if failing:
            raise failing.pop()
        return passed(order)

    poison = Remembering()
    drain = drain_of(Reader(read), poison)
    pauses = []
    while failing:
        drain._rounds._waits.clear()  # the loop has waited
        with pytest.raises(Interrupted, match="silent") as interrupted:
            drain.read([plan(T0, 5, 6)], {}, order, poisoned, go_on)
        pauses.append(interrupted.value.pause_secs)
    assert pauses == sorted(pauses) and pauses[0] > 0.5
    with pytest.raises(Interrupted, match="silent"):
        drain.read([plan(T0, 5, 6)], {}, order, poisoned, go_on)
    drain._rounds._waits.clear()
    assert drain.read([plan(T0, 5, 6)], {}, order, poisoned, go_on).fragments and not poison.spared
    drain.close()


def test_a_table_that_cannot_be_written_interrupts_a_drain() -> None:
    """Nothing of the round is taken; it is read again later."""
    drain = drain_of(Reader(lambda order: passed(order, unwritten="no space")))
    with pytest.raises(Interrupted, match="no space"):
        drain.read([plan(T0, 0, 9)], {}, order, poisoned, go_on)
    drain.close()


@pytest.mark.parametrize("why", [JvmEnded(), Interrupted("told to stop")], ids=["the JVM ends", "a stop"])
def test_a_drain_waits_neither_for_a_dead_jvm_nor_after_a_stop(why: Exception) -> None:
    """The round is cancelled and forgotten, whatever becomes of it."""

    def read(order: StagingOrder) -> RoundResult:
        reader.cancelled.wait(60)
        return passed(order)

    reader = Reader(read)
    drain = drain_of(reader)
    asked = iter([None, None, why])

    def stops() -> None:
        if (error := next(asked)) is not None:
            raise error

    with pytest.raises(type(why)):
        drain.read([plan(T0, 0, 9)], {}, order, poisoned, stops)
    assert reader.cancelled.is_set() and not drain._rounds.running
    drain.close()


def test_a_round_of_a_drain_has_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond round_secs_max it is cancelled and tried again; if Spark does not even cancel, the task ends with 69."""

    def read(order: StagingOrder) -> RoundResult:
        reader.cancelled.wait(60)
        raise RoundFailed("cancelled")

    reader = Reader(read)
    drain = drain_of(reader, secs_max=0.0)
    with pytest.raises(Interrupted, match="cancelled"):
        drain.read([plan(T0, 0, 9)], {}, order, poisoned, go_on)
    drain.close()
    ends = threading.Event()

    def deaf(order: StagingOrder) -> RoundResult:
        ends.wait(60)
        return passed(order)

    monkeypatch.setattr("exporter.rounds.rounds.CANCEL_SECS_MAX", 0.0)
    drain = drain_of(Reader(deaf), secs_max=0.0)
    with pytest.raises(DependencyUnreachable, match="cannot be cancelled"):
        drain.read([plan(T0, 0, 9)], {}, order, poisoned, go_on)
    ends.set()
    drain.close()


def test_nothing_is_spared_or_read_that_is_not_wanted_any_more() -> None:
    """It is asked first: the partition may be with another task, which knows nothing of the row."""
    poison = Remembering()
    reader = Reader(passed)
    drain = drain_of(reader, poison)
    failed = drain._rounds.trouble
    for _ in range(2 * SINGLE_FAILURES_MAX):
        failed = failed.failed([plan(T0, 5, 6)], readable=True)
    drain._rounds.trouble = failed
    assert failed.poison() == {T0: 5}

    def unwanted() -> None:
        raise Interrupted("a partition of it was taken away")

    with pytest.raises(Interrupted, match="taken away"):
        drain.read([plan(T0, 5, 6)], {}, order, poisoned, unwanted)
    assert poison.spared == [] and reader.read_ranges == []
    with pytest.raises(Interrupted, match="is poison: skipped now"):
        drain.read([plan(T0, 5, 6)], {}, order, poisoned, go_on)
    assert poison.spared == [5]
    drain.close()


# --- schemas of records (protocol 3.8)


def deciding(source: FakeSource) -> DrainRounds:
    reader = Reader(passed)
    return DrainRounds(lambda waking: Rounds(reader, 1_000, 1_000_000, 600.0, waking), Remembering(), source)


def ended(tp: TopicPartition, at: int, *missing: int) -> Fragment:
    return Fragment(plan(tp, at, at), missing=frozenset(missing))


ENDS = {T0: 20, T1: 30}


def test_a_drain_looks_up_what_its_records_lack_and_goes_on() -> None:
    """By the ends of the drain; what the next rounds are told has it."""
    source = FakeSource({7: TEXT})
    drain = deciding(source)
    drain.decide([ended(T0, 5, 7), ended(T1, 9, 7, 8), Fragment(plan(T0, 0, 5))], "default", ENDS, go_on)
    assert drain.known("default").decisions == {7: (TEXT,), 8: (UnknownId({T1: 29}),)}
    assert not drain.undecided
    drain.close()


def test_a_drain_waits_for_what_is_not_decided_yet_and_says_so() -> None:
    """It is left as it is, ever longer; a partition that could go on does so with the next one."""
    source = FakeSource({7: TEXT}, sure=False)
    drain, pauses = deciding(source), []
    for _ in range(3):
        with pytest.raises(Interrupted, match="orders-1: it waits for schema id 8") as caught:
            drain.decide([ended(T0, 5, 7), ended(T1, 9, 8)], "default", ENDS, go_on)
        pauses.append(caught.value.pause_secs)
    assert pauses == [1.0, 2.0, 4.0] and drain.undecided.keys() == {T1}
    source.sure = True
    drain.decide([ended(T1, 9, 8)], "default", ENDS, go_on)
    assert not drain.undecided
    drain.close()


def test_a_drain_without_an_answer_ends_and_what_it_has_found_is_kept() -> None:
    """The recovery tells of the outage, and begins it anew."""
    source = FakeSource({7: TEXT})
    source.stalled = {8}
    drain = deciding(source)
    with pytest.raises(RegistryUnreachable, match="no id 8"):
        drain.decide([ended(T0, 5, 7), ended(T1, 9, 8)], "default", ENDS, go_on)
    assert drain.undecided == {T1: "it waits for schema id 8: no id 8"}
    assert drain.known("default").text(7) == TEXT
    drain.close()


def test_a_drain_that_may_not_go_on_asks_nobody() -> None:
    """A stop is not waited out at a registry that is slow."""

    def stopped() -> None:
        raise Interrupted("told to stop")

    source = FakeSource({7: TEXT})
    drain = deciding(source)
    with pytest.raises(Interrupted, match="told to stop"):
        drain.decide([ended(T0, 5, 7)], "default", ENDS, stopped)
    assert not source.asked
    drain.close()
