"""Nodes of what no column can hold: read by the same nodes as anything else, and kept as JSON. Runs on Spark executors.

    KeptNode    a record without fields or a null where something has to stand for it, a branch whose name another has,
                what is nested too deep
    Recursive   a record inside of itself. Each one in a value is located first (walk.py); then all of one level, of all
                rows, are read at once, the innermost before those that they stand in
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from exporter.formats.avro.nodes import AroundNode, AvroNode
from exporter.formats.avro.walk import CannotWalk, Walk
from exporter.formats.binary.columns import Constants
from exporter.formats.binary.cursor import ITEM_BYTES_MIN, LockstepCursor, ValueBytes
from exporter.formats.binary.kept import ReadyTexts, Texts
from exporter.formats.binary.reasons import Kind
from exporter.formats.typed.typed import KEPT

DEPTH_MAX = 50
"""Levels of a record inside of itself that a value may have."""
_TEXT_WIDTH = 64


class KeptNode(AroundNode):
    """alone: what stands for a value of which there is nothing to read."""

    def __init__(self, node: AvroNode, alone: str = "null") -> None:
        super().__init__(node, KEPT, _TEXT_WIDTH + 4 * node.width)
        self._alone = pa.array([alone], KEPT)

    def read(self, cursor: LockstepCursor) -> Texts:
        """Implements `AvroNode.read`: the values at the cursor, as a column."""
        column = self._node.read(cursor)
        return Texts.of(Constants(self._alone, len(cursor)) if column is None else column)


class KeptRecord(NamedTuple):
    """One record inside of itself. end: of its row. left: as of a cursor. depth: from 1. record: its node."""

    begin: int
    end: int
    left: int
    depth: int
    record: AvroNode


class Level:
    """The records of one node and one depth that were read. begins: ascending. texts: of all of them."""

    def __init__(self, batch: ValueBytes, some: list[KeptRecord]) -> None:
        some.sort(key=lambda one: one.begin)
        self.begins = np.array([one.begin for one in some])
        ends, lefts = np.array([one.end for one in some]), np.array([one.left for one in some])
        self.cursor = LockstepCursor(batch, self.begins.copy(), ends, None, lefts)
        column = some[0].record.read(self.cursor)
        column = Constants(pa.array(["{}"], KEPT), len(some)) if column is None else column
        self.texts = ReadyTexts.of(column, batch, self.cursor.bad)


class Inside:
    """What a plan is reading inside of records that have themselves: one for all of its nodes.

    depth: of what is read or walked. found: what a walk has located; None: nobody asks. levels: what is read.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.found: list[KeptRecord] | None = None
        self.levels: dict[tuple[int, AvroNode], Level] = {}

    def read(self, batch: ValueBytes, found: list[KeptRecord]) -> None:
        """Fill the levels, from the innermost on."""
        groups: dict[tuple[int, AvroNode], list[KeptRecord]] = {}
        for one in found:
            groups.setdefault((one.depth, one.record), []).append(one)
        for depth, record in sorted(groups, key=lambda key: -key[0]):
            self.depth = depth
            self.levels[depth, record] = Level(batch, groups[depth, record])


class Recursive(AvroNode):
    """record: the node of the record that this is again; known when that is made. least: see AvroNode."""

    kind = KEPT
    record: AvroNode

    def __init__(self, place: int, least: int, inside: Inside) -> None:
        super().__init__(place)
        self.least, self.width = least, _TEXT_WIDTH
        self._inside = inside

    def read(self, cursor: LockstepCursor) -> Texts:
        """See AvroNode. Each record takes its share of the bytes that the items of its row may."""
        if self._inside.depth:
            return self._told(cursor)
        try:
            self._inside.read(cursor.batch, [*self._located(cursor)])
            self._inside.depth = 0
            return self._told(cursor)
        finally:
            self._inside.depth, self._inside.levels = 0, {}

    def _located(self, cursor: LockstepCursor) -> Iterator[KeptRecord]:
        """All records in the next value of each row, as far as it can be passed over."""
        inside = self._inside
        for row in np.flatnonzero(cursor.bad == 0).tolist():
            inside.found = []
            with suppress(CannotWalk):  # what is wrong is said when it is read
                self.skip(Walk(cursor.batch, int(cursor.pos[row]), int(cursor.end[row]), int(cursor.left[row])))
            yield from inside.found
            inside.found = None

    def _told(self, cursor: LockstepCursor) -> Texts:
        """The next value of each row, which was read. What was not located is too deep, or one too many."""
        depth = self._inside.depth + 1
        level = self._inside.levels.get((depth, self.record))
        rows = np.flatnonzero(cursor.bad == 0)
        where = np.full(len(cursor), -1, np.int64)
        at = np.searchsorted(level.begins, cursor.pos[rows]) if level is not None else np.zeros(len(rows), np.int64)
        there = np.zeros(len(rows), bool)
        if level is not None:
            there = level.begins[np.minimum(at, len(level.begins) - 1)] == cursor.pos[rows]
        if not there.all():
            lacking = np.zeros(len(cursor), bool)
            lacking[rows[~there]] = True
            cursor.fail(lacking, self.place, Kind.TOO_DEEP if depth > DEPTH_MAX else Kind.TOO_BIG)
        if level is None:
            return Texts.nothing(len(cursor))
        rows, at = rows[there], at[there]
        read = level.cursor
        cursor.pos[rows], cursor.left[rows] = read.pos[at], read.left[at]
        cursor.refuse(rows, read.bad[at])
        where[rows] = at
        return Texts((level.texts,), where)

    def skip(self, walk: Walk) -> None:
        """Implements `AvroNode.skip`: the walk moves behind the values."""
        inside = self._inside
        level: Any = inside.levels.get((inside.depth + 1, self.record))
        if level is not None:  # it was read already
            self._pass(level, walk)
            return
        walk.left -= ITEM_BYTES_MIN
        if walk.left < 0 or inside.depth >= DEPTH_MAX:
            raise CannotWalk
        inside.depth += 1
        if inside.found is not None:
            inside.found.append(KeptRecord(walk.pos, walk.end, walk.left, inside.depth, self.record))
        try:
            self.record.skip(walk)
        finally:
            inside.depth -= 1

    @staticmethod
    def _pass(level: Level, walk: Walk) -> None:
        at = int(np.searchsorted(level.begins, walk.pos))
        if at == len(level.begins) or level.begins[at] != walk.pos or level.cursor.bad[at]:
            raise CannotWalk
        walk.pos, walk.left = int(level.cursor.pos[at]), int(level.cursor.left[at])
