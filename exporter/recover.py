"""From nothing but the tables to writers that may run (protocol, section 5).

    read every table, the dead letters last ── one verdict per partition
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
from dataclasses import dataclass

from exporter.accidents import History, gone
from exporter.anchor import Anchors, Moved
from exporter.commit import Committer, check_properties
from exporter.errors import Fenced, InvariantBroken
from exporter.log import get_logger
from exporter.read import RoundResult
from exporter.routing import DEAD_LETTERS, Routing
from exporter.stage import StagingOrder
from exporter.switch import Switcher
from exporter.tables import DeltaTable, Lake, evolved_schema
from exporter.topic import TopicIdentity, TopicReader
from exporter.writers import Writer, WriterKey
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
from offsets.names import table_folder
from offsets.positions import Position, condemned_offsets
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import (
    APP_PROPERTY,
    CLUSTER_PROPERTY,
    CONFIG_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
    last_named_offsets,
)

log = get_logger(__name__)

ATTEMPTS_MAX = 20
"""Full readings before giving up: each one may meet another task that is anchoring or switching too."""
TRUNCATION_READINGS = 3
TRUNCATION_SECS = 10.0


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
        self._anchors = Anchors(lake, topic, routing, first_position)
        self._switcher = Switcher(self._anchors, committer, read_round, footer or {}, round_records_max)
        self._epochs: dict[TopicPartition, int] = {}
        self.table_fingerprints: dict[str, str] = {}
        self.condemned: dict[TopicPartition, frozenset[int]] = {}

    def recover(self, ownership: Mapping[TopicPartition, int]) -> dict[WriterKey, Writer]:
        """The writers of the given partitions (each with its ownership epoch), at the positions of the tables.

        A task that worked in an epoch which a repair has closed since ends: it may hold what is no longer true.

        Raises InvariantBroken to stop, Fenced if another task is at work, ConfigError, TableUnreadable.
        """
        identity = self._topic.identity()
        for _ in range(ATTEMPTS_MAX):
            reading = self.read(ownership)
            verdicts = self._confirmed(reading, ownership)
            try:
                if self._advance(reading, verdicts, identity):
                    continue
            except Moved as moved:
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
            if view is None:
                continue
            since = self._named_since(table, view)
            if self._is_ours(name, view):
                views[name], named[name] = view, since
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
        return last_named_offsets((path for logged in history.since for path in logged.added), self._lake.app)

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
            self._anchors.anchor_dead_letters(reading.letters, new, identity)
            return True
        switches = {tp: found for tp, found in verdicts.items() if isinstance(found, Switch)}
        if switches:
            self._switcher.switch(reading.views, switches, self._in_force(reading, switches), identity)
            return True
        missing: dict[str, dict[TopicPartition, Position]] = defaultdict(dict)
        for tp, found in verdicts.items():
            if isinstance(found, Agree):
                for name in found.unanchored:
                    missing[name][tp] = Position(found.epoch, found.anchor_at)
        for name, positions in sorted(missing.items()):
            self._anchors.anchor_type(name, reading.views.get(name), positions, identity)
        return bool(missing) or self._anchors.register(reading.views)

    def _in_force(self, reading: Reading, switches: Mapping[TopicPartition, Switch]) -> dict[str, Routing]:
        """Routing fingerprint -> recorded configuration, for what has to be drained."""
        letters = reading.views[DEAD_LETTERS]
        return {switch.in_force: self._recorded(letters, switch.in_force) for switch in switches.values()}

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
                    "`exporter repair --rebase` shows what it would do, `--apply` does it: the new one is exported "
                    "from its beginning, what the tables hold stays",
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
                known = {tp: state[DEAD_LETTERS].position for tp, state in reading.states.items()}
                far = {tp: position.offset for tp, position in known.items() if position is not None}
                raise gone(folder, "is gone" if view is None else "was replaced", far)

    def _check_log(self, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        """Retention gap and truncation at start (protocol 5.4)."""
        agreed = {tp: found.positions.values() for tp, found in verdicts.items() if isinstance(found, Agree)}
        check_log(self._topic, {tp: (min(offsets), max(offsets)) for tp, offsets in agreed.items()})

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
        declared = self._anchors.declared_schema(name)
        if declared is not None and evolved_schema(view.schema_json, declared) != view.schema_json:
            raise InvariantBroken(
                Invariant.ONCE,
                f"table {name} lacks columns that the settings declare: their values would be lost",
                "add them to the table (ALTER TABLE ... ADD COLUMNS), or raise `generation` to let the exporter do it",
            )
        self.table_fingerprints[name] = view.fingerprint


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
