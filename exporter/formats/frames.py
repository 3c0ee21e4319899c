"""Schema ids in front of values, found before anything else is judged (protocol 3.8). Runs on Spark executors.

    00, id (4 bytes, big-endian), value     Confluent's frame; of Protobuf the place of the message stands between

What no decision speaks of is missing: the reading of its partition ends before it. What is decided to be unknown is a
dead letter. Values without such a frame are for their format to refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from exporter.core.schemas import KnownSchemas, Unknown
from exporter.core.value_format import ValueFormat
from offsets.ranges import TopicPartition

HEAD = 5
"""Bytes of Confluent's frame."""
NO_ID = -1


@dataclass(frozen=True)
class Framed:
    """What the frames of a batch say. ids: int64 per row, NO_ID where there is none.

    missing: id -> its first row, of those without a decision. unknown: row -> reason.
    """

    ids: np.ndarray
    missing: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)


def framed(
    values: pa.BinaryArray, offsets: pa.Int64Array, tp: TopicPartition, form: ValueFormat, schemas: KnownSchemas
) -> Framed | None:
    """The frames of one partition's values, with their offsets; None if values of this format have no ids."""
    if not form.has_ids or not len(values):
        return None
    ids = confluent_ids(values)
    found = Framed(ids)
    for schema_id in np.unique(ids).tolist():
        if schema_id == NO_ID:
            continue
        if schemas.settled(schema_id):
            continue
        rows = np.flatnonzero(ids == schema_id)
        decided = [schemas.of(schema_id, tp, at.as_py()) for at in offsets.take(pa.array(rows))]
        for row, decision in zip(rows.tolist(), decided, strict=True):
            if decision is None:
                found.missing.setdefault(schema_id, row)
            elif isinstance(decision, Unknown):
                found.unknown[row] = f"unknown_schema_id: {schema_id}"
    return found


def confluent_ids(values: pa.BinaryArray) -> np.ndarray:
    """The id in front of each value, as int64; NO_ID for null values and those without a frame."""
    _, ends, data = values.buffers()
    if data is None or not len(values):
        return np.full(len(values), NO_ID, np.int64)
    at = np.frombuffer(ends, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8)
    start, size = at[:-1], np.diff(at)
    has = size >= HEAD
    if values.null_count:
        has &= values.is_valid().to_numpy(zero_copy_only=False)
    safe = np.where(has, start, 0)
    if not has.any():
        return np.full(len(values), NO_ID, np.int64)
    has &= raw[safe] == 0
    safe = np.where(has, start, start[np.argmax(has)] if has.any() else 0)
    ids = np.zeros(len(values), np.int64)
    if has.any():
        for byte in range(1, HEAD):
            ids = (ids << 8) | raw[safe + byte]
    return np.where(has, ids, NO_ID)
