"""Two columns as one: what one of them lacks is taken from the other, at every level of their type. Pure.

    have             more              both
    null             5                 5
    {a: 1, b: null}  {a: null, b: 2}   {a: 1, b: 2}
    [{a: 1}, null]   [null, {a: 3}]    [{a: 1}, {a: 3}]
    1                1                 1, and a clash, as with maps, and arrays of two lengths
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Mask = Any
"""A numpy array of booleans."""


class Filled(NamedTuple):
    """column: both together. changed: rows that have more than before. clashes: rows in which both have a value."""

    column: pa.Array
    changed: Mask
    clashes: Mask


def filled(have: pa.Array, more: pa.Array) -> Filled:
    """`have` with what `more`, of the same type and length, has where it has nothing."""
    there, given = (one.is_valid().to_numpy(zero_copy_only=False) for one in (have, more))
    both = there & given
    changed, clashes = given & ~there, np.zeros(len(have), bool)
    source = np.where(changed, 1, 0)
    rows = np.arange(len(have))
    parts = [have, more]
    if both.any():
        at = np.flatnonzero(both)
        inner = _inside(*(one.take(pa.array(at)) for one in (have, more)))
        changed[at], clashes[at] = inner.changed, inner.clashes
        source[at], rows[at] = 2, np.arange(len(at))
        parts.append(inner.column)
    if not changed.any():
        return Filled(have, changed, clashes)
    starts = np.cumsum([0, *(len(one) for one in parts[:-1])])
    return Filled(pa.concat_arrays(parts).take(pa.array(starts[source] + rows)), changed, clashes)


def _inside(have: pa.Array, more: pa.Array) -> Filled:
    """Of rows in which neither is null."""
    kind = have.type
    if pa.types.is_struct(kind):
        inner = [filled(*pair) for pair in zip(have.flatten(), more.flatten(), strict=True)]
        column = pa.StructArray.from_arrays([one.column for one in inner], fields=list(kind))
        changed, clashes = (np.any([one[part] for one in inner], axis=0) for part in (1, 2))
        return Filled(column, changed, clashes)
    if not pa.types.is_list(kind):
        return Filled(have, np.zeros(len(have), bool), np.ones(len(have), bool))
    rows, lengths = np.arange(len(have)), have.value_lengths().to_numpy()
    unlike = lengths != more.value_lengths().to_numpy()
    more = pa.concat_arrays([more, have]).take(pa.array(np.where(unlike, len(have) + rows, rows)))
    items = filled(have.flatten(), more.flatten())
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = pa.ListArray.from_arrays(pa.array(offsets), items.column, type=kind)
    of = np.repeat(rows, lengths)
    changed, clashes = (np.bincount(of, one, len(have)) > 0 for one in (items.changed, items.clashes))
    return Filled(column, changed, clashes | unlike)
