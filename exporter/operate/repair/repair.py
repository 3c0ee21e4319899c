"""`exporter repair`: puts positions right that an accident left wrong; a dry run unless told to apply (protocol 7).

    rewind   a table was restored, overwritten, replaced or removed: back to what it certainly holds
    rebase   the topic was deleted and created again: the next epoch begins at the new topic's first record
    adopt    tables of another app: its positions are carried over under ours
    skip     records that no task gets past are given up (skip.py)
    log      the write-ahead log lags behind the tables: finish what was begun, fill what was lost

    read everything ─ plan ─ commit each table, each at exactly the version that was read ─ read again ...
    ... until the plan holds nothing but the dead letters, which are written last: while a table is in a
    later epoch than they are, every task stays away (protocol 5.3a), and a repair that was interrupted
    anywhere finds the rest to be done in the tables alone.

What is moved is written to the write-ahead log first, as a commit without rows, and completed afterwards. The log also
tells of a table that was taken back by something that its own log no longer holds.

The plans are pure (offsets/rewind.py). No data file is deleted: a rewind takes files out of a table.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, DependencyUnreachable, Fenced, LogCleaned, Refused, TableUnreadable
from exporter.faults import Fault, point
from exporter.kafka.topics import TopicIdentity, partitions_of
from exporter.lake.accidents import History
from exporter.lake.change import TABLE_PROPERTIES, Change
from exporter.lake.lake import Lake
from exporter.lake.schema import evolved_schema
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.operate.audit.audit import audit
from exporter.operate.audit.report import AuditReport, Missing
from exporter.operate.repair.damage import FirstOffsets, refuse_damage
from exporter.operate.repair.reading import NothingToRepair, Reading, listed_tables, quoted, undecided
from exporter.operate.repair.skip import Skip
from exporter.operate.repair.steps import RepairRow, TableRepair, histories, letters_properties
from exporter.protocol.anchor import ATTEMPTS_MAX, Moved, Patience, commit_or_moved
from exporter.wal.check import LogCheck, Logged, broken
from exporter.wal.dynamodb import WalUnreachable
from exporter.wal.journal import Journal
from exporter.workbench import Workbench
from offsets.intents import Intent, IntentKey
from offsets.names import FORMAT_VERSION, AppId, table_folder
from offsets.positions import first_epoch
from offsets.ranges import TopicPartition
from offsets.rewind import (
    Bound,
    Cut,
    FileRows,
    Move,
    adopted_transactions,
    cut,
    live_positions,
    move_transactions,
    moves,
)
from offsets.table_log import (
    APP_PROPERTY,
    CLUSTER_PROPERTY,
    EVENT_TYPE_PROPERTY,
    FORMAT_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
)
from offsets.wal_verdict import Ruling

log = get_logger(__name__)

WHERE = "`exporter offsets` shows where the tables are"


class Repairer:
    """One lake, one app. Every method that plans reads the tables afresh and writes nothing."""

    def __init__(
        self,
        session: Any,
        lake: Lake,
        identities: Mapping[str, TopicIdentity],
        starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        first_offsets: FirstOffsets,
        audit: Callable[[], AuditReport],
        journal: Journal | None = None,
    ) -> None:
        """identities: the topics as they are now. starts: the offsets at which a new topic is to be begun.

        first_offsets: where the topics' logs begin now.
        audit: compares tables and topic; asked only where a table's log no longer tells what happened to it.
        journal: of the write-ahead log.
        """
        self._journal = journal or Journal()
        self._log_check = LogCheck(lake, self._journal)
        self._session = session
        self._lake = lake
        self._identities = identities
        self._starts = starts
        self._first_offsets = first_offsets
        self._audit = cache(audit)

    def run(self, action: str, plan: Callable[[], list[TableRepair]], apply: bool) -> list[RepairRow]:
        """What was planned, or with `apply` done. Raises NothingToRepair."""
        done: list[RepairRow] = []
        patience = Patience()
        for _ in range(ATTEMPTS_MAX):
            steps = plan()
            if not steps and not done:
                if action == "rewind":
                    refuse_damage(Reading(self._lake, self._lake.app), self._first_offsets)
                raise NothingToRepair(f"there is nothing to {action}", WHERE)
            if not apply or not steps:
                return done or [row for step in steps for row in step.rows]
            for step in steps:
                if step.name == DEAD_LETTERS and len(steps) > 1:
                    break  # the dead letters are written by a plan that finds nothing else to do
                try:
                    self._commit(action, step)
                except Moved as moved:
                    patience.restart(moved)
                    break
                done += step.rows
        raise Fenced("the tables did not come to rest", "stop the tasks that write them, then start the repair again")

    # --- rewind ---------------------------------------------------------------------------------

    def plan_rewind(self) -> list[TableRepair]:
        """Protocol 7 after RESTORE; the same for rows that were overwritten and for tables that are gone."""
        logged = self._log_check.read(partitions_of(self._identities))
        reading = Reading(self._lake, self._lake.app)
        taken_back = self._taken_back(reading, logged)
        self._accept_cleaned(reading, taken_back)
        letters, properties = reading.letters, reading.letters_properties
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
            steps.append(self._rewind(reading, name, view, by_table.get(name, {}), {}))
        extra = letters_properties(properties, reading, by_table.get(DEAD_LETTERS, {}))
        if DEAD_LETTERS in names or any(letters.properties.get(k) != text for k, text in extra.items()):
            steps.append(self._rewind(reading, DEAD_LETTERS, letters, by_table.get(DEAD_LETTERS, {}), extra))
        return steps

    def _taken_back(self, reading: Reading, logged: Logged | None) -> dict[tuple[str, TopicPartition], int]:
        """(table, partition) -> what it holds, where the write-ahead log alone tells that it was taken back.

        An older copy of a table holds what its position says. Where rows are gone although the position is not, and
        the table's log no longer tells why, everything before the first offset that the audit misses.
        """
        found: dict[tuple[str, TopicPartition], int] = {}
        rows_gone = set()
        try:
            verdicts = self._log_check.judge(logged, reading.views, unproven=reading.cleaned)
        except LogCleaned:
            return found
        for (name, tp), verdict in verdicts.items():
            position = reading.views[name].position(self._lake.app, tp) if name in reading.views else None
            if verdict.verdict is Ruling.ROLLED_BACK and position is not None:
                found[name, tp] = position.offset
            elif verdict.verdict is Ruling.ROWS_GONE:
                rows_gone.add(name)
        for one in self._audit().missing_by_table if rows_gone else ():
            if one.table in rows_gone:
                found[one.table, TopicPartition(one.topic, one.partition)] = one.first_offset - 1
        return found

    def _accept_cleaned(self, reading: Reading, taken_back: Mapping[tuple[str, TopicPartition], int]) -> None:
        """Raises Refused if a log was cleaned up beyond what was looked at, and the audit finds what is not known."""
        if not reading.cleaned or (report := self._audit()).clean:
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

    def _rewind(
        self,
        reading: Reading,
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
            versions |= move_transactions(transactions, self._lake.app, tp, move)
            if move.cuts:
                bounds.append(Bound(tp, move.new.offset, first_epoch(transactions, self._lake.app, tp)))
        history = reading.histories.get(name)
        hit = view is not None and (name not in reading.views or (history is not None and bool(history.accidents)))
        declared = reading.declared_schema(name)
        wanted = {**reading.trusted_properties(name), **extra}
        if name not in reading.views or view is None:
            ours = {APP_PROPERTY: self._lake.app, EVENT_TYPE_PROPERTY: name, FORMAT_PROPERTY: str(FORMAT_VERSION)}
            wanted |= {**TABLE_PROPERTIES, **ours, **reading.identity_properties()}
        evolve = None
        if hit and view is not None:
            evolve = _fitting_schema(self._lake.table(name), view, declared, history)
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
            evolve=evolve if view is not None and evolve != view.schema_json else None,
            routing=reading.fingerprint(),
        )

    def _files(self, name: str, view: TableView, bounds: Sequence[Bound]) -> Iterator[FileRows]:
        """The rows of the live files, by their tags; of files without (OPTIMIZE drops them) by reading them."""
        table, unknown = self._lake.table(name), []
        least = min((bound.after for bound in bounds), default=0)
        for add in table.files_at(view.version):
            if (rows := _tagged(add)) is not None:
                yield rows
            elif not _ends_by(add, least):
                unknown.append(add["path"])
        if unknown:
            yield from self._read_rows(table, view, unknown)

    def _read_rows(self, table: DeltaTable, view: TableView, paths: Sequence[str]) -> Iterator[FileRows]:
        by_name = {unquote(path).rpartition("/")[2]: path for path in paths}
        if len(by_name) != len(paths):
            raise TableUnreadable(f"table {table.event_type}: two of its files have the same name")
        kafka = [sf.col(f"_kafka.{part}").alias(part) for part in ("topic", "partition", "epoch", "offset")]
        frame = DataFrame(table.rows_of(view.version, paths), self._session)
        frame = frame.select(sf.input_file_name().alias("file"), *kafka).filter("offset IS NOT NULL")
        found = frame.groupBy("file", "topic", "partition", "epoch").agg(
            sf.min("offset").alias("first"), sf.max("offset").alias("last")
        )
        for row in found.collect():
            path = by_name[unquote(row["file"]).rpartition("/")[2]]
            yield FileRows(
                path, TopicPartition(row["topic"], row["partition"]), row["epoch"] or 0, row["first"], row["last"]
            )

    # --- rebase ---------------------------------------------------------------------------------

    def plan_rebase(self) -> list[TableRepair]:
        """Protocol 5.4 and 7: the tables keep their rows, the next epoch is that of the new topic."""
        reading = Reading(self._lake, self._lake.app)
        reading.refuse_accidents("re-based")
        recorded = reading.letters.properties
        changed = {
            topic: identity
            for topic, identity in self._identities.items()
            if f"{TOPIC_PROPERTY}{topic}" in recorded
            and (recorded[f"{TOPIC_PROPERTY}{topic}"], recorded.get(CLUSTER_PROPERTY))
            != (identity.topic_id, identity.cluster_id)
        }
        by_table: dict[str, dict[TopicPartition, Move]] = {}
        tps = [tp for tp in reading.partitions() if tp.topic in changed]
        here = [tp for tp in tps if tp.partition in changed[tp.topic].partitions]
        starts = dict(self._starts(here)) if here else {}
        for tp in tps:
            reading.in_force(tp)
            wanted = _identity_properties({tp.topic: changed[tp.topic]})
            todo = {
                name: starts.get(tp, 0) - 1
                for name in reading.positions(tp)
                if any(reading.views[name].properties.get(prop) != text for prop, text in wanted.items())
            }
            for name, move in moves(DEAD_LETTERS, reading.positions(tp), todo, reading.views).items():
                by_table.setdefault(name, {})[tp] = move
        steps = []
        for name in sorted(by_table, key=lambda name: (name == DEAD_LETTERS, name)):
            extra = _identity_properties(changed)
            if name == DEAD_LETTERS:
                extra |= histories(reading, reading.letters.properties, by_table[name])
            steps.append(self._rebase(reading, name, by_table[name], extra))
        return steps

    def _rebase(
        self, reading: Reading, name: str, table_moves: Mapping[TopicPartition, Move], extra: Mapping[str, str]
    ) -> TableRepair:
        view = reading.views[name]
        versions: dict[str, int] = {}
        for tp, move in table_moves.items():
            versions |= move_transactions(view.transactions, self._lake.app, tp, move, rebased=move.cuts)
        rows = tuple(
            RepairRow(name, tp, move.old, move.new, 0, "begins with the new topic; its rows stay")
            for tp, move in table_moves.items()
        )
        return TableRepair(name, view, versions, rows, extra, routing=reading.fingerprint())

    # --- adopt ----------------------------------------------------------------------------------

    def plan_adopt(self, former: str) -> list[TableRepair]:
        """Protocol 5.6: every table of `former` becomes ours, with all that it remembers."""
        app = self._lake.app
        if former == app:
            raise Refused(f"the tables are asked to be those of {app}, which is the app itself", "name the other app")
        reading = Reading(self._lake, former, known_as=app)
        todo = {name: view for name, view in reading.views.items() if view.properties.get(APP_PROPERTY) == former}
        if not todo:
            return []
        letters = todo.get(DEAD_LETTERS)
        if letters is None:
            raise undecided(DEAD_LETTERS, f"is not one of {former}'s", "both apps have written here: move one away")
        reading.refuse_accidents(f"adopted; start with app = {former!r} and repair them first")
        for topic, identity in self._identities.items():
            if letters.properties.get(f"{TOPIC_PROPERTY}{topic}") != identity.topic_id:
                raise undecided(
                    DEAD_LETTERS, f"knows nothing of topic {topic} with the id {identity.topic_id}",
                    f"only tables of the same topic can be adopted; was it created again? start with app = {former!r}",
                )  # fmt: skip
        listed = dict(listed_tables(letters.properties))
        ids = {table_folder(name): view.table_id for name, view in reading.views.items()}
        if missing := sorted(folder for folder, table_id in listed.items() if ids.get(folder) != table_id):
            raise undecided(missing[0], "is gone or another one", f"start with app = {former!r} and repair it first")
        if both := sorted(name for name, view in todo.items() if live_positions(view.transactions, app)):
            raise undecided(both[0], f"has positions of both {former} and {app}", "they cannot be told apart")
        return [self._adopt(name, todo[name], former) for name in sorted(todo, key=lambda n: (n == DEAD_LETTERS, n))]

    def _adopt(self, name: str, view: TableView, former: str) -> TableRepair:
        rows = tuple(
            RepairRow(name, tp, position, position, 0, f"was {former}'s, becomes {self._lake.app}'s")
            for tp, position in live_positions(view.transactions, former).items()
        )
        versions = adopted_transactions(view.transactions, former, self._lake.app)
        return TableRepair(name, view, versions, rows, {APP_PROPERTY: self._lake.app})

    # --- effects --------------------------------------------------------------------------------

    def _commit(self, action: str, step: TableRepair) -> None:
        """One table. Raises Moved if it is not at the version that was read, or rows had to be deleted first."""
        table = self._lake.table(step.name)
        commit_id, new_id = uuid.uuid4().hex, str(uuid.uuid4())
        intents = self._intents(step, commit_id, step.view.table_id if step.view else new_id)
        if why := self._journal.begin(step.name, intents):
            raise DependencyUnreachable(f"{why}, and a repair is written to it first", "start the repair again then")
        if step.files.mixed:
            self._delete_rows(table, step.bounds)
            point(Fault.AFTER_REPAIR)
            raise Moved(f"table {step.name}: rows were deleted")

        def check(now: TableView | None) -> None:
            if (now.version if now else -1) != (step.view.version if step.view else -1):
                raise Moved(f"table {step.name} was written meanwhile")

        closed = [(row.tp, row.old.epoch) for row in step.rows if row.tp is not None and row.old is not None]
        condemned = [str(AppId(self._lake.app, tp, epoch, "condemned")) for tp, epoch in closed]
        change = Change(
            expected=(*(app_id for app_id in step.transactions if AppId.parse(app_id).kind is None), *condemned),
            positions=step.transactions,
            adds=step.adds(),
            user_metadata={
                **step.says,
                "commit_id": commit_id,
                "action": action,
                "app": self._lake.app,
                "owner": self._journal.owner,
                "routing": step.routing,
                "checked_through": step.view.version if step.view else -1,
                "partitions": {
                    str(row.tp): {"epoch": row.new.epoch, "new": row.new.offset}
                    for row in step.rows
                    if row.tp is not None and row.new is not None
                },
            },
            properties=step.properties,
            create=step.create,
            evolve=step.evolve,
            removes=step.files.removed,
            table_id=new_id,
        )
        version = commit_or_moved(table, change, check)
        log.info("table_repaired", table=step.name, action=action, partitions=len(step.rows),
                 files_removed=len(step.files.removed))  # fmt: skip
        self._journal.settle(step.name, {(intent.key.tp, commit_id): version for intent in intents}, [])
        point(Fault.AFTER_REPAIR)

    def _intents(self, step: TableRepair, commit_id: str, table_id: str) -> list[Intent]:
        """What the log is told of one step; a partition that begins before its first offset has nothing to tell."""
        now_ms, through = int(time.time() * 1000), step.view.version if step.view else -1
        return [
            Intent(
                IntentKey(step.name, row.tp, row.new.epoch), commit_id, self._journal.owner,
                row.old.offset if row.old is not None else -1, row.new.offset, row.new.offset, row.new.offset, 0,
                through, table_id, step.routing, now_ms,
            )
            for row in step.rows
            if row.tp is not None and row.new is not None and row.new.offset >= 0
        ]  # fmt: skip

    # --- the log --------------------------------------------------------------------------------

    def put_log_right(self, apply: bool) -> list[RepairRow]:
        """What was planned, or with `apply` done. Raises NothingToRepair, Refused if tables come first."""
        logged = self._log_check.read(partitions_of(self._identities))
        if logged is None:
            raise Refused("there is no write-ahead log, or it cannot be reached", "set `wal_table` and `wal_mode`")
        reading = Reading(self._lake, self._lake.app)
        verdicts = self._log_check.judge(logged, reading.views, unproven=reading.cleaned)
        if stopped := broken(verdicts):
            raise Refused(stopped.message, stopped.hint)
        rows = [
            RepairRow(name, tp, at, at, 0, _LOG_SAYS[one.verdict] + one.says)
            for (name, tp), found in sorted(verdicts.items())
            for one in found.of(*_LOG_SAYS)
            for at in [reading.views[name].position(self._lake.app, tp) if name in reading.views else None]
        ]
        if not rows:
            raise NothingToRepair("there is nothing to repair in the log", WHERE)
        if apply:
            self._log_check.settle(verdicts, reading.views)
        return rows

    def _delete_rows(self, table: DeltaTable, bounds: Sequence[Bound]) -> None:
        conditions = " OR ".join(
            f"(_kafka.topic = '{b.tp.topic}' AND _kafka.partition = {b.tp.partition} "
            f"AND _kafka.epoch >= {b.since} AND _kafka.offset > {b.after})"
            for b in bounds
        )
        log.info("rows_deleted", table=table.event_type, condition=conditions)
        self._session.sql(f"DELETE FROM {quoted(table)} WHERE {conditions}")


def repair(
    bench: Workbench,
    kafka_options: Mapping[str, str],
    action: str,
    former: str,
    first_position: str | int,
    apply: bool,
    journal: Journal | None = None,
    skipped: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({}),
) -> list[RepairRow]:
    """action: rewind, rebase, adopt (the tables of app `former`), skip (`skipped`), or log.

    first_position: where a new topic begins.

    kafka_options: of Spark's source, for an audit. journal: of the write-ahead log.

    Raises NothingToRepair, Refused if the tables do not decide it, Fenced if they do not come to rest.
    """
    topics = bench.topics

    def starts(tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        if first_position == "earliest":
            return topics.first_offsets(tps)
        return topics.end_offsets(tps) if first_position == "latest" else topics.offsets_at(tps, int(first_position))

    def compared() -> AuditReport:
        return audit(bench.session, bench.lake, topics, bench.routing, kafka_options)

    repairer = Repairer(bench.session, bench.lake, topics.identities(), starts, topics.first_offsets, compared, journal)
    skip = Skip(bench.lake, topics, bench.routing.isolation, skipped)
    plans = {"rewind": repairer.plan_rewind, "rebase": repairer.plan_rebase, "skip": skip.plan}
    try:
        if action == "log":
            return repairer.put_log_right(apply)
        return repairer.run(action, plans.get(action, lambda: repairer.plan_adopt(former)), apply)
    except WalUnreachable as error:
        says = f"write-ahead log: {error.message}"
        raise DependencyUnreachable(says, "start the repair again when it answers") from error


def _tp(one: Missing) -> TopicPartition:
    return TopicPartition(one.topic, one.partition)


_LOG_SAYS = {
    Ruling.FINISH: "is completed in the log: ",
    Ruling.DEAD: "is marked as failed in the log: ",
    Ruling.REPAIR: "is written to the log again: ",
}


def _identity_properties(identities: Mapping[str, TopicIdentity]) -> dict[str, str]:
    cluster = dict.fromkeys([CLUSTER_PROPERTY], next(iter(identities.values())).cluster_id) if identities else {}
    return {**cluster, **{f"{TOPIC_PROPERTY}{topic}": identity.topic_id for topic, identity in identities.items()}}


def _fitting_schema(table: DeltaTable, view: TableView, declared: str | None, history: History | None) -> str:
    """The table's schema with what it lacks. Raises Refused if it is another one altogether."""
    version = history.accidents[-1].version - 1 if history is not None and history.accidents else None
    restore = f"RESTORE TABLE {quoted(table)} TO VERSION AS OF {version}" if version is not None else "put it back"
    columns = {one["name"] for one in json.loads(view.schema_json)["fields"]}
    if view.partition_columns != ("day",) or "_kafka" not in columns:
        raise undecided(
            table.event_type, "was replaced by one with other columns", f"{restore}; then start the repair again"
        )
    try:
        return evolved_schema(view.schema_json, declared) if declared is not None else view.schema_json
    except ConfigError as error:
        raise undecided(
            table.event_type, f"does not fit: {error.message}", f"{restore}; then start the repair again"
        ) from error


