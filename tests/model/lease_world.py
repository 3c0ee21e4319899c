"""The world of leases (protocol 8): nobody believes in a lease while another may believe in it too.

Processes beat by the exporter's own LeaseKeeper, once a tick at most; each call to the log is sent, done and answered
in steps of their own, with any number of ticks in between, or it is done or not and never answered. The world's clock
is everybody's monotonic one. As in wal_world.py a beat that is under way is run again from its start with what the
clock and the log have said so far.

    Process  (name, life, held, watched, beat, beaten at)
             held: (token, counter, began)      watched: (owner, token, counter, released, since)
             beat: (began, answer or None)      answer: (lease or None, refused or unanswered or "")
    World    (now, lease in the log, holders (owner, began))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.wal import lease_keeper as lease
from exporter.wal.lease_keeper import LeaseKeeper
from offsets.intents import WalUnreachable
from offsets.leases import HeldLease, Lease, LeaseTaken, Watched
from offsets.ranges import TopicPartition
from tests.model.search import SharedSteps, Silent, State, Step

TP = TopicPartition("t", 0)
CLOCK = ("clock",)
REFUSED, UNANSWERED = "refused", "unanswered"
STUBS: tuple[tuple[Any, str, Any], ...] = ((lease, "log", Silent()),)
"""Module, name, value: to be in place while this world is searched."""


@dataclass(frozen=True)
class LeaseScope:
    """lease_ticks: how long a lease lasts. ticks: of the clock in all. faults: calls without an answer, of each."""

    lease_ticks: int = 2
    ticks: int = 3
    lives: int = 1
    faults: int = 0


class _Waits(BaseException):
    """The beat has sent a request."""

    def __init__(self, request: State) -> None:
        super().__init__(request)
        self.request = request


class _Log:
    """The log of one beat: its only call waits, or has been answered; also the clock, which moves with it."""

    def __init__(self, began: int, now: int, answer: State | None) -> None:
        self.time, self.now, self.answer = began, now, answer

    def clock(self) -> int:
        return self.time

    def acquire(self, tp: TopicPartition, owner: str, ripe: Lease | None, routing: str) -> Lease:
        return self._call(("acquire", owner, ripe and (ripe.token, ripe.counter)))

    def renew(self, mine: Lease) -> Lease:
        return self._call(("renew", mine.owner, (mine.token, mine.counter)))

    def _call(self, request: State) -> Lease:
        if self.answer is None:
            raise _Waits(request)
        self.time = self.now
        item, problem = self.answer
        if problem == UNANSWERED:
            raise WalUnreachable("no answer")
        if problem == REFUSED:
            raise LeaseTaken(TP, _lease(item))
        return _lease(item)


class LeaseWorld(SharedSteps):
    """All steps of all processes."""

    def __init__(self, scope: LeaseScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return (0, 1, 2), ("P1", "P2", "clock")

    def first_state(self) -> tuple[State, State]:
        return (0, None, ()), (*((name, 1, None, None, None, -1, self.scope.faults) for name in "ab"), CLOCK)

    def steps(self, process: State, world: State) -> Iterator[Step]:
        if process != CLOCK:
            yield from self._steps(process, world)
        elif world[0] < self.scope.ticks:
            yield f"it is {world[0] + 1}", CLOCK, (world[0] + 1, *world[1:])

    def _steps(self, process: State, world: State) -> Iterator[Step]:
        name, life, held, _, beat, beaten, faults = process
        now, item, holders = world
        owner = f"{name}{life}"
        if life < self.scope.lives and (held or beat):
            left = tuple(one for one in holders if one[0] != owner)
            yield "crashes and starts again", (name, life + 1, None, None, None, -1, faults), (now, item, left)
        if beat is None:
            if beaten < now:
                yield "sends " + self._request(process, now)[0], (*process[:4], (now, None), now, faults), world
            return
        began, answer = beat
        if answer is not None:
            yield self._answered(process, world)
            return
        request = self._request(process, began)
        after, done = self.written(item, request)
        text = f"{request[0]} is " + ("done" if done else "refused")
        yield text, (*process[:4], (began, (after, "" if done else REFUSED)), beaten, faults), (now, after, holders)
        if faults:
            lost = (*process[:4], (began, (None, UNANSWERED)), beaten, faults - 1)
            yield f"{request[0]} is not done, no answer", lost, world
            if done:
                yield f"{request[0]} is done, no answer", lost, (now, after, holders)

    def _request(self, process: State, began: int) -> State:
        keeper = self._keeper(process, _Log(began, began, None))
        try:
            keeper.beat()
        except _Waits as waits:
            return waits.request
        raise RuntimeError(f"{process} asks for nothing")

    def _answered(self, process: State, world: State) -> Step:
        name, life, _, _, (began, answer), beaten, faults = process
        now, item, holders = world
        keeper = self._keeper(process, _Log(began, now, answer))
        keeper.beat()
        mine, seen = keeper._held.get(TP), keeper._watched.get(TP)
        held = mine and (mine.lease.token, mine.lease.counter, mine.began)
        watched = seen and (*_bare(seen.lease), seen.since)
        others = tuple(one for one in holders if one[0] != f"{name}{life}")
        after = tuple(sorted((*others, (f"{name}{life}", held[2])))) if held else others
        text = f"is answered: {'holds it since ' + str(held[2]) if held else 'has it not'}"
        return text, (name, life, held, watched, None, beaten, faults), (now, item, after)

    def _keeper(self, process: State, log: _Log) -> LeaseKeeper:
        name, life, held, watched, *_ = process
        owner, secs = f"{name}{life}", float(self.scope.lease_ticks)
        keeper = LeaseKeeper(log, owner, secs, lambda tp: None, clock=log.clock, threaded=False)  # type: ignore[arg-type]
        keeper.take([TP])
        if held:
            keeper._held[TP] = HeldLease(Lease(TP, owner, *held[:2]), held[2])
        if watched:
            keeper._watched[TP] = Watched(_lease(watched[:4]), watched[4])
        return keeper

    def written(self, item: State | None, request: State) -> tuple[State | None, bool]:
        """The conditional writes of exporter/wal/dynamodb.py: the lease afterwards, and whether it was written."""
        what, owner, seen = request
        if what == "renew":
            mine = item is not None and item[0] == owner and item[1:3] == seen and not item[3]
            return (owner, item[1], item[2] + 1, False) if mine else item, mine
        free = item is None or item[3] or item[0] == owner or item[1:3] == seen
        return (owner, (item[1] if item else 0) + 1, 0, False) if free else item, free

    # -- invariants

    def broken(self, world: State) -> str:
        now, _, holders = world
        held = [(owner, HeldLease(_lease((owner, 0, 0, False)), began)) for owner, began in holders]
        mine = [owner for owner, one in held if one.holds(now, self._secs)]
        return f"LEASE: {' and '.join(mine)} both hold it" if len(mine) > 1 else ""

    @property
    def _secs(self) -> float:
        return float(self.scope.lease_ticks)

    def went_back(self, before: State, after: State) -> str:
        return "MONOTONE: the token went back" if before[1] and (not after[1] or after[1][1] < before[1][1]) else ""

    def show(self, world: State) -> str:
        now, item, holders = world
        shown = "nobody's" if item is None else f"{item[0]}, token {item[1]}, counter {item[2]}"
        return f"at {now}: {shown}; held by {', '.join(f'{o} since {b}' for o, b in holders) or 'nobody'}"


def _lease(bare: State) -> Lease:
    owner, token, counter, released = bare
    return Lease(TP, owner, token, counter, released=released)


def _bare(one: Lease) -> State:
    return (one.owner, one.token, one.counter, one.released)
