"""The world of values that name their schemas by ids of a registry (protocol 3.8).

One topic partition, the tables A and D (the dead letters), records that come one by one, each with an id. A text may
say that its records are good, which A gets, or bad, which D gets; what is unknown D gets. The registry has no text at
first, gets one at any moment, and may be wiped and filled with another one. Tasks plan, read, integrate, commit by
compare-and-set and look ids up; they crash and pause anywhere, between a look-up's answer and its record too. What is
decided of an id is a list of files, each made only if it is not there yet.

    Task     (TASK, (writers of A and D), what is known of each id, rounds, look-up)
    Writer   (covered, frontier, staged offsets)
    Round    (start, planned end, end, bound of A, bound of D, offsets for A, offsets for D)     end: where it ended
    Look-up  () or (id, number of the file to be made, what it will say)
    World    (records so far, the registry's text of each id, what is decided of each id, A, D)
    Table    (position, offsets of its rows)
    Decision "g" or "b": a text; a number: unknown through this offset

Which decision speaks of a record, plans and integration are the project's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.core.plan import Budget, expected, plan_round
from exporter.core.schemas import Decision, KnownSchemas, SchemaText, UnknownId
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey, integrate
from offsets.ranges import OffsetRange, TopicPartition
from tests.model.search import SharedSteps, State, Step, remember

TP = TopicPartition("t", 0)
A, D = 0, 1
NAMES = ("A", "D")
TASK, TIME = "task", "time"
TEXTS = {"g": SchemaText("AVRO", "good"), "b": SchemaText("AVRO", "bad")}
TABLE_OF = {"good": A, "bad": D}


@dataclass(frozen=True)
class SchemaScope:
    """log: the id of the record at each offset. first: how many are there at the start. tasks: at once.

    rounds: that a task reads at a time. texts: which there may be. wiped: whether a text may be replaced in the
    registry.
    """

    log: str = "11"
    first: int = 1
    tasks: int = 2
    rounds: int = 1
    texts: str = "g"
    wiped: bool = False


class SchemaWorld(SharedSteps):
    """All steps of all processes. The log and the registry change at any time."""

    def __init__(self, scope: SchemaScope) -> None:
        self.scope = scope
        self.ids = sorted(set(scope.log))
        remember(self, "planned", "integrated", "table_of")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        tasks = tuple(f"T{number + 1}" for number in range(self.scope.tasks))
        return (*(0 for _ in tasks), 1), (*tasks, "time")

    def first_state(self) -> tuple[State, State]:
        nothing = tuple("" for _ in self.ids)
        world = (self.scope.first, nothing, tuple(() for _ in self.ids), (-1, ()), (-1, ()))
        return world, (*(self.fresh(world) for _ in range(self.scope.tasks)), (TIME,))

    def fresh(self, world: State, known: State | None = None) -> State:
        """A task that has read the tables. known: what it has of decisions."""
        writers = tuple((position, position, ()) for position, _ in world[3:])
        return (TASK, writers, tuple(() for _ in self.ids) if known is None else known, (), ())

    def steps(self, process: State, world: State) -> Iterator[Step]:
        return self._time(world) if process[0] == TIME else self._task(process, world)

    def _time(self, world: State) -> Iterator[Step]:
        end, registry, *rest = world
        if end < len(self.scope.log):
            yield f"record {end} comes", (TIME,), (end + 1, registry, *rest)
        for number, text in enumerate(registry):
            for new in self.scope.texts:
                if new != text and (not text or self.scope.wiped):
                    after = (*registry[:number], new, *registry[number + 1 :])
                    yield f"the registry has id {self.ids[number]} as {new}", (TIME,), (end, after, *rest)

    def _task(self, process: State, world: State) -> Iterator[Step]:
        _, writers, known, rounds, look_up = process
        if len(rounds) < self.scope.rounds:
            for round_ in self.planned(writers, known, rounds, world[0]):
                text = f"reads {round_[0]}..{round_[2] - 1} of {round_[0]}..{round_[1] - 1}"
                yield text, (*process[:3], (*rounds, round_), look_up), world
        if rounds:
            yield "integrates", (TASK, self.integrated(writers, rounds[0]), known, rounds[1:], look_up), world
        for name, writer in enumerate(writers):
            if writer[1] > writer[0]:
                yield self._commits(process, world, name)
        yield from self._looks_up(process, world)
        if process != (fresh := self.fresh(world)):
            yield "crashes and starts again", fresh, world

    def _commits(self, process: State, world: State, name: int) -> Step:
        _, writers, known, rounds, look_up = process
        covered, frontier, staged = writers[name]
        position, rows = world[3 + name]
        if position != covered:
            return f"commit of {NAMES[name]}: refused", self.fresh(world, known), world
        table = (frontier, (*rows, *staged))
        after = (*writers[:name], (frontier, frontier, ()), *writers[name + 1 :])
        world = (*world[: 3 + name], table, *world[4 + name :])
        return f"commits {NAMES[name]} at {frontier}", (TASK, after, known, rounds, look_up), world

    def _looks_up(self, process: State, world: State) -> Iterator[Step]:
        """The files first, then the registry; its answer is recorded later, if nobody was quicker."""
        known, look_up = process[2], process[4]
        if look_up:
            number, file, says = look_up
            yield self._records(process, world, number, file, says)
            return
        for number in sorted({self.ids.index(self.scope.log[at]) for at in range(world[0])}):
            if all(self.table_of(at, known) is not None for at in self.of_id(number, world[0])):
                continue
            if len(world[2][number]) > len(known[number]):
                yield f"reads what is decided of id {self.ids[number]}", self.knowing(process, world, number), world
                continue
            says = world[1][number] or world[0] - 1
            asked = (*process[:4], (number, len(known[number]), says))
            yield f"asks for id {self.ids[number]}: {self.said(says)}", asked, world

    def _records(self, process: State, world: State, number: int, file: int, says: Any) -> Step:
        there = world[2][number]
        if len(there) > file:
            return "records it: somebody else did", self.knowing(process, world, number), world
        decided = (*world[2][:number], (*there, says), *world[2][number + 1 :])
        after = (*world[:2], decided, *world[3:])
        return f"records id {self.ids[number]}: {self.said(says)}", self.knowing(process, after, number), after

    def knowing(self, process: State, world: State, number: int) -> State:
        """The task with what is decided of an id by now."""
        known = process[2]
        return (*process[:2], (*known[:number], world[2][number], *known[number + 1 :]), process[3], ())

    # -- what becomes of records

    def of_id(self, number: int, end: int) -> Iterator[int]:
        return (at for at in range(end) if self.scope.log[at] == self.ids[number])

    def table_of(self, offset: int, known: State) -> int | None:
        """A or D; None while no decision that is known speaks of the record."""
        decided = {number: tuple(map(_real, one)) for number, one in enumerate(known)}
        found = KnownSchemas(decided).of(self.ids.index(self.scope.log[offset]), TP, offset)
        if found is None:
            return None
        return TABLE_OF[found.text] if isinstance(found, SchemaText) else D

    def planned(self, writers: State, known: State, rounds: State, end: int) -> tuple[State, ...]:
        """The next round, on top of those that are read, as it will end."""
        running = [self.real_plan(one, one[1]) for one in rounds]
        plans = plan_round(expected(self.real(writers), running, 0.0), {TP: end}, Budget(end), 0.0)
        return tuple(self.read(plan, known) for plan in plans)

    def read(self, plan: PartitionPlan, known: State) -> State:
        """What tasks stage of a plan, up to the first record that cannot be read."""
        tables = {at: self.table_of(at, known) for at in range(plan.start, plan.end)}
        end = next((at for at, table in tables.items() if table is None), plan.end)
        bounds = [plan.bounds[name] for name in NAMES]
        staged = (
            tuple(at for at, table in tables.items() if at < end and table == name and at > bounds[name])
            for name in (A, D)
        )
        return (plan.start, plan.end, end, *bounds, *staged)

    def integrated(self, writers: State, round_: State) -> State:
        files = {
            NAMES[name]: (StagedFile(",".join(map(str, offsets)), OffsetRange(offsets[0], offsets[-1]), 1, 1),)
            for name, offsets in enumerate(round_[5:])
            if offsets
        }
        done = integrate(self.real(writers), Fragment(self.real_plan(round_, round_[2]), files), 0.0).writers
        return tuple(_compact(done[WriterKey(name, TP)]) for name in NAMES)

    def real_plan(self, round_: State, end: int) -> PartitionPlan:
        return PartitionPlan(TP, 1, 0, round_[0], end, dict(zip(NAMES, round_[3:5], strict=True)))

    def real(self, writers: State) -> dict[WriterKey, Writer]:
        found = {}
        for name, (covered, frontier, staged) in zip(NAMES, writers, strict=True):
            files = tuple(StagedFile(str(at), OffsetRange(at, at), 1, 1) for at in staged)
            found[WriterKey(name, TP)] = Writer(WriterKey(name, TP), 0, 1, covered, frontier, staged=files)
        return found

    # -- invariants

    def broken(self, world: State) -> str:
        end, _, _, *tables = world
        for offset in range(end):
            rows = [NAMES[name] for name in (A, D) for at in tables[name][1] if at == offset]
            if len(rows) > 1:
                return f"ONCE: record {offset} is in {rows}"
            if not rows and min(position for position, _ in tables) >= offset:
                return f"COVER: both tables are past record {offset}, and none has it"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE; and nothing that is decided changes."""
        for name in (A, D):
            if after[3 + name][0] < before[3 + name][0]:
                return f"MONOTONE: {NAMES[name]} went back"
        return ""

    def show(self, world: State) -> str:
        """The registry, what is decided, and the tables in one line."""
        _, registry, decided, *tables = world
        ids = (
            f"{one}={registry[number] or '-'}/{','.join(map(self.said, decided[number])) or '-'}"
            for number, one in enumerate(self.ids)
        )
        shown = (f"{NAMES[name]}={position}{list(rows)}" for name, (position, rows) in enumerate(tables))
        return "  ".join((*ids, *shown))

    @staticmethod
    def said(says: Any) -> str:
        return f"unknown through {says}" if isinstance(says, int) else says

    # -- a fair run without faults

    def clean_step(self, process: State, world: State) -> tuple[str, State, State] | None:
        """The next step of a task that is left alone: look up, integrate, commit, read."""
        moves = [move for move in self._task(process, world) if not move[0].startswith("crashes")]
        moves = [move for move in moves if not move[0].startswith("reads ") or _reads_on(move[1])]
        for words in ("records", "integrates", "commit", "reads what", "reads", "asks"):
            if found := [move for move in moves if move[0].startswith(words)]:
                return found[0]
        return None

    def finished(self, world: State) -> bool:
        return all(position == world[0] - 1 for position, _ in world[3:])


def _reads_on(process: State) -> bool:
    """Whether the last round of a task covers anything."""
    return not process[3] or process[3][-1][2] > process[3][-1][0]


def _real(decision: Any) -> Decision:
    return UnknownId({TP: decision}) if isinstance(decision, int) else TEXTS[decision]


def _compact(writer: Writer) -> State:
    staged = tuple(int(at) for file in writer.staged for at in file.path.split(","))
    return (writer.covered, writer.frontier, staged)
