"""Which tables this process may write, and through which version it has looked at their operations (MONOTONE).

    recovery ── trust(view) ──> table id, version ──> each commit: the same table still? what happened since?

Shared by all that commits in one process: its own claims, and the offers of others.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import InvariantBroken
from exporter.lake.accidents import AppHistory, check_accidents, gone
from exporter.lake.properties import check_properties
from exporter.lake.table import DeltaTable
from exporter.text import first_line
from offsets.ranges import TopicPartition
from offsets.table_log import TableView


class TrustedTables:
    """Those of one app, as one process knows them."""

    def __init__(self, app: str) -> None:
        self.app = app
        self._table_ids: dict[str, str] = {}
        self._checked: dict[str, int] = {}
        self.dead_letters: TableView | None = None
        """As the last look before a commit has found them."""

    def trust(self, event_type: str, view: TableView) -> None:
        """Start from this view: its table id is the right one, its operations have been looked at."""
        self._table_ids[event_type] = view.table_id
        self._checked[event_type] = view.version

    def table_id(self, event_type: str) -> str:
        """Empty if the table is not known."""
        return self._table_ids.get(event_type, "")

    def checked_through(self, event_type: str) -> int:
        """The newest version of a table whose operations this process has looked at; -1 if none."""
        return self._checked.get(event_type, -1)

    def require(
        self, event_type: str, view: TableView | None, expected: Mapping[TopicPartition, int] | None = None
    ) -> TableView:
        """The view, if the table is the one this process knows and may be written. Raises InvariantBroken.

        expected: positions that the table is to have, for what is said.
        """
        known_id = self._table_ids.get(event_type)
        if view is None or (known_id is not None and view.table_id != known_id):
            what = "is gone" if view is None else f"has another table id, {view.table_id} instead of {known_id}"
            raise gone(event_type, what, dict(expected or {}))
        check_properties(event_type, view, self.app)
        return view

    def fresh(
        self, table: DeltaTable, view: TableView | None, expected: Mapping[TopicPartition, int] | None = None
    ) -> TableView:
        """A snapshot of now, once its operations are looked at. expected: as in require(). Raises InvariantBroken."""
        if view is not None:  # an accident is named before its consequences
            self.look_through(table, view.version, view)
        found = self.require(table.event_type, view, expected)
        if table.event_type == DEAD_LETTERS:
            self.dead_letters = found
        return found

    def meet(self, table: DeltaTable, view: TableView | None) -> str:
        """Trust a table that this process does not know from its recovery; why not, or empty.

        What nobody has looked at since the app's last commit is looked at here: this one would hide it (protocol 4.5).
        Raises TableUnreadable.
        """
        if view is None:
            return "there is no such table"
        try:
            check_properties(table.event_type, view, self.app)
        except InvariantBroken as error:
            return first_line(error)
        history = AppHistory(table, self.app, view)
        if history.accidents:
            return first_line(history.broken())
        self.trust(table.event_type, view)
        return ""

    def look_through(
        self, table: DeltaTable, version: int, view: TableView | None = None, landed: bool = False
    ) -> None:
        """Look at the operations since the last checked version (protocol 4.5). Raises InvariantBroken.

        view: of `version`, if it is at hand. landed: `version` is our own commit.
        """
        checked = self._checked.get(table.event_type, version)
        logged = table.commits(checked, version - 1 if landed else version)
        if any(one.rewinds for one in logged):
            check_accidents(table, self.app, view or table.view_at(version), logged)
        self._checked[table.event_type] = max(checked, version)
