"""The three views of partitions brought together: what the log, the tables and their logs say (protocol 5.1).

    read the log ─ then the tables ─┬─ started intents that may have landed: looked for in the table's log
                                    ├─ a table whose log was cleaned up: the newest commits' rows are counted
                                    └─ offsets/wal_verdict.py ─ stop, or put the log right (never a table)

Data files are not listed, unless rows have to be counted: then one Spark job per table. The log that is empty is filled
from the tables' history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as sf

from exporter.clock import wall_ms
from exporter.core.routing import DEAD_LETTERS
from exporter.errors import InvariantBroken, LogCleaned
from exporter.lake.accidents import HINT, SHOWN_MAX
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.wal.journal import Journal, Landing
from offsets.aged import aged_before
from offsets.erased import erasing
from offsets.intents import Intent, IntentKey, IntentState, WalUnreachable
from offsets.positions import TOMBSTONE, Position, our_transactions
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import TableView, own_metadata
from offsets.wal_verdict import GRAVITY, LogVerdict, Ruling, TableSays, judge, to_count, to_find

log = get_logger(__name__)

REBUILD_VERSIONS_MAX = 1_000
"""So far back a table's history is read for the newest commits of each partition when the log is empty."""
ROWS_VERSIONS_MAX = 100
"""So far back one with rows is preferred to the newest of all."""

CHANGES_ROWS = frozenset({"DELETE", "UPDATE", "MERGE"})
"""What users do to rows, as the log names it; no alarm (protocol 4.5), but a count proves nothing after it."""

Logged = Mapping[TopicPartition, tuple[Intent, ...]]
LogVerdicts = Mapping[tuple[str, TopicPartition], LogVerdict]


