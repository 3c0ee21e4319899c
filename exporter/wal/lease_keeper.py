"""The leases of one task in static assignment: taken, renewed and given back, beside the loop.

A thread of its own calls beat() every quarter of lease_secs, by the monotonic clock; only there do leases change. The
loop asks held() and check(), which read a clock and a dictionary and never the network.
This module must never decide whether a commit may land: the compare-and-set does (protocol, section 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from exporter import threads
from exporter.clock import monotonic
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.text import first_line
from offsets.intents import WalMismatch, WalUnreachable
from offsets.leases import HeldLease, Leases, LeaseTaken, Watched
from offsets.ranges import TopicPartition

log = get_logger(__name__)

BEATS = 4
"""Renewals that are tried while a lease lasts."""


@dataclass(eq=False, repr=False)
class LeaseKeeper:
    """Leases of one process life. wal: its deadline should be at most lease_secs / BEATS, so a log of its own.

    owner: unique per process life. on_lost(tp): called in the keeper's thread, once per loss; it may only set a flag.
    routing: own fingerprint, for the readers of the log. clock: monotonic seconds. threaded: False for tests that call
    beat() themselves.
    """

    wal: Leases
    owner: str
    lease_secs: float
    on_lost: Callable[[TopicPartition], None]
    routing: str = ""
    clock: Callable[[], float] = monotonic
    threaded: bool = True

    def __post_init__(self) -> None:
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._held: dict[TopicPartition, HeldLease] = {}
        self._watched: dict[TopicPartition, Watched] = {}
        self._told: set[TopicPartition] = set()
        self._due, self._closing = threads.event(), False
        self.trouble = ""
        """Why the last beat could not reach the log; empty if it could."""
        self._thread = threads.started(self._run, "leases") if self.threaded else None

    def take(self, tps: Iterable[TopicPartition]) -> None:
        """Try for these too, from now on and until they are given back."""
        self._wanted |= frozenset(tps)
        self._hurry()

    def give_back(self, tps: Iterable[TopicPartition]) -> None:
        """Want these no more; the next beat releases them."""
        self._wanted -= frozenset(tps)
        self._hurry()

    def held(self) -> frozenset[TopicPartition]:
        """The wanted partitions whose lease this process holds now, by its monotonic clock."""
        return frozenset(tp for tp in self._wanted if self.check(tp))

    def check(self, tp: TopicPartition) -> bool:
        """Whether the last successful renewal began less than lease_secs ago and none was refused since."""
        held = self._held.get(tp)
        return tp in self._wanted and held is not None and held.holds(self.clock(), self.lease_secs)

    def token(self, tp: TopicPartition) -> int:
        """The fencing token under which it is held, for the commit's metadata; 0 if it is not."""
        held = self._held.get(tp)
        return held.lease.token if held else 0

    def owners(self) -> dict[TopicPartition, str]:
        """Wanted partitions that others have, and who."""
        watched = dict(self._watched)
        return {tp: watched[tp].lease.owner for tp in sorted(self._wanted & watched.keys())}

    def close(self) -> None:
        """No more renewals; what is held is released as far as the log answers."""
        self._closing = True
        self._due.set()
        if self._thread is not None:  # waited for: a beat that is under way could take again what the last gives back
            self._thread.join()
        self._wanted = frozenset()
        self.beat()

    def beat(self) -> None:
        """Renew what is held, try for what is not, release what is not wanted; ends at the first call that fails."""
        trouble = ""
        try:
            for tp in sorted(self._held.keys() - self._wanted):
                self.wal.release(self._held.pop(tp).lease)
            for tp in sorted(self._wanted):
                self._keep(tp)
        except (WalUnreachable, WalMismatch) as error:
            trouble = error.message
        if trouble and not self.trouble:
            log.warning(Event.LEASES_NOT_RENEWED, error=trouble)
        self.trouble = trouble
        for tp, held in list(self._held.items()):
            if not held.holds(self.clock(), self.lease_secs):
                self._lose(tp, "not renewed in time")

    def _keep(self, tp: TopicPartition) -> None:
        """Renew, take or watch one lease, by one call at most."""
        held = self._held.get(tp)
        # Before the call: the owner's time may end too soon, but never after a challenger's (offsets/leases.py).
        began = self.clock()
        try:
            if held is not None:
                point(Fault.IN_LEASE_RENEWAL)
                self._held[tp] = HeldLease(self.wal.renew(held.lease), began)
                self._told.discard(tp)
                return
            watched = self._watched.get(tp)
            ripe = watched.lease if watched and watched.may_take(began, self.lease_secs) else None
            self._held[tp] = HeldLease(self.wal.acquire(tp, self.owner, ripe, self.routing), began)
        except LeaseTaken as error:
            self._refused(tp, error)
        else:
            self._watched.pop(tp, None)
            self._told.discard(tp)
            log.info(Event.LEASE_TAKEN, partition=str(tp), token=self.token(tp))

    def _refused(self, tp: TopicPartition, error: LeaseTaken) -> None:
        # After the answer: a challenger may wait too long, but never less than the owner counts.
        now = self.clock()
        if self._held.pop(tp, None) is not None:
            self._lose(tp, "taken by another process" if error.lease else "gone from the log")
        watched = self._watched.get(tp)
        if error.lease is None:
            self._watched.pop(tp, None)
        elif watched is None:
            self._watched[tp] = Watched(error.lease, now)
            log.info(Event.LEASE_WATCHED, partition=str(tp), owner=error.lease.owner)
        else:
            self._watched[tp] = watched.seen_again(error.lease, now)

    def _lose(self, tp: TopicPartition, why: str) -> None:
        """Tell it once; a renewal that succeeds after all makes it held again, and no other had it meanwhile."""
        if tp in self._told:
            return
        self._told.add(tp)
        log.warning(Event.LEASE_LOST, partition=str(tp), why=why)
        self.on_lost(tp)

    def _run(self) -> None:
        """The thread: beats that begin a quarter of lease_secs apart, and at once where somebody is in a hurry."""
        due = self.clock() + self.lease_secs / BEATS
        while not self._closing:
            self._due.wait(max(0.0, due - self.clock()))
            self._due.clear()  # before the beat: who is in a hurry during one gets another
            due = self.clock() + self.lease_secs / BEATS
            if not self._closing:
                self._beat_on()

    def _beat_on(self) -> None:
        """Whatever goes wrong in a beat, the next one is made: a lease that nobody renews is soon somebody else's."""
        try:
            self.beat()
        except Exception as error:  # noqa: BLE001 - told, and tried again
            self.trouble = first_line(error)
            log.error(Event.LEASES_NOT_RENEWED, error=self.trouble)

    def _hurry(self) -> None:
        """Let the next beat be due now."""
        self._due.set()
