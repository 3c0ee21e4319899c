"""Rows of one writer on their way to the files of their partitions. Runs on Spark executors.

A batch brings few rows per type, and each call into Arrow costs as much as many rows do. So rows are
gathered over batches and split once there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


class Unsplit:
    """Rows of one writer in offset order. bytes: what they take as Arrow tables."""

    def __init__(self) -> None:
        self.bytes = 0
        self._tables: list[pa.Table] = []
        self._keys: list[pa.Int64Array] = []

    def add(self, table: pa.Table, keys: pa.Int64Array) -> None:
        """Rows beyond those that were added before, and the partition key of each."""
        self._tables.append(table)
        self._keys.append(keys)
        self.bytes += table.nbytes

    def split(self) -> Iterator[tuple[int, pa.Table]]:
        """Each partition key with its rows, copied, in offset order. Nothing is held afterwards."""
        table, keys = pa.concat_tables(self._tables), pa.concat_arrays(self._keys)
        self._tables, self._keys, self.bytes = [], [], 0
        values = pc.unique(keys)
        if len(values) == 1:
            yield values[0].as_py(), table
            return
        table = table.combine_chunks()
        for value in values:
            yield value.as_py(), table.take(pc.indices_nonzero(pc.equal(keys, value)))
