"""offsets/cursors.py: what of a source is new since a cursor."""

from __future__ import annotations

import random

import pytest

from offsets.cursors import (
    NOTHING,
    Cursor,
    CursorSetback,
    FormerTopic,
    Slice,
    as_transactions,
    cursor_of,
    replayed,
    run_id,
    setbacks,
    slices,
    superseded,
    whole,
    window,
)
from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import TopicPartition
from offsets.rewind import Move, move_transactions
from offsets.table_log import TableView

APP, JOB = "app", "job"
TP, OTHER = TopicPartition("a.topic", 0), TopicPartition("b", 7)


def view(transactions: dict[str, int], table_id: str = "one", version: int = 5) -> TableView:
    return TableView(version, table_id, "", transactions)


def begun(epoch: int = 0, at: int = -1, position: int = 99) -> dict[str, int]:
    return {str(AppId(APP, TP, epoch)): position, str(AppId(APP, TP, epoch, "anchor")): at}


def moved(transactions: dict[str, int], new: Position, **more: bool) -> dict[str, int]:
    """After a repair as the repair itself writes it."""
    old = view(transactions).position(APP, TP)
    return {**transactions, **move_transactions(transactions, APP, TP, Move(old, new), **more)}


def exported(transactions: dict[str, int], offset: int) -> dict[str, int]:
    now = view(transactions).position(APP, TP)
    assert now is not None
    return {**transactions, str(AppId(APP, TP, now.epoch)): offset}


def random_cursor(rng: random.Random) -> Cursor:
    topics = ["t", "a.b", "under_score", "x-1"]
    tps = {TopicPartition(rng.choice(topics), rng.randrange(12)) for _ in range(rng.randrange(5))}
    positions = {tp: Position(rng.randrange(4), rng.randrange(-1, 10**12)) for tp in tps}
    replays = {tp: rng.randrange(1, 9) for tp in tps if rng.random() < 0.5}
    return Cursor(positions, replays, rng.randrange(100), f"id-{rng.randrange(9)}")


@pytest.mark.parametrize("seed", range(50))
def test_a_cursor_comes_back_from_what_it_wrote(seed: int) -> None:
    """Beside the cursors of other sources and jobs, and whatever else the table says."""
    rng = random.Random(seed)
    sources = ["order", "order.x", "ord er", "run"]
    cursors = {source: random_cursor(rng) for source in sources}
    said = {run_id(APP, JOB): 3, run_id(APP, "job2"): 4, f"{APP}/derive/{JOB}/seq": 5}
    for source, cursor in cursors.items():
        said |= as_transactions(cursor, APP, JOB, source)
        said |= as_transactions(random_cursor(rng), APP, f"{JOB}2", source)
    assert {source: cursor_of(said, APP, JOB, source) for source in sources} == cursors
    assert cursor_of(said, APP, JOB, "another") == NOTHING


def test_of_a_partition_the_highest_epoch_counts() -> None:
    """A job's table remembers the cursors of earlier epochs too."""
    before = as_transactions(Cursor({TP: Position(1, 500)}, {}, 3, "one"), APP, JOB, "order")
    now = as_transactions(Cursor({TP: Position(2, 80)}, {}, 9, "one"), APP, JOB, "order")
    assert cursor_of({**before, **now}, APP, JOB, "order") == Cursor({TP: Position(2, 80)}, {}, 9, "one")


def test_who_begins_anew_forgets_greater_epochs_and_other_tables() -> None:
    """A source made anew may begin at a lower epoch and version; the job's run goes on counting."""
    before = {run_id(APP, JOB): 3, **as_transactions(Cursor({TP: Position(4, 500)}, {TP: 2}, 70, "one"), APP, JOB, "o")}
    anew = Cursor({TP: Position(0, 80)}, {}, 2, "two")
    said = {run_id(APP, JOB): 4, **as_transactions(anew, APP, JOB, "o")}
    gone = superseded(before, said, APP, JOB)
    assert cursor_of({**before, **said}, APP, JOB, "o") != anew
    assert cursor_of({**before, **said, **gone}, APP, JOB, "o") == anew
    assert {*gone.values()} == {TOMBSTONE} and run_id(APP, JOB) not in gone


def test_new_is_what_lies_between_the_cursor_and_the_position() -> None:
    """Per partition; one that the cursor lacks is new from its first offset on."""
    since = Cursor({TP: Position(0, 9)})
    now = Cursor({TP: Position(2, 20), OTHER: Position(0, 3)})
    assert slices(since, now) == (Slice(TP, 9, 20), Slice(OTHER, -1, 3))
    assert slices(since, since) == ()
    assert slices(NOTHING, Cursor({TP: Position(0, -1)})) == ()


