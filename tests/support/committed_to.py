"""A table that commits go to, in memory and in a lake, and what may happen to it: of the contracts of who commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import pytest

from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.outcome import Landed
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.stores.store import Store
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

DAY = date(2026, 1, 31)
NAME = "order"


class CommittedTo(Protocol):
    """A table whose partitions are at offset -1."""

    def file(self, tp: TopicPartition, first: int, last: int) -> StagedFile:
        """One that is staged, every offset of the range a row."""

    def others_move(self, tp: TopicPartition, to: int) -> None: ...

    def table_changes(self) -> None: ...

    def file_vanishes(self, file: StagedFile) -> None: ...

    def reply_is_lost(self, arrived: bool) -> None:
        """That of the next commit."""

    def schema(self) -> str: ...

    def planned(self, file: StagedFile, schema_json: str) -> StagedFile:
        """The file as if it had been staged for a table of this schema."""


class InMemory:
    """The fake. task: one of those that commit to it."""

    def __init__(self, tasks: Iterable[MemoryCommitter]) -> None:
        for self.task in tasks:
            self.task.trust(NAME, self._view())
        self.staged = 0

    @property
    def table(self) -> MemoryTable:
        return self.task.tables[NAME]

    def _view(self) -> Any:
        view = self.task.view(NAME)
        assert view is not None
        return view

    def file(self, tp: TopicPartition, first: int, last: int) -> StagedFile:
        self.staged += 1
        path, offsets = f"day={DAY}/{self.staged}.parquet", OffsetRange(first, last)
        return StagedFile(path, offsets, last - first + 1, 100, fingerprint=self.table.fingerprint)

    def others_move(self, tp: TopicPartition, to: int) -> None:
        self.task.others_move(NAME, tp, Position(0, to))

    def table_changes(self) -> None:
        self.task.table_changes(NAME)

    def file_vanishes(self, file: StagedFile) -> None:
        self.task.file_vanishes(NAME, file.path)

    def schema(self) -> str:
        return self.table.schema_json

    def planned(self, file: StagedFile, schema_json: str) -> StagedFile:
        return replace(file, columns=schema_json, fingerprint=self._view().fingerprint_with(schema_json))


class InALake:
    """A Delta table. other: makes a committer that trusts it, of somebody else."""

    other: Callable[[], Any]

    def __init__(
        self, session: Any, root: Path | Store, tps: Iterable[TopicPartition], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from exporter.lake.lake import Lake
        from tests.support.lakes import create_anchored

        self.patch = monkeypatch
        self.lake = Lake(session, root, "app")
        self.delta = self.lake.table(NAME)
        create_anchored(self.lake, NAME, {tp: Position(0, -1) for tp in tps})

    def view(self) -> Any:
        view = self.delta.view()
        assert view is not None
        return view

    def file(self, tp: TopicPartition, first: int, last: int) -> StagedFile:
        from tests.support.lakes import stage_offsets

        return stage_offsets(self.lake, NAME, tp, list(range(first, last + 1)), DAY)

    def others_move(self, tp: TopicPartition, to: int) -> None:
        at, other = self.view().position("app", tp), self.other()
        report = other.commit(NAME, [Claim(WriterKey(NAME, tp), 0, at.offset, to, (), other.checked_through(NAME))])
        assert isinstance(report.settled[0].outcome, Landed)

    def table_changes(self) -> None:
        self.lake.session.sql(f"ALTER TABLE {self.delta.sql_name} ADD COLUMNS (more INT)")

    def file_vanishes(self, file: StagedFile) -> None:
        assert self.delta.store.delete(file.path)

    def reply_is_lost(self, arrived: bool) -> None:
        from exporter.lake.table import DeltaTable

        real = DeltaTable.commit

        def commit(table: DeltaTable, change: Any, check: Any) -> int:
            self.patch.setattr(DeltaTable, "commit", real)
            if arrived:
                real(table, change, check)
            raise ConnectionError("the reply was lost")

        self.patch.setattr(DeltaTable, "commit", commit)

    def schema(self) -> str:
        return str(self.view().schema_json)

    def planned(self, file: StagedFile, schema_json: str) -> StagedFile:
        return replace(file, columns=schema_json, fingerprint=self.view().fingerprint_with(schema_json))
