"""The world of derived tables: one exported table as a source, and the processes of one job over it (protocol 9).

One topic partition. The source is exported record by record; a replay moves a dead letter into it; a user RESTOREs it
to any earlier version, and the repair after that begins a new epoch; its topic is created again and re-based; it is
dropped and made anew. Processes of the job read its table, pin the source, and commit by compare-and-set on the job's
run; each crashes and pauses at any moment. One that stops (70) because the source took rows back is told by the
operator to begin anew. A table is what its last version says, so nothing that OPTIMIZE or VACUUM do is seen here.

    Source   (SOURCE, RESTOREs left, re-bases left, drops left)        exports, replays, and what befalls the table
    Job      (JOB, whether it begins anew, None or what it has read, None or its offer, LOST or not)
    Table    (its number, version, txns, rows, versions that a RESTORE may go to, hit)
             hit: through which offset it certainly has everything since a RESTORE that is not repaired; else None
    Row      (topic, offset, epoch, number of the replay or 0)          topic: how often it had been created again
    Target   (txns, rows)                                        rows: (topic, offset, epoch)
    World    (source, target)

What is new since a cursor, what a source took back, and what the job's table says of both are offsets/cursors.py; a
repair's and a re-base's transactions are offsets/rewind.py. Played here: which rows a replay brought (by the number in
the row), which offset a RESTORE leaves certain, Delta's compare-and-set, and the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsets.cursors import (
    Cursor,
    Slice,
    as_transactions,
    cursor_of,
    head_of,
    replayed,
    run_id,
    setbacks,
    slices,
    superseded,
    whole,
    window,
)
from offsets.names import AppId
from offsets.positions import Position, first_epoch, last_replay, live_position
from offsets.ranges import TopicPartition
from offsets.rewind import Move, move_transactions
from offsets.table_log import TableView
from tests.model.search import remember

State = tuple[Any, ...]
Step = tuple[str, State, State]
APP, JOB_NAME, TYPE = "model", "job", "A"
TP = TopicPartition("t", 0)
SOURCE, JOB = "source", "job"
START: State = (JOB, False, None, None, "")
LOST, MISSING = "lost", "rows are missing"
NO_TABLE: State = ((), ())


@dataclass(frozen=True)
class DeriveScope:
    """log: the record at each offset; one in capital letters is a dead letter until it is replayed.

    most: offsets that one run takes at most; 0 = all. restores, rebases, drops: how many befall the source.
    """

    log: Sequence[str] = "aa"
    jobs: int = 2
    most: int = 0
    restores: int = 0
    rebases: int = 0
    drops: int = 0


class DeriveWorld:
    """All steps of all processes. Each touches a table, so there are no local moves."""

    def __init__(self, scope: DeriveScope) -> None:
        self.scope = scope
        remember(self, "view", "now", "cursor", "stops", "new_rows", "offer", "broken")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        jobs = tuple(f"J{i + 1}" for i in range(self.scope.jobs))
        return (0, *(1,) * len(jobs)), ("source", *jobs)

    def first_state(self) -> tuple[State, State]:
        """The source is anchored before offset 0; the job has no table."""
        scope = self.scope
        source = (SOURCE, scope.restores, scope.rebases, scope.drops)
        return (self.made(0, 0), NO_TABLE), (source, *(START,) * scope.jobs)

    def made(self, number: int, version: int) -> State:
        """A source that is created."""
        return number, version, written((), {_id(0): -1, _id(0, "anchor"): -1}), (), (), None

    # -- what the tables say

    def view(self, source: State) -> TableView:
        return TableView(source[1], f"table-{source[0]}", "", dict(source[2]))

    def now(self, source: State) -> Cursor:
        """All that the source holds."""
        return whole(self.view(source), APP)

    def cursor(self, target: State) -> Cursor:
        return cursor_of(dict(target[0]), APP, JOB_NAME, TYPE)

    def live(self, source: State) -> Position:
        found = live_position(dict(source[2]), APP, TP)
        if found is None:
            raise RuntimeError("a position vanished")
        return found

    def stops(self, source: State, target: State) -> str:
        """Why a job with this table does not go on over a source that lacks nothing (9.3); empty if it does."""
        since = self.cursor(target)
        if since.table_id and since.table_id != self.view(source).table_id:
            return "another table"
        return "it took rows back" if setbacks(since, self.view(source), APP) else ""

    def new_rows(self, source: State, target: State) -> State:
        """All rows that are new since the job's cursor."""
        return self.taken(source, self.cursor(target), self.now(source))

    def taken(self, source: State, since: Cursor, until: Cursor) -> State:
        """The rows that a run takes: those of new offsets, and what new replays have put at or below the cursor."""
        new, all_new = slices(since, until), slices(since, self.now(source))
        after, last = replayed(since, until).get(TP, (0, 0))
        brought = (row for row in source[3] if after < row[3] <= last and not _within(row, all_new))
        return tuple(sorted([*(row for row in source[3] if _within(row, new)), *brought]))

    # -- moves

    def local_moves(self, process: State) -> list[tuple[str, Any, int, int]]:
        return []

    def shared_moves(self, process: State, world: State) -> list[tuple[str, Any, State, int, int]]:
        steps = self._befalls(process, world) if process[0] == SOURCE else self._runs(process, world)
        moves = list(steps)
        if process[0] == JOB and process != START:
            moves.append(("crashes and starts again", START, world))
        return [(*move, 0, 0) for move in moves]

    def _befalls(self, process: State, world: State) -> Iterator[Step]:
        _, restores, rebases, drops = process
        (number, version, txns, rows, olds, hit), target = world
        position = self.live(world[0])
        topic = first_epoch(dict(txns), APP, TP)
        new = position.offset + 1
        if new < len(self.scope.log):
            decodes = self.scope.log[new].islower() or last_replay(dict(txns), APP, TP) > 0
            more = [(topic, new, position.epoch, 0)] if decodes else []
            yield f"exports {new}", process, (self._next(world[0], {_id(position.epoch): new}, more), target)
        for offset in self._dead_letters(world[0], topic, position.offset):
            last = last_replay(dict(txns), APP, TP) + 1
            more = [(topic, offset, position.epoch, last)]
            put = self._next(world[0], {_id(last, "replay"): offset}, more)
            yield f"replay {last} of {offset}", process, (put, target)
        for old, offset in olds if restores else ():
            lost = [row[1] for row in rows if row not in old and row[0] == topic]
            through = min([offset, *(one - 1 for one in lost), *(() if hit is None else (hit,))])
            source = (number, version + 1, txns, old, olds, through)
            yield f"RESTORE to {shown(old)}", (SOURCE, restores - 1, rebases, drops), (source, target)
        if hit is not None:
            yield f"repair: {position} => {hit}/e{position.epoch + 1}", process, (self.repaired(world[0]), target)
        elif rebases:
            move = Move(position, Position(position.epoch + 1, -1), cuts=True)
            moved = move_transactions(dict(txns), APP, TP, move, rebased=True)
            source = (number, version + 1, written(txns, moved), rows, (), None)
            yield "the topic is created again, re-base", (SOURCE, restores, rebases - 1, drops), (source, target)
        if drops:
            yield "dropped and made anew", (SOURCE, restores, rebases, drops - 1), (self.made(number + 1, 0), target)

    def _dead_letters(self, source: State, topic: int, position: int) -> list[int]:
        """Dead letters at or below the position; the export decodes what comes later by itself."""
        there = {offset for one, offset, *_ in source[3] if one == topic}
        return [at for at, kind in enumerate(self.scope.log[: position + 1]) if kind.isupper() and at not in there]

    def repaired(self, source: State) -> State:
        """Protocol 7.1: the next epoch begins where everything is certain, and rows beyond it go with the move."""
        number, version, txns, rows, _, hit = source
        position, topic = self.live(source), first_epoch(dict(txns), APP, TP)
        moved = move_transactions(dict(txns), APP, TP, Move(position, Position(position.epoch + 1, hit), cuts=True))
        left = tuple(row for row in rows if row[0] != topic or row[1] <= hit)
        return number, version + 1, written(txns, moved), left, (), None

    def _next(self, source: State, txns: Mapping[str, int], more: list[State]) -> State:
        """One commit of the export; what was there before is what a RESTORE may go to."""
        number, version, before, rows, olds, hit = source
        olds = tuple(sorted({*olds, (rows, self.live(source).offset)})) if self.scope.restores and hit is None else olds
        return number, version + 1, written(before, txns), tuple(sorted((*rows, *more))), olds, hit

    def _runs(self, process: State, world: State) -> Iterator[Step]:
        _, anew, known, offer, lost = process
        source, target = world
        if lost:
            yield self.looks(process, world)
        elif offer is not None:
            after = self.commit(target, offer)
            if after is None:
                yield "is refused: another process runs the job", START, world
                return
            yield "commits", START, (source, after)
            yield "commits, answer lost", (JOB, anew, None, offer, LOST), (source, after)
            yield "the commit raises, not landed", (JOB, anew, None, offer, LOST), world
        elif known is None:
            yield "reads its table", (JOB, anew, target, None, ""), world
        else:
            yield self.pins(known, source, anew, world)

    def pins(self, known: State, source: State, anew: bool, world: State) -> Step:
        """Pin the source, look at what it took back, and make what the run commits."""
        why = MISSING if source[5] is not None else self.stops(source, NO_TABLE if anew else known)
        if why:
            return f"stops: {why}", (JOB, not anew and why != MISSING, None, None, ""), world
        offer = self.offer(source, known, anew)
        if offer is None:
            return "has nothing to do", START, world
        return f"pins version {source[1]}, takes {shown(offer[2])}", (JOB, anew, None, offer, ""), world

    def offer(self, source: State, known: State, anew: bool) -> State | None:
        """What a run commits that read the job's table so: (run expected, txns, rows, whether all others go)."""
        since, until = self.cursor(NO_TABLE if anew else known), self.now(source)
        if self.scope.most and not anew:
            until = window(since, until, self.scope.most)
        if not anew and not slices(since, until) and not replayed(since, until):
            return None
        rows = tuple(row[:3] for row in self.taken(source, since, until))
        run = dict(known[0]).get(run_id(APP, JOB_NAME), 0)
        said = {**as_transactions(until, APP, JOB_NAME, TYPE), run_id(APP, JOB_NAME): run + 1}
        if anew:
            said |= superseded(dict(known[0]), said, APP, JOB_NAME)
        return run, tuple(sorted(said.items())), rows, anew

    def commit(self, target: State, offer: State) -> State | None:
        """Rows and cursors in one commit, by compare-and-set on the job's run; None = refused (9.2)."""
        run, said, rows, anew = offer
        if dict(target[0]).get(run_id(APP, JOB_NAME), 0) != run:
            return None
        return written(target[0], dict(said)), self.put(() if anew else target[1], rows)

    def put(self, there: State, rows: State) -> State:
        """The rows of the job's table with those that a run took."""
        return tuple(sorted(there + rows))

    def looks(self, process: State, world: State) -> Step:
        """9.4: whatever the call said, the log tells; a process that does not find its commit ends."""
        return "looks, and ends", START, world

    # -- invariants

    def broken(self, world: State) -> str:
        """A job that would go on now has lost a row, or has one twice, or one that the source has no more."""
        source, target = world
        rows = target[1]
        twice = [row for row in rows if [one[:2] for one in rows].count(row[:2]) > 1]
        if twice:
            return f"ONCE: the job has row {shown(twice[:1])} twice"
        if not target[0] or source[5] is not None:
            return ""
        if why := self.stops(source, target):
            seen = dict(target[0]).get(f"{head_of(APP, JOB_NAME, TYPE)}version/{self.view(source).table_id}")
            return f"STOP: {why}, for ever" if seen == source[1] else ""
        new = {row[:3] for row in self.new_rows(source, target)}
        there = {row[:3] for row in source[3]}
        missing, strange = sorted(there - new - {*rows}), sorted({*rows} - there)
        if strange:
            return f"ONCE: the job has row {shown(strange)}, which its source took back"
        return f"COVER: the job's cursor has passed row {shown(missing)}, which its table lacks" if missing else ""

    def went_back(self, before: State, after: State) -> str:
        runs = [dict(world[1][0]).get(run_id(APP, JOB_NAME), 0) for world in (before, after)]
        return "MONOTONE: the job's runs went back" if runs[1] < runs[0] else ""

    # -- a fair run without faults: the repair, then the job

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of a job that is left alone, after the source's repair."""
        source, target = world
        if source[5] is not None:
            return "the source is repaired", process, (self.repaired(source), target)
        return next(iter(self._runs(process, world)), None)

    def finished(self, world: State) -> bool:
        """The job has just what the source has."""
        source, target = world
        return source[5] is None and sorted(row[:3] for row in source[3]) == sorted(target[1])

    def show(self, world: State) -> str:
        source, target = world
        runs = dict(target[0]).get(run_id(APP, JOB_NAME), 0)
        hit = " hit" if source[5] is not None else ""
        return f"{self.live(source)}={shown(source[3])}{hit}  run {runs}={shown(target[1])}"


def _within(row: State, new: Sequence[Slice]) -> bool:
    """Whether a row is of one of these offsets; as source.within() says it to Spark."""
    _, offset, epoch, _ = row
    return any(
        one.after < offset <= one.through and one.first <= epoch and (one.before is None or epoch < one.before)
        for one in new
    )


def _id(epoch: int, kind: Any = None) -> str:
    return str(AppId(APP, TP, epoch, kind))


def written(txns: State, changes: Mapping[str, int]) -> State:
    return tuple(sorted({**dict(txns), **changes}.items()))


def shown(rows: State) -> str:
    return "[" + " ".join(f"{row[0]}:{row[1]}" for row in rows) + "]"
