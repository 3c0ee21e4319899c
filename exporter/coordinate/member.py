"""A task's side of coordinated commits: it offers what has rolled, and finds out what became of it.

    submit ── prepare ──> Offer said ── Outcome heard, or time over, or in a hurry ──> found in the log? ──> done
                                                                                   └─ no: land it, under the same id

What is heard is a hint: every outcome is found by looking (protocol 4.11). Nothing waits longer than the time-out, and
nothing here asks whether the channel works.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from exporter import threads
from exporter.clock import monotonic
from exporter.core.coordination import Begin, Channel, Message, Offer, Outcome, Preparing, Ready
from exporter.core.outcome import Prepared, Report
from exporter.core.writers import Claim
from exporter.errors import TableUnreadable
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line
from offsets.ranges import TopicPartition

log = get_logger(__name__)

ROUNDS_MAX = 100
"""Rounds that are remembered, for messages that come twice or late."""
ANSWERED, UNANSWERED, HURRIED, SILENT = "answered", "unanswered", "hurried", "silent"
"""Why an offer is looked at: an outcome was heard; none was, in time; the task ends; nothing can be said."""


@dataclass
class _Offered:
    """An offer whose outcome is not known. said_at, deadline: monotonic seconds. looked: somebody is finding out."""

    prepared: Prepared
    offer: Offer
    future: Future[Report]
    said_at: float
    deadline: float
    looked: bool = False


@dataclass
class _Round:
    """A round that was heard of. rolled: all that the task has for it is submitted, of these partitions then."""

    submitting: int = 0
    rolled: tuple[TopicPartition, ...] | None = None


@dataclass(eq=False, repr=False)
class RoundMember:
    """One task's. submit, begun, rolled, is_lively, hurry: for the loop's thread; hear and tick: for the channel's.

    ended: offers by what ended the waiting for their outcome.

    wake: lets the loop iterate, as a round has begun; called from any thread.
    """

    app: str
    owner: str
    committer: Preparing
    pool: Executor
    channel: Channel
    timeout_secs: float
    wake: Callable[[], None]
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self._lock = threads.lock()
        self._open: dict[str, _Offered] = {}
        self._rounds: OrderedDict[str, _Round] = OrderedDict()
        self._begun = ""
        self._leader = ""
        self._begun_at = float("-inf")
        self._lively: dict[str, str] = {}
        self._hurried = False
        self.ended: Counter[str] = Counter()

    # for the loop

    def submit(self, event_type: str, claims: Sequence[Claim], round_id: str) -> Future[Report]:
        """Implements `Commits.submit`: prepare claims in the pool and offer them."""
        future: Future[Report] = Future()
        if round_id:
            with self._lock:
                self._round(round_id).submitting += 1
        self.pool.submit(self._prepare, event_type, claims, round_id, future)
        return future

    def begun(self) -> str:
        """Implements `Commits.begun`: the id of the round that waits to be rolled."""
        return self._begun

    def rolled(self, round_id: str, partitions: Collection[TopicPartition]) -> None:
        """Implements `Commits.rolled`: all of the round is submitted; say so once it is offered."""
        with self._lock:
            self._round(round_id).rolled = tuple(sorted(partitions))
            if self._begun == round_id:
                self._begun = ""
        self._say_ready(round_id)

    def is_lively(self, event_type: str) -> bool:
        """As Commits. By the newest rounds: the one that begins, and the one before it."""
        with self._lock:
            return self._lively.get(event_type, "-") in [*self._rounds][-2:]

    def hurry(self) -> None:
        """Implements `Commits.hurry`: wait for no leader any more."""
        if self._hurried:
            return
        with self._lock:
            # With the lock: an offer that is being said is found here, or sees the flag afterwards (_offered).
            self._hurried = True
            found = [*self._open.values()]
        for one in found:
            self._look(one, HURRIED)

    @property
    def pending(self) -> int:
        """Offers whose outcome is not known."""
        return len(self._open)

    # for the thread of the channel

    def hear(self, message: Message, now: float) -> None:
        """Note what the leader says."""
        if isinstance(message, Begin):
            self._hear_begin(message, now)
        elif isinstance(message, Outcome):
            if message.rows:
                with self._lock:
                    self._lively[message.table] = next(reversed(self._rounds), "")
            for name in (*message.landed, *message.dropped):
                if (one := self._open.get(name)) is not None:
                    self._look(one, ANSWERED)

    def _hear_begin(self, begin: Begin, now: float) -> None:
        """A round begins. What was offered before the last one, and to another leader, is said again."""
        with self._lock:
            known = self._rounds.get(begin.round_id)
            is_new_leader = begin.leader != self._leader
            since = now if is_new_leader else self._begun_at
            again = [one for one in self._open.values() if not one.looked and one.said_at <= since]
            if known is None:
                self._round(begin.round_id)
                self._begun, self._leader, self._begun_at = begin.round_id, begin.leader, now
            else:  # somebody is not ready, as far as the leader has heard
                again = [one for one in self._open.values() if one.offer.round_id == begin.round_id and not one.looked]
            for one in again:
                one.said_at = now
        if again:
            self.channel.say([one.offer for one in again])
        if known is None:
            self.wake()
        else:
            self._say_ready(begin.round_id)

    def tick(self, now: float) -> None:
        """Look after what was not answered in time."""
        for one in [*self._open.values()]:
            if now >= one.deadline:
                self._look(one, UNANSWERED)

    # what either of them begins, and the pool does

    def _round(self, round_id: str) -> _Round:
        """What is known of a round; the lock is held."""
        if round_id not in self._rounds:
            self._rounds[round_id] = _Round()
            while len(self._rounds) > ROUNDS_MAX:
                self._rounds.popitem(last=False)
        return self._rounds[round_id]

    def _say_ready(self, round_id: str) -> None:
        with self._lock:
            round_ = self._round(round_id)
            if round_.rolled is None or round_.submitting:
                return
            ready = Ready(self.app, self.owner, round_id, round_.rolled)
        self.channel.say([ready])

    def _prepare(self, event_type: str, claims: Sequence[Claim], round_id: str, future: Future[Report]) -> None:
        """Prepare claims and offer them, or commit by itself; runs in the pool."""
        try:
            if self._hurried or self.channel.trouble:
                self.ended[HURRIED if self._hurried else SILENT] += 1
                future.set_result(self.committer.commit(event_type, claims))
            else:
                prepared = self.committer.prepare(event_type, claims)
                if not prepared.offers or not self._offered(prepared, round_id, future):
                    future.set_result(self.committer.land(prepared))
        except BaseException as error:  # noqa: BLE001 - the loop decides
            future.set_exception(error)
        finally:
            if round_id:
                # After a failure, too: else the round waits for this task until its time is over.
                with self._lock:
                    self._round(round_id).submitting -= 1
                self._say_ready(round_id)

    def _offered(self, prepared: Prepared, round_id: str, future: Future[Report]) -> bool:
        """Say it, and wait for its outcome; False where it cannot be said."""
        try:
            offer = self.committer.offer(prepared, round_id)
        except OSError as error:
            log.warning(Event.OFFER_NOT_SAID, table=prepared.event_type, error=first_line(error))
            self.ended[SILENT] += 1
            return False
        now = self.clock()
        one = _Offered(prepared, offer, future, now, now + self.timeout_secs)
        # Before it is said: the channel's thread may hear the outcome at once.
        with self._lock:
            self._open[prepared.commit_id] = one
        point(Fault.BEFORE_OFFER, prepared.event_type)
        self.channel.say([offer])
        point(Fault.AFTER_OFFER, prepared.event_type)
        if self._hurried:  # since it was asked
            self._look(one, HURRIED)
        return True

    def _look(self, one: _Offered, why: str) -> None:
        """Find out what became of it, once, in the pool."""
        with self._lock:
            if one.looked:
                return
            one.looked = True
        self.ended[why] += 1
        self.pool.submit(self._settle, one, why)

    def _settle(self, one: _Offered, why: str) -> None:
        """Runs in the pool. Raises nothing: the loop gets it."""
        try:
            report = self._found(one.prepared)
            if report is None:
                log.info(Event.OFFER_FALLS_BACK, table=one.offer.table, why=why)
                point(Fault.BEFORE_FALL_BACK, one.offer.table)
                report = self.committer.fall_back(one.prepared)
        except BaseException as error:  # noqa: BLE001 - the loop decides
            self._forget(one)
            one.future.set_exception(error)
        else:
            self._forget(one)
            one.future.set_result(report)

    def _found(self, prepared: Prepared) -> Report | None:
        """What the log says. If it cannot be read: nothing, and a commit of its own will tell (FENCE)."""
        try:
            return self.committer.found(prepared)
        except TableUnreadable as error:
            log.warning(Event.TABLE_UNREADABLE, table=prepared.event_type, error=str(error))
            return None

    def _forget(self, one: _Offered) -> None:
        with self._lock:
            self._open.pop(one.prepared.commit_id, None)
