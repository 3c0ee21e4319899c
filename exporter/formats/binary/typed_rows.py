"""What every binary format does with rows that it has read: they become Arrow, one with others. On Spark executors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from exporter.formats.binary.columns import BinaryColumn, Out
from exporter.formats.binary.cursor import LockstepCursor
from exporter.formats.format import Read
from exporter.formats.joined import joined
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.fit import nothing_read
from exporter.formats.typed.typed import Typed

TOMBSTONE = "tombstone: the value is null"


def typed_rows(column: BinaryColumn, cursor: LockstepCursor, out: Out, rows: np.ndarray) -> Typed:
    """What was read of all rows of a cursor, without those that are refused, also by what only now is found out.

    rows: what each row of the cursor is called, ascending.
    """
    good = np.flatnonzero(cursor.bad == 0)
    record = (column if len(good) == len(cursor) else column.take(good)).arrow(out, good)
    if out.odd:
        cursor.bad[list(out.odd)] = list(out.odd.values())
        kept = cursor.bad[good] == 0
        good, record = good[kept], record.filter(pa.array(kept))
    bad = np.flatnonzero(cursor.bad)
    texts = {number: cursor.batch.places.reason(number) for number in np.unique(cursor.bad[bad]).tolist()}
    refused = {row: texts[number] for row, number in zip(rows[bad].tolist(), cursor.bad[bad].tolist(), strict=True)}
    return Typed(
        rows[good], record, refused, sum(count for row, count in out.truncated.items() if not cursor.bad[row])
    )


def together(parts: Sequence[Typed]) -> Typed:
    """Parts of one writer's rows as one, at least one of them; ascending as they are."""
    if len(parts) == 1:
        return parts[0]
    refused = {row: reason for part in parts for row, reason in part.refused.items()}
    record = pa.concat_arrays([part.record for part in parts])
    return Typed(np.concatenate([part.rows for part in parts]), record, refused, sum(part.truncated for part in parts))


def read_by_writers(reads: Sequence[Read], asked: TypedAsked, refused: dict[int, str]) -> Read:
    """What was read of each writer's rows as one. refused: rows of no writer, grows by those of the others."""
    for read in reads:
        refused.update(read.refused)
    if not reads:
        return nothing_read(asked, refused)
    return replace(reads[0], refused=refused) if len(reads) == 1 else joined(reads, refused)


def types_in_order(found: Iterable[tuple[np.ndarray, pa.StringArray]], count: int) -> pa.StringArray:
    """Event types, found in parts, in the order of all values; null where there is none. found: rows, their types."""
    parts = [*found]
    where = np.full(count, -1, np.int64)
    rows = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in parts)])
    where[rows] = np.arange(len(rows))
    types = pa.concat_arrays([pa.nulls(0, pa.string()), *(one for _, one in parts)])
    return types.take(pa.array(where, mask=where < 0))
