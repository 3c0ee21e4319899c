"""The rows of a source as what is sent of them, in order, a batch at a time (protocol 9.7).

    frame ── shaped ── _of _at  key  value  headers  deleted ── sorted ── streamed ── RowToSend, RowToSend, ...

Spark makes keys, headers and JSON texts; other formats get the columns of a value as Python's values, times as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.settings.derive_to_kafka import ToKafkaTable
from exporter.sql_text import column
from offsets.cursors import Slice
from offsets.ranges import TopicPartition

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat":
                "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "ignoreNullFields": "false"}  # fmt: skip
"""How Spark writes a row as JSON: all of a time, in UTC; each column, null or not."""
BLOB = "rows binary"
ROWS_AT_ONCE = 2_000
"""Of one Arrow batch, so that few are in memory."""


class RowPlace(NamedTuple):
    """Where a row stands. tp: None of a table in order of a sequence. first: the first epoch of its topic."""

    tp: TopicPartition | None
    first: int
    at: int

    def __str__(self) -> str:
        return f"_seq {self.at}" if self.tp is None else f"{self.tp} offset {self.at}"


class RowToSend(NamedTuple):
    """One row to be sent. key and value: bytes, or columns by name; value None: it is to be deleted."""

    place: RowPlace
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class RowShape:
    """What is made of each row. own: the source's columns that are a value's by default. texts: whether keys and values
    of columns are made by Spark, as JSON text."""

    table: ToKafkaTable
    own: Sequence[str]
    texts: bool

    @property
    def values(self) -> Sequence[str]:
        """SQL of the value's columns."""
        return self.table.value or tuple(map(column, self.own))

    def value_of(self, frame: DataFrame) -> DataFrame:
        """The columns of a value."""
        return frame.selectExpr(*self.values)

    def key_of(self, frame: DataFrame) -> DataFrame | None:
        """The columns of a key that has columns."""
        return None if isinstance(self.table.key, str) else frame.selectExpr(*self.table.key)

    def shaped(self, frame: DataFrame, place: Sequence[Column]) -> DataFrame:
        """One row for each that is to be sent, in order. place: columns by which rows are sorted; RowPlace has them."""
        frame = frame.where(self.table.where) if self.table.where else frame
        deleted = sf.coalesce(sf.expr(self.table.delete or "false"), sf.lit(False))
        value = self._columns(self.value_of(frame), self.values)
        columns = [
            *(one.alias(f"_{number}") for number, one in enumerate(place)),
            self._key(frame).alias("key"),
            sf.when(~deleted, value).alias("value"),
            sf.array(*(_header(frame, name, text) for name, text in self.table.headers.items())).alias("headers")
            if self.table.headers
            else sf.lit(None).alias("headers"),
        ]
        names = [f"_{number}" for number in range(len(place))]
        return frame.select(*columns).orderBy(*names)

    def _key(self, frame: DataFrame) -> Column:
        key = self.table.key
        if isinstance(key, str):
            return _bytes(frame, key) if key else sf.lit(None).cast("binary")
        return self._columns(frame.selectExpr(*key), key)

    def _columns(self, made: DataFrame, columns: Sequence[str]) -> Column:
        parts = (sf.expr(text).alias(name) for text, name in zip(columns, made.columns, strict=True))
        row = sf.struct(*parts)
        return sf.to_json(row, JSON_OPTIONS).cast("binary") if self.texts else row


def _header(frame: DataFrame, name: str, text: str) -> Column:
    return sf.struct(sf.lit(name).alias("name"), _bytes(frame, text).alias("value"))


def _bytes(frame: DataFrame, text: str) -> Column:
    """The value of SQL, as text; BINARY as it is."""
    (field,) = frame.selectExpr(text).schema.fields
    value = sf.expr(text)
    return value if field.dataType.typeName() == "binary" else value.cast("string").cast("binary")


def by_offset(found: Sequence[Slice]) -> tuple[Column, ...]:
    """The order of exported rows: topic, partition, which of several topics of the name, offset."""
    kafka = [sf.col(f"_kafka.{part}") for part in ("topic", "partition", "epoch", "offset")]
    first = sf.lit(0)
    for one in sorted((one for one in found if one.first), key=lambda one: one.first):
        here = (kafka[0] == one.tp.topic) & (kafka[1] == one.tp.partition)
        first = sf.when(here & (sf.coalesce(kafka[2], sf.lit(0)) >= one.first), one.first).otherwise(first)
    return kafka[0], kafka[1], first, kafka[3]


def by_sequence() -> tuple[Column, ...]:
    """The order of a table that has one of its own."""
    return (sf.col("_seq"),)


def streamed(frame: DataFrame) -> Iterator[RowToSend]:
    """The rows of a shaped() frame; of its partitions two are in memory at most, the second while the first is read."""
    for one in frame.mapInArrow(_blobs, BLOB).toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(one[0]) as reader:
            for batch in reader:
                yield from rows_of(batch)


def _blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow's own bytes, a few rows in each: the driver gets them without a Python object per value. In the workers."""
    for whole in batches:
        for first in range(0, whole.num_rows, ROWS_AT_ONCE):
            part, sink = whole.slice(first, ROWS_AT_ONCE), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_batch(part)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["rows"])


def rows_of(batch: pa.RecordBatch) -> Iterator[RowToSend]:
    """Its rows; times are numbers since 1970: days of dates, microseconds."""
    plain = [_plain(column).to_pylist() for column in batch.columns]
    *place, keys, values, headers = plain
    for *at, key, value, header in zip(*place, keys, values, headers, strict=True):
        where = RowPlace(None, 0, at[0]) if len(at) == 1 else RowPlace(TopicPartition(at[0], at[1]), at[2], at[3])
        known = tuple((one["name"], one["value"]) for one in header or () if one["value"] is not None)
        yield RowToSend(where, key, value, known)


def _plain(column: pa.Array) -> pa.Array:
    wanted = _numbers(column.type)
    return column if wanted == column.type else column.cast(wanted)


def _numbers(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for times, which Python's own types could not hold all of."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_numbers(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numbers(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_numbers(kind.key_type), kind.item_field.with_type(_numbers(kind.item_type)))
    return kind


def whole_rows(rows: Iterable[RowToSend], rows_max: int) -> Iterator[list[RowToSend]]:
    """Parts of about rows_max rows; rows of one place are never in two parts, for progress knows places only."""
    part: list[RowToSend] = []
    for _, same in groupby(rows, key=lambda row: row.place):
        of_place = list(same)
        if part and len(part) + len(of_place) > rows_max:
            yield part
            part = []
        part += of_place
    if part:
        yield part
