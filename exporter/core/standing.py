"""Where a table stands in a topic partition: the one value behind `offsets`, `status`, `report` and a task. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offsets.positions import Position
from offsets.ranges import TopicPartition


@dataclass(frozen=True)
class TableStanding:
    """position: last covered offset and its epoch, None = not anchored yet. end: after the last record, if known."""

    event_type: str
    tp: TopicPartition
    position: Position | None
    end: int | None

    @property
    def at(self) -> tuple[int | None, int | None]:
        """Offset and epoch of the position."""
        return (None, None) if self.position is None else (self.position.offset, self.position.epoch)

    @property
    def lag(self) -> int | None:
        """Offsets, not records; None where the position or the end is not known."""
        return None if self.position is None else self.behind

    @property
    def behind(self) -> int | None:
        """The same, and all offsets where it is not anchored."""
        covered = -1 if self.position is None else self.position.offset
        return None if self.end is None else max(0, self.end - 1 - covered)

    def where(self, position: str) -> dict[str, Any]:
        """For JSON output. position: what the position is called there."""
        names = ("event_type", "topic", "partition", position, "epoch")
        return dict(zip(names, (self.event_type, *self.tp, *self.at), strict=True))

    def as_status(self, verdict: str, **more: Any) -> dict[str, Any]:
        """One of the `positions` of a status. more: what a task alone knows, or the tables."""
        of_task = dict.fromkeys(("staged_rows", "staged_bytes", "owner"))
        lags = {"read": None, "end": self.end, "lag": self.lag}
        return {**self.where("committed"), **lags, **of_task, "verdict": verdict, **more}
