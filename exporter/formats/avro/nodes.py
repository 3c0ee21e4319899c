"""What a plan is made of: one node for each value of the writer's that stands alone. Runs on Spark executors.

    read()   the next value of each row
    skip()   pass over one value of one record (walk.py)

Values are exact, or their row is refused: a whole number that its floating-point column cannot hold is out of range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.formats.avro.walk import Walk
from exporter.formats.binary.columns import Constants, Numbers, Spans, Symbols, nothing
from exporter.formats.binary.cursor import LockstepCursor
from exporter.formats.binary.decimals import decimals
from exporter.formats.binary.reasons import Kind


class AvroNode(ABC):
    """kind: the type of what is read; None: there is nothing that a column could hold. least: bytes that a value takes
    at least. size: bytes that each takes; None: they differ. width: bytes that Arrow takes for one. place: reasons.py.
    """

    kind: pa.DataType | None = None
    least: int = 0
    size: int | None = None
    width: int = 0

    def __init__(self, place: int) -> None:
        self.place = place

    @abstractmethod
    def read(self, cursor: LockstepCursor) -> Any:
        """A column, or None if there is nothing that one could hold."""

    def skip(self, walk: Walk) -> None:
        """Of what takes as many bytes as any other. Raises CannotWalk."""
        walk.forward(self.least)

    def peek(self, cursor: LockstepCursor, path: Sequence[str]) -> Any:
        """The column at a path below, and nothing behind it; None if there is no such field."""
        return None if path else self.read(cursor)


class Null(AvroNode):
    """The type null: no bytes and no column."""

    size = 0

    def read(self, cursor: LockstepCursor) -> None:
        return None


class AroundNode(AvroNode):
    """What another node reads, as something else."""

    def __init__(self, node: AvroNode, kind: pa.DataType, width: int) -> None:
        super().__init__(node.place)
        self._node, self.kind, self.width = node, kind, width
        self.least, self.size = node.least, node.size

    def skip(self, walk: Walk) -> None:
        self._node.skip(walk)


class NothingNode(AroundNode):
    """A null of the writer's, as the null of a type."""

    kind: pa.DataType

    def __init__(self, node: AvroNode, kind: pa.DataType) -> None:
        super().__init__(node, kind, 8)
        self.least = 0

    def read(self, cursor: LockstepCursor) -> Constants:
        self._node.read(cursor)
        return nothing(self.kind, len(cursor))


class Boolean(AvroNode):
    """One byte, 0 or 1."""

    kind, least, size, width = pa.bool_(), 1, 1, 1

    def read(self, cursor: LockstepCursor) -> Numbers:
        found = cursor.byte(self.place)
        if (odd := found > 1).any():
            cursor.fail(odd, self.place, Kind.BAD_BOOLEAN)
        return Numbers(found == 1, pa.bool_())


class WholeNode(AvroNode):
    """int and long, and what they stand for.

    bits: of the writer's type. factor: what makes the kind's unit of the writer's. nanos: see Numbers.
    """

    least = 1

    def __init__(self, place: int, kind: pa.DataType, bits: int, *, factor: int = 1, nanos: bool = False) -> None:
        super().__init__(place)
        self.kind, self.width = kind, kind.bit_width // 8
        self._bits, self._factor, self._nanos = bits, factor, nanos
        self._stored = np.dtype(kind.to_pandas_dtype()) if pa.types.is_floating(kind) else np.dtype(f"i{self.width}")

    def read(self, cursor: LockstepCursor) -> Numbers:
        found = cursor.zigzag(self.place)
        if self._bits == 32 and (odd := found != found.astype(np.int32)).any():
            cursor.fail(odd, self.place, Kind.OUT_OF_RANGE)
        if self._factor != 1:
            limit = (2**63 - 1) // self._factor
            if (odd := (found > limit) | (found < -limit)).any():
                cursor.fail(odd, self.place, Kind.OUT_OF_RANGE)
            found = found * self._factor
        return Numbers(self._as_stored(found, cursor), self.kind, nanos=self._nanos)

    def _as_stored(self, found: np.ndarray, cursor: LockstepCursor) -> np.ndarray:
        values = found.astype(self._stored)
        if self._stored.kind == "f":
            below = values < 2.0**63  # what is not, is no int64
            if (odd := ~below | (np.where(below, values, 0).astype(np.int64) != found)).any():
                cursor.fail(odd, self.place, Kind.INEXACT)
        return values

    def skip(self, walk: Walk) -> None:
        walk.varint()


