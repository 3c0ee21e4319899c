"""Decoded rows and their records, as the shaper gets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import SHAPING_SCHEMA
from exporter.arrow.spark_types import arrow_type
from exporter.column.spark_json import struct_of
from exporter.core.shapes import Shape
from exporter.shape.shaper import OWN, Shaped, Shaper


def decoded(schema_json: str, values: Sequence[dict[str, Any]]) -> pa.Table:
    """As a decoder gives them."""
    fields = [(one.name, arrow_type(one.type)) for one in struct_of(schema_json).fields]
    own = [(OWN[0], pa.string()), (OWN[1], pa.timestamp("us", "UTC"))]
    rows = [{OWN[0]: None, OWN[1]: at, **value} for at, value in enumerate(values)]
    return pa.Table.from_pylist(rows, schema=pa.schema([*fields, *own]))


def records(count: int, first: int = 0) -> pa.Table:
    """Of offsets from `first`; every other one has a key, every third one a header."""
    return pa.Table.from_pylist(
        [
            {
                "_kafka": {"topic": "shop", "partition": 3, "offset": offset, "timestamp": offset * 1_000_000},
                "_key": f"k{offset}".encode() if offset % 2 else None,
                "_headers": None if offset % 3 else [{"key": "trace", "value": f"h{offset}".encode()}],
            }
            for offset in range(first, first + count)
        ],
        schema=SHAPING_SCHEMA,
    )


def shaped(shape: Shape, values: Sequence[dict[str, Any]], constants: Sequence[tuple[str, Any]] = ()) -> Shaped:
    """What becomes of rows."""
    return Shaper(shape, constants).shaped(decoded(shape.decoded, values), records(len(values)))


def made(answer: Shaped) -> list[dict[str, Any]]:
    """The rows of the table, without OWN."""
    return answer.table.drop_columns([*OWN]).to_pylist()


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, not a number being itself."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other
