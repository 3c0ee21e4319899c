"""Big-endian whole numbers of any length -> Arrow's decimals, all rows at once. Runs on Spark executors."""

from __future__ import annotations

import numpy as np

from exporter.formats.binary.cursor import Ints, ValueBytes

DIGITS_MAX = 38
"""Digits that a decimal of Arrow's, and one of Delta's, can have."""


def decimals(batch: ValueBytes, begins: Ints, sizes: Ints, precision: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, in two's complement, as pairs of uint64, low and high; and for each whether it has too many digits.

    precision: digits, at most DIGITS_MAX. A number of no bytes is 0.
    """
    ends = begins + sizes
    first = np.minimum(sizes, 8)
    low = _word(batch, ends, first)
    if (sizes <= 8).all():
        return np.stack([low, low >> 63], axis=1).view(np.uint64), _beyond(low, precision)
    high = np.where(sizes > 8, _word(batch, ends - first, np.clip(sizes - 8, 0, 8)), low >> 63)
    low = low.view(np.uint64)
    bound = 10**precision
    over = _at_least(high, low, bound) | ~_at_least(high, low, 1 - bound)
    for at in np.flatnonzero(sizes > 16).tolist():
        number = int.from_bytes(batch.raw[begins[at] : ends[at]], "big", signed=True)
        over[at] = abs(number) >= bound
    return np.stack([low, high.view(np.uint64)], axis=1), over


def _word(batch: ValueBytes, ends: Ints, sizes: Ints) -> Ints:
    """The last bytes before a place, at most eight, as a number with its sign."""
    spare = ((8 - np.maximum(sizes, 1)) * 8).astype(np.int64)
    words = batch.u64[ends - 8].byteswap().view(np.int64)
    return np.where(sizes == 0, 0, (words << spare) >> spare)


def _beyond(low: Ints, precision: int) -> np.ndarray:
    bound = 10**precision
    return np.zeros(len(low), bool) if bound > 2**63 else (low >= bound) | (low <= -bound)


def _at_least(high: Ints, low: np.ndarray, bound: int) -> np.ndarray:
    """Whether each number, of two words, is a bound of up to 127 bits or above it."""
    most, least = bound >> 64, np.uint64(bound & (2**64 - 1))
    return (high > most) | ((high == most) & (low >= least))
