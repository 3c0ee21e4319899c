"""The live files of a table at one version, as its log lists them, which of them are there, and their rows.

What its files tell is read from them; else it is Spark's to read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.lake.lake import Lake
from exporter.lake.rows import Add, is_plain
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.audit.report import AbsentFile, TableCount
from exporter.stores.file_rows import file_rows, in_columns
from exporter.stores.live import LiveSizes
from exporter.stores.store import Store
from offsets.names import BadName, DataFile
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

T = TypeVar("T")
FILE_THREADS = 4
Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets start..end-1 of each partition."""
Bounds = tuple[tuple[Any, Any], tuple[int, int]]
"""Of a file: its only topic and partition, None where there may be several; its least and greatest offset."""


@dataclass(frozen=True)
class LiveFiles:
    """The live files of one snapshot. there: the `add` actions of those that are there.

    by_spark: all of their rows in some columns, where the files themselves do not tell; None where they do.
    """

    store: Store
    count: TableCount
    absent: tuple[AbsentFile, ...]
    there: Sequence[Add]
    by_spark: Callable[[pa.Schema], pa.Table] | None = None

    @cached_property
    def _bounded(self) -> Sequence[tuple[Add, Bounds | None]]:
        """The files, with what their statistics say of offsets: each part asks for it."""
        return [(add, _bounds(add)) for add in self.there]

    def shapes(self) -> Iterator[tuple[int, int, bool]]:
        """Of each file its bytes, over how many offsets it reaches, and whether it has those of one partition alone."""
        for add, at in self._bounded:
            if at is not None:
                yield add["size"], at[1][1] - at[1][0] + 1, None not in at[0]

    def of(self, ranges: Ranges, wanted: pa.Schema) -> pa.Table:
        """The rows of some offsets, in some columns with `_kafka`."""
        if self.by_spark is not None:
            return self.by_spark(wanted)

        def read(one: tuple[Add, Ranges, bool]) -> list[pa.Table]:
            add, inside, whole = one
            if whole:
                return [*file_rows(self.store, add, wanted)]
            between = min(start for start, _ in inside.values()), max(end for _, end in inside.values()) - 1
            here = _of(inside)
            return [part.filter(here(part)) for part in file_rows(self.store, add, wanted, between)]

        some = [(add, inside, not _beyond(at, ranges)) for add, at in self._bounded if (inside := _inside(at, ranges))]
        return self._each(read, some, wanted)

    def others(self, ranges: Ranges, wanted: pa.Schema) -> pa.Table:
        """The rows that are of no such offsets, beside others perhaps."""
        if self.by_spark is not None:
            return self.by_spark(wanted)
        placed, known = pa.schema([wanted.field("_kafka")]), _of(ranges)

        def read(add: Add) -> list[pa.Table]:
            """Of a file that has any: what OPTIMIZE has packed tells by its rows alone, and has none nearly always."""
            if all(pc.all(known(part)).as_py() for part in file_rows(self.store, add, placed) if len(part)):
                return []
            return [part.filter(pc.invert(known(part))) for part in file_rows(self.store, add, wanted)]

        return self._each(read, [add for add, at in self._bounded if _may_hold_others(add, at, ranges)], wanted)

    def all(self, wanted: pa.Schema) -> pa.Table:
        """All rows, in columns that need not be the table's."""
        if self.by_spark is not None:
            return self.by_spark(wanted)
        return self._each(lambda add: [*file_rows(self.store, add, wanted)], self.there, wanted)

    @staticmethod
    def _each(read: Callable[[T], list[pa.Table]], some: Sequence[T], wanted: pa.Schema) -> pa.Table:
        """What is read of each of some files."""
        with ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="audit-rows") as pool:
            return pa.concat_tables([wanted.empty_table(), *chain.from_iterable(pool.map(read, some))])


def live_files(lake: Lake, name: str, view: TableView) -> LiveFiles:
    """Look for each live file; a missing one would make every query on the table fail."""
    table = lake.table(name)
    adds = table.files_at(view.version)
    absent: list[AbsentFile] = []
    there: list[Add] = []
    rows, days, on_disk = 0, set(), LiveSizes(table.store)
    for add in adds:
        rows += _numbers(add.get("stats"), "numRecords") or 0
        rows -= (add.get("deletionVector") or {}).get("cardinality", 0)
        days.add(json.dumps(add["partitionValues"], sort_keys=True))
        size = on_disk.of(add["path"])
        if size == add["size"]:
            there.append(add)
        else:
            absent.append(_absent_file(name, add, size, view.partition_columns))
    count = TableCount(name, rows, len(adds), len(days), view.version)
    by_spark = None if is_plain(view, there) else _BySpark(lake, name, view, [add["path"] for add in there])
    return LiveFiles(table.store, count, tuple(absent), there, by_spark)


