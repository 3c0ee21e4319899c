"""The next round: what it reads, what its tasks are told, and the one record that it would end on again.

    writers as they will be ── plan_round ── choose (trouble, poison records) ──> start
                                           └─ a single record that ends its rounds: spare it first (protocol 3.7)

Belongs to the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.core.order import StagingOrder
from exporter.core.outcome import Committer
from exporter.core.plan import expected, plan_round
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.writers import PartitionPlan, Writer, WriterKey, Writers
from exporter.faults import Fault, point
from exporter.lake.lake import Lake
from exporter.lake.settling import Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.known import KnownTables
from exporter.protocol.poison import Poison, Poisoned
from exporter.rounds.rounds import Rounds
from exporter.settings.model import Settings
from exporter.task.offers import Offers
from offsets.positions import Position
from offsets.ranges import TopicPartition

log = get_logger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class NextRound:
    """One task's. poison: that of the drains."""

    lake: Lake
    routing: Routing
    settings: Settings
    known: KnownTables
    committer: Committer
    rounds: Rounds
    offers: Offers
    poison: Poison

    def tick(
        self,
        now: float,
        writers: dict[WriterKey, Writer],
        ends: Mapping[TopicPartition, int],
        read_through: Callable[[Writers], bool],
    ) -> set[TopicPartition]:
        """Start a round, if one may; partitions that have to be read again from their tables instead.

        ends: of the partitions that may be read, the offset after the last readable record. read_through: whether
        such writers have all that a run with an end is to read.
        """
        staged = sum(writer.staged_bytes for writer in writers.values())
        if staged >= self.settings.staged_bytes_max or not self.rounds.may_start(ends, now):
            return set()
        self.offers.refresh_parked(writers, now)
        planned = plan_round(expected(writers, self.rounds.plans, now), ends, self.rounds.budget(), now)
        plans = self.rounds.choose([*map(self.known.again.cut, planned)], self.known.poison_offsets, now)
        if not plans:
            return set()
        if self.poison.is_next(self.rounds, plans[0]):
            try:
                if not self._spared(plans[0], writers):
                    return set()
            except Moved as moved:
                log.info(Event.READING_RESTARTED, reason=str(moved))
                return {plans[0].tp}
        point(Fault.AFTER_PLAN)
        before = self.rounds.running or any(writer.staged for writer in writers.values())
        is_all = not before and read_through(expected(writers, plans, now))
        self.rounds.start(self._order(plans, writers, is_all))
        return set()

    def _order(self, plans: tuple[PartitionPlan, ...], writers: Writers, is_all: bool) -> StagingOrder:
        """is_all: a run with an end has nothing but these plans to read, and nothing staged from before them."""
        carried = sum(len(file.body) for writer in writers.values() for file in writer.staged)
        left = self.settings.carried_bytes_max - carried - self.rounds.carried_bytes
        return StagingOrder(
            to=self.lake.destination(),
            routing=self.routing,
            plans={plan.tp: plan for plan in plans},
            tables=dict(self.known.tables),
            footers={plan.tp: self.committer.footer(plan.tp) for plan in plans},
            poison_offsets={plan.tp: self.known.poison_offsets.get(plan.tp, frozenset()) for plan in plans},
            erased={plan.tp: self.known.erased_in(plan) for plan in plans},
            new_types_max=max(0, self.settings.new_types_max - len(self.known.new_types)),
            carried_bytes=max(0, min(left, self.settings.carried_bytes_max // 2)),  # a round behind needs some too
            committed_next=is_all,
            evolutions=self.known.planned.evolutions,
            schemas=self.known.decided,
            times=self.settings.times_told,
        )

    def _spared(self, plan: PartitionPlan, writers: Writers) -> bool:
        """Spare the single record that this plan would fail on again (protocol 3.7); False if that has to wait.

        The plan then passes it like every other one. Raises Moved if the dead letters are not where this task thought.
        """
        dead_letters = writers[WriterKey(DEAD_LETTERS, plan.tp)]
        if dead_letters.claim is not None:
            return False
        at = Position(dead_letters.epoch, dead_letters.covered)
        checked_through = self.committer.checked_through(DEAD_LETTERS)
        if not self.poison.spare(self.rounds, Poisoned(plan, at, checked_through)):
            return False
        self.known.add_poison(plan.tp, plan.start)
        return True