def test_a_rewind_below_the_cursor_is_a_setback_and_one_above_it_is_none() -> None:
    """By the anchor of the epoch that the repair began (protocol 7.1); through further epochs too."""
    repaired = exported(moved(begun(), Position(1, 60)), 150)
    assert setbacks(Cursor({TP: Position(0, 99)}), view(repaired), APP) == (CursorSetback(TP, 99, 60),)
    assert setbacks(Cursor({TP: Position(0, 60)}), view(repaired), APP) == ()
    assert setbacks(Cursor({TP: Position(1, 99)}), view(repaired), APP) == ()
    again = moved(repaired, Position(2, 150))
    assert setbacks(Cursor({TP: Position(0, 99)}), view(again), APP) == (CursorSetback(TP, 99, 60),)
    assert setbacks(Cursor({TP: Position(1, 150)}), view(again), APP) == ()


def test_a_topic_created_again_takes_nothing_back_and_has_the_same_offsets_again() -> None:
    """What is left of the former topic comes first, by its epochs; the cursor then stands in the new one."""
    rebased = exported(moved(begun(), Position(1, -1), rebased=True), 30)
    now = whole(view(rebased), APP)
    assert now.former == {TP: (FormerTopic(1, 99),)}
    for taken in (Cursor({TP: Position(0, 99)}), Cursor({TP: Position(0, 70)})):
        assert setbacks(taken, view(rebased), APP) == ()
    new = Slice(TP, -1, 30, 1)
    assert slices(Cursor({TP: Position(0, 99)}), now) == (new,)
    assert slices(Cursor({TP: Position(0, 70)}), now) == (Slice(TP, 70, 99, 0, 1), new)
    assert slices(NOTHING, now) == (Slice(TP, -1, 99, 0, 1), new)
    assert slices(Cursor({TP: Position(1, 30)}), now) == ()
    twice = exported(moved(rebased, Position(2, -1), rebased=True), 5)
    assert slices(NOTHING, whole(view(twice), APP)) == (
        Slice(TP, -1, 99, 0, 1), Slice(TP, -1, 30, 1, 2), Slice(TP, -1, 5, 2),
    )  # fmt: skip


def test_a_rewind_before_the_topic_was_created_again_is_seen() -> None:
    """An epoch between the cursor's and the new topic's speaks of the cursor's offsets."""
    rewound = exported(moved(begun(), Position(1, 60)), 80)
    rebased = exported(moved(rewound, Position(2, -1), rebased=True), 200)
    assert setbacks(Cursor({TP: Position(0, 99)}), view(rebased), APP) == (CursorSetback(TP, 99, 60),)
    assert setbacks(Cursor({TP: Position(1, 80)}), view(rebased), APP) == ()


def test_replays_are_new_where_the_cursor_has_been() -> None:
    """A partition that was never taken has its replayed rows among its slices."""
    now = whole(view({**begun(), str(AppId(APP, TP, 2, "replay")): 40, str(AppId(APP, TP, 1, "replay")): 50}), APP)
    assert now.replays == {TP: 2}
    assert replayed(Cursor({TP: Position(0, 99)}, {TP: 1}), now) == {TP: (1, 2)}
    assert replayed(Cursor({TP: Position(0, 10)}), now) == {TP: (0, 2)}
    assert replayed(now, now) == {} == replayed(NOTHING, now)


def random_source(rng: random.Random) -> dict[str, int]:
    """A history of exports, rewinds and re-bases of one partition."""
    transactions = begun(position=rng.randrange(-1, 50))
    for _ in range(rng.randrange(6)):
        now = view(transactions).position(APP, TP)
        assert now is not None
        kind = rng.choice(["export", "rebase", "switch"])
        if kind == "export":
            transactions = exported(transactions, now.offset + rng.randrange(30))
        else:
            at = Position(now.epoch + 1, rng.randrange(-1, 5) if kind == "rebase" else now.offset)
            transactions = moved(transactions, at, rebased=kind == "rebase")
    return transactions


@pytest.mark.parametrize("seed", range(200))
def test_windows_take_each_offset_once_and_come_to_an_end(seed: int) -> None:
    """The slices of all windows, one after the other, are those of one run without a bound, and none is set back."""
    rng = random.Random(seed)
    transactions = random_source(rng)
    now = whole(view(transactions), APP)

    def offsets(found: tuple[Slice, ...]) -> list[tuple[int, int]]:
        return [(one.first, offset) for one in found for offset in range(one.after + 1, one.through + 1)]

    since, taken = NOTHING, list[tuple[int, int]]()
    most = rng.randrange(1, 40)
    for _ in range(400):
        until = window(since, now, most)
        taken += offsets(new := slices(since, until))
        assert sum(one.offsets for one in new) <= most
        said = as_transactions(until, APP, JOB, "order") | as_transactions(since, APP, JOB, "order")
        since = cursor_of({**said, **as_transactions(until, APP, JOB, "order")}, APP, JOB, "order")
        assert setbacks(since, view(transactions), APP) == ()
        if not slices(since, now):
            break
    assert taken == offsets(slices(NOTHING, now))
    assert since.positions == now.positions
