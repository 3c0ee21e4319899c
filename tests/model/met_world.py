"""A switch while a type is met at run time: new_type = table (protocol 4.7, 5.2) against 5.3.

The world of switch_world.py with one more table, C, which no configuration declares. The old
configuration gives records of C a table of their own; the new one does too, or sends them elsewhere.
A task that meets C anchors it (or adopts the anchor that is there), then sees to it that the dead letters,
still in its epoch, list the table, and only then goes on; until then nothing passes a record of C
(ANCHOR). A switch seals what it has read, and the dead letters only if they list no other table by then.
The decisions about what was read are the project's; anchoring and listing (protocol/meeting.py) are played here.

    C        a table like the others; `listed`: by the dead letters; `anchor`: where its live epoch began
    world    (tables, history, listed, anchor)
    memory   of a task: C is None (not met), ("anchored", epoch, offset) or (epoch, offset)
             of a switch: one more, whether C was listed when the dead letters were read
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from offsets import crosscheck
from tests.model.search import State, Step
from tests.model.switch_world import DEAD_LETTERS, NEW, OLD, READS, RUNS, SwitchScope, SwitchWorld

MET = "C"
ANCHORED = "anchored"
LISTS = "lists"
"""Before it runs, a task lets the dead letters list every table that it has read; then it reads again."""


@dataclass(frozen=True)
class MetScope(SwitchScope):
    """takes: whether the new configuration gives undeclared types tables too. there: C has a table already, without
    a position of this partition (it was met in another one), and is listed."""

    old: str = "CA"
    new: str = "AD"
    types: str = "ACD"
    takes: bool = False
    there: bool = False


class MetWorld(SwitchWorld):
    """All steps of all tasks."""

    def __init__(self, scope: MetScope) -> None:
        super().__init__(scope)
        self.met = self.types.index(MET)
        self.there = scope.there
        declared = tuple(name for name in self.types if name != MET)
        self.active = {OLD: declared, NEW: declared}
        self.takes = {OLD: True, NEW: scope.takes}

    def first_state(self) -> tuple[State, State]:
        world, tasks = super().first_state()
        return (*world, self.there, None), tasks

    # -- reading

    def _read(self, task: State, world: State) -> Iterator[Step]:
        """As in a switch; a table that the dead letters list and that was not there is read again, with all others."""
        config, _, seen, _ = task
        index = self.order()[len(seen)]
        seen = (*seen, self.entry(world, index))
        text = f"reads {self.types[index]}: {seen[-1][0]}"
        if len(seen) < len(self.types):
            yield text, (config, READS, seen, ()), world
            return
        if world[2] and not self._of(seen, self.met)[1][0]:
            yield f"{text}, a listed table was missed", (config, READS, (), ()), world
            return
        found = self.verdict(config, seen)
        yield f"{text}, {type(found).__name__.lower()}", self.decided(config, seen, found), world

    def entry(self, world: State, index: int) -> State:
        """Of C also whether its table exists and where its epoch began, of the dead letters history and list."""
        position = world[0][index][0]
        if index == self.met:
            return (position, (self.there or position is not None, world[3]))
        return (position, world[1:3] if index == self.dead_letters else None)

    def reading(self, world: State) -> State:
        return tuple(self.entry(world, index) for index in self.order())

    def _of(self, seen: State, index: int) -> State:
        return seen[self.order().index(index)]

    def verdict(self, config: str, seen: State) -> crosscheck.Verdict:
        states, history = {}, {}
        exists, anchor = self._of(seen, self.met)[1]
        for index, (position, recorded) in zip(self.order(), seen, strict=True):
            if index == self.met and not exists:
                continue
            unused = index == self.met and self.takes[config] and position is not None and position[1] == anchor
            states[self.types[index]] = crosscheck.TableState(self.live(position), unused=unused)
            history = dict(recorded[0]) if index == self.dead_letters else history
        in_force = history.get(max(history), OLD) if history else OLD
        active, in_force_active = (
            (*self.active[one], *([MET] if exists and self.takes[one] else [])) for one in (config, in_force)
        )
        return crosscheck.verdict(states, DEAD_LETTERS, history, config, active, in_force_active)

    def steps(self, task: State, world: State) -> Iterator[Step]:
        if task[1] == LISTS:
            yield "lists all tables", (task[0], READS, (), ()), (*world[:2], True, world[3])
        yield from super().steps(task, world)

    def decided(self, config: str, seen: State, found: crosscheck.Verdict) -> Any:
        exists, listed = self._of(seen, self.met)[1][0], self._of(seen, self.dead_letters)[1][1]
        if isinstance(found, crosscheck.Agree) and exists and not listed:
            return (config, LISTS, (), ())
        if isinstance(found, crosscheck.Agree) and found.unanchored:
            memory = self.run_from(found, self.seen_live(seen))
            return (config, RUNS, (), (*memory[: self.met], None, *memory[self.met + 1 :]))
        task = super().decided(config, seen, found)
        if not isinstance(found, crosscheck.Switch):
            return task
        in_force, epoch, through, known = task[3]
        if MET not in found.positions:
            known = (*known[: self.met], (epoch + 1, through), *known[self.met + 1 :])
        return (*task[:3], (in_force, epoch, through, known, self._of(seen, self.dead_letters)[1][1]))

    def drains(self, name: str, in_force: str) -> bool:
        return name == MET or super().drains(name, in_force)

    # -- running

    def _ordinary(self, task: State, world: State) -> Iterator[Step]:
        config, _, _, known = task
        mine = known[self.met]
        waits = mine is None or mine[0] == ANCHORED
        offset = known[self.dead_letters][1]
        first = next((o for o, name in enumerate(self.routes[config]) if name == MET and o > offset), None)
        if waits and first is not None and self.takes[config]:
            yield self._lists(task, world) if mine else self._anchors(task, world)
        plain = (*known[: self.met], None, *known[self.met + 1 :]) if waits else known
        for text, after, new in super()._ordinary((config, RUNS, (), plain), world):
            memory = after[3]
            if waits and first is not None and memory and max(at[1] for at in memory if at) >= first:
                continue  # ANCHOR: what passes a record of C waits
            if waits and after[1] == RUNS:
                after = (*after[:3], (*memory[: self.met], mine, *memory[self.met + 1 :]))
            yield text, after, new

    def _anchors(self, task: State, world: State) -> Step:
        """C gets a position where the dead letters are, as this task knows them, or keeps the one that it has."""
        config, _, _, known = task
        epoch, offset = known[self.dead_letters]
        position = world[0][self.met][0]
        left_behind = position is not None and position[1] == world[3] and position[0] < epoch
        after = world
        if position is None or left_behind:
            position = (epoch, offset)
            tables = (*world[0][: self.met], (position, world[0][self.met][1]), *world[0][self.met + 1 :])
            after = (tables, *world[1:3], offset)
        elif position[0] != epoch:
            return f"{MET} is in epoch {position[0]}: switched", (config, READS, (), ()), world
        memory = (*known[: self.met], (ANCHORED, *position), *known[self.met + 1 :])
        return f"anchors or adopts {MET} at {position}", (config, RUNS, (), memory), after

    def _lists(self, task: State, world: State) -> Step:
        """The dead letters must be in the task's epoch, and list the table, before it is written."""
        config, _, _, known = task
        if self.dead_letters_epoch(world) != known[self.dead_letters][0]:
            return "the dead letters are in another epoch: switched", (config, READS, (), ()), world
        memory = (*known[: self.met], known[self.met][1:], *known[self.met + 1 :])
        return f"{MET} is listed", (config, RUNS, (), memory), (*world[:2], True, world[3])

    def dead_letters_epoch(self, world: State) -> int:
        return int(world[0][self.dead_letters][0][0])

    # -- sealing

    def seal(
        self, world: State, index: int, expected: State | None, epoch: int, through: int, config: str, *more: Any
    ) -> State | None:
        if index == self.dead_letters and world[2] != more[0]:
            return None
        after = super().seal(world, index, expected, epoch, through, config)
        return (*after[:3], through) if after is not None and index == self.met else after

    # -- invariants

    def passed(self, world: State, offset: int) -> bool:
        """C counts while the configuration in force fills it, in the epoch of the dead letters."""
        in_force = world[1][-1][1]
        met = world[0][self.met][0]
        counts = met is not None and self.takes[in_force] and met[0] >= self.dead_letters_epoch(world)
        others = all(table[0][1] >= offset for index, table in enumerate(world[0]) if index != self.met)
        return others and (not counts or met[1] >= offset)

    def finished(self, world: State) -> bool:
        """The new configuration is in force, everything is covered by every type that it fills."""
        end = len(self.scope.old) - 1
        mine = [n for n in self.types if n != MET or (self.takes[NEW] and MET in self.scope.new)]
        ends = [world[0][self.types.index(name)][0] for name in mine]
        return all(at is not None and at[1] == end for at in ends) and world[1][-1][1] == NEW
