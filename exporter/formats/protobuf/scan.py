"""Where the fields of many messages stand: the tags are read, and what is behind them is found. On executors.

    all rows peek their tag ── fields in the order of their numbers: rows that are at this one read it and peek again;
    the others wait ── what is left after the last field goes round again, for its fields are in another order

A row that takes many rounds, when few do, is walked on by itself (`_walk`). That only finds places: where anything is
odd it stops in front of it, and the rows' own way says what it is. So nothing depends on who else is in the batch.
What a row fails by is the first odd thing in it.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from exporter.formats.binary.cursor import LockstepCursor
from exporter.formats.binary.reasons import Kind, number_of
from exporter.formats.protobuf.model import END_GROUP, FIXED32, FIXED64, LENGTH, VARINT
from exporter.formats.protobuf.wired import Tagged, Wired

ROUNDS = 24
"""Rounds after which few rows are walked on one by one."""
FEW = 48
"""So many rows at most: with more of them a round is worth its price."""
TAG_MAX = (1 << 32) - 1
NUMBER_MAX = (1 << 64) - 1

NONE = 0
"""The tag of a row that has come to its end, or is refused; there is no such tag."""


class Occurrences(NamedTuple):
    """Some occurrences of a field. rows: of each the row. at: int64: of each the place in the data; ascending with the
    rows. value: uint64: the number that stands there; of what has a length, this; of what is fixed, nothing."""

    rows: np.ndarray
    at: np.ndarray
    value: np.ndarray

    def where(self, mask: np.ndarray) -> Occurrences:
        """The occurrences that a mask chooses."""
        return Occurrences(self.rows[mask], self.at[mask], self.value[mask])


def scan(cursor: LockstepCursor, wired: Wired) -> dict[int, list[Occurrences]]:
    """Read all of each row. By tag what was found, in parts of any order; each part has a row once, or is sorted.

    What is wrong with a row is in the cursor's `bad`.
    """
    return _Scan(cursor, wired).done()


class _Scan:
    """One scan. tag: uint32 per row: the one that is read and not yet followed."""

    def __init__(self, cursor: LockstepCursor, wired: Wired) -> None:
        self._cursor = cursor
        self._wired = wired
        self._found: dict[int, list[Occurrences]] = {}
        self._tag = np.zeros(len(cursor), np.uint32)
        self._unknown: dict[int, int] = {}

    def done(self) -> dict[int, list[Occurrences]]:
        self._tag = self._peeked(self._cursor)
        waiting, rounds = np.flatnonzero(self._tag), 0
        while len(waiting):
            here = self._wired.tags
            if rounds:
                present = np.unique(self._tag[waiting]).tolist()
                here = {tag: here[tag] for tag in present if tag in here}
            for tag, means in here.items():
                self._take(tag, means)
            waiting = self._judged(np.flatnonzero(self._tag))
            rounds += 1
            if rounds >= ROUNDS and len(waiting) <= FEW:
                self._walk_all(waiting)
        return self._found

    def _peeked(self, cursor: LockstepCursor) -> np.ndarray:
        """Pass over the next tag of each row, which may be NONE."""
        pos, end = cursor.pos, cursor.end
        more = pos < end
        first = cursor.batch.data[pos]
        if (first < 0x80).all():
            tag = np.where(more, first, 0).astype(np.uint32)
            cursor.pos = pos + more
        else:
            tag = np.where(more & (first < 0x80), first, 0).astype(np.uint32)
            cursor.pos = pos + (more & (first < 0x80))
            self._long_tags(cursor, np.flatnonzero(more & (first >= 0x80)), tag)
        nothing = more & (tag == NONE) & (cursor.bad == 0)
        if nothing.any():
            cursor.fail(nothing, self._wired.place, Kind.BAD_TAG)
        return tag

    def _long_tags(self, cursor: LockstepCursor, at: np.ndarray, tag: np.ndarray) -> None:
        some = cursor.take(at)
        begin = some.pos
        value = some.varint(self._wired.place)
        over = (some.bad == 0) & ((value > TAG_MAX) | (some.pos - begin > 5))
        if over.any():
            some.fail(over, self._wired.place, Kind.BAD_TAG)
        cursor.put(at, some)
        tag[at] = np.where(some.bad == 0, value, np.uint64(NONE)).astype(np.uint32)

    def _take(self, tag: int, means: Tagged) -> None:
        """Read a field of all rows that are at it, as often as it is there."""
        rows, rounds = np.flatnonzero(self._tag == tag), 0
        while len(rows):
            whole = len(rows) == len(self._tag)
            cursor = self._cursor if whole else self._cursor.take(rows)
            self._keep(tag, self._read(cursor, rows, means), cursor)
            tags = self._peeked(cursor)
            if whole:
                self._tag = tags
            else:
                self._cursor.put(rows, cursor)
                self._tag[rows] = tags
            if not means.repeats:
                return
            rows, rounds = rows[tags == tag], rounds + 1
            if rounds >= ROUNDS and len(rows) <= FEW:
                self._walk_all(rows)
                return

    def _keep(self, tag: int, found: Occurrences, cursor: LockstepCursor) -> None:
        """Note what was read. Rows that failed are left where they read nothing of anybody's."""
        if cursor.bad.any():
            found = found.where(cursor.bad == 0)
            cursor.pos = np.where(cursor.bad == 0, cursor.pos, 0)
        self._found.setdefault(tag, []).append(found)

    def _read(self, cursor: LockstepCursor, rows: np.ndarray, means: Tagged) -> Occurrences:
        if means.wire == VARINT:
            at = cursor.pos
            return Occurrences(rows, at, cursor.varint(means.place))
        if means.wire == LENGTH:
            size = cursor.varint(means.place)
            return Occurrences(rows, cursor.span(size.view(np.int64), means.place), size)
        at = cursor.fixed(8 if means.wire == FIXED64 else 4, means.place)
        return Occurrences(rows, at, at.view(np.uint64))

    def _judged(self, waiting: np.ndarray) -> np.ndarray:
        """Refuse rows whose tag is none of the message's; the others."""
        tags = self._tag[waiting]
        odd = [tag for tag in np.unique(tags).tolist() if tag not in self._wired.tags] if len(waiting) else []
        if not odd:
            return waiting
        for tag in odd:
            rows = waiting[tags == tag]
            self._cursor.refuse(rows, np.full(len(rows), self._why(tag), self._cursor.bad.dtype))
            self._tag[rows] = NONE
        return np.flatnonzero(self._tag)

    def _why(self, tag: int) -> int:
        number, wire = tag >> 3, tag & 7
        if number == 0 or wire == END_GROUP or wire > FIXED32:
            return number_of(self._wired.place, Kind.BAD_TAG)
        if number in self._wired.numbers:
            return number_of(self._wired.numbers[number], Kind.WRONG_WIRE_TYPE)
        if number not in self._unknown:
            self._unknown[number] = self._cursor.batch.places.add(f"{self._wired.path}.{number}")
        return number_of(self._unknown[number], Kind.UNKNOWN_FIELD)

    def _walk_all(self, rows: np.ndarray) -> None:
        for row in rows.tolist():
            self._walk(row)

    def _walk(self, row: int) -> None:
        """Go on in one row until its end, or until something is odd."""
        cursor, tags = self._cursor, self._wired.tags
        raw, pos, end = cursor.batch.raw, int(cursor.pos[row]), int(cursor.end[row])
        found: dict[int, tuple[array[int], array[int]]] = {}
        tag = int(self._tag[row])
        while (means := tags.get(tag)) is not None:
            at = pos
            value, pos = _value(raw, pos, end, means.wire)
            if pos < 0:
                pos = at
                break
            if tag not in found:
                found[tag] = array("q"), array("Q")
            found[tag][0].append(pos - value if means.wire == LENGTH else at)
            found[tag][1].append(value)
            cursor.pos[row] = pos
            tag, pos = _number(raw, pos, min(end, pos + 4)) if pos < end else (NONE, -1)
            if pos < 0 or tag == NONE:
                one = cursor.take(np.array([row]))
                tag = int(self._peeked(one)[0])
                cursor.put(np.array([row]), one)
                break
            cursor.pos[row] = pos
        self._tag[row] = tag
        for of, (places, values) in found.items():
            rows = np.full(len(places), row, np.int64)
            part = Occurrences(rows, np.frombuffer(places, np.int64), np.frombuffer(values, np.uint64))
            self._found.setdefault(of, []).append(part)


def _value(raw: memoryview, pos: int, end: int, wire: int) -> tuple[int, int]:
    """What stands behind a tag and the place behind it, which is negative if anything is odd."""
    if wire in (FIXED32, FIXED64):
        behind = pos + (8 if wire == FIXED64 else 4)
        return 0, behind if behind <= end else -1
    value, pos = _number(raw, pos, end)
    if wire == LENGTH and pos >= 0:
        pos = pos + value if value <= end - pos else -1
    return value, pos


def _number(raw: memoryview, pos: int, end: int) -> tuple[int, int]:
    """A number of base 128 and the place behind it, which is negative if it is cut or has over 64 bits."""
    value = shift = 0
    while pos < end and shift < 70:
        byte = raw[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value, pos) if value <= NUMBER_MAX else (0, -1)
        shift += 7
    return 0, -1
