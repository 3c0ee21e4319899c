"""Values that were not sent, in rows whose values say their types. See unavailable.py. Runs on Spark executors."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import nulled
from exporter.formats.envelopes.unavailable import PLACEHOLDER_BYTES, TEXTS, is_list, is_unavailable

SIZES = pa.array([1, len(PLACEHOLDER_BYTES)], pa.int32())
"""Lengths of an array that may stand for such a value."""
_written = msgspec.json.Encoder(decimal_format="number").encode


class Hidden:
    """Finds them in rows of one type, in what is a column.

    asks_flags: whether it matters who sent them (unavailable.sends_flags).
    """

    def __init__(self, kind: pa.StructType, columns: pa.Schema) -> None:
        self._fields = list(kind)
        wanted = {at: _finder(field.type) for at, field in enumerate(kind) if field.name in columns.names}
        self._finders = {at: find for at, find in wanted.items() if find is not None}
        self.asks_flags = any(_is_flags(self._fields[at].type) for at in self._finders)

    def without(
        self, record: pa.StructArray, flags: Sequence[bool] | None = None
    ) -> tuple[pa.StructArray, dict[int, str]]:
        """The rows with null instead of them, and by row members of `_rescued` that have them as they were sent.

        flags: by row, as is_unavailable has them; None: it is so of all.
        """
        columns: dict[int, pa.Array] = {}
        members: dict[int, list[str]] = {}
        for at, find in self._finders.items():
            column = pc.struct_field(record, indices=[at])
            rows = find(column)
            if flags is not None and _is_flags(column.type):
                rows = [row for row in rows if flags[row]]
            if not rows:
                continue
            columns[at] = nulled(column, rows)
            for row in rows:
                name = json.dumps(self._fields[at].name, ensure_ascii=False)
                members.setdefault(row, []).append(f"{name}:{_written(_plain(column[row])).decode()}")
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
        return lambda column: _among(column, [*TEXTS])
    if pa.types.is_binary(kind):
        return lambda column: _among(column, [PLACEHOLDER_BYTES])
    if pa.types.is_list(kind):
        return _in_lists
    return _in_valid if pa.types.is_map(kind) or _may_be_point(kind) else None


def _is_flags(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_boolean(kind.value_type))


def _may_be_point(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and {field.name for field in kind} <= {"x", "y", "wkb", "srid"}


def _among(column: pa.Array, values: Sequence[Any]) -> list[int]:
    found = pc.is_in(column, pa.array(values, column.type))
    return list(pc.indices_nonzero(found).to_pylist()) if pc.any(found).as_py() else []


def _in_lists(column: pa.Array) -> list[int]:
    likely = pc.fill_null(pc.is_in(pc.list_value_length(column), SIZES), False)
    rows = pc.indices_nonzero(likely).to_pylist()
    return [row for row in rows if is_list(_plain(column[row]), flags=True)]


def _in_valid(column: pa.Array) -> list[int]:
    """Rows of maps and structs that are a placeholder."""
    rows = pc.indices_nonzero(column.is_valid()).to_pylist()
    return [row for row in rows if len(column[row]) <= len("xyws") and is_unavailable(_plain(column[row]))]


def _plain(value: pa.Scalar) -> Any:
    """A value as `_rescued` has it. Days and moments in arrays are the numbers that they were sent as."""
    if pa.types.is_list(value.type) and value.is_valid:
        items = value.values
        if pa.types.is_temporal(items.type):
            items = items.cast(pa.int32() if items.type.bit_width == 32 else pa.int64())
        return _as_json(items.to_pylist())
    found = value.as_py()
    return _as_json(dict(found) if pa.types.is_map(value.type) and found is not None else found)


def _as_json(value: Any) -> Any:
    if type(value) is bytes:
        return base64.b64encode(value).decode()
    if type(value) is dict:
        return {name: _as_json(item) for name, item in value.items()}
    return [_as_json(item) for item in value] if type(value) is list else value
