"""Values behind a frame whose id is not needed to read them: the frame is cut off. Runs on Spark executors.

    values ── no frame: refused ── the others without their first bytes ── another format's reader

Ids that are not decided were dealt with before (frames.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.formats.format import Format, Peek, Read, Reader
from exporter.formats.frames import HEAD, NO_ID, confluent_ids

_ALL = 2**31 - 1
"""End of a slice: without one pyarrow's binary_slice cannot tell how much there is."""


class Unframed:
    """A format whose values stand behind Confluent's frame."""

    def __init__(self, inner: Format) -> None:
        self._inner = inner

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        return self._inner.schema(spark_json, event_type)

    def peek(self, source: TypeFrom) -> Peek:
        """Implements `Format.peek`: what finds event types in values."""
        return _UnframedPeek(self._inner.peek(source))

    def reader(self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent") -> Reader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        return _UnframedReader(self._inner.reader(event_type, schema, routing, json_text))


class _UnframedPeek:
    """Finds event types in what stands behind the frames."""

    def __init__(self, inner: Peek) -> None:
        self._inner = inner

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        bodies, refused = unframed(values)
        bare = pc.or_(skipped, pc.and_(values.is_valid(), bodies.is_null()))
        types, reasons = self._inner.types(bodies, bare)
        passed = set(pc.indices_nonzero(skipped).to_pylist())
        return types, {**reasons, **{row: why for row, why in refused.items() if row not in passed}}


class _UnframedReader:
    """Reads what stands behind the frames."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        bodies, refused = unframed(values)
        read = self._inner.read(bodies)
        return replace(read, refused={**read.refused, **refused}) if refused else read


def unframed(values: pa.BinaryArray) -> tuple[pa.BinaryArray, dict[int, str]]:
    """The values without their frames, null for those that have none, and why each of these is refused."""
    bodies = pc.binary_slice(values, HEAD, _ALL)
    bare = confluent_ids(values) == NO_ID
    if values.null_count:
        bare &= values.is_valid().to_numpy(zero_copy_only=False)
    if not bare.any():
        return bodies, {}
    refused = {row: not_framed(values[row].as_py()) for row in np.flatnonzero(bare).tolist()}
    return pc.if_else(pa.array(bare), pa.scalar(None, bodies.type), bodies), refused


def not_framed(value: bytes) -> str:
    """Why a value has no frame of Confluent's."""
    if value[:1] not in (b"", b"\0"):
        return f"not_framed: the value begins with byte {value[0]:02x}, and not with 00 and the id of a schema"
    return f"not_framed: {len(value)} bytes are too short for 00 and the id of a schema"
