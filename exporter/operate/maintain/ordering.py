"""Rows of closed partitions in the order of what people filter on (`order_by`): readers skip files by their statistics.

    closed partition ── bytes in files that are not in this order, more than a tenth ── all of it is written anew
    one column  ── sorted                several ── by a curve through all of them (Z-order), as Delta itself makes it

Files that are in order say so by a tag. OPTIMIZE and users leave it out: what they wrote is put in order again. Small
files of late rows wait until they are a tenth. A table needs no feature for it. One commit for each partition, as in
rewriting.py.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.lake.lake import Lake
from exporter.lake.sizes import live_files
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.rewriting import Rewriting
from exporter.sql_text import quoted
from offsets.partitions import Partition
from offsets.table_log import TableView

TAG = "ordered_by"
"""Of a file: a digest of the columns by which its rows are in order."""
UNORDERED_MAX = 0.1
"""Share of a partition's bytes that may stand in files that are not in order."""


@dataclass(frozen=True)
class Unordered:
    """A closed partition that is worth it. paths: all of its files, as the log writes them."""

    partition: Partition
    paths: Sequence[str]
    bytes: int


class Ordering:
    """Of one table at a snapshot. columns: dotted paths."""

    def __init__(self, lake: Lake, table: DeltaTable, view: TableView, columns: Sequence[str]) -> None:
        self._lake = lake
        self._table = table
        self._view = view
        self._rewriting = Rewriting(lake, table, view)
        self._columns = columns
        self._digest = hashlib.sha256(json.dumps([*columns]).encode()).hexdigest()[:16]

    def partitions(self, now: datetime, late_secs: float) -> Iterator[Unordered]:
        """What is due, oldest first. now: UTC."""
        found = live_files(self._table, self._view)
        for partition in sorted(one for one in found if one.is_closed(now, late_secs)):
            adds = found[partition]
            size = sum(add["size"] for add in adds)
            others = sum(add["size"] for add in adds if (add.get("tags") or {}).get(TAG) != self._digest)
            if others > size * UNORDERED_MAX:
                yield Unordered(partition, [add["path"] for add in adds], size)

    def apply(self, some: Unordered, file_bytes_max: int) -> None:
        """Raises Moved, ExporterError, and what Spark says of columns that have no order."""
        files = max(1, math.ceil(some.bytes / file_bytes_max))
        rows = self._ordered(self._rewriting.rows(some.paths), files)
        self._rewriting.commit(some.paths, rows, "order", some.partition.label, {TAG: self._digest})

    def _ordered(self, rows: DataFrame, files: int) -> DataFrame:
        by = [sf.col(quoted(path)) for path in self._columns]
        if len(by) == 1:
            return rows.repartitionByRange(files, *by).sortWithinPartitions(*by)
        return self._lake.gateway.along_a_curve(rows, files, [quoted(path) for path in self._columns])
