"""What a repair decides, without a table: how far back, which epoch, which transactions, which files (protocol 7)."""

from __future__ import annotations

import itertools

import pytest

from offsets.positions import (
    TOMBSTONE,
    Interval,
    Position,
    first_epoch,
    intervals,
    live_position,
    poison_offsets,
    spared_offsets,
)
from offsets.ranges import TopicPartition
from offsets.rewind import (
    Bound,
    Cut,
    FileRows,
    Move,
    Setback,
    adopted_transactions,
    cut,
    first_anchor,
    held,
    live_positions,
    move_transactions,
    moves,
    next_epoch,
    same_since,
)

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
DEAD_LETTERS = "dead_letters"


@pytest.mark.parametrize(
    "position, setbacks, expected",
    [
        (199, [], 199),
        (199, [Setback(199, 99, True)], 99),
        (249, [Setback(199, 99, True)], 99),
        (249, [Setback(199, 199, True)], 199),
        (249, [Setback(199, 220, True)], 199),
        (199, [Setback(199, 39, False)], 39),
        (199, [Setback(199, 39, False), Setback(199, 199, True)], 199),
        (199, [Setback(199, 39, False), Setback(199, 99, True)], 99),
        (199, [Setback(199, 99, True), Setback(199, 149, False)], 99),
        (199, [Setback(199, 99, True), Setback(199, 49, False)], 49),
        (199, [Setback(199, 250, False)], 199),
        (-1, [Setback(-1, -1, True)], -1),
    ],
    ids=["nothing happened", "a restore", "rows landed after a restore", "a restore that lost nothing, rows landed",
         "a restore forward, rows landed",
         "an overwrite", "an overwrite undone by a restore", "an overwrite, then a restore to somewhere else",
         "a restore, then an overwrite beyond", "a restore, then an overwrite before",
         "rows beyond the position", "empty"],
)  # fmt: skip
def test_a_table_holds_what_the_last_accident_left(position: int, setbacks: list[Setback], expected: int) -> None:
    """Rows that landed after a loss do not help: between them and what is held there is a gap."""
    assert held(position, setbacks) == expected


def test_all_tables_of_a_partition_reach_one_epoch_and_only_the_hit_one_goes_back() -> None:
    """Protocol 5.3a: no active table may stay behind the dead letters, none but an interrupted repair's be ahead."""
    at = {DEAD_LETTERS: 90, "order": 80, "click": 70, "old": 5}
    positions = {name: Position(0, offset) for name, offset in at.items()}
    found = moves(DEAD_LETTERS, positions, {"order": 40}, active=(DEAD_LETTERS, "order", "click"))
    assert found == {
        DEAD_LETTERS: Move(Position(0, 90), Position(1, 90)),
        "order": Move(Position(0, 80), Position(1, 40), cuts=True),
        "click": Move(Position(0, 70), Position(1, 70)),
    }


def test_an_interrupted_repair_is_continued_into_the_same_epoch() -> None:
    """In whatever order it had got how far: the rest follows, and afterwards there is nothing left to do."""
    names = (DEAD_LETTERS, "click", "order")
    start = {DEAD_LETTERS: Position(3, 90), "order": Position(3, 80), "click": Position(3, 70)}
    whole = moves(DEAD_LETTERS, start, {"order": 40}, names)
    for count, order in itertools.product(range(1, 3), itertools.permutations(("click", "order"))):
        done = order[:count]
        positions = {**start, **{name: whole[name].new for name in done}}
        targets = {} if "order" in done else {"order": 40}
        rest = moves(DEAD_LETTERS, positions, targets, names)
        assert rest == {name: move for name, move in whole.items() if name not in done}
    assert moves(DEAD_LETTERS, {name: whole[name].new for name in names}, {}, names) == {}


def test_a_second_accident_in_the_middle_of_a_repair_takes_every_table_one_epoch_further() -> None:
    """What had been moved already is hit again: its new epoch is closed too."""
    positions = {DEAD_LETTERS: Position(0, 90), "order": Position(1, 60), "click": Position(0, 70)}
    found = moves(DEAD_LETTERS, positions, {"order": 40}, (DEAD_LETTERS, "order", "click"))
    assert {name: move.new for name, move in found.items()} == {
        DEAD_LETTERS: Position(2, 90), "order": Position(2, 40), "click": Position(2, 70),
    }  # fmt: skip
    assert next_epoch(Position(0, 90), positions, {"order"}) == 2


def test_a_table_that_is_made_anew_begins_in_the_next_epoch() -> None:
    """It has no position: the target alone says where it begins."""
    found = moves(DEAD_LETTERS, {DEAD_LETTERS: Position(0, 90)}, {"order": -1}, (DEAD_LETTERS, "order"))
    assert found["order"] == Move(None, Position(1, -1), cuts=True)
    assert found[DEAD_LETTERS].new == Position(1, 90)


BEFORE = {
    "app/orders/0/0": TOMBSTONE, "app/anchor/orders/0/0": 9, "app/sealed/orders/0/0": 60,
    "app/orders/0/1": 199, "app/anchor/orders/0/1": 60, "app/condemned/orders/0/0": 50, "app/condemned/orders/0/1": 150,
    "app/orders/1/1": 7, "other/orders/0/1": 5, "app/skipped/orders/0/45": 0, "app/skipped/orders/0/160": 1,
    "app/held/orders/0/30": 1, "app/skipped/orders/1/3": 1,
}  # fmt: skip


