"""The rows of one data file as Arrow, in the columns that are asked for. Whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.stores.store import Store

BATCH_ROWS = 4_096
"""Rows that are held at a time: a dead letter may have 64 KiB."""

JULIAN = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})
"""In the footer of a file whose old dates and times are of the calendar that Spark 2 had."""


def is_julian(table: Store, path: str) -> bool:
    """Whether Spark alone reads the old dates of a file as they were meant. Raises OSError, ArrowInvalid."""
    with table.reader(path) as opened:
        return not JULIAN.isdisjoint(pq.read_metadata(opened).metadata or {})


def file_rows(
    table: Store, add: Mapping[str, Any], wanted: pa.Schema, between: tuple[int, int] | None = None
) -> Iterator[pa.Table]:
    """All rows of a file of a table, some at a time.

    add: its `add` action. wanted: columns in types that its own can be cast to. A column that it lacks is null; so is a
    field of a struct. between: offsets that are asked for, both inclusive; groups of rows that have none of them may be
    left out. Raises OSError, ArrowInvalid.
    """
    cut = [field for field in wanted if field.name in add["partitionValues"]]  # these stand in no file
    with table.reader(unquote(add["path"])) as opened:
        source = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        there = {*source.schema_arrow.names}
        names = [field.name for field in wanted if field.name in there and field not in cut]
        if not names:
            rows = source.metadata.num_rows
            yield _whole(pa.table({"": pa.nulls(rows)}), cut, add, wanted, rows)
            return
        groups = [at for at in range(source.num_row_groups) if between is None or _has(source, at, between)]
        for batch in source.iter_batches(BATCH_ROWS, groups, names, use_threads=False):
            yield _whole(pa.Table.from_batches([batch]), cut, add, wanted, batch.num_rows)


def _has(source: pq.ParquetFile, group: int, between: tuple[int, int]) -> bool:
    """Whether a group of rows may have some of these offsets, by its statistics."""
    told = source.metadata.row_group(group)
    columns = (told.column(at) for at in range(told.num_columns))
    found = next((one.statistics for one in columns if one.path_in_schema == "_kafka.offset"), None)
    if found is None or not found.has_min_max or found.null_count != 0:
        return True
    return bool(found.min <= between[1] and between[0] <= found.max)


def _whole(held: pa.Table, cut: Sequence[pa.Field], add: Mapping[str, Any], wanted: pa.Schema, rows: int) -> pa.Table:
    for field in cut:
        text = add["partitionValues"][field.name] or None
        held = held.append_column(field.name, pa.array([text] * rows, pa.string()))
    return in_columns(held, wanted, rows)


def in_columns(held: pa.Table, wanted: pa.Schema, rows: int) -> pa.Table:
    """Rows in the columns that are wanted, as file_rows() has them. rows: how many, if there is no column."""
    columns = [
        fitted(held.column(field.name).combine_chunks(), field.type)
        if field.name in held.column_names
        else pa.nulls(rows, field.type)
        for field in wanted
    ]
    return pa.table(columns, schema=wanted)


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in a type that its own can be cast to. A struct may lack what its table got later, wherever it is."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        there = {field.name for field in column.type}
        parts = [
            fitted(column.field(one.name), one.type) if one.name in there else pa.nulls(len(column), one.type)
            for one in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if column.offset and kind.num_fields:  # nulls are not told of a part of an array
        column = column.take(pa.array(range(len(column))))
    if pa.types.is_list(kind) and _has_struct(kind):
        items = fitted(column.values, kind.value_type)
        return pa.ListArray.from_arrays(column.offsets, items, type=kind, mask=_nulls(column))
    if pa.types.is_map(kind) and _has_struct(kind):
        keys, items = column.keys.cast(kind.key_type), fitted(column.items, kind.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, kind, mask=_nulls(column))
    return column.cast(kind)


def _has_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or any(_has_struct(kind.field(at).type) for at in range(kind.num_fields))


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
