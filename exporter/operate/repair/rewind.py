"""`exporter repair --rewind`: a table was restored, overwritten, replaced or removed (protocol 7).

It goes back to what it certainly holds, and what is missing is exported again. Where a table's own log does not tell
any more what happened to it, the write-ahead log and an audit do. No data file is deleted: a rewind takes files out of
a table. Plans only: applying.py does it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, LogCleaned
from exporter.kafka.topics import partitions_of
from exporter.lake.accidents import AppHistory
from exporter.lake.change import TABLE_PROPERTIES
from exporter.lake.lake import Lake
from exporter.lake.schema import SchemaChange, schema_change
from exporter.operate.audit.report import AuditReport, Missing
from exporter.operate.repair.file_rows import rows_of_files
from exporter.operate.repair.reading import RepairReading, undecided
from exporter.operate.repair.steps import RepairRow, TableRepair, dead_letters_properties
from exporter.wal.check import LogCheck, Logged
from offsets.names import FORMAT_VERSION
from offsets.partitions import of_columns
from offsets.positions import first_epoch
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.rewind import Bound, Cut, FileRows, Move, cut, move_transactions, moves
from offsets.table_log import APP_PROPERTY, EVENT_TYPE_PROPERTY, FORMAT_PROPERTY, TableView
from offsets.wal_verdict import Ruling


@dataclass(frozen=True)
class Rewind:
    """One lake, one app. Every plan reads the tables afresh and writes nothing.

    identities: the topics as they are now. audit: compares tables and topics; asked once, if at all.
    """

    lake: Lake
    identities: Mapping[str, TopicIdentity]
    log_check: LogCheck
    audit: Callable[[], AuditReport]

    @cached_property
    def _audited(self) -> AuditReport:
        return self.audit()

    def plan(self) -> list[TableRepair]:
        """Protocol 7 after RESTORE; the same for rows that were overwritten and for tables that are gone."""
        logged = self.log_check.read(partitions_of(self.identities))
        reading = RepairReading(self.lake, self.lake.app)
        taken_back = self._taken_back(reading, logged)
        self._accept_cleaned(reading, taken_back)
        dead_letters, properties = reading.dead_letters, reading.dead_letters_properties
        lost = reading.lost()
        by_table: dict[str, dict[TopicPartition, Move]] = {}
        held: dict[TopicPartition, dict[str, int]] = defaultdict(dict)
        for (name, tp), at in taken_back.items():
            held[tp][name] = at
        for tp in reading.partitions():
            active = reading.in_force(tp)[1].active_with(reading.views)
            targets = held[tp]
            targets |= {name: loss.held for name, loss in reading.losses(tp).items()}
            for name, target in targets.items():
                reading.check_boundary(name, tp, target)
            targets |= {one.name: reading.beginning(one.name, tp) for one in lost if one.name in active}
            if targets or reading.interrupted(tp, "rewind"):
                positions = reading.positions(tp, left_behind=False)
                for name, move in moves(DEAD_LETTERS, positions, targets, active).items():
                    by_table.setdefault(name, {})[tp] = move
        for one in lost:
            if one.name not in by_table:
                raise undecided(one.name, "is gone, and the configuration in force does not fill it", "put it back")
        replaced = {one.name: one.view for one in lost}
        hit = (name for name, history in reading.histories.items() if history.accidents)
        names = {*by_table, *reading.cleaned, *hit}
        steps = []
        for name in sorted(names - {DEAD_LETTERS}):
            view = replaced[name] if name in replaced else reading.views[name]
            steps.append(self._step(reading, name, view, by_table.get(name, {}), {}))
        extra = dead_letters_properties(properties, reading, by_table.get(DEAD_LETTERS, {}))
        if DEAD_LETTERS in names or any(dead_letters.properties.get(k) != text for k, text in extra.items()):
            steps.append(self._step(reading, DEAD_LETTERS, dead_letters, by_table.get(DEAD_LETTERS, {}), extra))
        return steps

    def _taken_back(self, reading: RepairReading, logged: Logged | None) -> dict[tuple[str, TopicPartition], int]:
        """(table, partition) -> what it holds, where the write-ahead log alone tells that it was taken back.

        An older copy of a table holds what its position says. Where rows are gone although the position is not, and
        the table's log no longer tells why, everything before the first offset that the audit misses.
        """
        found: dict[tuple[str, TopicPartition], int] = {}
        rows_gone = set()
        try:
            verdicts = self.log_check.judge(logged, reading.views, unproven=reading.cleaned)
        except LogCleaned:
            return found
        for (name, tp), verdict in verdicts.items():
            position = reading.views[name].position(self.lake.app, tp) if name in reading.views else None
            if verdict.verdict is Ruling.ROLLED_BACK and position is not None:
                found[name, tp] = position.offset
            elif verdict.verdict is Ruling.ROWS_GONE:
                rows_gone.add(name)
        for one in self._audited.missing_by_table if rows_gone else ():
            if one.table in rows_gone:
                found[one.table, TopicPartition(one.topic, one.partition)] = one.first_offset - 1
        return found

    def _accept_cleaned(self, reading: RepairReading, taken_back: Mapping[tuple[str, TopicPartition], int]) -> None:
        """Raises Refused if a log was cleaned up beyond what was looked at, and the audit finds what is not known."""
        if not reading.cleaned or (report := self._audited).clean:
            return
        known = [one for one in report.missing_by_table if (one.table, _tp(one)) in taken_back]
        if report.findings == sum(one.count for one in known):
            return
        name, cleaned = next(iter(reading.cleaned.items()))
        raise undecided(
            name,
            f"cannot be judged: {cleaned.message}; the audit found {report.findings} offsets that are not right",
            "`exporter audit` lists them; RESTORE the table to a version that is whole, then start the repair again",
        )

    def _step(
        self,
        reading: RepairReading,
        name: str,
        view: TableView | None,
        table_moves: Mapping[TopicPartition, Move],
        extra: Mapping[str, str],
    ) -> TableRepair:
        """One table's step: its files looked through, its properties and columns as they have to be."""
        transactions = view.transactions if view is not None else {}
        versions: dict[str, int] = {}
        bounds = []
        for tp, move in table_moves.items():
            versions |= move_transactions(transactions, self.lake.app, tp, move)
            if move.cuts:
                bounds.append(Bound(tp, move.new.offset, first_epoch(transactions, self.lake.app, tp)))
        history = reading.histories.get(name)
        hit = view is not None and (name not in reading.views or (history is not None and bool(history.accidents)))
        declared = reading.declared_schema(name, self.lake.spec_of(name, view))
        wanted = {**reading.trusted_properties(name), **extra}
        if name not in reading.views or view is None:
            ours = {APP_PROPERTY: self.lake.app, EVENT_TYPE_PROPERTY: name, FORMAT_PROPERTY: str(FORMAT_VERSION)}
            wanted |= {**TABLE_PROPERTIES, **ours, **reading.identity_properties()}
        evolved = SchemaChange()
        if hit and view is not None:
            evolved = _fitted(self.lake, name, view, declared, history)
            wanted |= evolved.properties
        files = list(self._files(name, view, bounds)) if view is not None and bounds else []
        chosen = cut(files, bounds)
        return TableRepair(
            name,
            view,
            versions,
            tuple(_rows(name, table_moves, files, chosen, history if hit else None)),
            {k: text for k, text in wanted.items() if view is None or view.properties.get(k) != text},
            tuple(bounds),
            chosen,
            create=declared if view is None else None,
            evolve=evolved.schema_json,
            routing=reading.fingerprint(),
        )

    def _files(self, name: str, view: TableView, bounds: Sequence[Bound]) -> Iterator[FileRows]:
        least = min(bound.after for bound in bounds)
        return rows_of_files(self.lake.session, self.lake.table(name), view, least)


