"""Schema ids in front of values, found before anything else is judged (protocol 3.8). Runs on Spark executors.

    00, id (4 bytes, big-endian), value     Confluent's frame; of Protobuf the place of the message stands between
    a header that names the schema          in the stead of the frame (named_by_headers.py)

What no decision speaks of is missing: the reading of its partition ends before it. What is decided to be unknown is a
dead letter. Values without such a frame are for their format to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import KEPT_BYTES, VALUE_BYTES
from exporter.arrow.rows import nulled
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, UnknownId, called, can_be
from exporter.core.value_format import ValueFormat
from exporter.formats.glue import InflatedValues, named_by_frames, opened, placed
from exporter.formats.named_by_headers import NamedByHeaders, indexes_of, named
from offsets.ranges import TopicPartition

HEAD = 5
"""Bytes of Confluent's frame."""
NO_ID = -1
UNKNOWN = "unknown_schema_id"
"""Code of the reason of a record whose id is decided to be unknown."""
_HEADS = -2
"""From here downwards numbers of rows are those of what headers say."""
PACKED = 8
"""Bytes of a message's place that are compared as one number; longer places are read one by one."""


@dataclass(frozen=True)
class Framed:
    """What the frames of a batch say. ids: int64 per row, NO_ID where there is none; aliases of GUIDs.

    missing: id or GUID -> its first row, of those without a decision. unknown: row -> reason, also of rows whose header
    is damaged. values: as their format reads them, where some are named by headers.
    """

    ids: np.ndarray
    missing: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)
    values: pa.BinaryArray | None = None

    @property
    def end(self) -> int:
        """How many rows stand before the first one that cannot be read yet."""
        return min(self.missing.values(), default=len(self.ids))

    def before(self, end: int) -> Framed:
        """The same of the first rows alone."""
        unknown = {row: reason for row, reason in self.unknown.items() if row < end}
        return Framed(self.ids[:end], {}, unknown, None if self.values is None else self.values.slice(0, end))


@dataclass(frozen=True)
class RowSchemas:
    """The schemas of values. keys: `7`, of one record of several `7:1.0`, of GUIDs their numbers. numbers: per row that
    of its key, -1 without one."""

    keys: list[str]
    numbers: np.ndarray

    def of(self, rows: pa.Array) -> list[str]:
        """The keys of some rows."""
        if len(self.keys) < 2:
            return self.keys
        there = np.unique(self.numbers[rows.to_numpy(zero_copy_only=False)]).tolist()
        return [self.keys[number] for number in there if number >= 0]


F = TypeVar("F", bound=Framed | None)


def in_parts(batch: pa.RecordBatch, frames: Callable[[pa.RecordBatch], F]) -> Iterator[tuple[pa.RecordBatch, F]]:
    """A batch and what its frames say, in as many parts as it takes: of some only so much is inflated at once."""
    while batch.num_rows:
        found = frames(batch)
        rows = batch.num_rows if found is None else len(found.ids)
        yield batch.slice(0, rows), found
        batch = batch.slice(rows)


def framed(batch: pa.RecordBatch, tp: TopicPartition, form: ValueFormat, schemas: KnownSchemas) -> Framed | None:
    """The frames of one partition's records, from the first one on (in_parts); None if there is nothing about values of
    this format to be decided."""
    if not form.is_framed or not batch.num_rows:
        return None
    numbers = _Numbers(batch, form)
    if not form.has_ids:
        return None if numbers.named is None else numbers.framed(schemas, {}, {})
    missing, unknown = dict[int, int](), dict[int, str]()
    for number in numbers.different:
        schema_id = numbers.schema(number)
        if schema_id == NO_ID or schemas.settled(schema_id):
            continue
        rows = np.flatnonzero(numbers.of == number)
        decided = [schemas.of(schema_id, tp, at) for at in batch.column("offset").take(pa.array(rows)).to_pylist()]
        for row, decision in zip(rows.tolist(), decided, strict=True):
            if decision is None:
                missing[schema_id] = min(row, missing.get(schema_id, row))
            elif isinstance(decision, UnknownId):
                unknown[row] = f"{UNKNOWN}: {called(schema_id)}"
    return numbers.framed(schemas, missing, unknown)


def unread(batch: pa.RecordBatch, form: ValueFormat, schemas: KnownSchemas) -> Framed:
    """The frames of records that are read by texts alone, wherever they stood (in_parts): what has none is unknown."""
    if not form.is_framed:
        return Framed(np.full(batch.num_rows, NO_ID, np.int64))
    numbers = _Numbers(batch, form)
    lacking = _without_text(numbers, schemas) if form.has_ids else {}
    return numbers.framed(schemas, {}, {row: f"{UNKNOWN}: {called(one)}" for row, one in lacking.items()})


def ids_without_text(batch: pa.RecordBatch, form: ValueFormat, schemas: KnownSchemas) -> list[int]:
    """The ids and GUIDs of records that cannot be read, as often as they stand there; numbers that are none are left
    out."""
    if not form.has_ids or not batch.num_rows:
        return []
    return [one for one in _without_text(_Numbers(batch, form), schemas).values() if can_be(one)]


