"""What a task knows of its tables and topics since it last read them. The loop's; nothing here is kept for a reading.

    accept   a table is staged against as it is now; why it cannot be filled, if so
    take     what a recovery has found becomes writers
    check_topics   are the topics still those that the tables know?

Belongs to the loop's thread. Only `tell` may be called from another one: it replaces `said` as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.clock import monotonic
from exporter.core.evolve import Evolutions
from exporter.core.order import TableTarget
from exporter.core.outcome import Committer
from exporter.core.read_again import ReadAgain
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, Schemas
from exporter.core.seen import Seen
from exporter.core.specs import Specs
from exporter.core.writers import PartitionPlan, Writer, WriterKey, park
from exporter.errors import Fenced
from exporter.kafka.topics import TopicReader
from exporter.lake.properties import check_identity
from exporter.lake.record_fields import other_column, with_record_fields
from exporter.lake.schema import holds_just, refuses
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import declared_schema
from exporter.protocol.foreseen import Foreseeing
from exporter.protocol.planned import PlannedColumns
from offsets.erased import Erased, erasures_known
from offsets.positions import first_epoch, poison_offsets, spared_offsets
from offsets.ranges import TopicPartition
from offsets.table_log import TableView, identity_properties

if TYPE_CHECKING:
    from exporter.protocol.recover import Recovered

log = get_logger(__name__)


class KnownTables:
    """What one task knows.

    tables: event type -> the table that files are staged for. erased: records that no table gets any more; erasures:
    reads them all, if some tables know of any.
    poison_offsets: every plan skips them. spared: those of which it is not known yet where they are. planned: the
    columns that tables are to have; again: rows that are read again with them. unchanged: types whose table could not
    be given the column `_event_time`. said: the verdict of the last reading, for those who watch.
    """

    def __init__(
        self,
        *,
        app: str,
        routing: Routing,
        topics: TopicReader,
        committer: Committer,
        clock: Callable[[], float] = monotonic,
        specs: Specs | None = None,
        schemas: Schemas = Schemas(),  # noqa: B008 - a frozen value
        planned: PlannedColumns | None = None,
    ) -> None:
        """clock: that of the loop. specs: of the tables that this task makes; by day without.

        planned: the columns that tables are to have; None: no table grows.
        """
        self._schemas = schemas
        self._app = app
        self._routing = routing
        self._topics = topics
        self._committer = committer
        self._clock = clock
        self.planned = planned or PlannedColumns(routing, Evolutions(), specs, columns=schemas.columns)
        self.again = ReadAgain()
        self.foreseeing = Foreseeing(routing, self.planned, schemas.columns)
        self.erasures: Callable[[Iterable[TableView]], Erased] = lambda views: Erased()
        self._begins: dict[TopicPartition, int] = {}
        self.erased = Erased()
        self._identity: dict[str, str] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self.tables: dict[str, TableTarget] = {}
        self._made = specs or Specs()
        self.unchanged: frozenset[str] = frozenset()
        self.poison_offsets: dict[TopicPartition, frozenset[int]] = {}
        self.spared: dict[TopicPartition, frozenset[int]] = {}
        self.said: Mapping[TopicPartition, str] = {}

    @property
    def new_types(self) -> set[str]:
        """The undeclared event types that have a table, as far as this task knows."""
        return {name for name in self.tables if self._routing.is_new(name)}

    @property
    def decided(self) -> KnownSchemas:
        """What is decided of schema ids by now (protocol 3.8)."""
        source = self._schemas.source
        return source.known(self._routing.registry) if source is not None and self._routing.has_ids else NO_SCHEMAS

    def foresee(self, name: str, key: str, topic: str) -> bool:
        """As Foreseeing.schema, by what is decided by now."""
        return self.foreseeing.schema(name, key, topic, self.decided)

    def looked_through(self, name: str) -> int:
        """The newest version of a table whose operations this process has looked at."""
        return self._committer.checked_through(name)

    def tell(self, said: Mapping[TopicPartition, str]) -> None:
        """The verdicts of a reading that is under way; callable from the thread that reads."""
        self.said = {**self.said, **said}

    def add_poison(self, tp: TopicPartition, offset: int) -> None:
        """No plan has the record from now on, and it is to be settled where it is."""
        self.poison_offsets[tp] = self.poison_offsets.get(tp, frozenset()) | {offset}
        self.spared[tp] = self.spared.get(tp, frozenset()) | {offset}

    def hear(self, dead_letters: TableView) -> None:
        """What others have spared meanwhile: a task that has lost a partition may not know it yet (protocol 3.7).

        What this one has settled since may be among it; it is then looked at once more.
        """
        for tp, known in [*self.spared.items()]:
            for offset in spared_offsets(dead_letters.transactions, self._app, tp) - known:
                self.add_poison(tp, offset)

    def settled(self, tp: TopicPartition, offset: int) -> None:
        """It is known where the spared record is."""
        self.spared[tp] -= {offset}

    def check_topics(self, positions: Mapping[TopicPartition, int]) -> None:
        """Whether the topics of recovered partitions are still those of the tables (protocol 5.4).

        positions: greatest offset that the tables hold. Raises InvariantBroken, BrokerSilent.
        """
        check_identity(self._identity, self._topics.identities_of({tp.topic for tp in positions}), positions)

    def erased_in(self, plan: PartitionPlan) -> frozenset[int]:
        """The offsets of a plan's range whose records were erased (protocol 4.16)."""
        return self.erased.offsets(plan.tp, self._begins.get(plan.tp, 0), plan.start, plan.end)

    def accept(self, name: str, view: TableView) -> str:
        """Stage against this view from now on; why the table cannot be filled (its type is to be parked), or empty.

        Raises TableUnreadable where the table knows of erasures that cannot be read.
        """
        self._learn(view)
        accepted = self.planned.accept(name, view)
        declared = declared_schema(self._routing, name, accepted.spec)
        plain = declared is not None and any(
            holds_just(view, one, self._made.of(name))
            for one in (declared, with_record_fields(declared, self.planned.of_record(name)))
        )
        target = self.tables[name] = replace(accepted, plain=view.fingerprint if plain else "")
        if not target.has_event_time:
            log.warning(Event.EVENT_TIME_NOT_KEPT, table=name)
        other = other_column(view, self.planned.may_have(name)) if declared is not None else ""
        reason = refuses(view, declared) or other
        if reason:
            log.error(Event.TABLE_CANNOT_BE_FILLED, table=name, reason=reason)
        return reason

    def grow(self, name: str, view: TableView, seen: Seen) -> None:
        """Stage for the columns that follow from what was seen, beside those of the table as it is now."""
        self._learn(view)
        self.tables[name] = replace(self.planned.grow(name, view, seen), plain=self.tables[name].plain)

    def _learn(self, view: TableView) -> None:
        """Before a table is staged for: what fits it was read with all erasures that it knows of (ERASED)."""
        if erasures_known([view]) > self.erased.number:
            self.erased = self.erasures([view])

    def take(self, found: Recovered, ownership: Mapping[TopicPartition, int]) -> dict[WriterKey, Writer]:
        """The writers of some partitions of a recovery, each with its ownership epoch, at the positions of the tables.

        A task that worked in an epoch which a repair has closed since ends: it may hold what is no longer true. Raises
        Fenced.
        """
        now = self._clock()
        self.unchanged |= found.unchanged
        mine = {tp: one for tp, one in found.agreed.items() if tp in ownership}
        for tp, agreed in mine.items():
            if self._epochs.setdefault(tp, agreed.epoch) != agreed.epoch:
                raise Fenced(
                    f"{tp}: epoch {self._epochs[tp]}, in which this task worked, was closed by a repair; "
                    f"the tables are in epoch {agreed.epoch}",
                    "start again: a fresh task goes on from the new positions",
                )
        if not mine:
            return {}
        self._identity |= identity_properties(found.identities)
        self._committer.trust_topics({topic: one.topic_id for topic, one in found.identities.items()})
        dead_letters = found.views[DEAD_LETTERS].transactions
        self._begins |= {tp: first_epoch(dead_letters, self._app, tp) for tp in mine}
        self.poison_offsets |= {tp: poison_offsets(dead_letters, self._app, tp) for tp in mine}
        self.spared |= {tp: spared_offsets(dead_letters, self._app, tp) for tp in mine}
        reasons: dict[str, str] = {}
        for name, view in found.views.items():
            self._committer.trust(name, view)
            reasons[name] = self.accept(name, view)
        writers: dict[WriterKey, Writer] = {}
        for tp, agreed in mine.items():
            for name, offset in agreed.positions.items():
                writer = Writer(WriterKey(name, tp), agreed.epoch, ownership[tp], offset, offset, now)
                writers[writer.key] = park(writer, why, now) if (why := reasons[name]) else writer
        return writers
