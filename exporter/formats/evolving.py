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

from exporter.formats.format import Read, Reader
from exporter.formats.joined import joined
from exporter.formats.marks import declared_only, has_evolved, widened


def never_refusing(made: Callable[[pa.Schema], Reader], schema: pa.Schema) -> Reader:
    """The reader of a schema, by what makes one of any schema."""
    reader = made(schema)
    return Evolving(reader, made, schema) if has_evolved(schema) else reader


class Evolving:
    """Reads all columns, then once more by the declared ones what these alone may refuse (VERDICT)."""

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
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        read = self.all_columns.read(values)
        if not read.refused:
            return read
        rows = pa.array(sorted(read.refused), pa.int32())
        again = self.declared.read(values.take(rows))
        refused = {rows[at].as_py(): reason for at, reason in again.refused.items()}
        if not len(again.rows):
            return replace(read, refused=refused)
        columns = widened(again.columns, self._declared_schema, self._schema, len(again.rows))
        return joined([read, replace(again, rows=rows.take(again.rows), columns=columns)], refused)
