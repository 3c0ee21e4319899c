"""Which offers a leader commits together, and when. Without threads; the clock is the caller's, monotonic seconds.

    Begin ── offers of the round come, Ready of all partitions ──> closed: one commit per table of all that is pending
          └─ the time for it is over ──────────────────────────┘
    offers that a task's own limits made       a moment later, so that others of that moment ride along; while a round
                                               has just begun, with that
    offers of a round that is over             with the next one, or after a while

What is lost by a leader's end is said again to the next one (protocol 4.11): nothing here is stored.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from exporter.core.coordination import Begin, Merged, Offer, Outcome, Ready
from offsets.ranges import TopicPartition

LINGER_SECS = 0.25
"""How long an offer that is in a hurry waits for others that are."""
YOUNG_SECS = 2.0
"""How old a round may be for such an offer to wait for its end, which mostly comes sooner. After a failover, what no
leader has asked for is said again at the beginning of the new one's first round: it is one version with that."""
EARLY_SHARE, LITTLE_BYTES = 0.25, 8 << 20
"""After such a share of an interval the next round begins early where an offer of less than so much is in a hurry: its
partition goes to another task, as others' do at that time, and a round is one version for all of them. What is more has
reached a task's limits, and in a backlog there is always some."""
SECOND_SHARE = 0.5
"""Of an interval, after which a leader's second round begins: its first one settles what was open when the one before
ended, and only then the partitions of that one are read."""
WINDOW_SHARE = 0.8
"""Of an interval, in which a round is closed at the latest: what it commits has landed when the next one begins, for
which a task offers nothing of a table that it has an open offer for."""
SETTLED_MAX = 100_000
"""Offers whose outcome is remembered, for those that are said again: a round of 100 tasks and 500 types has half."""


@dataclass
class _Open:
    """The round that is not closed. ready: whose offers have all been said. again: whether it was said twice."""

    begin: Begin
    since: float
    ready: set[TopicPartition] = field(default_factory=set)
    again: bool = False


@dataclass(frozen=True)
class _Pending:
    """due: from when on it is committed, whatever else there is. infinity: with its round."""

    offer: Offer
    due: float


@dataclass
class _OfTable:
    """The offers of one table by their ids. due: when the first of them is."""

    offers: dict[str, _Pending] = field(default_factory=dict)
    due: float = float("inf")

    def add(self, one: _Pending) -> None:
        self.offers[one.offer.id] = one
        self.due = min(self.due, one.due)

    def put_off(self, until: Callable[[float], float]) -> None:
        """until: when an offer is due by then, of when it was."""
        self.offers = {name: _Pending(one.offer, until(one.due)) for name, one in self.offers.items()}
        self.due = min(one.due for one in self.offers.values())


