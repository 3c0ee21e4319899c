"""Rows of a batch as Arrow arrays: numbered, left out, changed one by one. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def numbered(count: int) -> pa.Int32Array:
    """0 .. count - 1, without a Python object per number."""
    return pc.indices_nonzero(pa.repeat(True, count)).cast(pa.int32())


def all_but(rows: pa.Int32Array, left_out: list[int]) -> pa.Int32Array:
    """All rows but some. rows: 0, 1, 2 and so on. left_out: ascending."""
    begins, ends = [0, *(row + 1 for row in left_out)], [*left_out, len(rows)]
    return pa.concat_arrays([rows.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)])


def patched(column: pa.Array, values: dict[int, Any]) -> pa.Array:
    """A column with other values in some rows."""
    if not values:
        return column
    rows = sorted(values)
    where = pc.is_in(numbered(len(column)), value_set=pa.array(rows, pa.int32()))
    return pc.replace_with_mask(column, where, pa.array([values[row] for row in rows], column.type))


def nulled(column: pa.Array, rows: Iterable[int]) -> pa.Array:
    """A column of any type with null in some rows."""
    gone = pc.is_in(numbered(len(column)), value_set=pa.array(rows, pa.int32()))
    return column.take(pc.if_else(gone, None, numbered(len(column))))


def filled(column: pa.Array) -> pa.Array:
    """A column with some value for each null, as a type without nulls has it below what is null."""
    filler = pa.array([_zero(column.type)], column.type)
    at = pc.if_else(column.is_null(), len(column), numbered(len(column)))
    return pa.concat_arrays([column, filler]).take(at)


def _zero(kind: pa.DataType) -> Any:
    """Any value of a type without a null in it."""
    if pa.types.is_struct(kind):
        return {one.name: None if one.nullable else _zero(one.type) for one in kind}
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "" if pa.types.is_string(kind) else b""
    if pa.types.is_boolean(kind):
        return False
    return Decimal(0) if pa.types.is_decimal(kind) else 0


def bytes_of(values: pa.BinaryArray) -> bytes:
    """The bytes of all values, one behind the other."""
    _, ends, data = values.buffers()
    if data is None:
        return b""
    offsets = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, ends], offset=values.offset)
    begin, end = offsets[0].as_py(), offsets[-1].as_py()
    sent: bytes = data.slice(begin, end - begin).to_pybytes()
    return sent
