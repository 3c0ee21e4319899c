"""When a round is begun, with what, and the record that it would end on again. No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from exporter.core.memory_committer import MemoryCommitter
from exporter.core.order import Destination, StagingOrder, TableTarget
from exporter.core.plan import Budget
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.table_options import TableOptions
from exporter.core.writers import Claim, PartitionPlan, StagedFile, Writer, WriterKey
from exporter.lake.settling import Moved
from exporter.protocol.known import KnownTables
from exporter.protocol.poison import Poisoned
from exporter.stores.file import FileStore
from exporter.task.next_round import NextRound
from offsets.erased import Erased
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.settings import looping
from tests.support.snapshots import P0

ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (), new_type="table")
KEY = WriterKey(DEAD_LETTERS, P0)


TO = Destination("lake", "app", TableOptions(compression="gzip"), sync=True)


class Place:
    """One partition, of which offsets 10 to 19 are left to read. deadly: its rounds end on the record at offset 10."""

    def __init__(self) -> None:
        self.deadly, self.may_start = False, True
        self.spares: bool | Moved = True
        self.orders: list[StagingOrder] = []
        self.poisoned: list[Poisoned] = []
        self.refreshed = 0
        self.writers = {KEY: Writer(KEY, 0, 1, 9, 9)}
        nothing: Any = None
        committer = MemoryCommitter("app", {"routing": "r"})
        self.known = KnownTables(app="app", routing=ROUTING, topics=nothing, committer=committer)
        self.known.tables |= {DEAD_LETTERS: TableTarget("f"), "click": TableTarget("c")}
        rounds: Any = SimpleNamespace(
            may_start=lambda ends, now: self.may_start, plans=(), running=False, carried_bytes=100,
            budget=lambda: Budget(1_000), choose=self.choose, start=self.orders.append,
        )  # fmt: skip
        self.rounds = rounds
        poison: Any = SimpleNamespace(is_next=lambda rounds, plan: self.deadly, spare=self.spare)
        self.store = FileStore("/lake")
        lake: Any = SimpleNamespace(
            app="app", table=lambda name: SimpleNamespace(store=self.store.below(name)), destination=lambda: TO,
        )
        offers: Any = SimpleNamespace(refresh_parked=self.refresh)
        self.machine = NextRound(
            lake=lake,
            routing=ROUTING,
            settings=looping(staged_bytes_max=500, new_types_max=3, carried_bytes_max=1_000),
            known=self.known,
            committer=committer,
            rounds=rounds,
            offers=offers,
            poison=poison,
        )

    def refresh(self, writers: Any, now: float) -> None:
        self.refreshed += 1

    def choose(self, plans: Sequence[PartitionPlan], poison_offsets: Mapping[Any, Any], now: float) -> Sequence[Any]:
        return tuple(replace(plan, end=plan.start + 1) if self.deadly else plan for plan in plans)

    def spare(self, rounds: Any, poisoned: Poisoned) -> bool:
        self.poisoned.append(poisoned)
        if isinstance(self.spares, Moved):
            raise self.spares
        return self.spares

    def tick(self, caught_up: bool = False) -> set[TopicPartition]:
        return self.machine.tick(0.0, self.writers, {P0: 20}, lambda writers: caught_up)


def test_a_round_is_told_what_its_tasks_need() -> None:
    """The plan, the tables as they are, how many new types there may be, and what may be carried."""
    place = Place()
    place.known.poison_offsets[P0] = frozenset({15})
    assert place.tick() == set()
    (order,) = place.orders
    plan = order.plans[P0]
    assert (plan.start, plan.end, plan.ownership) == (10, 20, 1)
    assert order.tables == place.known.tables and order.footers == {P0: {"routing": "r"}}
    assert (order.poison_offsets, order.new_types_max, order.to) == ({P0: {15}}, 2, TO)
    assert order.carried_bytes == 500 and not order.committed_next and place.refreshed == 1


def test_its_tasks_leave_out_what_was_erased_of_its_range() -> None:
    """And only that: of many erasures most are of long ago (ERASED, protocol 4.16)."""
    place = Place()
    place.known.erased = Erased.of(1, [(P0.topic, P0.partition, 0, offset) for offset in (3, 9, 10, 19, 20)])
    place.tick()
    assert [order.erased for order in place.orders] == [{P0: {10, 19}}]


def test_rows_that_are_read_again_for_columns_are_read_to_the_same_end() -> None:
    """What is behind them may bring new fields (protocol 3.1)."""
    place = Place()
    place.tick()
    plan = replace(place.orders[0].plans[P0], end=14)
    place.known.again.once_more(plan, DEAD_LETTERS)
    place.tick()
    assert place.orders[1].plans == {P0: plan}


def test_a_run_with_an_end_says_so_where_this_is_all_that_it_has_to_read() -> None:
    """Then its tasks write side by side what the driver would write file by file."""
    place = Place()
    place.tick(caught_up=True)
    staged = StagedFile("day=2026-01-31/a", OffsetRange(5, 9), 5, 100)
    place.writers[KEY] = replace(place.writers[KEY], covered=4, staged=(staged,))
    place.tick(caught_up=True)
    assert [order.committed_next for order in place.orders] == [True, False]


def test_none_is_begun_where_too_much_is_staged_or_one_is_under_way() -> None:
    """Back-pressure: it is committed first."""
    place = Place()
    place.may_start = False
    assert place.tick() == set()
    place.may_start = True
    staged = StagedFile("day=2026-01-31/a", OffsetRange(5, 9), 5, 500)
    place.writers[KEY] = replace(place.writers[KEY], covered=4, staged=(staged,))
    assert place.tick() == set() and place.orders == []


def test_a_record_that_ends_its_rounds_is_spared_and_passed() -> None:
    """By the dead letters as this task knows them (protocol 3.7); the plan then skips it like every later one."""
    place = Place()
    place.deadly = True
    assert place.tick() == set()
    (poisoned,) = place.poisoned
    assert poisoned.dead_letters == Position(0, 9) and poisoned.plan.start == 10
    assert place.known.poison_offsets == place.known.spared == {P0: {10}}
    assert [order.poison_offsets for order in place.orders] == [{P0: {10}}]


def test_it_waits_for_a_commit_and_for_one_that_fails() -> None:
    """The position of the dead letters may move."""
    place = Place()
    place.deadly = True
    place.spares = False
    assert place.tick() == set()
    place.writers[KEY] = replace(place.writers[KEY], claim=Claim(KEY, 0, 8, 9, (), 0))
    assert place.tick() == set()
    assert len(place.poisoned) == 1 and place.orders == [] and place.known.poison_offsets == {}


def test_where_the_tables_are_not_as_thought_all_is_read_again() -> None:
    """Another task has been there."""
    place = Place()
    place.deadly, place.spares = True, Moved("another task was faster")
    assert place.tick() == {P0} and place.orders == []
