"""What a format has to do: the seam between a record's bytes and everything behind them. Runs on Spark executors.

    Format ── schema()   Spark's columns -> Arrow's, or why the format cannot carry them
           ── peek()     Peek: the event type of each value, without the rest
           ── reader()   Reader: a batch of values -> Read: columns, event time as sent, unknown fields, refusals

What every format needs afterwards is common: decoder.py. A format must never let a value become null in silence, drop
a value, look at a clock, or let a verdict depend on a value's neighbours (ROUTE). Values whose schema is not decided
are never handed to it (frames.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom


@dataclass(frozen=True)
class Read:
    """What a reader makes of a batch of values: each input row is in exactly one of `rows` and `refused`.

    rows: ascending int32 input rows. The columns have one entry for each of these, in their order:
    columns: the declared ones, of their Arrow types. time: the event time as sent: timestamp[us, UTC] if its unit is
    iso or all values have an instant there, else integers of the unit, or both (joined.py); None if the routing takes
    the record's Kafka timestamp. rescued: string: the unknown fields, null if there are none or the policy is another.
    ignored: int32: how many unknown fields were left out; null is none.
    refused: row -> reason, which begins with its code and a colon. truncated: values in `rows` that lost digits which
    no column can hold. cdc: of values in an envelope what was done to the row, of arrow/own_columns.CDC_TYPE, its key
    null; of CHANGE_TYPE where rows say what columns held before.
    """

    rows: pa.Int32Array
    columns: Sequence[pa.Array | pa.ChunkedArray]
    time: pa.Array | None
    rescued: pa.StringArray
    ignored: pa.Int32Array
    refused: Mapping[int, str]
    truncated: int = 0
    cdc: pa.StructArray | None = None


class Reader(Protocol):
    """Reads values of one event type. May remember what makes the next batch faster, never what changes a verdict."""

    def read(self, values: pa.BinaryArray) -> Read:
        """Values of any content, null among them (`tombstone`); under 2 GB in all."""
        ...


class Peek(Protocol):
    """Finds the event types of values."""

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """The event type per value, and the reason for each that has none; neither for null and skipped values."""
        ...


class Format(Protocol):
    """One format of values, made of a ValueFormat and of what is decided of schema ids. Holds no state."""

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """The Arrow schema of declared columns, given as `StructType.json()` text; nullable=false is kept.

        Raises ConfigError for what the format cannot carry.
        """
        ...

    def peek(self, source: TypeFrom) -> Peek:
        """source: a field of the value (json), the name of its schema, or an envelope's source.

        Raises ConfigError for what values of this format do not say.
        """
        ...

    def reader(self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent") -> Reader:
        """A reader of values of this type. An empty schema: the whole value is kept as `rescued`.

        What does not fit a column that nobody declared (marks.py) is an unknown field there, and no reason to refuse
        anything. Such columns are null where unknown fields are not kept, and where they are in the way of the event
        type or the event time. Raises ConfigError if a declared column is in the way of these.
        """
        ...
