"""Which message a framed value is: what stands between the schema's id and it. Runs on Spark executors.

    00                           the first message of the file
    number of indexes, indexes   zigzag numbers of base 128: the message's place in the file, then in that message, ...
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from exporter.formats.binary.cursor import LockstepCursor, ValueBytes
from exporter.formats.frames import HEAD

DEPTH_MAX = 32
"""Indexes of one message: far more than anybody nests, and few enough to be read whatever a damaged one says."""
FIRST = (0,)
_ROOT = 0
"""The place of reasons, of which none is told."""

Place = tuple[int, ...]


class Heads(NamedTuple):
    """skipped: of each row the bytes in front of its message. places: position in the rows -> which message, in groups.

    damaged: positions of those whose indexes cannot be read.
    """

    skipped: np.ndarray
    places: dict[Place, np.ndarray]
    damaged: np.ndarray


def heads(batch: ValueBytes, rows: np.ndarray) -> Heads:
    """Read what stands behind the ids of some values; the batch's places have one path at least."""
    cursor = batch.cursor(rows, HEAD)
    begin = cursor.pos.copy()
    short = (begin < cursor.end) & (batch.data[begin] == 0)
    if short.all():
        return Heads(np.full(len(rows), HEAD + 1), {FIRST: np.arange(len(rows))}, np.zeros(0, np.int64))
    counts = cursor.zigzag(_ROOT)
    odd = (cursor.bad != 0) | (counts < 0) | (counts > DEPTH_MAX)
    counts = np.where(odd, 0, counts)
    indexes = np.full((len(rows), max(1, int(counts.max(initial=0)))), -1, np.int64)
    indexes[counts == 0, 0] = 0
    for depth in range(int(counts.max(initial=0))):
        at = np.flatnonzero((counts > depth) & ~odd)
        some = cursor.take(at)
        indexes[at, depth] = _index(some)
        cursor.put(at, some)
        odd |= cursor.bad != 0
        odd[at] |= indexes[at, depth] < 0
    damaged, well = np.flatnonzero(odd), np.flatnonzero(~odd)
    skipped = np.where(odd, 0, cursor.pos - begin + HEAD)
    return Heads(skipped, _grouped(indexes, well), damaged)


def _index(cursor: LockstepCursor) -> np.ndarray:
    """The next index of each row; negative for one that there cannot be."""
    found = cursor.zigzag(_ROOT)
    return np.where(found < 1 << 31, found, -1)


def _grouped(indexes: np.ndarray, rows: np.ndarray) -> dict[Place, np.ndarray]:
    if not len(rows):
        return {}
    different, which = np.unique(indexes[rows], axis=0, return_inverse=True)
    which = which.reshape(-1)
    return {
        tuple(index for index in place if index >= 0): rows[which == number]
        for number, place in enumerate(different.tolist())
    }
