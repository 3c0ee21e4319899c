"""Topic partitions and inclusive offset ranges, with every way two ranges can lie.

    a        |-----|
    before           |---|      a.precedes(b)
    touches          |---|      b.first_offset == a.next_offset: still disjoint
    overlaps     |-----|        a.overlaps(b)
    within     |---|            a.contains(b), and they overlap

Offsets are compared, never counted: compacted and transactional topics have holes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class TopicIdentity:
    """Names alone do not identify a topic: it may be deleted and created again (traps 8)."""

    cluster_id: str
    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Offsets first_offset..last_offset, both inclusive; never empty."""

    first_offset: int
    last_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_offset <= self.last_offset:
            raise ValueError(f"not an offset range: {self.first_offset}..{self.last_offset}")

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def precedes(self, other: OffsetRange) -> bool:
        """True if every offset of self is less than every offset of other."""
        return self.last_offset < other.first_offset

    def overlaps(self, other: OffsetRange) -> bool:
        return not (self.precedes(other) or other.precedes(self))

    def contains(self, other: OffsetRange) -> bool:
        return self.first_offset <= other.first_offset and other.last_offset <= self.last_offset

    def __str__(self) -> str:
        return f"{self.first_offset}..{self.last_offset}"


def first_overlap(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, OffsetRange] | None:
    """Two of the ranges that share an offset, or None if they are pairwise disjoint."""
    ordered = sorted(ranges)
    for left, right in itertools.pairwise(ordered):
        if left.overlaps(right):
            return left, right
    return None
