"""The second small world: a switch of the routing configuration (protocol 5.3), with the project's own verdict.

One topic partition, the tables A (and B) and D (the dead letters), tasks of an old and of a new configuration.
The two send the records to different types, so that a record that is written under both configurations
is doubled and one that is written under neither is lost. Between the two there may have been another one, which
somebody gave up by the new one's greater generation: tasks of it may begin late. Ordinary tasks commit by
compare-and-set on the position that they know, any distance, with all records of that distance (search in world.py
shows that a writer's claim is just that). Crashes happen at any moment; a pause is an interleaving.

    Task     (phase, tables read so far, memory)     phase: "reads", "runs", "switches", "gone"
    runs     memory = per table the (epoch, offset) that it knows
    switches memory = (in force, epoch d, through, per table the (epoch, offset) or None as read or written since)
    Table    ((epoch, offset) or None, committed offsets); of the dead letters also the history epoch -> configuration
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsets import crosscheck
from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position, live_position
from offsets.ranges import TopicPartition
from tests.model.search import SharedSteps, State, Step, remember

APP = "model"
TP = TopicPartition("t", 0)
OLD, NEW, LATE = "old", "new", "late"
GENERATIONS = {OLD: 0, LATE: 0, NEW: 1}
READS, RUNS, SWITCHES, GONE = "reads", "runs", "switches", "gone"
DEAD_LETTERS = "D"


@dataclass(frozen=True)
class SwitchScope:
    """Configuration -> type of the record at each offset ("." = a hole). olds, news, lates: tasks of each."""

    old: str = "AD"
    new: str = "DA"
    late: str = "AA"
    olds: int = 1
    news: int = 1
    lates: int = 0
    types: str = "AD"
    in_old: str = "AD"
    first: int = -1


class SwitchWorld(SharedSteps):
    """All steps of all tasks. Each touches a table."""

    def __init__(self, scope: SwitchScope) -> None:
        self.scope = scope
        self.types = tuple(scope.types)
        self.dead_letters = self.types.index(DEAD_LETTERS)
        self.active = {OLD: tuple(scope.in_old), NEW: self.types, LATE: self.types}
        self.routes = {OLD: scope.old, NEW: scope.new, LATE: scope.late}
        remember(self, "verdict", "live", "order")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        olds = tuple(f"old{i + 1}" for i in range(self.scope.olds))
        news = tuple(f"new{i + 1}" for i in range(self.scope.news))
        lates = tuple(f"late{i + 1}" for i in range(self.scope.lates))
        return (0,) * len(olds) + (1,) * len(news) + (2,) * len(lates), olds + news + lates

    def first_state(self) -> tuple[State, State]:
        """Anchored by the old configuration; all tasks are about to read."""
        at = (0, self.scope.first)
        tables = tuple((at if name in self.active[OLD] else None, ()) for name in self.types)
        tasks = tuple((config, READS, (), ()) for role in self.roles()[0] for config in ((OLD, NEW, LATE)[role],))
        return (tables, ((0, OLD),)), tasks

    # -- moves

    def steps(self, task: State, world: State) -> Iterator[Step]:
        config, phase, _, _ = task
        if phase == READS:
            yield from self._read(task, world)
        elif phase == RUNS:
            yield from self._ordinary(task, world)
        elif phase == SWITCHES:
            yield from self._switch(task, world)
        if phase != GONE and task != (config, READS, (), ()):
            yield "crashes and starts again", (config, READS, (), ()), world

    def order(self) -> tuple[int, ...]:
        """Tables in the order in which they are read: the dead letters last."""
        others = tuple(index for index in range(len(self.types)) if index != self.dead_letters)
        return (*others, self.dead_letters)

    def _read(self, task: State, world: State) -> Iterator[Step]:
        """One table at a time; after the last one, what to do next."""
        config, _, seen, _ = task
        index = self.order()[len(seen)]
        position = world[0][index][0]
        history = world[1] if index == self.dead_letters else None
        seen = (*seen, (position, history))
        text = f"reads {self.types[index]}: {_show(position)}"
        if len(seen) < len(self.types):
            yield text, (config, READS, seen, ()), world
            return
        found = self.verdict(config, seen)
        yield f"{text}, {type(found).__name__.lower()}", self.decided(config, seen, found), world

    def verdict(self, config: str, seen: State) -> crosscheck.Verdict:
        """The project's verdict over what was read."""
        states, history = {}, {}
        for index, (position, recorded) in zip(self.order(), seen, strict=True):
            states[self.types[index]] = crosscheck.TableState(self.live(position))
            history = dict(recorded) if recorded is not None else history
        in_force = history.get(max(history), OLD) if history else OLD
        active, drained = self.active[config], self.active[in_force]
        outranked = GENERATIONS[in_force] > GENERATIONS[config]
        return crosscheck.verdict(states, DEAD_LETTERS, history, config, active, drained, outranked=outranked)

    def live(self, position: State | None) -> Position | None:
        """The position as the txn actions say it: earlier epochs are tombstones."""
        if position is None:
            return None
        epoch, offset = position
        transactions = {str(AppId(APP, TP, earlier)): TOMBSTONE for earlier in range(epoch)}
        return live_position({**transactions, str(AppId(APP, TP, epoch)): offset}, APP, TP)

    def decided(self, config: str, seen: State, found: crosscheck.Verdict) -> Any:
        """What the task does about a verdict. A Stop is confirmed by reading again (5.1)."""
        if isinstance(found, crosscheck.Agree) and not found.unanchored:
            return (config, RUNS, (), self.run_from(found, self.seen_live(seen)))
        if isinstance(found, crosscheck.Switch):
            read = (found.positions.get(name) for name in self.types)
            known = tuple(None if at is None else (at.epoch, at.offset) for at in read)
            return (config, SWITCHES, (), (found.in_force, found.epoch, found.through, known))
        if isinstance(found, crosscheck.Superseded):
            return (config, GONE, (), ())
        return (config, READS, (), ())

    def seen_live(self, seen: State) -> dict[str, Position]:
        """Type -> position as read."""
        read = ((self.types[i], self.live(at)) for i, (at, _) in zip(self.order(), seen, strict=True))
        return {name: position for name, position in read if position is not None}

    def run_from(self, found: crosscheck.Agree, live: Mapping[str, Position]) -> State:
        """What an ordinary task's writers start from: all tables are at the dead letters' epoch."""
        return tuple((found.epoch, found.positions[n]) if n in found.positions else None for n in self.types)

    def _ordinary(self, task: State, world: State) -> Iterator[Step]:
        config, _, _, known = task
        for index, at in enumerate(known):
            for through in range(at[1] + 1, len(self.routes[config])) if at is not None else ():
                after = self.commit(world, index, at, (at[0], through), config)
                text = f"commits {self.types[index]} {_show(at)}->{through}"
                if after is None:
                    yield f"{text}: refused", (config, READS, (), ()), world
                else:
                    memory = (*known[:index], (at[0], through), *known[index + 1 :])
                    yield text, (config, RUNS, (), memory), after

    def _switch(self, task: State, world: State) -> Iterator[Step]:
        config, _, _, (in_force, epoch, through, known, *more) = task
        names = self.types
        behind = [i for i, at in enumerate(known) if at and self.drains(names[i], in_force) and at[1] < through]
        for index in behind:
            at = known[index]
            for to in range(at[1] + 1, through + 1):
                after = self.commit(world, index, at, (at[0], to), in_force)
                yield self._switched(task, world, index, (at[0], to), after, f"drains {self.types[index]} to {to}")
        if behind:
            return
        for index in self.sealable(known, epoch):
            after = self.seal(world, index, known[index], epoch, through, config, *more)
            text = f"seals {self.types[index]} as epoch {epoch + 1} at {through}"
            yield self._switched(task, world, index, (epoch + 1, through), after, text)

    def drains(self, name: str, in_force: str) -> bool:
        """Every table that is there, also that of a type which an earlier attempt to switch has added already."""
        return name in {*self.active[in_force], *self.active[NEW]}

    def sealable(self, known: State, epoch: int) -> list[int]:
        """Tables in any order, the dead letters strictly last; one that is sealed already is skipped."""
        left = [i for i, at in enumerate(known) if at is None or at[0] <= epoch]
        return [i for i in left if i != self.dead_letters] or left

    def _switched(
        self, task: State, world: State, index: int, at: State, after: State | None, text: str
    ) -> Step:
        config, _, _, (in_force, epoch, through, known, *more) = task
        if after is None:
            return f"{text}: refused", (config, READS, (), ()), world
        if index == self.dead_letters and at[0] == epoch + 1:
            return text, (config, READS, (), ()), after
        memory = (in_force, epoch, through, (*known[:index], at, *known[index + 1 :]), *more)
        return text, (config, SWITCHES, (), memory), after

    def clean_step(self, task: State, world: State) -> Step | None:
        """The next step of one task that is left alone; None if there is nothing to do."""
        return next((step for step in self.steps(task, world) if not step[0].startswith("crashes")), None)

    # -- Delta's atomic commits

    def commit(self, world: State, index: int, expected: State, new: State, config: str) -> State | None:
        """Compare-and-set on (epoch, offset); the records of the distance under `config`; None = refused."""
        position, committed = world[0][index]
        if position != expected:
            return None
        route = self.routes[config]
        mine = [o for o in range(new[1] + 1) if o > expected[1] and route[o] == self.types[index]]
        return _with_table(world, index, (new, tuple(sorted([*committed, *mine]))))

    def seal(
        self, world: State, index: int, expected: State | None, epoch: int, through: int, config: str
    ) -> State | None:
        """Tombstone the live epoch, write the next one at X; the dead letters record whose it is."""
        position, committed = world[0][index]
        if position != expected:
            return None
        after = _with_table(world, index, ((epoch + 1, through), committed))
        return (after[0], (*world[1], (epoch + 1, config)), *after[2:]) if index == self.dead_letters else after

    # -- invariants

    def broken(self, world: State) -> str:
        """ONCE over all tables; COVER: a record that every table has passed is committed somewhere. ROUTE: what was
        given up is not in force again."""
        tables, generations = world[0], [GENERATIONS[config] for _, config in world[1]]
        if generations != sorted(generations):
            return f"ROUTE: the configurations in force are {', '.join(config for _, config in world[1])}"
        committed = [offset for _, offsets in tables for offset in offsets]
        for offset, name in enumerate(self.scope.old):
            if committed.count(offset) > 1:
                return f"ONCE: record {offset} is committed {committed.count(offset)} times"
            if name != "." and self.passed(world, offset) and offset > self.scope.first and offset not in committed:
                return f"COVER: every table has passed record {offset}, it is lost"
        return f"STOP: {reason}" if (reason := self.confirmed_stop(world)) else ""

    def passed(self, world: State, offset: int) -> bool:
        """True if no table will be given the record at an offset any more."""
        return all(position is None or position[1] >= offset for position, _ in world[0])

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE: neither the epoch nor, within it, the position."""
        for name, (old, _), (new, _) in zip(self.types, before[0], after[0], strict=True):
            if old is not None and (new is None or new < old):
                return f"MONOTONE: {name} went back from {_show(old)} to {_show(new)}"
        return ""

    def confirmed_stop(self, world: State) -> str:
        """A Stop that a second reading, undisturbed, would confirm; empty if none."""
        seen = self.reading(world)
        for config in (OLD, NEW, LATE) if self.scope.lates else (OLD, NEW):
            found = self.verdict(config, seen)
            if isinstance(found, crosscheck.Stop):
                return found.reason
        return ""

    def reading(self, world: State) -> State:
        """What a reading sees that nobody disturbs."""
        return tuple((world[0][i][0], world[1] if i == self.dead_letters else None) for i in self.order())

    def finished(self, world: State) -> bool:
        """The new configuration is in force, everything is covered."""
        ends = {position for position, _ in world[0]}
        return len(ends) == 1 and next(iter(ends))[1] == len(self.scope.old) - 1 and world[1][-1][1] == NEW

    def show(self, world: State) -> str:
        """The tables in one line."""
        tables = (f"{n}={_show(p)}{list(c)}" for n, (p, c) in zip(self.types, world[0], strict=True))
        return "  ".join(tables)


def _with_table(world: State, index: int, table: State) -> State:
    return ((*world[0][:index], table, *world[0][index + 1 :]), *world[1:])


def _show(position: State | None) -> str:
    return "absent" if position is None else f"{position[1]}/e{position[0]}"
