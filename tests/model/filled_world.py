"""The world of columns that came later (FILLED, protocol 4.15): backfills that die anywhere, beside all who write.

What runs is the exporter's own Backfill; what Spark does of it, reading rows and writing them, is played here, and so
is the one effect, its commit: it lands if what it asks of the table holds of the table as it is then, and if the files
that it takes away are there, as Delta itself asks.

    Turn     of a backfill: (), or (version that it has read,)
    World    (records that are committed, versions, what is left: columns, deletes, rewrites, RESTOREs)
    version  (whether the column is there, files, records that are deleted); the newest is the table
    file     (its number, how often rows of it were deleted, records: (number, whether the column has its value))
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.lake.settling import Expect, Moved
from exporter.operate.maintain import rewriting
from exporter.operate.maintain.backfill import Backfill, Fillable
from offsets.partitions import Spec
from offsets.table_log import APP_PROPERTY, TableView
from tests.model.search import SharedSteps, State, Step
from tests.model.world import APP

TABLE = "A"
NO_TURN: State = ()
_FIELD = '{"name":"%s","type":"string","nullable":true,"metadata":{}}'
SCHEMAS = tuple(
    '{"type":"struct","fields":[' + ",".join(_FIELD % name for name in names) + "]}"
    for names in (("_kafka", "_rescued"), ("_kafka", "a", "_rescued"))
)
"""Without the column and with it."""
ROUTING = Routing(
    type_from=TypeFrom("topic"), event_time=EventTime("record"),
    types=((TABLE, '{"type":"struct","fields":[' + _FIELD % "a" + "]}"),),
    unknown_fields="rescue", new_type="dead_letter", isolation="read_committed", record_bytes_max=1,
    event_time_min_us=0, event_time_ahead_max_secs=1, generation=1,
)  # fmt: skip


@dataclass(frozen=True)
class FilledScope:
    """records: that are committed. turns: of backfills, at once. deletes, rewrites, restores: how many, at most."""

    records: int = 2
    turns: int = 1
    deletes: int = 1
    rewrites: int = 1
    restores: int = 1


class _Offered(BaseException):
    """The commit that a backfill has come to."""

    def __init__(self, expect: Expect, also: Any, paths: tuple[str, ...]) -> None:
        super().__init__("commit")
        self.expect, self.also, self.paths = expect, also, paths


def _offered(table: Any, change: Any, expect: Expect, also: Any) -> int:
    raise _Offered(expect, also, change.removes)


def _rows(*_: Any) -> Any:
    return SimpleNamespace(mapInArrow=lambda *_: None, schema=None)


STUBS: tuple[tuple[Any, str, Any], ...] = (
    (rewriting, "commit_or_moved", _offered), (rewriting.Rewriting, "rows", _rows),
)  # fmt: skip


class _Table:
    """Of a world's versions."""

    event_type = TABLE

    def __init__(self, versions: State) -> None:
        self._versions = versions

    def files_at(self, version: int) -> list[dict[str, Any]]:
        return [
            {"path": str(number), "size": 1, "partitionValues": {}, **({"deletionVector": vector} if vector else {}),
             "stats": json.dumps({"numRecords": 1, "nullCount": {"_rescued": int(all(of for _, of in rows))}})}
            for number, vector, rows in self._versions[version][1]
        ]  # fmt: skip


class _Backfill(Backfill):
    """The real one, but for what executors read and write."""

    def look(self, some: Fillable, once: bool = False) -> Fillable | None:
        return some

    def _each(self, some: Fillable, run: Any, made: Any) -> list[Any]:
        return [(add, 1) for add in map(json.dumps, some.adds.values())]