def _tp(one: Missing) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


def _fitted(lake: Lake, name: str, view: TableView, declared: str | None, history: AppHistory | None) -> SchemaChange:
    """What the table lacks, also of types that it had widened. Raises Refused if it is another one altogether."""
    version = history.accidents[-1].version - 1 if history is not None and history.accidents else None
    sql_name = lake.table(name).sql_name
    restore = f"RESTORE TABLE {sql_name} TO VERSION AS OF {version}" if version is not None else "put it back"
    columns = {one["name"] for one in json.loads(view.schema_json)["fields"]}
    was = view.partition_columns
    if history is not None and history.accidents and (sound := history.accidents[0].version - 1) >= 0:
        was = lake.table(name).view_at(sound).partition_columns  # what was put back stands behind what replaced it
    if of_columns(was) is None or was != view.partition_columns or "_kafka" not in columns:
        raise undecided(name, "was replaced by one with other columns", f"{restore}; then start the repair again")
    try:
        return schema_change(view, declared, lake.type_widening)
    except ConfigError as error:
        raise undecided(name, f"does not fit: {error.message}", f"{restore}; then start the repair again") from error


def _rows(
    name: str,
    table_moves: Mapping[TopicPartition, Move],
    files: Sequence[FileRows],
    chosen: Cut,
    history: AppHistory | None,
) -> Iterator[RepairRow]:
    """What the plan says of one table, partition by partition."""
    removed, mixed = frozenset(chosen.removed), frozenset(chosen.mixed)
    paths: dict[TopicPartition, set[str]] = defaultdict(set)
    for rows in files:
        paths[rows.tp].add(rows.path)
    for tp, move in table_moves.items():
        count = len(paths[tp] & removed)
        if move.old is None:
            says = "made anew; exported again from the next offset on"
        elif not move.cuts:
            says = "follows into the new epoch"
        elif move.new.offset < move.old.offset:
            says = f"offsets {move.new.offset + 1}..{move.old.offset} are exported again"
        else:
            says = "the row of a poison record is written again"
        if move.cuts and paths[tp] & mixed:
            says += f"; rows beyond {move.new.offset} are deleted first"
        yield RepairRow(name, tp, move.old, move.new, count, says)
    if not table_moves:
        accident = history.accidents[-1].operation if history is not None and history.accidents else ""
        says = f"{accident or 'what happened to it'} is accepted: nothing is missing"
        yield RepairRow(name, None, None, None, 0, says)
