"""Rows of one writer on their way to the files of their partitions. Runs on Spark executors.

A batch brings few rows per type, and each call into Arrow costs as much as many rows do. So rows are
gathered over batches and split once there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

FEW = 16
"""Keys that are looked for one by one: less work than a sort, but of each for all rows."""


class Unsplit:
    """Rows of one writer in offset order. bytes: what they take as Arrow tables."""

    def __init__(self) -> None:
        self.bytes = 0
        self._tables: list[pa.Table] = []
        self._keys: list[pa.Int64Array] = []

    def add(self, table: pa.Table, keys: pa.Int64Array) -> None:
        """Rows beyond those that were added before, and the number of each one's partition."""
        self._tables.append(table)
        self._keys.append(keys)
        self.bytes += table.nbytes

    def split(self) -> Iterator[tuple[int, pa.Table]]:
        """Each partition's number with its rows, copied, in offset order. Nothing is held afterwards."""
        table, keys = pa.concat_tables(self._tables), pa.concat_arrays(self._keys)
        self._tables, self._keys, self.bytes = [], [], 0
        values = pc.unique(keys)
        if len(values) == 1:
            yield values[0].as_py(), table
            return
        table = table.combine_chunks()
        if len(values) > FEW:
            yield from _sorted(table, keys)
            return
        for value in values:
            yield value.as_py(), table.take(pc.indices_nonzero(pc.equal(keys, value)))


def _sorted(table: pa.Table, keys: pa.Int64Array) -> Iterator[tuple[int, pa.Table]]:
    """The same by one sort, which keeps rows of a key in their order."""
    order = pc.array_sort_indices(keys)
    runs = pc.run_end_encode(keys.take(order))
    start = 0
    for key, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield key, table.take(order.slice(start, end - start))
        start = end
