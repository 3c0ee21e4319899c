"""The world of a record that ends its tasks from some moment on: before, any table may have passed it (3.7).

One topic partition of one record, the tables A and D (the dead letters). Tasks read the tables, the dead letters last,
and commit by compare-and-set; between the two what is read of either table may be dropped, and is read again. At any
moment the record becomes deadly: from then on no task gets past it but by condemning it, or by what it has read of it
before. A repair takes A back behind the record, at any moment, once: A first, then the dead letters follow into
the same epoch; while A is ahead of them every task stays away (5.3a). Tasks and the repair crash and pause anywhere.

    Task     (TASK, memory, read)       memory: (epoch, offset) of A, of D, condemned as read; () = about to read
                                        read: (table, whether its row is staged), not committed
             (CONDEMNS, memory, tables looked at, holder, version of D, read)     a condemnation between its looks
    Repair   (REPAIR, times left, (version of D that its plan goes by, what it will write) or ())
    World    (deadly, A, D); table: (version, txns, offsets of its rows)

A task on a cluster may lose its executors while it reads the record alone, however often: core/bisection.py says
whether it is blamed for that.

What a row is, and which tables are to be looked at, are offsets/condemning.py's decisions; what a repair withdraws is
offsets/rewind.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.bisection import Bisection
from exporter.core.writers import PartitionPlan, StagedFile, Writer, WriterKey, may_have_staged
from offsets import condemning, rewind
from offsets.names import AppId
from offsets.positions import Position, condemned_offsets, live_position
from offsets.ranges import OffsetRange, TopicPartition

State = tuple[Any, ...]
Move = tuple[str, Any, State, int, int]
APP = "model"
TP = TopicPartition("t", 0)
A, D = 1, 2
NAMES = {A: "A", D: "D"}
TASK, CONDEMNS, REPAIR, TIME = "task", "condemns", "repair", "time"
START: State = (TASK, (), ())
RECORD = 0
LOSSES = 8


def blamed_for_lost_executors() -> bool:
    """Whether a record is to be condemned that was read alone, and nothing but executors was lost."""
    trouble, alone = Bisection(), (PartitionPlan(TP, 0, 0, RECORD, RECORD + 1, {}),)
    for _ in range(LOSSES):
        trouble = trouble.lost(alone)
    return trouble.poison() is not None


BLAMED = blamed_for_lost_executors()


@dataclass(frozen=True)
class CondemnScope:
    """kind: the table that the record belongs to. tasks: at once. repairs: how many times A is taken back.

    stages: whether a task may keep what it has read; else it commits at once.
    """

    kind: str = "A"
    tasks: int = 1
    repairs: int = 1
    stages: bool = True


class CondemnWorld:
    """All steps of all processes. Each touches a table, so there are no local moves."""

    def __init__(self, scope: CondemnScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        tasks = tuple(f"T{number + 1}" for number in range(self.scope.tasks))
        return (0,) * len(tasks) + (1, 2), (*tasks, "repair", "time")

    def first_state(self) -> tuple[State, State]:
        table = (0, ((_app_id(0), -1), (_app_id(0, "anchor"), -1)), ())
        return (False, table, table), (*(START,) * self.scope.tasks, (REPAIR, self.scope.repairs, ()), (TIME,))

    def local_moves(self, process: State) -> list[tuple[str, Any, int, int]]:
        return []

    def shared_moves(self, process: State, world: State) -> list[Move]:
        steps = {TASK: self._task, CONDEMNS: self._condemns, REPAIR: self._repair, TIME: self._time}
        moves = list(steps[process[0]](process, world))
        if process[0] == CONDEMNS or (process[0] == TASK and process[1]):
            moves.append(("crashes", START, world))
        return [(*move, 0, 0) for move in moves]

    def _time(self, process: State, world: State) -> Iterator[tuple[str, Any, State]]:
        if not world[0]:
            yield "the record becomes deadly", process, (True, *world[1:])

    def _task(self, process: State, world: State) -> Iterator[tuple[str, Any, State]]:
        _, memory, read = process
        if len(memory) < 2:
            index = (A, D)[len(memory)]
            known = (*memory, (self.live(world[index]), self.condemned(world[D])))
            if len(known) == 2 and known[0][0].epoch != known[1][0].epoch:
                yield "reads D: a repair is not finished", START, world
            else:
                yield f"reads {NAMES[index]}: {known[-1][0]}", (TASK, known, ()), world
            return
        unread = self.below(memory).keys() - dict(read).keys()
        if unread:
            yield from self._reads(process, world, unread)
        if not unread or self.scope.stages:
            for index, row in read:
                yield from self._commits(process, world, index, row)
        for one in read if self.scope.stages else ():
            left = tuple(other for other in read if other != one)
            yield f"drops what it has read for {NAMES[one[0]]}", (TASK, memory, left), world

    def below(self, memory: State) -> dict[int, Position]:
        """The tables that are not past the record, as a task knows them."""
        return {index: at for index, (at, _) in zip((A, D), memory, strict=True) if at.offset < RECORD}

    def _reads(self, process: State, world: State, unread: Collection[int]) -> Iterator[tuple[str, Any, State]]:
        """The record, for the tables that it has not been read for."""
        _, memory, read = process
        spared = RECORD in memory[1][1]
        condemns = (CONDEMNS, memory, (), "", world[D][0], self.kept(read))
        if BLAMED and not spared:
            yield "loses its executors and condemns", condemns, world
        if world[0] and not spared:
            yield "reads the record and fails", condemns, world
            return
        fresh = tuple((index, self.scope.kind == NAMES[index] and not spared) for index in sorted(unread))
        if self.scope.stages:
            yield "reads the record", (TASK, memory, tuple(sorted((*read, *fresh)))), world
            return
        for index, row in fresh:
            yield from self._commits((TASK, memory, ()), world, index, row)

    def kept(self, read: State) -> State:
        """What a task keeps of what it has read when it condemns the record."""
        return tuple(one for one in read if not may_have_staged(_writer(one[1]), RECORD))

    def _commits(self, process: State, world: State, index: int, row: bool) -> Iterator[tuple[str, Any, State]]:
        _, memory, read = process
        at, spared = memory[index - 1]
        if self.live(world[index]) != at:
            yield f"commits {NAMES[index]}: refused", START, world
            return
        after = self.commit(world, index, {_app_id(at.epoch): RECORD}, row)
        known = tuple((Position(at.epoch, RECORD), spared) if one == index else memory[one - 1] for one in (A, D))
        left = tuple(one for one in read if one[0] != index)
        yield f"commits {NAMES[index]}" + " with the record" * row, (TASK, known, left), after

    def _condemns(self, process: State, world: State) -> Iterator[tuple[str, Any, State]]:
        _, memory, looked, holder, version, read = process
        positions = {NAMES[index]: memory[index - 1][0] for index in (A, D)}
        left = [index for index in (A, D) if index not in looked]
        for index in left:
            name, now = NAMES[index], self.live(world[index])
            if condemning.is_elsewhere(positions, name, now):
                yield f"looks at {name}: moved", START, world
                continue
            there = condemning.may_hold(now, RECORD) and RECORD in world[index][2]
            found = (CONDEMNS, memory, (*looked, index), holder or name * there, version, read)
            yield f"looks at {name}", found, world
        if not left:
            at = memory[1][0]
            if self.live(world[D]) != at or RECORD in self.condemned(world[D]):
                yield "condemns: refused", START, world
                return
            versions = condemning.condemned_transactions(APP, TP, RECORD, at, bool(holder))
            after = self.commit(world, D, versions, not holder)
            known = (memory[0], (at, self.condemned(after[D])))
            yield f"condemns, held by {holder or 'none'}", (TASK, known, read), after

    def _repair(self, process: State, world: State) -> Iterator[tuple[str, Any, State]]:
        """A first; then D by a plan of its own, which may be out of date when it is carried out."""
        _, left, planned = process
        a, d = self.live(world[A]), self.live(world[D])
        if a.epoch == d.epoch:
            if left and a.offset >= RECORD:
                move = rewind.Move(a, Position(a.epoch + 1, RECORD - 1), cuts=True)
                after = (world[0], (world[A][0] + 1, _written(world[A][1], self.moved(world[A], move)), ()), world[D])
                yield "A is taken back and repaired", (REPAIR, left - 1, ()), after
        elif not planned:
            steps = tuple(sorted(self.moved(world[D], rewind.Move(d, Position(a.epoch, d.offset))).items()))
            yield "repair reads D", (REPAIR, left, (world[D][0], steps)), world
        elif planned[0] != world[D][0]:
            yield "repair of D: refused", (REPAIR, left, ()), world
        else:
            txns = _written(world[D][1], dict(planned[1]))
            yield "repair of D", (REPAIR, left, ()), (*world[:D], (world[D][0] + 1, txns, world[D][2]))

    # -- tables

    def live(self, table: State) -> Position:
        found = live_position(dict(table[1]), APP, TP)
        if found is None:
            raise RuntimeError("a position vanished")
        return found

    def condemned(self, table: State) -> frozenset[int]:
        return condemned_offsets(dict(table[1]), APP, TP)

    def moved(self, table: State, move: rewind.Move) -> dict[str, int]:
        return rewind.move_transactions(dict(table[1]), APP, TP, move)

    def commit(self, world: State, index: int, versions: Mapping[str, int], row: bool) -> State:
        """One commit. The version that a repair compares rises if it writes the position."""
        version, txns, rows = world[index]
        writes = any(AppId.parse(app_id).kind is None for app_id in versions)
        table = (version + writes, _written(txns, versions), (*rows, *(RECORD,) * row))
        return (*world[:index], table, *world[index + 1 :])

    # -- invariants

    def broken(self, world: State) -> str:
        rows = [NAMES[index] for index in (A, D) for _ in world[index][2]]
        if len(rows) > 1:
            return f"ONCE: the record is in {rows}"
        if self.scope.kind == "A" and rows == ["D"] and not world[0]:
            return "ROUTE: a record is condemned that nothing is wrong with"
        a, d = self.live(world[A]), self.live(world[D])
        if not rows and a.epoch == d.epoch and min(a.offset, d.offset) >= RECORD:
            return "COVER: both tables are past the record, and none has it"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE: neither the epoch nor, within it, the position."""
        for index in (A, D):
            if self.live(after[index]) < self.live(before[index]):
                return f"MONOTONE: {NAMES[index]} went back"
        return ""

    def show(self, world: State) -> str:
        """The tables in one line."""
        shown = (f"{NAMES[index]}={self.live(world[index])}{list(world[index][2])}" for index in (A, D))
        return "  ".join((*shown, "deadly" * world[0]))


def _writer(row: bool) -> Writer:
    """One that has read the record, and may have its row staged."""
    staged = (StagedFile("day=2026-01-01/a", OffsetRange(RECORD, RECORD), 1, 1),) if row else ()
    return Writer(WriterKey("A", TP), 0, 1, RECORD - 1, RECORD, staged=staged)


def _app_id(epoch: int, kind: Any = None) -> str:
    return str(AppId(APP, TP, epoch, kind))


def _written(txns: State, changes: Mapping[str, int]) -> State:
    return tuple(sorted({**dict(txns), **changes}.items()))
