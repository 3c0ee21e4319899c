"""The rows of one table, by the coordinates of their records: from its data files, as pyarrow reads them.

A row's columns are plain values: dates as days since 1970, timestamps as microseconds since 1970, maps as dicts,
decimals as Decimal, binary as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.columns import EVENT_TIME
from exporter.core.record_columns import BEFORE, CDC, RecordColumns
from exporter.proof.codes import DEAD_LETTER
from exporter.proof.contents.shapes import ours
from exporter.proof.contents.times import DAY_US
from exporter.proof.rules.values import arrow_of
from exporter.stores.file_rows import fitted
from offsets.ranges import TopicPartition

Indices = Any
"""A numpy array of numbers of rows."""
US = pa.timestamp("us", "UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_KAFKA = pa.struct([
    ("topic", pa.string()), ("partition", pa.int32()), ("epoch", pa.int32()), ("offset", pa.int64()), ("timestamp", US),
])  # fmt: skip
_CHANGE: Mapping[str, pa.DataType] = {
    CDC: pa.struct([
        ("op", pa.string()), ("ts", US), ("source", pa.string()), ("key", pa.string()), ("pos", pa.string()),
    ]),
    BEFORE: pa.string(),
}  # fmt: skip
_TIMES: Mapping[str, pa.DataType] = {"day": pa.date32(), "hour": pa.int32(), "month": pa.string(), "week": pa.date32()}
"""Partition columns that say when; one called week does so if its table says that it is cut by weeks."""
_DEAD_LETTER: Mapping[str, pa.DataType] = {
    "stage": pa.string(), "reason": pa.string(), "event_type": pa.string(), "key": pa.binary(), "value": pa.binary(),
    "headers": HEADERS, "first_offset": pa.int64(), "last_offset": pa.int64(),
}  # fmt: skip
POISON = "condemned"  # as it is stored
"""Stage of a dead letter whose record was given up."""


class TableRow(NamedTuple):
    """One row. day: days since 1970 by which it is found. time: its `_event_time`. micros: its record's timestamp.

    key, headers, kind: what it says of its record's. change: what it says of its change, by column. misplaced: its
    hour, week or month is not that of its own time. of: its own columns by name, of a dead letter those of _LETTER.
    """

    code: int
    micros: int | None
    day: int | None
    time: int | None
    key: bytes | None
    headers: Any
    kind: str | None
    change: Mapping[str, Any]
    misplaced: bool
    rescued: str | None
    of: Mapping[str, Any]

    @property
    def is_poison(self) -> bool:
        """Whether it is the dead letter of a record that was given up."""
        return self.code == DEAD_LETTER and self.of["stage"] == POISON

    @property
    def unread(self) -> bool:
        """Whether nothing could be read of its record."""
        nothing = self.of.get("key") is None and self.of.get("value") is None
        return self.is_poison and nothing and self.micros is None

    @property
    def faulty(self) -> bool:
        """Whether it lacks what each dead letter says, or stands in a folder that is not that of its own time."""
        says_why = self.code != DEAD_LETTER or bool(self.of["stage"] and self.of["reason"])
        return self.misplaced or not says_why


@dataclass(frozen=True)
class AuditedTable:
    """What is asked of a table. schema_json: Spark schema JSON of all its columns. declared: the same, of those that
    each configuration declares. cut_by: its partition columns. unit: that it says it is cut by; most say none.
    """

    name: str
    code: int
    schema_json: str
    declared: Sequence[str]
    cut_by: Sequence[str]
    record_columns: RecordColumns
    unit: str = ""

    @property
    def is_dead_letters(self) -> bool:
        return self.code == DEAD_LETTER

    @cached_property
    def columns(self) -> dict[str, pa.DataType]:
        """Those whose values are compared, or of a dead letter."""
        if self.is_dead_letters:
            return dict(_DEAD_LETTER)
        return {one["name"]: arrow_of(one["type"]) for one in ours(self.schema_json, list(self.declared))}

    @cached_property
    def _there(self) -> Mapping[str, Any]:
        return {one["name"]: one["type"] for one in json.loads(self.schema_json)["fields"]}

    @property
    def times(self) -> list[str]:
        """Those of its partition columns that say when."""
        return [name for name in self.cut_by if name in _TIMES and (name != "week" or self.unit == "week")]

    @property
    def has_time(self) -> bool:
        """Whether its rows say their event times."""
        return self._there.get(EVENT_TIME) == "timestamp"

    @cached_property
    def record(self) -> dict[str, pa.DataType]:
        """Its columns with the key and the headers of a record."""
        names = self.record_columns
        return self._own({names.key: pa.binary(), names.headers: HEADERS, names.timestamp_type: pa.string()})

    @cached_property
    def change(self) -> dict[str, pa.DataType]:
        """Its columns with what was done to a row that came in an envelope."""
        return self._own(_CHANGE)

    def _own(self, wanted: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """Those that it has with these types, and that nobody has declared."""
        names = () if self.is_dead_letters else wanted.keys() & self._there.keys() - self.columns.keys()
        return {name: wanted[name] for name in names if arrow_of(self._there[name]).equals(wanted[name])}

    @property
    def schema(self) -> pa.Schema:
        """All that is read."""
        wanted = {"_kafka": _KAFKA} | ({EVENT_TIME: US} if self.has_time else {})
        wanted |= {name: kind for name, kind in _TIMES.items() if name in self.times}
        wanted |= {"_rescued": pa.string()} if "_rescued" in self._there and not self.is_dead_letters else {}
        return pa.schema(list((self.columns | self.record | self.change | wanted).items()))


class TableRows:
    """Rows of a table, found by coordinates. topics: those that are looked at.

    wanted: least offset that is looked at, by partition; since: first epoch of the topic of today.
    """

    def __init__(
        self,
        table: AuditedTable,
        rows: pa.Table,
        topics: Sequence[str],
        wanted: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, int],
    ) -> None:
        self.table = table
        self._rows = rows.combine_chunks()
        kafka = self._rows.column("_kafka").combine_chunks()
        coordinates = [kafka.field(name) for name in ("topic", "partition", "offset")]
        nowhere = pc.or_(pc.or_(coordinates[0].is_null(), coordinates[1].is_null()), coordinates[2].is_null())
        self.nowhere: Indices = np.flatnonzero(_numpy(nowhere)) if not table.is_dead_letters else np.array([], np.int64)
        self.places: dict[TopicPartition, tuple[Any, Indices]] = {}
        epochs = _numpy(pc.fill_null(kafka.field("epoch"), 0))
        partitions, offsets = (_numpy(pc.fill_null(one, -1)) for one in coordinates[1:])
        for topic in topics:
            there = _numpy(pc.and_(pc.fill_null(pc.equal(coordinates[0], topic), False), pc.invert(nowhere)))
            of_topic = np.flatnonzero(there)
            order = of_topic[np.lexsort((offsets[of_topic], partitions[of_topic]))]
            bounds = np.flatnonzero(np.diff(partitions[order])) + 1
            for some in np.split(order, bounds) if len(order) else ():
                tp = TopicPartition(topic, int(partitions[some[0]]))
                kept = (offsets[some] >= wanted.get(tp, 0)) & (epochs[some] >= since.get(tp, 0))
                if kept.any():
                    self.places[tp] = offsets[some[kept]], some[kept]

    def between(self, tp: TopicPartition, start: int, end: int) -> tuple[Indices, Indices]:
        """Offsets start..end-1 that have rows, ascending, and the numbers of these."""
        if tp not in self.places:
            return np.array([], np.int64), np.array([], np.int64)
        offsets, numbers = self.places[tp]
        first, last = np.searchsorted(offsets, (start, end))
        return offsets[first:last], numbers[first:last]

    def arrow(self, numbers: Indices) -> pa.Table:
        """Some of them as they are, their columns called c0, c1, ..."""
        some = self._rows.take(pa.array(numbers, pa.int64()))
        return some.rename_columns([f"c{at}" for at in range(some.num_columns)])

    def coordinates(self, numbers: Indices) -> list[tuple[str | None, int | None, int | None]]:
        """What some of them say of topic, partition and offset."""
        kafka = self._rows.column("_kafka").take(pa.array(numbers, pa.int64())).to_pylist()
        return [(one["topic"], one["partition"], one["offset"]) if one else (None, None, None) for one in kafka]

    def rows(self, numbers: Indices) -> list[TableRow]:
        """The rows with these numbers, as plain values."""
        some, table = self._rows.take(pa.array(numbers, pa.int64())), self.table
        values = {name: values_of(some.column(name).combine_chunks()) for name in some.column_names}
        kafka, nothing = values["_kafka"], [None] * some.num_rows
        times = values[EVENT_TIME] if table.has_time else nothing
        days = values["day"] if "day" in table.cut_by else [None if one is None else one // DAY_US for one in times]
        names = table.record_columns
        keys, headers, kinds = (
            values[name] if name in table.record else nothing
            for name in (names.key, names.headers, names.timestamp_type)
        )
        rescued = values.get("_rescued", nothing)
        own = {name: values[name] for name in table.columns}
        cuts = [(name, values[name]) for name in table.times if name != "day"]
        return [
            TableRow(
                table.code,
                kafka[at] and kafka[at]["timestamp"],
                days[at],
                times[at],
                keys[at],
                headers[at],
                kinds[at],
                {name: values[name][at] for name in table.change},
                any(some[at] != _cut(name, times[at]) for name, some in cuts),
                rescued[at],
                {name: some[at] for name, some in own.items()},
            )
            for at in range(len(numbers))
        ]


def _cut(name: str, micros: int | None) -> Any:
    """The hour, the month, or the Monday as days since 1970, of a time."""
    if micros is None:
        return None
    if name == "hour":
        return micros // 3_600_000_000 % 24
    if name == "week":
        return (days := micros // DAY_US) - (days + 3) % 7
    at = datetime.fromtimestamp(micros // 1_000_000, timezone.utc)
    return f"{at.year:04d}-{at.month:02d}"


def _numpy(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)


def values_of(column: pa.Array) -> list[Any]:
    """A column's values as plain Python ones."""
    kind = column.type
    values = fitted(column, _plain(kind)).to_pylist()
    convert = _converted(kind)
    return values if convert is None else [None if one is None else convert(one) for one in values]


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without those whose values Python has in a way of its own."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_float32(kind):
        return pa.float64()
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _plain(kind.item_type))
    return kind


def _converted(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes dicts of the maps in a value; None if there is none."""
    if pa.types.is_map(kind):
        item = _converted(kind.item_type)
        return lambda pairs: {key: one if item is None or one is None else item(one) for key, one in pairs}
    if pa.types.is_list(kind) and (item := _converted(kind.value_type)) is not None:
        return lambda some: [None if one is None else item(one) for one in some]
    if pa.types.is_struct(kind):
        inner = {field.name: made for field in kind if (made := _converted(field.type)) is not None}
        if inner:
            return lambda one: one | {n: made(one[n]) for n, made in inner.items() if one[n] is not None}
    return None
