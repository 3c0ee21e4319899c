"""`exporter erase --status`: what of erased records still stands somewhere. Reads only.

    rows         of a table that has not let all of them go: the next turn of maintenance does
    files        that no commit of today names, and that have rows of them: VACUUM takes them
    log files    of versions that may name these: Delta takes them with time, and nobody travels there any more
    topics       records that Kafka keeps
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, unquote

import pyarrow as pa

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.errors import LogCleaned, TableUnreadable
from exporter.kafka.topics import Offsets
from exporter.lake import log_files
from exporter.lake.lake import Lake
from exporter.lake.properties import DELETED_FILE_RETENTION
from exporter.lake.retention import LOG_RETENTION_DEFAULT, RETENTION_DEFAULT
from exporter.lake.table import DeltaTable
from exporter.lake.views import views_of
from exporter.operate.erase.erasing import Erasing
from exporter.operate.maintain.sweep import listed_files
from exporter.protocol.erasures import Erasures
from exporter.stores.file_rows import file_rows
from offsets.erased import Erased, erased
from offsets.positions import first_epoch
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

CHANGES_FOLDER = "_change_data"
"""Where Delta keeps rows that a command has changed, if the table wants that."""
_PLACE = pa.struct([KAFKA_TYPE.field(name) for name in ("topic", "partition", "offset")])


@dataclass(frozen=True)
class LeftInTable:
    """files, bytes: which no commit of today names. log_files: of versions in which rows may be. keeps, log_keeps: for
    how long Delta keeps the former and the latter, as intervals.
    """

    table: str
    rows: int
    files: int
    bytes: int
    log_files: int
    keeps: str
    log_keeps: str

    @property
    def is_something(self) -> bool:
        return bool(self.rows or self.files or self.log_files)


class LeftOfErasures:
    """Of one app. Methods raise TableUnreadable."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def everything(self) -> Erased:
        """All erasures."""
        return Erasures(self._lake).read()

    @cached_property
    def _views(self) -> Mapping[str, TableView]:
        return dict(views_of(self._lake))

    def tables(self) -> Iterator[LeftInTable]:
        """What is left of each table, where anything was erased."""
        if not self.everything.number:
            return
        for name, view in self._views.items():
            try:
                yield self._left_in(self._lake.table(name), view)
            except OSError as error:
                raise TableUnreadable(f"table {name} cannot be looked through: {error}") from error

    def _left_in(self, table: DeltaTable, view: TableView) -> LeftInTable:
        """What is left of one table. Raises TableUnreadable, OSError."""
        work = Erasing(self._lake, table, view, self.everything)
        sizes = [*self._files(table, view)]
        return LeftInTable(
            table.event_type,
            work.look().rows if work.is_due else 0,
            len(sizes),
            sum(sizes),
            _log_files(table, view, self.everything.number),
            view.properties.get(DELETED_FILE_RETENTION, RETENTION_DEFAULT),
            view.properties.get("delta.logRetentionDuration", LOG_RETENTION_DEFAULT),
        )

    def records(self, topics: Offsets, there: Collection[TopicPartition]) -> dict[str, int]:
        """Topic -> erased records that it still has. there: the partitions that there are. Raises BrokerSilent."""
        erased_from = sorted({*there} & self.everything.places.keys())
        found: dict[str, int] = {}
        for tp, first in topics.first_offsets(erased_from).items() if erased_from else ():
            begins = (first_epoch(view.transactions, self._lake.app, tp) for view in self._views.values())
            since = max(begins, default=0)
            if kept := len(self.everything.offsets(tp, since, first)):
                found[tp.topic] = found.get(tp.topic, 0) + kept
        return found

    @cached_property
    def _offsets(self) -> Mapping[tuple[str, int], frozenset[int]]:
        """Of all epochs: a file that is counted needlessly is gone a little later."""
        return {(tp.topic, tp.partition): self.everything.offsets(tp, 0) for tp in self.everything.places}

    @cached_property
    def _span(self) -> tuple[int, int]:
        """The least and the greatest of these."""
        every = [offset for some in self._offsets.values() for offset in some]
        return min(every), max(every)

    def _files(self, table: DeltaTable, view: TableView) -> Iterator[int]:
        """The bytes of each file that no commit of today names, and that has a row of an erased record."""
        live = {unquote(add["path"]) for add in table.files_at(view.version)}
        spec = self._lake.spec_of(table.event_type, view)
        listed = listed_files(table.store, spec)
        if table.store.has_folder(CHANGES_FOLDER):  # which has folders of partitions, as the table has
            changed = listed_files(table.store.below(CHANGES_FOLDER), spec)
            listed |= {f"{CHANGES_FOLDER}/{path}": size for path, size in changed.items()}
        for path, size in listed.items():
            if path not in live and path.endswith(".parquet") and self._may_have_some(table, path):
                yield size

    def _may_have_some(self, table: DeltaTable, path: str) -> bool:
        """What cannot be read may have some."""
        add = {"path": quote(path), "partitionValues": {}}
        try:
            for rows in file_rows(table.store, add, pa.schema([(KAFKA_COLUMN, _PLACE)]), self._span):
                stood = rows.column(0).combine_chunks()
                for topic, partition, offset in zip(*(part.to_pylist() for part in stood.flatten()), strict=True):
                    if offset in self._offsets.get((topic, partition), ()):
                        return True
        except FileNotFoundError:
            return False  # it was deleted meanwhile
        except (OSError, pa.ArrowInvalid):
            return True
        return False


def _log_files(table: DeltaTable, view: TableView, number: int) -> int:
    """Files of the log from before the version that says the last of so many erasures is done."""
    versions = log_files.versions(table.store)

    def is_done(version: int) -> bool:
        try:
            return erased(table.view_at(version)) >= number
        except LogCleaned:  # nobody reads it any more, but its files are there
            return False

    oldest = min(versions, default=view.version)
    clean = oldest + bisect_left(range(oldest, view.version + 1), True, key=is_done)
    return sum(version < clean for version in versions)
