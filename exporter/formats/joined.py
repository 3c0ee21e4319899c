"""Readings of different rows of the same values as one. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.formats.format import Read

MIXED = pa.struct([("number", pa.int64()), ("instant", US)])
"""Event times of which some are numbers of their unit and others instants: one of the two is null."""


def joined(reads: Sequence[Read], refused: Mapping[int, str] | None = None) -> Read:
    """One reading; there is one at least, and no two have the same row. refused: instead of what they say."""
    if refused is None:
        refused = {row: reason for read in reads for row, reason in read.refused.items()}
    reads = [read for read in reads if len(read.rows)] or [*reads[:1]]
    rows = pa.concat_arrays([read.rows for read in reads])
    order = pc.array_sort_indices(rows)

    def one(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
        chunks = [chunk for part in parts for chunk in _chunks(part)]
        return pa.chunked_array(chunks, parts[0].type).take(order).combine_chunks()

    times = [read.time for read in reads if read.time is not None]
    changes = [read.cdc for read in reads if read.cdc is not None]
    return Read(
        rows.take(order),
        [one(parts) for parts in zip(*(read.columns for read in reads), strict=True)],
        one(_alike(times)) if times else None,
        one([read.rescued for read in reads]),
        one([read.ignored for read in reads]),
        refused,
        sum(read.truncated for read in reads),
        one(changes) if changes else None,
    )


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _alike(times: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """Event times of one type."""
    return times if len({time.type for time in times}) == 1 else [_mixed(time) for time in times]


def _mixed(time: pa.Array) -> pa.Array:
    if time.type == MIXED:
        return time
    sides = [time if time.type == field.type else pa.nulls(len(time), field.type) for field in MIXED]
    return pa.StructArray.from_arrays(sides, fields=list(MIXED))