class _Numbers:
    """Which schemas a batch's values name. of: per row the id in front of it, NO_ID without one; below that what its
    header says."""

    def __init__(self, batch: pa.RecordBatch, form: ValueFormat) -> None:
        self._batch = batch
        self._form = form
        values, has_ids = batch.column("value"), form.has_ids and form.frame == "confluent"
        self.of = confluent_ids(values) if has_ids else np.full(batch.num_rows, NO_ID, np.int64)
        self.named = named_by_frames(values) if form.frame == "glue" else named(batch, form)
        if self.named is not None:
            self.of = np.where(self.named.which >= 0, _HEADS - self.named.which, self.of)

    @property
    def different(self) -> list[int]:
        return _unique(self.of) if len(self.of) else []

    def schema(self, number: int) -> int:
        """The id or GUID of a row's number."""
        if self.named is None or number >= NO_ID:
            return number
        return self.named.heads[_HEADS - number].number

    def framed(self, schemas: KnownSchemas, missing: dict[int, int], unknown: dict[int, str]) -> Framed:
        """With the values as their format reads them."""
        if self.named is None:
            return Framed(self.of, missing, unknown)
        read = self._opened(self.named, schemas)
        found = [schemas.alias(head.number) for head in read.named.heads]
        aliases = [0 if one is None or not 0 <= one < 1 << 32 else one for one in found]
        which, end = read.named.which, len(read.bodies)
        missing = {one: row for one, row in missing.items() if row < end}
        unknown = {row: why for row, why in unknown.items() if row < end}
        ids = np.where(which >= 0, np.array(aliases, np.int64)[which], self.of[:end])
        odd = {**read.named.refused, **read.damaged}
        ids[[*odd, *(row for row in unknown if which[row] >= 0)]] = NO_ID
        return Framed(ids, missing, {**unknown, **odd}, read.named.framed(read.bodies, aliases))

    def _opened(self, named: NamedByHeaders, schemas: KnownSchemas) -> InflatedValues:
        if self._form.frame != "glue":
            return InflatedValues(named, self._batch.column("value"), {})
        read = opened(self._batch, named)
        return placed(read, self._batch, schemas) if self._form.kind == "protobuf" else read


def _without_text(numbers: _Numbers, schemas: KnownSchemas) -> dict[int, int]:
    """Row -> its id or GUID, of those that have no text."""
    named = {number: numbers.schema(number) for number in numbers.different}
    lacking = [one for one, of in named.items() if of != NO_ID and (not can_be(of) or schemas.text(of) is None)]
    return {row: named[int(numbers.of[row])] for row in np.flatnonzero(np.isin(numbers.of, lacking)).tolist()}


def confluent_ids(values: pa.BinaryArray) -> np.ndarray:
    """The id in front of each value, as int64; NO_ID for null values and those without a frame."""
    start, size, raw = _bytes_of(values)
    has = size >= HEAD
    if values.null_count:
        has &= values.is_valid().to_numpy(zero_copy_only=False)
    if not has.any():
        return np.full(len(values), NO_ID, np.int64)
    # A value without a whole frame may end with the buffer, and is read where another one begins.
    safe = np.where(has, start, start[np.argmax(has)])
    has &= raw[safe] == 0
    ids = np.zeros(len(values), np.int64)
    for byte in range(1, HEAD):
        ids = (ids << 8) | raw[safe + byte]
    return np.where(has, ids, NO_ID)


def read_values(batch: pa.RecordBatch, found: Framed | None) -> pa.BinaryArray:
    """The values as their format reads them."""
    return batch.column("value") if found is None or found.values is None else found.values


def reframed(batch: pa.RecordBatch, found: Framed | None) -> pa.RecordBatch:
    """The batch with the values as their format reads them; what is measured of them is what was sent."""
    if found is None or found.values is None:
        return batch
    kept = sizes = pc.binary_length(batch.column("value")).cast(pa.int64())
    if VALUE_BYTES in batch.schema.names:
        sizes = pc.coalesce(batch.column(VALUE_BYTES), sizes)
        batch = batch.drop_columns([VALUE_BYTES])
    batch = batch.append_column(VALUE_BYTES, sizes).append_column(KEPT_BYTES, kept)
    return with_values(batch, found.values)


def with_values(batch: pa.RecordBatch, values: pa.BinaryArray) -> pa.RecordBatch:
    """The batch with other values."""
    return batch.set_column(batch.schema.names.index("value"), "value", values)


def readable(batch: pa.RecordBatch, found: Framed | None) -> pa.RecordBatch:
    """A batch for who reads values: null for those whose schema is decided to be unknown."""
    if found is None or not found.unknown:
        return batch
    return with_values(batch, nulled(batch.column("value"), list(found.unknown)))


def row_schemas(ids: np.ndarray, places: np.ndarray | None, schemas: KnownSchemas = NO_SCHEMAS) -> RowSchemas:
    """The schemas that values name. places: which record of its schema each is (formats/places.py). schemas: whose
    aliases stand among the ids."""
    keys: list[str] = []
    numbers = np.full(len(ids), -1, np.int64)
    for schema_id in _unique(ids):
        if schema_id == NO_ID:
            continue
        mine = ids == schema_id
        for place in [""] if places is None else sorted(set(places[mine].tolist())):
            numbers[mine if places is None else mine & (places == place)] = len(keys)
            keys.append(f"{schemas.number(schema_id)}:{place}" if place else f"{schemas.number(schema_id)}")
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
    """That of the message in front of which the bytes stand; empty for what is none."""
    found = indexes_of(head)
    place = "" if found is None else ".".join(map(str, found[0]))
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
