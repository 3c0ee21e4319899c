"""What a manifest with event types met at run time waits for, and how many of them there may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.manifest import TYPES_OVER_MAX, RoundResult
from exporter.core.new_types import require_few, stamped, unanchored
from exporter.core.order import TableTarget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey
from exporter.errors import InvariantBroken
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def file(fingerprint: str = "") -> tuple[StagedFile, ...]:
    return (StagedFile("day=2026-01-01/x.parquet", OffsetRange(5, 7), 2, 10, "{}", fingerprint),)


def fragment(tp: TopicPartition = T0, ownership: int = 1, **files: tuple[StagedFile, ...]) -> Fragment:
    return Fragment(PartitionPlan(tp, ownership, 3, 5, 10, {DEAD_LETTERS: 4, "a": 4}), files)


def dead_letters(tp: TopicPartition, covered: int) -> dict[WriterKey, Writer]:
    key = WriterKey(DEAD_LETTERS, tp)
    return {key: Writer(key, 3, 1, covered, covered + 9)}


def test_a_new_type_is_anchored_where_the_dead_letters_are_in_the_table():
    """Protocol 5.2: at their position, not their frontier; only in the partitions where it was met."""
    writers = {**dead_letters(T0, 4), **dead_letters(T1, 6)}
    result = RoundResult((fragment(new=file()), fragment(T1)), {})
    assert unanchored(writers, {T0: 1, T1: 1}, result) == {WriterKey("new", T0): Position(3, 4)}
    writers[WriterKey("new", T0)] = Writer(WriterKey("new", T0), 3, 1, 4, 4)
    assert unanchored(writers, {T0: 1, T1: 1}, result) == {}


def test_a_fragment_that_will_be_discarded_waits_for_nothing():
    """Its partition is somebody else's by now, ours anew, or about to be read again."""
    result = RoundResult((fragment(new=file()),), {})
    assert unanchored(dead_letters(T0, 4), {}, result) == {}
    assert unanchored(dead_letters(T0, 4), {T0: 2}, result) == {}
    assert unanchored(dead_letters(T1, 4), {T0: 1}, result) == {}


def test_files_of_a_new_type_are_marked_with_its_table_or_left_out():
    """4.2: a table that is not as a new one is made gets files that were staged against it, so they are read again."""
    staged = fragment(new=file(), old=file("f0"))
    plain, other = TableTarget("f1 planned", plain="f1"), TableTarget("f1")
    assert stamped(staged, {"new": plain, "old": TableTarget("f2")}) == replace(
        staged, files={"new": file("f1"), "old": file("f0")}
    )
    assert stamped(staged, {"new": other, "old": plain}).files == stamped(staged, {}).files == {"old": file("f0")}


@pytest.mark.parametrize("met, over, stops", [(1, 0, False), (2, 0, True), (0, 1, True)])
def test_one_undeclared_type_too_many_stops_the_task(met: int, over: int, stops: bool):
    """Counted over the tables that are there and all tasks of the round; exit 70 with a hint that names the setting."""
    files = {f"new{number}": file() for number in range(met)}
    result = RoundResult((fragment(known=file("f"), **files),), {TYPES_OVER_MAX: over})
    if not stops:
        require_few({"known", "other"}, result, 3)
        return
    with pytest.raises(InvariantBroken, match="ROUTE: more than 3 event types") as stopped:
        require_few({"known", "other"}, result, 3)
    assert "`new_types_max`" in stopped.value.hint
