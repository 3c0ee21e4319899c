"""The world of records that are erased (ERASED, protocol 4.16): an eraser and tasks that die anywhere, and RESTORE.

What runs is the exporter's own: Erasing, what a task learns of a table and leaves out of a plan (KnownTables), what
staged files fit (core/evolved.py), fingerprints as the log gives them (lake/log_files.py). Delta, Spark and Kafka are
played. Of two commits that begin on one snapshot the later one sees the other's metadata, as Delta sees to it.

    Task     (): it knows nothing; (epoch, covered, frontier, how many erasures it knows, fingerprint, offsets staged)
    Eraser   (), or (version that it has read, effects done, versions that it has read behind the first)
    World    (how many erasures are recorded, versions, RESTOREs left)
    version  (rows: (offset, number of its file), epoch, position, erasing, erased, how many are known of)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from exporter.core.evolved import fitting_all
from exporter.core.writers import PartitionPlan
from exporter.lake import log_files
from exporter.lake.settling import Expect, Moved
from exporter.operate.erase import erasing as erasing_module
from exporter.operate.erase.erasing import ErasedRows, Erasing
from exporter.operate.maintain import rewriting
from exporter.operate.repair.reading import trusted
from exporter.protocol.known import KnownTables
from offsets.erased import ERASED_PROPERTY, ERASING_PROPERTY, Erased, erased_app_id
from offsets.names import AppId
from offsets.partitions import Spec
from offsets.table_log import APP_PROPERTY, LogState, TableView
from tests.model.search import SharedSteps, State, Step
from tests.model.world import APP, TP

TABLE = "A"
NOTHING: State = ()
SCHEMA = '{"type":"struct","fields":[{"name":"_kafka","type":"string","nullable":true,"metadata":{}}]}'


@dataclass(frozen=True)
class ErasedScope:
    """records: that there are. subject: the offset of the one that is erased. tasks, erasers, restores: how many."""

    records: int = 2
    subject: int = 0
    tasks: int = 1
    erasers: int = 1
    restores: int = 1


class _Waits(BaseException):
    """Where an eraser has come to: `look`, a `commit`, or why it gives up."""

    def __init__(self, what: str, change: Any = None, expect: Any = None, also: Any = None) -> None:
        super().__init__(what)
        self.what, self.change, self.expect, self.also = what, change, expect, also


def _offered(table: Any, change: Any, expect: Expect, also: Any) -> int:
    table.effect(_Waits("commit", change, expect, also))
    return 0


STUBS: tuple[tuple[Any, str, Any], ...] = (
    (erasing_module, "commit_or_moved", _offered),
    (erasing_module, "_is_gone", lambda gone: None),
    (rewriting, "commit_or_moved", _offered),
    (rewriting.Rewriting, "rows", lambda *_: SimpleNamespace(join=lambda *_: None)),
)  # fmt: skip


class _Table:
    """Of a world's versions, for an eraser that has done so many effects, and read other versions since."""

    event_type = TABLE

    def __init__(self, versions: State, done: int, again: State) -> None:
        self._versions = versions
        self._left = done
        self._again = list(again)

    def effect(self, waits: _Waits) -> None:
        if not self._left:
            raise waits
        self._left -= 1

    def view(self) -> TableView:
        if not self._again:
            raise _Waits("look")
        return _view(self._versions, self._again.pop(0))

    def files_at(self, version: int) -> list[dict[str, Any]]:
        return [
            {"path": str(file), "size": 1, "stats": _stats(offset)} for offset, file in self._versions[version][0]
        ]

    def found(self, version: int, subject: int) -> ErasedRows:
        files = [str(file) for offset, file in self._versions[version][0] if offset == subject]
        return ErasedRows(len(files), dict.fromkeys(files, 1))


class _Erasing(Erasing):
    """The real one, but for what Spark reads."""

    subject = 0

    def _found(self, view: TableView) -> Any:
        table: Any = self._table
        return table.found(view.version, self.subject)

    def _gone(self, view: TableView) -> Any:
        """Nobody looks at it here."""


