"""Spark's Arrow batches joined to larger ones where many event types share them. Runs on Spark executors.

The rows of each type are decoded together, and each time costs as much as many small records do, whatever their
number: of many types a batch as Spark hands it over has few rows each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

TYPE_BYTES = 1 << 20
"""Of each event type on average, that are worth being decoded together."""
GATHERED_BYTES_MAX = 48 << 20
"""Upper bound of a gathered batch; the last input may exceed it by BATCH_BYTES (spark/batches.py)."""


def gathered(batches: Iterator[pa.RecordBatch], types: int) -> Iterator[pa.RecordBatch]:
    """The same records in the same order, in batches that have enough bytes for so many event types; none is empty."""
    enough = min(types * TYPE_BYTES, GATHERED_BYTES_MAX)
    held: list[pa.RecordBatch] = []
    for batch in batches:
        # A reader gives whole batches with fewer columns than odd ones (fetch/reader.py).
        if held and batch.schema != held[0].schema:
            yield _joined(held)
        if batch.num_rows:
            held.append(batch)
        if held and sum(one.nbytes for one in held) >= enough:
            yield _joined(held)
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All as one, without a copy if it is one. Nothing is held afterwards."""
    if len(held) == 1:
        return held.pop()
    # One, for Arrow begins a second chunk only beyond 2 GiB of a column: GATHERED_BYTES_MAX is far below.
    (one,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    held.clear()
    return one
