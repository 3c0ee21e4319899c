"""Rows of one writer on their way to the files of their event days. Runs on Spark executors.

A batch brings few rows per type, and each call into Arrow costs more than a hundred rows do. So rows are
gathered over batches and split once there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc


class Unsplit:
    """Rows of one writer in offset order. bytes: what they take as Arrow tables."""

    def __init__(self) -> None:
        self.bytes = 0
        self._tables: list[pa.Table] = []
        self._days: list[pa.Date32Array] = []

    def add(self, table: pa.Table, days: pa.Date32Array) -> None:
        """Rows beyond those that were added before, and the event day of each."""
        self._tables.append(table)
        self._days.append(days)
        self.bytes += table.nbytes

    def split(self) -> Iterator[tuple[date, pa.Table]]:
        """Each day with its rows, copied, in offset order. Nothing is held afterwards."""
        table, days = pa.concat_tables(self._tables), pa.concat_arrays(self._days)
        self._tables, self._days, self.bytes = [], [], 0
        values = pc.unique(days)
        if len(values) == 1:
            yield values[0].as_py(), table
            return
        table = table.combine_chunks()
        for value in values:
            yield value.as_py(), table.take(pc.indices_nonzero(pc.equal(days, value)))
