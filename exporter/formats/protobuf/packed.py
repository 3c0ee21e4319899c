"""Repeated numbers that stand in one piece, without a tag each. Runs on Spark executors."""

from __future__ import annotations

import numpy as np

from exporter.formats.binary.cursor import LockstepCursor, ValueBytes
from exporter.formats.binary.reasons import Kind, number_of
from exporter.formats.protobuf.model import FIXED64, VARINT, WIRE
from exporter.formats.protobuf.plan import FieldPlan
from exporter.formats.protobuf.scan import Occurrences


def unpacked(batch: ValueBytes, slot: FieldPlan, pieces: Occurrences, place: int) -> tuple[Occurrences, np.ndarray]:
    """The numbers of some pieces, each as if it stood alone, and of each piece why it is refused; 0 is no reason.

    What is said of a piece does not depend on the others; numbers of one that is refused may be left out.
    """
    begins, sizes = pieces.at, pieces.value.view(np.int64)
    if WIRE[slot.kind] != VARINT:
        width = 8 if WIRE[slot.kind] == FIXED64 else 4
        bad = np.where(sizes % width != 0, number_of(place, Kind.TRUNCATED), 0)
        of, nth = _ranges(np.where(bad == 0, sizes // width, 0))
        at = begins[of] + nth * width
        return Occurrences(pieces.rows[of], at, at.view(np.uint64)), bad
    cut = (sizes > 0) & (batch.data[begins + sizes - 1] >= 0x80)
    bad = np.where(cut, number_of(place, Kind.TRUNCATED), 0)
    of, nth = _ranges(np.where(cut, 0, sizes))
    every = begins[of] + nth
    last = np.flatnonzero(batch.data[every] < 0x80)
    first = np.concatenate([np.zeros(1, np.int64), last[:-1] + 1])[: len(last)]
    at, of = every[first], of[first]
    cursor = LockstepCursor(batch, at, every[last] + 1)
    value = cursor.varint(place)
    found = Occurrences(pieces.rows[of], every[first], value)
    if cursor.bad.any():
        bad[of[cursor.bad != 0]] = number_of(place, Kind.BAD_VARINT)
        found = found.where(cursor.bad == 0)
    return found, bad


def _ranges(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of as many things as `counts` says for each: whose it is, and which one it is of these."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