@pytest.mark.parametrize("target", [99, 40])
def test_a_rewind_closes_the_old_epoch_and_every_offset_stays_in_one_interval(target: int) -> None:
    """Never the same appId again; also a seal of an earlier epoch is drawn back, so that intervals stay disjoint.

    A poison record that loses its row gets it again; it is not read for a table that has passed it without it.
    """
    move = Move(Position(1, 199), Position(2, target), cuts=True)
    after = {**BEFORE, **move_transactions(BEFORE, "app", TP, move)}
    assert after["app/orders/0/1"] == TOMBSTONE
    assert live_position(after, "app", TP) == Position(2, target)
    covered = [o for one in intervals(after, "app", TP) for o in range(one.after + 1, one.through + 1)]
    assert covered == list(range(10, target + 1))
    assert poison_offsets(after, "app", TP) == {45, 50, 150, 160}
    assert spared_offsets(after, "app", TP) == {c for c in (45, 50, 150, 160) if c > target}
    assert poison_offsets(after, "app", OTHER) == {3}
    assert (after["app/orders/1/1"], after["other/orders/0/1"]) == (7, 5)


def test_a_table_that_only_follows_keeps_its_poison_records() -> None:
    """Their rows are still there: read again they would be there twice. Only what that table may have held goes."""
    move = Move(Position(1, 100), Position(2, 100))
    after = {**BEFORE, **move_transactions(BEFORE, "app", TP, move)}
    assert poison_offsets(BEFORE, "app", TP) == {30, 45, 50, 150, 160}
    assert poison_offsets(after, "app", TP) == {45, 50, 150, 160}


def test_a_rebase_forgets_what_was_said_of_the_former_topic() -> None:
    """Intervals and poison records of today are those since the re-base; old seals stay for the reader."""
    move = Move(Position(1, 199), Position(2, -1), cuts=True)
    after = {**BEFORE, **move_transactions(BEFORE, "app", TP, move, rebased=True)}
    assert first_epoch(after, "app", TP) == 2
    assert intervals(after, "app", TP) == [Interval(2, -1, -1)]
    assert poison_offsets(after, "app", TP) == frozenset()
    assert (after["app/sealed/orders/0/0"], after["app/sealed/orders/0/1"]) == (60, 199)
    again = {**after, "app/orders/0/2": 30}
    rewound = {**again, **move_transactions(again, "app", TP, Move(Position(2, 30), Position(3, 10), cuts=True))}
    assert rewound["app/sealed/orders/0/1"] == 199
    assert intervals(rewound, "app", TP) == [Interval(2, -1, 10), Interval(3, 10, 10)]


def test_an_adopted_table_remembers_all_under_the_new_name_and_the_former_is_closed() -> None:
    """Epochs, anchors, seals and poison records are the same; a task of the former app finds tombstones."""
    after = {**BEFORE, **adopted_transactions(BEFORE, "app", "mine")}
    assert intervals(after, "mine", TP) == intervals(BEFORE, "app", TP)
    assert poison_offsets(after, "mine", TP) == {30, 45, 50, 150, 160}
    assert live_positions(after, "mine") == {TP: Position(1, 199), OTHER: Position(1, 7)}
    assert live_positions(after, "app") == {}
    assert after["other/orders/0/1"] == 5


def rows(path: str, first: int, last: int, tp: TopicPartition = TP, epoch: int = 0) -> FileRows:
    return FileRows(path, tp, epoch, first, last)


def test_files_beyond_the_bound_go_whole_and_those_on_both_sides_lose_rows_first() -> None:
    """Other partitions, other topics' epochs and what lies before the bound stay."""
    files = [
        rows("before", 0, 40), rows("both", 30, 41), rows("beyond", 41, 50), rows("elsewhere", 41, 50, OTHER),
        rows("shared", 41, 50), rows("shared", 0, 9, OTHER), rows("former", 41, 50, epoch=1),
        rows("two", 41, 50), rows("two", 60, 70, epoch=3),
    ]  # fmt: skip
    assert cut(files, [Bound(TP, 40)]) == Cut(("beyond", "former", "two"), ("both", "shared"))
    assert cut(files, [Bound(TP, 40, since=2)]) == Cut((), ("two",))
    assert cut(files, [Bound(TP, 40), Bound(OTHER, 40)]).removed == ("beyond", "elsewhere", "former", "two")
    assert cut(files, []) == Cut((), ())


@pytest.mark.parametrize(
    "history, epoch, since, expected",
    [({0: "a"}, 0, 0, 0), ({0: "a", 1: "a", 2: "a"}, 2, 0, 0), ({0: "a", 1: "b", 2: "b"}, 2, 0, 1),
     ({0: "b", 1: "a", 2: "b"}, 2, 0, 2), ({0: "a", 2: "a"}, 2, 0, 0), ({0: "a", 1: "a"}, 1, 1, 1)],
)  # fmt: skip
def test_the_configuration_in_force_goes_back_as_far_as_it_was_the_same(
    history: dict[int, str], epoch: int, since: int, expected: int
) -> None:
    """ROUTE: beyond that a record may have gone to another table; epochs before a re-base do not count."""
    assert same_since(history, epoch, since) == expected


def test_the_first_anchor_is_that_of_the_earliest_epoch() -> None:
    """Nothing at or before it is the table's to hold."""
    assert first_anchor(BEFORE, "app", TP) == 9
    assert first_anchor(BEFORE, "app", TP, since=1) == 60
    assert first_anchor(BEFORE, "app", OTHER) is None
