"""Rows of erased records leave a table (ERASED, protocol 4.16): it is told first, then they go.

    exporter.erasing = n, in a commit of its own ── what tasks have staged before does not fit any more
    files with such rows ── one commit puts others without them in their place
    no file has such a row ── exporter.erased = n, in a commit that no file comes in before

Whoever ends in between leaves rows that may go; the next turn takes them. So does the one after a RESTORE, which takes
both properties back.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.faults import Fault, point
from exporter.lake.change import Change, said_beside
from exporter.lake.lake import Lake
from exporter.lake.rows import by_file_name, file_name
from exporter.lake.settling import Expect, Moved, commit_or_moved
from exporter.lake.table import DeltaTable
from exporter.operate.maintain.rewriting import Rewriting, file_key, view_now
from offsets.erased import ERASED_PROPERTY, ERASING_PROPERTY, Erased, erased, erased_app_id, erasing
from offsets.positions import topic_begins
from offsets.table_log import TableView

_GONE = "topic STRING, partition INT, offset BIGINT, since INT, before INT"


@dataclass(frozen=True)
class ErasedRows:
    """Of one table. sizes: path of a file, as the log writes it -> bytes. rows: that are in them."""

    rows: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)


class Erasing:
    """Of one table at a snapshot. everything: all erasures."""

    def __init__(self, lake: Lake, table: DeltaTable, view: TableView, everything: Erased) -> None:
        self._lake = lake
        self._table = table
        self._view = view
        self._everything = everything

    @property
    def is_due(self) -> bool:
        return erased(self._view) < self._everything.number

    def look(self) -> ErasedRows:
        """What would go now; nothing is written."""
        return self._found(self._view)

    def apply(self) -> ErasedRows:
        """Tell the table, and take the rows out. Raises Moved, ExporterError."""
        self._tell()
        point(Fault.AFTER_ERASING, self._table.event_type)
        view = view_now(self._table)
        taken = self._found(view)
        if taken.sizes:
            rewriting, gone = Rewriting(self._lake, self._table, view), self._gone(view)
            rows = rewriting.rows(taken.sizes).join(gone, _is_gone(gone), "left_anti")
            rewriting.commit(taken.sizes, rows, "erase", "", tags=None)
            point(Fault.AFTER_ERASED, self._table.event_type)
            view = view_now(self._table)
            if self._found(view).sizes:
                raise Moved(f"table {self._table.event_type}: rows of erased records have come back")
        self._say(view)
        return taken

    def _tell(self) -> None:
        """From here on no task commits to the table what it read without knowing. Not a commit of the app's tasks."""
        number, app_id = self._everything.number, erased_app_id(self._lake.app)
        if erasing(self._view) >= number:
            return
        properties = {ERASING_PROPERTY: str(number)}
        change = Change((app_id,), {app_id: number}, said_beside("erasing", erasure=number), properties=properties)
        commit_or_moved(self._table, change, Expect(self._view, self._lake.app, ours=True), self._not_told_more)

    def _not_told_more(self, now: TableView) -> None:
        if erasing(now) > self._everything.number:
            raise Moved(f"table {self._table.event_type} knows of a later erasure")

    def _say(self, view: TableView) -> None:
        """That no row is there. view: by which that was seen."""
        clean = {file_key(add) for add in self._table.files_at(view.version)}

        def none_came(now: TableView) -> None:
            some = [add for add in self._table.files_at(now.version) if file_key(add) not in clean]
            if any(_may_hold(add, self._offsets) for add in some):
                raise Moved(f"table {self._table.event_type}: files have come that may have rows of erased records")

        number = self._everything.number
        properties = {ERASED_PROPERTY: str(number)}
        change = Change((), {}, said_beside("erased", erasure=number), properties=properties, reads_all=True)
        commit_or_moved(self._table, change, Expect(view, self._lake.app, columns=True, ours=True), none_came)

    @cached_property
    def _offsets(self) -> Sequence[int]:
        return sorted({offset for some in self._everything.places.values() for offset, _ in some})

    def _found(self, view: TableView) -> ErasedRows:
        adds = {add["path"]: add for add in self._table.files_at(view.version)}
        may = [path for path, add in adds.items() if _may_hold(add, self._offsets)]
        if not may:
            return ErasedRows()
        gone = self._gone(view)
        rows = Rewriting(self._lake, self._table, view).rows(may)
        rows = rows.select(sf.input_file_name().alias("file"), "_kafka").join(gone, _is_gone(gone), "left_semi")
        counts = {row["file"]: row["count"] for row in rows.groupBy("file").count().collect()}
        by_name = by_file_name(self._table.event_type, may)
        paths = sorted(by_name[file_name(file)] for file in counts)
        return ErasedRows(sum(counts.values()), {path: adds[path]["size"] for path in paths})

    def _gone(self, view: TableView) -> DataFrame:
        return sf.broadcast(self._lake.session.createDataFrame([*self._spans(view)], _GONE))

    def _spans(self, view: TableView) -> Iterable[tuple[str, int, int, int, int]]:
        """Each erased record with the epochs [since, before) in which its topic had this offset."""
        for tp, places in self._everything.places.items():
            begins = [0, *topic_begins(view.transactions, self._lake.app, tp), 2**31 - 1]
            for offset, epoch in places:
                since, before = next(pair for pair in pairwise(begins) if epoch < pair[1])
                yield tp.topic, tp.partition, offset, since, before


def _is_gone(gone: DataFrame) -> Any:
    kafka = sf.col("_kafka")
    epoch = sf.coalesce(kafka["epoch"], sf.lit(0))
    same = [kafka[name] == gone[name] for name in ("topic", "partition", "offset")]
    return same[0] & same[1] & same[2] & (epoch >= gone["since"]) & (epoch < gone["before"])


def _may_hold(add: Mapping[str, Any], offsets: Sequence[int]) -> bool:
    """Whether a file may have a row of one of these offsets, which ascend, by its statistics."""
    stats = json.loads(add.get("stats") or "{}")
    least, most = (stats.get(name, {}).get("_kafka", {}).get("offset") for name in ("minValues", "maxValues"))
    if least is None or most is None:
        return True
    at = bisect_left(offsets, least)
    return at < len(offsets) and bool(offsets[at] <= most)
