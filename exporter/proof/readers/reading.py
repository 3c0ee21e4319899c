"""From the bytes of a record to a document, or to why there is none: frame, decision on its id, format, envelope.

    00, id (4 bytes, big-endian), value     the first decision that speaks of the record counts
    03, 00 or 05, GUID, value               Glue's: with 05 zlib has compressed the value
    a header `__value_schema_id`            00 and an id, or 01 and a GUID, and of Protobuf the place of the message:
                                            the last one says it all, and the value has no frame
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from exporter.core.routing import EventTime, TypeFrom
from exporter.core.schemas import GUID, KnownSchemas, SchemaText, UnknownId
from exporter.core.value_format import Envelope, ValueFormat
from exporter.proof.contents.compare import instant, value_at
from exporter.proof.readers.envelopes import MEMBERS, unwrapped
from exporter.proof.readers.formats import reader_of
from exporter.proof.readers.protobuf_documents import place_in
from exporter.proof.readers.reader import NoGoodRecord, SentValue, Undecided, ValueReader
from offsets.ranges import TopicPartition

HEAD = 5
"""Bytes of Confluent's frame."""
GLUE_HEAD = 18
"""Bytes of Glue's."""
DECOMPRESSED_MAX = 64 << 20
NAMING = "__value_schema_id"
GUID_BYTES = 16
Headers = Sequence[Mapping[str, Any]] | None
"""Of a record: `key` and `value` of each."""
NOTHING: Mapping[TopicPartition, int] = {}


class ValueReading:
    """Reads the values of one format. schemas: what is decided of the ids of its registry.

    replayed: through which offset a replay of dead letters may have put records into tables, by the texts of then.
    """

    def __init__(
        self, form: ValueFormat, schemas: KnownSchemas, replayed: Mapping[TopicPartition, int] = NOTHING
    ) -> None:
        self._form = form
        self._schemas = schemas
        self._replayed = replayed

    @cached_property
    def _reader(self) -> ValueReader:
        return reader_of(self._form)

    def read(
        self, value: bytes, tp: TopicPartition, offset: int, headers: Headers = None, is_row: bool = False
    ) -> SentValue:
        """One value, with the record's headers. is_row: its record stands in the table of a type. Raises NoGoodRecord
        and Undecided.

        A row whose id was unknown has been put there by a replay, so by the text.
        """
        said = [one["value"] for one in headers or () if one["key"] == NAMING]
        if self._form.frame == "confluent" and said and said[-1] is not None:
            schema, body = self._named(said[-1], value, tp, offset, is_row)
        else:
            schema, body = self._unframed(value, tp, offset, is_row)
        return unwrapped(self._reader.read(body, schema), self._form.envelope)

    def _unframed(self, value: bytes, tp: TopicPartition, offset: int, is_row: bool) -> tuple[SchemaText | None, bytes]:
        if self._form.frame == "glue":
            return self._of_glue(value, tp, offset, is_row)
        if self._form.frame != "confluent":
            return None, value
        number, body = framed(value)
        return self._decided(number, tp, offset, is_row) if self._form.has_ids else None, body

    def _of_glue(self, value: bytes, tp: TopicPartition, offset: int, is_row: bool) -> tuple[SchemaText | None, bytes]:
        if value[:2] not in (b"\3\0", b"\3\5") or len(value) < GLUE_HEAD:
            raise NoGoodRecord("no frame of Glue's")
        body = value[GLUE_HEAD:] if value[1] == 0 else _decompressed(value[GLUE_HEAD:])
        if not self._form.has_ids:
            return None, body
        return self._decided(GUID + int.from_bytes(value[2:GLUE_HEAD], "big"), tp, offset, is_row), body

    def _named(
        self, said: bytes, value: bytes, tp: TopicPartition, offset: int, is_row: bool
    ) -> tuple[SchemaText | None, bytes]:
        """By a header. What it says of the message in its file is read where a frame would have it."""
        size = {0: HEAD, 1: 1 + GUID_BYTES}.get(said[0] if said else -1, 0)
        if not size or len(said) < size:
            raise NoGoodRecord("no name of a schema in a header")
        if self._form.kind == "protobuf" and place_in(said[size:])[1]:
            raise NoGoodRecord("bytes behind the place of a message")
        if not self._form.has_ids:
            return None, value
        number = int.from_bytes(said[1:size], "big")
        schema = self._decided(number + (GUID if said[0] else 0), tp, offset, is_row)
        return schema, (said[size:] if self._form.kind == "protobuf" else b"") + value

    def _decided(self, schema_id: int, tp: TopicPartition, offset: int, is_row: bool) -> SchemaText:
        decision = self._schemas.of(schema_id, tp, offset)
        if decision is None:
            raise Undecided(f"nothing is decided of schema id {schema_id}")
        text = self._schemas.text(schema_id) if offset <= self._replayed.get(tp, -1) else None
        if isinstance(decision, UnknownId) and text is not None and is_row:
            return text
        if isinstance(decision, UnknownId) and text is not None:
            raise Undecided(f"schema id {schema_id} was unknown, and a replay may have known it")
        if isinstance(decision, UnknownId):
            raise NoGoodRecord(f"schema id {schema_id} is unknown")
        return decision


def framed(value: bytes) -> tuple[int, bytes]:
    """The id in Confluent's frame, and what follows. Raises NoGoodRecord."""
    if len(value) < HEAD or value[0] != 0:
        raise NoGoodRecord("no frame")
    return int.from_bytes(value[1:HEAD], "big"), value[HEAD:]


def _decompressed(body: bytes) -> bytes:
    """By zlib, in one go. Raises NoGoodRecord."""
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(body, DECOMPRESSED_MAX)
        more = unpacking.decompress(unpacking.unconsumed_tail, 1)
    except zlib.error as error:
        raise NoGoodRecord("it cannot be decompressed") from error
    if more or not unpacking.eof or unpacking.unused_data:
        raise NoGoodRecord("it cannot be decompressed to what a value may be")
    return found


def event_type_of(sent: SentValue, source: TypeFrom) -> str | None:
    """What a value says of its event type; None if it says nothing."""
    if source.kind == "schema":
        return (sent.name.rpartition(".")[2] if source.name == "short" else sent.name) or None
    if source.kind == "source":
        return sent.source or None
    found = value_at(sent.document if sent.enveloped is None else sent.enveloped, source.name.split("."))
    return found if type(found) is str else None


def event_time_of(sent: SentValue, source: EventTime, envelope: Envelope) -> int | None:
    """Its event time in microseconds since 1970; None if it says none, or if a row and its envelope may both say it."""
    parts, where = source.path.split("."), sent.document
    if parts[0] in MEMBERS.get(envelope, ()):
        where = None if parts[0] in sent.document else sent.enveloped
    return instant(value_at(where, parts), source.unit)


class Readings:
    """One reading for each format and registry, made when it is first asked for. schemas: by the registry's name.

    replayed: as in ValueReading.
    """

    def __init__(self, schemas: Mapping[str, KnownSchemas], replayed: Mapping[TopicPartition, int] = NOTHING) -> None:
        self._schemas = schemas
        self._replayed = replayed
        self._made: dict[tuple[ValueFormat, str], ValueReading] = {}

    def of(self, form: ValueFormat, registry: str) -> ValueReading:
        """The one of a format."""
        key = (form, registry)
        if key not in self._made:
            self._made[key] = ValueReading(form, self._schemas.get(registry, KnownSchemas()), self._replayed)
        return self._made[key]
