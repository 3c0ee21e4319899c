"""What becomes of a finished round: taken, dropped or read again. No Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.bisection import STUCK_FAILURES, Ailing, Bisection
from exporter.core.manifest import RoundResult
from exporter.core.memory_committer import MemoryCommitter
from exporter.core.order import TableTarget
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey
from exporter.errors import BrokerSilent, InvariantBroken
from exporter.monitor.outages import STORAGE
from exporter.monitor.watch import WORKERS_SECS, Watch
from exporter.protocol.known import KnownTables
from exporter.task.growing import Growing
from exporter.task.manifests import Manifests
from offsets import Invariant
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.settings import looping
from tests.support.snapshots import P0

ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (), new_type="table")
DEAD, ORDER = WriterKey("dead_letters", P0), WriterKey("order", P0)
FILE = StagedFile("day=2026-01-31/a", OffsetRange(10, 12), 3, 100, fingerprint="f")


def manifest(ownership: int = 1, unwritten: str = "") -> RoundResult:
    plan = PartitionPlan(P0, ownership, 0, 10, 20, {"dead_letters": 9, "order": 9})
    failed = {"order": unwritten} if unwritten else {}
    return RoundResult((Fragment(plan, {"order": (FILE,)}, failed),), {"records": 3})


class Place:
    """One round has finished with `result`; P0's dead letters and orders are at offset 9."""

    def __init__(self) -> None:
        self.result: RoundResult | None = manifest()
        self.failing, self.trouble, self.wrong = False, "", BrokerSilent("nothing", "wait")
        self.again: list[set[TopicPartition]] = []
        self.looks: list[bool] = []
        self.spoiled: list[str] = []
        self.dead_letters: Position | None = Position(0, 9)
        self.silent = False
        self.watch = Watch(probe=lambda: self.trouble)
        self.writers = {key: Writer(key, 0, 1, 9, 9) for key in (DEAD, ORDER)}
        self.rounds: Any = SimpleNamespace(
            failures=0, secs=1.0, trouble=Bisection(), take=self.take,
            spoiled=lambda error, now: self.spoiled.append(error),
        )  # fmt: skip
        nothing: Any = None
        self.known = KnownTables(app="app", routing=ROUTING, topics=nothing, committer=MemoryCommitter())
        self.known.check_topics = self.check_topics
        view = SimpleNamespace(position=lambda app, tp: self.dead_letters)
        lake: Any = SimpleNamespace(app="app", table=lambda name: SimpleNamespace(view=lambda: view))
        ends: Any = SimpleNamespace(look_secs=1.0, look_again=lambda check=False: self.looks.append(check))
        self.machine = Manifests(
            lake=lake, rounds=self.rounds, ends=ends, known=self.known, watch=self.watch,
            settings=looping(new_types_max=1), growing=Growing(lake=lake, known=self.known),
            read_again=lambda tps: self.again.append(set(tps)),
        )  # fmt: skip

    def take(self, now: float) -> RoundResult | None:
        if self.failing:
            self.rounds.failures += 1
            return None
        return self.result

    def check_topics(self, positions: Any) -> None:
        if self.silent:
            raise self.wrong


def test_a_round_is_taken_and_integrated_in_one_step() -> None:
    """Files and frontiers of all its types; the ends are looked at again, for it took a while."""
    place = Place()
    result = place.machine.take(0.0, place.writers)
    assert result is place.result and place.looks == [False]
    after = place.machine.integrate(result, 5.0, place.writers, {P0: 1})
    assert {key: (one.frontier, len(one.staged)) for key, one in after.items()} == {DEAD: (19, 0), ORDER: (19, 1)}
    assert place.watch.totals.records == 3


def test_of_a_partition_that_is_gone_nothing_is_integrated() -> None:
    """Nor of one that came back: its plan was made under another ownership."""
    place = Place()
    for staying in ({}, {P0: 2}):
        assert place.machine.integrate(manifest(), 0.0, place.writers, staying) == place.writers


def test_while_a_broker_is_silent_a_round_is_dropped() -> None:
    """Nobody can say whether it was of the topics that the tables know; another topic stops the task."""
    place = Place()
    place.silent = True
    assert place.machine.take(0.0, place.writers) is None
    place.wrong = InvariantBroken(Invariant.MONOTONE, "another topic", "look")
    with pytest.raises(InvariantBroken):
        place.machine.take(0.0, place.writers)


def test_a_failed_round_has_the_ends_read_again_and_the_topics_checked() -> None:
    """Protocol 3.7: before it is tried again."""
    place = Place()
    place.failing = True
    assert place.machine.take(0.0, place.writers) is None
    assert place.looks == [True] and place.watch.totals.rounds_failed == 1 and place.again == []


def test_what_a_partition_is_stuck_at_may_have_been_skipped() -> None:
    """`exporter repair --skip` begins an epoch: then all is read again."""
    place = Place()
    place.failing = True
    place.rounds.trouble = Bisection({P0: Ailing(1, failures=STUCK_FAILURES)})
    place.machine.take(0.0, place.writers)
    assert place.again == []
    place.dead_letters = Position(1, 9)
    place.machine.take(0.0, place.writers)
    assert place.again == [{P0}]


@pytest.mark.parametrize("out", [True, False])
def test_files_that_cannot_be_written_are_the_storage_s_fault_or_park_their_type(out: bool) -> None:
    """With the storage out the round is read again; else the others go on (protocol 3.6)."""
    place = Place()
    place.result, place.trouble = manifest(unwritten="no space"), "full" if out else ""
    result = place.machine.take(0.0, place.writers)
    if out:
        assert result is None and place.spoiled == ["no space"] and place.watch.totals.rounds_failed == 1
        return
    assert result is not None
    after = place.machine.integrate(result, 0.0, place.writers, {P0: 1})
    assert after[ORDER].parked is not None and after[ORDER].parked.reason == "no space"
    assert (after[DEAD].frontier, after[DEAD].parked) == (19, None)


def test_a_round_whose_workers_did_not_reach_the_storage_is_read_again() -> None:
    """Also if it answers by now: that none of its types is to blame was seen when it failed. A good round ends it."""
    place = Place()
    place.result = RoundResult((), {}, "no connection")
    assert place.machine.take(5.0, place.writers) is None
    assert place.spoiled == ["no connection"] and place.watch.totals.rounds_failed == 1
    assert place.watch.outages.open[STORAGE].error == "no connection"
    assert place.watch.storage_is_out(5.0 + WORKERS_SECS - 1), "until its next round, which is read before that"
    assert not place.watch.storage_is_out(5.0 + WORKERS_SECS)
    place.watch.workers_lack_storage("no connection", 5.0)
    place.machine.integrate(manifest(), 6.0, place.writers, {P0: 1})
    assert not place.watch.storage_is_out(6.0)


def test_one_new_type_too_many_stops() -> None:
    """A record's way must not depend on which types came first (ROUTE)."""
    place = Place()
    place.known.tables["click"] = TableTarget("f")
    new = StagedFile("day=2026-01-31/b", OffsetRange(10, 12), 3, 100)
    place.result = RoundResult((Fragment(PartitionPlan(P0, 1, 0, 10, 20, {}), {"view": (new,)}),), {"records": 3})
    with pytest.raises(InvariantBroken, match="more than 1 event types"):
        place.machine.take(0.0, place.writers)
