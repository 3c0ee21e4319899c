"""How the values of one writer are read: compiled once for its schema and the reader's. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from exporter.formats.avro.resolve import Resolver
from exporter.formats.avro.schema import Schema
from exporter.formats.binary.columns import Out, Structs
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import Kind, ReasonPaths
from exporter.formats.binary.typed_rows import typed_rows
from exporter.formats.typed.typed import Typed


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

    def rows(self, batch: ValueBytes, rows: np.ndarray, skipped: int | np.ndarray = 0, begin: int = 0) -> Typed:
        """Read some of a batch's values, ascending and not null. skipped: bytes in front, of all or of each, which are
        there. begin: the number of the batch's first value."""
        batch.places = self._places.copy()
        cursor = batch.cursor(rows, skipped)
        column = self._root.read(cursor)
        if column is None:
            column = Structs((), self.kind, len(rows))
        behind = cursor.pos != cursor.end
        if behind.any():
            cursor.fail(behind, self._root.place, Kind.TRAILING_BYTES)
        return typed_rows(column, cursor, Out(batch), rows + begin)

    def peek(
        self, batch: ValueBytes, rows: np.ndarray, path: Sequence[str], skipped: int | np.ndarray = 0
    ) -> Typed | None:
        """One field of some of a batch's values in the place of their records, and nothing behind it; None: there is
        none."""
        batch.places = self._places.copy()
        cursor = batch.cursor(rows, skipped)
        column = self._root.peek(cursor, path)
        return None if column is None else typed_rows(column, cursor, Out(batch), rows)
