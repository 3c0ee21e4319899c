"""A change of the routing configuration: drain under the old one, seal, the dead letters last (protocol 5.3c).

    drain   every position of the old types to `through`, by compare-and-set, in whatever epoch each table is
    seal    table by table: tombstone the live epoch, begin the next one at `through`
    last    the dead letters' seal records the new configuration; only then may anyone plan under it
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from exporter.clock import monotonic
from exporter.core.order import StagingOrder
from exporter.core.outcome import Committer, Landed, Unknown, Unwritten
from exporter.core.plan import plan_round
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import PartitionPlan, Writer, WriterKey, freeze, integrate_all, missing_anchors
from exporter.errors import InvariantBroken, TableUnwritable
from exporter.faults import Fault, point
from exporter.lake.change import Change
from exporter.lake.properties import check_identity
from exporter.lake.record_fields import kept, record_fields
from exporter.lake.schema import SchemaChange, schema_change
from exporter.lake.settling import Expect, Failed, Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import Anchors, declared_schema
from exporter.protocol.drain import DrainRounds
from exporter.protocol.erasures import Erasures
from exporter.protocol.planned import target_of
from exporter.protocol.poison import Poisoned
from exporter.protocol.rehearsal import rehearse
from offsets import Invariant
from offsets.crosscheck import Switch
from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position, first_epoch, poison_offsets
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import CONFIG_PROPERTY, ROUTING_PROPERTY, TableView, identity_properties

log = get_logger(__name__)


class Switcher:
    """Switches partitions to our configuration. Raises Moved when another task was faster: read everything again."""

    def __init__(self, anchors: Anchors, committer: Committer, drain: DrainRounds | None) -> None:
        """drain: None for who only looks."""
        self._anchors = anchors
        self._committer = committer
        self._rounds = drain

    def switch(
        self,
        views: Mapping[str, TableView],
        switches: Mapping[TopicPartition, Switch],
        recorded: Mapping[str, Routing],
        identities: Mapping[str, TopicIdentity],
        go_on: Callable[[], None],
    ) -> None:
        """views: of one full reading; recorded: routing fingerprint -> configuration in force. go_on: as in drain.py.

        Raises, before it has changed anything, whatever stands in the way of one of the tables.
        """
        rehearse(self._anchors, views, switches, recorded)
        dead_letters = views[DEAD_LETTERS]
        by_config: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp, switch in switches.items():
            by_config[switch.in_force].append(tp)
        for fingerprint, tps in by_config.items():
            self._drain(views, {tp: switches[tp] for tp in tps}, recorded[fingerprint], identities, go_on)
        # The dead letters are sealed strictly last: by their history the new settings count (5.3c).
        names = sorted({name for switch in switches.values() for name in switch.positions} - {DEAD_LETTERS})
        for name in names:
            self._seal(views, name, switches, {}, identities)
        history = {
            f"{ROUTING_PROPERTY}{tp}": json.dumps(
                {**dead_letters.routing_history(tp), switch.next_epoch: self._anchors.own}
            )
            for tp, switch in switches.items()
        }
        history[f"{CONFIG_PROPERTY}{self._anchors.own}"] = self._anchors.routing.to_json()
        self._seal(views, DEAD_LETTERS, switches, history, identities)
        log.info(Event.CONFIGURATION_SWITCHED, partitions=len(switches), routing=self._anchors.own)

    def _drain(
        self,
        views: Mapping[str, TableView],
        switches: Mapping[TopicPartition, Switch],
        old: Routing,
        identities: Mapping[str, TopicIdentity],
        go_on: Callable[[], None],
    ) -> None:
        """Bring every position of the old configuration to `through`, in whatever epoch each table is."""
        writers = {
            WriterKey(name, tp): Writer(WriterKey(name, tp), position.epoch, 0, position.offset, position.offset)
            for tp, switch in switches.items()
            for name in old.active_with(views)
            if (position := switch.positions.get(name)) is not None
        }
        through = {tp: switch.through for tp, switch in switches.items()}
        if all(writer.covered == through[key.tp] for key, writer in writers.items()):
            return
        if old.is_earlier or old.decoder_version > old.decoder_here:
            raise InvariantBroken(
                Invariant.ROUTE,
                f"decoder version {old.decoder_version} has to drain first; this is version {old.decoder_here}",
                "let the version that wrote it run once more and stop it with SIGTERM, then start this one",
            )
        log.info(Event.DRAIN_STARTED, partitions=len(switches), in_force=old.fingerprint())
        self._committer.trust_topics({topic: one.topic_id for topic, one in identities.items()})
        for name, view in views.items():
            self._committer.trust(name, view)
        for epoch in sorted({writer.epoch for writer in writers.values()}):
            of_epoch = {key: writer for key, writer in writers.items() if writer.epoch == epoch}
            others = [key for key in writers if key not in of_epoch]
            self._drain_epoch(views, of_epoch, others, through, old, identities, go_on)

    def _drain_epoch(
        self,
        views: Mapping[str, TableView],
        writers: dict[WriterKey, Writer],
        others: Sequence[WriterKey],
        through: Mapping[TopicPartition, int],
        old: Routing,
        identities: Mapping[str, TopicIdentity],
        go_on: Callable[[], None],
    ) -> None:
        """Read, stage and commit until every writer of one epoch is at `through`. others: those of other epochs."""
        if self._rounds is None:
            raise InvariantBroken(Invariant.ROUTE, "who only looks drains nothing", "please report this")
        rounds, ends = self._rounds, {tp: offset + 1 for tp, offset in through.items()}
        lake, dead_letters = self._anchors.lake, views[DEAD_LETTERS].transactions
        poison = {tp: poison_offsets(dead_letters, lake.app, tp) for tp in through}
        begins = {tp: first_epoch(dead_letters, lake.app, tp) for tp in through}
        erased = Erasures(lake).known_to(views.values())

        def order(plans: Sequence[PartitionPlan]) -> StagingOrder:
            gone = {plan.tp: erased.offsets(plan.tp, begins[plan.tp], plan.start, plan.end) for plan in plans}
            order = self._order(views, plans, old, poison)
            return replace(order, erased=gone, schemas=rounds.known(old.registry))

        def poisoned(plan: PartitionPlan) -> Poisoned:
            return self._poisoned(views, plan)

        while plans := _without(plan_round(writers, ends, rounds.budget(), monotonic()), others):
            result = rounds.read(plans, poison, order, poisoned, go_on)
            self._check_topics(identities, {one.plan.tp: one.plan.start - 1 for one in result.fragments})
            for fragment in result.fragments:
                if unanchored := missing_anchors(writers, fragment):
                    raise InvariantBroken(
                        Invariant.ANCHOR,
                        f"{fragment.plan.tp}: {', '.join(unanchored)} have no position in what has to be drained",
                        "start the version that wrote these tables; please report this",
                    )
            writers, _ = integrate_all(writers, result.fragments, monotonic())
            self._commit(writers)
            rounds.decide(result.fragments, old.registry, ends, go_on)

    def _check_topics(
        self, identities: Mapping[str, TopicIdentity], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Whether what was read is of the topics that the tables know (protocol 5.4)."""
        now = self._anchors.topics.identities_of({tp.topic for tp in positions})
        check_identity(identity_properties(identities), now, positions)

    def _order(
        self,
        views: Mapping[str, TableView],
        plans: Sequence[PartitionPlan],
        old: Routing,
        poison: Mapping[TopicPartition, frozenset[int]],
    ) -> StagingOrder:
        lake = self._anchors.lake
        fields = record_fields(lake.record_columns, old)
        return StagingOrder(
            lake.destination(),
            old,
            {plan.tp: plan for plan in plans},
            {name: replace(target_of(old, name, view), kept=kept(view, fields)) for name, view in views.items()},
            {plan.tp: self._footer(plan.tp, old) for plan in plans},
            {plan.tp: poison[plan.tp] for plan in plans},
        )

    def _footer(self, tp: TopicPartition, old: Routing) -> dict[str, str]:
        return {**self._committer.footer(tp), "routing": old.fingerprint()}

    def _poisoned(self, views: Mapping[str, TableView], plan: PartitionPlan) -> Poisoned:
        """What sparing the plan's record goes by: the dead letters as they were read."""
        at = views[DEAD_LETTERS].position(self._anchors.lake.app, plan.tp)
        if at is None:
            raise InvariantBroken(Invariant.ANCHOR, f"{plan.tp}: no dead letters' position", "please report this")
        return Poisoned(plan, at, self._committer.checked_through(DEAD_LETTERS))

    def _commit(self, writers: dict[WriterKey, Writer]) -> None:
        """All that the writers have staged. Raises Moved."""
        by_type: dict[str, list[Writer]] = defaultdict(list)
        for key, writer in writers.items():
            if writer.frontier > writer.covered:
                base = self._committer.checked_through(key.event_type)
                by_type[key.event_type].append(freeze(writer, base))
        for name, frozen in by_type.items():
            report = self._committer.commit(name, [writer.claim for writer in frozen if writer.claim])
            outcomes = [settled.outcome for settled in report.settled]
            if any(isinstance(outcome, Unknown | Unwritten) for outcome in outcomes):
                why = next((outcome.reason for outcome in outcomes if isinstance(outcome, Unwritten)), report.error)
                says = f"table {name} cannot be written: {why}"
                raise Failed(self._anchors.lake.table(name), TableUnwritable(says))
            if not all(isinstance(outcome, Landed) for outcome in outcomes):
                raise Moved(f"a drain of table {name} was refused: {report.error}")
            for writer in frozen:
                writers[writer.key] = Writer(writer.key, writer.epoch, 0, writer.frontier, writer.frontier)

    def _seal(
        self,
        views: Mapping[str, TableView],
        name: str,
        switches: Mapping[TopicPartition, Switch],
        properties: Mapping[str, str],
        identities: Mapping[str, TopicIdentity],
    ) -> None:
        """Close the live epoch of a table with a tombstone and begin the next one, all partitions in one commit.

        A table that an interrupted switch has sealed already is skipped but for the columns that it lacks, or, if it is
        a type that the configuration in force does not fill, moved on to `through`: what lies between went to the old
        configuration's tables.
        """
        app = self._anchors.lake.app
        view = views.get(name)
        if view is None and name not in self._anchors.routing.active_types:
            return
        olds: dict[TopicPartition, Position | None] = {}
        versions: dict[str, int] = {}
        expected: list[str] = []
        news: dict[TopicPartition, Position] = {}
        for tp, switch in switches.items():
            if name not in switch.positions:
                continue
            was = switch.positions[name]
            if was is not None and name in switch.in_force_active:
                was = Position(was.epoch, switch.through)
            new = Position(switch.next_epoch, max(switch.through, was.offset if was else switch.through))
            if was == new:
                continue
            olds[tp], news[tp] = was, new
            versions |= _seal_versions(app, tp, was, new)
            # Each epoch is compared: an anchor that came late in one of them refuses the seal.
            epochs = {switch.epoch, new.epoch, *([was.epoch] if was is not None else [])}  # no late anchor either
            expected += [str(AppId(app, tp, epoch)) for epoch in epochs]
        spec = self._anchors.lake.spec_of(name, view)
        declared = declared_schema(self._anchors.routing, name, spec)
        evolved = SchemaChange() if view is None else schema_change(view, declared, self._anchors.lake.type_widening)
        if not news and evolved.schema_json is None:
            return
        created = identity_properties(identities) if view is None else {}
        change = Change(
            expected=tuple(expected),
            positions=versions,
            user_metadata=self._anchors.metadata("seal", view, news),
            properties={**properties, **evolved.properties, **created},
            create=declared if view is None else None,
            spec=spec,
            evolve=evolved.schema_json,
        )
        self._seal_commit(name, view, olds, change)
        if evolved.widened:
            log.info(Event.COLUMNS_WIDENED, table=name, columns="; ".join(evolved.widened))
        point(Fault.AFTER_SEAL)

    def _seal_commit(
        self, name: str, view: TableView | None, olds: Mapping[TopicPartition, Position | None], change: Change
    ) -> None:
        """olds: the positions that the seal replaces. Raises Moved if the table is no longer as in the view."""

        def check(now: TableView) -> None:
            if view is not None and now.listed_tables() != view.listed_tables():
                raise Moved("a table of a type that was met meanwhile has to be sealed too")

        expect = Expect(view, self._anchors.lake.app, olds, columns=change.evolve is not None)
        self._anchors.write(name, change, expect, check)


def _seal_versions(app: str, tp: TopicPartition, old: Position | None, new: Position) -> dict[str, int]:
    """The transactions of one partition's seal: tombstone, what it closed at, the next epoch and its anchor."""
    versions = {str(AppId(app, tp, new.epoch)): new.offset, str(AppId(app, tp, new.epoch, "anchor")): new.offset}
    if old is not None and old.epoch != new.epoch:
        versions[str(AppId(app, tp, old.epoch))] = TOMBSTONE
        versions[str(AppId(app, tp, old.epoch, "sealed"))] = old.offset
    return versions


def _without(plans: Iterable[PartitionPlan], others: Sequence[WriterKey]) -> list[PartitionPlan]:
    """Plans that do not list tables of other epochs: what is read again for one that was sealed has to pass them by."""
    there: dict[TopicPartition, list[str]] = defaultdict(list)
    for key in others:
        there[key.tp].append(key.event_type)
    return [replace(plan, unlisted=(*plan.unlisted, *there[plan.tp])) for plan in plans]
