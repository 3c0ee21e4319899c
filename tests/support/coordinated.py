"""Tasks in coordinated mode over tables and a control topic in memory: steps are called, the clock is turned by hand.

    world.produce(10)            ten more records of each type in each partition
    world.passes(secs=1)         every task hears, loops and leads, ten times a second
    world.kill(task)             its memory is gone; what it has said may still be on its way
    world.is_exact()             every row once, no gap, up to the positions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.coordinate.coordinated import CoordinatedCommits
from exporter.coordinate.leader import Leader
from exporter.coordinate.leading import OwnsLeast
from exporter.coordinate.member import RoundMember
from exporter.coordinate.memory import MemoryTopic
from exporter.coordinate.rounds import LeaderRounds
from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.memory_merger import MemoryMerger
from exporter.core.outcome import Landed, Refused, Report, Stale
from exporter.core.writers import Claim, StagedFile, WriterKey
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

TYPES = ("click", "order")
INTERVAL_SECS, TIMEOUT_SECS, STEP_SECS = 5.0, 20.0, 0.1
FINGERPRINT = MemoryTable({}).fingerprint


class Inline(Executor):
    """Runs what it is given at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as a pool does
            future.set_exception(error)
        return future


@dataclass
class Task:
    """One process life. covered: what its writers have from the tables. claims: open ones, by event type.
    since: when there was something to commit first, by event type.

    hung: it neither hears nor loops, as one that was stopped. refused: commits that others have been faster for.
    """

    name: str
    owned: list[TopicPartition]
    committer: MemoryCommitter
    merger: MemoryMerger
    member: RoundMember
    leader: Leader
    commits: CoordinatedCommits
    covered: dict[WriterKey, Position] = field(default_factory=dict)
    claims: dict[str, tuple[list[Claim], Future[Report]]] = field(default_factory=dict)
    again: dict[str, list[Claim]] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    hung: bool = False
    refused: int = 0
    files: int = 0


