"""What was read of rows, before it is Arrow's: numbers, and places of bytes that nobody has copied yet.

    take(at)      the entries of some rows; -1 is null. Texts and lists are taken in ascending order, nulls apart
    concat(...)   one below the other
    arrow(out)    the array; what only this finds out (UTF-8, keys) is noted in `out`, row by row

A batch's bytes are copied once, when texts become arrays. Runs on Spark executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.binary.cursor import Ints, ValueBytes
from exporter.formats.binary.reasons import Kind, number_of
from exporter.formats.binary.texts import infinite, told, untold

Valid = np.ndarray | None
"""bool per entry: False for null; None: there is none."""
_C = TypeVar("_C", bound="BinaryColumn")
_V = TypeVar("_V", bound="_Values")


@dataclass
class Out:
    """What comes of a batch beside arrays.

    odd: row -> the number of the first reason to refuse it (reasons.py). truncated: row -> how many of its values lost
    digits.
    """

    batch: ValueBytes
    odd: dict[int, int] = field(default_factory=dict)
    truncated: dict[int, int] = field(default_factory=dict)

    def refuse(self, rows: np.ndarray, place: int, kind: Kind) -> None:
        """Refuse rows, any of them more than once."""
        for row in rows.tolist():
            self.odd.setdefault(row, number_of(place, kind))

    def cut(self, rows: np.ndarray) -> None:
        """Count a value of each of the rows."""
        for row in rows.tolist():
            self.truncated[row] = self.truncated.get(row, 0) + 1


class BinaryColumn(Protocol):
    """See above. kind: the type of the array."""

    @property
    def kind(self) -> pa.DataType: ...

    def __len__(self) -> int: ...

    def take(self: _C, at: np.ndarray) -> _C:
        """The entries at these places. at: int64, -1 for null."""
        ...

    def concat(self: _C, others: Sequence[Any]) -> _C:
        """others: of the same class and kind."""
        ...

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        """rows: of each entry the row of the batch that it is of."""
        ...


def scattered(at: np.ndarray, column: _C, rows: int) -> _C:
    """The column as one of more rows, of which it has those at `at`, ascending; the others are null."""
    if len(at) == rows:
        return column
    where = np.full(rows, -1, np.int64)
    where[at] = np.arange(len(at))
    return column.take(where)


def in_order(parts: Sequence[tuple[np.ndarray, _C]]) -> tuple[np.ndarray, _C]:
    """Columns of some rows each as one, in the order of the rows, and of one row in the order of the parts.

    parts: (row of each entry, column), at least one. Returns the rows, ascending, and the column.
    """
    (first, column), *others = parts
    if not others:
        return first, column
    rows = np.concatenate([one for one, _ in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], column.concat([one for _, one in others]).take(order)


def bitmap(valid: Valid) -> pa.Buffer | None:
    """Validity as Arrow's bitmap; None if all is valid."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _picked(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Entries of an array; anything where `at` is -1."""
    return values[at] if len(values) else np.zeros((len(at), *values.shape[1:]), values.dtype)


def _picked_valid(valid: Valid, at: np.ndarray) -> Valid:
    there = at >= 0
    if there.all():
        return None if valid is None else _picked(valid, at)
    return there if valid is None else there & _picked(valid, at)


def _valid_of(columns: Sequence[Any]) -> Valid:
    """Of columns one below the other."""
    if all(one.valid is None for one in columns):
        return None
    return np.concatenate([np.ones(len(one), bool) if one.valid is None else one.valid for one in columns])


