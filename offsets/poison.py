"""What is committed of a poison record, one that ends its tasks (ONCE; protocol 3.7). Pure.

    it ends its rounds ──────────> spared: no plan hands it to a task any more; it has no row
    a table is behind it ────────> it may still get the record, of a task that has read it before: it stays spared
    all are past it ── one has it  held: no row, it is where it belongs
                    └─ none has    skipped: its dead-letter row comes in the same commit

What was found cannot change before the commit: a table that has passed an offset never gets its record afterwards
(FENCE, MONOTONE). Both commits write the dead letters' position again, so that neither and any other commit that goes
by that position, a repair's too, ever both land.
"""

from __future__ import annotations

from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import TopicPartition


def may_hold(position: Position | None, offset: int) -> bool:
    """Whether a row of the record may be in a table at that position."""
    return position is not None and position.offset >= offset


def is_behind(position: Position | None, offset: int) -> bool:
    """Whether a table at that position may still get the record. One without a position gets it behind the offset."""
    return position is not None and position.offset < offset


def spared_transactions(app: str, tp: TopicPartition, offset: int, at: Position) -> dict[str, int]:
    """appId -> version, of the commit to the dead letters. at: their position, that stays what it is."""
    return {str(AppId(app, tp, offset, "spared")): at.epoch, str(AppId(app, tp, at.epoch)): at.offset}


def settled_transactions(app: str, tp: TopicPartition, offset: int, at: Position, held: bool) -> dict[str, int]:
    """The same of the commit that says where a spared record is."""
    spared = {str(AppId(app, tp, offset, "spared")): TOMBSTONE}
    return poison_transactions(app, tp, offset, at, held) | spared


def poison_transactions(app: str, tp: TopicPartition, offset: int, at: Position, held: bool) -> dict[str, int]:
    """The same of a record that was never spared: no table can get it any more (`repair --skip`)."""
    listed = AppId(app, tp, offset, "held" if held else "skipped")
    return {str(listed): at.epoch, str(AppId(app, tp, at.epoch)): at.offset}
