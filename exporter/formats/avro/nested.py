"""What a plan is made of: records, unions, arrays and maps. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.errors import InvariantBroken
from exporter.formats.avro.nodes import AroundNode, AvroNode, TextNode
from exporter.formats.avro.walk import CannotWalk, Walk
from exporter.formats.binary.columns import Constants, Lists, Numbers, Structs, in_order, nothing, scattered
from exporter.formats.binary.cursor import ITEM_BYTES_MIN, LockstepCursor
from exporter.formats.binary.reasons import Kind
from offsets import Invariant

FEW = 48
"""If no more rows than these have more items, these are located one by one, and then read at once."""
UNSEEN = 100
_NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True)
class OutField:
    """A field of what is read. read: which of the writer's fields; None: the default, `constant`, an array of it."""

    name: str
    read: int | None
    constant: pa.Array | None = None


class RecordNode(AvroNode):
    """The writer's fields, in its order; and what the reader makes of them."""

    def __init__(self, place: int, fields: Sequence[AvroNode], outs: Sequence[OutField]) -> None:
        super().__init__(place)
        self._fields = fields
        self._outs = outs
        kinds = [(one.name, self._kind(one)) for one in outs]
        self.kind = pa.struct(kinds) if kinds else None
        self.least = sum(one.least for one in fields)
        sizes = [one.size for one in fields]
        self.size = None if None in sizes else self.least
        self.width = 1 + sum(_width(one) for one in fields) + sum(8 for one in outs if one.constant is not None)

    def _kind(self, out: OutField) -> pa.DataType:
        return self._fields[out.read].kind if out.read is not None else out.constant.type  # type: ignore[union-attr]

    def read(self, cursor: LockstepCursor) -> Any:
        columns = [one.read(cursor) for one in self._fields]
        if self.kind is None:
            return None
        count = len(cursor)
        made = tuple(
            columns[one.read] if one.read is not None else Constants(one.constant, count) for one in self._outs
        )
        return Structs(made, self.kind, count)

    def skip(self, walk: Walk) -> None:
        for one in self._fields:
            one.skip(walk)

    def peek(self, cursor: LockstepCursor, path: Sequence[str]) -> Any:
        if not path:
            return self.read(cursor)
        out = next((one for one in self._outs if one.name == path[0]), None)
        if out is None:
            return None
        if out.read is None:
            return None if path[1:] else Constants(out.constant, len(cursor))
        for before in self._fields[: out.read]:
            before.read(cursor)
        return self._fields[out.read].peek(cursor, path[1:])


def _width(node: AvroNode) -> int:
    """A validity bit counts as one byte."""
    return node.width + 1


@dataclass(frozen=True)
class Branch:
    """One branch of the writer's. to: the reader's that takes it; None: none does, and it is passed over only."""

    node: AvroNode
    to: int | None


class Union(AvroNode):
    """A branch of the writer's, taken as one of the reader's.

    kinds: of the reader's branches, None for null. names: of the fields of the struct that holds them all; none if
    there is one value, of `kind`.
    """

    def __init__(
        self,
        place: int,
        branches: Sequence[Branch],
        kinds: Sequence[pa.DataType | None],
        names: Sequence[str],
        kind: pa.DataType | None,
    ) -> None:
        super().__init__(place)
        self._branches, self._kinds, self._names = branches, kinds, names
        self.kind = kind
        self.least = 1 + min(one.node.least for one in branches)
        widths = [1 + one.node.width for one in branches]
        self.width = sum(widths) if names else max(widths)

    def read(self, cursor: LockstepCursor) -> Any:
        return self._read(cursor, ())

    def peek(self, cursor: LockstepCursor, path: Sequence[str]) -> Any:
        if path and self._names:
            return None
        return self._read(cursor, path)

    def _read(self, cursor: LockstepCursor, path: Sequence[str]) -> Any:
        tags = cursor.zigzag(self.place)
        if (odd := (tags < 0) | (tags >= len(self._branches))).any():
            cursor.fail(odd, self.place, Kind.BAD_BRANCH)
        parts: dict[int, list[tuple[np.ndarray, Any]]] = {}
        for tag, branch in enumerate(self._branches):
            there = tags == tag
            if branch.to is None:
                if there.any():
                    cursor.fail(there, self.place, Kind.UNRESOLVABLE_BRANCH)
                continue
            if there.all():
                at, column = np.arange(len(cursor)), branch.node.peek(cursor, path)
            else:
                at = np.flatnonzero(there)
                part = cursor.take(at)
                column = branch.node.peek(part, path)
                cursor.put(at, part)
            if column is not None:
                parts.setdefault(branch.to, []).append((at, column))
        return self._joined(parts, len(cursor), path)

    def _joined(self, parts: dict[int, list[tuple[np.ndarray, Any]]], count: int, path: Sequence[str]) -> Any:
        if not self._names:
            every = [part for of_branch in parts.values() for part in of_branch]
            if every:
                return scattered(*in_order(every), count)
            return None if self.kind is None or path else nothing(self.kind, count)
        fields = []
        for to, kind in enumerate(self._kinds):
            if kind is None:
                continue
            if to in parts:
                fields.append(scattered(*in_order(parts[to]), count))
            else:  # no branch of the writer's becomes this one
                fields.append(nothing(kind, count))
        valid = np.zeros(count, bool)
        for of_branch in parts.values():
            for at, _ in of_branch:
                valid[at] = True
        return Structs(tuple(fields), self.kind, count, None if valid.all() else valid)

    def skip(self, walk: Walk) -> None:
        tag = walk.zigzag()
        if not 0 <= tag < len(self._branches):
            raise CannotWalk
        self._branches[tag].node.skip(walk)