class LogCheck:
    """Reads the log and judges the tables by it. Writes to the log only."""

    def __init__(self, lake: Lake, journal: Journal) -> None:
        self._lake = lake
        self._journal = journal
        self.said: dict[tuple[str, TopicPartition], str] = {}
        """The latest verdicts, for those who watch; replaced as a whole, because two threads judge."""

    @property
    def on(self) -> bool:
        return self._journal.on

    def let_go(self, tps: Container[TopicPartition]) -> None:
        """No claim of this process has an offer of these partitions: what a drain had begun is judged as any other."""
        self._journal.let_go(tps)

    def read(self, tps: Iterable[TopicPartition]) -> Logged | None:
        """One Query per partition, to be done before any table is read. None: no log, or best effort and no answer.

        Raises WalUnreachable where the log is required, InvariantBroken for a log that is not ours.
        """
        wal = self._journal.wal
        if wal is None or (self._journal.down and not self._journal.required):
            return None
        try:
            with self._journal.asking():
                return {tp: wal.read(tp) for tp in tps}
        except WalUnreachable:
            if self._journal.required:
                raise
            return None

    def judge(
        self,
        logged: Logged | None,
        views: Mapping[str, TableView],
        named: Mapping[tuple[str, TopicPartition], int] | None = None,
        unproven: Mapping[str, LogCleaned] | None = None,
        live: Collection[str] = (),
    ) -> dict[tuple[str, TopicPartition], LogVerdict]:
        """Verdicts on every (type, partition) of `logged`; empty without a log.

        views: read after the log. named: greatest offset that files are named by. unproven: tables whose log was
        cleaned up beyond what has been looked at; all their partitions are judged, owned or not, because whoever
        commits next says that it has looked. Raises such a LogCleaned if the log proves nothing of its table either.
        """
        if logged is None:
            return {}
        unproven = unproven or {}
        more = {tp for name in unproven for tp in live_positions(views[name].transactions, self._lake.app)}
        logged = {**(self.read(more - logged.keys()) or {}), **logged}
        by_type: dict[str, dict[TopicPartition, list[Intent]]] = defaultdict(lambda: {tp: [] for tp in logged})
        for tp, intents in logged.items():
            for intent in intents:
                by_type[intent.key.event_type][tp].append(intent)
        dead_letters = views.get(DEAD_LETTERS)
        found: dict[tuple[str, TopicPartition], LogVerdict] = {}
        for name in sorted({*views, *by_type}):
            says = self._says(name, logged, views.get(name), dead_letters, named or {})
            # Asked once: what ends while the table's log is read has not been looked for there.
            own = {tp: self._journal.under_way(name, tp) for tp in says}
            others = {tp: _without(by_type[name][tp], own[tp]) for tp in says}
            says = self._looked_up(name, views.get(name), says, others, name in unproven)
            counted = [i for tp in says for i in by_type[name][tp] if i.rows and i.commit_id in says[tp].live_rows]
            if name in unproven and not counted:
                raise unproven[name]
            for tp, one in says.items():
                found[name, tp] = judge(one, by_type[name][tp], own[tp], self._journal.routing, live)
        self.said = {**self.said, **{key: one.verdict.value for key, one in found.items()}}
        return found

    def _says(
        self,
        name: str,
        tps: Iterable[TopicPartition],
        view: TableView | None,
        dead_letters: TableView | None,
        named: Mapping[tuple[str, TopicPartition], int],
    ) -> dict[TopicPartition, TableSays]:
        """What one table says of each partition."""
        common = _positions(dead_letters, self._lake.app)[0] if dead_letters is not None else {}
        epochs = {tp: common[tp].epoch if tp in common else 0 for tp in tps}
        if view is None:
            return {tp: TableSays(None, None, epoch) for tp, epoch in epochs.items()}
        at, anchors = _positions(view, self._lake.app)
        return {
            tp: TableSays(
                view.table_id,
                at.get(tp),
                epoch,
                anchors.get((tp, at[tp].epoch)) if tp in at else None,
                named.get((name, tp), -1),
                view.version,
            )
            for tp, epoch in epochs.items()
        }

    def _looked_up(
        self,
        name: str,
        view: TableView | None,
        says: Mapping[TopicPartition, TableSays],
        others: Mapping[TopicPartition, Sequence[Intent]],
        unproven: bool,
    ) -> dict[TopicPartition, TableSays]:
        """Add what the table's log tells of started intents, and counted rows where it tells nothing.

        others: those that this process does not settle itself.
        """
        wanted = [one for tp in says for one in to_find(says[tp], others[tp])]
        if view is None or not (wanted or unproven):
            return dict(says)
        table = self._lake.table(name)
        landed, cleaned = _landed(table, view.version, wanted)
        says = {tp: replace(one, landed=landed, cleaned_through=cleaned) for tp, one in says.items()}
        counted = [one for tp in says for one in to_count(says[tp], others[tp], unproven)]
        rows = self._live_rows(table, counted) if counted else {}
        has_less = aged_before(view.transactions, self._lake.app) is not None or bool(erasing(view))
        fewer = any(rows[one.key, one.commit_id] < one.rows for one in counted)
        if fewer and (has_less or _rows_were_changed(table, view.version)):
            counted = [one for one in counted if rows[one.key, one.commit_id] >= one.rows]
        live_rows: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
        for one in counted:
            live_rows[one.key.tp][one.commit_id] = rows[one.key, one.commit_id]
        return {tp: replace(one, live_rows=live_rows[tp]) for tp, one in says.items()}

    def _live_rows(self, table: DeltaTable, intents: Sequence[Intent]) -> dict[tuple[IntentKey, str], int]:
        """Rows that are live between the offsets of each intent, by one Spark job."""
        self._lake.gateway.activate()
        kafka, conditions = sf.col("_kafka"), []
        for one in intents:
            conditions.append(
                (kafka["topic"] == one.key.tp.topic)
                & (kafka["partition"] == one.key.tp.partition)
                & (kafka["epoch"] == one.key.epoch)
                & kafka["offset"].between(one.first, one.last)
            )
        any_of = conditions[0]
        for condition in conditions[1:]:
            any_of = any_of | condition
        sums = [sf.sum(sf.when(condition, 1).otherwise(0)).alias(f"n{n}") for n, condition in enumerate(conditions)]
        frame = self._lake.session.read.format("delta").load(table.uri)
        counted = frame.filter(any_of).agg(*sums).first()
        found = {(one.key, one.commit_id): int(counted[n] or 0) for n, one in enumerate(intents)}
        log.info(Event.ROWS_COUNTED, table=table.event_type, commits=len(found), rows=sum(found.values()))
        return found

    def settle(self, verdicts: LogVerdicts, views: Mapping[str, TableView]) -> None:
        """Put the log right by what the tables say. Raises WalUnreachable where it is required, else it is left."""
        landings: list[Landing] = []
        dead: list[Intent] = []
        missing: dict[str, list[TopicPartition]] = defaultdict(list)
        for (name, tp), verdict in verdicts.items():
            for one in verdict.of(Ruling.FINISH, Ruling.DEAD):
                if one.intent is not None and one.version is not None:
                    landings.append(Landing(one.intent, one.version))
                elif one.intent is not None:
                    dead.append(one.intent)
            if verdict.verdict is Ruling.REPAIR:
                missing[name].append(tp)
        if landings or dead:
            if self._journal.pay(landings, dead):
                log.info(Event.WAL_FINISHED, completed=len(landings), failed=len(dead), says=_told(verdicts))
            elif self._journal.required:
                raise WalUnreachable("what the tables tell could not be written to the log")
        for name, tps in sorted(missing.items()):
            self._rebuild(name, views[name], tps)

    def _rebuild(self, name: str, view: TableView, tps: Sequence[TopicPartition]) -> None:
        """Fill the log with the newest commit of each partition, one with rows where it is not too far back."""
        found = history(self._lake.table(name), view, self._lake.app, tps)
        wal = self._journal.wal
        if wal is None or not found:
            return
        try:
            with self._journal.asking():
                wal.record(found)
        except WalUnreachable:
            if self._journal.required:
                raise
            return
        log.info(Event.WAL_REBUILT, table=name, partitions=len(found))


