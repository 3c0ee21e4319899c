"""What the write-ahead log and the consumer group are told, held against the tables: ORDER, LEASE.

    an intent    is there as started before its commit is in a table (where the log is required)
                 at the end: completed as the version that its commit is, or failed and in no table
    the group    is told no offset that a table is not at, and none whose commits are not completed
                 at the end: of everything
    a lease      two tasks never hold one at a time

Beside oracle.py, whose tables it reads; of the product it knows an intent and what a lease's keeper says that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from offsets.intents import Intent, IntentState
from offsets.ranges import TopicPartition
from tests.sim.expected import DEAD_LETTERS, Broken

if TYPE_CHECKING:
    from tests.sim.world import World

Where = tuple[str, TopicPartition]
"""A table, and a partition."""


class Told(dict[TopicPartition, int]):
    """The group's offsets. check: asked before they are what they are told to be."""

    def __init__(self, check: Callable[[Mapping[TopicPartition, int]], None]) -> None:
        super().__init__()
        self._check = check

    def update(self, offsets: Mapping[TopicPartition, int]) -> None:  # type: ignore[override]
        self._check(offsets)
        super().update(offsets)


class Ledger:
    """One world's. landed: of each intent that is in its table, the version. group: what the group is told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._oracle = world.oracle
        self._required = world.features.wal == "required"
        self._untouched = not world.features.restored
        """Whether no table is taken back: of one that is, log and group know more than it has."""
        self.landed: dict[tuple[Where, str], int] = {}
        self.group = Told(self._told)

    def _intents(self, of: Container[TopicPartition] | None = None) -> Iterator[Intent]:
        """Those of some partitions, each of which has a place of its own in the log; None: all."""
        memory = self._world.memory
        for some in () if memory is None else memory.intents.values():
            if of is None or next(iter(some.values())).key.tp in of:
                yield from some.values()

    def _services(self) -> list[Any]:
        """Of the tasks that are there."""
        slots = self._world.slots
        return [slot.service for slot in slots if slot.service and slot.process and slot.process.alive]

    def committed(self, name: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
        """A table has a version. actions: those of its entry."""
        infos = [one["commitInfo"].get("userMetadata") or "{}" for one in actions if "commitInfo" in one]
        metadata = json.loads(infos[0]) if infos else {}
        if "action" in metadata:  # of start-up, of which no intent is written
            return
        found: set[tuple[Where, str]] = set()
        for tags in (one["add"]["tags"] for one in actions if "add" in one):
            found.add(((name, TopicPartition(tags["topic"], int(tags["partition"]))), tags["commit_id"]))
        self.landed |= dict.fromkeys(found, version)
        if self._required:
            tps = {tp for (_, tp), _ in found}
            begun = {_called(one) for one in self._intents(tps) if one.state is IntentState.STARTED}
            for (_, tp), commit_id in sorted(found - begun):
                self._world.wrong(Broken(f"ORDER: {name} {tp} gets {commit_id}, which the log has not as started"))

    def _told(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not self._untouched:
            return
        for tp, offset in offsets.items():
            records = self._oracle.topics.of[tp.topic, tp.partition]
            for name in (*(records.configuration or self._oracle.topics.begun).declared, DEAD_LETTERS):
                at = self._oracle.tables[name].position((tp.topic, tp.partition))
                if at is not None and at < offset - 1:
                    self._world.wrong(Broken(f"ORDER: the group is told {offset} of {tp}, {name} is at {at}"))
            owed = [one.commit_id for one in self._owed({tp}) if one.new < offset]
            if self._required and owed:
                self._world.wrong(Broken(f"ORDER: the group is told {offset} of {tp}, {owed[0]} is not completed"))

    def _owed(self, of: Container[TopicPartition] | None = None) -> list[Intent]:
        """Intents that are started still, though their commits are in the tables."""
        return [one for one in self._intents(of) if one.state is IntentState.STARTED and _called(one) in self.landed]

    def missing(self) -> list[str]:
        """What the log, where it is required, and the group, where there is one, are to be told yet."""
        lines = []
        if self._untouched and self._required:
            lines += [f"{one.commit_id} is not completed" for one in self._owed()]
        if self._untouched and not self._world.features.leases:
            ends = {TopicPartition(*partition): of.end for partition, of in sorted(self._oracle.topics.of.items())}
            lines += [f"the group is not told {end} of {tp}" for tp, end in ends.items() if self.group.get(tp, 0) < end]
        return lines

    def finished(self) -> None:
        """What the log says of commits is so, and nothing is left to be told. Raises Broken."""
        if missing := self.missing():
            raise Broken(f"PROGRESS: {'; '.join(missing[:5])}")
        for one in self._intents() if self._untouched else ():
            version = self.landed.get(_called(one))
            if one.state is IntentState.FAILED and version is not None:
                raise Broken(f"ORDER: {one.commit_id} has failed, as the log says, and is version {version}")
            if one.state is IntentState.COMPLETED and one.rows and version != one.version:
                raise Broken(f"ORDER: {one.commit_id} is version {one.version}, as the log says, and is {version}")

    def look(self) -> None:
        """LEASE: what two tasks say that they hold now, who both could commit with it."""
        holder: set[TopicPartition] = set()
        for service in self._services():
            leases = getattr(service._membership, "_leases", None)  # what a task believes is told nowhere else
            held = frozenset() if leases is None else leases.held()
            if twice := sorted(holder & held):
                self._world.wrong(Broken(f"LEASE: two tasks hold {twice[0]}"))
            holder |= held


def _called(one: Intent) -> tuple[Where, str]:
    return (one.key.event_type, one.key.tp), one.commit_id
