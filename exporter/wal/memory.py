"""The write-ahead log in memory, for tests: offsets.intents.WriteAheadLog, stricter than any real one.

What no writer of ours may ever do is an AssertionError here, which no code catches: an item that is written twice by
one call, a commit that is told otherwise than it was begun, a later position in an earlier version of its table, a
lease that is renewed after it was given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from exporter import threads
from offsets.intents import Intent, IntentKey, IntentState, WalMismatch, WalUnreachable, partition_key, sort_key
from offsets.leases import Lease, LeaseTaken
from offsets.ranges import TopicPartition

Answer = TypeVar("Answer")
Around = Callable[[str, Callable[[], Any]], Any]
"""What happens around a call: (its name, go on) -> its answer. It may raise WalUnreachable, before or after."""
Place = tuple[str, str]
"""Partition key and sort key."""

SAME = ("expected", "new", "first", "last", "rows", "table_id")
"""What a commit says of itself from its beginning to its end."""


class Memory:
    """What the logs of several processes and apps write to. intents: by partition key, then by sort key."""

    def __init__(self) -> None:
        self.intents: dict[str, dict[str, Intent]] = {}
        self.leases: dict[str, Lease] = {}
        self.lock = threads.lock()


class MemoryLog:
    """One process's log of one app. counts and calls: by the name of the method."""

    def __init__(self, app: str, memory: Memory | None = None, around: Around | None = None) -> None:
        """memory: shared with other processes; a new one if None."""
        self.app = app
        self.memory = memory or Memory()
        self._around = around or (lambda name, go_on: go_on())
        self._counts: Counter[str] = Counter()
        self._calls: Counter[tuple[str, str]] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self._counts)

    @property
    def calls(self) -> Mapping[tuple[str, str], int]:
        return dict(self._calls)

    def start(self, intents: Sequence[Intent]) -> None:
        for intent in intents:
            if intent.state is not IntentState.STARTED:
                raise ValueError(f"not a new intent: {intent!r}")
        self._call("start", lambda: self._put(intents, of=()))

    def complete(self, intents: Sequence[Intent], version: int) -> None:
        landed = [replace(intent, state=IntentState.COMPLETED, version=version) for intent in intents]
        self._call("complete", lambda: self._put(landed, of=(IntentState.STARTED,)))

    def record(self, intents: Sequence[Intent]) -> None:
        for intent in intents:
            if intent.state is not IntentState.COMPLETED:
                raise ValueError(f"not a completed intent: {intent!r}")
        self._call("record", lambda: self._put(intents, of=(IntentState.STARTED,)))

    def fail(self, intents: Sequence[Intent]) -> None:
        self._call("fail", lambda: self._fail(intents))

    def _fail(self, intents: Sequence[Intent]) -> None:
        there = [one for one in intents if self._at(self._place(one)) is not None]
        self._put([replace(one, state=IntentState.FAILED, version=None) for one in there], of=(IntentState.STARTED,))

    def read(self, tp: TopicPartition) -> tuple[Intent, ...]:
        return self._call("read", lambda: self._live(tp))

    def _live(self, tp: TopicPartition) -> tuple[Intent, ...]:
        mine = self._of(tp)
        started = [one for one in mine if one.state is IntentState.STARTED]
        newest: dict[IntentKey, Intent] = {}
        for one in sorted(mine, key=lambda one: (one.new, one.version or 0)):
            if one.state is IntentState.COMPLETED:
                newest[one.key] = one
        return tuple(sorted([*started, *newest.values()], key=lambda one: (one.key, one.new)))

    def failed(self, tp: TopicPartition) -> tuple[tuple[Intent, ...], bool]:
        found = self._call("failed", lambda: [one for one in self._of(tp) if one.state is IntentState.FAILED])
        return tuple(sorted(found, key=lambda one: (one.started_ms, one.key))), True

    def acquire(self, tp: TopicPartition, owner: str, watched: Lease | None = None, routing: str = "") -> Lease:
        return self._call("acquire", lambda: self._acquire(tp, owner, watched, routing))

    def _acquire(self, tp: TopicPartition, owner: str, watched: Lease | None, routing: str) -> Lease:
        _insist(bool(owner), "an owner has a name")
        _insist(watched is None or watched.tp == tp, "{!r} is watched for {}", watched, tp)
        pk = partition_key(self.app, tp)
        there = self.memory.leases.get(pk)
        seen = watched is not None and there is not None and _same_turn(there, watched)
        if there is not None and not (there.released or there.owner == owner or seen):
            raise LeaseTaken(tp, there)
        token = 1 if there is None else there.token + 1
        self.memory.leases[pk] = taken = Lease(tp, owner, token, 0, routing)
        return taken

    def renew(self, lease: Lease) -> Lease:
        return self._call("renew", lambda: self._renew(lease))

    def _renew(self, lease: Lease) -> Lease:
        _insist(not lease.released, "{!r} was given back", lease)
        pk = partition_key(self.app, lease.tp)
        there = self.memory.leases.get(pk)
        mine = there is not None and not there.released and (there.owner, there.token) == (lease.owner, lease.token)
        # One more than it was is a renewal of ours whose answer was lost.
        if there is None or not mine or there.counter not in (lease.counter, lease.counter + 1):
            raise LeaseTaken(lease.tp, there)
        self.memory.leases[pk] = renewed = replace(there, counter=there.counter + 1)
        return renewed

    def release(self, lease: Lease) -> None:
        self._call("release", lambda: self._release(lease))

    def _release(self, lease: Lease) -> None:
        pk = partition_key(self.app, lease.tp)
        there = self.memory.leases.get(pk)
        if there is not None and (there.owner, there.token) == (lease.owner, lease.token):
            self.memory.leases[pk] = replace(there, released=True)

    def lease(self, tp: TopicPartition) -> Lease | None:
        return self._call("lease", lambda: self.memory.leases.get(partition_key(self.app, tp)))

    def _call(self, name: str, do: Callable[[], Answer]) -> Answer:
        """One call: alone in the memory, counted by how it ended."""
        self._counts[name] += 1

        def alone() -> Answer:
            with self.memory.lock:
                return do()

        try:
            answer: Answer = self._around(name, alone)
        except (WalMismatch, LeaseTaken):
            self._calls[name, "refused"] += 1
            raise
        except WalUnreachable:
            self._calls[name, "unreachable"] += 1
            raise
        self._calls[name, "answered"] += 1
        return answer

    def _put(self, intents: Sequence[Intent], of: Sequence[IntentState]) -> None:
        """All of them or none. of: the states that what is there may be taken from, unless it says the same already."""
        places = [self._place(one) for one in intents]
        _insist(len({*places}) == len(places), "one commit of one writer is written twice by one call")
        for place, one in zip(places, intents, strict=True):
            there = self._at(place)
            if there is not None and (there.state, there.version) != (one.state, one.version) and there.state not in of:
                raise WalMismatch(
                    f"{one.key.tp} {one.key.event_type}: the log says that commit {one.commit_id} is "
                    f"{there.state.value} (version {there.version}), this process that it is {one.state.value} "
                    f"(version {one.version})"
                )
        for place, one in zip(places, intents, strict=True):
            self._insist_on(one, self._at(place))
        for (partition, sort), one in zip(places, intents, strict=True):
            self.memory.intents.setdefault(partition, {})[sort] = one

    def _insist_on(self, one: Intent, there: Intent | None) -> None:
        """AssertionError for what no writer says."""
        _insist(one.first <= one.last <= one.new, "{!r} is no range", one)
        if there is not None:
            same = all(getattr(there, name) == getattr(one, name) for name in SAME)
            _insist(same, "{!r} was begun as {!r}", one, there)
        if one.version is None:
            return
        for other in self._of(one.key.tp):
            if other.version is not None and other.key == one.key:
                ordered = (one.new < other.new) == (one.version < other.version)
                _insist(one.new == other.new or ordered, "{!r} and {!r} are not in the order of versions", one, other)

    def _place(self, one: Intent) -> Place:
        """Raises BadName for what no key can hold."""
        return partition_key(self.app, one.key.tp), sort_key(one.key, one.new, one.commit_id)

    def _at(self, place: Place) -> Intent | None:
        return self.memory.intents.get(place[0], {}).get(place[1])

    def _of(self, tp: TopicPartition) -> list[Intent]:
        pk = partition_key(self.app, tp)
        return [*self.memory.intents.get(pk, {}).values()]


def _same_turn(one: Lease, other: Lease) -> bool:
    return (one.token, one.counter) == (other.token, other.counter)


def _insist(holds: bool, says: str, *of: object) -> None:
    if not holds:
        raise AssertionError(says.format(*of))
