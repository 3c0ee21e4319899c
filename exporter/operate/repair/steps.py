"""What a repair plans for each table, and what the dead letters have to record with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.operate.repair.reading import RepairReading
from offsets.names import table_folder
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.rewind import Bound, Cut, Move
from offsets.table_log import ROUTING_PROPERTY, TABLE_PROPERTY, TableView

WHERE = "`exporter offsets` shows where the tables are"


@dataclass(frozen=True)
class RepairRow:
    """What one table gets for one partition. tp None: the table as a whole. removed: files taken out of the table."""

    table: str
    tp: TopicPartition | None
    old: Position | None
    new: Position | None
    removed: int = 0
    says: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row of a step, for JSON."""
        return {
            "table": self.table,
            "topic": self.tp.topic if self.tp else None,
            "partition": self.tp.partition if self.tp else None,
            "old": _position_dict(self.old),
            "new": _position_dict(self.new),
            "files_removed": self.removed,
            "says": self.says,
        }


def _position_dict(position: Position | None) -> dict[str, int] | None:
    return None if position is None else {"epoch": position.epoch, "position": position.offset}


@dataclass(frozen=True)
class TableRepair:
    """All that one table gets, in one commit; a DELETE of rows may have to go first. view None: made anew.

    adds: writes the files that come with it. says: what more the table's history is told.
    """

    name: str
    view: TableView | None
    transactions: Mapping[str, int]
    rows: tuple[RepairRow, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    files: Cut = field(default_factory=lambda: Cut((), ()))
    create: str | None = None
    evolve: str | None = None
    routing: str = ""
    adds: Callable[[], tuple[Mapping[str, Any], ...]] = tuple
    says: Mapping[str, Any] = field(default_factory=dict)


def histories(
    reading: RepairReading, properties: Mapping[str, str], dead_letters_moves: Mapping[TopicPartition, Move]
) -> dict[str, str]:
    """The dead letters' routing histories with the new epochs, under the configuration that is in force."""
    found = {}
    for tp, move in dead_letters_moves.items():
        history = {**reading.history_of(tp), move.new.epoch: reading.in_force(tp)[0]}
        found[f"{ROUTING_PROPERTY}{tp}"] = json.dumps(history)
    return found


def dead_letters_properties(
    properties: Mapping[str, str], reading: RepairReading, dead_letters_moves: Mapping[TopicPartition, Move]
) -> dict[str, str]:
    """What the dead letters have to record: as before the accident, the new epochs, and the tables' present ids."""
    ids = {
        f"{TABLE_PROPERTY}{table_folder(name)}": view.table_id
        for name, view in reading.views.items()
        if f"{TABLE_PROPERTY}{table_folder(name)}" in properties
    }
    return {**ids, **histories(reading, properties, dead_letters_moves)}
