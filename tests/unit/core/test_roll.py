"""Rolling and empty markers: when staged files, or nothing at all, become a commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core import heartbeat
from exporter.core.due import Occasion, due_writers
from exporter.core.roll import RollLimits, RollReason, due, rolls
from exporter.core.writers import (
    Fragment,
    Parked,
    PartitionPlan,
    StagedFile,
    Writer,
    WriterKey,
    freeze,
    integrate,
    landed,
)
from offsets.ranges import OffsetRange, TopicPartition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LIMITS = RollLimits(records_max=100, bytes_max=10_000, age_max_secs=60.0)


def file(rows: int = 1, size: int = 1, day: str = "2026-11-01", first: int = 10) -> StagedFile:
    return StagedFile(f"day={day}/x.parquet", OffsetRange(first, first + rows - 1), rows, size)


def writer(*staged: StagedFile, event_type: str = "A", tp: TopicPartition = T0, **changes: object) -> Writer:
    one = Writer(WriterKey(event_type, tp), 0, 1, 9, 500, staged=staged, oldest_at=1000.0)
    return replace(one, **changes)


@pytest.mark.parametrize(
    "staged, now, reason",
    [
        ([file(rows=100)], 1000.0, RollReason.RECORDS),
        ([file(rows=99)], 1000.0, None),
        ([file(rows=60), file(rows=40, day="2026-11-02")], 1000.0, RollReason.RECORDS),
        ([file(size=10_000)], 1000.0, RollReason.BYTES),
        ([file(size=9_999)], 1000.0, None),
        ([file(size=6_000), file(size=4_000, day="2026-11-02")], 1000.0, RollReason.BYTES),
        ([file()], 1060.0, RollReason.AGE),
        ([file()], 1059.9, None),
    ],
)
def test_each_limit_rolls_alone(staged, now, reason):
    """Records, bytes and age of the oldest file, each at its limit and not before; days are counted together."""
    assert due(writer(*staged), LIMITS, now) is reason


def test_stopping_rolls_whatever_is_staged():
    """Traps 35: a graceful stop leaves nothing behind."""
    assert due(writer(file()), LIMITS, 1000.0, stopping=True) is RollReason.STOP


def test_the_first_reason_that_holds_is_told():
    """In the order stop, records, bytes, age."""
    full = writer(file(rows=100, size=10_000))
    assert due(full, LIMITS, 2000.0, stopping=True) is RollReason.STOP
    assert due(full, LIMITS, 2000.0) is RollReason.RECORDS
    assert due(writer(file(size=10_000)), LIMITS, 2000.0) is RollReason.BYTES


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize(
    "one",
    [writer(), freeze(writer(file(rows=500)), 0), writer(file(rows=500), parked=Parked("x", 0.0))],
    ids=["nothing staged", "unresolved commit", "parked"],
)
def test_what_must_not_roll_never_rolls(one, stopping):
    """No files, an unresolved commit or a parked type: not even at stop (protocol 4.1)."""
    assert due(one, LIMITS, 9999.0, stopping) is None


def test_age_rolls_without_a_new_record():
    """Traps 27: the clock alone makes a writer due; nothing is integrated between the two questions."""
    quiet = writer(file())
    assert due(quiet, LIMITS, 1030.0) is None
    assert due(quiet, LIMITS, 1061.0) is RollReason.AGE


def test_the_first_record_after_a_quiet_hour_does_not_roll_alone():
    """Traps 27: age counts from the first staged file, not from the last roll."""
    one = freeze(writer(file()), 0)
    after = landed(one, one.claim, 1000.0)
    plan = PartitionPlan(T0, 1, 0, 501, 600, {"A": 500})
    fragment = Fragment(plan, {"A": (file(first=501),)})
    state = integrate({after.key: after}, fragment, now=4600.0).writers
    assert due(state[after.key], LIMITS, 4600.0) is None
    assert due(state[after.key], LIMITS, 4660.0) is RollReason.AGE


def test_all_days_of_a_writer_roll_together():
    """Traps 2: one claim holds every day, so no day's position can pass another day's records."""
    days = (file(rows=100, day="2026-11-02"), file(day="2026-11-01"), file(day="2026-11-03"))
    one = writer(*days)
    assert due(one, LIMITS, 1000.0) is RollReason.RECORDS
    assert freeze(one, 0).claim.files == days


def test_one_commit_carries_all_due_partitions_of_a_type():
    """Due writers are grouped by type, in order; those not due are left alone."""
    state = [
        writer(file(rows=100), event_type="B", tp=T1),
        writer(file(rows=100), event_type="B"),
        writer(file(size=10_000)),
        writer(file(), tp=T1),
        writer(file(rows=100), event_type="C", parked=Parked("x", 0.0)),
    ]
    found = rolls({one.key: one for one in state}, LIMITS, 1000.0)
    assert found == {
        "A": {WriterKey("A", T0): RollReason.BYTES},
        "B": {WriterKey("B", T0): RollReason.RECORDS, WriterKey("B", T1): RollReason.RECORDS},
    }
    assert [key.tp for key in found["B"]] == [T0, T1]


def test_where_too_much_is_staged_the_largest_roll_first():
    """Largest first, until half of the limit is left; what a commit already takes and what is parked does not count."""
    limits = replace(LIMITS, all_bytes_max=10_000)
    sizes = {"A": 1_000, "B": 3_500, "C": 2_000, "D": 3_500}
    state = {one.key: one for name, size in sizes.items() if (one := writer(file(size=size), event_type=name))}
    assert {name: dict(due) for name, due in rolls(state, limits, 1000.0).items()} == {
        name: {WriterKey(name, T0): RollReason.CROWDED} for name in ("B", "D")
    }
    assert rolls(state, replace(limits, all_bytes_max=10_001), 1000.0) == {}
    frozen = {key: freeze(one, 0) if key.event_type in "BD" else one for key, one in state.items()}
    assert rolls(frozen, limits, 1000.0) == {}


def test_a_quiet_writer_gets_an_empty_marker():
    """Its position moves heartbeat_secs after it fell behind although no record of its type came (traps 9)."""
    quiet = writer(behind_at=1000.0)
    assert not heartbeat.due(quiet, 60.0, 1059.9)
    assert heartbeat.due(quiet, 60.0, 1060.0)


@pytest.mark.parametrize(
    "one",
    [writer(file()), freeze(writer(), 0), writer(parked=Parked("x", 0.0)), writer(frontier=9)],
    ids=["staged files", "unresolved commit", "parked", "nothing covered since"],
)
def test_a_marker_never_passes_what_is_not_committed(one):
    """COVER, protocol 4.1: a marker needs staged empty, no unresolved commit, and something to say."""
    assert not heartbeat.due(one, 60.0, 9999.0)
    assert heartbeat.markers_due({one.key: one}, 60.0, 9999.0) == {}


def test_a_marker_adds_no_row():
    """Traps 26: the claim of a marker has no file and no rows, only a position."""
    claim = freeze(writer(), 3).claim
    assert (claim.files, claim.rows, claim.expected, claim.new) == ((), 0, 9, 500)


def test_markers_are_grouped_by_type():
    """One commit per type carries the markers of all its quiet partitions; busy writers are left out."""
    state = [writer(tp=T1), writer(), writer(event_type="B"), writer(file(), event_type="C")]
    assert heartbeat.markers_due({one.key: one for one in state}, 60.0, 9999.0) == {
        "A": [WriterKey("A", T0), WriterKey("A", T1)],
        "B": [WriterKey("B", T0)],
    }


def test_markers_of_many_quiet_partitions_are_one_commit_per_heartbeat():
    """Each partition gets a record at a time of its own, long after the one before: none moves its tables by itself."""
    state = {one.key: one for n in range(60) if (one := writer(tp=TopicPartition("orders", n), behind_at=1000.0 + n))}
    assert heartbeat.markers_due(state, 60.0, 1059.9) == {}
    assert heartbeat.markers_due(state, 60.0, 1060.0) == {"A": [*state]}


def test_by_age_the_writers_of_a_type_roll_when_one_does() -> None:
    """Sparse records of many partitions would else be a commit each; markers of the type ride along."""
    old, young, other = writer(file(), tp=T1), writer(file(), oldest_at=1050.0), writer(file(), event_type="B")
    idle = writer(tp=TopicPartition("orders", 3), behind_at=1050.0)
    mine = {one.key: one for one in (old, young, replace(other, oldest_at=1050.0))}
    assert rolls(mine, LIMITS, 1061.0) == {"A": {young.key: RollReason.COMPANY, old.key: RollReason.AGE}}
    due_now = due_writers({**mine, idle.key: idle}, {}, LIMITS, 60.0, 1061.0, Occasion())
    assert {name: {*keys} for name, keys in due_now.items()} == {"A": {old.key, young.key, idle.key}}


def test_together_the_writers_of_a_type_roll_when_one_does() -> None:
    """Its commit then tells of all of its partitions: those with rows, and by markers those that moved without any."""
    full, young = writer(file(rows=100)), writer(file(), tp=T1)
    other = writer(file(), event_type="B")
    parked = writer(file(), tp=TopicPartition("orders", 2), parked=Parked("full", 0.0))
    mine = {one.key: one for one in (full, young, other, parked)}
    assert rolls(mine, LIMITS, 1000.0) == {"A": {full.key: RollReason.RECORDS}}
    together = replace(LIMITS, together=True)
    assert rolls(mine, together, 1000.0) == {"A": {full.key: RollReason.RECORDS, young.key: RollReason.COMPANY}}
    idle = writer(tp=TopicPartition("orders", 3))
    for limits, found in ((LIMITS, {full.key}), (together, {full.key, young.key, idle.key})):
        due_now = due_writers({**mine, idle.key: idle}, {}, limits, 3600.0, 1000.0, Occasion())
        assert {name: {*keys} for name, keys in due_now.items()} == {"A": found}
