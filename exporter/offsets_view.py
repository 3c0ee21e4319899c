"""`exporter offsets`: where each table stands, per event type and topic partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.routing import DEAD_LETTERS
from exporter.task import Workbench
from exporter.topic import partitions_of
from offsets.positions import Position
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class OffsetRow:
    """position: last covered offset, None = not anchored yet. end: offset after the last record. lag: offsets."""

    event_type: str
    tp: TopicPartition
    position: Position | None
    end: int
    lag: int | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "event_type": self.event_type,
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "position": None if self.position is None else self.position.offset,
            "epoch": None if self.position is None else self.position.epoch,
            "end": self.end,
            "lag": self.lag,
        }


def offset_rows(bench: Workbench) -> Iterator[OffsetRow]:
    """One row per table of the app and partition of the topics, the dead letters first."""
    partitions = partitions_of(bench.topics.identities())
    ends = bench.topics.end_offsets(partitions)
    names = {*bench.lake.event_types(), *bench.routing.active_types} - {DEAD_LETTERS}
    for name in [DEAD_LETTERS, *sorted(names)]:
        view = bench.lake.table(name).view()
        for tp in partitions:
            position = view.position(bench.lake.app, tp) if view is not None else None
            lag = max(0, ends[tp] - 1 - position.offset) if position is not None else None
            yield OffsetRow(name, tp, position, ends[tp], lag)