class ErasedWorld(SharedSteps):
    """All steps: of tasks, of erasers, and of the world around them as a further process."""

    def __init__(self, scope: ErasedScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        tasks, erasers = self.scope.tasks, self.scope.erasers
        names = (*(f"T{n + 1}" for n in range(tasks)), *(f"E{n + 1}" for n in range(erasers)), "others")
        return (*(0,) * tasks, *(1,) * erasers, 2), names

    def first_state(self) -> tuple[State, State]:
        world = (0, (((), 0, -1, 0, 0, 0),), self.scope.restores)
        tasks = (("task", NOTHING),) * self.scope.tasks
        return world, (*tasks, *(("eraser", NOTHING),) * self.scope.erasers, ("others", NOTHING))

    def steps(self, process: State, world: State) -> Iterator[Step]:
        kind, of = process
        found = {"task": self._task, "eraser": self._eraser, "others": self._others}[kind](of, world)
        for text, after, then in found:
            yield text, (kind, after), then

    # -- a task

    def _task(self, task: State, world: State) -> Iterator[Step]:
        if task == NOTHING:
            yield "the task starts", self._accepted(NOTHING, world), world
            return
        epoch, covered, frontier, number, fingerprint, staged = task
        yield "the task dies", NOTHING, world
        at = frontier + 1
        if at < self.scope.records:
            plan = PartitionPlan(TP, 0, epoch, at, at + 1, {TABLE: frontier})
            is_handed = at not in self._knows(number).erased_in(plan)
            staged = (*staged, at) if is_handed else staged
            text = f"record {at} is {'staged' if is_handed else 'left out'}"
            yield text, (epoch, covered, at, number, fingerprint, staged), world
        if frontier > covered:
            yield self._committed(task, world)

    def _committed(self, task: State, world: State) -> Step:
        """By compare-and-set on the position, if what is staged fits the table."""
        recorded, versions, restores = world
        epoch, covered, frontier, number, fingerprint, staged = task
        rows, at_epoch, position, *said = versions[-1]
        if (at_epoch, position) != (epoch, covered):
            return "the commit is refused", NOTHING, world
        now = _view(versions, len(versions) - 1)
        if staged and fitting_all(now, [(fingerprint, SCHEMA)]) is None:
            return "what is staged does not fit", self._accepted(task, world), world
        new = (*rows, *((offset, _next_file(versions) + n) for n, offset in enumerate(staged)))
        made = (new, epoch, frontier, *said)
        text = f"{[*staged]} committed, through {frontier}"
        return text, (epoch, frontier, frontier, number, fingerprint, ()), (recorded, (*versions, made), restores)

    def _accepted(self, task: State, world: State) -> State:
        """What a task goes by once it has looked at the table: nothing is staged."""
        recorded, versions, _ = world
        view = _view(versions, len(versions) - 1)
        known = self._knows(task[3] if task else 0)
        known.erasures = lambda views: self._erased(recorded)
        known._learn(view)
        _, epoch, position, *_ = versions[-1]
        return epoch, position, position, known.erased.number, view.fingerprint, ()

    def _knows(self, number: int) -> KnownTables:
        known = object.__new__(KnownTables)
        known.erased, known._begins = self._erased(number), {}
        return known

    def _erased(self, number: int) -> Erased:
        return Erased.of(number, [(TP.topic, TP.partition, 0, self.scope.subject)] if number else ())

    # -- an eraser

    def _eraser(self, eraser: State, world: State) -> Iterator[Step]:
        recorded, versions, restores = world
        if eraser == NOTHING:
            newest = len(versions) - 1
            there = any(offset == self.scope.subject for offset, _ in versions[-1][0])
            if there and not recorded:
                yield "the erasure is recorded", (newest, 0, ()), (1, versions, restores)
            elif self._offer((newest, 0, ()), world) is not None:
                yield "an eraser begins", (newest, 0, ()), world
            return
        yield "the eraser dies", NOTHING, world
        waits = self._offer(eraser, world)
        if waits is None:
            raise RuntimeError(f"{eraser} waits for nothing")
        version, done, again = eraser
        if waits.what == "look":
            yield "the eraser reads again", (version, done, (*again, len(versions) - 1)), world
            return
        if waits.what != "commit":
            yield waits.what, NOTHING, world
            return
        now = _view(versions, len(versions) - 1)
        try:
            waits.expect.require(TABLE, now)
            waits.also(now)
        except Moved as moved:
            yield f"it is refused: {moved}", NOTHING, world
            return
        rows, epoch, position, told, gone, known = versions[-1]
        change = waits.change
        if not {*change.removes} <= {str(file) for _, file in rows}:
            yield "Delta refuses it", NOTHING, world
            return
        left = tuple(row for row in rows if str(row[1]) not in change.removes)
        told = int(change.properties.get(ERASING_PROPERTY, told))
        gone = int(change.properties.get(ERASED_PROPERTY, gone))
        known = change.positions.get(erased_app_id(APP), known)
        after = (version, done + 1, again)
        world = (recorded, (*versions, (left, epoch, position, told, gone, known)), restores)
        ends = self._offer(after, world) is None
        text = f"files {', '.join(change.removes)} go" if change.removes else f"it is told {change.properties}"
        yield text, NOTHING if ends else after, world

    def _offer(self, eraser: State, world: State) -> _Waits | None:
        """Where the eraser has come to; None if it has nothing to do, or has ended."""
        version, done, again = eraser
        recorded, versions, _ = world
        table: Any = _Table(versions, done, again)
        lake: Any = SimpleNamespace(app=APP, gateway=SimpleNamespace(activate=lambda: None), session=None)
        work = _Erasing(lake, table, _view(versions, version), self._erased(recorded))
        work.subject = self.scope.subject
        try:
            if work.is_due:
                work.apply()
        except _Waits as waits:
            return waits
        except Moved as moved:
            return _Waits(f"it gives up: {moved}")
        return None

    # -- the world around them

    def _others(self, others: State, world: State) -> Iterator[Step]:
        recorded, versions, restores = world
        for at in range(len(versions) - 1) if restores else ():
            # A RESTORE takes rows and properties back, and no transaction. Its repair begins a new epoch where that
            # was, and puts those properties back that are true whatever became of the rows.
            rows, _, position, told, gone, _ = versions[at]
            kept = trusted(_view(versions, len(versions) - 1).properties)
            told, gone = int(kept.get(ERASING_PROPERTY, told)), int(kept.get(ERASED_PROPERTY, gone))
            made = (rows, versions[-1][1] + 1, position, told, gone, versions[-1][5])
            yield f"RESTORE to {at}, repair", others, (recorded, (*versions, made), restores - 1)

    # -- invariants

    def broken(self, world: State) -> str:
        """ERASED: a table that says that it has no row of an erasure has none. COVER: no other record is missing."""
        rows, _, position, _, gone, _ = world[1][-1]
        offsets = sorted(offset for offset, _ in rows)
        if gone and self.scope.subject in offsets:
            return f"ERASED: record {self.scope.subject} is in the table"
        wanted = [offset for offset in range(position + 1) if offset != self.scope.subject or not world[0]]
        without = [offset for offset in offsets if offset != self.scope.subject or not world[0]]
        return "" if wanted == without else f"COVER: there are rows {offsets} through {position}"

    def went_back(self, before: State, after: State) -> str:
        return ""

    def finished(self, world: State) -> bool:
        """All is exported, and what is erased is gone."""
        _, _, position, _, gone, _ = world[1][-1]
        return position + 1 == self.scope.records and bool(world[0]) and gone == world[0]

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of one process that is left alone."""
        unwanted = ("dies", "RESTORE")
        moves = [move for move in self.steps(process, world) if not any(word in move[0] for word in unwanted)]
        return moves[-1] if moves else None

    def show(self, world: State) -> str:
        rows, epoch, position, told, gone, _ = world[1][-1]
        shown = [offset for offset, _ in rows]
        return f"{world[0]} recorded, rows {shown} through {position} of epoch {epoch}, erasing {told}, erased {gone}"


def _view(versions: State, at: int) -> TableView:
    _, epoch, position, told, gone, known = versions[at]
    properties = {APP_PROPERTY: APP, **Spec("none").properties}
    properties |= {ERASING_PROPERTY: str(told)} if told else {}
    properties |= {ERASED_PROPERTY: str(gone)} if gone else {}
    transactions = {str(AppId(APP, TP, epoch)): position} | ({erased_app_id(APP): known} if known else {})
    metadata = {"id": "id", "schemaString": SCHEMA, "configuration": properties}
    return log_files.as_view(at, LogState(metadata, {}, transactions))


def _stats(offset: int) -> str:
    return json.dumps({name: {"_kafka": {"offset": offset}} for name in ("minValues", "maxValues")})


def _next_file(versions: State) -> int:
    return 1 + max((file for rows, *_ in versions for _, file in rows), default=-1)
