"""The world of valid_through (protocol 4.12): records come in order, leaders commit claims, and say through which time.

Claims are frozen one by one; then a leader chooses on a snapshot, asks which partitions there are, asks for the ends of
those that take no part, and commits: each in a step of its own, with other records, partitions and leaders in between.
What it says is the exporter's own ThroughTimes: the call is run again from its start with the answers so far, up to the
first question without one, as in wal_world.py.

    Producer  ("producer",)
    Leader    (claims ((partition, expected, new), ...), snapshot (positions, said by then) or None, answers)
    World     (logs: per partition the times of its records, positions, now, said by the last version, greatest said)

Records do not go back in time, within a partition or between them; several may have the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.valid_through import as_ms
from exporter.protocol.through import ThroughSaid, ThroughTimes
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import THROUGH, TableView
from tests.model.search import SharedSteps, State, Step, remember
from tests.model.world import APP

PRODUCER: State = ("producer",)
FIRST = 10
"""The time of the first record, milliseconds."""


@dataclass(frozen=True)
class ThroughScope:
    """partitions: at first. added: later. records: in all. leaders: that commit beside each other."""

    partitions: int = 2
    added: int = 0
    records: int = 3
    leaders: int = 2
    mode: str = "idle_aware"


class _Waits(BaseException):
    """A question has no answer yet."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class _Topics:
    """What a leader has been answered, in order. answers: the number of partitions, then the ends of all."""

    def __init__(self, answers: State) -> None:
        self.left = list(answers)

    def partitions(self) -> Collection[TopicPartition]:
        return [_tp(p) for p in range(self._asked("partitions"))]

    def high_watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        ends = self._asked("ends")
        return {tp: ends[tp.partition] for tp in tps if tp.partition < len(ends)}

    def _asked(self, question: str) -> Any:
        if not self.left:
            raise _Waits(question)
        return self.left.pop(0)


class _Table:
    """A table whose log nobody has to read: its property says all that was said before."""

    event_type = "A"


class ThroughWorld(SharedSteps):
    """All steps of all processes. Each touches the topic or the table."""

    def __init__(self, scope: ThroughScope) -> None:
        self.scope = scope
        remember(self, "told")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        leaders = self.scope.leaders
        return (0, *[1] * leaders), ("producer", *(f"L{n + 1}" for n in range(leaders)))

    def first_state(self) -> tuple[State, State]:
        logs = ((),) * self.scope.partitions
        world = (logs, (-1,) * len(logs), FIRST, 0, 0)
        return world, (PRODUCER, *[((), None, ())] * self.scope.leaders)

    def steps(self, process: State, world: State) -> Iterator[Step]:
        return self._produces(process, world) if process == PRODUCER else self._leads(process, world)

    def _produces(self, process: State, world: State) -> Iterator[Step]:
        logs, positions, now, *said = world
        if len(logs) < self.scope.partitions + self.scope.added:
            yield f"p{len(logs)} is added", process, ((*logs, ()), (*positions, -1), now, *said)
        if sum(map(len, logs)) < self.scope.records:
            for p, log in enumerate(logs):
                for time in (now, now + 1):
                    grown = (*logs[:p], (*log, time), *logs[p + 1 :])
                    yield f"a record of {time} comes to p{p}", process, (grown, positions, time, *said)

    def _leads(self, process: State, world: State) -> Iterator[Step]:
        claims, chosen, answers = process
        logs, positions, *_ = world
        if chosen is None:
            taken = {p for p, *_ in claims}
            for p, log in enumerate(logs):
                for new in range(positions[p] + 1, len(log)) if p not in taken else ():
                    more = tuple(sorted((*claims, (p, positions[p], new))))
                    yield f"the claim p{p} {positions[p]}->{new} is frozen", (more, chosen, answers), world
        if not claims:
            return
        yield "ends, and begins again", ((), None, ()), world
        if chosen is None:
            if all(positions[p] == expected for p, expected, _ in claims):
                yield "chooses", (claims, (positions, world[4]), answers), world
            return
        times = tuple((p, new, max(logs[p][expected + 1 : new + 1])) for p, expected, new in claims)
        said, question = self.told(times, *chosen, answers)
        if question:
            answer = len(logs) if question == "partitions" else tuple(len(log) for log in logs)
            yield f"asks for the {question}: {answer}", (claims, chosen, (*answers, answer)), world
        elif all(positions[p] == expected for p, expected, _ in claims):
            moved = list(positions)
            for p, _, new in claims:
                moved[p] = new
            after = (logs, tuple(moved), world[2], said or world[3], max(said, world[4]))
            yield f"commits, says {said or 'nothing'}", ((), None, ()), after

    def told(self, times: State, positions: State, before: int, answers: State) -> tuple[int, str]:
        """What a commit says, or what its leader has to ask first."""
        known = {str(AppId(APP, _tp(p), 0)): at for p, at in enumerate(positions)}
        through = ThroughTimes(APP, self.scope.mode, _Topics(answers), lambda: 0.0)  # type: ignore[arg-type]
        through.said["A"] = before
        claims = [ThroughSaid(_tp(p), new, time) for p, new, time in times]
        try:
            said = through.metadata(_Table(), TableView(-1, "id", "", known), claims)  # type: ignore[arg-type]
        except _Waits as waits:
            return 0, waits.question
        return as_ms(said.get(THROUGH, "")), ""

    # -- invariants

    def broken(self, world: State) -> str:
        """THROUGH: no record that is not in the table yet, of now or to come, has a time at or below what was said."""
        logs, positions, now, _, most = world
        for p, log in enumerate(logs):
            for offset in range(positions[p] + 1, len(log)):
                if log[offset] <= most:
                    return f"THROUGH: {most} was said, record {offset} of p{p} has {log[offset]} and comes later"
        return f"THROUGH: {most} was said, a record of {now} may come" if now <= most else ""

    def went_back(self, before: State, after: State) -> str:
        return f"THROUGH: {after[3]} is said after {before[3]}" if after[3] < before[3] else ""

    def show(self, world: State) -> str:
        logs, positions, _, _, most = world
        shown = "  ".join(f"p{p}={positions[p]} of {list(log)}" for p, log in enumerate(logs))
        return f"{shown}  through {most or 'nothing'}"


def _tp(p: int) -> TopicPartition:
    return TopicPartition("t", p)
