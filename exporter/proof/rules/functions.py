"""Functions of the settings' authors, called once more, since nobody else can say what they do. Knows no driver.

    rows as Arrow ── the function ── the same rows, with columns more, and a mask of those that are kept

Whatever it raises is of the rows that it was given: they are tried by halves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.shapes import Shape
from exporter.proof.rules.values import Unsure, arrow_of
from exporter.text import told
from exporter.within import within

CALL_SECS = 60.0
"""What a call may take; a row that takes longer by itself is one on which it fails."""
KEPT = "kept"
"""Of what a function has made: whether the row is one of the table's."""


class SqlFunction:
    """Of one type. Raises Unsure where it is not installed."""

    def __init__(self, shape: Shape) -> None:
        module, _, name = shape.python.partition(":")
        try:
            self._call: Callable[[pa.Table], Any] = getattr(import_module(module), name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may do anything, also end the process
            raise Unsure(told(error)) from error
        added = json.loads(shape.python_columns)["fields"] if shape.python_columns else []
        self._added = [(one["name"], arrow_of(one["type"])) for one in added]

    def made(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Of all rows but those on which it fails: the number of the first row, and what was made, with KEPT."""
        yield from self._made(rows, 0)

    def _made(self, rows: pa.Table, first: int) -> Iterator[tuple[int, pa.Table]]:
        try:
            with within(CALL_SECS):
                made = self._checked(rows, *self._call(rows))
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException:  # noqa: BLE001 - it may raise anything
            half = rows.num_rows // 2
            if half:
                yield from self._made(rows.slice(0, half), first)
                yield from self._made(rows.slice(half), first + half)
            return
        yield first, made

    def _checked(self, rows: pa.Table, table: pa.Table, mask: Any) -> pa.Table:
        """In the types of the columns. Raises for what is none of a function's answers."""
        names = [*rows.column_names, *(name for name, _ in self._added)]
        if table.num_rows != rows.num_rows or not {*table.column_names} <= {*names}:
            raise ValueError("other rows, or columns that nobody has named")
        kinds = {**dict(zip(rows.column_names, rows.schema.types, strict=True)), **dict(self._added)}
        columns = [(table if name in table.column_names else rows).column(name).cast(kinds[name]) for name in names]
        kept = pa.repeat(True, rows.num_rows) if mask is None else pc.fill_null(mask, False)
        return pa.table([*columns, kept], names=[*names, KEPT])
