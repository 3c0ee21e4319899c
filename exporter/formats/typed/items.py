"""Arrays and maps as their items and where each begins, and put together again. Runs on Spark executors.

    [[1], null, [2, 3]]     offsets 0 1 1 3     items 1 2 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class TypedItems(NamedTuple):
    """offsets: int32, one more than there are rows, from 0. parts: one entry for each item: values, or keys and values.

    Each item is of a row that is not null.
    """

    offsets: np.ndarray
    parts: Sequence[pa.Array]

    def parents(self, items: Sequence[int] | np.ndarray) -> np.ndarray:
        """The row of each item."""
        return np.searchsorted(self.offsets, np.asarray(items, np.int64), side="right") - 1

    def kept(self, keep: np.ndarray) -> TypedItems:
        """Without some items. keep: one boolean for each."""
        before = np.concatenate(([0], np.cumsum(keep, dtype=np.int32)))
        mask = pa.array(keep)
        return TypedItems(before[self.offsets].astype(np.int32), [part.filter(mask) for part in self.parts])


def items_of(array: pa.ListArray | pa.MapArray) -> TypedItems:
    """The items of a list or map array, whatever stands in it between its rows."""
    begins = np.asarray(array.offsets, np.int64)
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    sizes = np.diff(begins)
    if array.null_count:
        sizes[np.asarray(array.is_null())] = 0
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    total = int(offsets[-1])
    if total == begins[-1] - begins[0]:
        parts = [part.slice(int(begins[0]), total) for part in parts]
    else:
        at = pa.array(np.repeat(begins[:-1] - offsets[:-1], sizes) + np.arange(total))
        parts = [part.take(at) for part in parts]
    return TypedItems(offsets.astype(np.int32), parts)


def list_array(offsets: np.ndarray, values: pa.Array, kind: pa.DataType, like: pa.Array) -> pa.ListArray:
    """An array of lists. like: null where the lists are."""
    mask = like.is_null() if like.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind, mask=mask)


def map_array(offsets: np.ndarray, parts: Sequence[pa.Array], kind: pa.DataType, like: pa.Array) -> pa.MapArray:
    """An array of maps. like: null where the maps are."""
    mask = like.is_null() if like.null_count else None
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), *parts, type=kind, mask=mask)


def joined(offsets: np.ndarray, texts: pa.StringArray, opening: str, closing: str) -> pa.StringArray:
    """For each row the texts of its items, none of them null, by commas and in brackets."""
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")
