"""The world of a record that ends its tasks from some moment on: before, any table may have passed it (3.7).

One topic partition of one record, the tables A and D (the dead letters). Tasks read the tables, the dead letters last,
and commit by compare-and-set; between the two what is read of either table may be dropped, and is read again. At any
moment the record becomes deadly: from then on no task gets past it but by sparing it, or by what it has read of it
before; where it heals, it is good again at any later one. A repair takes a table back behind the record, at any moment:
A first, then the dead letters follow into the same epoch; while A is ahead of them every task stays away (5.3a). Tasks
and the repair crash and pause anywhere.

    Task     (TASK, memory, read)       memory: of A, then of D, (position or None, whether it says that the record is
                                        poison, and spared); () = about to read. read: (table, whether its row is
                                        staged), not committed
             (MEETS, memory, read)      has made A, or found it, and is to look at D once more
             (SETTLES, memory, position of D, tables looked at, holder, read)    between the looks for a spared record
    Repair   (REPAIR, times left, (version of D that its plan goes by, what it will write) or ())
    World    (deadly, A, D); table: (version, txns, offsets of its rows), A also () before it is made

A task on a cluster may lose its executors while it reads the record alone, however often: core/bisection.py says
whether it is blamed for that.

What a row is, which tables are to be looked at and what a commit says are offsets/poison.py's decisions; what a
repair withdraws is offsets/rewind.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.bisection import Bisection
from exporter.core.writers import PartitionPlan
from offsets import poison, rewind
from offsets.names import AppId
from offsets.positions import Position, live_position, poison_offsets, spared_offsets
from offsets.ranges import TopicPartition
from tests.model.search import SharedSteps, State, Step

APP = "model"
TP = TopicPartition("t", 0)
A, D = 1, 2
NAMES = {A: "A", D: "D"}
TASK, MEETS, SETTLES, REPAIR, TIME = "task", "meets", "settles", "repair", "time"
START: State = (TASK, (), ())
RECORD = 0
LOSSES = 8
FATED, HEALED = "deadly", "healed"


def blamed_for_lost_executors() -> bool:
    """Whether a record is poison that was read alone, and nothing but executors was lost."""
    trouble, alone = Bisection(), (PartitionPlan(TP, 0, 0, RECORD, RECORD + 1, {}),)
    for _ in range(LOSSES):
        trouble = trouble.lost(alone)
    return bool(trouble.poison())


BLAMED = blamed_for_lost_executors()


@dataclass(frozen=True)
class PoisonScope:
    """kind: the table that the record belongs to. tasks: at once. repairs: how many times `back` is taken back.

    heals: whether the record may be good again. met: A is the table of an undeclared type, made when a record of it is
    met.
    """

    kind: str = "A"
    tasks: int = 1
    repairs: int = 1
    back: str = "A"
    heals: bool = False
    met: bool = False


class PoisonWorld(SharedSteps):
    """All steps of all processes. Each touches a table."""

    def __init__(self, scope: PoisonScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        tasks = tuple(f"T{number + 1}" for number in range(self.scope.tasks))
        return (0,) * len(tasks) + (1, 2), (*tasks, "repair", "time")

    def first_state(self) -> tuple[State, State]:
        table, a = _made(0, RECORD - 1), () if self.scope.met else _made(0, RECORD - 1)
        return ("", a, table), (*(START,) * self.scope.tasks, (REPAIR, self.scope.repairs, ()), (TIME,))

    def steps(self, process: State, world: State) -> Iterator[Step]:
        steps = {
            TASK: self._task, MEETS: self._meets, SETTLES: self._settles, REPAIR: self._repair, TIME: self._time
        }  # fmt: skip
        yield from steps[process[0]](process, world)
        if process[0] in (MEETS, SETTLES) or (process[0] == TASK and process[1]):
            yield "crashes", START, world

    def _time(self, process: State, world: State) -> Iterator[Step]:
        if not world[0]:
            yield "the record becomes deadly", process, (FATED, *world[1:])
        elif world[0] == FATED and self.scope.heals:
            yield "the record is good again", process, (HEALED, *world[1:])

    def _task(self, process: State, world: State) -> Iterator[Step]:
        _, memory, read = process
        if len(memory) < 2:
            index = (A, D)[len(memory)]
            known = (*memory, (self.live(world[index]), *self.listed(world[D])))
            if len(known) == 2 and known[0][0] is not None and known[0][0].epoch != known[1][0].epoch:
                yield "reads D: a repair is not finished", START, world
            else:
                yield f"reads {NAMES[index]}: {known[-1][0]}", (TASK, known, ()), world
            return
        if A in dict(read) and memory[0][0] is None:  # the manifest waits for the table (ANCHOR)
            yield from self._makes(process, world)
            return
        unread = self.below(memory) - dict(read).keys()
        if unread:
            yield from self._reads(process, world, unread)
        for index, row in read:
            yield from self._commits(process, world, index, row)
        for one in read:
            left = tuple(other for other in read if other != one)
            yield f"drops what it has read for {NAMES[one[0]]}", (TASK, memory, left), world
        if memory[1][2]:
            yield from self._begins_to_settle(process, world)

    def below(self, memory: State) -> set[int]:
        """The tables that are not past the record, as a task knows them."""
        return {index for index, (at, *_) in zip((A, D), memory, strict=True) if _lacks(at)}

    def _reads(self, process: State, world: State, unread: Collection[int]) -> Iterator[Step]:
        """The record, for the tables that it has not been read for."""
        _, memory, read = process
        listed = memory[1][1]
        if (BLAMED or world[0] == FATED) and not listed:
            yield from self._spares(process, world)
        if world[0] == FATED and not listed:
            return
        if self.scope.kind == "A" and memory[0][0] is None and not listed:
            unread = {A, *unread}
        fresh = tuple((index, self.scope.kind == NAMES[index] and not listed) for index in sorted(unread))
        yield "reads the record", (TASK, memory, tuple(sorted((*read, *fresh)))), world

    def _makes(self, process: State, world: State) -> Iterator[Step]:
        """The table of a type that was met, at the position of D as the task knows it; one that is there is adopted."""
        _, memory, read = process
        if not world[A]:
            at = memory[1][0]
            world = (world[0], _made(at.epoch, at.offset), world[D])
        seen = self.live(world[A])
        if seen.offset >= RECORD:
            read = tuple(one for one in read if one[0] != A)  # its anchor is not where the plan began (3.1)
        yield "makes A, or finds it", (MEETS, ((seen, *memory[0][1:]), memory[1]), read), world

    def _meets(self, process: State, world: State) -> Iterator[Step]:
        """D is looked at once A is there (4.7): its position tells whether anybody else has been at work."""
        _, memory, read = process
        d = self.live(world[D])
        if d != memory[1][0] or memory[0][0].epoch != d.epoch:
            yield "looks at D: another task was faster", START, world
        else:
            yield "looks at D: as it was", (TASK, memory, read), world

    def _commits(self, process: State, world: State, index: int, row: bool) -> Iterator[Step]:
        _, memory, read = process
        at, *listed = memory[index - 1]
        if self.live(world[index]) != at:
            yield f"commits {NAMES[index]}: refused", START, world
            return
        after = self.commit(world, index, {_app_id(at.epoch): RECORD}, row)
        known = tuple((Position(at.epoch, RECORD), *listed) if one == index else memory[one - 1] for one in (A, D))
        left = tuple(one for one in read if one[0] != index)
        yield f"commits {NAMES[index]}" + " with the record" * row, (TASK, known, left), after

    def _spares(self, process: State, world: State) -> Iterator[Step]:
        _, memory, read = process
        at, says = memory[1][0], "loses its executors" if BLAMED else "fails on the record"
        if self.live(world[D]) != at or self.listed(world[D])[0]:
            yield f"{says}, spares it: refused", START, world
            return
        after = self.commit(world, D, poison.spared_transactions(APP, TP, RECORD, at), False)
        yield f"{says}, spares it", (TASK, (memory[0], (at, *self.listed(after[D]))), read), after

    def _begins_to_settle(self, process: State, world: State) -> Iterator[Step]:
        _, memory, read = process
        if self.listed(world[D])[1]:
            yield "begins to look for the record", (SETTLES, memory, self.live(world[D]), (), "", read), world
        else:
            yield "finds that it is settled", START, world

    def _settles(self, process: State, world: State) -> Iterator[Step]:
        _, memory, at, looked, holder, read = process
        left = [index for index in (A, D) if index not in looked]
        for index in left:
            name, now = NAMES[index], self.live(world[index])
            if poison.is_behind(now, RECORD):
                yield f"looks at {name}: behind", START, world
                continue
            there = poison.may_hold(now, RECORD) and RECORD in world[index][2]
            found = (SETTLES, memory, at, (*looked, index), holder or name * there, read)
            yield f"looks at {name}", found, world
        if not left:
            if self.live(world[D]) != at or not self.listed(world[D])[1]:
                yield "settles: refused", START, world
                return
            versions = poison.settled_transactions(APP, TP, RECORD, at, bool(holder))
            after = self.commit(world, D, versions, not holder)
            known = (memory[0], (memory[1][0], *self.listed(after[D])))
            yield f"settles, held by {holder or 'none'}", (TASK, known, read), after

    def _repair(self, process: State, world: State) -> Iterator[Step]:
        """A first; then D by a plan of its own, which may be out of date when it is carried out."""
        _, left, planned = process
        a, d = self.live(world[A]), self.live(world[D])
        if a is None:
            return
        if a.epoch == d.epoch:
            taken = a if self.scope.back == "A" else d
            if left and taken.offset >= RECORD:
                cuts = self.scope.back == "A"
                move = rewind.Move(a, Position(a.epoch + 1, RECORD - 1 if cuts else a.offset), cuts=cuts)
                rows = () if cuts else world[A][2]
                after = (world[0], (world[A][0] + 1, _written(world[A][1], self.moved(world[A], move)), rows), world[D])
                yield "A is taken back and repaired" if cuts else "A follows", (REPAIR, left - 1, ()), after
        elif not planned:
            cuts = self.scope.back == "D" and d.offset >= RECORD
            move = rewind.Move(d, Position(a.epoch, RECORD - 1 if cuts else d.offset), cuts=cuts)
            steps = tuple(sorted(self.moved(world[D], move).items()))
            yield "repair reads D", (REPAIR, left, (world[D][0], steps, cuts)), world
        elif planned[0] != world[D][0]:
            yield "repair of D: refused", (REPAIR, left, ()), world
        else:
            txns = _written(world[D][1], dict(planned[1]))
            rows = () if planned[2] else world[D][2]
            yield "repair of D", (REPAIR, left, ()), (*world[:D], (world[D][0] + 1, txns, rows))

    # -- tables

    def live(self, table: State) -> Any:
        """The position; None for a table that is not there."""
        if not table:
            return None
        found = live_position(dict(table[1]), APP, TP)
        if found is None:
            raise RuntimeError("a position vanished")
        return found

    def listed(self, dead_letters: State) -> tuple[bool, bool]:
        """Whether the record is poison, and whether it is so far only spared."""
        txns = dict(dead_letters[1])
        return RECORD in poison_offsets(txns, APP, TP), RECORD in spared_offsets(txns, APP, TP)

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
        rows = [NAMES[index] for index in (A, D) if world[index] for _ in world[index][2]]
        if len(rows) > 1:
            return f"ONCE: the record is in {rows}"
        listed, spared = self.listed(world[D])
        if self.scope.kind == "A" and (rows == ["D"] or listed) and not world[0]:
            return "ROUTE: a record is poison that nothing is wrong with"
        a, d = self.live(world[A]), self.live(world[D])
        if not rows and not (_lacks(a) or _lacks(d)) and not spared and (a is None or a.epoch == d.epoch):
            return "COVER: both tables are past the record, and none has it"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE: neither the epoch nor, within it, the position."""
        for index in (A, D):
            if before[index] and self.live(after[index]) < self.live(before[index]):
                return f"MONOTONE: {NAMES[index]} went back"
        return ""

    def show(self, world: State) -> str:
        """The tables in one line."""
        shown = (f"{NAMES[index]}={self.live(world[index])}{list(world[index][2:])}" for index in (A, D))
        listed, spared = self.listed(world[D])
        return "  ".join((*shown, world[0], "spared" if spared else "poison" * listed))

    # -- a task that is left alone

    def finished(self, world: State) -> bool:
        """Whether the record has a row, and nothing is left to be done or said of it."""
        rows = sum(len(world[index][2]) for index in (A, D) if world[index])
        return rows == 1 and not self.listed(world[D])[1] and not any(_lacks(self.live(world[i])) for i in (A, D))

    def clean_step(self, process: State, world: State) -> tuple[str, Any, State] | None:
        """The step that it takes while nobody else is at work: never a crash, nothing is dropped, and nothing is looked
        for before it has done what it can."""
        moves = [step for step in self.steps(process, world) if not step[0].startswith(("crashes", "drops"))]
        return max(
            moves, key=lambda move: (not move[0].startswith("begins"), move[0].startswith("commits")), default=None
        )


def _lacks(position: Position | None) -> bool:
    """Whether a table that is there is not past the record."""
    return position is not None and position.offset < RECORD


def _made(epoch: int, offset: int) -> State:
    return (0, ((_app_id(epoch), offset), (_app_id(epoch, "anchor"), offset)), ())


def _app_id(epoch: int, kind: Any = None) -> str:
    return str(AppId(APP, TP, epoch, kind))


def _written(txns: State, changes: Mapping[str, int]) -> State:
    return tuple(sorted({**dict(txns), **changes}.items()))
