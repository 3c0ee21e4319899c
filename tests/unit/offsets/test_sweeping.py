"""Which files may be deleted: by names and positions alone (TEMP; protocol, section 6)."""

from __future__ import annotations

from datetime import date

import pytest

from offsets.names import DataFile, gap_file
from offsets.positions import TOMBSTONE
from offsets.ranges import TopicPartition
from offsets.sweeping import may_be_dead, spare
from tests.support.days import partition_of

TP = TopicPartition("orders.v2", 0)


def path(last: int, epoch: int = 0, app: str = "app", tp: TopicPartition = TP, attempt: str = "a1") -> str:
    return str(DataFile(partition_of(date(2026, 1, 31)), app, tp, epoch, last, attempt))


def dead(paths: list[str], transactions: dict[str, int], named: tuple[str, ...] = ()) -> list[str]:
    candidates = may_be_dead(paths, "app", transactions)
    spare(candidates, named)
    return sorted(candidates.values())


@pytest.mark.parametrize("last, is_dead", [(0, True), (40, True), (41, True), (42, False), (900, False)])
def test_a_file_is_dead_from_the_position_that_reaches_its_last_offset(last, is_dead):
    """Up to and including the position; beyond it its writer may still commit it."""
    assert dead([path(last)], {"app/orders.v2/0/0": 41}) == ([path(last)] if is_dead else [])


def test_what_the_snapshot_names_is_spared_however_its_path_is_written():
    """Live files and tombstones, relative, absolute, as a URL."""
    paths = [path(1, attempt=attempt) for attempt in ("live", "tombstone", "absolute", "orphan")]
    named = (paths[0], paths[1], f"file:///lake/order/{paths[2]}")
    assert dead(paths, {"app/orders.v2/0/0": 41}, named) == [paths[3]]


def test_every_file_of_a_closed_epoch_is_dead_also_beyond_its_seal():
    """The tombstone refuses every commit of the epoch, so what was staged past the seal cannot land either."""
    transactions = {
        "app/orders.v2/0/0": TOMBSTONE,
        "app/sealed/orders.v2/0/0": 41,
        "app/anchor/orders.v2/0/1": 41,
        "app/orders.v2/0/1": 60,
    }
    paths = [path(40), path(41), path(900), path(60, epoch=1), path(61, epoch=1)]
    assert dead(paths, transactions) == sorted(paths[:4])


def test_a_file_of_an_epoch_in_which_the_table_never_was_is_dead_once_a_later_one_has_begun():
    """Staged for a type that was met, whose table was not anchored before a switch."""
    transactions = {"app/anchor/orders.v2/0/1": 41, "app/orders.v2/0/1": 41}
    paths = [path(900), path(900, epoch=1), path(900, epoch=2)]
    assert dead(paths, transactions) == paths[:1]
    assert dead(paths, {"app/orders.v2/1/1": 900, "app/orders.v2/0/1": TOMBSTONE}) == [paths[1]]


@pytest.mark.parametrize(
    "transactions",
    [
        {},
        {"app/orders.v2/1/0": 900},
        {"app/orders/0/0": 900},
        {"other/orders.v2/0/0": 900},
        {"app/sealed/orders.v2/0/0": 900, "app/anchor/orders.v2/0/0": 900, "app/condemned/orders.v2/0/0": 900},
        {"app/orders.v2/0/0": -1},
    ],
)
def test_a_file_whose_own_position_is_unknown_or_before_it_stays(transactions):
    """Another partition, topic, app, epoch, or what else a table remembers, says nothing of it."""
    assert dead([path(0)], transactions) == []


@pytest.mark.parametrize("number, is_dead", [(1, True), (2, True), (3, False)])
def test_a_file_of_a_replay_is_dead_once_its_replay_or_a_later_one_is_in_the_table(number, is_dead):
    """Not from the position on, which is beyond its offsets from the first: it would be taken from under its commit."""
    files = [path(5, attempt=f"replay-{number}-0f")]
    transactions = {"app/orders.v2/0/0": 41, "app/replay/orders.v2/0/1": 7, "app/replay/orders.v2/0/2": 3}
    others = {"app/replay/orders.v2/1/9": 7, "app/replay/orders/0/9": 7, "other/replay/orders.v2/0/9": 7}
    assert dead(files, {**transactions, **others}) == (files if is_dead else [])
    assert dead(files, {"app/orders.v2/0/0": 41}) == []
    assert dead(files, {**transactions, **others}, named=tuple(files)) == []


def test_names_that_are_not_ours_are_never_touched():
    """Spark's own files, other apps' files, checksums, folders of other columns, gap rows."""
    transactions = {"app/orders.v2/0/0": 41, "other/orders.v2/0/0": 41}
    foreign = [
        "day=2026-01-31/part-00000-6e4b.c000.snappy.parquet",
        path(1, app="other"),
        path(1) + ".crc",
        path(1).replace("day=", "hour="),
        gap_file(partition_of(date(2026, 1, 31)), "app", TP, 0, "a1"),
        "_delta_log/00000000000000000000.json",
    ]
    assert dead(foreign, transactions) == []
