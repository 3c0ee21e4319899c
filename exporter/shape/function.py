"""A function of the settings' author: a table in, a table and a mask out. Runs on Spark executors.

What it raises, whatever it returns that is not what it should, and that it does not come back, is a row's own fault,
which is looked for as with SQL. That it gives the same of the same row, whatever stands beside it, only its author can
see to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.own_columns import SHAPING_SCHEMA
from exporter.arrow.spark_types import arrow_type
from exporter.arrow.years import Years
from exporter.column.spark_json import struct_of
from exporter.column.types import Field
from exporter.core.naming import named_columns
from exporter.core.shapes import Shape
from exporter.errors import ConfigError
from exporter.functions import function_of
from exporter.shape.apart import MadeRows, RowFails, each, reason
from exporter.text import told
from exporter.within import TooLong, within

CALL_SECS, PART_SECS = 60.0, 10.0
"""What a call may take; after one that took longer, one with some of its rows, until a row is alone."""
SLOW_MAX = 3
"""Rows of one batch that take longer by themselves: then it is no row's fault, and its task ends."""
KEPT = "__kept"
"""Column of what is made: whether the row is one of the table's."""


def check_function(event_type: str, shape: Shape) -> None:
    """Call it once, with no rows. Raises ConfigError if it cannot be imported, or returns what it should not."""
    try:
        ShapedFunction(shape).of(_no_rows(shape), strict=True)
    except ConfigError as error:
        raise ConfigError(f"types.{event_type}, {error.message}", error.hint) from error
    except RowFails as failure:
        what = f"types.{event_type}, python: {shape.python} fails on a table without rows: {failure}"
        hint = "it takes a pyarrow.Table and returns one, with the columns of python_columns, and a mask or None"
        raise ConfigError(what, hint) from failure


@dataclass
class _Slow:
    """Of one batch. calls: that took too long. rows: those that did by themselves."""

    calls: int = 0
    rows: int = 0


class ShapedFunction:
    """The plug-in of one type, called on its rows."""

    def __init__(self, shape: Shape) -> None:
        self._function = function_of(shape.python, "python")
        self._decoded = [one.name for one in _decoded(shape)]
        added = struct_of(shape.python_columns).fields if shape.python_columns else ()
        self._added = [pa.field(one.name, arrow_type(one.type)) for one in added]

    def of(self, rows: pa.Table, strict: bool = False) -> MadeRows:
        """What is made: the decoded columns, those that it adds, and KEPT. rows: at least what it sees.

        strict: one call, which may raise RowFails.
        """
        fields = [rows.schema.field(name) for name in self._decoded]
        schema = pa.schema([*fields, *self._added, pa.field(KEPT, pa.bool_())])
        seen = rows.select([*self._decoded, *SHAPING_SCHEMA.names])
        attempt = partial(self._attempt, schema, _Slow())
        return MadeRows(attempt(seen), {}) if strict else each(seen, attempt, schema)

    def _attempt(self, schema: pa.Schema, slow: _Slow, rows: pa.Table) -> pa.Table:
        """Raises TimeoutError where too many rows take too long by themselves."""
        alone = rows.num_rows <= 1
        try:
            with within(PART_SECS if slow.calls and not alone else CALL_SECS):
                return self._checked(schema, rows, self._function(rows))
        except (MemoryError, KeyboardInterrupt):
            raise
        except TooLong as error:
            slow.calls += 1
            if slow.calls == 1 and alone:  # the machine may have slept
                return self._attempt(schema, slow, rows)
            slow.rows += alone
            if slow.rows > SLOW_MAX:
                says = f"more than {SLOW_MAX} rows of a batch took longer than {CALL_SECS:g} s, each alone"
                raise TimeoutError(says) from error
            raise RowFails(reason("python", f"it took longer than {CALL_SECS:g} s")) from error
        except BaseException as error:
            raise RowFails(reason("python", told(error))) from error

    def _checked(self, schema: pa.Schema, rows: pa.Table, answer: Any) -> pa.Table:
        """What it returned, in the types of the columns. Raises ValueError for what it should not have."""
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], pa.Table):
            raise ValueError(f"it returned {type(answer).__name__}, not a tuple of a pyarrow.Table and a mask")
        table, mask = answer
        if table.num_rows != rows.num_rows:
            raise ValueError(f"it returned {table.num_rows} rows for {rows.num_rows}: the mask says which go")
        names = table.column_names
        known = {*schema.names[:-1], *SHAPING_SCHEMA.names}
        if strange := sorted({name for name in names if name not in known or names.count(name) > 1}):
            raise ValueError(f"it returned columns that are not in python_columns, or twice: {', '.join(strange)}")
        if missing := [field.name for field in self._added if field.name not in names]:
            raise ValueError(f"it did not return {', '.join(missing)}, which python_columns names")
        fields = list(schema)[:-1]
        columns = [self._column(field, table) if field.name in names else rows.column(field.name) for field in fields]
        return pa.Table.from_arrays([*columns, _kept(mask, rows.num_rows)], schema=schema)

    def _column(self, field: pa.Field, table: pa.Table) -> pa.ChunkedArray:
        values = table.column(field.name)
        if not field.nullable and values.null_count:
            raise ValueError(f"it returned null in {field.name}, which is NOT NULL")
        try:
            values = values if values.type == field.type else values.cast(field.type)
        except pa.ArrowInvalid as error:
            raise ValueError(f"it returned in {field.name} what is no {field.type}: {error}") from error
        if beyond := Years(pa.schema([field])).beyond(pa.table({field.name: values})):
            raise ValueError(next(iter(beyond.values())))
        return values


def _decoded(shape: Shape) -> tuple[Field, ...]:
    return struct_of(named_columns(shape.decoded, shape.names)).fields


def _no_rows(shape: Shape) -> pa.Table:
    fields = [pa.field(one.name, arrow_type(one.type), one.nullable) for one in _decoded(shape)]
    return pa.schema([*fields, *SHAPING_SCHEMA]).empty_table()


def _kept(mask: Any, rows: int) -> pa.ChunkedArray:
    """A mask without nulls. None: all rows are kept."""
    if mask is None:
        return pa.chunked_array([pa.repeat(True, rows)])
    if not isinstance(mask, pa.Array | pa.ChunkedArray) or not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise ValueError("the mask is no Arrow array of a boolean for each row, nor None")
    return pc.fill_null(pa.chunked_array([mask]) if isinstance(mask, pa.Array) else mask, False)
