"""The settings of what becomes of a record and of its table's columns: a part of the one model."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Literal

from pydantic import Field

from exporter.core.columns import JsonText
from exporter.core.seen import KEYS_KEPT
from exporter.settings.table import Part
from exporter.settings.values import Count, CountFrom0, Instant, PartitionBy


class Recording(Part):
    """See Settings (model.py), of which it is a part."""

    event_time_min: Instant = datetime(2000, 1, 1, tzinfo=timezone.utc)
    """ISO-8601 time with a zone; a record with an earlier event time is a dead letter."""
    event_time_ahead_max_secs: CountFrom0 = 86_400
    """Seconds that an event time may lie after the record's own Kafka timestamp, else it is a dead letter."""
    unknown_fields: Literal["rescue", "ignore", "dead_letter"] = "rescue"
    """What becomes of fields without a column: kept in _rescued, left out, or the record is a dead letter."""
    rescue_empty: bool = False
    """Whether _rescued holds what is empty throughout, too: null, {}, [], objects and arrays of nothing else. By
    default it is null where there is no more than that."""
    evolve: Literal["off", "add"] = "off"
    """What becomes of fields that no column holds: they stay in _rescued, or the table gets columns for them. A record
    is good or bad by what is declared alone: what does not fit such a column stays in _rescued."""
    keys_max: Count = Field(default=100, le=KEYS_KEPT)
    """Different keys of one object that become columns; an object with more becomes MAP<STRING, JSON>. A table gets ten
    times as many columns, nested ones too, but at least 1,000 and at most 2,000."""
    json_text: JsonText = "as_sent"
    """How a column of the type JSON holds a value: its text as it was sent, byte for byte, or as in _rescued: compact,
    numbers as sent, no more escapes than needed."""
    force_optional: bool = False
    """Whether declared columns and fields may be absent or null although their DDL says NOT NULL; else the record is a
    dead letter."""
    new_type: Literal["dead_letter", "table"] = "dead_letter"
    """What becomes of records of an event type without a [types] table: they are dead letters, or the type gets a table
    with the whole record in _rescued."""
    unrouted: str = "dead_letter"
    """What becomes of records of an event type that no table takes: they are dead letters (dead_letter), they are
    counted and stand nowhere (count), or the table of this declared type takes them."""
    new_types_max: Count = 200
    """Tables that event types without a [types] table may get; the type that would be one too many stops the task."""
    partition_by: PartitionBy = "day"
    """How a new table's files are cut by event time; a table that is there keeps how it was made."""
    key_column: str = Field(default="", examples=["_key"])
    """Column of each table with the record's key, BINARY, by this name; without it there is none."""
    headers_column: str = Field(default="", examples=["_headers"])
    """Column with the record's headers by this name, ARRAY<STRUCT<key: STRING, value: BINARY>>; without it there is
    none."""
    timestamp_type_column: str = Field(default="", examples=["_timestamp_type"])
    """Column by this name that tells whether the record's timestamp is its CreateTime or its LogAppendTime; without it
    there is none."""
    type_widening: bool = False
    """Whether a table's column gets the wider type that new settings declare (INT to BIGINT, FLOAT to DOUBLE, ...) by
    Delta's type widening, which delta-rs 1.6 and DuckDB over it do not read; else refused."""
    on_gap: Literal["stop", "record"] = "stop"
    """What happens when Kafka has deleted records that were not exported yet: stop with exit code 70, or record the
    lost offsets in the dead letters and go on after them."""
