"""The world of accidents to tables: a user's RESTORE at any moment, and the repair after it (4.5, 5.1, 7).

One topic partition, the tables A and D (the dead letters). Tasks commit by compare-and-set on the position
that they know, any distance, with all records of that distance (world.py shows that a writer's claim is just
that), and look at the operations that came in between; users RESTORE a table to any earlier version;
repairs read, plan and commit, table by table. Tasks and repairs crash and pause at any moment. Tables are
logs of versions: a RESTORE brings back rows and properties of a version and leaves its positions (E). What
a RESTORE does between the start of a transaction and its commit is what it does just before the commit.

    Task     (TASK, tables read so far, memory)          memory: per table (epoch, offset, checked through, poison)
    Repair   (REPAIR, versions read so far, steps)       step: (table, expected, new, files, checked through)
    User     (USER, RESTOREs left)
    Table    versions: (operation, txns, files, checked through, epochs)
             txns: (appId, version) as in the log. epochs: the routing history of the dead letters
    File     (version that added it, epoch, offsets of its records)

A Stop (exit 70) and an exit 75 are starts from the tables: whoever runs a task starts it again. No record
may be lost or doubled without a Stop, and no Stop may be without a repair: `broken` looks at what a reading
of the tables would find now. What an accident took is judged by offsets/rewind.py; which versions are looked
at, and that a version gone back to may itself lie after an accident, is played here (`held`).

Reductions: looking after a landing reads what cannot change any more, so it is one step with the landing (or
with the crash before it); processes of one role are interchangeable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsets import Invariant, crosscheck, rewind
from offsets.names import AppId
from offsets.poison import is_behind, may_hold, settled_transactions, spared_transactions
from offsets.positions import Position, live_position, poison_offsets, spared_offsets
from offsets.ranges import TopicPartition
from offsets.table_log import parse_commit
from tests.model.search import SharedSteps, State, Step, remember

APP = "model"
TP = TopicPartition("t", 0)
FINGERPRINT = "r0"
DEAD_LETTERS = "D"
TASK, REPAIR, USER = "task", "repair", "user"
COMMIT, REWIND, RESTORE, DELETE = "STREAMING UPDATE", "REWIND", "RESTORE", "DELETE"
OWN = (COMMIT, REWIND, "anchor")
STARTS: dict[str, State] = {TASK: (TASK, (), ()), REPAIR: (REPAIR, (), ())}


@dataclass(frozen=True)
class RestoreScope:
    """log: the type of the record at each offset, "X" = one that kills its decoder (3.7): it is spared first.

    restores: how many, of which tables (restorable).

    still: types whose positions no task moves, to look further with the others.
    """

    log: str = "AA"
    tasks: int = 1
    repairs: int = 1
    restores: int = 1
    types: str = "AD"
    restorable: str = "A"
    still: str = ""


class RestoreWorld(SharedSteps):
    """All steps of all processes. Each touches a table."""

    def __init__(self, scope: RestoreScope) -> None:
        self.scope = scope
        self.types = tuple(scope.types)
        self.dead_letters = self.types.index(DEAD_LETTERS)
        remember(self, "verdict", "order", "live_of", "poison_of", "spared_of", "rewinds")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        tasks = tuple(f"T{i + 1}" for i in range(self.scope.tasks))
        repairs = tuple(f"R{i + 1}" for i in range(self.scope.repairs))
        return (0,) * len(tasks) + (1,) * len(repairs) + (2,), (*tasks, *repairs, "user")

    def first_state(self) -> tuple[State, State]:
        """Anchored before offset 0; the tasks are about to read."""
        anchored = ((_app_id(0), -1), (_app_id(0, "anchor"), -1))
        tables = tuple((("anchor", anchored, (), -1, (0,) if name == DEAD_LETTERS else ()),) for name in self.types)
        tasks = (STARTS[TASK],) * self.scope.tasks
        return tables, (*tasks, *(STARTS[REPAIR],) * self.scope.repairs, (USER, self.scope.restores))

    # -- what the tables say

    def live(self, table: State) -> Position:
        """The live position of the table's last version."""
        return self.live_of(table[-1][1])

    def live_of(self, txns: State) -> Position:
        found = live_position(dict(txns), APP, TP)
        if found is None:
            raise RuntimeError("a position vanished")
        return found

    def taken_back(self, table: State) -> str:
        """Protocol 5.1: the first operation since the last own commit's checked_through that took rows away."""
        found = self.rewinds_between(table, self.looked(table), len(table))
        return f"{RESTORE} at version {found[0]}" if found else ""

    def looked(self, table: State) -> int:
        """Through which version the last of our own commits had looked."""
        return next(version[3] for version in reversed(table) if version[0] in OWN)

    def rewinds_between(self, table: State, checked: int, end: int) -> list[int]:
        """The versions in (checked, end) that the project calls rewinding."""
        return [version for version in range(checked + 1, end) if self.rewinds(version, table[version][0])]

    def rewinds(self, version: int, operation: Any) -> bool:
        name = "RESTORE" if isinstance(operation, tuple) else operation
        return parse_commit(version, [json.dumps({"commitInfo": {"operation": name}})]).rewinds

    def seen(self, table: State) -> State:
        """What a task keeps of a reading of one table: position, fault, version, and the history's epochs."""
        position = self.live(table)
        fault, version = self.taken_back(table), len(table) - 1
        return ((position.epoch, position.offset), fault, version, table[-1][4], self.poison(table))

    def poison(self, table: State) -> State:
        return self.poison_of(table[-1][1])

    def poison_of(self, txns: State) -> State:
        return tuple(sorted(poison_offsets(dict(txns), APP, TP)))

    def spared(self, table: State) -> State:
        """Those of which it is not known yet where they are."""
        return self.spared_of(table[-1][1])

    def spared_of(self, txns: State) -> State:
        return tuple(sorted(spared_offsets(dict(txns), APP, TP)))

    def settled(self, table: State) -> State:
        """Those of which it is."""
        return tuple(offset for offset in self.poison(table) if offset not in self.spared(table))

    def verdict(self, seen: State) -> crosscheck.Verdict:
        """The project's verdict over one reading, the dead letters last; one that was taken back ends the reading."""
        if fault := next((fault for _, fault, *_ in seen if fault), ""):
            return crosscheck.Stop(Invariant.MONOTONE, fault, "as accidents.History does while it is read")
        states = {
            self.types[index]: crosscheck.TableState(Position(*position))
            for index, (position, *_) in zip(self.order(), seen, strict=True)
        }
        history = dict.fromkeys(seen[-1][3], FINGERPRINT)
        return crosscheck.verdict(states, DEAD_LETTERS, history, FINGERPRINT, self.types)

    def order(self) -> tuple[int, ...]:
        return (*(index for index in range(len(self.types)) if index != self.dead_letters), self.dead_letters)

    # -- moves

    def steps(self, process: State, world: State) -> Iterator[Step]:
        steps = {TASK: self._task, REPAIR: self._repair, USER: self._user}
        yield from steps[process[0]](process, world)
        start = STARTS.get(process[0], process)
        if process != start:
            yield "crashes and starts again", start, world

    def _task(self, process: State, world: State) -> Iterator[Step]:
        _, seen, memory = process
        if not memory:
            index = self.order()[len(seen)]
            seen = (*seen, self.seen(world[index]))
            text = f"reads {self.types[index]}: {_show(seen[-1][0])}"
            if len(seen) < len(self.types):
                yield text, (TASK, seen, ()), world
                return
            found = self.verdict(seen)
            yield f"{text}, {type(found).__name__.lower()}", self.started(seen, found), world
            return
        for index, (epoch, offset, checked, poison) in enumerate(memory):
            deadly = self.deadly(offset, memory[self.dead_letters][3])
            end = 0 if self.types[index] in self.scope.still else min(deadly, len(self.scope.log))
            if index == self.dead_letters and deadly < len(self.scope.log):
                after = self.spare(world, (epoch, offset), deadly, checked)
                known = (*memory[:index], (epoch, offset, checked, (*poison, deadly)), *memory[index + 1 :])
                yield f"spares {deadly}", (TASK, (), known) if after else STARTS[TASK], after or world
            for spared in self.spared(world[index]) if index == self.dead_letters else ():
                if not any(is_behind(self.live(table), spared) for table in world):
                    after = self.settle(world, (epoch, offset), spared, checked)
                    yield f"settles {spared}", process if after else STARTS[TASK], after or world
            for new in range(offset + 1, end):
                after = self.commit(world, index, (epoch, offset), new, checked)
                text = f"commits {self.types[index]} {_show((epoch, offset))}->{new}"
                if after is None:
                    yield f"{text}: refused", STARTS[TASK], world
                    continue
                landed = len(after[index]) - 1
                if self.rewinds_between(after[index], checked, landed):
                    yield f"{text}, looks, stops", STARTS[TASK], after
                    continue
                yield f"{text}, crashes before it looks", STARTS[TASK], after
                known = (*memory[:index], (epoch, new, landed, poison), *memory[index + 1 :])
                yield text, (TASK, (), known), after

    def started(self, seen: State, found: crosscheck.Verdict) -> State:
        """Anything but Agree is an exit, and a new start."""
        if not isinstance(found, crosscheck.Agree):
            return STARTS[TASK]
        known = dict(zip(self.order(), ((version, poison) for _, _, version, _, poison in seen), strict=True))
        memory = ((found.epoch, found.positions[name], *known[i]) for i, name in enumerate(self.types))
        return (TASK, (), tuple(memory))

    def deadly(self, offset: int, poison: State) -> int:
        """The next offset that no position may pass before it is spared; beyond the log if there is none."""
        log = self.scope.log
        return next((o for o in range(offset + 1, len(log)) if log[o] == "X" and o not in poison), len(log))

    def _user(self, process: State, world: State) -> Iterator[Step]:
        _, left = process
        for index, name in enumerate(self.types):
            table = world[index]
            for to in range(len(table) - 1) if left and name in self.scope.restorable else ():
                if table[to][2] != table[-1][2]:
                    version = ((RESTORE, to), table[-1][1], table[to][2], -1, table[to][4])
                    yield f"RESTOREs {name} to version {to}", (USER, left - 1), _append(world, index, version)

    # -- repair

    def _repair(self, process: State, world: State) -> Iterator[Step]:
        _, seen, steps = process
        if steps:
            yield from self._step(process, world)
            return
        index = self.order()[len(seen)]
        seen = (*seen, len(world[index]))
        text = f"repair reads {self.types[index]}"
        if len(seen) < len(self.types):
            yield text, (REPAIR, seen, ()), world
            return
        planned = self.planned({self.types[i]: world[i][:end] for i, end in zip(self.order(), seen, strict=True)})
        if planned:
            shown = ", ".join(self.types[index] for index, *_ in planned)
            yield f"{text}, plans {shown}", (REPAIR, (), planned), world

    def planned(self, tables: dict[str, State]) -> State:
        """The project's plan, the dead letters when nothing else is left; the files to be taken out as they are read.

        Every table that was hit is moved and cut, also one that seems to have lost nothing: rows beyond its position
        may be there, and only a move refuses the commits that come between.
        """
        positions = {name: self.live(table) for name, table in tables.items()}
        targets = {name: self.held(table) for name, table in tables.items() if self.taken_back(table)}
        moves = rewind.moves(DEAD_LETTERS, positions, targets, self.types)
        steps = []
        for name in sorted(set(moves) - {DEAD_LETTERS}) or sorted(moves):
            table, move = tables[name], moves[name]
            bounds = [rewind.Bound(TP, move.new.offset)] if move.cuts else []
            cut = rewind.cut([_file_rows(file) for file in table[-1][2]], bounds)
            mixed, removed = (tuple(f for f in table[-1][2] if _path(f) in paths) for paths in (cut.mixed, cut.removed))
            steps.append((self.types.index(name), move, mixed, removed, len(table) - 1))
        return tuple(steps)

    def held(self, table: State) -> int:
        """Through which offset the table certainly has everything; a version gone back to may be after an accident."""
        setbacks = []
        for version in self.rewinds_between(table, self.looked(table), len(table)):
            was, then = self.live(table[: version + 1]).offset, table[: table[version][0][1] + 1]
            lost = {*self.settled(table)} - {*self.settled(then)}  # their rows came later, wherever the position was
            through = min([self.held(then), *(offset - 1 for offset in lost)])
            setbacks.append(rewind.Setback(was, through, restored=True))
        return rewind.held(self.live(table).offset, setbacks)

    def _step(self, process: State, world: State) -> Iterator[Step]:
        """One commit. Rows of a file that lies on both sides are deleted first, by a commit of their own."""
        _, _, steps = process
        index, move, mixed, removed, checked = steps[0]
        if mixed:
            after = self.trim(world, index, mixed[0], move.new.offset)
            yield f"repair deletes rows above {move.new.offset} of {self.types[index]}", STARTS[REPAIR], after
            return
        after = self.rewind(world, index, move, removed, checked)
        text = f"repair of {self.types[index]}: {move.old} => {move.new}"
        if after is None:
            yield f"{text}: refused", STARTS[REPAIR], world
        else:
            yield text, ((REPAIR, (), steps[1:]) if steps[1:] else STARTS[REPAIR]), after

    # -- Delta's atomic commits

    def commit(self, world: State, index: int, expected: State, new: int, checked: int) -> State | None:
        """Compare-and-set on the txn of the writer's own appId; None = refused. A RESTORE does not conflict (E)."""
        table, own = world[index], _app_id(expected[0])
        if (own, expected[1]) not in table[-1][1]:
            return None
        name = self.types[index]
        records = tuple(o for o in range(new + 1) if o > expected[1] and self.scope.log[o] == name)
        files = (*table[-1][2], *([(len(table), expected[0], records)] if records else []))
        return _append(world, index, (COMMIT, _written(table, {own: new}), files, checked, table[-1][4]))

    def spare(self, world: State, expected: State, offset: int, checked: int) -> State | None:
        """Protocol 3.7: the offset of a record, by compare-and-set; the position stays."""
        table, (epoch, position) = world[self.dead_letters], expected
        if (_app_id(epoch), position) not in table[-1][1] or offset in self.poison(table):
            return None
        txns = _written(table, spared_transactions(APP, TP, offset, Position(epoch, position)))
        return _append(world, self.dead_letters, (COMMIT, txns, table[-1][2], checked, table[-1][4]))

    def settle(self, world: State, expected: State, offset: int, checked: int) -> State | None:
        """The same once all tables are past it, with its row unless one has it. The looks are one step here."""
        table, (epoch, position) = world[self.dead_letters], expected
        if (_app_id(epoch), position) not in table[-1][1] or offset not in self.spared(table):
            return None
        held = any(
            may_hold(self.live(one), offset) and offset in offsets for one in world for *_, offsets in one[-1][2]
        )
        txns = _written(table, settled_transactions(APP, TP, offset, Position(epoch, position), held))
        files = table[-1][2] if held else (*table[-1][2], (len(table), epoch, (offset,)))
        return _append(world, self.dead_letters, (COMMIT, txns, files, checked, table[-1][4]))

    def trim(self, world: State, index: int, file: State, through: int) -> State:
        """DELETE of the rows above an offset: the file is rewritten, positions stay; nothing if it is gone."""
        table = world[index]
        if file not in table[-1][2]:
            return world
        left = (len(table), file[1], tuple(offset for offset in file[2] if offset <= through))
        files = tuple(sorted([*(one for one in table[-1][2] if one != file), left]))
        return _append(world, index, (DELETE, table[-1][1], files, -1, table[-1][4]))

    def rewind(self, world: State, index: int, move: rewind.Move, removed: State, checked: int) -> State | None:
        """Compare-and-set; tombstone, next epoch and removal in one commit. A file that is gone already conflicts.

        The history of the dead letters is written again as it was before the first RESTORE.
        """
        table, old = world[index], move.old
        if old is None or (_app_id(old.epoch), old.offset) not in table[-1][1] or not set(removed) <= set(table[-1][2]):
            return None
        if self.settled(table) != self.settled(table[: checked + 1]):  # a row that the plan does not know
            return None
        left = tuple(file for file in table[-1][2] if file not in removed)
        hit = self.rewinds_between(table, self.looked(table[: checked + 1]), checked + 1)
        epochs = (*table[hit[0] - 1 if hit else checked][4], move.new.epoch) if index == self.dead_letters else ()
        txns = _written(table, rewind.move_transactions(dict(table[-1][1]), APP, TP, move))
        return _append(world, index, (REWIND, txns, left, checked, epochs))

    # -- invariants

    def broken(self, world: State) -> str:
        """A task that started now would run (Agree), although records are lost or doubled; or none could ever run."""
        found = self.verdict(tuple(self.seen(world[index]) for index in self.order()))
        if not isinstance(found, crosscheck.Agree):
            stuck = not self.planned(dict(zip(self.types, world, strict=True)))
            return f"STOP: {found}, and a repair has nothing to do" if stuck else ""
        return next((text for i, table in enumerate(world) if (text := self._problem(i, table))), "")

    def _problem(self, index: int, table: State) -> str:
        name, position = self.types[index], self.live(table)
        there = [offset for *_, offsets in table[-1][2] for offset in offsets]
        for offset, kind in enumerate(self.scope.log.replace("X", DEAD_LETTERS)):
            if kind == name and there.count(offset) > 1:
                return f"ONCE: record {offset} is {there.count(offset)} times in {name}"
            if kind == name and offset <= position.offset and offset not in (*there, *self.spared(table)):
                return f"COVER: {name} is at {position}, record {offset} is lost"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE: neither the epoch nor, within it, the position."""
        for name, old, new in zip(self.types, before, after, strict=True):
            if old is not new and self.live(new) < self.live(old):
                return f"MONOTONE: {name} went back from {self.live(old)} to {self.live(new)}"
        return ""

    # -- a fair run without faults: the repair, then a task

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of a repair or a task that is left alone; a repair with nothing to do hands over to a task."""
        if steps := [step for step in self.steps(process, world) if "crashes" not in step[0]]:
            return steps[-1]
        return ("the repair has nothing to do", STARTS[TASK], world) if process[0] == REPAIR else None

    def finished(self, world: State) -> bool:
        """Everything is covered, and nothing is lost or doubled."""
        moving = (table for name, table in zip(self.types, world, strict=True) if name not in self.scope.still)
        ends = {self.live(table).offset for table in moving}
        whole = not any(self._problem(index, table) for index, table in enumerate(world))
        return ends == {len(self.scope.log) - 1} and whole and not self.spared(world[self.dead_letters])

    def show(self, world: State) -> str:
        """The tables in one line."""
        return "  ".join(
            f"{name}={_show((self.live(table).epoch, self.live(table).offset))}"
            f"{[offset for *_, offsets in table[-1][2] for offset in offsets]}"
            for name, table in zip(self.types, world, strict=True)
        )


def _append(world: State, index: int, version: State) -> State:
    return (*world[:index], (*world[index], version), *world[index + 1 :])


def _written(table: State, changes: Mapping[str, int]) -> State:
    return tuple(sorted({**dict(table[-1][1]), **changes}.items()))


def _app_id(epoch: int, kind: Any = None) -> str:
    return str(AppId(APP, TP, epoch, kind))


def _path(file: State) -> str:
    return "-".join(map(str, file[2])) + f"@{file[0]}"


def _file_rows(file: State) -> rewind.FileRows:
    return rewind.FileRows(_path(file), TP, file[1], file[2][0], file[2][-1])


def _show(position: State) -> str:
    return f"{position[1]}/e{position[0]}"