class Placed(AroundNode):
    """A value of the writer's that is no union, as one branch of the reader's union."""

    def __init__(self, node: AvroNode, to: int, kinds: Sequence[pa.DataType | None], kind: pa.DataType) -> None:
        super().__init__(node, kind, node.width + 8 * len(kinds))
        self._to, self._kinds = to, kinds

    def read(self, cursor: LockstepCursor) -> Structs:
        column, count = self._node.read(cursor), len(cursor)
        fields = tuple(
            column if to == self._to else nothing(kind, count)
            for to, kind in enumerate(self._kinds)
            if kind is not None
        )
        return Structs(fields, self.kind, count)


class Promoted(AroundNode):
    """A number of one branch in the type of all."""

    def __init__(self, node: AvroNode, kind: pa.DataType) -> None:
        super().__init__(node, kind, kind.bit_width // 8)
        self._stored = np.dtype(kind.to_pandas_dtype())

    def read(self, cursor: LockstepCursor) -> Numbers:
        return Numbers(self._node.read(cursor).values.astype(self._stored), self.kind)


class EntryNode(AvroNode):
    """A key and a value of a map."""

    def __init__(self, place: int, value: AvroNode) -> None:
        super().__init__(place)
        self._key, self._value = TextNode(place, pa.string()), value
        self.kind = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", value.kind)])
        self.least = 1 + value.least
        self.width = 5 + _width(value)

    def read(self, cursor: LockstepCursor) -> Structs:
        return Structs((self._key.read(cursor), self._value.read(cursor)), self.kind, len(cursor))

    def skip(self, walk: Walk) -> None:
        self._key.skip(walk)
        self._value.skip(walk)


class ItemsNode(AvroNode):
    """Arrays and maps: blocks of items, the last one of none. inside: the item's place.

    Items that take no bytes are as many as a few bytes say: each counts for UNSEEN times as much as another.

    Step k reads item k of all rows that still have one, until only a few rows have: all others of these are read at
    once (walk.py). So are items that take as many bytes as any other, a block of each row at a time.
    """

    least, width = 1, 5

    def __init__(self, place: int, inside: int, item: AvroNode, kind: pa.DataType) -> None:
        super().__init__(place)
        self.kind = kind
        self._inside, self._item = inside, item
        self._unit = max(ITEM_BYTES_MIN if item.least else ITEM_BYTES_MIN * UNSEEN, item.width)

    def read(self, cursor: LockstepCursor) -> Lists:
        count = len(cursor)
        parts: list[tuple[np.ndarray, Any]] = []
        rest, seen = np.zeros(count, np.int64), np.zeros(count, np.int64)
        active = np.flatnonzero(cursor.bad == 0)
        while True:
            if len(ended := active[rest[active] == 0]):
                self._blocks(cursor, ended, rest)
                active = active[(rest[active] > 0) & (cursor.bad[active] == 0)]
            if not len(active):
                break
            if len(active) <= FEW:
                parts.append(self._walked(cursor, active, rest, seen))
            elif self._item.size is not None:
                parts.append(self._even(cursor, active, rest, seen))
            else:
                parts.append((active, self._step(cursor, active, rest, seen)))
            active = active[cursor.bad[active] == 0]
        if not parts:
            parts.append((_NOBODY, self._item.read(cursor.take(_NOBODY))))
        rows, items = in_order(parts)
        return Lists(np.bincount(rows, minlength=count), items, self.kind, self.place)

    def _blocks(self, cursor: LockstepCursor, rows: np.ndarray, rest: np.ndarray) -> None:
        """Begin the next block of some rows. rest: items that are still to come in it."""
        part = cursor.take(rows)
        counts = part.zigzag(self.place)
        if (negative := counts < 0).any():  # then the block says its size, which is of use to who passes over it
            at = np.flatnonzero(negative)
            sized = part.take(at)
            sized.zigzag(self.place)
            part.put(at, sized)
            counts = np.abs(counts)
            if (odd := counts < 0).any():
                part.fail(odd, self.place, Kind.BAD_LENGTH)
        if (part.bad != 0).any():
            counts = np.where(part.bad == 0, counts, 0)
        room = (part.end - part.pos) // self._item.least if self._item.least else counts
        for odd, why in (
            (counts > room, Kind.TRUNCATED),
            (counts > part.left // self._unit, Kind.TOO_BIG),
        ):
            if odd.any():
                part.fail(odd, self.place, why)
                counts = np.where(odd, 0, counts)
        part.left -= counts * self._unit
        cursor.put(rows, part)
        rest[rows] = counts

    def _step(self, cursor: LockstepCursor, active: np.ndarray, rest: np.ndarray, seen: np.ndarray) -> Any:
        """The next item of each row."""
        part = cursor.take(active)
        column = self._item.read(part)
        if len(failed := np.flatnonzero(part.bad)):
            numbers = cursor.batch.places.numbered(part.bad[failed], self._inside, seen[active[failed]])
            part.bad[failed] = numbers
        cursor.put(active, part)
        seen[active] += 1
        rest[active] -= 1
        return column

    def _even(
        self, cursor: LockstepCursor, active: np.ndarray, rest: np.ndarray, seen: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """All items of the block of each row, one as long as the other. Their bytes are there."""
        counts = rest[active]
        rows, before = np.repeat(active, counts), np.cumsum(counts) - counts
        nth = np.arange(len(rows)) - np.repeat(before, counts)
        begins = cursor.pos[rows] + nth * self._item.size
        column = self._at_once(cursor, rows, begins, cursor.left[rows], seen[rows] + nth)
        cursor.pos[active] = np.where(cursor.bad[active] == 0, cursor.pos[active] + counts * self._item.size, 0)
        seen[active] += counts
        rest[active] = 0
        return rows, column

    def _walked(
        self, cursor: LockstepCursor, active: np.ndarray, rest: np.ndarray, seen: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """All items of each row, of all blocks, up to one that cannot be passed over."""
        begins: list[int] = []
        lefts: list[int] = []
        counts, stopped = [], []
        for row in active.tolist():
            walk = Walk(cursor.batch, int(cursor.pos[row]), int(cursor.end[row]), int(cursor.left[row]))
            found = len(begins)
            stopped.append(self._locate(walk, int(rest[row]), begins, lefts))
            counts.append(len(begins) - found)
            cursor.pos[row], cursor.left[row] = walk.pos, walk.left
        rows = np.repeat(active, counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        column = self._at_once(cursor, rows, np.array(begins), np.array(lefts), seen[rows] + nth)
        if (cursor.bad[active[np.array(stopped)]] == 0).any():
            raise InvariantBroken(Invariant.ROUTE, "an item that cannot be passed over was read all the same")
        seen[active] += counts
        rest[active] = 0
        return rows, column

    def _locate(self, walk: Walk, rest: int, begins: list[int], lefts: list[int]) -> bool:
        """Add where items begin. True: it stopped at the last one. Otherwise it stands before a block that is the end,
        or that cannot be begun."""
        while True:
            for _ in range(rest):
                begins.append(walk.pos)
                lefts.append(walk.left)
                try:
                    self._item.skip(walk)
                except CannotWalk:
                    return True
            before = walk.pos, walk.left
            try:
                rest = walk.count(self._item.least, self._unit)
            except CannotWalk:
                rest = 0
            if not rest:
                walk.pos, walk.left = before
                return False

    def _at_once(
        self, cursor: LockstepCursor, rows: np.ndarray, begins: np.ndarray, lefts: np.ndarray, nth: np.ndarray
    ) -> Any:
        """Items as rows of their own; the first one of a row that fails is its reason. nth: the item's number."""
        items = LockstepCursor(cursor.batch, begins, cursor.end[rows], None, lefts)
        column = self._item.read(items)
        if len(failed := np.flatnonzero(items.bad)):
            of_rows, first = np.unique(rows[failed], return_index=True)
            at = failed[first]
            cursor.refuse(of_rows, cursor.batch.places.numbered(items.bad[at], self._inside, nth[at]))
        return column

    def skip(self, walk: Walk) -> None:
        while count := walk.count(self._item.least, self._unit):
            if self._item.size is not None:
                walk.forward(count * self._item.size)
            else:
                for _ in range(count):
                    self._item.skip(walk)
