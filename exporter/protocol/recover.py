"""From nothing but the tables to writers that may run (protocol, section 5).

    read the write-ahead log, then every table, the dead letters last ── one verdict per partition
      FirstStart ─ anchor the dead letters, then read again
      Switch ───── drain under the configuration in force, seal with the dead letters last, read again
      Agree ────── anchor what lacks a position and read again; else the writers

Every reading is fresh and nothing is kept from an earlier one. Runs at each assignment and after
each refused commit.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from exporter.core.outcome import Committer
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import Writer, WriterKey, park
from exporter.errors import ExporterError, Fenced, InvariantBroken, LogCleaned
from exporter.faults import Fault, point
from exporter.kafka.topics import (
    EARLIEST,
    FirstPosition,
    TopicIdentity,
    TopicReader,
    check_identity,
    identity_properties,
)
from exporter.lake.accidents import History, gone
from exporter.lake.fillable import unfillable
from exporter.lake.lake import Lake
from exporter.lake.properties import check_properties
from exporter.lake.schema import holds_just, refuses, untimed, with_event_time
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.protocol.anchor import ATTEMPTS_MAX, Anchors, Failed, Moved, Patience, Switched, declared_schema
from exporter.protocol.drain import DrainRounds
from exporter.protocol.gap_rows import GapRows, refuse
from exporter.protocol.reading import Reading, unread_tables
from exporter.protocol.rehearsal import rehearse
from exporter.protocol.switch import Switcher
from exporter.protocol.truncation import check_truncation
from exporter.wal.check import LogCheck, broken
from exporter.wal.journal import Journal
from offsets import Invariant
from offsets.crosscheck import Agree, FirstStart, PartitionState, Stop, Superseded, Switch, Unfinished, Verdict, verdict
from offsets.gaps import find_gaps, recorded_gaps
from offsets.names import AppId, event_type_of, table_folder
from offsets.positions import Position, condemned_offsets
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import APP_PROPERTY, CONFIG_PROPERTY, Named, TableView, last_named_offsets, own_metadata
from offsets.wal_verdict import LogVerdict

log = get_logger(__name__)

TABLE_THREADS = 4
"""Tables that are read or anchored at a time; 300 types would take a minute one by one."""


class Recovery:
    """Start-up of partitions for one task. Effects: anchors, drains, seals; never a data file deleted."""

    def __init__(
        self,
        lake: Lake,
        topics: TopicReader,
        routing: Routing,
        committer: Committer,
        drain: DrainRounds | None = None,
        first_position: FirstPosition = EARLIEST,
        on_gap: str = "stop",
        journal: Journal | None = None,
    ) -> None:
        """drain: reads what a switch has to drain; None for who only looks.

        first_position: where a topic begins that is new to the tables. on_gap: stop or record.
        """
        self.log_check = LogCheck(lake, journal or Journal())
        self._lake = lake
        self._topics = topics
        self._routing = routing
        self._own = routing.fingerprint()
        self._committer = committer
        self._anchors = Anchors(lake, topics, routing, first_position)
        self._drain = drain
        self._switcher = Switcher(self._anchors, committer, drain, self.check_topics)
        self._identity: dict[str, str] = {}
        self._gap_rows = GapRows(self._anchors)
        self._records_gaps = on_gap == "record"
        self._epochs: dict[TopicPartition, int] = {}
        self.table_fingerprints: dict[str, str] = {}
        self.plain: frozenset[str] = frozenset()
        self.untimed: frozenset[str] = frozenset()
        self._unchanged: set[str] = set()
        self.condemned: dict[TopicPartition, frozenset[int]] = {}
        self.said: dict[TopicPartition, str] = {}
        """The verdict of the last reading, per partition, for those who watch."""

    def recover(
        self, ownership: Mapping[TopicPartition, int], go_on: Callable[[], None] = lambda: None
    ) -> dict[WriterKey, Writer]:
        """The writers of the given partitions (each with its ownership epoch), at the positions of the tables.

        A task that worked in an epoch which a repair has closed since ends: it may hold what is no longer true.
        go_on: called every moment of a drain; what it raises ends it.

        Raises InvariantBroken to stop, Fenced if another task is at work, ConfigError, TableUnreadable,
        DependencyUnreachable, WalUnreachable; BrokerSilent and Interrupted to be called again later.
        """
        identities = self._topics.identities_of({tp.topic for tp in ownership})
        patience = Patience()
        for _ in range(ATTEMPTS_MAX):
            reading, verdicts = self._confirmed(ownership, identities)
            try:
                if self._advance(reading, verdicts, identities, go_on):
                    continue
            except Moved as moved:
                patience.restart(moved)
                continue
            return self._writers(reading, verdicts, ownership)
        raise Fenced("the tables did not come to rest", "other tasks keep switching or anchoring; start again")

    def close(self) -> None:
        """Nothing is drained any more."""
        if self._drain is not None:
            self._drain.close()

    def unread(self) -> dict[TopicPartition, int]:
        """Partition -> the offset before which a drain was reading."""
        return self._drain.unread() if self._drain is not None else {}

    def stuck(self) -> dict[TopicPartition, str]:
        """Partitions whose drain fails again and again, and why."""
        return self._drain.stuck() if self._drain is not None else {}

    def check_topics(self, positions: Mapping[TopicPartition, int]) -> None:
        """Whether the topics of recovered partitions are still those of the tables (protocol 5.4).

        positions: greatest offset that the tables hold. Raises InvariantBroken, BrokerSilent.
        """
        check_identity(self._identity, self._topics.identities_of({tp.topic for tp in positions}), positions)

    def read(self, tps: Sequence[TopicPartition] | Mapping[TopicPartition, int]) -> Reading:
        """The log, then every table that is ours, one at a time, the dead letters last (protocol 5.1, 5.3)."""
        logged = self.log_check.read(tps)
        point(Fault.AFTER_WAL_READ)
        named: dict[str, Named] = {}
        views: dict[str, TableView] = {}
        unproven: dict[str, LogCleaned] = {}
        missed: set[str] = set()
        while True:
            others = [name for name in self._event_types() if name != DEAD_LETTERS and name not in views]
            with ThreadPoolExecutor(TABLE_THREADS, thread_name_prefix="tables") as pool:
                found = [*zip(others, pool.map(self._read_table, others), strict=True)]
            found.append((DEAD_LETTERS, self._read_table(DEAD_LETTERS)))
            for name, one in found:
                if one is not None:
                    views[name], named[name], cleaned = one
                    unproven |= {} if cleaned is None else {name: cleaned}
            before, missed = missed, unread_tables(views)
            if missed <= before:  # else another task has made a table since the listing, and registered it
                break
        if unproven and logged is None:
            raise next(iter(unproven.values()))
        states = {tp: {name: self._state(tp, name, views[name], named[name]) for name in views} for tp in tps}
        return Reading(views, states, logged, unproven)

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
            named = self._named_since(table, view)
        except LogCleaned as cleaned:
            unproven = cleaned
        return (view, named, unproven) if self._is_ours(name, view) else None

    def log_verdicts(self, reading: Reading) -> dict[tuple[str, TopicPartition], LogVerdict]:
        """What the log says of the tables, per type and partition; empty without a log."""
        named = {(name, tp): one.named_offset for tp, states in reading.states.items() for name, one in states.items()}
        return self.log_check.judge(reading.logged, reading.views, named, reading.unproven)

    def verdicts(self, reading: Reading) -> dict[TopicPartition, Verdict]:
        """One verdict per partition, from one reading."""
        active = self._routing.active_with(reading.views)
        switching: dict[str, tuple[str, ...]] = {}
        found: dict[TopicPartition, Verdict] = {}
        for tp, states in reading.states.items():
            history, in_force = self._history(tp, reading.letters)
            if reading.letters and in_force and self._own not in history.values() and in_force not in switching:
                switching[in_force] = self._recorded(reading.letters, in_force).active_with(reading.views)
            in_force_active = switching.get(in_force, ())
            found[tp] = verdict(states, DEAD_LETTERS, history, self._own, active, in_force_active)
        return found

    def _event_types(self) -> tuple[str, ...]:
        """Active types and tables on disk, listed until two listings agree."""
        listed = self._lake.event_types()
        while (again := self._lake.event_types()) != listed:
            listed = again
        return tuple(sorted({*listed, *self._routing.active_types}))

    def _is_ours(self, name: str, view: TableView) -> bool:
        """Raises InvariantBroken if an active type's table belongs to another app (protocol 5.6).

        A table that somebody made in the place of one that the dead letters list is not ours: that one is missed.
        """
        if APP_PROPERTY not in view.properties:
            letters = self._lake.table(DEAD_LETTERS).view()
            if letters is not None and table_folder(name) in letters.listed_tables():
                return False
        if name in self._routing.active_types:
            check_properties(name, view, self._lake.app)
            return True
        return view.properties.get(APP_PROPERTY) == self._lake.app

    def _named_since(self, table: DeltaTable, view: TableView) -> Named:
        """Greatest offsets named by files that others have committed since the operations were last looked at.

        Our own commits need no such look: their positions reach what they add, or, where a condemned record's row goes
        ahead of them (protocol 3.7), remember it.

        Raises InvariantBroken if an operation since then took the table back (MONOTONE), LogCleaned. A REPLACE takes
        the properties too, but not the positions: by these the table is still known as ours.
        """
        if view.properties.get(APP_PROPERTY) != self._lake.app and not live_positions(
            view.transactions, self._lake.app
        ):
            return {}
        history = History(table, self._lake.app, view)
        if history.accidents:
            raise history.broken()
        app = self._lake.app
        others = (logged for logged in history.since if own_metadata(logged.user_metadata).get("app") != app)
        return last_named_offsets((path for logged in others for path in logged.added), app)

    def _state(self, tp: TopicPartition, name: str, view: TableView, named: Named) -> PartitionState:
        app = self._lake.app
        position = view.position(app, tp)
        anchored_at = view.transactions.get(str(AppId(app, tp, position.epoch, "anchor"))) if position else None
        unused = position is not None and position.offset == anchored_at and self._routing.is_new(name)
        epochs = named.get(tp, {})
        last = epochs.get(position.epoch, -1) if position is not None else max(epochs.values(), default=-1)
        return PartitionState(position, last, unused=unused)

    def _history(self, tp: TopicPartition, letters: TableView | None) -> tuple[Mapping[int, str], str]:
        """Epoch -> routing fingerprint, and the one in force; empty where there is none."""
        position = letters.position(self._lake.app, tp) if letters else None
        history = letters.routing_history(tp) if letters else {}
        return history, history.get(position.epoch, "") if position else ""

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

    def _confirmed(
        self, tps: Mapping[TopicPartition, int], identities: Mapping[str, TopicIdentity]
    ) -> tuple[Reading, dict[TopicPartition, Verdict]]:
        """A reading and its verdicts; a stop is confirmed by a second one, and every refusal to run is raised here.

        The log is put right where it lags behind the tables.
        """
        reading = self.read(tps)
        verdicts, logs = self.verdicts(reading), self.log_verdicts(reading)
        if any(isinstance(found, Stop) for found in verdicts.values()) or broken(logs):
            reading = self.read(tps)
            verdicts, logs = self.verdicts(reading), self.log_verdicts(reading)
        self.said |= {tp: type(found).__name__.lower() for tp, found in verdicts.items()}
        for tp, found in verdicts.items():
            if error := refusal(tp, found, self._own):
                raise error
        if stopped := broken(logs):
            self.check_lake(reading, identities)  # what the tables themselves tell is told first
            raise stopped
        self.log_check.settle(logs, reading.views)
        return reading, verdicts

    def _advance(
        self,
        reading: Reading,
        verdicts: Mapping[TopicPartition, Verdict],
        identities: Mapping[str, TopicIdentity],
        go_on: Callable[[], None],
    ) -> bool:
        """Do the next thing that has to be done before the partitions may run; False if there is nothing."""
        self.check_lake(reading, identities)
        new = [tp for tp, found in verdicts.items() if isinstance(found, FirstStart)]
        if new:
            self._anchors.anchor_dead_letters(reading.letters, new, identities)
            return True
        switches = {tp: found for tp, found in verdicts.items() if isinstance(found, Switch)}
        in_force = {tp: {n: found.positions[n] for n in found.in_force_active} for tp, found in switches.items()}
        if self._close_gaps(reading, in_force):
            return True
        if switches:
            self._switcher.switch(reading.views, switches, self._in_force(reading, switches), identities, go_on)
            return True
        missing: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
        for tp, found in verdicts.items():
            if isinstance(found, Agree):
                for name in found.unanchored:
                    missing[name][tp] = Position(found.epoch, found.anchor_at)
        with ThreadPoolExecutor(TABLE_THREADS, thread_name_prefix="anchor") as pool:
            done = [pool.submit(self._anchors.anchor_type, name, reading.views.get(name), positions, identities)
                    for name, positions in sorted(missing.items())]  # fmt: skip
        for future in done:
            future.result()
        if missing or self._anchors.register(reading.views):
            return True
        agreed = {
            tp: {name: Position(found.epoch, offset) for name, offset in found.positions.items()}
            for tp, found in verdicts.items()
            if isinstance(found, Agree)
        }
        filled = {name: reading.views[name] for positions in agreed.values() for name in positions}
        return self._add_event_times(filled) or self._close_gaps(reading, agreed)

    def _add_event_times(self, views: Mapping[str, TableView]) -> bool:
        """Tables of earlier versions get the column `_event_time`; False if no table has changed.

        It asks for no switch: where records go is the same. A table that cannot be changed is one type's trouble, told
        when it is filled: until then files have the column though the table has not, and readers go by the table.
        """
        lacking = lacking_event_time(views) - self._unchanged
        with ThreadPoolExecutor(TABLE_THREADS, thread_name_prefix="event-time") as pool:
            done = {name: pool.submit(self._anchors.add_event_time, name, views[name]) for name in sorted(lacking)}
        for name, future in done.items():
            try:
                future.result()
            except Failed as failed:
                log.warning("event_time_not_added", table=name, error=str(failed))
                self._unchanged.add(name)
        return bool(lacking)

    def _close_gaps(
        self, reading: Reading, positions: Mapping[TopicPartition, Mapping[str, Position | None]]
    ) -> bool:
        """Retention gaps and truncation (protocol 5.4, 5.5): before a drain, and after every type has its anchor.

        False if there is no gap. Raises InvariantBroken, or Moved.
        """
        present = {tp: {n: at for n, at in types.items() if at is not None} for tp, types in positions.items()}
        present = {tp: types for tp, types in present.items() if types}
        if not present or reading.letters is None:
            return False
        check_truncation(self._topics, {tp: max(at.offset for at in types.values()) for tp, types in present.items()})
        recorded = recorded_gaps(reading.letters.transactions, self._lake.app)
        gaps = find_gaps(present, self._topics.first_offsets(present.keys()), recorded)
        if not self._records_gaps:
            refuse([gap for gap in gaps if not gap.recorded])
        if gaps:
            self._gap_rows.close(reading.views, gaps)
        return bool(gaps)

    def anchor_met(self, wanted: Mapping[WriterKey, Position]) -> dict[str, TableView]:
        """Event type -> its table, in which each wanted position is present and which the dead letters list.

        wanted: (undeclared type, partition) -> the dead letters' position there as this task knows it (protocol
        4.7, 5.2). The listing is what a switch runs into: it seals every table that the dead letters list, and
        nobody writes rows into a table before it is listed. Raises Switched; Moved to be tried again;
        InvariantBroken.
        """
        identities = self._topics.identities_of({key.tp.topic for key in wanted})
        by_name: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
        for key, position in wanted.items():
            by_name[key.event_type][key.tp] = position
        with ThreadPoolExecutor(TABLE_THREADS, thread_name_prefix="anchor") as pool:
            done = {name: pool.submit(self._anchor_met, name, at, identities) for name, at in by_name.items()}
        views = {name: future.result() for name, future in done.items()}
        letters = self._lake.table(DEAD_LETTERS).view()
        if letters is None:
            raise InvariantBroken(Invariant.MONOTONE, f"table {DEAD_LETTERS} is gone", "put it back")
        epochs = {key.tp: position.epoch for key, position in wanted.items()}
        self._anchors.require_epochs(letters, epochs)
        self._anchors.register({DEAD_LETTERS: letters, **views}, epochs)
        return views

    def _anchor_met(
        self, name: str, anchors: Mapping[TopicPartition, Position], identities: Mapping[str, TopicIdentity]
    ) -> TableView:
        """A position that is there is adopted; one that is not is added, with the table if there is none."""
        table = self._lake.table(name)
        for _ in range(ATTEMPTS_MAX):
            view = table.view()
            if view is not None:
                check_properties(name, view, self._lake.app)
                self._named_since(table, view)
            absent = {}
            for tp, anchor in anchors.items():
                state = self._state(tp, name, view, {}) if view is not None else PartitionState(None)
                if state.position is None or state.left_behind(anchor.epoch):
                    absent[tp] = anchor
                elif state.position.epoch != anchor.epoch:
                    raise Switched(f"table {name}, {tp}: {state.position} is not in epoch {anchor.epoch}")
            if view is not None and not absent:
                return view
            try:
                self._anchors.anchor_type(name, view, absent, identities)
            except Failed:
                raise  # nobody else has made it: the manifest waits, and the cause is told
            except Moved as moved:
                log.info("anchor_adopted", table=name, reason=str(moved))
        raise Moved(f"table {name} could not be anchored")

    def _in_force(self, reading: Reading, switches: Mapping[TopicPartition, Switch]) -> dict[str, Routing]:
        """Routing fingerprint -> recorded configuration, for what has to be drained."""
        letters = reading.views[DEAD_LETTERS]
        return {switch.in_force: self._recorded(letters, switch.in_force) for switch in switches.values()}

    def rehearse(self, reading: Reading, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        """Raises what would stand in the way of the switches; only whether files can be written is not tried."""
        switches = {tp: found for tp, found in verdicts.items() if isinstance(found, Switch)}
        if switches:
            rehearse(self._anchors, reading.views, switches, self._in_force(reading, switches), writing=False)

    def check_lake(self, reading: Reading, identities: Mapping[str, TopicIdentity]) -> None:
        """Raises InvariantBroken for what stops every partition: another topic, a table that is gone."""
        self._check_identity(reading, identities)
        self._check_listed(reading)

    def _check_identity(self, reading: Reading, identities: Mapping[str, TopicIdentity]) -> None:
        """Raises InvariantBroken if a topic is not the one that the dead letters record; remembers what it is."""
        positions = {
            tp: max((state.position.offset for state in states.values() if state.position), default=-1)
            for tp, states in reading.states.items()
        }
        check_identity(reading.letters.properties if reading.letters else {}, identities, positions)
        self._identity |= identity_properties(identities)
        self._committer.trust_topics({topic: one.topic_id for topic, one in identities.items()})

    def _check_listed(self, reading: Reading) -> None:
        """A table that the dead letters list must still be there, with its id (protocol 5.2)."""
        letters = reading.letters
        by_folder = {table_folder(name): view for name, view in reading.views.items()}
        for folder, table_id in (letters.listed_tables() if letters else {}).items():
            view = by_folder.get(folder)
            if view is None or view.table_id != table_id:
                known = {tp: state[DEAD_LETTERS].position for tp, state in reading.states.items()}
                far = {tp: position.offset for tp, position in known.items() if position is not None}
                absent = view is None and self._lake.table(event_type_of(folder)).view() is None
                raise gone(folder, "is gone" if absent else "was replaced", far)

    def _writers(
        self, reading: Reading, verdicts: Mapping[TopicPartition, Verdict], ownership: Mapping[TopicPartition, int]
    ) -> dict[WriterKey, Writer]:
        now = time.monotonic()
        for tp, found in verdicts.items():
            if isinstance(found, Agree) and self._epochs.setdefault(tp, found.epoch) != found.epoch:
                raise Fenced(
                    f"{tp}: epoch {self._epochs[tp]}, in which this task worked, was closed by a repair; "
                    f"the tables are in epoch {found.epoch}",
                    "start again: a fresh task goes on from the new positions",
                )
        for tp in ownership:
            letters = reading.views[DEAD_LETTERS].transactions
            self.condemned[tp] = condemned_offsets(letters, self._lake.app, tp)
        reasons: dict[str, str] = {}
        for name, view in reading.views.items():
            self._committer.trust(name, view)
            reasons[name] = self.accept(name, view)
        writers = {
            WriterKey(name, tp): Writer(WriterKey(name, tp), found.epoch, ownership[tp], offset, offset, now)
            for tp, found in verdicts.items()
            if isinstance(found, Agree)
            for name, offset in found.positions.items()
        }
        return {key: park(w, why, now) if (why := reasons[key.event_type]) else w for key, w in writers.items()}

    def accept(self, name: str, view: TableView) -> str:
        """Stage against this view from now on; why the table cannot be filled (its type is to be parked), or empty."""
        declared = declared_schema(self._routing, name)
        self.table_fingerprints[name] = view.fingerprint
        self.untimed = (self.untimed - {name}) | untimed({name: view})
        if name in self.untimed:
            log.warning("event_time_not_kept", table=name)
        plain = declared is not None and holds_just(view, declared)
        self.plain = self.plain | {name} if plain else self.plain - {name}
        reason = refuses(view, declared)
        if reason:
            log.error("table_cannot_be_filled", table=name, reason=reason)
        return reason


def lacking_event_time(views: Mapping[str, TableView]) -> set[str]:
    """The tables of an earlier version that are to get the column `_event_time`."""
    lacking = {name for name, view in views.items() if with_event_time(view.schema_json) != view.schema_json}
    return {name for name in lacking - {DEAD_LETTERS} if not unfillable(views[name])}


def refusal(tp: TopicPartition, found: Verdict, own: str) -> ExporterError | None:
    """The error that a verdict ends a task with; None if it may run. own: fingerprint of our configuration."""
    if isinstance(found, Stop):
        return InvariantBroken(found.invariant, f"{tp}: {found.reason}", found.hint)
    if isinstance(found, Superseded):
        return InvariantBroken(
            Invariant.ROUTE,
            f"{tp}: configuration {own} has been replaced by {found.in_force}",
            "start with the newer configuration (while it is rolled out, tasks with this one end so), "
            "or raise `generation` to return to this one",
        )
    if isinstance(found, Unfinished):
        return Fenced(
            f"{tp}: another task is switching table {found.event_type} to a new configuration",
            "start the task with the new configuration and let it finish",
        )
    return None
