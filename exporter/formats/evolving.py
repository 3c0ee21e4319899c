"""Readers whose columns were not all declared: what nobody declared never changes a verdict (VERDICT).

    values ── reader of all columns ── refused? ── reader of the declared columns alone ── its word stands

A format's reader leaves what does not fit an undeclared column in `_rescued`; this makes sure of it. A record that is
good by the declared columns alone has null in the others. Runs on Spark executors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.format import Read, Reader
from exporter.formats.marks import declared_only, has_evolved, widened


def never_refusing(made: Callable[[pa.Schema], Reader], schema: pa.Schema) -> Reader:
    """The reader of a schema, by what makes one of any schema."""
    reader = made(schema)
    return Evolving(reader, made, schema) if has_evolved(schema) else reader


class Evolving:
    """See Reader."""

    def __init__(self, reader: Reader, made: Callable[[pa.Schema], Reader], schema: pa.Schema) -> None:
        self.all_columns = reader
        self._made = made
        self._schema = schema
        self._declared_schema = declared_only(schema)

    @cached_property
    def declared(self) -> Reader:
        """Made on first use: most records are good."""
        return self._made(self._declared_schema)

    def read(self, values: pa.BinaryArray) -> Read:
        """See Reader."""
        read = self.all_columns.read(values)
        if not read.refused:
            return read
        rows = pa.array(sorted(read.refused), pa.int32())
        again = self.declared.read(values.take(rows))
        refused = {rows[at].as_py(): reason for at, reason in again.refused.items()}
        if not len(again.rows):
            return replace(read, refused=refused)
        columns = widened(again.columns, self._declared_schema, self._schema, len(again.rows))
        return _merged(read, replace(again, rows=rows.take(again.rows), columns=columns, refused=refused))


def _merged(one: Read, other: Read) -> Read:
    """Two readings of different rows of the same values. What is refused is what the other one says."""
    rows = pa.concat_arrays([one.rows, other.rows])
    order = pc.array_sort_indices(rows)

    def joined(first: pa.Array | pa.ChunkedArray, second: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        chunks = [chunk for part in (first, second) for chunk in _chunks(part)]
        return pa.chunked_array(chunks, first.type).take(order)

    return Read(
        rows.take(order),
        [joined(first, second) for first, second in zip(one.columns, other.columns, strict=True)],
        None if one.time is None or other.time is None else joined(one.time, other.time).combine_chunks(),
        joined(one.rescued, other.rescued).combine_chunks(),
        joined(one.ignored, other.ignored).combine_chunks(),
        other.refused,
        one.truncated + other.truncated,
        None if one.cdc is None or other.cdc is None else joined(one.cdc, other.cdc).combine_chunks(),
    )


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
