"""`exporter dead-letters list | show`: what stands in the dead letters. Reads only, asks no broker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from exporter.lake.rows import arrow_rows
from exporter.text import readable
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import APP_PROPERTY, TableView

GAP = "gap"
POISON = "condemned"  # as it is stored
"""Stages of rows that no decoder has refused: offsets that were lost, records that ended their task."""


COORDINATES = ["topic", "partition", "offset"]
DEAD_LETTER_COLUMNS = DEAD_LETTER_SCHEMA.append(pa.field("day", pa.date32()))
CHOSEN_BY = ("_kafka", "event_type", "reason", "first_offset", "day")
"""The columns of the dead letters by which rows are chosen."""


@dataclass(frozen=True)
class Chosen:
    """Which rows; what is empty chooses all. reasons: codes, the part of a reason before its colon."""

    types: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    day: date | None = None
    offsets: tuple[tuple[TopicPartition, OffsetRange], ...] = ()

    @property
    def of_some(self) -> bool:
        """Whether anything was chosen; else all are."""
        return bool(self.types or self.reasons or self.day or self.offsets)

    def of(self, dead_letters: pa.Table | pa.RecordBatch) -> Any:
        """The chosen rows, in DEAD_LETTER_COLUMNS or more."""
        if not self.of_some:
            return dead_letters
        chosen = pa.repeat(True, dead_letters.num_rows)
        if self.types:
            chosen = pc.and_(chosen, _is_in(dead_letters.column("event_type"), self.types))
        if self.reasons:
            chosen = pc.and_(chosen, _is_in(reason_code(dead_letters), self.reasons))
        if self.day is not None:
            chosen = pc.and_(chosen, pc.equal(dead_letters.column("day"), pa.scalar(self.day)))
        if self.offsets:
            chosen = pc.and_(chosen, self._in_offsets(dead_letters))
        return dead_letters.filter(chosen)

    def may_be_in(self, add: Mapping[str, Any]) -> bool:
        """Whether chosen rows may be in a file of the table."""
        return self.day is None or add["partitionValues"].get("day") == str(self.day)

    def _in_offsets(self, dead_letters: pa.Table | pa.RecordBatch) -> Any:
        topic, partition, offset = places(dead_letters)
        found: Any = pa.repeat(False, dead_letters.num_rows)
        for tp, offsets in self.offsets:
            here = pc.and_(pc.equal(topic, tp.topic), pc.equal(partition, tp.partition))
            after, before = pc.greater_equal(offset, offsets.first_offset), pc.less_equal(offset, offsets.last_offset)
            found = pc.or_(found, pc.fill_null(pc.and_(here, pc.and_(after, before)), False))
        return found


def _is_in(column: Any, texts: Sequence[str]) -> Any:
    return pc.is_in(column, value_set=pa.array(texts, pa.string()))


def reason_code(dead_letters: pa.Table | pa.RecordBatch) -> Any:
    """The stable part of each reason: what stands before the colon."""
    return pc.list_element(pc.split_pattern(dead_letters.column("reason"), ":", max_splits=1), 0)


def places(dead_letters: pa.Table | pa.RecordBatch) -> list[Any]:
    """Topic, partition and offset of each row; of a recorded gap, which has none, the first that it stands for."""
    topic, partition, offset = (pc.struct_field(dead_letters.column("_kafka"), one) for one in COORDINATES)
    return [topic, partition, pc.coalesce(offset, dead_letters.column("first_offset"))]


def dead_letters_view(lake: Lake) -> TableView:
    """One snapshot of the dead letters of the app. Raises ConfigError if there is none, TableUnreadable."""
    view = lake.table(DEAD_LETTERS).view()
    if view is None or view.properties.get(APP_PROPERTY) != lake.app:
        raise ConfigError(f"there are no dead letters of app {lake.app} under {lake.root}", "see `app`, `table_root`")
    return view


def _rows(lake: Lake, view: TableView, chosen: Chosen, columns: Collection[str]) -> Iterator[pa.Table]:
    """The chosen rows, with `columns` of theirs and those that they are chosen by."""
    wanted = pa.schema([field for field in DEAD_LETTER_COLUMNS if field.name in {*CHOSEN_BY, *columns}])
    return map(chosen.of, arrow_rows(lake, DEAD_LETTERS, view, wanted, chosen.may_be_in))


@dataclass(frozen=True)
class DeadLetterCount:
    """Rows of one event type, stage, reason code and day; where the first and the last of them stand."""

    event_type: str | None
    stage: str
    code: str
    day: str
    rows: int
    first: str
    last: str


def counts(lake: Lake, chosen: Chosen) -> list[DeadLetterCount]:
    """In the order of type, reason and day."""
    rows: Counter[tuple[Any, ...]] = Counter()
    ends: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for some in _rows(lake, dead_letters_view(lake), chosen, ("stage",)):
        keys = [some.column("event_type"), some.column("stage"), reason_code(some), some.column("day")]
        grouped = pa.table([*keys, *places(some)], [*map(str, range(len(keys))), *COORDINATES])
        by = grouped.column_names[:-1]
        found = grouped.group_by(by).aggregate([("offset", "min"), ("offset", "max"), ([], "count_all")])
        for row in found.select([*by, "offset_min", "offset_max", "count_all"]).to_pylist():
            *key, topic, partition, first, last, count = row.values()
            rows[tuple(key)] += count
            ends[tuple(key)] += [(topic, partition, first), (topic, partition, last)]
    return [
        DeadLetterCount(event_type, stage, code, str(day), rows[key], _place(min(ends[key])), _place(max(ends[key])))
        for key in sorted(rows, key=lambda key: [(part is not None, part) for part in key])
        for event_type, stage, code, day in [key]
    ]


def _place(at: tuple[Any, ...]) -> str:
    topic, partition, offset = at
    return f"{topic}-{partition}:{offset}"


def shown_rows(lake: Lake, chosen: Chosen, most: int, bytes_max: int) -> Iterator[dict[str, Any]]:
    """The first rows in order of their coordinates, whole; a key, value or header is cut after `bytes_max` bytes."""
    first = DEAD_LETTER_COLUMNS.empty_table()
    for some in _rows(lake, dead_letters_view(lake), chosen, DEAD_LETTER_COLUMNS.names):
        both = pa.concat_tables([first, some])
        order = pc.sort_indices(pa.table(places(both), COORDINATES), [(one, "ascending") for one in COORDINATES])
        first = both.take(order[:most])
    for row in first.to_pylist():
        kafka = row["_kafka"]
        headers = [{"key": one["key"], "value": readable(one["value"], bytes_max)} for one in row["headers"] or ()]
        yield {
            **{name: kafka[name] for name in ("topic", "partition", "epoch", "offset")},
            "timestamp": kafka["timestamp"].isoformat() if kafka["timestamp"] else None,
            **{name: row[name] for name in ("event_type", "stage", "reason", "first_offset", "last_offset")},
            "day": str(row["day"]),
            "key": readable(row["key"], bytes_max),
            "headers": headers,
            "value": readable(row["value"], bytes_max),
            "value_bytes": None if row["value"] is None else len(row["value"]),
        }
