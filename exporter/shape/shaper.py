"""From the decoded rows of one type to the rows of its table. Runs on Spark executors.

    names ── python ── where ── computed ── drop ── constants

Each row by itself (ROUTE): a row on which something fails is told of, and its neighbours are as if it were not there.
Columns are computed of the rows that the filter lets pass: what it asks, they can rely on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.own_columns import SHAPING_SCHEMA
from exporter.arrow.rows import numbered
from exporter.core.columns import NO_COLUMNS
from exporter.core.shapes import Constant, Shape
from exporter.shape.apart import MadeRows
from exporter.shape.evaluated import evaluations_of
from exporter.shape.function import KEPT, ShapedFunction
from exporter.shape.names import Naming

OWN = ("_rescued", "_event_time")
"""The last two columns of decoded rows."""


@dataclass(frozen=True)
class Shaped:
    """Each input row is in `kept`, in `bad`, or one of the `filtered`.

    table: one row for each of `kept`: the table's columns, then OWN. kept, filtered: ascending int32 input rows. bad:
    (input row, reason), ascending.
    """

    table: pa.Table
    kept: pa.Int32Array
    filtered: pa.Int32Array
    bad: Sequence[tuple[int, str]] = ()


class Shaper:
    """Of one type; None is a shape that changes nothing. sees_record: whether it asks for more than the value."""

    def __init__(self, shape: Shape | None, constants: Sequence[tuple[str, Constant]]) -> None:
        shape = shape or Shape(NO_COLUMNS)
        self._naming = Naming(shape.decoded, shape.names) if shape.names else None
        self._function = ShapedFunction(shape) if shape.python else None
        self._where, self._computed = evaluations_of(os.getpid(), shape) if shape.sql else (None, None)
        read = {name for one in (self._where, self._computed) if one for name in one.reads}
        self.sees_record = self._function is not None or not read.isdisjoint(SHAPING_SCHEMA.names)
        self._drop = shape.drop
        self._constants = [(name, pa.scalar(value)) for name, value in constants]

    def shaped(self, decoded: pa.Table, record: pa.Table) -> Shaped:
        """decoded: as a decoder gives it, without `_cdc`.

        record: `_kafka`, `_key` and `_headers` of the same rows; no columns will do where it is not seen.
        """
        rows = _Rows(decoded, record)
        if self._naming is not None:
            rows.table, bad = self._naming.named(rows.table, len(OWN))
            rows.without(bad)
        if self._function is not None:
            self._called(rows, self._function)
        if self._where is not None:
            rows.keep(rows.made(self._where.of(rows.seen)).column(0))
        if self._computed is not None:
            made = rows.made(self._computed.of(rows.seen))
            for field, values in zip(made.schema, made.columns, strict=True):
                rows.put(field, values)
        rows.table = rows.table.drop_columns([name for name in self._drop if name in rows.table.column_names])
        for name, value in self._constants:
            rows.put(pa.field(name, value.type), pa.repeat(value, rows.table.num_rows))
        return rows.shaped()

    def _called(self, rows: _Rows, function: ShapedFunction) -> None:
        made = rows.made(function.of(rows.seen))
        for field, values in zip(made.schema, made.columns, strict=True):
            if field.name != KEPT:
                rows.put(field, values)
        rows.keep(made.column(KEPT))


class _Rows:
    """Rows on their way. numbers: which of the input they are. table, record: one row for each."""

    def __init__(self, decoded: pa.Table, record: pa.Table) -> None:
        self.table = decoded
        self._record = record
        self._numbers = numbered(decoded.num_rows)
        self._filtered = [self._numbers.slice(0, 0)]
        self._bad: dict[int, str] = {}

    @property
    def seen(self) -> pa.Table:
        """The columns, and those of the record, of which nothing that is not declared takes the name."""
        found = {
            field.name: (field, values)
            for table in (self.table, self._record)
            for field, values in zip(table.schema, table.columns, strict=True)
        }
        fields, columns = zip(*found.values(), strict=True)
        return pa.Table.from_arrays([*columns], schema=pa.schema(fields))

    def without(self, bad: Mapping[int, str]) -> None:
        """Take out rows on which something fails. bad: row -> reason."""
        if bad:
            self._bad |= {self._numbers[row].as_py(): why for row, why in bad.items()}
            self._only(pa.array([row not in bad for row in range(self.table.num_rows)], pa.bool_()))

    def made(self, made: MadeRows) -> pa.Table:
        """What was made of all rows that are left."""
        self.without(made.bad)
        return made.table

    def keep(self, mask: pa.ChunkedArray) -> None:
        """Filter: a row for which the mask is not true goes."""
        mask = pc.fill_null(mask, False).combine_chunks()
        if mask.false_count:
            self._filtered.append(self._numbers.filter(pc.invert(mask)))
            self._only(mask)

    def put(self, field: pa.Field, values: pa.ChunkedArray) -> None:
        """A column in the place of one of its name, or as the last before OWN."""
        at = self.table.schema.get_field_index(field.name)
        if at < 0:
            self.table = self.table.add_column(self.table.num_columns - len(OWN), field, values)
        else:
            self.table = self.table.set_column(at, field, values)

    def shaped(self) -> Shaped:
        """What became of all of them."""
        filtered = pa.concat_arrays(self._filtered)
        if len(self._filtered) > 2:
            filtered = filtered.take(pc.sort_indices(filtered))
        return Shaped(self.table, self._numbers, filtered, sorted(self._bad.items()))

    def _only(self, mask: pa.BooleanArray) -> None:
        self.table, self._record = self.table.filter(mask), self._record.filter(mask)
        self._numbers = self._numbers.filter(mask)
