"""Schemas that a record's header names in the stead of its value, as Confluent's newer clients do. Runs on executors.

    __value_schema_id    00, id (4 bytes, big-endian)    or    01, GUID (16 bytes); of Protobuf the indexes behind it

The last header of that name counts, and comes before what the value begins with, which is then the value itself. For
who reads values such a one is given the frame that it would have: with the id, or the GUID's alias (core/schemas.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.schemas import guid_number
from exporter.core.value_format import ValueFormat

HEADER = "__value_schema_id"
ID_BYTES, GUID_BYTES = 4, 16
NOTHING = -1


class Head(NamedTuple):
    """What one header says, or one frame of Glue's. number: of the schema; NOTHING where it says none, and why. rest:
    what stands behind it. is_packed: the value is compressed."""

    number: int
    rest: bytes = b""
    why: str = ""
    is_packed: bool = False


@dataclass(frozen=True)
class NamedByHeaders:
    """Of a batch. heads: different ones. which: of each row the head; NOTHING of a row without one, and of nulls."""

    heads: Sequence[Head]
    which: np.ndarray

    @property
    def refused(self) -> dict[int, str]:
        """Rows whose header says nothing that can be read -> why."""
        odd = {at: head.why for at, head in enumerate(self.heads) if head.why}
        return {row: odd[at] for row, at in enumerate(self.which.tolist()) if at in odd} if odd else {}

    def framed(self, values: pa.BinaryArray, numbers: Sequence[int]) -> pa.BinaryArray:
        """The values as if they had frames. numbers: of each head the one of 32 bits that stands in the frame."""
        names = zip(self.heads, numbers, strict=True)
        every = pa.array([*(b"\0" + number.to_bytes(4, "big") + head.rest for head, number in names), b""], pa.binary())
        frames = every.take(pa.array(self.which % len(every)))
        return pc.binary_join_element_wise(frames, values, pa.scalar(b"", pa.binary()))


def named(batch: pa.RecordBatch, form: ValueFormat) -> NamedByHeaders | None:
    """What the headers of a batch say of its values; None where no header says anything."""
    if "headers" not in batch.schema.names:
        return None
    told = last_header(batch.column("headers"), HEADER)
    there = pc.and_(told.is_valid(), batch.column("value").is_valid())
    if not there.true_count:
        return None
    encoded = pc.if_else(there, told, pa.scalar(None, pa.binary())).dictionary_encode()
    heads = [head_of(raw, form.kind == "protobuf") for raw in encoded.dictionary.to_pylist()]
    return NamedByHeaders(heads, pc.fill_null(encoded.indices, NOTHING).to_numpy(zero_copy_only=False).astype(np.int64))


def head_of(raw: bytes, protobuf: bool) -> Head:
    """The id or GUID that a header says, or why it says none."""
    size = {b"\0": ID_BYTES, b"\1": GUID_BYTES}.get(raw[:1], 0)
    name, rest = raw[1 : 1 + size], raw[1 + size :]
    if not size or len(name) < size:
        why = f"not_framed: the header {HEADER}, of {len(raw)} bytes, is neither 00 and an id nor 01 and a GUID"
        return Head(NOTHING, why=why)
    if protobuf and (indexes_of(rest) or ([], -1))[1] != len(rest):
        return Head(NOTHING, why=f"not_framed: the indexes of the message in the header {HEADER} are damaged")
    number = guid_number(name) if size == GUID_BYTES else int.from_bytes(name, "big")
    return Head(number, rest if protobuf else b"")


def last_header(lists: pa.ListArray, name: str) -> pa.BinaryArray:
    """The value of the last header of that name per row; null where there is none."""
    flat = pc.list_flatten(lists)
    at = pc.indices_nonzero(pc.fill_null(pc.equal(flat.field("key"), name), False))
    if not len(at):
        return pa.nulls(len(lists), pa.binary())
    rows = pc.list_parent_indices(lists).take(at)
    last = pc.fill_null(pc.not_equal(rows, pa.concat_arrays([rows.slice(1), pa.nulls(1, rows.type)])), True)
    found = pc.index_in(pa.array(range(len(lists)), rows.type), value_set=rows.filter(last))
    return flat.field("value").take(at.filter(last)).take(found)


def indexes_of(raw: bytes) -> tuple[list[int], int] | None:
    """The indexes of a message, and how many bytes they take: varints in zigzag, how many, then each; None for what is
    none."""
    numbers: list[int] = []
    value = shift = 0
    for at, byte in enumerate(raw, start=1):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte >= 0x80:
            continue
        if value % 2:
            return None
        numbers.append(value >> 1)
        value = shift = 0
        if len(numbers) > numbers[0]:
            return numbers[1:], at
    return None
