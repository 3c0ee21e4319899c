"""A topic whose log ends before the tables do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.clock import sleep
from exporter.errors import InvariantBroken
from exporter.kafka.topics import TopicReader
from offsets import Invariant
from offsets.ranges import TopicPartition

TRUNCATION_READINGS = 3
TRUNCATION_SECS = 10.0


def check_truncation(
    topics: TopicReader, positions: Mapping[TopicPartition, int], wait: Callable[[float], None] = sleep
) -> None:
    """positions: partition -> greatest position. Raises InvariantBroken if the log ends before it (protocol 5.4)."""
    behind: dict[TopicPartition, tuple[int, int]] = {}
    for reading in range(TRUNCATION_READINGS):
        ends = topics.high_watermarks(positions.keys())
        behind = {tp: (ends[tp], most) for tp, most in positions.items() if ends[tp] <= most}
        if not behind:
            return
        if reading + 1 < TRUNCATION_READINGS:
            wait(TRUNCATION_SECS)
    tp, (end, most) = next(iter(sorted(behind.items())))
    raise truncated(tp, end, most)


def truncated(tp: TopicPartition, end: int, most: int) -> InvariantBroken:
    """The error for a log that ends at `end` while a table is at `most`."""
    return InvariantBroken(
        Invariant.MONOTONE,
        f"{tp}: the log ends at {end}, the tables are at {most}: "
        f"offsets {end}..{most} were exported and are no longer in the log, it was truncated",
        "restore the topic; if it cannot be, create it again: `exporter repair --rebase` then begins with the new one "
        "and keeps what the tables hold",
    )
