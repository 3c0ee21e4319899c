"""The world of deleting (protocol, section 6): who may delete a staged file while others commit.

Writers stage files into the table's folder and name them in commits; a sweeper lists the folder, takes
a snapshot, and deletes by the project's own test, file by file; a user takes rows away and brings them
back (DELETE, OPTIMIZE, RESTORE), and the epoch may be closed. A file is checked to be there before its
commit, as 4.2 says, but not in the same moment. Crashes at any time; a pause is an interleaving.

    Writer   (WRITER, name, epoch, covered, file or None, status, attempts so far)
    Sweeper  (SWEEPER, listed files or None, (live, removed, epoch, position) of the snapshot or None, dead or None)
    User     (USER, steps left)
    Closer   (CLOSER,)                                   a switch or a repair: begins the next epoch, once
    File     (epoch, last offset, attempt)               attempt: "<writer><number>", unique like the real one
    World    (epoch, position, live, removed, files in the folder)

Each step touches the table or its folder, so there are no local moves. Writers are interchangeable but
for the names of their attempts; the search does not use that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from exporter.core import outcome
from exporter.core.writers import Claim, WriterKey
from offsets.names import AppId, DataFile
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import TopicPartition
from offsets.sweeping import may_be_dead, spare
from tests.model.search import SharedSteps, State, Step
from tests.support.days import partition_of

APP = "model"
TP = TopicPartition("t", 0)
DAY = partition_of(date(2026, 1, 1))
WRITER, SWEEPER, USER, CLOSER = "writer", "sweeper", "user", "closer"
IDLE, STAGED, CALLED, LOST = "idle", "staged", "called", "lost"
SWEEPS = ("lists", "takes a snapshot")
"""What a sweeper does before it deletes, in this order."""


@dataclass(frozen=True)
class SweepScope:
    """records: of the log. attempts: files that each writer may stage. steps: of the user. closes: the epoch, once."""

    records: int = 2
    writers: int = 2
    attempts: int = 1
    steps: int = 0
    closes: bool = False


class SweepWorld(SharedSteps):
    """All steps of all processes."""

    def __init__(self, scope: SweepScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        names = [f"W{i + 1}" for i in range(self.scope.writers)] + ["sweeper"]
        names += ["user"] * bool(self.scope.steps) + ["switch"] * self.scope.closes
        return tuple(range(len(names))), tuple(names)

    def first_state(self) -> tuple[State, State]:
        writers = [(WRITER, "ab"[i], 0, -1, None, IDLE, 0) for i in range(self.scope.writers)]
        users = [(USER, self.scope.steps)] if self.scope.steps else []
        closers = [(CLOSER,)] if self.scope.closes else []
        return (0, -1, (), (), ()), (*writers, (SWEEPER, None, None, None), *users, *closers)

    # -- moves

    def steps(self, process: State, world: State) -> Iterator[Step]:
        steps = {WRITER: self._writes, SWEEPER: self._sweeps, USER: self._interferes, CLOSER: self._closes}
        return steps[process[0]](process, world)

    def _writes(self, process: State, world: State) -> Iterator[Step]:
        _, name, epoch, covered, file, status, attempts = process
        if status == IDLE and attempts < self.scope.attempts:
            for last in range(covered + 1, self.scope.records):
                new = (epoch, last, f"{name}{attempts + 1}")
                after = (WRITER, name, epoch, covered, new, STAGED, attempts + 1)
                yield f"stages {_show(new)}", after, _with(world, files=_plus(world[4], new))
        if status == STAGED:
            there = file in world[4]
            after = (WRITER, name, epoch, covered, file if there else None, CALLED if there else IDLE, attempts)
            yield ("finds its file, calls commit" if there else "misses its file, drops"), after, world
        if status == CALLED:
            new_world = self.commit(world, (epoch, covered), file)
            if new_world is not None:
                after = (WRITER, name, epoch, file[1], None, IDLE, attempts)
                yield f"commits {_show(file)}", after, new_world
                yield f"commits {_show(file)}, answer lost", (*process[:5], LOST, attempts), new_world
            yield "the commit raises, not landed", (*process[:5], LOST, attempts), world
        if status == LOST:
            yield self._looks(process, world)
        fresh = (WRITER, name, world[0], world[1], None, IDLE, attempts)
        if fresh != process:
            yield "crashes and starts again", fresh, world

    def _looks(self, process: State, world: State) -> Step:
        _, name, epoch, covered, file, _, attempts = process
        claim = Claim(WriterKey("A", TP), epoch, covered, file[1], (), 0, (file[2],))
        found = outcome.resolve(claim, self.logged(world), Position(world[0], world[1]))
        text = f"looks: {type(found).__name__.lower()}"
        if isinstance(found, outcome.Unknown):
            return text, (*process[:5], STAGED, attempts), world
        after = (WRITER, name, world[0], world[1], None, IDLE, attempts)
        return text, after, self.forgotten(world, file) if isinstance(found, outcome.Refused) else world

    def forgotten(self, world: State, file: State) -> State:
        """TEMP: what a writer drops stays where it is."""
        return world

    def logged(self, world: State) -> frozenset[str]:
        """The commit ids in the log; each commit names one file here, so its attempt stands for the id."""
        return frozenset(file[2] for file in (*world[2], *world[3]))

    def commit(self, world: State, expected: State, file: State) -> State | None:
        """Delta's compare-and-set; it does not look whether the file exists (E)."""
        if world[:2] != expected:
            return None
        return _with(world, position=file[1], live=_plus(world[2], file))

    def _sweeps(self, process: State, world: State) -> Iterator[Step]:
        _, listed, seen, dead = process
        if dead:
            for file in dead:
                left = tuple(one for one in dead if one != file)
                files = tuple(one for one in world[4] if one != file)
                yield f"deletes {_show(file)}", (SWEEPER, None, None, left or None), _with(world, files=files)
            return
        step = next(step for step, known in zip(SWEEPS, self._known(listed, seen), strict=True) if known is None)
        if step == "lists":
            listed = world[4]
        else:
            seen = (world[2], world[3], world[0], world[1])
        if listed is not None and seen is not None:
            dead = self.dead(listed, seen)
            text = f"{step}: may delete {', '.join(map(_show, dead)) or 'nothing'}"
            yield text, (SWEEPER, None, None, dead or None), world
        elif listed != ():
            yield step, (SWEEPER, listed, seen, None), world
        if process != (SWEEPER, None, None, None):
            yield "crashes", (SWEEPER, None, None, None), world

    def _known(self, listed: State | None, seen: State | None) -> tuple[Any, ...]:
        known = {"lists": listed, "takes a snapshot": seen}
        return tuple(known[step] for step in SWEEPS)

    def dead(self, listed: State, seen: State) -> State:
        """The project's test."""
        live, removed, epoch, position = seen
        versions = {str(AppId(APP, TP, earlier)): TOMBSTONE for earlier in range(epoch)}
        paths = {_path(file): file for file in listed}
        candidates = may_be_dead(paths, APP, {**versions, str(AppId(APP, TP, epoch)): position})
        spare(candidates, [_path(file) for file in (*live, *removed)])
        return tuple(sorted(paths[path] for path in candidates.values()))

    def _interferes(self, process: State, world: State) -> Iterator[Step]:
        """Each of the user's operations moves one file between what is live and what is tombstoned."""
        _, steps = process
        if not steps:
            return
        for file in world[2]:
            live = tuple(one for one in world[2] if one != file)
            yield f"removes {_show(file)}", (USER, steps - 1), _with(world, live=live, removed=_plus(world[3], file))
        for file in world[3]:
            if file in world[4]:
                removed = tuple(one for one in world[3] if one != file)
                after = _with(world, live=_plus(world[2], file), removed=removed)
                yield f"restores {_show(file)}", (USER, steps - 1), after

    def _closes(self, process: State, world: State) -> Iterator[Step]:
        if world[0] == 0:
            yield "closes the epoch", process, (1, *world[1:])

    # -- invariants

    def broken(self, world: State) -> str:
        """TEMP: what a table names is there."""
        gone = [file for file in world[2] if file not in world[4]]
        return f"TEMP: {_show(gone[0])} is committed and deleted" if gone else ""

    def went_back(self, before: State, after: State) -> str:
        return "MONOTONE: the position went back" if after[:2] < before[:2] else ""

    def show(self, world: State) -> str:
        epoch, position, live, removed, files = world
        texts = (f"{name}=[{' '.join(map(_show, those))}]" for name, those in (("live", live), ("folder", files)))
        return f"{position}/e{epoch}  {'  '.join(texts)}{'  removed ' + str(len(removed)) if removed else ''}"


def _with(world: State, position: Any = None, live: Any = None, removed: Any = None, files: Any = None) -> State:
    changes = (None, position, live, removed, files)
    return tuple(old if new is None else new for old, new in zip(world, changes, strict=True))


def _plus(files: State, file: State) -> State:
    return tuple(sorted((*files, file)))


def _path(file: State) -> str:
    return str(DataFile(DAY, APP, TP, file[0], file[1], file[2]))


def _show(file: State) -> str:
    return f"{file[2]}..{file[1]}/e{file[0]}"
