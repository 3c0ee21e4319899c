"""The world of a mirror: the newest row of each key, over a source as in derive_world.py (protocol 9.5).

A record is a key, an order and what was done: "a1" writes key a, "a2-" deletes it. Records may come late, so that
their order is below that of others of their key before them. A deleted key stays as a row that nobody sees, until a
purge takes it out.

    Target   (txns, rows)      rows: (key, order, row of the source, whether it is deleted)

A MERGE by the newest of (order, row of the source) is played by put(). It is of the table as it is when it commits, and
Delta makes none whose version of the source is not above the table's. One that was made of an older state of the table
lands all the same, and says so (OVER): the next run begins anew, for nobody knows whether rows were taken back that the
one beneath had taken. The commit that makes the table, or all of it anew, is the compare-and-set of 9.2. A purge may
take out a deleted row once nothing can come any more that is older: that much later it is, by the user's retention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from offsets.cursors import run_id
from tests.model.derive_world import APP, JOB_NAME, DeriveScope, DeriveWorld, State, Step, written

PURGE, OVER = "purge", "over"


@dataclass(frozen=True)
class MirrorScope(DeriveScope):
    """purges: how often deleted rows are purged."""

    log: Sequence[str] = ("a1", "a2-")
    purges: int = 0


class MirrorWorld(DeriveWorld):
    """All steps of all processes; a purge is one more."""

    scope: MirrorScope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        roles, names = super().roles()
        return ((*roles, 2), (*names, "purge")) if self.scope.purges else (roles, names)

    def first_state(self) -> tuple[State, State]:
        world, processes = super().first_state()
        return world, ((*processes, (PURGE, self.scope.purges)) if self.scope.purges else processes)

    def shared_moves(self, process: State, world: State) -> list[tuple[str, Any, State, int, int]]:
        if process[0] == PURGE:
            return [(*step, 0, 0) for step in self._purges(process, world)]
        return super().shared_moves(process, world)

    def _purges(self, process: State, world: State) -> Iterator[Step]:
        """One commit, which counts as a run: it is refused beside another one."""
        _, left = process
        source, (txns, rows) = world
        gone = tuple(row for row in rows if row[3] and not self.may_be_late(source, row))
        if left and gone:
            run = run_id(APP, JOB_NAME)
            kept = tuple(row for row in rows if row not in gone)
            yield f"purges {gone[0][0]}", (PURGE, left - 1), (source, (written(txns, {run: dict(txns)[run] + 1}), kept))

    def may_be_late(self, source: State, row: State) -> bool:
        """Whether an older record of its key is still to be exported, or to be taken from the source."""
        key, order, (topic, offset, _), _ = row
        return any(self.row_of((topic, at, 0))[:2] < (key, order) for at in range(offset + 1, len(self.scope.log)))

    # -- what a mirror is

    def row_of(self, row: State) -> State:
        """A row of the source as one of the mirror."""
        record = self.scope.log[row[1]].lower()
        return record[0], int(record[1]), row, record.endswith("-")

    def commit(self, target: State, offer: State) -> State | None:
        """A MERGE by the version that it has looked through; None = refused."""
        expected, said, rows, anew = offer
        if anew or not expected:
            return super().commit(target, (expected, tuple(sorted({**dict(said), OVER: 0}.items())), rows, anew))
        txns = dict(target[0])
        if any(version <= txns.get(app_id, -1) for app_id, version in said if "/version/" in app_id):
            return None
        run = txns.get(run_id(APP, JOB_NAME), 0)
        new = {**dict(said), run_id(APP, JOB_NAME): run + 1, OVER: int(run != expected)}
        return written(target[0], new), self.put(target[1], rows)

    def stops(self, source: State, target: State) -> str:
        return super().stops(source, target) or ("another run lies beneath" if dict(target[0]).get(OVER) else "")

    def put(self, there: State, rows: State) -> State:
        newest = {row[0]: row for row in there}
        for row in sorted(map(self.row_of, rows)):
            old = newest.get(row[0])
            if old is None or row > old:
                newest[row[0]] = row
        return tuple(newest[key] for key in sorted(newest))

    def seen(self, rows: State) -> State:
        """What readers see."""
        return tuple(row for row in rows if not row[3])

    def due(self, source: State, target: State) -> State:
        """What the mirror has to be at its cursor."""
        new = {row[:3] for row in self.new_rows(source, target)}
        return self.put((), tuple(row[:3] for row in source[3] if row[:3] not in new))

    # -- invariants

    def broken(self, world: State) -> str:
        """A mirror that would go on now is not the newest row of each key of what it has taken."""
        source, target = world
        if not target[0] or source[5] is not None or self.stops(source, target):
            return ""
        due, there = self.seen(self.due(source, target)), self.seen(target[1])
        return "" if due == there else f"NEWEST: the mirror shows {_shown(there)} instead of {_shown(due)}"

    def finished(self, world: State) -> bool:
        source, target = world
        everything = self.put((), tuple(row[:3] for row in source[3]))
        return source[5] is None and self.seen(everything) == self.seen(target[1])

    def show(self, world: State) -> str:
        return super().show((world[0], (world[1][0], ()))).removesuffix("[]") + _shown(world[1][1])


def _shown(rows: State) -> str:
    return "[" + " ".join(f"{key}{order}@{row[1]}{'-' if deleted else ''}" for key, order, row, deleted in rows) + "]"
