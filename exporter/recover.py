"""From nothing but the tables to writers that may run (protocol, section 5).

    read every table, the dead letters last ── one verdict per partition
      FirstStart ─ anchor the dead letters, then read again
      Switch ───── drain under the configuration in force, seal with the dead letters last, read again
      Agree ────── anchor what lacks a position and read again; else the writers

Every reading is fresh and nothing is kept from an earlier one. Runs at each assignment and after
each refused commit.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.commit import Committer, check_operation, check_properties
from exporter.errors import Fenced, InvariantBroken
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.outcome import Landed
from exporter.plan import Budget, plan_round
from exporter.read import RoundResult
from exporter.routing import DEAD_LETTERS, DECODER_VERSION, Routing
from exporter.stage import StagingOrder
from exporter.tables import Change, DeltaTable, Lake, evolved_schema, first_line, table_schema
from exporter.topic import TopicIdentity, TopicReader
from exporter.writers import Writer, WriterKey, freeze, integrate
from offsets import Invariant
from offsets.crosscheck import (
    Agree,
    FirstStart,
    PartitionState,
    Stop,
    Superseded,
    Switch,
    Unfinished,
    Verdict,
    verdict,
)
from offsets.names import AppId, table_folder
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import TopicPartition
from offsets.table_log import (
    APP_PROPERTY,
    CLUSTER_PROPERTY,
    CONFIG_PROPERTY,
    ROUTING_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    LoggedCommit,
    TableView,
    last_named_offsets,
    own_metadata,
)

log = get_logger(__name__)

ATTEMPTS_MAX = 20
"""Full readings before giving up: each one may meet another task that is anchoring or switching too."""
TRUNCATION_READINGS = 3
TRUNCATION_SECS = 10.0


class _Moved(Exception):
    """Another task was faster; read everything again."""


@dataclass(frozen=True)
class Reading:
    """One fresh reading: the views, the dead letters' last, and what each table says per partition."""

    views: Mapping[str, TableView]
    states: Mapping[TopicPartition, Mapping[str, PartitionState]]

    @property
    def letters(self) -> TableView | None:
        return self.views.get(DEAD_LETTERS)


