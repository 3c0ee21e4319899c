"""Where each row of a batch stands: all rows are read at once, field by field. Runs on Spark executors.

    data     64 zero bytes, the bytes of the values as they lie in Arrow's buffer, 64 zero bytes
    pos      of each row the place of the next byte to read, in data
    end      of each row the place behind its last byte
    bad      of each row why it is refused (reasons.py); 0 for none
    left     of each row how many bytes of Arrow's its items may still take

Always pos <= end: each reading makes sure of it. A row that fails goes on at the zeros, so that nobody has to leave it
out: what is read of it later means nothing, and the first reason stays. What is read of a row never depends on another
row, nor on the bytes behind its end. Little-endian machines only.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from exporter.formats.binary.reasons import Kind, ReasonPaths, number_of

Ints = np.ndarray
"""int64 per row."""
PAD = 64
"""Zero bytes before and behind the values."""
ITEMS_MAX = 100_000
"""Items of arrays and maps that one record may have in all."""
ITEM_BYTES_MAX = 640 * ITEMS_MAX
"""Bytes of Arrow's that they may take in all."""
ITEM_BYTES_MIN = ITEM_BYTES_MAX // ITEMS_MAX
"""What each item counts for at least: so both bounds are one number."""

_HIGH = np.uint64(0x8080808080808080)
_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_STEPS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), _ONE),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""Seven, fourteen and twenty-eight bits of two neighbours each become twice as many."""

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("the binary formats are read on little-endian machines only")


class ValueBytes:
    """The bytes of some values, and views of them that begin at any byte.

    buffer: Arrow's view of the same bytes. starts, ends: int64 per value, places in the data; those of null values are
    of no meaning. places: paths of reasons, of this batch alone.
    """

    def __init__(self, values: pa.BinaryArray, places: ReasonPaths) -> None:
        _, offsets, data = values.buffers()
        at = np.zeros(len(values) + 1, np.int64)
        if offsets is not None and len(values):
            at = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        first, size = int(at[0]), int(at[-1] - at[0])
        self.data = np.zeros(size + 2 * PAD, np.uint8)
        if size:
            self.data[PAD : PAD + size] = np.frombuffer(data, np.uint8, size, first)
        self.buffer = pa.py_buffer(self.data)
        self.raw = self.data.data
        self.starts, self.ends = at[:-1] - first + PAD, at[1:] - first + PAD
        self.places = places
        self.u64, self.u32 = self._view("<u8"), self._view("<u4")

    def _view(self, kind: str) -> np.ndarray:
        """Numbers that begin at each byte of the data."""
        width = np.dtype(kind).itemsize
        return np.ndarray((len(self.data) - width + 1,), kind, self.data, 0, (1,))

    def cursor(self, rows: np.ndarray | None = None, skipped: int | Ints = 0) -> LockstepCursor:
        """A cursor on some of the values, which are not null. skipped: bytes in front that are not read, as many or
        fewer than there are; a number, or one per row."""
        starts, ends = (self.starts, self.ends) if rows is None else (self.starts[rows], self.ends[rows])
        return LockstepCursor(self, starts + skipped, ends)


class LockstepCursor:
    """Rows that are read in lockstep. Each method reads one thing of every row, or says what is wrong with some."""

    __slots__ = ("bad", "batch", "end", "left", "pos")

    def __init__(
        self, batch: ValueBytes, pos: Ints, end: Ints, bad: np.ndarray | None = None, left: Ints | None = None
    ) -> None:
        self.batch = batch
        self.pos = pos
        self.end = end
        self.bad = np.zeros(len(pos), np.int32) if bad is None else bad
        self.left = np.full(len(pos), ITEM_BYTES_MAX, np.int64) if left is None else left

    def __len__(self) -> int:
        return len(self.pos)

    def take(self, at: np.ndarray) -> LockstepCursor:
        """A cursor of its own on some of the rows, ascending."""
        return LockstepCursor(self.batch, self.pos[at], self.end[at], self.bad[at], self.left[at])

    def put(self, at: np.ndarray, other: LockstepCursor) -> None:
        """Go on where a cursor that was taken of these rows has come to."""
        self.pos[at], self.bad[at], self.left[at] = other.pos, other.bad, other.left

    def fail(self, where: np.ndarray, place: int, kind: Kind) -> None:
        """Refuse rows: those of a mask. A reason that there is stays."""
        self.bad[where & (self.bad == 0)] = number_of(place, kind)
        self.pos[where] = 0

    def refuse(self, where: np.ndarray, bad: np.ndarray) -> None:
        """Refuse rows, given by number and each once, for reasons of their own; 0 is none."""
        self.bad[where] = np.where(self.bad[where] == 0, bad, self.bad[where])
        self.pos[where[bad != 0]] = 0

    def _moved(self, pos: Ints, place: int, x: np.ndarray) -> np.ndarray:
        """Go to the next place of each row, if it is there. x: what was read; of a row that ends before, nothing: what
        follows it would be bytes of others."""
        over = pos > self.end
        self.pos = pos
        if over.any():
            self.fail(over, place, Kind.TRUNCATED)
            x[over] = 0
        return x

    def varint(self, place: int) -> np.ndarray:
        """The next number of base 128 of each row, as uint64."""
        w = self.batch.u64[self.pos]
        stop = ~w & _HIGH
        if (stop & np.uint64(0x80)).all():  # all are of one byte
            return self._moved(self.pos + 1, place, w & np.uint64(0x7F))
        keep = (stop & (~stop + _ONE)) - _ONE  # the bits below the first end of a number
        x = w & keep & _SEVEN
        for low, high, shift in _STEPS:
            x = x & low | (x & high) >> shift
        size = (np.bitwise_count(keep).astype(np.int64) + 1) >> 3
        if (long := stop == 0).any():
            self._long(np.flatnonzero(long), x, size, place)
        return self._moved(self.pos + size, place, x)

    def _long(self, at: np.ndarray, x: np.ndarray, size: Ints, place: int) -> None:
        """Bytes 9 and 10 of the numbers that have them. What stands behind a row's end changes nothing."""
        w = self.batch.u64[self.pos[at]]
        x[at] = _eight(w)
        behind = self.pos[at] + 8
        ninth, tenth = (self.batch.data[np.minimum(behind + n, self.end[at])].astype(np.uint64) for n in (0, 1))
        x[at] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        longest = ninth >= 0x80
        x[at] |= np.where(longest, tenth & _ONE, np.uint64(0)) << np.uint64(63)
        size[at] = np.where(longest, 10, 9)
        broken = np.zeros(len(self), bool)
        broken[at] = longest & (tenth > 1) & (behind + 2 <= self.end[at])
        if broken.any():
            self.fail(broken, place, Kind.BAD_VARINT)
            x[broken] = 0
            size[broken] = 0

    def zigzag(self, place: int) -> Ints:
        """The next number of each row, its sign in its last bit."""
        x = self.varint(place)
        return ((x >> _ONE) ^ (~(x & _ONE) + _ONE)).view(np.int64)

    def span(self, sizes: Ints, place: int) -> Ints:
        """Pass over bytes of each row; where they begin. sizes: of any value."""
        if (negative := sizes < 0).any():
            self.fail(negative, place, Kind.BAD_LENGTH)
            sizes[negative] = 0
        if (over := sizes > self.end - self.pos).any():
            self.fail(over, place, Kind.TRUNCATED)
            sizes[over] = 0
        begins = self.pos
        self.pos = begins + sizes
        return begins

    def fixed(self, width: int, place: int) -> Ints:
        """Pass over as many bytes of each row; where they begin, all zeros for a row that ends before."""
        if (over := width > self.end - self.pos).any():
            self.fail(over, place, Kind.TRUNCATED)
            begins = self.pos.copy()
            self.pos = np.where(over, 0, begins + width)
            return begins
        begins = self.pos
        self.pos = begins + width
        return begins

    def words(self, place: int) -> np.ndarray:
        """The next eight bytes of each row, as uint64, little-endian."""
        return self.batch.u64[self.fixed(8, place)]

    def halves(self, place: int) -> np.ndarray:
        """The next four bytes of each row, as uint32, little-endian."""
        return self.batch.u32[self.fixed(4, place)]

    def byte(self, place: int) -> np.ndarray:
        """The next byte of each row."""
        return self.batch.data[self.fixed(1, place)]


def _eight(w: np.ndarray) -> np.ndarray:
    """The bits of eight bytes that all go on."""
    x = w & _SEVEN
    for low, high, shift in _STEPS:
        x = x & low | (x & high) >> shift
    return x

