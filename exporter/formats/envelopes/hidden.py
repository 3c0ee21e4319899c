"""Values that were not sent, in rows whose values say their types. See unavailable.py. Runs on Spark executors."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.envelopes.unavailable import PLACEHOLDER, PLACEHOLDER_BYTES, is_unavailable

SIZES = pa.array([1, len(PLACEHOLDER_BYTES)], pa.int32())
"""Lengths of an array that may stand for such a value, or a map."""


class Hidden:
    """Finds them in rows of one type, in what is a column."""

    def __init__(self, kind: pa.StructType, columns: pa.Schema) -> None:
        self._fields = list(kind)
        wanted = {at: _finder(field.type) for at, field in enumerate(kind) if field.name in columns.names}
        self._finders = {at: find for at, find in wanted.items() if find is not None}

    def without(self, record: pa.StructArray) -> tuple[pa.StructArray, dict[int, str]]:
        """The rows with null instead of them, and by row members of `_rescued` that have them as they were sent."""
        columns: dict[int, pa.Array] = {}
        members: dict[int, list[str]] = {}
        for at, find in self._finders.items():
            column = pc.struct_field(record, indices=[at])
            rows = find(column)
            if not rows:
                continue
            columns[at] = _nulled(column, rows)
            for row in rows:
                shown = json.dumps(_plain(column[row].as_py()), ensure_ascii=False, separators=(",", ":"))
                members.setdefault(row, []).append(f"{json.dumps(self._fields[at].name, ensure_ascii=False)}:{shown}")
        if not columns:
            return record, {}
        sides = [columns.get(at, pc.struct_field(record, indices=[at])) for at in range(len(self._fields))]
        return pa.StructArray.from_arrays(sides, fields=self._fields), {
            row: ",".join(found) for row, found in members.items()
        }


Finder = Callable[[pa.Array], list[int]]


def _finder(kind: pa.DataType) -> Finder | None:
    """What finds the rows of a column; None for a type that has no value which stands for another."""
    if pa.types.is_string(kind):
        return lambda column: _equal(column, PLACEHOLDER)
    if pa.types.is_binary(kind):
        return lambda column: _equal(column, PLACEHOLDER_BYTES)
    if pa.types.is_list(kind):
        return _in_lists
    return _in_maps if pa.types.is_map(kind) else None


def _equal(column: pa.Array, value: Any) -> list[int]:
    found = pc.equal(column, pa.scalar(value, column.type))
    return list(pc.indices_nonzero(pc.fill_null(found, False)).to_pylist()) if pc.any(found).as_py() else []


def _in_lists(column: pa.Array) -> list[int]:
    likely = pc.fill_null(pc.is_in(pc.list_value_length(column), SIZES), False)
    rows = pc.indices_nonzero(likely).to_pylist()
    return [row for row in rows if is_unavailable(_plain(column[row].as_py()))]


def _in_maps(column: pa.Array) -> list[int]:
    rows = pc.indices_nonzero(column.is_valid()).to_pylist()
    return [row for row in rows if len(column[row]) == 1 and is_unavailable(_plain(column[row].as_py()))]


def _plain(value: Any) -> Any:
    """A value as `_rescued` has it."""
    if type(value) is bytes:
        return base64.b64encode(value).decode()
    if type(value) is list and value and type(value[0]) is tuple:
        return dict(value)
    return [_plain(item) for item in value] if type(value) is list else value


def _nulled(column: pa.Array, rows: list[int]) -> pa.Array:
    """A column with null in some rows."""
    at, gone = np.arange(len(column)), np.zeros(len(column), bool)
    gone[rows] = True
    return column.take(pa.array(at, mask=gone))
