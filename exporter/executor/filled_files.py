"""Files whose rows are filled one after the other, without Spark's rows (FILLED, protocol 4.15). On Spark executors.

    add action ── rows, some at a time ── filling.py ── the exporter's own Parquet ── add actions

Spark would make each row its own on the way to Python, and on the way back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from exporter.clock import wall_ms
from exporter.core.order import Destination
from exporter.executor.empty import RESCUED
from exporter.executor.filling import FileCounts, Filler, FillOrder
from exporter.executor.gathered import gathered
from exporter.executor.stage import GROUP_BYTES_MAX
from exporter.stores.file_rows import file_rows, is_julian
from exporter.stores.parquet import GrowingRows
from exporter.stores.stores import open_store
from offsets.names import table_folder

FILE_BYTES_MAX = 128 << 20
"""Encoded bytes of one file, which stand in memory: so much of a file Spark gives to one task, too."""
ENOUGH = 16
"""MiB of Arrow that are filled at once: each time has its price."""
MADE = pa.schema([("add", pa.string()), ("rows", pa.int64())])
"""JSON of an `add` action, and how many of its rows have been filled."""


@dataclass(frozen=True)
class FilesOrder:
    """adds: `add` actions of plain files. schema: of the table's files."""

    fill: FillOrder
    to: Destination
    schema: pa.Schema
    adds: Sequence[Mapping[str, Any]]


class _Files:
    """The files of one task."""

    def __init__(self, order: FilesOrder) -> None:
        self._order = order
        self._filler = Filler(order.fill)
        self._table = open_store(order.to.root, order.to.store_options).below(table_folder(order.fill.event_type))

    def count(self, add: Mapping[str, Any], counts: FileCounts, once: bool) -> None:
        """What could be filled. once: whether anything could."""
        if is_julian(self._table, unquote(add["path"])):
            counts.leave(add["path"])
            return
        names = ["_kafka", RESCUED, *self._order.fill.columns]
        for rows in file_rows(self._table, add, pa.schema([self._order.schema.field(name) for name in names])):
            counts.add(add["path"], self._filler.fill_stored(rows))
            if once and add["path"] in counts:
                return

    def rewrite(self, add: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """MADE of the files that stand in for one, all of its rows in order."""
        growing, filled = GrowingRows(self._order.to.options.compression), 0
        parts = (batch for part in file_rows(self._table, add, self._order.schema) for batch in part.to_batches())
        for rows in gathered(parts, ENOUGH):
            done = self._filler.fill_stored(pa.Table.from_batches([rows]))
            growing.hold(done.rows)
            filled += int(done.filled.sum())
            if growing.pending_bytes >= GROUP_BYTES_MAX:
                growing.encode()
            if growing.encoded_bytes >= FILE_BYTES_MAX:
                yield self._written(add, growing, filled)
                growing, filled = GrowingRows(self._order.to.options.compression), 0
        if growing.rows:
            yield self._written(add, growing, filled)

    def _written(self, instead_of: Mapping[str, Any], growing: GrowingRows, filled: int) -> dict[str, Any]:
        body, stats = growing.ended({})
        folder, slash, _ = unquote(instead_of["path"]).rpartition("/")
        path = f"{folder}{slash}part-{uuid.uuid4()}.parquet"  # no name of a task's: it tells of no offset
        self._table.write_once(path, body)
        if self._order.to.sync:
            self._table.sync(path)
        add = {
            "path": quote(path, safe="/="),
            "partitionValues": instead_of["partitionValues"],
            "size": body.size,
            "modificationTime": wall_ms(),
            "stats": stats,
        }
        return {"add": json.dumps(add), "rows": filled}


def counted_files(
    order: FilesOrder, batches: Iterator[pa.RecordBatch], once: bool = False
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: COUNTS of files by their number. once: whether any row would be filled."""
    files, counts = _Files(order), FileCounts()
    for add in _adds(order, batches):
        files.count(add, counts, once)
    yield counts.batch()


def filled_files(order: FilesOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: MADE of files by their number."""
    files = _Files(order)
    for add in _adds(order, batches):
        yield pa.RecordBatch.from_pylist([*files.rewrite(add)], schema=MADE)


def _adds(order: FilesOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[Mapping[str, Any]]:
    return (order.adds[number] for batch in batches for number in batch.column("id").to_pylist())