def _offsets(sizes: Ints) -> np.ndarray:
    """int32: where each of some lists begins, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class _Values:
    """A column with a value for each entry. values: these."""

    values: np.ndarray
    valid: Valid = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.values)

    def take(self: _V, at: np.ndarray) -> _V:
        return replace(self, values=_picked(self.values, at), valid=_picked_valid(self.valid, at))

    def concat(self: _V, others: Sequence[_V]) -> _V:
        every = (self, *others)
        return replace(self, values=np.concatenate([one.values for one in every]), valid=_valid_of(every))


@dataclass(frozen=True)
class Numbers(_Values):
    """Numbers and what is stored as such, as Arrow stores them; two uint64 of a decimal.

    nanos: they are nanoseconds of a timestamp in microseconds; what is cut is counted.
    """

    kind: pa.DataType
    nanos: bool = False

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        values = self.values
        if self.nanos:
            values = values // 1_000
            lost = values * 1_000 != self.values
            lost = lost if self.valid is None else lost & self.valid
            if lost.any():
                out.cut(rows[lost])
        is_bool = values.dtype == np.bool_
        stored = np.packbits(values, bitorder="little") if is_bool else np.ascontiguousarray(values)
        return pa.Array.from_buffers(self.kind, len(values), [bitmap(self.valid), pa.py_buffer(stored)])


@dataclass(frozen=True)
class Symbols(_Values):
    """Texts out of a few. values: the number of each, int64; those of nulls and of refused rows are of no meaning."""

    symbols: pa.Array

    @property
    def kind(self) -> pa.DataType:
        return self.symbols.type

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        at = pa.Array.from_buffers(pa.int64(), len(self), [bitmap(self.valid), pa.py_buffer(self.values)])
        return self.symbols.take(at)


@dataclass(frozen=True)
class Spans:
    """Bytes of the batch: text (`kind` string: UTF-8 is checked), bytes, and what text says or is said as text.

    form: plain, `uuid` (sixteen bytes as 8-4-4-4-12), or `time` (text that is an instant in ISO-8601).
    place: of the reason if it is none of this.
    """

    begins: Ints
    sizes: Ints
    kind: pa.DataType
    place: int
    form: str = "plain"
    valid: Valid = None

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, at: np.ndarray) -> Spans:
        valid, sizes = _picked_valid(self.valid, at), _picked(self.sizes, at)
        if valid is not None:
            sizes = np.where(valid, sizes, 0)
        return replace(self, begins=_picked(self.begins, at), sizes=sizes, valid=valid)

    def concat(self, others: Sequence[Spans]) -> Spans:
        every = (self, *others)
        begins, sizes = (np.concatenate([getattr(one, name) for one in every]) for name in ("begins", "sizes"))
        return replace(self, begins=begins, sizes=sizes, valid=_valid_of(every))

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        if self.form == "uuid":
            return self._uuids(out)
        raw = self.raw(out)
        if self.kind == pa.binary():
            return raw
        try:
            found, cut = told(raw, self.form)
        except pa.ArrowInvalid:
            odd = untold(raw, self.form)
            if self.form == "time":
                beyond = infinite(raw)
                out.refuse(rows[odd & beyond], self.place, Kind.OUT_OF_RANGE)
                out.refuse(rows[odd & ~beyond], self.place, Kind.BAD_TIME)
            else:
                out.refuse(rows[odd], self.place, Kind.NOT_UTF8)
            other = pa.scalar(b"" if self.form == "plain" else None, pa.binary())  # a map has no null keys
            found, cut = told(pc.if_else(pa.array(odd), other, raw), self.form)
        if cut is not None:
            out.cut(rows[cut])
        return found

    def raw(self, out: Out) -> pa.BinaryArray:
        """The bytes as an array, null where the entry is: copied once, by Arrow.

        Spans and the gaps between them are one array of twice the length, for whose offsets the places will do as they
        are, if they ascend. Nulls have no bytes, so theirs may be anywhere.
        """
        count = len(self)
        if not count:
            return pa.array([], pa.binary())
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2] = self.begins
        offsets[1::2] = self.begins + self.sizes
        if self.valid is not None:
            offsets = np.maximum.accumulate(offsets * np.repeat(self.valid, 2))
        both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), out.batch.buffer])
        every = pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))
        return both.take(pa.Array.from_buffers(pa.int32(), count, [bitmap(self.valid), every]))

    def _uuids(self, out: Out) -> pa.StringArray:
        """Sixteen bytes each, as text of 36."""
        texts = np.full((len(self), 36), ord("-"), np.uint8)
        raw = out.batch.data[self.begins[:, None] + np.arange(16)] if len(self) else np.zeros((0, 16), np.uint8)
        texts[:, _HEX_AT] = _HEX[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(self), 32)]
        offsets = np.arange(0, 36 * (len(self) + 1), 36, dtype=np.int32)
        buffers = [bitmap(self.valid), pa.py_buffer(offsets), pa.py_buffer(texts)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)


_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_AT = [at for at in range(36) if at not in (8, 13, 18, 23)]


@dataclass(frozen=True)
class Lists:
    """Lists and maps. sizes: items of each entry. items: of all entries, one behind the other; of a map a struct of
    key and value. place: of the reason if a map has a key twice."""

    sizes: Ints
    items: Any
    kind: pa.DataType
    place: int
    valid: Valid = None

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, at: np.ndarray) -> Lists:
        valid, sizes = _picked_valid(self.valid, at), _picked(self.sizes, at)
        sizes = np.where(at < 0, 0, sizes)
        begins = _picked(np.cumsum(self.sizes) - self.sizes, at)
        below = np.arange(sizes.sum()) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
        return replace(self, sizes=sizes, items=self.items.take(below), valid=valid)

    def concat(self, others: Sequence[Lists]) -> Lists:
        every = (self, *others)
        items = self.items.concat([one.items for one in others])
        return replace(self, sizes=np.concatenate([one.sizes for one in every]), items=items, valid=_valid_of(every))

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        entries = np.repeat(np.arange(len(self)), self.sizes)
        items = self.items.arrow(out, rows[entries])
        if pa.types.is_map(self.kind):
            if len(items):
                self._refuse_twins(out, rows, entries, items.field(0))
            keys, sides = items.field(0), [self.kind.key_field, self.kind.item_field]
            keys.null_count  # noqa: B018 - counted now: pyarrow 25 takes keys that were not counted for null, and aborts
            items = pa.StructArray.from_arrays([keys, items.field(1)], fields=sides)
        buffers = [bitmap(self.valid), pa.py_buffer(_offsets(self.sizes))]
        return pa.Array.from_buffers(self.kind, len(self), buffers, children=[items])

    def _refuse_twins(self, out: Out, rows: np.ndarray, entries: np.ndarray, keys: pa.Array) -> None:
        """Keys that one map has twice. Rows with keys that are not UTF-8 are refused by now."""
        codes = keys.dictionary_encode()
        different = len(codes.dictionary)
        # A number for each entry with a key, so that one sort finds the twins of all maps.
        pairs = entries * different + codes.indices.to_numpy()
        pairs.sort()
        twins = pairs[1:][pairs[1:] == pairs[:-1]]
        if len(twins):
            out.refuse(rows[twins // different], self.place, Kind.DUPLICATE_KEY)


@dataclass(frozen=True)
class Structs:
    """Structs: one column per field, each of the same length."""

    fields: tuple[Any, ...]
    kind: pa.DataType
    count: int
    valid: Valid = None

    def __len__(self) -> int:
        return self.count

    def take(self, at: np.ndarray) -> Structs:
        fields = tuple(one.take(at) for one in self.fields)
        return replace(self, fields=fields, count=len(at), valid=_picked_valid(self.valid, at))

    def concat(self, others: Sequence[Structs]) -> Structs:
        every = (self, *others)
        fields = tuple(one.concat([other.fields[at] for other in others]) for at, one in enumerate(self.fields))
        return replace(self, fields=fields, count=sum(map(len, every)), valid=_valid_of(every))

    def arrow(self, out: Out, rows: np.ndarray) -> pa.StructArray:
        fields = [one.arrow(out, rows) for one in self.fields]
        return pa.Array.from_buffers(self.kind, self.count, [bitmap(self.valid)], children=fields)


@dataclass(frozen=True)
class Constants:
    """The same value for each entry. one: an array of it alone."""

    one: pa.Array
    count: int
    valid: Valid = None

    @property
    def kind(self) -> pa.DataType:
        return self.one.type

    def __len__(self) -> int:
        return self.count

    def take(self, at: np.ndarray) -> Constants:
        return replace(self, count=len(at), valid=_picked_valid(self.valid, at))

    def concat(self, others: Sequence[Constants]) -> Constants:
        every = (self, *others)
        return replace(self, count=sum(map(len, every)), valid=_valid_of(every))

    def arrow(self, out: Out, rows: np.ndarray) -> pa.Array:
        at = pa.py_buffer(np.zeros(self.count, np.int64))
        return self.one.take(pa.Array.from_buffers(pa.int64(), self.count, [bitmap(self.valid), at]))


def nothing(kind: pa.DataType, count: int) -> Constants:
    """So many nulls of a type."""
    return Constants(pa.nulls(1, kind), count, np.zeros(count, bool))
