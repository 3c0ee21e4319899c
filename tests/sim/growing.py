"""Columns that follow from what is in records, without Spark: what a task decodes, what it leaves over, what it says.

    a record's value ── fields that a column holds ── the others are left over: the manifest says what was seen of them

A file says behind its rows which columns it has, where its table may get some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from exporter.column.spark_json import struct_of
from exporter.column.types import ScalarType
from exporter.core.order import StagingOrder
from exporter.core.seen import At, Seen
from offsets.ranges import TopicPartition
from tests.sim.broker import Record

TEXT = "~"
"""So begins the kind of a record whose id is a text: a type whose id is a number cannot have it."""
HOLDS: Mapping[str, tuple[type, ...]] = {"long": (int,), "string": (str,), "json": (int, str)}
"""What fits a column, by its type."""


def value_of(record: Record) -> dict[str, Any]:
    """The object that is a record's value."""
    said = record.kind.removeprefix(TEXT)
    return {"type": said, "id": "a" if said != record.kind else record.offset, **dict(record.more)}


class Sight:
    """What the tasks of one round see of one partition that no column holds."""

    def __init__(self, order: StagingOrder, tp: TopicPartition) -> None:
        self._order = order
        self._tp = tp
        self._columns: dict[str, dict[str, str]] = {}
        self.seen: dict[str, Seen] = {}

    def grows(self, name: str) -> bool:
        """Whether a type's table may get columns."""
        return self._order.evolutions.of(name) is not None

    def columns(self, name: str) -> dict[str, str]:
        """What is decoded of a type: column -> its type."""
        if name not in self._columns:
            text = self._order.target(name).decoded
            fields = struct_of(self._order.routing.decoded_of(name) if text is None else text).fields
            kinds = {one.name: one.type for one in fields}
            self._columns[name] = {name: kind.name for name, kind in kinds.items() if isinstance(kind, ScalarType)}
        return self._columns[name]

    def look(self, name: str, record: Record) -> None:
        """A row that is staged. Where values name schemas, columns come of those alone."""
        if not self.grows(name) or self._order.routing.has_ids:
            return
        columns, is_declared = self.columns(name), name in self._order.routing.schemas
        left = {  # the field that says the type is left over where nothing is declared alone
            field: value
            for field, value in value_of(record).items()
            if not (is_declared and field == "type") and not isinstance(value, HOLDS.get(columns.get(field, ""), ()))
        }
        if left:
            at = At(self._tp.topic, self._tp.partition, record.offset)
            self.seen.setdefault(name, Seen()).add(left, at)

    def told(self, name: str) -> bytes:
        """What a file says of its columns."""
        return b"\n" + json.dumps(self.columns(name), sort_keys=True).encode() if self.grows(name) else b""
