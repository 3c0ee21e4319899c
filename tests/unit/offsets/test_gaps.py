"""Retention gaps: what is recorded, and through which offset a type is moved (protocol 5.5)."""

from __future__ import annotations

import itertools

import pytest

from offsets.gaps import Gap, find_gaps, recorded_gaps
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import OffsetRange, TopicPartition

TP = TopicPartition("orders", 0)


def found(position: int, start: int, recorded: int | None = None, epoch: int = 0) -> Gap | None:
    known = {} if recorded is None else {("order", TP, epoch): recorded}
    gaps = find_gaps({TP: {"order": Position(epoch, position)}}, {TP: start}, known)
    return gaps[0] if gaps else None


@pytest.mark.parametrize("position, start", [(-1, 0), (19, 0), (19, 19), (19, 20)])
def test_what_a_type_has_or_can_still_read_is_no_gap(position, start):
    """Up to a log that starts right after the position."""
    assert found(position, start) is None


@pytest.mark.parametrize("position, start, lost", [(19, 21, (20, 20)), (-1, 60, (0, 59)), (19, 60, (20, 59))])
def test_a_gap_reaches_from_the_position_to_the_log_start(position, start, lost):
    """Both ends inclusive, no offset more and none less."""
    assert found(position, start) == Gap("order", TP, 0, OffsetRange(*lost))


def test_a_recorded_gap_is_passed_to_exactly_its_end_before_another_one_is_recorded():
    """The log start has moved on since the row was written: the row's range first, the rest is a gap of its own."""
    assert found(19, 80, recorded=59) == Gap("order", TP, 0, OffsetRange(20, 59), recorded=True)
    assert found(59, 80, recorded=59) == Gap("order", TP, 0, OffsetRange(60, 79))


def test_a_recorded_gap_is_passed_even_if_the_records_are_back():
    """An unclean election may bring a log start back; the row says that they are lost, so nobody reads them."""
    assert found(19, 0, recorded=59) == Gap("order", TP, 0, OffsetRange(20, 59), recorded=True)


def test_the_row_of_an_earlier_epoch_says_nothing_of_this_one():
    """A rewound or switched type that loses offsets again has a row of its own."""
    known = {("order", TP, 0): 59}
    gaps = find_gaps({TP: {"order": Position(1, 19)}}, {TP: 60}, known)
    assert gaps == (Gap("order", TP, 1, OffsetRange(20, 59)),)


def test_types_at_different_positions_lose_different_ranges():
    """Each from its own position; one that is ahead of the log start loses nothing."""
    types = {"ahead": Position(0, 99), "behind": Position(0, -1), "dead_letters": Position(0, 49)}
    gaps = find_gaps({TP: types}, {TP: 60}, {})
    assert [(gap.event_type, str(gap.offsets)) for gap in gaps] == [("behind", "0..59"), ("dead_letters", "50..59")]


def test_the_dead_letters_remember_gaps_per_type_partition_and_epoch():
    """From their transactions; other kinds, other apps and tombstones are none."""
    transactions = {
        "app/gap/order~2E1/orders/0/0": 59,
        "app/gap/click/orders/0/2": 7,
        "app/gap/gone/orders/0/0": TOMBSTONE,
        "other/gap/click/orders/0/0": 9,
        "app/condemned/orders/0/0": 4,
        "app/orders/0/0": 99,
    }
    assert recorded_gaps(transactions, "app") == {("order.1", TP, 0): 59, ("click", TP, 2): 7}


def test_however_two_tasks_and_kills_interleave_each_lost_offset_is_in_one_row_of_its_type():
    """Exhaustive: two tasks read, write the row and move, by compare-and-set, in any order, each stopping anywhere."""
    types = {"a": 19, "dead_letters": 39}
    for steps in itertools.product((0, 1, 2), repeat=7):  # 0, 1: that task goes on; 2: retention moves on
        world = World(dict(types))
        tasks = [world.task(), world.task()]
        for step in steps:
            if step == 2:
                world.start += 10
            else:
                next(tasks[step], None)
        for _ in range(20):
            for _ in world.task():
                pass
        for name, first in types.items():
            lost = sorted(offset for row in world.rows if row[0] == name for offset in range(row[1], row[2] + 1))
            assert lost == list(range(first + 1, world.start)), (steps, name, world.rows)
            assert world.positions[name] == world.start - 1


class World:
    """Tables that compare and set, and a log that loses its beginning."""

    def __init__(self, positions: dict[str, int]) -> None:
        self.positions = positions
        self.recorded: dict[tuple[str, TopicPartition, int], int] = {}
        self.rows: list[tuple[str, int, int]] = []
        self.start = 60

    def task(self):
        """One reading and what follows from it; each step lands only on what was read, else the task ends."""
        known = dict(self.recorded)
        read = dict(self.positions)
        gaps = find_gaps({TP: {name: Position(0, at) for name, at in read.items()}}, {TP: self.start}, known)
        yield
        if fresh := [gap for gap in gaps if not gap.recorded]:
            if self.recorded != known or self.positions["dead_letters"] != read["dead_letters"]:
                return
            for gap in fresh:
                self.recorded[gap.event_type, TP, 0] = gap.offsets.last_offset
                self.rows.append((gap.event_type, gap.offsets.first_offset, gap.offsets.last_offset))
            yield
        for gap in gaps:
            if self.positions[gap.event_type] != read[gap.event_type]:
                return
            self.positions[gap.event_type] = gap.offsets.last_offset
            yield
