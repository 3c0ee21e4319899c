"""How the values of one writer are read: compiled once for its schema and the reader's. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.formats.avro.resolve import Resolver
from exporter.formats.avro.schema import Schema
from exporter.formats.binary.columns import Out, Structs
from exporter.formats.binary.cursor import LockstepCursor, ValueBytes
from exporter.formats.binary.reasons import Kind, ReasonPaths


@dataclass(frozen=True)
class Rows:
    """What was read of some values. good: the places of those that were read, ascending. record: one entry for each of
    these. refused: place -> reason, of all others. truncated: values of the good ones that lost digits."""

    good: np.ndarray
    record: pa.StructArray
    refused: dict[int, str] = field(default_factory=dict)
    truncated: int = 0


class AvroPlan:
    """kind: the struct that the records are, of the reader's fields and then those that only the writer has. refused:
    path -> why no column holds what stands there.
    """

    def __init__(self, writer: Schema, reader: Schema | None = None, *, connect: bool = False) -> None:
        """reader: None: the values are read as they were written. connect: see resolve.py. Raises Unresolvable."""
        self._places = ReasonPaths()
        resolver = Resolver(self._places, connect)
        self._root = resolver.node(writer, reader or writer, "$")
        self.refused = resolver.refused
        self.kind: pa.StructType = self._root.kind if self._root.kind is not None else pa.struct([])

    def batch(self, values: pa.BinaryArray) -> ValueBytes:
        """Values that rows() reads some of; other plans may read others."""
        return ValueBytes(values, self._places.copy())

    def rows(self, batch: ValueBytes, rows: np.ndarray, skipped: int | np.ndarray = 0) -> Rows:
        """Read some of a batch's values, ascending and not null. skipped: bytes in front, of all or of each, which are
        there."""
        batch.places = self._places.copy()
        cursor = batch.cursor(rows, skipped)
        column = self._root.read(cursor)
        if column is None:
            column = Structs((), self.kind, len(rows))
        behind = cursor.pos != cursor.end
        if behind.any():
            cursor.fail(behind, self._root.place, Kind.TRAILING_BYTES)
        good, record, out = _made(column, cursor)
        truncated = sum(count for row, count in out.truncated.items() if not cursor.bad[row])
        return Rows(good, record, _reasons(cursor), truncated)

    def peek(
        self, batch: ValueBytes, rows: np.ndarray, path: Sequence[str], skipped: int | np.ndarray = 0
    ) -> Rows | None:
        """One field of some of a batch's values, alone in its record, and nothing behind it; None: there is none."""
        batch.places = self._places.copy()
        cursor = batch.cursor(rows, skipped)
        column = self._root.peek(cursor, path)
        if column is None:
            return None
        good, found, _ = _made(column, cursor)
        record = pa.StructArray.from_arrays([found], names=[path[-1]])
        return Rows(good, record, _reasons(cursor))


def _made(column: Any, cursor: LockstepCursor) -> tuple[np.ndarray, pa.Array, Out]:
    """The good rows of a cursor, their column as Arrow has it, and what else came of making it."""
    good = np.flatnonzero(cursor.bad == 0)
    out = Out(cursor.batch)
    array = (column if len(good) == len(cursor) else column.take(good)).arrow(out, good)
    if out.odd:
        cursor.bad[list(out.odd)] = list(out.odd.values())
        kept = cursor.bad[good] == 0
        good, array = good[kept], array.filter(pa.array(kept))
    return good, array, out


def _reasons(cursor: LockstepCursor) -> dict[int, str]:
    """Row of the cursor -> why it is refused."""
    at = np.flatnonzero(cursor.bad)
    texts = {number: cursor.batch.places.reason(number) for number in np.unique(cursor.bad[at]).tolist()}
    return {row: texts[number] for row, number in zip(at.tolist(), cursor.bad[at].tolist(), strict=True)}
