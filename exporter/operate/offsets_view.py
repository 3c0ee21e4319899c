"""`exporter offsets`: per event type and topic partition the three views side by side, and what follows. Reads only.

The log first, then each table in one snapshot, the dead letters last (protocol 5.1); the verdict is start-up's own
(offsets/wal_verdict.py). Rows are not counted: that is start-up's, and only where a table's log was cleaned up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.core.routing import DEAD_LETTERS
from exporter.core.standing import TableStanding
from exporter.core.valid_through import as_text
from exporter.errors import InvariantBroken, LogCleaned
from exporter.kafka.topics import partitions_of
from exporter.lake.accidents import AppHistory
from exporter.lake.said import said_through
from exporter.lake.views import views_of
from exporter.settings.model import Settings
from exporter.wal.check import LogCheck, Logged
from exporter.workbench import Workbench, open_journal
from offsets.intents import Intent, IntentState, WalUnreachable
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import THROUGH_PROPERTY, Named, TableView, last_named_offsets, own_metadata
from offsets.wal_verdict import LogVerdict


@dataclass(frozen=True)
class OffsetRow(TableStanding):
    """What is known of it beside.

    named: greatest offset in the names of files that others have committed since the app's last commit, None for none.
    logged: position of the newest completed commit in the write-ahead log. started: commits that it holds as started.
    valid_through: of the table, the greatest that its commits have said; empty if none has, or nobody is to.
    verdict, says: of the three views together; empty without a log and without an accident.
    """

    named: int | None = None
    logged: int | None = None
    started: int = 0
    verdict: str = ""
    says: str = ""
    valid_through: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row of a position, for JSON."""
        beside = {name: getattr(self, name) for name in ("end", "lag", "named", "logged", "started", "verdict", "says")}
        return {**self.where("position"), **beside, "valid_through": self.valid_through or None}


def offset_rows(bench: Workbench, settings: Settings) -> Iterator[OffsetRow]:
    """One row per table of the app and partition of the topics, the dead letters first."""
    partitions = partitions_of(bench.topics.identities())
    check = LogCheck(bench.lake, open_journal(settings, bench.routing))
    logged, silent = _logged(check, partitions)
    ends = bench.topics.high_watermarks(partitions)
    names = {*bench.lake.event_types(), *bench.routing.active_types}
    tables = dict(views_of(bench.lake, names, others="keep"))
    named: dict[tuple[str, TopicPartition], int] = {}
    accidents: dict[str, str] = {}
    for name, view in tables.items():
        found, accidents[name] = _names(bench, name, view)
        for tp in partitions:
            at = view.position(bench.lake.app, tp)
            if at is not None and at.epoch in found.get(tp, {}):
                named[name, tp] = found[tp][at.epoch]
    verdicts = check.judge(logged, tables, named)
    for name in [DEAD_LETTERS, *sorted(names - {DEAD_LETTERS})]:
        through = _through(bench, settings, name, tables.get(name))
        for tp in partitions:
            position = tables[name].position(bench.lake.app, tp) if name in tables else None
            verdict, says = _says(verdicts.get((name, tp)), accidents.get(name, ""), silent)
            mine = [one for one in (logged or {}).get(tp, ()) if one.key.event_type == name]
            started = sum(one.state is IntentState.STARTED for one in mine)
            beside = named.get((name, tp)), _newest(mine, position), started, verdict, says, through
            yield OffsetRow(name, tp, position, ends[tp], *beside)


def _through(bench: Workbench, settings: Settings, name: str, view: TableView | None) -> str:
    if view is None or (settings.valid_through == "off" and THROUGH_PROPERTY not in view.properties):
        return ""
    said = said_through(bench.lake.table(name), view)
    return as_text(said) if said else ""


def _logged(check: LogCheck, tps: list[TopicPartition]) -> tuple[Logged | None, str]:
    """What the log holds, or why it cannot be told."""
    try:
        return check.read(tps), ""
    except (WalUnreachable, InvariantBroken) as error:
        return None, error.message


def _names(bench: Workbench, name: str, view: TableView) -> tuple[Named, str]:
    """What others have named in the table's log since the app's last commit, and the accident that it tells of."""
    app = bench.lake.app
    history = AppHistory(bench.lake.table(name), app, view)
    try:
        others = [one for one in history.since if own_metadata(one.user_metadata).get("app") != app]
        accidents = [f"{one.operation} at version {one.version}" for one in history.accidents]
    except LogCleaned as cleaned:
        return {}, cleaned.message
    return last_named_offsets((path for one in others for path in one.added), app), ", ".join(accidents)


def _newest(intents: list[Intent], position: Position | None) -> int | None:
    """The newest completed position that the log has of the live epoch."""
    epoch = position.epoch if position is not None else 0
    news = [one.new for one in intents if one.state is IntentState.COMPLETED and one.key.epoch == epoch]
    return max(news, default=None)


def _says(found: LogVerdict | None, accident: str, silent: str) -> tuple[str, str]:
    if accident and (found is None or not found.verdict.stops):
        return "accident", accident
    if found is not None:
        return found.verdict.value, found.says
    return ("log unreachable", silent) if silent else ("", "")