def _positions(
    view: TableView, app: str
) -> tuple[dict[TopicPartition, Position], dict[tuple[TopicPartition, int], int]]:
    """Live positions, and where each epoch began, of all partitions in one pass."""
    live: dict[TopicPartition, Position] = {}
    anchors: dict[tuple[TopicPartition, int], int] = {}
    for app_id, version in our_transactions(view.transactions, app):
        if app_id.kind == "anchor":
            anchors[app_id.tp, app_id.epoch] = version
        elif app_id.kind is None and version != TOMBSTONE:
            found = Position(app_id.epoch, version)
            live[app_id.tp] = max(found, live.get(app_id.tp, found))
    return live, anchors


def _without(intents: Iterable[Intent], commit_ids: Collection[str]) -> list[Intent]:
    return [one for one in intents if one.commit_id not in commit_ids]


def _told(verdicts: LogVerdicts) -> list[str]:
    """What was finished, some of it, for the reader of the log lines."""
    return [
        f"{name} {tp}: {one.verdict.value}: {one.says}"
        for (name, tp), found in sorted(verdicts.items())
        for one in found.of(Ruling.FINISH, Ruling.DEAD)
    ][:SHOWN_MAX]


def _landed(table: DeltaTable, version: int, wanted: Sequence[Intent]) -> tuple[dict[str, int], int]:
    """Commit id -> version of our commits since they were begun, newest first; newest version that is cleaned up."""
    after = min((one.checked_through for one in wanted), default=version)
    missing = {one.commit_id for one in wanted}
    landed: dict[str, int] = {}
    for at in range(version, after, -1):
        try:
            found = missing.intersection(table.logged(at).commit_ids)
        except LogCleaned:
            return landed, at
        landed |= dict.fromkeys(found, at)
        missing -= found
        if not missing:
            break
    return landed, -1


def _rows_were_changed(table: DeltaTable, version: int) -> bool:
    """Whether the part of a table's log that is still there explains that rows are gone: users may take rows away."""
    for at in range(version, -1, -1):
        try:
            if table.logged(at).operation in CHANGES_ROWS:
                return True
        except LogCleaned:
            break
    return False


def history(table: DeltaTable, view: TableView, app: str, tps: Sequence[TopicPartition]) -> list[Intent]:
    """The newest commits of this app in a table's log as completed intents, one per partition, as far as it tells."""
    newest: dict[TopicPartition, Intent] = {}
    open_ = {str(tp): tp for tp in tps}
    for version in range(view.version, max(-1, view.version - REBUILD_VERSIONS_MAX), -1):
        near = view.version - version < ROWS_VERSIONS_MAX
        if not open_ or not (near or len(newest) < len(tps)):
            break
        try:
            metadata = own_metadata(table.logged(version).user_metadata)
        except LogCleaned:
            break
        if metadata.get("app") != app:
            continue
        said = metadata.get("partitions", {})
        for name in said.keys() & open_.keys():
            tp = open_[name]
            at = view.position(app, tp)
            intent = _completed(table.event_type, tp, at, metadata, said[name], version, view.table_id)
            if intent is not None and (intent.rows or tp not in newest):
                newest[tp] = intent
                if intent.rows:
                    del open_[name]
    return [newest[tp] for tp in sorted(newest)]


def _completed(
    name: str,
    tp: TopicPartition,
    at: Position | None,
    metadata: Mapping[str, Any],
    said: Mapping[str, Any],
    version: int,
    table_id: str,
) -> Intent | None:
    """What one commit said of one partition; None if it did not move the live position."""
    if at is None or said.get("epoch") != at.epoch or said.get("new", -1) < 0:
        return None
    new, rows = int(said["new"]), int(said.get("rows") or 0)
    first, last = (int(said["first"]), int(said["last"])) if rows else (new, new)
    routing = str(said.get("routing", metadata.get("routing", "")))
    return Intent(
        IntentKey(name, tp, at.epoch), said.get("offer", metadata["commit_id"]),
        str(said.get("owner", metadata.get("owner", ""))),
        int(said.get("expected", new)), new, first, last, rows, int(metadata.get("checked_through", version - 1)),
        table_id, routing, wall_ms(), IntentState.COMPLETED, version,
    )  # fmt: skip


def broken(verdicts: LogVerdicts) -> InvariantBroken | None:
    """The one message for what stops a task: table, partitions, offsets, and the command that helps."""
    stops = {at: found for at, found in sorted(verdicts.items()) if found.verdict.stops}
    if not stops:
        return None
    (name, _), worst = max(stops.items(), key=lambda item: GRAVITY[item[1].verdict])
    parts = [f"{tp}: {found.says}" for (table, tp), found in stops.items() if table == name]
    shown = "; ".join(parts[:SHOWN_MAX]) + (f" and {len(parts) - SHOWN_MAX} more" if len(parts) > SHOWN_MAX else "")
    others = sorted({table for table, _ in stops} - {name})
    more = f" (and table {', '.join(others[:SHOWN_MAX])})" if others else ""
    says = f"table {name} is not what the write-ahead log knows: {shown}{more}"
    hint = f"put it back, or: {HINT}"
    if worst.verdict is Ruling.GONE:
        hint += "; an export that is to begin anew needs another `app` or `wal_table`"
    return InvariantBroken(worst.invariant, says, hint)
