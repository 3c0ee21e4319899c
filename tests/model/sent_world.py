"""The world of records that are made of a table: what is sent to a topic, and how far (protocol 9.7).

The rows of a table have an order, here a number, and come one after the other. Processes of the job send them in
transactions of Kafka under one transactional id, and with them, in the same transaction, how far they have come. Each
crashes and pauses at any moment; one that wakes up is a zombie. The broker ends a transaction that stays open too long.

    Table    (TABLE,)                                    rows come
    Sender   (SENDER, name, whether it has fenced or None, progress as it was read or None, rows it is to send, step)
    Topic    (who fenced last, empty if nobody since, progress, rows that a read_committed consumer sees, open)
             open: (rows, progress or None) of the transaction that is open, None if there is none
    World    (rows of the table, topic)

The rules of Kafka's coordinator are played (E): init_transactions raises the producer epoch, its caller's from then
on, ends what is open, and whatever an older epoch asks for is refused; a transaction's records and its progress are
there together or not at all. A commit whose answer was lost is there or is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

State = tuple[Any, ...]
Step = tuple[str, State, State]
TABLE, SENDER = "table", "sender"
BEGINS = ("fences", "reads how far it is")
"""What a sender does first, in this order."""
SENDING = ("sends", "tells how far", "commits")
"""What it does with the rows that it has read, in this order."""
LOST = "lost"


@dataclass(frozen=True)
class SentScope:
    """rows: of the table. most: rows of one transaction."""

    rows: int = 2
    senders: int = 2
    most: int = 2


class SentWorld:
    """All steps of all processes. Each touches the table or the topic, so there are no local moves."""

    def __init__(self, scope: SentScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        senders = tuple(f"S{i + 1}" for i in range(self.scope.senders))
        return tuple(range(2 + len(senders))), ("table", "broker", *senders)

    def first_state(self) -> tuple[State, State]:
        senders = (begun(f"S{i + 1}") for i in range(self.scope.senders))
        return (0, ("", 0, (), None)), ((TABLE,), ("broker",), *senders)

    def local_moves(self, process: State) -> list[tuple[str, Any, int, int]]:
        return []

    def shared_moves(self, process: State, world: State) -> list[tuple[str, Any, State, int, int]]:
        steps = {TABLE: self._comes, "broker": self._times_out, SENDER: self._works}
        moves = list(steps[process[0]](process, world))
        if process[0] == SENDER and process != begun(process[1]):
            moves.append(("crashes and starts again", begun(process[1]), world))
        return [(*move, 0, 0) for move in moves]

    def _comes(self, process: State, world: State) -> Iterator[Step]:
        rows, topic = world
        if rows < self.scope.rows:
            yield f"row {rows} comes", process, (rows + 1, topic)

    def _times_out(self, process: State, world: State) -> Iterator[Step]:
        rows, (_, progress, seen, opened) = world
        if opened is not None:
            yield "ends a transaction that was open too long", process, (rows, ("", progress, seen, None))

    def _works(self, process: State, world: State) -> Iterator[Step]:
        _, name, mine, known, _, step = process
        if step == LOST:
            yield self.looks(process, world)
        elif mine is None or known is None:
            yield self.begins(process, world)
        elif not step:
            there = tuple(range(known, min(world[0], known + self.scope.most)))
            if there:
                yield f"reads rows {_shown(there)}", (SENDER, name, mine, known, there, SENDING[0]), world
        elif not self.may(name, world):
            yield f"{step}: is fenced", begun(name), world
        else:
            yield from self._sends(process, world)

    def begins(self, process: State, world: State) -> Step:
        """The steps of a start: an older process can do nothing any more, and then nothing of it is to come."""
        _, name, mine, known, _, _ = process
        rows, (_, progress, seen, _) = world
        step = next(one for one, done in zip(BEGINS, self._done(mine, known), strict=True) if done is None)
        if step == "fences":
            return "init_transactions", (SENDER, name, True, known, (), ""), (rows, (name, progress, seen, None))
        return f"reads how far it is: {progress}", (SENDER, name, mine, progress, (), ""), world

    def _done(self, mine: bool | None, known: int | None) -> tuple[int | None, ...]:
        done: dict[str, int | None] = {"fences": mine, "reads how far it is": known}
        return tuple(done[step] for step in BEGINS)

    def may(self, name: str, world: State) -> bool:
        """Whether the broker takes anything from this producer."""
        return bool(name == world[1][0])

    def _sends(self, process: State, world: State) -> Iterator[Step]:
        _, name, mine, known, batch, step = process
        rows, (owner, progress, seen, opened) = world
        sent, told = opened or ((), None)
        left = SENDING[SENDING.index(step) + 1 :]
        through = known + len(batch)
        done = (SENDER, name, mine, *((known, batch, left[0]) if left else (through, (), "")))
        lost = (*process[:5], LOST)
        if step == "sends":
            yield f"sends {_shown(batch)}", done, (rows, (owner, progress, seen, ((*sent, *batch), told)))
        elif step == "tells how far":
            yield f"tells how far: {through}", done, (rows, self.told(world[1], through))
        else:
            topic = (owner, progress if told is None else told, (*seen, *sent), None)
            yield "commits", done, (rows, topic)
            yield "commits, answer lost", lost, (rows, topic)
            yield "the commit raises, not landed", lost, world

    def told(self, topic: State, progress: int) -> State:
        """Progress belongs to the transaction that is open."""
        owner, before, seen, opened = topic
        return owner, before, seen, ((opened or ((), None))[0], progress)

    def looks(self, process: State, world: State) -> Step:
        """9.4: whatever the call said, a new start asks how far the topic is."""
        return "ends, and starts again", begun(process[1]), world

    # -- invariants

    def broken(self, world: State) -> str:
        """The topic is the table, in order, through the progress."""
        _, (_, progress, seen, _) = world
        for at, row in enumerate(seen):
            if row in seen[:at]:
                return f"ONCE: row {row} is in the topic twice"
            if row != at:
                return f"ORDER: row {row} comes after {at} others"
        return f"COVER: progress is {progress}, the topic has {len(seen)} rows" if progress > len(seen) else ""

    def went_back(self, before: State, after: State) -> str:
        return "MONOTONE: the progress went back" if after[1][1] < before[1][1] else ""

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of a sender that is left alone."""
        return next(iter(self._works(process, world)), None)

    def finished(self, world: State) -> bool:
        return bool(world[1][2] == tuple(range(world[0])))

    def show(self, world: State) -> str:
        rows, (owner, progress, seen, opened) = world
        more = f"  open {_shown(opened[0])}" if opened is not None else ""
        return f"{rows} rows  {owner or 'nobody'} may, progress {progress}, topic {_shown(seen)}{more}"


def begun(name: str) -> State:
    """A sender that begins."""
    return SENDER, name, None, None, (), ""


def _shown(rows: State) -> str:
    return "[" + " ".join(map(str, rows)) + "]"
