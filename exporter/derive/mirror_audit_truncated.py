"""Which rows of a source a mirror's audit leaves out, as they are older than a truncate (protocol 9.5, EMPTIED).

Nothing here is shared with what makes a mirror: neither how truncates are found, nor when they were, nor what is older.

    dead letters of the type, of that code, at or below what was taken ─┬─ truncates, anti-joined with the rows
    what the mirror says that it was taken through ─────────────────────┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.derive.audited_rows import rows_through
from exporter.derive.source import PinnedSource
from exporter.settings.derive_mirror import MirrorTable
from offsets.cursors import Cursor
from offsets.table_log import TableView

COLUMNS = "topic STRING, partition INT, epoch INT, offset BIGINT, timestamp BIGINT, ts BIGINT"
"""Of truncates; the last two in microseconds."""
SENT = tuple(
    f"CAST(get_json_object(CAST(value AS STRING), '$.{above}{path}') AS BIGINT) * {unit}"
    for path, unit in (("source.ts_us", 1), ("source.ts_ms", 1000), ("ts_us", 1), ("ts_ms", 1000))
    for above in ("", "payload.")
)
"""Where JSON says when a table was emptied, and in how many microseconds."""


@dataclass(frozen=True)
class Emptied:
    """truncates: as COLUMNS. trouble: why nothing can be compared with them; empty if it can."""

    table: MirrorTable
    taken: Cursor
    truncates: Sequence[Mapping[str, Any]] = ()
    trouble: str = ""

    def younger(self, rows: DataFrame) -> DataFrame:
        """Those that no truncate is newer than; the same DataFrame if there are no truncates."""
        if not self.truncates:
            return rows
        gone = rows.sparkSession.createDataFrame([*self.truncates], COLUMNS).alias("gone")
        row = rows.alias("row")
        if self.table.order:
            # Spark takes a null in a struct for the least
            mine = sf.struct(*(sf.unix_micros(f"row.{path}") for path in self.table.order))
            older = mine < sf.struct(*(sf.col(f"gone.{_last(path)}") for path in self.table.order))
        else:
            mine, theirs = (
                sf.struct(self._nth(side), sf.col(f"{side}.offset")) for side in ("row._kafka", "gone")
            )  # fmt: skip
            older = mine < theirs
        return row.join(sf.broadcast(gone), older, "left_anti")

    def _nth(self, side: str) -> Column:
        """Of which topic of its name something is."""
        befores = {one.before for topics in self.taken.former.values() for one in topics}
        ones = [sf.when(sf.col(f"{side}.epoch") >= before, 1).otherwise(0) for before in befores]
        return reduce(lambda a, b: a + b, ones, sf.lit(0))


def emptied_by(table: MirrorTable, view: TableView, source: PinnedSource, taken: Cursor) -> Emptied:
    """taken: what the mirror has of its source."""
    if table.truncates == "ignore" or "_cdc" not in source.frame().columns:
        return Emptied(table, taken)
    told = json.loads(view.properties.get("exporter.derive.mirror.truncated") or "null")
    found = [*_dead_letters(source, taken), *([told] if told else [])]
    by = [_last(path) for path in table.order] or ["epoch", "offset"]
    if any(one[name] is None for one in found for name in by):
        return Emptied(table, taken, (), "a truncate does not say when it was")
    last = max(([one[name] for name in by] for one in found), default=None)
    if last and (not told or last > [told[name] for name in by]):
        return Emptied(table, taken, (), f"table {source.name} was emptied since")
    return Emptied(table, taken, found)


def _dead_letters(source: PinnedSource, taken: Cursor) -> Sequence[Mapping[str, Any]]:
    dead_letters = source.lake.table("dead_letters")
    view = dead_letters.view()
    if view is None:
        return ()
    pinned = PinnedSource(source.lake, source.later, dead_letters, view)
    rows = rows_through(pinned, replace(taken, replays=pinned.now.replays))
    said = "unix_micros(try_cast(regexp_extract(reason, '^cdc_truncate:.* at ([^ ]+)$', 1) AS TIMESTAMP))"
    named = rows.where(sf.col("event_type") == sf.lit(source.name)).where("reason RLIKE '^cdc_truncate: '")
    columns = [*(f"_kafka.{name}" for name in ("topic", "partition", "epoch", "offset")),
               "unix_micros(_kafka.timestamp) AS timestamp", f"coalesce({said}, {', '.join(SENT)}) AS ts"]  # fmt: skip
    return [one.asDict() for one in named.selectExpr(*columns).collect()]


def _last(path: str) -> str:
    return path.split(".")[-1]
