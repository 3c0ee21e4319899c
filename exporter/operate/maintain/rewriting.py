"""Rows of some files of a partition, written anew: one commit puts them in the place of these files (protocol 4.15).

It says that no data has changed, as OPTIMIZE does, unless rows have gone (4.16). It is no commit of the app's: it
moves no position.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from exporter.lake.change import Change, said_beside
from exporter.lake.lake import Lake
from exporter.lake.settling import Expect, Failed, Moved, commit_or_moved
from exporter.lake.table import DeltaTable
from offsets.table_log import TableView

NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Rewriting:
    """Of one table at a snapshot. Paths are as the log writes them."""

    lake: Lake
    table: DeltaTable
    view: TableView

    def rows(self, paths: Collection[str]) -> DataFrame:
        """All rows of some live files."""
        self.lake.gateway.activate()
        return DataFrame(self.table.rows_of(self.view.version, paths), self.lake.session)

    def commit(
        self,
        paths: Collection[str],
        rows: DataFrame | None,
        action: str,
        partition: str,
        tags: Mapping[str, str] | None = NO_TAGS,
        adds: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Write the rows, if there are any, and put them in the files' place. Raises Moved, ExporterError.

        tags: of the new files; None where they have not all rows of the former ones. adds: `add` actions of files that
        are written already, and have them all.
        """
        metadata = said_beside(action, partition=partition)
        written = tuple({**add, "dataChange": False, "tags": tags} for add in adds)
        change = Change((), {}, metadata, written, removes=tuple(paths), rows=rows, rewrites=tags)
        expect = Expect(self.view, self.lake.app, columns=True, ours=True)
        try:
            commit_or_moved(self.table, change, expect, partial(self._still_there, {*paths}))
        except Failed as failed:
            raise failed.cause() from failed

    def _still_there(self, paths: Collection[str], now: TableView) -> None:
        """Raises Moved if somebody has taken one of the files away, or rows of one."""
        if now.version == self.view.version:
            return
        known = {file_key(add) for add in self.table.files_at(self.view.version) if add["path"] in paths}
        if not known <= {file_key(add) for add in self.table.files_at(now.version)}:
            raise Moved(f"table {self.table.event_type}: some of the files were rewritten meanwhile")


def view_now(table: DeltaTable) -> TableView:
    """A table as it is, in the midst of a step. Raises Moved if it is there no more."""
    if (view := table.view()) is None:
        raise Moved(f"table {table.event_type} was removed meanwhile")
    return view


def file_key(add: Mapping[str, Any]) -> tuple[str, str]:
    """What tells a live file from another, by its `add` action: its rows, too, are those that it had."""
    return add["path"], json.dumps(add.get("deletionVector"), sort_keys=True)
