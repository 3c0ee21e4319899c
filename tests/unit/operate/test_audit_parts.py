"""An audit's offsets in parts: each once, and together what files of OPTIMIZE have together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.operate.audit.parts import in_parts, worth_abreast
from offsets.ranges import TopicPartition

BOUNDS = st.tuples(st.integers(0, 9), st.integers(0, 90)).map(lambda one: (one[0], one[0] + one[1]))


@given(st.lists(BOUNDS, max_size=9), st.integers(1, 40), st.integers(1, 9))
def test_each_offset_is_in_one_part(bounds: list[tuple[int, int]], most: int, abreast: int) -> None:
    """Whatever the ranges are; a part is as large as was said, but for what is left over of each division."""
    ranges = {TopicPartition("t", number): one for number, one in enumerate(bounds)}
    parts = [*in_parts(ranges, most, abreast)]
    found = Counter((tp, at) for part in parts for tp, (start, end) in part.items() for at in range(start, end))
    assert found == Counter((tp, at) for tp, (start, end) in ranges.items() for at in range(start, end))
    assert all(sum(end - start for start, end in part.values()) <= most + len(part) for part in parts)


class Files:
    """So many, each of which reaches over so many offsets, one after the other."""

    def __init__(self, span: int, alone: bool) -> None:
        self.span, self.alone = span, alone

    def shapes(self) -> list[tuple[int, int, bool]]:
        return [(1_000, self.span, self.alone)] * 10


@pytest.mark.parametrize(("span", "alone", "abreast"), [
    (100_000, False, 16),  # packed by OPTIMIZE, some days
    (8_000_000, False, 16),  # the same, a long time
    (2_000, True, 1),  # a topic's own
    (8_000_000, True, 1),  # the same, of a rare type
])  # fmt: skip
def test_partitions_are_read_abreast_where_files_hold_all_of_them(span: int, alone: bool, abreast: int) -> None:
    """Else one by one: the fewest bytes are read again."""
    files: Any = [Files(span, alone)]
    assert worth_abreast(files, 16, 500_000) == abreast
    assert worth_abreast(files, 1, 500_000) == worth_abreast([], 16, 500_000) == 1


def test_files_of_a_time_are_asked_for_by_few_parts() -> None:
    """Of 16 partitions with 10 million offsets each, a hundredth in a file: four or five parts ask for each file."""
    ranges = {TopicPartition("t", number): (0, 10_000_000) for number in range(16)}
    files = [(at, at + 100_000) for at in range(0, 10_000_000, 100_000)]
    for abreast, most in (1, 32), (16, 5):
        parts = [*in_parts(ranges, 500_000, abreast)]
        asks = [
            sum(any(start < last and first < end for start, end in part.values()) for part in parts)
            for first, last in files
        ]
        assert max(asks) <= most, asks


def test_many_short_partitions_are_one_part() -> None:
    """A part for each would open each table a thousand times."""
    ranges = {TopicPartition("t", number): (5, 105) for number in range(1_000)}
    assert [*in_parts(ranges, 500_000)] == [ranges]
