"""One fresh reading: the write-ahead log first, then every table of ours, the dead letters last (protocol 5.1, 5.3).

Effects: none but the reading itself. What a reading means is said in judging.py, what is done about it in advancing.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter import threads
from exporter.core.routing import DEAD_LETTERS, Routing, dead_letters_last
from exporter.errors import LogCleaned
from exporter.faults import Fault, point
from exporter.lake.accidents import AppHistory
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.lake.table import DeltaTable
from exporter.wal.check import LogCheck, Logged
from offsets.crosscheck import TableState
from offsets.names import AppId, table_folder
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import APP_PROPERTY, Named, TableView, last_named_offsets, own_metadata
from offsets.wal_verdict import LogVerdict

TABLE_THREADS = 4
"""Tables that are read or anchored at a time; 300 types would take a minute one by one."""


@dataclass(frozen=True)
class Reading:
    """One fresh reading: the log, the views, the dead letters' last, and what each table says per partition.

    logged: None if there is no log, or it need not answer and does not. unproven: tables whose own log was cleaned up
    beyond what has been looked at, which the write-ahead log has to prove.
    """

    views: Mapping[str, TableView]
    states: Mapping[TopicPartition, Mapping[str, TableState]]
    logged: Logged | None = None
    unproven: Mapping[str, LogCleaned] = field(default_factory=dict)

    @property
    def dead_letters(self) -> TableView | None:
        return self.views.get(DEAD_LETTERS)


class TablesReader:
    """Reads the tables of one app as one configuration sees them. Keeps nothing from one reading to the next."""

    def __init__(self, lake: Lake, routing: Routing, log_check: LogCheck) -> None:
        self._lake = lake
        self._routing = routing
        self._log_check = log_check

    def read(self, tps: Iterable[TopicPartition]) -> Reading:
        """Everything that is known of these partitions. Raises InvariantBroken, TableUnreadable, WalUnreachable."""
        tps = [*tps]
        # The log first: a commit in between then makes a table ahead of it, which is no alarm (5.1).
        logged = self._log_check.read(tps)
        point(Fault.AFTER_WAL_READ)
        named: dict[str, Named] = {}
        views: dict[str, TableView] = {}
        unproven: dict[str, LogCleaned] = {}
        missed: set[str] = set()
        while True:
            # The dead letters last, as they are written last: what they say of a table was so before (5.1, 5.3).
            *others, last = dead_letters_last({DEAD_LETTERS, *self._event_types()} - (views.keys() - {DEAD_LETTERS}))
            with threads.pool(TABLE_THREADS, "tables") as pool:
                found = [*zip(others, pool.map(self._read_table, others), strict=True)]
            found.append((last, self._read_table(last)))
            for name, one in found:
                if one is not None:
                    views[name], named[name], cleaned = one
                    unproven |= {} if cleaned is None else {name: cleaned}
            before, missed = missed, unread_tables(views)
            if missed <= before:  # else another task has made a table since the listing, and registered it
                break
        # What the table's own log no longer tells, only the write-ahead log can: nothing is taken for proven.
        if unproven and logged is None:
            raise next(iter(unproven.values()))
        states = {tp: {name: self.state(tp, name, views[name], named[name]) for name in views} for tp in tps}
        return Reading(views, states, logged, unproven)

    def log_verdicts(self, reading: Reading) -> dict[tuple[str, TopicPartition], LogVerdict]:
        """What the log says of the tables, per type and partition; empty without a log."""
        named = {(name, tp): one.named_offset for tp, states in reading.states.items() for name, one in states.items()}
        return self._log_check.judge(reading.logged, reading.views, named, reading.unproven)

    def named_since(self, table: DeltaTable, view: TableView) -> Named:
        """Greatest offsets named by files that others have committed since the operations were last looked at.

        Our own commits need no such look: their positions reach what they add, or, where a poison record's row goes
        ahead of them (protocol 3.7), remember it.

        Raises InvariantBroken if an operation since then took the table back (MONOTONE), LogCleaned. A REPLACE takes
        the properties too, but not the positions: by these the table is still known as ours.
        """
        app = self._lake.app
        if view.properties.get(APP_PROPERTY) != app and not live_positions(view.transactions, app):
            return {}
        history = AppHistory(table, app, view)
        if history.accidents:
            raise history.broken()
        others = (logged for logged in history.since if own_metadata(logged.user_metadata).get("app") != app)
        return last_named_offsets((path for logged in others for path in logged.added), app)

    def state(self, tp: TopicPartition, name: str, view: TableView, named: Named) -> TableState:
        """What one table says of a partition."""
        app = self._lake.app
        position = view.position(app, tp)
        anchored_at = view.transactions.get(str(AppId(app, tp, position.epoch, "anchor"))) if position else None
        unused = position is not None and position.offset == anchored_at and self._routing.is_new(name)
        epochs = named.get(tp, {})
        last = epochs.get(position.epoch, -1) if position is not None else max(epochs.values(), default=-1)
        return TableState(position, last, unused=unused)

    def _read_table(self, name: str) -> tuple[TableView, Named, LogCleaned | None] | None:
        """One table and the offsets that its files have named since our last commit; None if there is none of ours.

        With LogCleaned instead where its log no longer tells.
        """
        table = self._lake.table(name)
        view = table.view()
        if view is None:
            return None
        named: Named = {}
        unproven: LogCleaned | None = None
        try:
            named = self.named_since(table, view)
        except LogCleaned as cleaned:
            unproven = cleaned
        return (view, named, unproven) if self._is_ours(name, view) else None

    def _event_types(self) -> tuple[str, ...]:
        """Active types and tables on disk, listed until two listings agree."""
        # One listing is not one moment: it may lack a table that is made while it runs.
        listed = self._lake.event_types()
        while (again := self._lake.event_types()) != listed:
            listed = again
        return tuple(sorted({*listed, *self._routing.active_types}))

    def _is_ours(self, name: str, view: TableView) -> bool:
        """Raises InvariantBroken if an active type's table belongs to another app (protocol 5.6).

        A table that somebody made in the place of one that the dead letters list is not ours: that one is missed.
        """
        if APP_PROPERTY not in view.properties:
            dead_letters = self._lake.table(DEAD_LETTERS).view()
            if dead_letters is not None and table_folder(name) in dead_letters.listed_tables():
                return False
        if name in self._routing.active_types:
            check_properties(name, view, self._lake.app)
            return True
        return view.properties.get(APP_PROPERTY) == self._lake.app


def unread_tables(views: Mapping[str, TableView]) -> set[str]:
    """Folders of the tables that the dead letters list and that were not read."""
    dead_letters = views.get(DEAD_LETTERS)
    return set(dead_letters.listed_tables() if dead_letters else ()) - {table_folder(name) for name in views}
