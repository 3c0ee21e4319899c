"""`exporter dead-letters list | show`: what stands in the dead letters. Reads only, asks no broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from exporter.lake.rows import rows_at
from exporter.text import readable
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import APP_PROPERTY, TableView

GAP = "gap"
CONDEMNED = "condemned"
"""Stages of rows that no decoder has refused: offsets that were lost, records that ended their task."""


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

    def of(self, letters: DataFrame) -> DataFrame:
        """The chosen rows of the table, with the column `code`."""
        rows = letters.withColumn("code", reason_code())
        if self.types:
            rows = rows.where(sf.col("event_type").isin(*self.types))
        if self.reasons:
            rows = rows.where(sf.col("code").isin(*self.reasons))
        if self.day is not None:
            rows = rows.where(sf.col("day") == sf.lit(self.day))
        if self.offsets:
            rows = rows.where(self._in_offsets())
        return rows

    def _in_offsets(self) -> Column:
        found = sf.lit(False)
        for tp, offsets in self.offsets:
            here = (sf.col("_kafka.topic") == tp.topic) & (sf.col("_kafka.partition") == tp.partition)
            found = found | (here & offset_of().between(offsets.first_offset, offsets.last_offset))
        return found


def reason_code() -> Column:
    """The stable part of a reason: what stands before the colon."""
    return sf.substring_index("reason", ":", 1)


def offset_of() -> Column:
    """A row's offset; of a recorded gap, which has none, the first that it stands for."""
    return sf.coalesce(sf.col("_kafka.offset"), sf.col("first_offset"))


def open_letters(lake: Lake) -> tuple[TableView, DataFrame]:
    """One snapshot of the dead letters of the app. Raises ConfigError if there is none, TableUnreadable."""
    view = lake.table(DEAD_LETTERS).view()
    if view is None or view.properties.get(APP_PROPERTY) != lake.app:
        raise ConfigError(f"there are no dead letters of app {lake.app} under {lake.root}", "see `app`, `table_root`")
    return view, rows_at(lake, DEAD_LETTERS, view)


@dataclass(frozen=True)
class LetterCount:
    """Rows of one event type, stage, reason code and day; where the first and the last of them stand."""

    event_type: str | None
    stage: str
    code: str
    day: str
    rows: int
    first: str
    last: str


def counts(lake: Lake, chosen: Chosen) -> list[LetterCount]:
    """In the order of type, reason and day."""
    _, letters = open_letters(lake)
    keys = ["event_type", "stage", "code", "day"]
    at = sf.struct("_kafka.topic", "_kafka.partition", offset_of().alias("offset"))
    grouped = (
        chosen.of(letters).groupBy(*keys).agg(sf.count("*").alias("n"), sf.min(at).alias("a"), sf.max(at).alias("b"))
    )
    return [
        LetterCount(r.event_type, r.stage, r.code, str(r.day), r.n, _place(r.a), _place(r.b))
        for r in grouped.orderBy(*keys).collect()
    ]


def _place(at: Any) -> str:
    return f"{at.topic}-{at.partition}:{at.offset}"


def shown_rows(lake: Lake, chosen: Chosen, most: int, bytes_max: int) -> Iterator[dict[str, Any]]:
    """The first rows in order of their coordinates, whole; a key, value or header is cut after `bytes_max` bytes."""
    _, letters = open_letters(lake)
    ordered = chosen.of(letters).orderBy("_kafka.topic", "_kafka.partition", offset_of()).limit(most)
    for row in ordered.toArrow().to_pylist():
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
