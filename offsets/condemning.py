"""What a record that ends its tasks is condemned by (ONCE; protocol 3.7). Pure.

    all tables of the partition ──> where its row may be: only where the position has reached it
    no table holds it ── skipped: its dead-letter row comes in the same commit, wherever the position is
    one does ─────────── held: no row, it is where it belongs

What was found cannot change before the commit. A table that has passed an offset never gets its record afterwards
(FENCE, MONOTONE). The others are at the positions that the task knows, or another one is at work there. The commit
writes the dead letters' position again, so that it and any other commit that goes by that position, a repair's too,
never both land. That every task ends on the record, and not one of several only, is presumed.
"""

from __future__ import annotations

from collections.abc import Mapping

from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition


def may_hold(position: Position | None, offset: int) -> bool:
    """Whether a row of the record may be in a table at that position."""
    return position is not None and position.offset >= offset


def is_elsewhere(known: Mapping[str, Position], event_type: str, position: Position | None) -> bool:
    """Whether another task has moved a table. One that the configuration does not fill is where it was left."""
    return event_type in known and position != known[event_type]


def condemned_transactions(
    app: str, tp: TopicPartition, offset: int, letters: Position, held: bool
) -> dict[str, int]:
    """appId -> version, of the commit to the dead letters. letters: their position, that stays what it is."""
    listed = AppId(app, tp, offset, "held" if held else "skipped")
    return {str(listed): letters.epoch, str(AppId(app, tp, letters.epoch)): letters.offset}
