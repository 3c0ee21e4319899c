"""Logs of tables made by hand, for what is announced of them, and what a consumer makes of the messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.lake.log_files import entry
from exporter.stores.memory import MemoryStore
from offsets.names import table_folder

APP = "exp"
AT_MS = 1_767_225_600_123


def add(path: str, rows: int, data_change: bool = True) -> dict[str, Any]:
    return {"add": {"path": path, "stats": json.dumps({"numRecords": rows}), "dataChange": data_change}}


def committed(
    commit_id: str, *adds: Mapping[str, Any], said: Mapping[str, Any] | None = None, app: str = APP
) -> list[Mapping[str, Any]]:
    """The actions of a commit of ours."""
    told = {"commit_id": commit_id, "app": app, "table_id": "t-1", **(said or {})}
    return [{"commitInfo": {"timestamp": AT_MS, "userMetadata": json.dumps(told)}}, *adds]


def rows(number: int = 1) -> list[Mapping[str, Any]]:
    """The actions of a commit with one file."""
    return committed(f"c{number}", add(f"day=2026-01-01/{number}.parquet", number))


MARKER: list[Mapping[str, Any]] = committed("marker", {"txn": {"appId": "exp/t/0/0", "version": 1}})
OPTIMIZED: list[Mapping[str, Any]] = [{"commitInfo": {"operation": "OPTIMIZE"}}, add("x.parquet", 9, False)]


@dataclass
class Lake:
    """Tables in a store in memory."""

    store: MemoryStore
    versions: dict[str, int] = field(default_factory=dict)

    def write(self, table: str, *commits: Iterable[Mapping[str, Any]]) -> None:
        """The next versions of a table."""
        for actions in commits:
            version = self.versions.get(table, -1) + 1
            lines = "".join(json.dumps(action) + "\n" for action in actions)
            self.store.below(table_folder(table)).create(entry(version), lines.encode())
            self.versions[table] = version

    def clean(self, table: str, before: int) -> None:
        """As the clean-up of a log does: entries before a version go, behind a checkpoint."""
        below = self.store.below(table_folder(table))
        below.create(entry(before).replace(".json", ".checkpoint.parquet"), b"x")
        for version in range(before):
            below.delete(entry(version))


@dataclass
class Consumer:
    """One that keeps to the handbook: skips what it knows, and notes what it was not told.

    seen: table -> versions in the order of their first coming. missed: what it has no right to miss.
    """

    seen: dict[str, list[int]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    skipped: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    doubled: int = 0

    def take(self, body: bytes) -> None:
        message = json.loads(body)
        table, version = message["table"], message["version"]
        known = self.seen.setdefault(table, [])
        last = known[-1] if known else -1
        if version <= last:
            self.doubled += 1
            return
        if known and message["after"] > last:
            self.missed.append(f"{table}: {message['after']} was announced, and {last} was the last one here")
        if message["kind"] == "skipped":
            self.skipped.setdefault(table, []).append((message["first"], version))
        known.append(version)
