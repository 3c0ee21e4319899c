"""The world of rows that grow too old (AGED, protocol 4.14): maintenance that dies anywhere, RESTORE, and late records.

What runs is the exporter's own Aging; its effects, the bound's commit, a look at the table and the commit that takes
out what was seen, are played here, each in a step of its own: between them everybody else moves, or the process dies.
Audited is every state, by the audit's own question (has_aged), of records that the audit reads with their own times.

    Turn    of a maintenance: (), or (version that it has read, day of its clock, effects done, version it looked at)
    World   (day of the clock, offsets that are committed, versions, RESTOREs left)
            versions: (offsets with a live row, bound or None) of each; the newest is the table
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

from exporter.operate.audit.job import AuditJob
from exporter.operate.audit.known import Known
from exporter.operate.audit.pin import PinnedTables
from exporter.operate.maintain import aging
from exporter.operate.maintain.aging import Aging
from offsets.aged import aged_before
from offsets.partitions import DAY
from tests.model.search import SharedSteps, State, Step
from tests.model.world import APP

TABLE, CODE = "A", 1
FIRST_DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)
NO_TURN: State = ()


@dataclass(frozen=True)
class AgedScope:
    """log: the day of each record, a digit. kept: retention_days. days: how far the clock goes. turns: at once."""

    log: str = "012"
    kept: int = 1
    days: int = 3
    turns: int = 1
    restores: int = 1


class _Waits(BaseException):
    """An effect has no answer yet. asked: the bound, a day, or offsets. fenced: only if the bound is as it was."""

    def __init__(self, effect: str, asked: Any, fenced: bool) -> None:
        super().__init__(effect)
        self.effect, self.asked, self.fenced = effect, asked, fenced


class _Table:
    """Plays the table and its log: an effect that is done says nothing, the next one waits."""

    event_type = TABLE

    def __init__(self, done: int, seen: Any) -> None:
        """done: effects. seen: the table as it was looked at, once it was."""
        self.left, self._seen = done, seen

    def effect(self, name: str, asked: Any, fenced: bool = False) -> None:
        if not self.left:
            raise _Waits(name, asked, fenced)
        self.left -= 1

    def view(self) -> Any:
        self.effect("look", ())
        return self._seen


class _Rewriting:
    """Plays the commit that takes files out, each of which is named by its offset."""

    def __init__(self, lake: Any, table: _Table, view: Any) -> None:
        self._table = table

    def commit(self, paths: list[str], rows: None, action: str, partition: str, tags: None) -> None:
        self._table.effect("delete", tuple(map(int, paths)))


def _said(table: Any, change: Any, expect: Any) -> int:
    (bound_us,) = change.positions.values()
    table.effect("say", _day_of(datetime.fromtimestamp(bound_us / 1e6, timezone.utc)), bool(change.expected))
    return 0


STUBS: tuple[tuple[Any, str, Any], ...] = (
    (aging, "commit_or_moved", _said),
    (aging, "live_files", lambda table, view: view.files),
    (aging, "Rewriting", _Rewriting),
)


class AgedWorld(SharedSteps):
    """All steps: of maintenance, and of the world around it as a further process."""

    def __init__(self, scope: AgedScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        turns = self.scope.turns
        return (*(0,) * turns, 1), (*(f"M{n + 1}" for n in range(turns)), "others")

    def first_state(self) -> tuple[State, State]:
        return (0, 0, (((), None),), self.scope.restores), (*(NO_TURN,) * self.scope.turns, ("others",))

    def steps(self, process: State, world: State) -> Iterator[Step]:
        if process == ("others",):
            yield from self._others(process, world)
            return
        if process == NO_TURN:
            begun = (len(world[2]) - 1, world[0], 0, 0)
            if self._waits(begun, world) is not None:
                yield "a turn begins", begun, world
            return
        yield "the turn dies", NO_TURN, world
        waits = self._waits(process, world)
        if waits is None:
            raise RuntimeError(f"{process} waits for nothing")
        day, committed, versions, restores = world
        rows, bound = versions[-1]
        at, clock, done, seen = process
        is_gone = waits.effect == "delete" and not {*waits.asked} <= {*rows}
        if is_gone or (waits.fenced and bound != versions[at][1]):
            yield f"{waits.effect} {waits.asked} is refused", NO_TURN, world
            return
        if waits.effect == "look":
            seen = len(versions) - 1
        elif waits.effect == "say":
            world = (day, committed, (*versions, (rows, waits.asked)), restores)
        else:
            left = tuple(offset for offset in rows if offset not in waits.asked)
            world = (day, committed, (*versions, (left, bound)), restores)
        after = (at, clock, done + 1, seen)
        ends = self._waits(after, world) is None
        yield f"{waits.effect} {waits.asked}", NO_TURN if ends else after, world

    def _others(self, process: State, world: State) -> Iterator[Step]:
        day, committed, versions, restores = world
        rows, bound = versions[-1]
        if day < self.scope.days:
            yield f"it is day {day + 1}", process, (day + 1, committed, versions, restores)
        if committed < len(self.scope.log):
            made = ((*rows, committed), bound)
            yield f"record {committed} is committed", process, (day, committed + 1, (*versions, made), restores)
        # What a RESTORE leaves of positions and bounds is what the newest version has; a repair exports the rest again.
        for at in range(len(versions) - 1) if restores else ():
            there = tuple(sorted({*versions[at][0], *self._younger(versions, at)}))
            yield f"RESTORE to {at}, repair", process, (day, committed, (*versions, (there, bound)), restores - 1)

    def _younger(self, versions: State, at: int) -> set[int]:
        """The offsets that were committed after a version: they are exported again."""
        seen = {offset for rows, _ in versions[: at + 1] for offset in rows}
        return {offset for rows, _ in versions for offset in rows} - seen

    def _left(self, rows: State, day: int) -> State:
        return tuple(offset for offset in rows if int(self.scope.log[offset]) >= day)

    def _waits(self, process: State, world: State) -> _Waits | None:
        """The effect that the turn has come to; None if it has nothing to do, or has ended."""
        at, day, done, seen = process
        table: Any = _Table(done, self._view(world, seen))
        lake: Any = SimpleNamespace(app=APP)
        now = FIRST_DAY + timedelta(days=day, hours=12)
        turn = Aging(lake, table, self._view(world, at), now, self.scope.kept)
        try:
            if turn.files() is not None:
                turn.apply()
        except _Waits as waits:
            return waits
        return None

    def _view(self, world: State, at: int) -> Any:
        """The table at a version; each record has a file."""
        rows, bound = world[2][at]
        files: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for offset in rows:
            day = FIRST_DAY + timedelta(days=int(self.scope.log[offset]))
            files[DAY.at(day)].append({"path": str(offset), "size": 1})
        told = {"version": at, "transactions": _transactions(bound), "partition_columns": ("day",), "properties": {}}
        return SimpleNamespace(**told, files=files)

    # -- invariants

    def broken(self, world: State) -> str:
        """AGED: an audit finds no record missing, whatever has been deleted; and nothing younger is deleted."""
        day, committed, versions, _ = world
        rows, bound = versions[-1]
        pinned = PinnedTables({}, codes={TABLE: CODE})
        said = aged_before(_transactions(bound), APP)
        pinned.aged = {} if said is None else {TABLE: said}
        known = Known(AuditJob((), None, None, {}, frozenset()), pinned, {})  # type: ignore[arg-type]
        for offset in range(committed):
            time = FIRST_DAY + timedelta(days=int(self.scope.log[offset]), hours=1)
            if offset not in rows and not known.has_aged(CODE, int(time.timestamp() * 1e6)):
                return f"COVER: record {offset} of day {self.scope.log[offset]} is missing, the bound is {bound}"
            if offset not in rows and int(self.scope.log[offset]) >= day - self.scope.kept:
                return f"AGED: record {offset} of day {self.scope.log[offset]} is deleted on day {day}"
        return ""

    def went_back(self, before: State, after: State) -> str:
        old, new = before[2][-1][1], after[2][-1][1]
        goes_back = old is not None and (new is None or new < old)
        return f"AGED: the bound goes back from {old} to {new}" if goes_back else ""

    def finished(self, world: State) -> bool:
        """All is committed, and what is too old is gone."""
        day, committed, versions, _ = world
        rows = versions[-1][0]
        return committed == len(self.scope.log) and self._left(rows, day - self.scope.kept) == rows

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of one process that is left alone."""
        unwanted = ("dies", "RESTORE", "it is day")
        moves = [move for move in self.steps(process, world) if not any(word in move[0] for word in unwanted)]
        return moves[-1] if moves else None

    def show(self, world: State) -> str:
        day, committed, versions, _ = world
        rows, bound = versions[-1]
        return f"day {day}, {committed} committed, rows {[*rows]}, bound {'-' if bound is None else bound}"


def _transactions(bound: int | None) -> dict[str, int]:
    at = None if bound is None else FIRST_DAY + timedelta(days=bound)
    return {} if at is None else {f"{APP}/aged": int(at.timestamp() * 1e6)}


def _day_of(moment: datetime) -> int:
    return (moment - FIRST_DAY).days