def _rows(
    name: str,
    table_moves: Mapping[TopicPartition, Move],
    files: Sequence[FileRows],
    chosen: Cut,
    history: History | None,
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
            says = "a condemned record is looked at again"
        if move.cuts and paths[tp] & mixed:
            says += f"; rows beyond {move.new.offset} are deleted first"
        yield RepairRow(name, tp, move.old, move.new, count, says)
    if not table_moves:
        accident = history.accidents[-1].operation if history is not None and history.accidents else ""
        says = f"{accident or 'what happened to it'} is accepted: nothing is missing"
        yield RepairRow(name, None, None, None, 0, says)


def _tagged(add: Mapping[str, Any]) -> FileRows | None:
    """What the tags of one of our files say."""
    tags = add.get("tags") or {}
    if not {"topic", "partition", "epoch", "first_offset", "last_offset"} <= tags.keys():
        return None
    tp = TopicPartition(tags["topic"], int(tags["partition"]))
    return FileRows(add["path"], tp, int(tags["epoch"]), int(tags["first_offset"]), int(tags["last_offset"]))


def _ends_by(add: Mapping[str, Any], offset: int) -> bool:
    """True if the statistics say that no row lies beyond `offset`, whatever its partition."""
    last = json.loads(add.get("stats") or "{}").get("maxValues", {}).get("_kafka", {}).get("offset")
    return isinstance(last, int) and last <= offset
