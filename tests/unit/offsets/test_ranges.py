"""Offset ranges: inclusive at both ends, compared and never counted."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsets.ranges import OffsetRange, TopicPartition, first_overlap

ranges = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: OffsetRange(min(pair), max(pair)))


def offsets_of(span: OffsetRange) -> set[int]:
    return set(range(span.first_offset, span.next_offset))


@pytest.mark.parametrize("first, last", [(-1, 3), (5, 4), (-2, -1)])
def test_a_range_is_never_empty_and_never_negative(first, last):
    """first <= last and both at least 0; anything else cannot be built."""
    with pytest.raises(ValueError, match="not an offset range"):
        OffsetRange(first, last)


def test_a_range_of_one_offset_is_a_range():
    """Both ends are inclusive, so first == last holds one offset."""
    assert offsets_of(OffsetRange(7, 7)) == {7}
    assert OffsetRange(7, 7).next_offset == 8


def test_ranges_that_touch_are_disjoint():
    """The range that begins at next_offset shares nothing with its neighbour."""
    left, right = OffsetRange(3, 5), OffsetRange(6, 9)
    assert left.precedes(right)
    assert not right.precedes(left)
    assert not left.overlaps(right)
    assert first_overlap([right, left]) is None


def test_every_way_two_ranges_can_lie_agrees_with_sets():
    """precedes, overlaps and contains mean what they mean for sets of offsets, over all small ranges."""
    small = [OffsetRange(first, last) for first in range(5) for last in range(first, 5)]
    for left, right in itertools.product(small, repeat=2):
        ours, theirs = offsets_of(left), offsets_of(right)
        assert left.overlaps(right) == bool(ours & theirs)
        assert left.contains(right) == (theirs <= ours)
        assert left.precedes(right) == (max(ours) < min(theirs))


@settings(deadline=None)
@given(st.lists(ranges, max_size=6))
def test_first_overlap_finds_one_if_and_only_if_there_is_one(spans):
    """Looking at neighbours in order is enough, duplicates of a range included."""
    found = first_overlap(spans)
    clashes = any(left.overlaps(right) for left, right in itertools.combinations(spans, 2))
    assert (found is not None) == clashes
    if found:
        assert found[0].overlaps(found[1])
        assert set(found) <= set(spans)


def test_a_wide_range_overlaps_a_late_one_behind_a_narrow_one():
    """0..9 holds 5..6 although 1..2 stands between them in order."""
    assert first_overlap([OffsetRange(5, 6), OffsetRange(0, 9), OffsetRange(1, 2)]) is not None


def test_ranges_and_partitions_read_well():
    """Both ends show in a range's text; a partition's text is topic-number, as Kafka writes it."""
    assert str(OffsetRange(3, 5)) == "3..5"
    assert str(TopicPartition("orders.v1", 12)) == "orders.v1-12"


@settings(deadline=None)
@given(*[st.tuples(st.from_regex(r"[A-Za-z0-9._-]{1,4}", fullmatch=True), st.integers(0, 99))] * 2)
def test_two_partitions_never_share_a_text(left, right):
    """Table properties are keyed by this text: dashes and digits in a topic's name cannot blur it (traps 10)."""
    assert (str(TopicPartition(*left)) == str(TopicPartition(*right))) == (left == right)