class LeaderRounds:
    """Those of one leader. Belongs to the thread that hears the channel.

    closed: how many rounds were closed, by what closed them: `ready` (all partitions) or `late`.
    """

    def __init__(self, app: str, leader: str, interval_secs: float, timeout_secs: float) -> None:
        """timeout_secs: after which tasks commit by themselves."""
        self._app = app
        self._leader = leader
        self._interval_secs = interval_secs
        self._window_secs = min(WINDOW_SHARE * interval_secs, timeout_secs / 2)
        self._late_secs = min(interval_secs, timeout_secs / 4)
        self._number = 0
        self._next_begin = float("-inf")
        self._open: _Open | None = None
        # By table: with many tasks there are some ten thousand offers, and who looks for what is due looks often.
        self._pending: dict[str, _OfTable] = {}
        self._under_way: dict[str, frozenset[str]] = {}
        self._settled: OrderedDict[str, Outcome] = OrderedDict()
        self.closed = dict.fromkeys(("ready", "late"), 0)

    @property
    def pending(self) -> int:
        """Offers that are not committed yet."""
        waiting = sum(len(one.offers) for one in [*self._pending.values()])
        return waiting + sum(map(len, [*self._under_way.values()]))

    def forget(self) -> None:
        """Lead no more: the next leader is told all again. Commits that are under way end."""
        self._open, self._next_begin = None, float("-inf")
        self._pending.clear()

    def begin(self, now: float) -> Begin | None:
        """The round that begins now, or whose beginning is to be said again because somebody may not have heard it."""
        if self._open is not None:
            missed = not self._open.again and now >= self._open.since + self._window_secs / 2
            self._open.again |= missed
            return self._open.begin if missed else None
        if now < self._next_begin - (1 - EARLY_SHARE) * self._interval_secs:
            return None
        if now < self._next_begin and not any(_is_little(one.offer) for one in self._waiting()):
            return None
        self._number += 1
        self._next_begin = now + self._interval_secs * (SECOND_SHARE if self._number == 1 else 1.0)
        begin = Begin(self._app, self._leader, uuid.uuid4().hex, self._number)
        self._open = _Open(begin, now)
        for of_table in self._pending.values():
            of_table.put_off(lambda due: max(due, now + YOUNG_SECS))
        return begin

    def _waiting(self) -> Iterator[_Pending]:
        return (one for of_table in self._pending.values() for one in of_table.offers.values())

    def take(self, message: Offer | Ready, now: float) -> Outcome | None:
        """Note what a task has said; the outcome of an offer that is settled already and was said again."""
        if isinstance(message, Ready):
            if self._open is not None and message.round_id == self._open.begin.round_id:
                self._open.ready |= set(message.partitions)
            return None
        if (settled := self._settled.get(message.id)) is not None:
            return settled
        of_table = self._pending.get(message.table)
        if message.id in self._under_way.get(message.table, ()) or (of_table and message.id in of_table.offers):
            return None
        self._wait(_Pending(message, self._due(message, now)))
        return None

    def _wait(self, one: _Pending) -> None:
        self._pending.setdefault(one.offer.table, _OfTable()).add(one)

    def _due(self, offer: Offer, now: float) -> float:
        if not offer.round_id:
            young_until = self._open.since + YOUNG_SECS if self._open is not None else now
            return max(now + LINGER_SECS, young_until)
        of_open = self._open is not None and offer.round_id == self._open.begin.round_id
        return float("inf") if of_open else now + self._late_secs

    def close_due(self, now: float, partitions: Collection[TopicPartition]) -> bool:
        """Close the open round if it is time. partitions: all of the topics; none while they are not known."""
        if (round_ := self._open) is None:
            return False
        all_ready = 0 < len(partitions) <= len(round_.ready) and round_.ready.issuperset(partitions)
        if not all_ready and now < round_.since + self._window_secs:
            return False
        self.closed["ready" if all_ready else "late"] += 1
        self._open = None
        for of_table in self._pending.values():
            of_table.put_off(lambda _: now)
        return True

    def due(self, now: float) -> dict[str, tuple[Offer, ...]]:
        """Table -> the offers that are to be committed now; they count as under way until `done`.

        One table is committed once at a time. What is due takes along what is pending without a round to wait for.
        """
        begun: dict[str, tuple[Offer, ...]] = {}
        for table, waiting in self._pending.items():
            if waiting.due <= now and table not in self._under_way:
                begun[table] = tuple(one.offer for one in waiting.offers.values() if one.due != float("inf"))
        for table, offers in begun.items():
            self._under_way[table] = frozenset(offer.id for offer in offers)
            for one in self._pending.pop(table).offers.values():
                if one.offer.id not in self._under_way[table]:
                    self._wait(one)
        return begun

    def done(self, table: str, offers: Sequence[Offer], merged: Merged) -> Outcome | None:
        """What is to be said of a commit; None if nothing is known of any of its offers."""
        ids = {offer.id for offer in offers}
        if left := self._under_way.pop(table, frozenset()) - ids:
            self._under_way[table] = left
        landed = tuple(one for one in merged.landed if one in ids)
        dropped = {one: why for one, why in merged.dropped.items() if one in ids}
        if not landed and not dropped:
            return None
        rounds = [offer.round_id for offer in offers if offer.round_id]
        outcome = Outcome(
            self._app, self._leader, rounds[-1] if rounds else "", table, merged.version, merged.rows, landed, dropped
        )
        # Without those of which nothing is known: said again, they are tried again.
        self._settled |= dict.fromkeys([*landed, *dropped], outcome)
        while len(self._settled) > SETTLED_MAX:
            self._settled.popitem(last=False)
        return outcome


def _is_little(offer: Offer) -> bool:
    """Whether an offer in a hurry is of a partition that leaves rather than of a task's limits."""
    if offer.round_id or offer.manifest:
        return False
    sizes = [add.get("size") for add in offer.adds]
    return sum(n for n in sizes if isinstance(n, int)) < LITTLE_BYTES
