"""Schema ids in front of values, found before anything else is judged (protocol 3.8). Runs on Spark executors.

    00, id (4 bytes, big-endian), value     Confluent's frame; of Protobuf the place of the message stands between

What no decision speaks of is missing: the reading of its partition ends before it. What is decided to be unknown is a
dead letter. Values without such a frame are for their format to refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.schemas import ID_MAX, KnownSchemas, Unknown
from exporter.core.value_format import ValueFormat
from offsets.ranges import TopicPartition

HEAD = 5
"""Bytes of Confluent's frame."""
NO_ID = -1
UNKNOWN = "unknown_schema_id"
"""Code of the reason of a record whose id is decided to be unknown."""
PACKED = 8
"""Bytes of a message's place that are compared as one number; longer places are read one by one."""


@dataclass(frozen=True)
class Framed:
    """What the frames of a batch say. ids: int64 per row, NO_ID where there is none.

    missing: id -> its first row, of those without a decision. unknown: row -> reason.
    """

    ids: np.ndarray
    missing: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """How many rows stand before the first one that cannot be read yet."""
        return min(self.missing.values(), default=len(self.ids))

    def before(self, end: int) -> Framed:
        """The same of the first rows alone."""
        return Framed(self.ids[:end], {}, {row: reason for row, reason in self.unknown.items() if row < end})


@dataclass(frozen=True)
class RowSchemas:
    """The schemas of values. keys: `7`, of one record of several `7:1.0`. numbers: per row that of its key, -1 without
    one."""

    keys: list[str]
    numbers: np.ndarray

    def of(self, rows: pa.Array) -> list[str]:
        """The keys of some rows."""
        if len(self.keys) < 2:
            return self.keys
        there = np.unique(self.numbers[rows.to_numpy(zero_copy_only=False)]).tolist()
        return [self.keys[number] for number in there if number >= 0]


def framed(
    values: pa.BinaryArray, offsets: pa.Int64Array, tp: TopicPartition, form: ValueFormat, schemas: KnownSchemas
) -> Framed | None:
    """The frames of one partition's values, with their offsets; None if values of this format have no ids."""
    if not form.has_ids or not len(values):
        return None
    ids = confluent_ids(values)
    found = Framed(ids)
    for schema_id in _unique(ids):
        if schema_id == NO_ID or schemas.settled(schema_id):
            continue
        rows = np.flatnonzero(ids == schema_id)
        decided = [schemas.of(schema_id, tp, at) for at in offsets.take(pa.array(rows)).to_pylist()]
        for row, decision in zip(rows.tolist(), decided, strict=True):
            if decision is None:
                found.missing.setdefault(schema_id, row)
            elif isinstance(decision, Unknown):
                found.unknown[row] = f"{UNKNOWN}: {schema_id}"
    return found


def unread(values: pa.BinaryArray, form: ValueFormat, schemas: KnownSchemas) -> Framed:
    """The frames of values that are read by texts alone, wherever they stood: what has none is unknown."""
    if not form.has_ids:
        return Framed(np.full(len(values), NO_ID, np.int64))
    ids = confluent_ids(values)
    lacking = np.isin(ids, [one for one in np.unique(ids).tolist() if one != NO_ID and schemas.text(one) is None])
    return Framed(ids, {}, {row: f"{UNKNOWN}: {ids[row]}" for row in np.flatnonzero(lacking).tolist()})


def ids_without_text(values: pa.BinaryArray, form: ValueFormat, schemas: KnownSchemas) -> list[int]:
    """The ids of values that cannot be read, as often as they stand there; numbers that are none are left out."""
    found = unread(values, form, schemas)
    return [one for row in found.unknown if (one := int(found.ids[row])) <= ID_MAX]


