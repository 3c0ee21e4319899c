"""Many messages of one plan -> one struct column, and why some of them are refused. Runs on Spark executors.

    scan        what stands where, in the order of the wire: what is wrong with the message itself
    slots       field by field, by their numbers: twice, out of range, a key twice; messages in it, by the same way
    the whole   two members of one oneof, then what is required and missing
    texts       those that are not UTF-8

The first that is wrong, in this order, is the reason. Items of lists are rows of their own, and what is wrong with
one is wrong with its row. What a row's items take in Arrow is counted before they are read.
"""

from __future__ import annotations

import numpy as np

from exporter.formats.binary.columns import BinaryColumn, Lists, Numbers, Out, Structs, scattered
from exporter.formats.binary.cursor import ITEM_BYTES_MAX, ITEM_BYTES_MIN, LockstepCursor, ValueBytes
from exporter.formats.binary.reasons import WIDTH, Kind, number_of
from exporter.formats.binary.typed_rows import typed_rows
from exporter.formats.protobuf.packed import unpacked
from exporter.formats.protobuf.plan import UTC_MICROS
from exporter.formats.protobuf.scalars import NO_REASON, Scalars, absent, column, is_text, scalars, spans
from exporter.formats.protobuf.scan import Occurrences, scan
from exporter.formats.protobuf.stands_for import days, numbers
from exporter.formats.protobuf.wired import Wired, WiredSlot
from exporter.formats.typed.typed import Typed

SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""0001-01-01 and the last second of 9999: what a Timestamp can be."""

_NOTHING = Occurrences(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint64))


def decoded(batch: ValueBytes, wired: Wired, rows: np.ndarray, skipped: int | np.ndarray = 0) -> Typed:
    """Messages of one plan. rows: which values of the batch, ascending, none null. skipped: bytes of each in front of
    its message."""
    cursor, out = batch.cursor(rows, skipped), Out(batch)
    budget = np.full(len(rows), ITEM_BYTES_MAX, np.int64)
    found = _Messages(out, budget, cursor, wired, np.arange(len(rows))).record()
    return typed_rows(found, cursor, out, rows)


class _Messages:
    """Messages that stand at one place of the schema. owner: of each the row that it is of. budget: of each such row
    the bytes that its items may still take."""

    def __init__(self, out: Out, budget: np.ndarray, cursor: LockstepCursor, wired: Wired, owner: np.ndarray) -> None:
        self._out = out
        self._budget = budget
        self._cursor = cursor
        self._wired = wired
        self._owner = owner
        self._start = cursor.pos.copy()

    def __len__(self) -> int:
        return len(self._start)

    def record(self) -> Structs:
        """One struct per message; of one that is refused it means nothing."""
        found = scan(self._cursor, self._wired)
        columns: list[BinaryColumn] = []
        once: dict[int, Occurrences] = {}
        for one in self._wired.slots:
            slot = one.slot
            parts = found.get(slot.tag, [])
            if slot.shape == "one":
                once[slot.number] = self._once(one, parts)
                columns.append(self._one(one, once[slot.number]))
            else:
                columns.append(self._list(one, self._items(one, parts, found.get(slot.packed_tag, []))))
        self._judge_the_whole(once)
        return Structs(tuple(columns), self._wired.type, len(self))

    def _judge_the_whole(self, once: dict[int, Occurrences]) -> None:
        """Two members of one oneof, and what is required."""
        filled: dict[str, np.ndarray] = {}
        for one in self._wired.slots:
            if one.slot.oneof:
                there = self._there(once[one.slot.number])
                before = filled.get(one.slot.oneof)
                if before is not None and (before & there).any():
                    self._cursor.fail(before & there, one.place, Kind.DUPLICATE_FIELD)
                filled[one.slot.oneof] = there if before is None else before | there
        for one in self._wired.slots:
            if one.slot.required and len(once[one.slot.number].rows) < len(self):
                self._cursor.fail(~self._there(once[one.slot.number]), one.place, Kind.MISSING_FIELD)

    def _there(self, found: Occurrences) -> np.ndarray:
        there = np.zeros(len(self), bool)
        there[found.rows] = True
        return there

    # --- a field that is there once ---------------------------------------------------------------------------

    def _once(self, one: WiredSlot, parts: list[Occurrences]) -> Occurrences:
        """A field's first occurrence in each row; a row that has another is refused."""
        found = _merged(parts)
        again = np.zeros(len(found.rows), bool)
        again[1:] = found.rows[1:] == found.rows[:-1]
        if not again.any():
            return found
        self._refuse(found.rows[again], number_of(one.place, Kind.DUPLICATE_FIELD))
        return found.where(~again)

    def _one(self, one: WiredSlot, found: Occurrences) -> BinaryColumn:
        """The column of a field that is there once at most."""
        slot, whole = one.slot, len(found.rows) == len(self)
        if slot.kind == "message":
            if not slot.presence:  # of a map's entry: absent is an empty message
                found = Occurrences(np.arange(len(self)), *self._with_empty(found))
            inside, bad = self._inside(one, found)
            if bad.any():
                self._cursor.refuse(found.rows, bad)
            return scattered(found.rows, inside, len(self))
        valid = self._there(found) if slot.presence and not whole else None
        if is_text(slot):
            return spans(slot, *self._with_empty(found), one.place, valid)
        known = scalars(slot, self._cursor.batch, found.at, found.value)
        if known.wrong is not None:
            self._cursor.refuse(found.rows, _numbers_of(known, one.place))
        values = known.values
        if not whole:
            values = np.full(len(self), absent(slot), known.values.dtype)
            values[found.rows] = known.values
        return column(slot, values, valid)

    def _with_empty(self, found: Occurrences) -> tuple[np.ndarray, np.ndarray]:
        """Places and lengths for all rows: those without an occurrence have an empty one, at their begin."""
        if len(found.rows) == len(self):
            return found.at, found.value
        at, size = self._start.copy(), np.zeros(len(self), np.uint64)
        at[found.rows], size[found.rows] = found.at, found.value
        return at, size

    # --- a field that may be there often ----------------------------------------------------------------------

    def _items(self, one: WiredSlot, parts: list[Occurrences], packed: list[Occurrences]) -> Occurrences:
        """All items, ascending; none of a row that has more than is taken."""
        parts = [*parts]
        for pieces in packed:
            numbers, bad = unpacked(self._cursor.batch, one.slot, pieces, one.place)
            parts.append(numbers)
            for number in np.unique(bad[bad != 0]).tolist():
                self._refuse(pieces.rows[bad == number], number)
        found = _merged(parts)
        if not len(found.rows):
            return found
        owner = self._owner[found.rows]
        self._budget -= max(one.slot.width, ITEM_BYTES_MIN) * np.bincount(owner, minlength=len(self._budget))
        over = self._budget[owner] < 0
        if not over.any():
            return found
        self._refuse(found.rows[over], number_of(one.place, Kind.TOO_BIG))
        return found.where(~over)

    def _list(self, one: WiredSlot, found: Occurrences) -> BinaryColumn:
        slot = one.slot
        sizes = np.bincount(found.rows, minlength=len(self))
        values: BinaryColumn
        if slot.kind == "message":
            values, bad = self._inside(one, found)
            self._refuse_items(one, found.rows, bad, sizes)
            if slot.message is not None and slot.message.entry and slot.shape == "list":
                self._refuse_twins(one, found.rows, values)
        elif is_text(slot):
            values = spans(slot, found.at, found.value, one.items)
        else:
            known = scalars(slot, self._cursor.batch, found.at, found.value)
            if known.wrong is not None:
                self._refuse_items(one, found.rows, _numbers_of(known, one.items), sizes)
            values = column(slot, known.values)
        return Lists(sizes, values, slot.type, one.place)

    def _refuse_twins(self, one: WiredSlot, rows: np.ndarray, entries: BinaryColumn) -> None:
        """Rows that have a number twice as a key; of texts the column itself says so."""
        keys = entries.fields[0] if isinstance(entries, Structs) else None
        if not isinstance(keys, Numbers) or not len(rows):
            return
        words = keys.values.reshape(len(rows), -1)[:, 0].astype(np.int64)
        order = np.lexsort((words, rows))
        same = (rows[order][1:] == rows[order][:-1]) & (words[order][1:] == words[order][:-1])
        self._refuse(rows[order][1:][same], number_of(one.place, Kind.DUPLICATE_KEY))

    def _refuse_items(self, one: WiredSlot, rows: np.ndarray, bad: np.ndarray, sizes: np.ndarray) -> None:
        """Refuse the rows that some items are of, for the first bad one of each."""
        odd = np.flatnonzero(bad)
        if not len(odd):
            return
        which, first = np.unique(rows[odd], return_index=True)
        at = odd[first]
        begins = np.cumsum(sizes) - sizes
        self._cursor.refuse(which, self._cursor.batch.places.numbered(bad[at], one.items, at - begins[which]))

    # --- what both have ---------------------------------------------------------------------------------------

    def _inside(self, one: WiredSlot, found: Occurrences) -> tuple[BinaryColumn, np.ndarray]:
        """The messages in a field as what they stand for, and what is wrong with each."""
        if one.inside is None:
            raise TypeError(f"{one.slot.name} holds no message")
        cursor = LockstepCursor(self._cursor.batch, found.at.copy(), found.at + found.value.view(np.int64))
        messages = _Messages(self._out, self._budget, cursor, one.inside, self._owner[found.rows])
        record: BinaryColumn = messages.record()
        if one.slot.unwrapped and isinstance(record, Structs):
            record = messages.stands_for(one, record)
        return record, cursor.bad

    def stands_for(self, one: WiredSlot, record: Structs) -> BinaryColumn:
        """What these messages are made in the stead of which they are a column."""
        if one.slot.unwrapped == "value":
            value: BinaryColumn = record.fields[0]
            return value
        if one.slot.unwrapped == "timestamp":
            return self.instants(record, one.items)
        if one.slot.unwrapped == "date":
            found, odd = days(record)
            self._fail(odd, one.items, Kind.OUT_OF_RANGE)
        else:
            found, odd = numbers(self._cursor.batch, record, one.slot.one)
            self._fail(odd, one.items, Kind.BAD_DECIMAL)
        return found

    def _fail(self, odd: np.ndarray, place: int, kind: Kind) -> None:
        if odd.any():
            self._cursor.fail(odd, place, kind)

    def instants(self, record: Structs, place: int) -> Numbers:
        """Timestamps of what these messages are: seconds and nanoseconds."""
        seconds, nanos = (one.values for one in record.fields)
        beyond = (seconds < SECONDS_MIN) | (seconds > SECONDS_MAX) | (nanos < 0) | (nanos >= 10**9)
        if beyond.any():
            self._cursor.fail(beyond, place, Kind.OUT_OF_RANGE)
            seconds, nanos = np.where(beyond, 0, seconds), np.where(beyond, 0, nanos)
        lost = nanos % 1000 != 0
        if lost.any():
            self._out.cut(self._owner[lost])
        return Numbers(seconds * 10**6 + nanos // 1000, UTC_MICROS)

    def _refuse(self, rows: np.ndarray, number: int) -> None:
        """Refuse rows, any of them more than once."""
        which = np.unique(rows)
        self._cursor.refuse(which, np.full(len(which), number, self._cursor.bad.dtype))


def _merged(parts: list[Occurrences]) -> Occurrences:
    """What was found in parts, ascending: places of later rows lie behind those of earlier ones."""
    if len(parts) <= 1:
        return parts[0] if parts else _NOTHING
    whole = Occurrences(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    order = np.argsort(whole.at, kind="stable")
    return Occurrences(*(part[order] for part in whole))


def _numbers_of(known: Scalars, place: int) -> np.ndarray:
    """What `bad` holds for each; 0 for those that are well."""
    kinds = np.full(len(known.values), NO_REASON) if known.wrong is None else known.wrong
    return np.where(kinds == NO_REASON, 0, 1 + place * WIDTH + kinds)
