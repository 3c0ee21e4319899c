"""The world of a mirror: the newest row of each key, over a source as in derive_world.py (protocol 9.5).

A record is a key, an order and what was done: "a1" writes key a, "a2-" deletes it. Records may come late, so that
their order is below that of others of their key before them. A deleted key stays as a row that nobody sees, until a
purge takes it out.

There is one column more, that the source has from the first row with a value in it on: "a1+" has one, "a1" writes null
there, and so does each delete; "a1?" says that it was not sent, so it writes nothing there (WROTE).

"*2" empties the table of the source, at the order 2: a dead letter, which is told once the export has gone on. What is
older is as if it had never been, and the table says through which order it was emptied (EMPTIED); both in one commit
here, for one who has done the first alone does it again.

    Target   (txns, rows)      rows: (key, order, row of the source, whether it is deleted, the column)
    Column   (the order and the row that wrote it, the row with the value or None), None if nothing has

A MERGE by the newest of (order, row of the source), and of that which wrote the column, is played by put(). What comes
out is compared with all rows applied one by one in their order, by applied(). It is of the table as it is when it
commits, and Delta makes none whose version of the source is not above the table's. One that was made of an older state
of the table lands all the same, and says so (OVER): the next run begins anew, for nobody knows whether rows were taken
back that the one beneath had taken. The commit that makes the table, or all of it anew, is the compare-and-set of 9.2.
A purge may take out a deleted row once nothing can come any more that is older: that much later it is, by the user's
retention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from offsets.cursors import run_id
from tests.model.derive_world import APP, JOB_NAME, DeriveScope, DeriveWorld, State, Step, written

PURGE, OVER, EMPTIED = "purge", "over", "emptied"


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
        key, order, (topic, offset, _) = row[:3]
        return any(self.row_of((topic, at, 0))[:2] < (key, order) for at in range(offset + 1, len(self.scope.log)))

    # -- what a mirror is

    def emptied(self, source: State) -> int:
        """The greatest order at which the source was emptied, as far as its dead letters tell it; else 0."""
        position, log = self.live(source).offset, self.scope.log
        through = position + (position == len(log) - 1)
        return max((int(one[1]) for one in log[: max(through, 0)] if one[0] == "*"), default=0)

    def left(self, there: State, order: int) -> State:
        """Rows of a mirror, of what is not older than this order."""
        kept = (row for row in there if row[1] >= order)
        return tuple((*row[:4], row[4] if row[4] and row[4][0][0] >= order else None) for row in kept)

    def offer(self, source: State, known: State, anew: bool) -> State | None:
        """Of a table that is to be emptied that alone; else what is new, without what is older."""
        txns, run = dict(known[0]), run_id(APP, JOB_NAME)
        order = max(self.emptied(source), 0 if anew else txns.get(EMPTIED, 0))
        if txns and not anew and order > txns.get(EMPTIED, 0):
            return txns[run], ((EMPTIED, order), (run, txns[run] + 1)), (), EMPTIED
        found = super().offer(source, known, anew)
        if found is None:
            return None
        expected, said, rows, is_anew = found
        said = tuple(sorted({**dict(said), EMPTIED: order}.items())) if anew or not expected else said
        return expected, said, tuple(row for row in rows if self.row_of(row)[1] >= order), is_anew

    def row_of(self, row: State) -> State:
        """A row of the source as one of the mirror."""
        record = self.scope.log[row[1]].lower()
        order, value = int(record[1]), row if record.endswith("+") else None
        return record[0], order, row, record.endswith("-"), None if record.endswith("?") else ((order, row), value)

    def commit(self, target: State, offer: State) -> State | None:
        """A MERGE by the version that it has looked through; None = refused."""
        expected, said, rows, anew = offer
        if anew == EMPTIED:
            if dict(target[0]).get(run_id(APP, JOB_NAME), 0) != expected:
                return None
            return written(target[0], dict(said)), self.left(target[1], dict(said)[EMPTIED])
        if anew or not expected:
            return super().commit(target, (expected, tuple(sorted({**dict(said), OVER: 0}.items())), rows, anew))
        txns = dict(target[0])
        if any(version <= txns.get(app_id, -1) for app_id, version in said if "/version/" in app_id):
            return None
        run = txns.get(run_id(APP, JOB_NAME), 0)
        new = {**dict(said), run_id(APP, JOB_NAME): run + 1, OVER: int(run != expected)}
        return written(target[0], new), self.put(target[1], rows)

    def stops(self, source: State, target: State) -> str:
        txns, log = dict(target[0]), self.scope.log[: self.live(source).offset + 1]
        if txns.get(EMPTIED) and f"*{txns[EMPTIED]}" not in log:
            return "it does not reach what it was emptied by"
        return super().stops(source, target) or ("another run lies beneath" if dict(target[0]).get(OVER) else "")

    def put(self, there: State, rows: State) -> State:
        newest = {row[0]: row for row in there}
        made = [self.row_of(row) for row in rows]
        for row in sorted(made, key=_by_order):
            old = newest.get(row[0])
            if old is None or _by_order(row) > _by_order(old):
                newest[row[0]] = row
            newest[row[0]] = (*newest[row[0]][:4], _newer(row[4], old and old[4]))
        return tuple(newest[key] for key in sorted(newest))

    def applied(self, rows: State, emptied: int = 0) -> State:
        """All rows, but for those that are older than this order, one after the other, as one of a mirror: what it has
        to show, by no merge of states.

        A row of another topic by this name is newer than all of the former one by its place in the tuples.
        """
        found: dict[str, tuple[State, State | None]] = {}
        for row in sorted((self.row_of(row) for row in rows), key=_by_order):
            if row[1] < emptied:
                continue
            _, value = found.get(row[0], (row, None))
            record = self.scope.log[row[2][1]]
            found[row[0]] = row, value if record.endswith("?") else row[2] if record.endswith("+") else None
        return tuple((*row[:3], value) for _, (row, value) in sorted(found.items()) if not row[3])

    def seen(self, rows: State) -> State:
        """What readers see."""
        return tuple((*row[:3], row[4] and row[4][1]) for row in rows if not row[3])

    def due(self, source: State, target: State) -> State:
        """What the mirror has to be at its cursor."""
        new, order = {row[:3] for row in self.new_rows(source, target)}, dict(target[0]).get(EMPTIED, 0)
        return self.applied(tuple(row[:3] for row in source[3] if row[:3] not in new), order)

    # -- invariants

    def broken(self, world: State) -> str:
        """A mirror that would go on now is not the newest row of each key of what it has taken."""
        source, target = world
        if not target[0] or source[5] is not None or self.stops(source, target):
            return ""
        due, there = self.due(source, target), self.seen(target[1])
        return "" if due == there else f"NEWEST: the mirror shows {_shown(there)} instead of {_shown(due)}"

    def finished(self, world: State) -> bool:
        source, target = world
        order = dict(target[0]).get(EMPTIED, 0)
        everything = self.applied(tuple(row[:3] for row in source[3]), order)
        return source[5] is None and order >= self.emptied(source) and everything == self.seen(target[1])

    def show(self, world: State) -> str:
        deleted = " ".join(f"{row[0]}{row[1]}@{row[2][1]}-" for row in world[1][1] if row[3])
        head = super().show((world[0], (world[1][0], ()))).removesuffix("[]")
        return f"{head}{_shown(self.seen(world[1][1]))}{deleted}"


def _by_order(row: State) -> State:
    return row[:3]


def _newer(*columns: State | None) -> State | None:
    """The one that was written last."""
    return max((one for one in columns if one is not None), key=lambda one: one[0], default=None)


def _shown(rows: State) -> str:
    told = (f"{key}{order}@{row[1]}{f'+{value[1]}' if value else ''}" for key, order, row, value in rows)
    return "[" + " ".join(told) + "]"