def confluent_ids(values: pa.BinaryArray) -> np.ndarray:
    """The id in front of each value, as int64; NO_ID for null values and those without a frame."""
    start, size, raw = _bytes_of(values)
    has = size >= HEAD
    if values.null_count:
        has &= values.is_valid().to_numpy(zero_copy_only=False)
    if not has.any():
        return np.full(len(values), NO_ID, np.int64)
    safe = np.where(has, start, start[np.argmax(has)])
    has &= raw[safe] == 0
    ids = np.zeros(len(values), np.int64)
    for byte in range(1, HEAD):
        ids = (ids << 8) | raw[safe + byte]
    return np.where(has, ids, NO_ID)


def readable(batch: pa.RecordBatch, found: Framed | None) -> pa.RecordBatch:
    """The batch for who reads values: null for those whose schema is decided to be unknown."""
    if found is None or not found.unknown:
        return batch
    mask = np.zeros(batch.num_rows, np.bool_)
    mask[list(found.unknown)] = True
    values = batch.column("value")
    masked = pc.if_else(pa.array(mask), pa.scalar(None, values.type), values)
    return batch.set_column(batch.schema.names.index("value"), "value", masked)


def row_schemas(ids: np.ndarray, places: np.ndarray | None) -> RowSchemas:
    """The schemas that values name. places: which record of its schema each is (formats/places.py)."""
    keys: list[str] = []
    numbers = np.full(len(ids), -1, np.int64)
    for schema_id in _unique(ids):
        if schema_id == NO_ID:
            continue
        mine = ids == schema_id
        for place in [""] if places is None else sorted(set(places[mine].tolist())):
            numbers[mine if places is None else mine & (places == place)] = len(keys)
            keys.append(f"{schema_id}:{place}" if place else f"{schema_id}")
    return RowSchemas(keys, numbers)


def message_places(values: pa.BinaryArray, ids: np.ndarray) -> np.ndarray:
    """Which message of its file each framed value of Protobuf is: `1.0` is the first one in the second.

    As objects; empty for the first one of the file, and for what has no place that can be read.
    """
    places = np.full(len(ids), "", object)
    start, size, raw = _bytes_of(values)
    rows = np.flatnonzero((ids != NO_ID) & (size > HEAD))
    rows = rows[raw[start[rows] + HEAD] != 0]
    if not len(rows):
        return places
    at, room = start[rows] + HEAD, size[rows] - HEAD
    count = raw[at].astype(np.int64) // 2
    short = (raw[at] < 2 * PACKED) & (raw[at] % 2 == 0) & (count < room)
    packed = raw[at].astype(np.uint64)
    for byte in range(1, PACKED):
        inside = short & (byte <= count)
        found = raw[np.where(inside, at + byte, at)]
        short &= ~inside | (found < 0x80)
        packed |= np.where(inside, found, 0).astype(np.uint64) << np.uint64(8 * byte)
    for one in np.unique(packed[short]).tolist():
        places[rows[short & (packed == one)]] = _place(int(one).to_bytes(PACKED, "little"))
    for row in rows[~short].tolist():
        places[row] = _place(values[row].as_py()[HEAD:])
    return places


def _place(head: bytes) -> str:
    """Varints in zigzag: how many, then each; empty for what is none."""
    numbers: list[int] = []
    value = shift = 0
    for byte in head:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte >= 0x80:
            continue
        numbers.append(value >> 1 if value % 2 == 0 else -1)
        value = shift = 0
        if min(numbers) < 0 or len(numbers) > numbers[0]:
            break
    if not numbers or min(numbers) < 0 or len(numbers) != numbers[0] + 1:
        return ""
    place = ".".join(map(str, numbers[1:]))
    return "" if place == "0" else place


def _unique(ids: np.ndarray) -> list[int]:
    """The values that there are; the usual case is one."""
    least = int(ids.min())
    return [least] if least == int(ids.max()) else [int(one) for one in np.unique(ids)]


def _bytes_of(values: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each value begins, its size, and the bytes; a null has what the array has for it."""
    _, ends, data = values.buffers()
    if not len(values) or data is None:
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.int64), np.zeros(1, np.uint8)
    at = np.frombuffer(ends, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    return at[:-1], np.diff(at), np.frombuffer(data, np.uint8)