class FilledWorld(SharedSteps):
    """All steps: of backfills, and of the world around them as a further process."""

    def __init__(self, scope: FilledScope) -> None:
        self.scope = scope
        session = SimpleNamespace(sparkContext=SimpleNamespace(accumulator=lambda _: SimpleNamespace(value=0)))
        self._lake: Any = SimpleNamespace(
            app=APP, session=session, options=SimpleNamespace(rescue_empty=False),
            gateway=SimpleNamespace(activate=lambda: None),
        )  # fmt: skip

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        turns = self.scope.turns
        return (*(0,) * turns, 1), (*(f"B{n + 1}" for n in range(turns)), "others")

    def first_state(self) -> tuple[State, State]:
        left = (1, self.scope.deletes, self.scope.rewrites, self.scope.restores)
        return (0, ((False, (), ()),), left), (*(NO_TURN,) * self.scope.turns, ("others",))

    def steps(self, process: State, world: State) -> Iterator[Step]:
        if process == ("others",):
            yield from self._others(process, world)
            return
        if process == NO_TURN:
            begun = (len(world[1]) - 1,)
            if self._offer(begun, world) is not None:
                yield "a backfill begins", begun, world
            return
        yield "the backfill dies", NO_TURN, world
        offer = self._offer(process, world)
        if offer is None:
            raise RuntimeError(f"{process} offers nothing")
        now = _view(world[1], len(world[1]) - 1)
        try:
            offer.expect.require(TABLE, now)
            offer.also(now)
        except Moved as moved:
            yield f"it is refused: {moved}", NO_TURN, world
            return
        column, files, deleted = world[1][-1]
        if not {*offer.paths} <= {str(number) for number, _, _ in files}:
            yield "Delta refuses it", NO_TURN, world
            return
        read = {str(number): rows for number, _, rows in world[1][process[0]][1]}
        made = tuple((number, True) for path in offer.paths for number, _ in read[path])
        kept = tuple(one for one in files if str(one[0]) not in offer.paths)
        version = (column, (*kept, (_next_number(world), 0, made)), deleted)
        yield f"files {', '.join(offer.paths)} are filled", NO_TURN, _with(world, version)

    def _others(self, process: State, world: State) -> Iterator[Step]:
        committed, versions, (columns, deletes, rewrites, restores) = world
        column, files, deleted = versions[-1]
        new = _next_number(world)
        if committed < self.scope.records:
            made = (column, (*files, (new, 0, ((committed, False),))), deleted)
            yield f"record {committed} is committed", process, (committed + 1, (*versions, made), world[2])
        if columns and not column:
            left = (0, deletes, rewrites, restores)
            yield "the column comes", process, (committed, (*versions, (True, files, deleted)), left)
        for at, (number, vector, rows) in enumerate(files) if deletes else ():
            (gone, _), *rest = rows
            some = ((number, vector + 1, tuple(rest)),) if rest else ()
            made = (column, (*files[:at], *some, *files[at + 1 :]), (*deleted, gone))
            left = (columns, 0 if deletes == 1 else deletes - 1, rewrites, restores)
            yield f"record {gone} is deleted", process, (committed, (*versions, made), left)
        if rewrites and len(files) > 1:
            made = (column, ((new, 0, tuple(row for _, _, rows in files for row in rows)),), deleted)
            left = (columns, deletes, rewrites - 1, restores)
            yield "OPTIMIZE", process, (committed, (*versions, made), left)
        # A repair exports again what came later: beside what the files have, and with the columns that there are.
        for at in range(len(versions) - 1) if restores else ():
            was, then, gone = versions[at]
            there = {*gone, *(number for _, _, rows in then for number, _ in rows)}
            later = tuple((number, False) for number in range(committed) if number not in there)
            made = (was, (*then, *(((new, 0, later),) if later else ())), gone)
            left = (int(not was), deletes, rewrites, restores - 1)
            yield f"RESTORE to {at}, repair", process, (committed, (*versions, made), left)

    def _offer(self, process: State, world: State) -> _Offered | None:
        """The commit that a backfill has come to; None if it has nothing to do."""
        view = _view(world[1], process[0])
        table: Any = _Table(world[1])
        work = _Backfill(self._lake, ROUTING, table, view)
        try:
            for some in work.partitions():
                work.apply(some)
        except _Offered as offered:
            return offered
        return None

    # -- invariants

    def broken(self, world: State) -> str:
        """ONCE: each record that is not deleted is in one live file. FILLED: no value is in a column that is gone."""
        committed, versions, _ = world
        column, files, deleted = versions[-1]
        rows = sorted(number for _, _, some in files for number, _ in some)
        expected = [number for number in range(committed) if number not in deleted]
        if rows != expected:
            return f"ONCE: there are rows {rows} instead of {expected}"
        if not column and any(filled for _, _, some in files for _, filled in some):
            return "FILLED: a value is in a column that is not there"
        return ""

    def went_back(self, before: State, after: State) -> str:
        return ""

    def finished(self, world: State) -> bool:
        """All is committed, and filled."""
        column, files, _ = world[1][-1]
        filled = all(filled for _, _, some in files for _, filled in some)
        return bool(world[0] == self.scope.records and column and filled)

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of one process that is left alone."""
        unwanted = ("dies", "RESTORE", "deleted", "OPTIMIZE")
        moves = [move for move in self.steps(process, world) if not any(word in move[0] for word in unwanted)]
        return moves[-1] if moves else None

    def show(self, world: State) -> str:
        column, files, _ = world[1][-1]
        shown = ", ".join(f"{number}.{vector}: {[*rows]}" for number, vector, rows in files)
        return f"{world[0]} committed, {'a' if column else 'no'} column, files {shown}"


def _view(versions: State, at: int) -> TableView:
    column = versions[at][0]
    properties = {APP_PROPERTY: APP, **Spec("none").properties}
    return TableView(at, "id", str(column), {}, properties, (), SCHEMAS[column])


def _next_number(world: State) -> int:
    return 1 + max((number for _, files, _ in world[1] for number, _, _ in files), default=-1)


def _with(world: State, version: State) -> State:
    return (world[0], (*world[1], version), world[2])
