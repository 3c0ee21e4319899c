"""One scalar type as another, where no value is another one afterwards. Runs on Spark executors.

    the writer has             a declared column may be              a value that it does not hold
    ------------------------------------------------------------------------------------------------------
    integer                    of as many bits, or more              -
                               DECIMAL with room for all of them     -
                               FLOAT, DOUBLE                         inexact
    FLOAT                      DOUBLE                                -
    DECIMAL(p,s)               DECIMAL with as many digits           -
                               on both sides, or more
    STRING                     BINARY: its UTF-8                     -
    DATE, TIMESTAMP            the same                              out_of_range: not of the years 1 to 9999
    anything                   the same                              -

What nobody declared also holds what fits of wider numbers, value by value. All else is another type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.years import DAY_FIRST, DAY_LAST, US_FIRST, US_LAST
from exporter.formats.typed.texts import outside

NONE = np.empty(0, np.int64)
Converted: TypeAlias = tuple[pa.Array, np.ndarray]
"""The column, and the rows whose value it does not hold."""

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_EXACT_BELOW = {32: 2**24, 64: 2**53}


class Cast(NamedTuple):
    """convert: of an array of the writer's type. code, what: of the reason, of values that the column does not hold."""

    convert: Callable[[pa.Array], Converted]
    code: str = ""
    what: str = ""


def cast_of(source: pa.DataType, target: pa.DataType, free: bool) -> Cast | None:
    """How one becomes the other; None if it does not. free: nobody declared the column."""
    types = pa.types
    if types.is_date(source) and source == target:
        return Cast(_dates, "out_of_range", "lies outside the years 1 to 9999 in UTC")
    if types.is_timestamp(source) and source == target:
        return Cast(_times, "out_of_range", "lies outside the years 1 to 9999 in UTC")
    if source == target:
        return Cast(lambda array: (array, NONE))
    if types.is_integer(source):
        return _of_integer(source, target, free)
    if types.is_floating(source) and types.is_floating(target):
        return Cast(_wider(target) if target.bit_width > source.bit_width else _shorter) if free or (
            target.bit_width > source.bit_width
        ) else None
    if types.is_decimal(source) and types.is_decimal(target):
        whole, fraction = target.precision - target.scale, target.scale
        if source.precision - source.scale <= whole and source.scale <= fraction:
            return Cast(_wider(target))
        return Cast(_where_it_fits(target)) if free else None
    if types.is_string(source) and types.is_binary(target):
        return Cast(_wider(target))
    return None


def _of_integer(source: pa.DataType, target: pa.DataType, free: bool) -> Cast | None:
    if pa.types.is_integer(target):
        if target.bit_width >= source.bit_width:
            return Cast(_wider(target))
        return Cast(_narrower(target)) if free else None
    if pa.types.is_floating(target):
        exact = 1 << source.bit_width - 1 <= _EXACT_BELOW[target.bit_width]
        return Cast(_wider(target)) if exact else Cast(_floating(target), "inexact", "would be rounded")
    if pa.types.is_decimal(target):
        if target.precision - target.scale >= _DIGITS[source.bit_width]:
            return Cast(_wider(target))
        return Cast(_where_it_fits(target)) if free else None
    return None


def _wider(target: pa.DataType) -> Callable[[pa.Array], Converted]:
    return lambda array: (array.cast(target), NONE)


def _dates(array: pa.Array) -> Converted:
    return array, outside(array.cast(pa.int32()), DAY_FIRST, DAY_LAST)


def _times(array: pa.Array) -> Converted:
    return array, outside(array.cast(pa.int64()), US_FIRST, US_LAST)


def _floating(target: pa.DataType) -> Callable[[pa.Array], Converted]:
    """Integers, but none that would be rounded."""
    limit = _EXACT_BELOW[target.bit_width]

    def convert(array: pa.Array) -> Converted:
        column = array.cast(target, safe=False)
        large = outside(array, -limit, limit)
        if len(large):
            sent = array.take(pa.array(large)).to_numpy().astype(np.int64)
            held = column.take(pa.array(large)).to_numpy().astype(np.float64)
            held = np.where(held >= 2.0**63, 0.0, held)  # no integer of 64 bits: nor is 0 any of these
            large = large[held.astype(np.int64) != sent]
        return column, large

    return convert


def _narrower(target: pa.DataType) -> Callable[[pa.Array], Converted]:
    """Integers, where they have no more bits."""
    low, high = -(1 << (target.bit_width - 1)), (1 << (target.bit_width - 1)) - 1
    return lambda array: (array.cast(target, safe=False), outside(array, low, high))


def _shorter(array: pa.Array) -> Converted:
    """DOUBLE as FLOAT, where it is the same number."""
    column = array.cast(pa.float32())
    other = pc.and_(pc.not_equal(column.cast(pa.float64()), array), pc.invert(pc.is_nan(array)))
    return column, pc.indices_nonzero(other.fill_null(False)).to_numpy().astype(np.int64)


def _where_it_fits(target: pa.DataType) -> Callable[[pa.Array], Converted]:
    """Numbers as decimals, all at once if all fit, else one by one."""

    def convert(array: pa.Array) -> Converted:
        if pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(19, 0))
        try:
            return array.cast(target), NONE
        except pa.ArrowInvalid:
            single = [array.slice(row, 1) for row in range(len(array))]
            fits = [_fits(one, target) for one in single]
            held = pc.if_else(pa.array(fits, pa.bool_()), array, None)
            return held.cast(target), np.flatnonzero(~np.array(fits, bool))

    return convert


def _fits(array: pa.Array, target: pa.DataType) -> bool:
    try:
        array.cast(target)
    except pa.ArrowInvalid:
        return False
    return True
