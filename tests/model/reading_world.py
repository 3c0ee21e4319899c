"""The world of a reading that goes on beside the loop (protocol 5.3): what it found counts, or is dropped.

One partition with one record, and two tasks. T is the exporter's own Ownership: its partition comes and goes while a
thread reads the tables. O is everybody else: it exports the record, or spares it, which moves no position. A task
that is told late that its partition was taken away is not in this world: here it has heard of it before O begins.

    T        (ownership epoch or 0, waiting, epoch being read or 0, leaving, thread, writer)
             thread: None, () or what it read (position, poison)      writer: None or (position, poison)
    World    (owner, assignments so far, position, rows, dead letters, poison)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from exporter.kafka.assignment import Assigned, Leaving, Revoked
from exporter.monitor.totals import Totals
from exporter.task import ownership
from exporter.task.ownership import Ownership
from offsets.ranges import TopicPartition
from tests.model.search import SharedSteps, Silent, State, Step

TP = TopicPartition("t", 0)
OTHERS = ("others",)
NOBODY, MINE, THEIRS = "nobody", "T", "O"
BEFORE, AFTER = -1, 0
"""The position before the record, and at it."""
STUBS: tuple[tuple[Any, str, Any], ...] = ((ownership, "log", Silent()),)
"""Module, name, value: to be in place while this world is searched."""


@dataclass(frozen=True)
class ReadingScope:
    """takes: how often T gets the partition. spares: whether O spares."""

    takes: int = 3
    spares: bool = True


class ReadingWorld(SharedSteps):
    """All steps of both."""

    def __init__(self, scope: ReadingScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return (0, 1), (MINE, THEIRS)

    def first_state(self) -> tuple[State, State]:
        return (NOBODY, 0, BEFORE, 0, 0, False), ((0, False, 0, False, None, None), OTHERS)

    def steps(self, process: State, world: State) -> Iterator[Step]:
        return self._others(world) if process == OTHERS else self._mine(process, world)

    def _others(self, world: State) -> Iterator[Step]:
        owner, takes, position, rows, dead_letters, poison = world
        if owner == NOBODY:
            yield "is assigned the partition", OTHERS, (THEIRS, *world[1:])
        if owner != THEIRS:
            return
        yield "gives it back", OTHERS, (NOBODY, *world[1:])
        if position == BEFORE:
            more = 0 if poison else 1
            yield "exports, or skips what is poison", OTHERS, (owner, takes, AFTER, rows + more, dead_letters, poison)
            if self.scope.spares and not poison:
                yield "spares the record", OTHERS, (owner, takes, position, rows, dead_letters + 1, True)

    def _mine(self, process: State, world: State) -> Iterator[Step]:
        epoch, _, _, _, thread, writer = process
        owner, takes, position, rows, dead_letters, poison = world
        if owner == NOBODY and takes < self.scope.takes:
            machine = _made(process)
            machine.take([Assigned(TP, takes + 1)])
            yield "is assigned the partition", _bare(machine, thread, None), (MINE, takes + 1, *world[2:])
        if owner == MINE:
            yield from self._on_its_way(process, world)
        if thread is None and not epoch:
            return
        if thread is None and _made(process).waiting:
            machine = _made(process)
            machine.begin_reading()
            yield "begins to read", _bare(machine, (), None), world
        if thread == ():
            yield "reads the tables", (*process[:4], (position, poison), writer), world
        if thread:
            machine = _made(process)
            counts = machine.end_reading()
            text = "takes what was read" if counts else "drops it"
            yield text, _bare(machine, None, thread if counts else None), world
        if writer is not None and writer[0] == BEFORE:
            if position != BEFORE:
                machine = _made(process)
                machine.read_again([TP])
                yield "is refused", _bare(machine, thread, None), world
            elif writer[1]:
                skipped = (owner, takes, AFTER, rows, dead_letters, poison)
                yield "skips the record", (*process[:5], (AFTER, True)), skipped
            else:
                done = (owner, takes, AFTER, rows + 1, dead_letters, poison)
                yield "commits the record", (*process[:5], (AFTER, False)), done

    def _on_its_way(self, process: State, world: State) -> Iterator[Step]:
        thread, writer = process[4:]
        if not process[3]:
            machine = _made(process)
            machine.take([Leaving((TP,), threading.Event())])
            yield "hears that it leaves", _bare(machine, thread, writer), world
        machine = _made(process)
        machine.take([Revoked(TP, False)])
        yield "has to give it up", _bare(machine, thread, None), (NOBODY, *world[1:])

    # -- invariants

    def broken(self, world: State) -> str:
        _, _, position, rows, dead_letters, _ = world
        if rows + dead_letters > 1:
            return f"ONCE: the record is in {rows} rows and {dead_letters} dead letters"
        return "COVER: the record was passed" if position == AFTER and not rows + dead_letters else ""

    def went_back(self, before: State, after: State) -> str:
        return "MONOTONE: the position went back" if after[2] < before[2] else ""

    def show(self, world: State) -> str:
        owner, _, position, rows, dead_letters, _ = world
        return f"{owner}'s; position {position}, {rows} rows, {dead_letters} dead letters"


def _made(process: State) -> Ownership:
    epoch, waiting, reading, leaving, *_ = process
    machine = Ownership(totals=Totals(), drop=lambda _: {})
    if epoch:
        machine.owned[TP] = epoch
    if leaving:
        machine.leaving[TP] = threading.Event()
    machine._waiting = {TP} if waiting else set()
    machine._reading = {TP: reading} if reading else {}
    return machine


def _bare(machine: Ownership, thread: State | None, writer: State | None) -> State:
    reading = machine._reading.get(TP, 0)
    return (machine.owned.get(TP, 0), TP in machine._waiting, reading, TP in machine.leaving, thread, writer)
