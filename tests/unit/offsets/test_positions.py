"""Positions: read from the map of transactions, inclusive, in the highest live epoch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsets.gaps import recorded_gaps
from offsets.names import AppId
from offsets.positions import (
    TOMBSTONE,
    Interval,
    Position,
    first_epoch,
    floor,
    intervals,
    last_replay,
    live_position,
    our_transactions,
    poison_offsets,
)
from offsets.ranges import TopicPartition
from offsets.rewind import Move, first_anchor, live_positions, move_transactions
from offsets.table_log import TableView

TP = TopicPartition("orders", 0)


def test_an_absent_app_id_is_no_position():
    """Presence comes from the map; an empty table has no position, not position 0 or -1."""
    assert live_position({}, "app", TP) is None


@pytest.mark.parametrize("offset", [-1, 0, 41, TOMBSTONE - 1])
def test_a_txn_version_is_the_last_covered_offset(offset):
    """-1 is present: anchored before offset 0."""
    assert live_position({"app/orders/0/0": offset}, "app", TP) == Position(0, offset)


def test_the_highest_epoch_that_is_no_tombstone_is_live():
    """A rewind may lead to a lower offset: epochs decide, not offsets."""
    transactions = {"app/orders/0/0": TOMBSTONE, "app/orders/0/2": 5, "app/orders/0/1": 900}
    assert live_position(transactions, "app", TP) == Position(2, 5)
    assert live_position({**transactions, "app/orders/0/2": TOMBSTONE}, "app", TP) == Position(1, 900)
    assert live_position({**transactions, "app/orders/0/10": 3}, "app", TP) == Position(10, 3)


def test_a_tombstone_is_never_a_position():
    """Long.MaxValue closes an appId; a table with nothing else has no position."""
    assert live_position({"app/orders/0/0": TOMBSTONE}, "app", TP) is None


def test_remembered_anchors_and_seals_are_not_positions():
    """Only an appId without a kind is a position."""
    transactions = {
        "app/anchor/orders/0/3": 7,
        "app/sealed/orders/0/2": 9,
        "app/gap/order/orders/0/4": 11,
        "app/orders/0/1": 5,
    }
    assert live_position(transactions, "app", TP) == Position(1, 5)


def test_other_apps_topics_and_partitions_are_passed_over():
    """Traps 10: the same partition number of another topic, a longer app name and foreign writers say nothing of us."""
    transactions = {
        "app/orders.v2/0/0": 1,
        "app/orders/1/0": 2,
        "app/orders/10/0": 3,
        "app2/orders/0/0": 4,
        "ap/orders/0/0": 5,
        "delta-rs-0f8f": 6,
        "app/": 7,
        "app/orders/zero/0": 8,
    }
    assert live_position(transactions, "app", TP) is None
    assert [str(app_id) for app_id, _ in our_transactions(transactions, "app")] == [
        "app/orders.v2/0/0",
        "app/orders/1/0",
        "app/orders/10/0",
    ]


def test_a_foreign_transaction_that_resembles_ours_is_passed_over():
    """A txn of somebody else under our prefix neither raises nor becomes a position."""
    assert live_position({"app/orders/0x/0": 1, "app/orders/00/0": 2}, "app", TP) is None


@settings(deadline=None)
@given(st.lists(st.integers(-1, 10**6), min_size=1))
def test_floor_is_just_after_the_least_position(positions):
    """FLOOR: every offset beyond some type's position is read."""
    start = floor(positions)
    assert start - 1 in positions
    assert not any(position < start - 1 for position in positions)


def test_positions_are_ordered_by_epoch_then_offset():
    """An epoch later is a position later, whatever its offset."""
    assert Position(0, 900) < Position(1, -1) < Position(1, 0)


@pytest.mark.parametrize("position, text", [(Position(0, 41), "41"), (Position(2, 41), "41 (epoch 2)")])
def test_a_position_reads_as_an_offset(position, text):
    """The epoch shows only where there was a rewind or a switch."""
    assert str(position) == text


def test_a_table_tells_epoch_by_epoch_what_it_covers():
    """From each epoch's anchor to its seal, and to the live position in the last one."""
    transactions = {
        "app/anchor/orders/0/0": -1,
        "app/sealed/orders/0/0": 99,
        "app/orders/0/0": TOMBSTONE,
        "app/anchor/orders/0/1": 49,
        "app/orders/0/1": 120,
        "app/anchor/orders/1/0": 7,
        "app/orders/1/0": 8,
        "app/gap/order/orders/0/1": 300,
        "app/condemned/orders/0/1": 301,
    }
    assert intervals(transactions, "app", TP) == [Interval(0, -1, 99), Interval(1, 49, 120)]


def test_an_epoch_without_anchor_or_end_covers_nothing_that_can_be_told():
    """A tombstone without a seal and a position without an anchor give no interval."""
    transactions = {"app/anchor/orders/0/0": 3, "app/orders/0/0": TOMBSTONE, "app/orders/0/1": 9}
    assert intervals(transactions, "app", TP) == []


def test_a_view_parses_its_transactions_once_however_many_partitions_are_asked_for(monkeypatch):
    """What each partition costs follows the partitions: 1,500 of them had five million appIds parsed at a start."""
    tps = [TopicPartition("orders", number) for number in range(50)]
    kinds = ("", "anchor/", "sealed/", "condemned/", "replay/")
    view = TableView(1, "id", "f", {f"app/{kind}{tp.topic}/{tp.partition}/1": 7 for kind in kinds for tp in tps})
    parsed = counted_parses(monkeypatch)
    for tp in tps:
        assert view.position("app", tp) == Position(1, 7)
        assert (poison_offsets(view.transactions, "app", tp), last_replay(view.transactions, "app", tp)) == ({7}, 1)
        assert (first_epoch(view.transactions, "app", tp), first_anchor(view.transactions, "app", tp)) == (0, 7)
        assert intervals(view.transactions, "app", tp) == [Interval(1, 7, 7)]
        assert move_transactions(view.transactions, "app", tp, Move(Position(1, 7), Position(2, 3)))
    assert live_positions(view.transactions, "app") == dict.fromkeys(tps, Position(1, 7))
    assert recorded_gaps(view.transactions, "app") == {}
    assert len(parsed) == len(view.transactions)
    assert view.position("other", tps[0]) is None and len(parsed) == len(view.transactions)


def test_a_view_that_was_asked_before_equals_one_that_was_not():
    """What is remembered of a reading is no part of it."""
    asked, fresh = (TableView(1, "id", "f", {"app/orders/0/0": 41}) for _ in range(2))
    assert asked.position("app", TP) == Position(0, 41)
    assert asked == fresh and asked.transactions == {"app/orders/0/0": 41}


def counted_parses(monkeypatch) -> list[str]:
    """The texts that are parsed as appIds from now on."""
    parsed, parse = [], AppId.parse
    monkeypatch.setattr(AppId, "parse", lambda text: parsed.append(text) or parse(text))
    return parsed