class Real(AvroNode):
    """float and double, also as the latter."""

    def __init__(self, place: int, kind: pa.DataType, size: int) -> None:
        super().__init__(place)
        self.kind, self.width = kind, kind.bit_width // 8
        self.least = self.size = size
        self._stored = np.dtype(f"<f{self.width}")

    def read(self, cursor: LockstepCursor) -> Numbers:
        if self.size == 4:
            found = cursor.halves(self.place).view(np.float32)
        else:
            found = cursor.words(self.place).view(np.float64)
        return Numbers(found.astype(self._stored, copy=False), self.kind)


class TextNode(AvroNode):
    """bytes and string, each also as the other, and what they stand for. form: see Spans."""

    least, width = 1, 4

    def __init__(self, place: int, kind: pa.DataType, form: str = "plain") -> None:
        super().__init__(place)
        self.kind, self._form = kind, form

    def read(self, cursor: LockstepCursor) -> Spans:
        sizes = cursor.zigzag(self.place)
        return Spans(cursor.span(sizes, self.place), sizes, self.kind, self.place, self._form)

    def skip(self, walk: Walk) -> None:
        walk.forward(walk.zigzag())


class Fixed(AvroNode):
    """So many bytes. form: see Spans."""

    def __init__(self, place: int, kind: pa.DataType, size: int, form: str = "plain") -> None:
        super().__init__(place)
        self.kind, self._form = kind, form
        self.least = self.size = size
        self.width = 4 + (36 if form == "uuid" else size)

    def read(self, cursor: LockstepCursor) -> Spans:
        begins = cursor.fixed(self.least, self.place)
        return Spans(begins, np.full(len(begins), self.least), self.kind, self.place, self._form)


class Decimal(AvroNode):
    """A number in bytes, or in so many of a fixed. precision: digits that are taken; the kind may have more."""

    width = 16

    def __init__(self, place: int, kind: pa.DataType, precision: int, size: int | None) -> None:
        super().__init__(place)
        self.kind, self._precision = kind, precision
        self.size, self.least = size, 1 if size is None else size

    def read(self, cursor: LockstepCursor) -> Numbers:
        if self.size is None:
            sizes = cursor.zigzag(self.place)
            begins = cursor.span(sizes, self.place)
        else:
            begins = cursor.fixed(self.size, self.place)
            sizes = np.full(len(begins), self.size)
        values, odd = decimals(cursor.batch, begins, sizes, self._precision)
        if (odd := odd | (sizes == 0)).any():
            cursor.fail(odd, self.place, Kind.BAD_DECIMAL)
        return Numbers(values, self.kind)

    def skip(self, walk: Walk) -> None:
        walk.forward(walk.zigzag() if self.size is None else self.size)


class Enum(AvroNode):
    """The number of a symbol. symbols: as the reader calls each of the writer's; None: it does not know it."""

    kind, least, width = pa.string(), 1, 8

    def __init__(self, place: int, symbols: Sequence[str | None]) -> None:
        super().__init__(place)
        self._symbols = pa.array(symbols, pa.string())
        self._unknown = np.array([one is None for one in symbols])

    def read(self, cursor: LockstepCursor) -> Symbols:
        found = cursor.zigzag(self.place)
        if (odd := (found < 0) | (found >= len(self._unknown))).any():
            cursor.fail(odd, self.place, Kind.BAD_ENUM)
            found = np.where(odd, 0, found)
        if self._unknown.any() and (odd := self._unknown[found]).any():
            cursor.fail(odd, self.place, Kind.UNKNOWN_SYMBOL)
        return Symbols(found, self._symbols)

    def skip(self, walk: Walk) -> None:
        walk.varint()
