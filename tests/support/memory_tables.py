"""A Delta table in memory, for tests that ask no JVM; tests/contract/test_settling.py holds it to what Delta does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.errors import LogCleaned
from exporter.lake.change import Change
from exporter.stores.stores import open_store
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, LoggedCommit, TableView

Happens = Callable[[], Any]


def nothing() -> None:
    """Happens mostly."""


class MemoryTable:
    """Of one app, in epoch 0. said: what each version says of itself. operations: of versions, where a test asks.

    gone_through: the log has lost the versions up to there. read, before and after happen to each look and commit.
    """

    store = open_store("/nowhere")

    def __init__(
        self, name: str, positions: Mapping[TopicPartition, int], app: str = "app",
        properties: Mapping[str, str] | None = None, said: Sequence[Mapping[str, Any]] = ({},),
    ) -> None:  # fmt: skip
        self.event_type = name
        self.app = app
        self.transactions = {str(AppId(app, tp, 0, "anchor")): -1 for tp in positions}
        self.properties = {APP_PROPERTY: app, **(properties or {})}
        self.said = [dict(one) for one in said]
        self.operations: dict[int, str] = {}
        self.gone_through = -1
        self.read: Happens = nothing
        self.before: Happens = nothing
        self.after: Happens = nothing
        self.move(positions)

    def move(self, positions: Mapping[TopicPartition, int]) -> None:
        """Without a version of its own."""
        self.transactions |= {str(AppId(self.app, tp, 0)): at for tp, at in positions.items()}

    def view(self) -> TableView:
        self.read()
        return self._now()

    def _now(self) -> TableView:
        version, known = len(self.said) - 1, dict(self.transactions)
        return TableView(version, f"id of {self.event_type}", "F", known, dict(self.properties))

    def logged(self, version: int) -> LoggedCommit:
        if version <= self.gone_through:
            raise LogCleaned(f"version {version} is cleaned up")
        text = json.dumps(self.said[version]) if self.said[version] else ""
        return LoggedCommit(version, self.operations.get(version, ""), text, (), (), False)

    def commits(self, after: int, through: int) -> list[LoggedCommit]:
        return [self.logged(version) for version in range(after + 1, through + 1)]

    def empty_entries(self, through: int, most: int) -> list[int]:
        return []

    def commit(self, change: Change, check: Callable[[TableView], Any]) -> int:
        """A position that moves while it is checked is a conflict, as it is for Delta."""
        self.before()
        seen = self._now()
        check(seen)
        if any(self.transactions.get(one) != seen.transactions.get(one) for one in change.expected):
            raise RuntimeError("ConcurrentTransactionException")
        self.transactions |= change.positions
        self.properties |= change.properties
        self.said.append(dict(change.user_metadata))
        self.after()
        return len(self.said) - 1

    def require(self, path: str, size_bytes: int) -> None:
        """Staged files are there."""

    def not_synced(self, error: BaseException) -> bool:
        return False
