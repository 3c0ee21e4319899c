"""A source of decisions in memory, and a format whose values name their schemas: that of FakeFormat behind a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.schemas import Decision, KnownSchemas, SchemaText, UnknownId
from exporter.core.value_format import ValueFormat
from exporter.errors import RegistryUnreachable
from exporter.formats.fake import FakeFormat
from exporter.formats.format import Peek, Read, Reader
from exporter.formats.frames import HEAD
from offsets.ranges import TopicPartition

FRAMED = ValueFormat("avro", "confluent")
"""What the routing of tests names: FORMATS has FramedPairs for it then."""
TEXT = SchemaText("AVRO", '"string"')


def value(schema_id: int, pairs: str) -> bytes:
    """A value in its frame."""
    return b"\0" + schema_id.to_bytes(4, "big") + pairs.encode()


class FramedPairs:
    """See Format. Refuses to read what no text is known of, which the frames have to keep from it."""

    def __init__(self, _form: ValueFormat, schemas: KnownSchemas) -> None:
        self._pairs = FakeFormat()
        self._schemas = schemas

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """See Format."""
        return self._pairs.schema(spark_json, event_type)

    def peek(self, source: TypeFrom) -> Peek:
        """See Format."""
        return _FramedPeek(self._pairs.peek(source), self._schemas)

    def reader(self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent") -> Reader:
        """See Format."""
        return _FramedReader(self._pairs.reader(event_type, schema, routing, json_text), self._schemas)


class _FramedPeek:
    def __init__(self, peek: Peek, schemas: KnownSchemas) -> None:
        self._peek = peek
        self._schemas = schemas

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        return self._peek.types(pa.array(_bare(values, self._schemas), pa.binary()), skipped)


class _FramedReader:
    def __init__(self, reader: Reader, schemas: KnownSchemas) -> None:
        self._reader = reader
        self._schemas = schemas

    def read(self, values: pa.BinaryArray) -> Read:
        bare = _bare(values, self._schemas)
        rows = [row for row, one in enumerate(bare) if one != b"\0"]
        read = self._reader.read(pa.array([bare[row] for row in rows], pa.binary()))
        refused = {rows[row]: reason for row, reason in read.refused.items()}
        refused |= {row: "no_frame: the value has none" for row, one in enumerate(bare) if one == b"\0"}
        return replace(read, rows=pa.array(rows, pa.int32()).take(read.rows), refused=refused)


def _bare(values: pa.BinaryArray, schemas: KnownSchemas) -> list[bytes | None]:
    """Values without their frames; a lone 0 for what has none."""
    found: list[bytes | None] = []
    for one in values.to_pylist():
        if one is None or one[:1] != b"\0" or len(one) < HEAD:
            found.append(None if one is None else b"\0")
            continue
        if schemas.text(int.from_bytes(one[1:HEAD], "big")) is None:
            raise AssertionError("a value of an id without a text came to its format")
        found.append(one[HEAD:])
    return found


class FakeSource:
    """See SchemaSource. texts: what the registry has. sure: whether it says at once that it has not.

    down: why it does not answer; empty if it does. stalled: ids of which it says nothing. asked: all ids, in the order
    in which they were looked up.
    """

    def __init__(self, texts: Mapping[int, SchemaText] | None = None, sure: bool = True) -> None:
        self.texts = dict(texts or {})
        self.sure = sure
        self.down = ""
        self.broken: Exception | None = None
        self.stalled: set[int] = set()
        self.asked: list[int] = []
        self.verified = 0
        self.contradicts: Exception | None = None
        self.recorded: dict[int, Sequence[Decision]] = {}

    def known(self, registry: str) -> KnownSchemas:
        """See SchemaSource."""
        return KnownSchemas(dict(self.recorded))

    def verify(self) -> None:
        """See SchemaSource."""
        self.verified += 1
        if self.contradicts is not None:
            raise self.contradicts

    def look_up(
        self, registry: str, schema_id: int, ends: Mapping[TopicPartition, int], *, now: float
    ) -> Decision | None:
        """See SchemaSource."""
        self.asked.append(schema_id)
        if self.broken is not None:
            raise self.broken
        if self.down or schema_id in self.stalled:
            raise RegistryUnreachable(self.down or f"no id {schema_id}")
        decision: Decision | None = self.texts.get(schema_id)
        if decision is None and self.sure and ends:
            decision = UnknownId({tp: end - 1 for tp, end in ends.items()})
        if decision is not None:
            self.recorded[schema_id] = (*self.recorded.get(schema_id, ()), decision)
        return decision
