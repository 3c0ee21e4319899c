"""From the fields of a value to the columns that they fill: the first step after decoding. Runs on Spark executors.

A column of `names` is the first of its paths that is not null. What else stands on the way to a path stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from exporter.column.spark_json import struct_of
from exporter.core.naming import REQUIRED, Names, decoded_schema, named_columns, without

__all__ = ["Naming", "decoded_schema", "named_columns"]

_Tree = dict[str, Any]
"""Name of a field -> those below it that lead to a path, or the path itself."""
_Leaves = dict[str, pa.ChunkedArray]
"""Path -> what stands there, null where nothing does."""


class _Column(NamedTuple):
    """A column, its paths, and why a row without any of them is refused; empty if it is not."""

    name: str
    paths: Sequence[str]
    reason: str


class Naming:
    """The columns of one type. decoded_json: Spark schema JSON of what is decoded, as decoded_schema makes it."""

    def __init__(self, decoded_json: str, names: Names) -> None:
        self._tree: _Tree = {}
        self._columns = []
        for column, paths in names:
            for path in paths:
                _plant(self._tree, path.split("."), path)
            _, leaf = without(struct_of(decoded_json).fields, paths[0].split("."))
            required = leaf is not None and REQUIRED in leaf.metadata
            shown = " or ".join(f"$.{path}" for path in paths)
            reason = f"missing_field: {shown} is required, but null or missing" if required else ""
            self._columns.append(_Column(column, paths, reason))

    def named(self, decoded: pa.Table, own: int) -> tuple[pa.Table, dict[int, str]]:
        """Decoded rows by the names of the table, and row -> reason for those that lack a column which is NOT NULL.

        own: how many columns at the end are not the value's. The rows that lack something are among the rows still.
        """
        if not self._columns:
            return decoded, {}
        end = decoded.num_columns - own
        leaves: _Leaves = {}
        kept: list[tuple[str, pa.ChunkedArray]] = []
        for name, column in zip(decoded.column_names[:end], decoded.columns[:end], strict=True):
            rest = self._taken(column, self._tree[name], leaves) if name in self._tree else column
            if rest is not None:
                kept.append((name, rest))
        bad: dict[int, str] = {}
        for one in self._columns:
            filled = _first([leaves[path] for path in one.paths])
            kept.append((one.name, filled))
            if one.reason and filled.null_count:
                for row in pc.indices_nonzero(filled.is_null()).to_pylist():
                    bad.setdefault(row, one.reason)
        kept += zip(decoded.column_names[end:], decoded.columns[end:], strict=True)
        return pa.table([column for _, column in kept], names=[name for name, _ in kept]), bad

    def _taken(self, column: pa.ChunkedArray, tree: _Tree | str, leaves: _Leaves) -> pa.ChunkedArray | None:
        """What is left of a field without what is at paths, which goes to `leaves`; None if nothing is."""
        if isinstance(tree, str):
            leaves[tree] = column
            return None
        whole = column.combine_chunks()
        parts: dict[pa.Field, pa.Array] = {}
        for at, field in enumerate(whole.type):
            below = tree.get(field.name)
            if below is None:
                parts[field] = whole.field(at)
            elif (rest := self._taken(pa.chunked_array([pc.struct_field(whole, [at])]), below, leaves)) is not None:
                parts[field.with_type(rest.type)] = rest.combine_chunks()
        if not parts:
            return None
        mask = whole.is_null() if whole.null_count else None
        return pa.chunked_array([pa.StructArray.from_arrays([*parts.values()], fields=[*parts], mask=mask)])


def _first(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Of columns of one type in each row the first that is not null."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns).cast(columns[0].type)


def _plant(tree: _Tree, where: Sequence[str], path: str) -> None:
    """Take a path into a tree, in which none leads through another."""
    name, *below = where
    if below:
        _plant(tree.setdefault(name, {}), below, path)
    else:
        tree[name] = path

