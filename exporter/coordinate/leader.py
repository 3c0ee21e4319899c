"""The task that leads: it begins rounds, commits what is offered, and says what became of it.

    heard ──> LeaderRounds ──> begin, close ──> MergedCommits, one per table, in a pool ──> Outcome

Several tasks may lead at once, or none: that costs commits, and no record (protocol 4.11). Nothing here raises.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from exporter.coordinate.rounds import LeaderRounds
from exporter.core.coordination import Channel, Leadership, Merged, Merging, Message, Offer, Outcome, Ready
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line
from offsets.ranges import TopicPartition

log = get_logger(__name__)


@dataclass
class Led:
    """What a task has done as a leader: sums that only grow. left_out: offers that were in none of its commits."""

    begun: int = 0
    commits: int = 0
    offers: int = 0
    left_out: int = 0
    failed: int = 0


@dataclass(eq=False, repr=False)
class Leader:
    """One task's. `hear` and `tick` belong to the thread that hears the channel; commits run in the pool.

    partitions: all of the topics, as far as they are known; does not block.
    """

    rounds: LeaderRounds
    leadership: Leadership
    merger: Merging
    partitions: Callable[[], Collection[TopicPartition]]
    pool: Executor
    channel: Channel
    _done: queue.SimpleQueue[tuple[str, tuple[Offer, ...], Merged]] = field(default_factory=queue.SimpleQueue)
    leads: bool = False
    led: Led = field(default_factory=Led)

    @property
    def rounds_closed(self) -> dict[str, int]:
        """Of this task's rounds, by what closed them."""
        return dict(self.rounds.closed)

    def hear(self, message: Message, now: float) -> None:
        """Note an offer, or that a task is ready."""
        if not self.leads or not isinstance(message, Offer | Ready):
            return
        if (settled := self.rounds.take(message, now)) is not None:
            self.channel.say([settled])

    def tick(self, now: float) -> None:
        """One turn: take what is done, begin and close rounds that are due."""
        self._take_done()
        self._look_who_leads()
        if not self.leads:
            return
        if (begin := self.rounds.begin(now)) is not None:
            point(Fault.BEFORE_BEGIN)
            self.channel.say([begin])
            self.led.begun = begin.number
            point(Fault.AFTER_BEGIN)
        self.rounds.close_due(now, self.partitions())
        for table, offers in self.rounds.due(now).items():
            self.pool.submit(self._commit, table, offers)

    def _look_who_leads(self) -> None:
        leads = self.leadership.is_mine()
        if leads == self.leads:
            return
        self.leads = leads
        if leads:
            log.info(Event.LEADING_BEGAN)
        else:
            log.info(Event.LEADING_ENDED, left=self.rounds.pending)
            self.rounds.forget()

    def _commit(self, table: str, offers: tuple[Offer, ...]) -> None:
        """Runs in the pool. Whatever goes wrong, the tasks find out by looking, and stop where they have to."""
        try:
            merged = self.merger.commit(table, offers)
        except Exception as error:  # noqa: BLE001 - nobody is told anything: tasks look for themselves
            log.warning(Event.MERGE_FAILED, table=table, offers=len(offers), error=first_line(error))
            self.led.failed += 1
            merged = Merged()
        self._done.put((table, offers, merged))

    def _take_done(self) -> None:
        while not self._done.empty():
            table, offers, merged = self._done.get()
            outcome = self.rounds.done(table, offers, merged)
            if outcome is not None:
                self._tell(outcome, offers)

    def _tell(self, outcome: Outcome, offers: Sequence[Offer]) -> None:
        self.led.commits += outcome.version is not None
        self.led.offers += len(outcome.landed)
        self.led.left_out += len(outcome.dropped)
        if outcome.version is not None:
            log.info(Event.OFFERS_COMMITTED, table=outcome.table, version=outcome.version, offers=len(outcome.landed),
                     rows=outcome.rows, tasks=len({offer.owner for offer in offers}))  # fmt: skip
        for offer in offers:
            if why := outcome.dropped.get(offer.id):
                log.warning(Event.OFFER_LEFT_OUT, table=outcome.table, owner=offer.owner, reason=why)
        point(Fault.BEFORE_OUTCOME, outcome.table)
        self.channel.say([outcome])
        point(Fault.AFTER_OUTCOME, outcome.table)
