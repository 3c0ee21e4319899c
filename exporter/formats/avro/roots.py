"""Values whose schema is a union: the number in front of each says of which branch it is. Runs on Spark executors.

    tag (zigzag, base 128), body of the branch

Nearly all tags are one byte; longer ones, of a union with more than 64 branches or padded, are read one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

NONE = 1 << 32
_LONGEST = 10


class Tags(NamedTuple):
    """Of some rows, int64 each. numbers: of the branches, from 0; -1 for a value that ends before, NONE for a number
    that no branch has. sizes: bytes of the tags. left: bytes behind them."""

    numbers: np.ndarray
    sizes: np.ndarray
    left: np.ndarray


def tags_of(values: pa.BinaryArray, rows: np.ndarray, skipped: int) -> Tags:
    """rows: of values that are not null. skipped: bytes in front of each tag, which are there."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    begins, left = ends[:-1][rows] + skipped, np.diff(ends)[rows] - skipped
    there = left > 0
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    first = raw[np.where(there, begins, 0)].astype(np.int64)
    numbers = np.where(there, np.where(first % 2 == 0, first >> 1, NONE), -1)
    sizes = there.astype(np.int64)
    for at in np.flatnonzero(there & (first >= 0x80)).tolist():
        end = begins[at] + min(left[at], _LONGEST)
        numbers[at], sizes[at] = _long(raw[begins[at] : end].tobytes())
    return Tags(numbers, sizes, left - sizes)


def _long(raw: bytes) -> tuple[int, int]:
    """The number of a tag of several bytes, and how many these are."""
    found = 0
    for at, byte in enumerate(raw):
        found |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return (min(found >> 1, NONE) if found % 2 == 0 else NONE), at + 1
    return (NONE if len(raw) == _LONGEST else -1), len(raw)