class Recovery:
    """Start-up of partitions for one task. Effects: anchors, drains, seals; never a data file deleted."""

    def __init__(
        self,
        lake: Lake,
        topic: TopicReader,
        routing: Routing,
        committer: Committer,
        read_round: Callable[[StagingOrder], RoundResult],
        first_position: str | int = "earliest",
        footer: Mapping[str, str] | None = None,
        round_records_max: int = 200_000,
    ) -> None:
        """first_position: earliest, latest, or milliseconds since 1970 UTC."""
        self._lake = lake
        self._topic = topic
        self._routing = routing
        self._own = routing.fingerprint()
        self._committer = committer
        self._read_round = read_round
        self._first_position = first_position
        self._footer = dict(footer or {})
        self._round_records_max = round_records_max
        self.table_fingerprints: dict[str, str] = {}

    def recover(self, ownership: Mapping[TopicPartition, int]) -> dict[WriterKey, Writer]:
        """The writers of the given partitions (each with its ownership epoch), at the positions of the tables.

        Raises InvariantBroken to stop, Fenced if another task is at work, ConfigError, TableUnreadable.
        """
        identity = self._topic.identity()
        for _ in range(ATTEMPTS_MAX):
            reading = self.read(ownership)
            verdicts = self._confirmed(reading, ownership)
            try:
                if self._advance(reading, verdicts, identity):
                    continue
            except _Moved as moved:
                log.info("reading_restarted", reason=str(moved))
                continue
            self._check_log(verdicts)
            return self._writers(reading, verdicts, ownership)
        raise Fenced("the tables did not come to rest", "other tasks keep switching or anchoring; start again")

    def read(self, tps: Sequence[TopicPartition] | Mapping[TopicPartition, int]) -> Reading:
        """Every table that is ours, one at a time, the dead letters last (protocol 5.3)."""
        names = self._event_types()
        views: dict[str, TableView] = {}
        named: dict[str, dict[tuple[TopicPartition, int], int]] = {}
        for name in [*(n for n in names if n != DEAD_LETTERS), DEAD_LETTERS]:
            table = self._lake.table(name)
            view = table.view()
            if view is None or not self._is_ours(name, view):
                continue
            views[name] = view
            named[name] = self._named_since(table, view)
        states = {tp: {name: self._state(tp, views[name], named[name]) for name in views} for tp in tps}
        return Reading(views, states)

    def verdicts(self, reading: Reading) -> dict[TopicPartition, Verdict]:
        """One verdict per partition, from one reading."""
        return {tp: self._verdict(tp, reading) for tp in reading.states}

    def _event_types(self) -> tuple[str, ...]:
        """Active types and tables on disk, listed until two listings agree."""
        listed = self._lake.event_types()
        while (again := self._lake.event_types()) != listed:
            listed = again
        return tuple(sorted({*listed, *self._routing.active_types}))

    def _is_ours(self, name: str, view: TableView) -> bool:
        """Raises InvariantBroken if an active type's table belongs to another app (protocol 5.6)."""
        if name in self._routing.active_types:
            check_properties(name, view, self._lake.app)
            return True
        return view.properties.get(APP_PROPERTY) == self._lake.app

    def _named_since(self, table: DeltaTable, view: TableView) -> dict[tuple[TopicPartition, int], int]:
        """Greatest offsets named by files that were committed after our last own commit.

        Raises InvariantBroken if an operation since then took the table back (MONOTONE), LogCleaned.
        """
        since: list[LoggedCommit] = []
        through = -1
        for version in range(view.version, -1, -1):
            logged = table.logged(version)
            metadata = own_metadata(logged.user_metadata)
            if metadata.get("app") == self._lake.app:
                through = int(metadata.get("checked_through", version - 1))
                break
            since.append(logged)
        since += table.commits(through, version - 1) if through < version - 1 else []
        for logged in since:
            check_operation(table.event_type, logged.version, logged.operation, logged.rewinds)
        return last_named_offsets((path for logged in since for path in logged.added), self._lake.app)

    def _state(
        self, tp: TopicPartition, view: TableView, named: Mapping[tuple[TopicPartition, int], int]
    ) -> PartitionState:
        position = view.position(self._lake.app, tp)
        offsets = [
            last
            for (named_tp, epoch), last in named.items()
            if named_tp == tp and (position is None or position.epoch == epoch)
        ]
        return PartitionState(position, max(offsets, default=-1))

    def _verdict(self, tp: TopicPartition, reading: Reading) -> Verdict:
        letters = reading.letters
        history = letters.routing_history(tp) if letters else {}
        position = letters.position(self._lake.app, tp) if letters else None
        in_force = history.get(position.epoch) if position else None
        in_force_active: tuple[str, ...] = ()
        if letters and in_force and in_force not in (self._own,) and self._own not in history.values():
            in_force_active = self._recorded(letters, in_force).active_types
        return verdict(
            reading.states[tp], DEAD_LETTERS, history, self._own, self._routing.active_types, in_force_active
        )

    def _recorded(self, letters: TableView, fingerprint: str) -> Routing:
        """The configuration that the dead letters record. Raises InvariantBroken if this version cannot run it."""
        text = letters.properties.get(f"{CONFIG_PROPERTY}{fingerprint}")
        hint = "let the version that wrote it run once more and stop it with SIGTERM, then start this one"
        if text is None:
            raise InvariantBroken(Invariant.ROUTE, f"routing configuration {fingerprint} is not recorded", hint)
        try:
            recorded = Routing.from_json(text)
        except (ValueError, TypeError, KeyError) as error:
            raise InvariantBroken(
                Invariant.ROUTE, f"routing configuration {fingerprint} cannot be read by this version: {error}", hint
            ) from error
        return recorded

    def _confirmed(self, reading: Reading, tps: Mapping[TopicPartition, int]) -> dict[TopicPartition, Verdict]:
        """The verdicts; a Stop is confirmed by a second reading, and every refusal to run is raised here."""
        verdicts = self.verdicts(reading)
        if any(isinstance(found, Stop) for found in verdicts.values()):
            verdicts = self.verdicts(self.read(tps))
        for tp, found in verdicts.items():
            if isinstance(found, Stop):
                raise InvariantBroken(found.invariant, f"{tp}: {found.reason}", found.hint)
            if isinstance(found, Superseded):
                raise InvariantBroken(
                    Invariant.ROUTE,
                    f"{tp}: configuration {self._own} has been replaced by {found.in_force}",
                    "start with the newer configuration, or raise `generation` to return to this one",
                )
            if isinstance(found, Unfinished):
                raise Fenced(
                    f"{tp}: another task is switching table {found.event_type} to a new configuration",
                    "start the task with the new configuration and let it finish",
                )
        return verdicts

    def _advance(
        self, reading: Reading, verdicts: Mapping[TopicPartition, Verdict], identity: TopicIdentity
    ) -> bool:
        """Do the next thing that has to be done before the partitions may run; False if there is nothing."""
        self._check_identity(reading, identity)
        self._check_listed(reading)
        new = [tp for tp, found in verdicts.items() if isinstance(found, FirstStart)]
        if new:
            self._anchor_dead_letters(reading, new, identity)
            return True
        switches = {tp: found for tp, found in verdicts.items() if isinstance(found, Switch)}
        if switches:
            self._switch(reading, switches, identity)
            return True
        missing: dict[str, dict[TopicPartition, Agree]] = defaultdict(dict)
        for tp, found in verdicts.items():
            if isinstance(found, Agree):
                for name in found.unanchored:
                    missing[name][tp] = found
        for name, partitions in sorted(missing.items()):
            self._anchor_type(reading, name, partitions, identity)
        return bool(missing) or self._register(reading)

    def _check_identity(self, reading: Reading, identity: TopicIdentity) -> None:
        letters = reading.letters
        if letters is None:
            return
        for prop, now, what in (
            (CLUSTER_PROPERTY, identity.cluster_id, "cluster"),
            (f"{TOPIC_PROPERTY}{self._topic.topic}", identity.topic_id, "topic"),
        ):
            recorded = letters.properties.get(prop)
            if recorded is not None and recorded != now:
                raise InvariantBroken(
                    Invariant.MONOTONE,
                    f"the {what} id of {self._topic.topic} was {recorded} and is {now}: "
                    "offsets of the two have nothing in common",
                    f"the {what} was recreated; export it under a new `app` and `table_root`",
                )

    def _check_listed(self, reading: Reading) -> None:
        """A table that the dead letters list must still be there, with its id (protocol 5.2)."""
        letters = reading.letters
        for prop, table_id in (letters.properties if letters else {}).items():
            if not prop.startswith(TABLE_PROPERTY):
                continue
            folder = prop.removeprefix(TABLE_PROPERTY)
            view = next((view for name, view in reading.views.items() if table_folder(name) == folder), None)
            if view is None or view.table_id != table_id:
                raise InvariantBroken(
                    Invariant.MONOTONE,
                    f"table {folder} {'is gone' if view is None else 'was replaced'} since it was written",
                    "put the table back, or move the whole lake away to start anew",
                )

    def _anchor_dead_letters(
        self, reading: Reading, new: Sequence[TopicPartition], identity: TopicIdentity
    ) -> None:
        """All partitions of the topic at once where the topic is new, else the new partitions at their earliest."""
        letters = reading.letters
        topic_known = letters is not None and f"{TOPIC_PROPERTY}{self._topic.topic}" in letters.properties
        tps = list(new) if topic_known else [TopicPartition(self._topic.topic, p) for p in identity.partitions]
        starts = self._topic.first_offsets(tps) if topic_known else self._first_offsets(tps)
        anchors = {tp: Position(0, starts[tp] - 1) for tp in tps}
        properties = {
            CLUSTER_PROPERTY: identity.cluster_id,
            f"{TOPIC_PROPERTY}{self._topic.topic}": identity.topic_id,
            f"{CONFIG_PROPERTY}{self._own}": self._routing.to_json(),
            **{f"{ROUTING_PROPERTY}{tp}": json.dumps({0: self._own}) for tp in tps},
        }
        self._commit_anchors(DEAD_LETTERS, letters, anchors, properties)

    def _first_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self._first_position == "earliest":
            return self._topic.first_offsets(tps)
        if self._first_position == "latest":
            return self._topic.end_offsets(tps)
        return self._topic.offsets_at(tps, int(self._first_position))

    def _anchor_type(
        self, reading: Reading, name: str, partitions: Mapping[TopicPartition, Agree], identity: TopicIdentity
    ) -> None:
        """Protocol 5.2: at the dead letters' position, by compare-and-set; creating and anchoring is one commit."""
        anchors = {tp: Position(found.epoch, found.anchor_at) for tp, found in partitions.items()}
        properties = {
            CLUSTER_PROPERTY: identity.cluster_id,
            f"{TOPIC_PROPERTY}{self._topic.topic}": identity.topic_id,
        }
        view = reading.views.get(name)
        self._commit_anchors(name, view, anchors, properties if view is None else {})

    def _commit_anchors(
        self,
        name: str,
        view: TableView | None,
        anchors: Mapping[TopicPartition, Position],
        properties: Mapping[str, str],
    ) -> None:
        """An anchor is never laid over an existing one (protocol 4.7)."""
        app = self._lake.app

        def check(now: TableView | None) -> None:
            if (now is None) != (view is None):
                raise _Moved(f"table {name} was created or removed meanwhile")
            if now is not None and any(now.position(app, tp) is not None for tp in anchors):
                raise _Moved(f"table {name} was anchored meanwhile")

        versions: dict[str, int] = {}
        for tp, anchor in anchors.items():
            versions[str(AppId(app, tp, anchor.epoch))] = anchor.offset
            versions[str(AppId(app, tp, anchor.epoch, "anchor"))] = anchor.offset
        self._write(
            name,
            Change(
                expected=tuple(str(AppId(app, tp, anchor.epoch)) for tp, anchor in anchors.items()),
                positions=versions,
                user_metadata=self._metadata("anchor", view, anchors),
                properties=properties,
                create=self._declared_schema(name) if view is None else None,
            ),
            check,
        )
        log.info("positions_anchored", table=name, partitions=len(anchors), created=view is None)
        point(Fault.AFTER_ANCHOR)

    def _declared_schema(self, name: str) -> str | None:
        """Spark schema JSON of a table as our configuration wants it; None for a type that it does not declare."""
        if name == DEAD_LETTERS:
            return table_schema(None)
        declared = self._routing.schemas.get(name)
        return None if declared is None else table_schema(declared)

    def _write(self, name: str, change: Change, check: Callable[[TableView | None], None]) -> None:
        """One commit of start-up; any exception means: read everything again and see."""
        try:
            self._lake.table(name).commit(change, check)
        except (_Moved, InvariantBroken):
            raise
        except Exception as error:
            time.sleep(0.05)
            raise _Moved(f"table {name}: {first_line(error)}") from error

    def _metadata(
        self, action: str, view: TableView | None, positions: Mapping[TopicPartition, Position]
    ) -> dict[str, Any]:
        return {
            "commit_id": uuid.uuid4().hex,
            "action": action,
            "app": self._lake.app,
            "routing": self._own,
            "checked_through": view.version if view is not None else -1,
            "partitions": {str(tp): {"epoch": p.epoch, "new": p.offset} for tp, p in positions.items()},
        }

    def _register(self, reading: Reading) -> bool:
        """Let the dead letters list the id of every table; False if they do already."""
        letters = reading.letters
        if letters is None:
            return False
        ids = {f"{TABLE_PROPERTY}{table_folder(name)}": view.table_id for name, view in reading.views.items()}
        new = {prop: table_id for prop, table_id in ids.items() if prop not in letters.properties}
        if not new:
            return False

        def check(now: TableView | None) -> None:
            if now is None or now.table_id != letters.table_id:
                raise _Moved(f"table {DEAD_LETTERS} was replaced meanwhile")

        metadata = self._metadata("register", letters, {})
        self._write(DEAD_LETTERS, Change((), {}, metadata, properties=new), check)
        return True

    def _switch(
        self, reading: Reading, switches: Mapping[TopicPartition, Switch], identity: TopicIdentity
    ) -> None:
        """Protocol 5.3c: drain, seal, the dead letters strictly last. _Moved on the way: start with a full reading."""
        letters = reading.letters
        by_config: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp, switch in switches.items():
            by_config[switch.in_force].append(tp)
        for fingerprint, tps in by_config.items():
            if letters is not None:
                self._drain(reading, {tp: switches[tp] for tp in tps}, self._recorded(letters, fingerprint))
        names = sorted({name for switch in switches.values() for name in switch.positions} - {DEAD_LETTERS})
        for name in names:
            self._seal(reading, name, switches, {}, identity)
        history = {
            f"{ROUTING_PROPERTY}{tp}": json.dumps(
                {**(letters.routing_history(tp) if letters else {}), switch.next_epoch: self._own}
            )
            for tp, switch in switches.items()
        }
        history[f"{CONFIG_PROPERTY}{self._own}"] = self._routing.to_json()
        self._seal(reading, DEAD_LETTERS, switches, history, identity)
        log.info("configuration_switched", partitions=len(switches), routing=self._own)

    def _drain(self, reading: Reading, switches: Mapping[TopicPartition, Switch], old: Routing) -> None:
        """Bring every position of the old configuration to `through`, in whatever epoch each table is."""
        writers = {
            WriterKey(name, tp): Writer(WriterKey(name, tp), position.epoch, 0, position.offset, position.offset)
            for tp, switch in switches.items()
            for name in old.active_types
            if (position := switch.positions.get(name)) is not None
        }
        through = {tp: switch.through for tp, switch in switches.items()}
        if all(writer.covered == through[key.tp] for key, writer in writers.items()):
            return
        if old.decoder_version != DECODER_VERSION:
            raise InvariantBroken(
                Invariant.ROUTE,
                f"decoder version {old.decoder_version} has to drain first; this is version {DECODER_VERSION}",
                "let the version that wrote it run once more and stop it with SIGTERM, then start this one",
            )
        log.info("drain_started", partitions=len(switches), in_force=old.fingerprint())
        for name, view in reading.views.items():
            self._committer.trust(name, view)
        for epoch in sorted({writer.epoch for writer in writers.values()}):
            self._drain_epoch(reading, {k: w for k, w in writers.items() if w.epoch == epoch}, through, old)

    def _drain_epoch(
        self, reading: Reading, writers: dict[WriterKey, Writer], through: Mapping[TopicPartition, int], old: Routing
    ) -> None:
        """Read, stage and commit until every writer of one epoch is at `through`."""
        ends = {tp: offset + 1 for tp, offset in through.items()}
        budget = Budget(self._round_records_max)
        footer = {**self._footer, "routing": old.fingerprint()}
        fingerprints = {name: view.fingerprint for name, view in reading.views.items()}
        while plans := plan_round(writers, ends, budget, time.monotonic()):
            order = StagingOrder(
                str(self._lake.root), self._lake.app, old, {plan.tp: plan for plan in plans}, fingerprints, footer
            )
            for fragment in self._read_round(order).fragments:
                writers = integrate(writers, fragment, time.monotonic()).writers
            by_type: dict[str, list[Writer]] = defaultdict(list)
            for key, writer in writers.items():
                if writer.frontier > writer.covered:
                    base = self._committer.checked_through(key.event_type)
                    by_type[key.event_type].append(freeze(writer, base))
            for name, frozen in by_type.items():
                report = self._committer.commit(name, [writer.claim for writer in frozen if writer.claim])
                if not all(isinstance(settled.outcome, Landed) for settled in report.settled):
                    raise _Moved(f"a drain of table {name} was refused: {report.error}")
                for writer in frozen:
                    covered = Writer(writer.key, writer.epoch, 0, writer.frontier, writer.frontier)
                    writers = {**writers, writer.key: covered}

    def _seal(
        self,
        reading: Reading,
        name: str,
        switches: Mapping[TopicPartition, Switch],
        properties: Mapping[str, str],
        identity: TopicIdentity,
    ) -> None:
        """Close the live epoch of a table with a tombstone and begin the next one, all partitions in one commit."""
        app = self._lake.app
        view = reading.views.get(name)
        if view is None and name not in self._routing.active_types:
            return
        olds: dict[TopicPartition, Position | None] = {}
        versions: dict[str, int] = {}
        expected: list[str] = []
        news: dict[TopicPartition, Position] = {}
        for tp, switch in switches.items():
            if name not in switch.positions:
                continue
            was = switch.positions[name]
            if was is not None and was.epoch == switch.next_epoch:
                continue
            drained = was
            if was is not None and name in switch.in_force_active:
                drained = Position(was.epoch, switch.through)
            olds[tp] = drained
            news[tp] = Position(switch.next_epoch, max(switch.through, drained.offset if drained else switch.through))
            versions |= _seal_versions(app, tp, drained, news[tp])
            expected += [str(AppId(app, tp, p.epoch)) for p in (drained, news[tp]) if p is not None]
        if not news:
            return
        self._seal_commit(name, view, olds, news, versions, expected, properties, identity)

    def _seal_commit(
        self,
        name: str,
        view: TableView | None,
        olds: Mapping[TopicPartition, Position | None],
        news: Mapping[TopicPartition, Position],
        versions: Mapping[str, int],
        expected: Sequence[str],
        properties: Mapping[str, str],
        identity: TopicIdentity,
    ) -> None:
        def check(now: TableView | None) -> None:
            if (now is None) != (view is None):
                raise _Moved(f"table {name} was created or removed meanwhile")
            for tp, old in olds.items():
                if now is not None and now.position(self._lake.app, tp) != old:
                    raise _Moved(f"table {name}, {tp}: {now.position(self._lake.app, tp)} instead of {old}")

        create = {
            CLUSTER_PROPERTY: identity.cluster_id,
            f"{TOPIC_PROPERTY}{self._topic.topic}": identity.topic_id,
        }
        declared = self._declared_schema(name)
        evolved = evolved_schema(view.schema_json, declared) if view is not None and declared else None
        self._write(
            name,
            Change(
                expected=tuple(expected),
                positions=versions,
                user_metadata=self._metadata("seal", view, news),
                properties={**properties, **(create if view is None else {})},
                create=declared if view is None else None,
                evolve=evolved if view is not None and evolved != view.schema_json else None,
            ),
            check,
        )
        point(Fault.AFTER_SEAL)

    def _check_log(self, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        """Retention gap and truncation at start (protocol 5.4)."""
        agreed = {tp: found.positions.values() for tp, found in verdicts.items() if isinstance(found, Agree)}
        check_log(self._topic, {tp: (min(offsets), max(offsets)) for tp, offsets in agreed.items()})

    def _writers(
        self, reading: Reading, verdicts: Mapping[TopicPartition, Verdict], ownership: Mapping[TopicPartition, int]
    ) -> dict[WriterKey, Writer]:
        now = time.monotonic()
        for name, view in reading.views.items():
            self._committer.trust(name, view)
            self.accept(name, view)
        return {
            WriterKey(name, tp): Writer(WriterKey(name, tp), found.epoch, ownership[tp], offset, offset, now)
            for tp, found in verdicts.items()
            if isinstance(found, Agree)
            for name, offset in found.positions.items()
        }


    def accept(self, name: str, view: TableView) -> None:
        """Stage against this view from now on. Raises InvariantBroken if the table cannot hold what is declared."""
        declared = self._declared_schema(name)
        if declared is not None and evolved_schema(view.schema_json, declared) != view.schema_json:
            raise InvariantBroken(
                Invariant.ONCE,
                f"table {name} lacks columns that the settings declare: their values would be lost",
                "add them to the table (ALTER TABLE ... ADD COLUMNS), or raise `generation` to let the exporter do it",
            )
        self.table_fingerprints[name] = view.fingerprint


def _seal_versions(app: str, tp: TopicPartition, old: Position | None, new: Position) -> dict[str, int]:
    """The transactions of one partition's seal: tombstone, what it closed at, the next epoch and its anchor."""
    versions = {str(AppId(app, tp, new.epoch)): new.offset, str(AppId(app, tp, new.epoch, "anchor")): new.offset}
    if old is not None:
        versions[str(AppId(app, tp, old.epoch))] = TOMBSTONE
        versions[str(AppId(app, tp, old.epoch, "sealed"))] = old.offset
    return versions


def check_log(
    topic: TopicReader,
    positions: Mapping[TopicPartition, tuple[int, int]],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """positions: partition -> (least, greatest) position. Raises InvariantBroken on a gap or a truncated log."""
    firsts = topic.first_offsets(positions.keys())
    for tp, (least, _) in positions.items():
        if firsts[tp] > least + 1:
            raise InvariantBroken(
                Invariant.COVER,
                f"{tp}: offsets {least + 1}..{firsts[tp] - 1} were deleted by retention before they were exported",
                "they are lost; `on_gap = \"stop\"` is the only policy so far: export on under a new `app`",
            )
    behind: dict[TopicPartition, tuple[int, int]] = {}
    for reading in range(TRUNCATION_READINGS):
        ends = topic.high_watermarks(positions.keys())
        behind = {tp: (ends[tp], most) for tp, (_, most) in positions.items() if ends[tp] <= most}
        if not behind:
            return
        if reading + 1 < TRUNCATION_READINGS:
            wait(TRUNCATION_SECS)
    tp, (end, most) = next(iter(sorted(behind.items())))
    raise InvariantBroken(
        Invariant.MONOTONE,
        f"{tp}: the log ends at {end}, the tables are at {most}: the log was truncated or replaced",
        "restore the topic, or export the new one under a new `app` and `table_root`",
    )