class World:
    """Tasks over the partitions of one topic. now: the clock of all."""

    def __init__(self, partitions: int = 4, types: Sequence[str] = TYPES) -> None:
        self.now = 0.0
        self.tps = [TopicPartition("events", number) for number in range(partitions)]
        self.types = types
        self.ends = {WriterKey(name, tp): 0 for name in types for tp in self.tps}
        self.topic = MemoryTopic()
        self.tables = {name: MemoryTable({tp: Position(0, -1) for tp in self.tps}) for name in types}
        self.tasks: list[Task] = []
        self._lives = 0

    # what the world does

    def start(self, *owned: int) -> Task:
        """A task that has these partitions, from what the tables say of them."""
        self._lives += 1
        name, tps = f"task-{self._lives}", [self.tps[number] for number in owned]
        committer = MemoryCommitter(owner=name, tables=self.tables)
        merger = MemoryMerger(self.tables)
        channel, clock = self.topic.channel(), lambda: self.now
        member = RoundMember("app", name, committer, Inline(), channel, TIMEOUT_SECS, lambda: None, clock)
        rounds = LeaderRounds("app", name, INTERVAL_SECS, TIMEOUT_SECS)
        task: Task
        leadership = OwnsLeast(lambda: task.owned, lambda: self.tps)
        leader = Leader(rounds, leadership, merger, lambda: self.tps, Inline(), channel)
        grace_secs = 2 * INTERVAL_SECS
        commits = CoordinatedCommits(channel, member, leader, leadership, grace_secs, clock, threaded=False)
        task = Task(name, tps, committer, merger, member, leader, commits)
        for table in self.types:
            view = committer.view(table)
            assert view is not None
            committer.trust(table, view)
        self._read_positions(task, tps)
        self.tasks.append(task)
        return task

    def kill(self, task: Task) -> None:
        """kill -9: nobody owns its partitions until another one is given them."""
        self.tasks.remove(task)

    def gives(self, task: Task, *numbers: int) -> None:
        """The group assigns partitions to a task, which reads where they are."""
        tps = [self.tps[number] for number in numbers]
        task.owned = sorted({*task.owned, *tps})
        self._read_positions(task, tps)

    def produce(self, records: int, *numbers: int, types: Sequence[str] = ()) -> None:
        """More records of each type, in these partitions or in all."""
        for key in self.ends:
            if (not numbers or key.tp.partition in numbers) and key.event_type in (types or self.types):
                self.ends[key] += records

    def passes(self, secs: float) -> None:
        """Time goes on, and all tasks with it."""
        for _ in range(round(secs / STEP_SECS)):
            self.now += STEP_SECS
            for task in self.tasks:
                if not task.hung:
                    task.commits.step(0.0)
                    self.loop(task)

    def until(self, true: Callable[[], Any], secs: float, what: str) -> None:
        """Time goes on until something is so."""
        end = self.now + secs
        while not true():
            assert self.now < end, f"not within {secs} s: {what}"
            self.passes(STEP_SECS)

    # what a task's loop does

    def loop(self, task: Task) -> None:
        """One iteration: settle, then roll all that there is for a round that has begun, or has waited for two."""
        for name in [name for name, (_, future) in task.claims.items() if future.done()]:
            _, future = task.claims.pop(name)
            self._settle(task, future.result())
        asked = task.commits.occasion(flushing=False).asked
        for name in self.types:
            if name in task.claims:
                continue
            keys = [WriterKey(name, tp) for tp in task.owned]
            waits = any(self.ends[key] - 1 > task.covered[key].offset for key in keys)
            since = task.since.setdefault(name, self.now) if waits else task.since.pop(name, self.now)
            due = asked or (waits and self.now - since >= 2 * INTERVAL_SECS)
            claims = task.again.pop(name, []) or (self.claims(task, name) if due else [])
            if claims:
                task.since.pop(name, None)
                task.claims[name] = (claims, task.commits.submit(name, claims, False))
        task.commits.rolled(task.owned)

    def claims(self, task: Task, name: str) -> list[Claim]:
        """What a task has for one table; a marker where a partition has nothing and another task had rows."""
        found = []
        for tp in task.owned:
            key = WriterKey(name, tp)
            at, end = task.covered[key], self.ends[key] - 1
            if end > at.offset:
                task.files += 1
                path = f"day=2026-01-31/{task.name}-{task.files}.parquet"
                file = StagedFile(path, OffsetRange(at.offset + 1, end), end - at.offset, 1, fingerprint=FINGERPRINT)
                found.append(Claim(key, at.epoch, at.offset, end, (file,), task.committer.checked_through(name)))
        return found

    def _settle(self, task: Task, report: Report) -> None:
        for settled in report.settled:
            claim, outcome = settled.claim, settled.outcome
            if claim.key.tp not in task.owned:
                continue
            if isinstance(outcome, Landed):
                task.covered[claim.key] = outcome.position
            elif isinstance(outcome, Refused):
                task.refused += 1
                self._read_positions(task, [claim.key.tp])
            elif not isinstance(outcome, Stale):
                task.again.setdefault(claim.key.event_type, []).append(claim)

    def _read_positions(self, task: Task, tps: Sequence[TopicPartition]) -> None:
        for name in self.types:
            for tp in tps:
                task.covered[WriterKey(name, tp)] = self.tables[name].positions[tp]

    # what there is to say of it

    def versions(self, name: str) -> int:
        """Commits of a table so far."""
        return self.tables[name].version

    def is_all_there(self) -> bool:
        """Whether all that was produced is in the tables."""
        return all(self.tables[key.event_type].positions[key.tp].offset == end - 1 for key, end in self.ends.items())

    def require_exact(self) -> None:
        """Every record once, and none missing, up to the position of its partition in each table."""
        for name, table in self.tables.items():
            for tp, position in table.positions.items():
                ranges = sorted(
                    one for (of, _), found in table.rows.items() for one in found if of == tp
                )  # fmt: skip
                covered = [offset for one in ranges for offset in range(one.first_offset, one.last_offset + 1)]
                assert covered == list(range(position.offset + 1)), (name, tp, ranges, position)


def reported(future: Future[Report]) -> list[type]:
    """The outcomes of a future that is done."""
    return [type(settled.outcome) for settled in future.result(0).settled]


def claim_of(name: str, tp: TopicPartition, expected: int, new: int, **changes: Any) -> Claim:
    """One with a file of all that is between."""
    path = f"day=2026-01-31/{tp.partition}-{new}.parquet"
    file = StagedFile(path, OffsetRange(expected + 1, new), new - expected, 1, fingerprint=FINGERPRINT)
    return replace(Claim(WriterKey(name, tp), 0, expected, new, (file,), 0), **changes)