class _BySpark:
    """All rows of a table's files, once for all that are asked for."""

    def __init__(self, lake: Lake, name: str, view: TableView, paths: Sequence[str]) -> None:
        self._lake = lake
        self._name = name
        self._view = view
        self._paths = paths
        self._known: dict[tuple[str, ...], pa.Table] = {}

    def __call__(self, wanted: pa.Schema) -> pa.Table:
        key = tuple(wanted.names)
        if key not in self._known:
            from pyspark.sql import DataFrame

            rows = self._lake.table(self._name).rows_of(self._view.version, self._paths)
            there = {field["name"] for field in json.loads(self._view.schema_json)["fields"]}
            names = ["`" + field.name.replace("`", "``") + "`" for field in wanted if field.name in there]
            held = DataFrame(rows, self._lake.session).select(names).toArrow()
            self._known[key] = in_columns(held, wanted, held.num_rows)
        return self._known[key]


def _of(ranges: Ranges) -> Callable[[pa.Table], Any]:
    """What says which rows are of some offsets; of as many partitions as there are, by one table of all bounds."""
    topics = sorted({tp.topic for tp in ranges})
    width = max((tp.partition for tp in ranges), default=0) + 1
    bounds = np.zeros((len(topics) * width + 1, 2), np.int64)  # the last: of no partition that is asked for
    for tp, span in ranges.items():
        bounds[topics.index(tp.topic) * width + tp.partition] = span
    names = pa.array(topics, pa.string())

    def which(rows: pa.Table) -> Any:
        kafka = rows.column("_kafka").combine_chunks()
        topic = pc.index_in(kafka.field("topic"), names).fill_null(-1).to_numpy()
        partition, offset = (kafka.field(name).fill_null(-1).to_numpy() for name in ("partition", "offset"))
        known = (topic >= 0) & (partition >= 0) & (partition < width) & kafka.is_valid().to_numpy(zero_copy_only=False)
        start, end = bounds[np.where(known, topic.astype(np.int64) * width + partition, len(bounds) - 1)].T
        return pa.array((offset >= start) & (offset < end) & known)

    return which


def _inside(bounds: Bounds | None, ranges: Ranges) -> Ranges:
    """Those of some offsets of which a file may have rows."""
    if bounds is None:
        return ranges
    (topic, partition), (least, most) = bounds
    if topic is not None and partition is not None:
        tp = TopicPartition(topic, partition)
        ranges = {tp: ranges[tp]} if tp in ranges else {}
    return {tp: (start, end) for tp, (start, end) in ranges.items() if least < end and start <= most}


def _may_hold_others(add: Add, bounds: Bounds | None, ranges: Ranges) -> bool:
    """Whether a file may have rows of other offsets, or of none."""
    return _beyond(bounds, ranges) or _numbers(add["stats"], "nullCount", "_kafka", "offset") != 0


def _beyond(bounds: Bounds | None, ranges: Ranges) -> bool:
    """Whether a file may have offsets that are not among these."""
    if bounds is None or None in bounds[0]:
        return True
    (topic, partition), (least, most) = bounds
    start, end = ranges.get(TopicPartition(topic, partition), (0, 0))
    return least < start or most >= end


def _bounds(add: Add) -> Bounds | None:
    """None where its statistics do not tell."""
    told = json.loads(add.get("stats") or "{}")
    least, most = (told.get(name, {}).get("_kafka") or {} for name in ("minValues", "maxValues"))
    offsets = least.get("offset"), most.get("offset")
    if type(offsets[0]) is not int or type(offsets[1]) is not int:
        return None
    only = [least.get(name) if least.get(name) == most.get(name) else None for name in ("topic", "partition")]
    return (only[0], only[1]), (int(offsets[0]), int(offsets[1]))


def _numbers(stats: str | None, *path: str) -> int | None:
    """A number in a file's statistics, None where they do not tell."""
    found: Any = json.loads(stats) if stats else None
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None


def _absent_file(name: str, add: Add, size: int | None, cut_by: Sequence[str]) -> AbsentFile:
    """What was in the file: from its statistics, else from its name."""
    stats = add.get("stats")
    partition = _numbers(stats, "minValues", "_kafka", "partition")
    first = _numbers(stats, "minValues", "_kafka", "offset")
    last = _numbers(stats, "maxValues", "_kafka", "offset")
    topic = None
    try:
        named = DataFile.parse(unquote(add["path"]))
        topic, partition, last = named.tp.topic, named.tp.partition, named.last_offset if last is None else last
    except BadName:
        log.info(Event.FILE_NAME_NOT_OURS, table=name, path=add["path"])
    day = " ".join(add["partitionValues"].get(column) or "" for column in cut_by)
    why: Literal["absent", "another size"] = "absent" if size is None else "another size"
    return AbsentFile(name, add["path"], day, topic, partition, first, last, why)
