"""The dates and times that a table holds: those of the years 1 to 9999, in UTC. Runs on Spark executors.

Parquet holds more, and a text with a year of four digits reaches further: to year 0, and by its zone over both edges.
But there the calendars of most readers end, Delta's statistics and Python's among them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.leaves import leaves, values_at

DAY_FIRST, DAY_LAST = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
DAY_US = 86_400_000_000
US_FIRST, US_LAST = DAY_FIRST * DAY_US, (DAY_LAST + 1) * DAY_US - 1
"""Their first and their last microsecond."""
CHECKED_COLUMNS = 27
"""Columns of a type, as Parquet counts them, that never held another date or time. Those behind them, and what is in
lists and maps, have always held whatever could be read, and a verdict that there was does not change (ROUTE)."""


class Years:
    """The date and time columns of one event type, at the top and in structs."""

    def __init__(self, schema: pa.Schema) -> None:
        self._leaves = [
            leaf
            for leaf in leaves(schema)
            if leaf.column < CHECKED_COLUMNS and (pa.types.is_date(leaf.kind) or pa.types.is_timestamp(leaf.kind))
        ]

    def beyond(self, table: pa.Table) -> dict[int, str]:
        """Row -> why it is out of range, for its first column with another year."""
        found: dict[int, str] = {}
        for leaf in self._leaves:
            values, is_date = values_at(table, leaf.path), pa.types.is_date(leaf.kind)
            low, high = (DAY_FIRST, DAY_LAST) if is_date else (US_FIRST, US_LAST)
            ends = pc.min_max(values)
            if ends["min"].value is None or low <= ends["min"].value <= ends["max"].value <= high:
                continue
            numbers = values.cast(pa.int32() if is_date else pa.int64())
            at = pc.indices_nonzero(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)))
            shown = values.take(at).cast(pa.string()).to_pylist()
            for row, text in zip(at.to_pylist(), shown, strict=True):
                where = ".".join(("$", *leaf.path))
                found.setdefault(row, f"out_of_range: {where} = {text} lies outside the years 1 to 9999 in UTC")
        return found
