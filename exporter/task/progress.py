"""How far a task is: what a moment of the loop says to a person. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.core.writers import Writers
from exporter.monitor.totals import Totals
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class Progress:
    """A moment of the loop. lag: offsets between the least position and the end, over owned partitions, if known."""

    records: int
    committed: int
    dead_letters: int
    lag: int | None
    backlog_at_start: int
    staged_bytes: int
    partitions: int
    commits: int


def progress(
    totals: Totals, writers: Writers, partitions: int, lag: int | None, backlog_at_start: int | None
) -> Progress:
    """lag: as it is now; told once the backlog at the start is known."""
    return Progress(
        records=totals.records,
        committed=sum(totals.committed.values()),
        dead_letters=totals.dead_letters,
        lag=lag if backlog_at_start is not None else None,
        backlog_at_start=backlog_at_start or 0,
        staged_bytes=sum(writer.staged_bytes for writer in writers.values()),
        partitions=partitions,
        commits=totals.commits,
    )


def position_bounds(writers: Writers) -> dict[TopicPartition, tuple[int, int]]:
    """The least and the greatest position of each partition."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for key, writer in writers.items():
        at = writer.covered
        if (bounds := found.get(key.tp)) is None:
            found[key.tp] = at, at
        elif not bounds[0] <= at <= bounds[1]:  # mostly all are where the first one is
            found[key.tp] = min(at, bounds[0]), max(at, bounds[1])
    return found


def lag_of(
    owned: Iterable[TopicPartition], positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> int | None:
    """Offsets that are not committed; None as long as a position or an end of what is owned is not known."""
    lags = [max(0, ends[tp] - 1 - positions[tp]) if tp in ends and tp in positions else None for tp in owned]
    return None if None in lags else sum(filter(None, lags))
