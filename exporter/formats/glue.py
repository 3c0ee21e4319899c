"""Values as the serialisers of AWS Glue's schema registry write them. Runs on Spark executors.

    03, 00, id of the schema's version (16 bytes), value
    03, 05, the same, and the value as zlib has compressed it
    of Protobuf a value is the number of its message (base 128) and the message (protobuf/numbered.py)

The id is a GUID (core/schemas.py). For who reads values each is given the frame that Confluent's would have.
Source: awslabs/aws-glue-schema-registry, GlueSchemaRegistryDeserializerDataParser and ProtobufWireFormatEncoder.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import VALUE_BYTES
from exporter.core.schemas import KnownSchemas, guid_number
from exporter.formats.named_by_headers import NOTHING, Head, NamedByHeaders
from exporter.formats.protobuf.numbered import indexes, number_of

HEAD = 18
INFLATED_BYTES_MAX = 64 << 20
"""Of one value: a few bytes may stand for a thousand times as many."""
PART_BYTES = 32 << 20
"""Inflated bytes after which the rest of a batch waits until what is there has been read."""
_VERSION = 3
_PLAIN, _ZLIB = 0, 5
_ALL = 2**31 - 1
"""End of a slice: see unframed.py."""


@dataclass(frozen=True)
class InflatedValues:
    """Of as many values from the first one on as may be inflated at once. bodies: what stands behind their frames.

    damaged: rows that cannot be read -> why.
    """

    named: NamedByHeaders
    bodies: pa.BinaryArray
    damaged: dict[int, str]


def named_by_frames(values: pa.BinaryArray) -> NamedByHeaders:
    """What the frames of values say."""
    encoded = pc.binary_slice(values, 0, HEAD).dictionary_encode()
    heads = [*map(_head, encoded.dictionary.to_pylist()), Head(NOTHING)]
    return NamedByHeaders(heads, pc.fill_null(encoded.indices, NOTHING).to_numpy(zero_copy_only=False).astype(np.int64))


def opened(batch: pa.RecordBatch, named: NamedByHeaders) -> InflatedValues:
    """What stands behind frames. Of a value that is too long not all may be there: it stays as it is."""
    bodies = pc.binary_slice(batch.column("value"), HEAD, _ALL)
    packed = np.array([head.is_packed for head in named.heads])[named.which] & _is_whole(batch)
    if not packed.any():
        return InflatedValues(named, bodies, {})
    damaged: dict[int, str] = {}
    taken: list[bytes | None] = []
    size = 0
    for one, is_packed in zip(bodies, packed.tolist(), strict=True):
        body = one.as_py()
        if is_packed:
            found = inflated(body)
            if isinstance(found, str):
                damaged[len(taken)] = found
                found = b""
            body = found
            size += len(found)
        taken.append(body)
        if size >= PART_BYTES:
            break
    return InflatedValues(replace(named, which=named.which[: len(taken)]), pa.array(taken, pa.binary()), damaged)


def placed(of: InflatedValues, batch: pa.RecordBatch, schemas: KnownSchemas) -> InflatedValues:
    """The same of Protobuf: the numbers of messages are the indexes that Confluent's frame would have."""
    heads: dict[tuple[int, int], int] = {}
    bodies, which, damaged = of.bodies.to_pylist(), of.named.which.tolist(), dict(of.damaged)
    whole = _is_whole(batch).tolist()
    for row, (body, at) in enumerate(zip(bodies, which, strict=True)):
        number = NOTHING
        if body is not None and row not in damaged and whole[row] and not of.named.heads[at].why:
            found = number_of(body)
            if found is None:
                damaged[row] = "not_framed: the number of the message is damaged"
                bodies[row] = b""
            else:
                number, bodies[row] = found[0], body[found[1] :]
        which[row] = NOTHING if body is None else heads.setdefault((at, number), len(heads))
    made = [_with_indexes(of.named.heads[at], number, schemas) for at, number in heads]
    return InflatedValues(
        NamedByHeaders([*made, Head(NOTHING)], np.array(which, np.int64)), pa.array(bodies, pa.binary()), damaged
    )


def inflated(body: bytes) -> bytes | str:
    """What zlib has compressed, all of it and nothing else; or why it is none."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(body, INFLATED_BYTES_MAX + 1)
    except zlib.error:
        return "bad_zlib: the value is not what zlib writes"
    if len(found) > INFLATED_BYTES_MAX:
        return f"too_big: inflated the value has more than {INFLATED_BYTES_MAX} bytes"
    if not reader.eof:
        return "bad_zlib: the compressed value is cut off"
    if reader.unused_data:
        return f"bad_zlib: {len(reader.unused_data)} bytes stand behind the compressed value"
    return found


def _is_whole(batch: pa.RecordBatch) -> np.ndarray:
    if VALUE_BYTES not in batch.schema.names:
        return np.ones(batch.num_rows, np.bool_)
    found: np.ndarray = batch.column(VALUE_BYTES).is_null().to_numpy(zero_copy_only=False)
    return found


def _with_indexes(head: Head, number: int, schemas: KnownSchemas) -> Head:
    text = schemas.text(head.number) if number != NOTHING else None
    return head if text is None else head._replace(rest=indexes(text, number))


def _head(raw: bytes) -> Head:
    """raw: the first bytes of a value, all of them if it has no more."""
    if raw and raw[0] != _VERSION:
        return Head(NOTHING, why=f"not_framed: the value begins with byte {raw[0]:02x}, and not with 03")
    if len(raw) < HEAD:
        return Head(NOTHING, why=f"not_framed: {len(raw)} bytes are too short for 03 and the id of a schema's version")
    if raw[1] not in (_PLAIN, _ZLIB):
        return Head(NOTHING, why=f"not_framed: the second byte is {raw[1]:02x}, neither 00 nor 05")
    return Head(guid_number(raw[2:]), is_packed=raw[1] == _ZLIB)
