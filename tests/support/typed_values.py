"""Arrow's values as Python's, also those that have none: times of any year are whole numbers of their unit."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pyarrow as pa


def plain(array: pa.Array) -> list[Any]:
    """Structs as dicts, maps as lists of pairs, times and dates as numbers, all else as Python has it."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [plain(array.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        found: list[Any] = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        found = found or [{} for _ in range(len(array))]
    elif pa.types.is_map(kind):
        pairs = list(zip(plain(array.keys), plain(array.items), strict=True))
        found = _cut(array, pairs)
    elif pa.types.is_list(kind):
        found = _cut(array, plain(array.values))
    elif pa.types.is_timestamp(kind):
        found = array.cast(pa.int64()).to_pylist()
    elif pa.types.is_date(kind):
        found = array.cast(pa.int32()).to_pylist()
    else:
        found = array.to_pylist()
    valid = array.is_valid().to_pylist()
    return [one if is_valid else None for one, is_valid in zip(found, valid, strict=True)]


def _cut(array: pa.Array, items: list[Any]) -> list[Any]:
    return [items[begin:end] for begin, end in pairwise(array.offsets.to_pylist())]


def comparable(value: Any) -> Any:
    """A value that is equal to itself: no NaN, and -0.0 is not 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {name: comparable(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [comparable(one) for one in value]
    return value
