"""Which topics are exported, and which of their partitions are a task's own in a fixed assignment. Pure.

    topics      names, or a regular expression that the whole name matches
    share       "0,2,5"  these partitions of every topic
                "1/4"    partitions p of every topic with p % 4 == 1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Topics:
    """Names, or a pattern; exactly one of the two is given."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError, also for a pattern that is no regular expression."""
        if bool(self.names) == bool(self.pattern):
            raise ValueError("either names or a pattern")
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"not a regular expression: {error}") from None

    @property
    def anchored(self) -> str:
        """The pattern so that re.match, which is satisfied with a beginning, means the whole name."""
        return rf"(?:{self.pattern})\Z"

    def match(self, topic: str) -> bool:
        return topic in self.names or bool(self.pattern and re.match(self.anchored, topic))

    def __str__(self) -> str:
        return f"/{self.pattern}/" if self.pattern else ", ".join(self.names)


@dataclass(frozen=True)
class Share:
    """The partitions of one task, over all topics: those listed, or each p with p % count == index."""

    listed: frozenset[int] = frozenset()
    index: int = 0
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> Share:
        """'0,2,5' or '1/4'. Raises ValueError."""
        wrong = ValueError("should be partitions such as 0,2,5 or index/count such as 1/4")
        parts = [part.strip() for part in text.split("/" if "/" in text else ",")]
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise wrong
        numbers = [int(part) for part in parts]
        if "/" not in text:
            if len(set(numbers)) < len(numbers):
                raise ValueError("names a partition twice")
            return cls(frozenset(numbers))
        if len(numbers) != 2:
            raise wrong
        index, count = numbers
        if index >= count:
            raise ValueError(f"index {index} should be less than the count {count}: tasks are counted from 0")
        return cls(frozenset(), index, count)

    def holds(self, partition: int) -> bool:
        return partition in self.listed or (self.count > 0 and partition % self.count == self.index)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}" if self.count else ",".join(map(str, sorted(self.listed)))


def is_spare(
    member: str, assignments: Mapping[str, Iterable[TopicPartition]], partitions: Iterable[TopicPartition]
) -> bool:
    """True if the group is at rest and has nothing for `member`: it is in it, and all partitions are with others.

    assignments: member id -> partitions, of one settled generation. While a cooperative rebalance moves a partition
    nobody has it; so as long as one is nobody's, it may become this member's.
    """
    if member not in assignments or any(True for _ in assignments[member]):
        return False
    taken = {tp for assigned in assignments.values() for tp in assigned}
    return taken >= set(partitions)
