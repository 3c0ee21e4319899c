"""Protobuf messages, framed or not -> the columns of one event type. Runs on Spark executors.

    values ── by their writers: schema id and message indexes ── Typed ── fit ── Read, in the order of the values

Columns follow the names of the writer's fields; where a schema file of the reader has the writer's message, the names
that fields of the same numbers have there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.binary.typed_rows import TOMBSTONE, read_by_writers, types_in_order
from exporter.formats.envelopes.typed import Fits, FittedEvents, fits_of, source_types
from exporter.formats.format import Read
from exporter.formats.frames import NO_ID, confluent_ids
from exporter.formats.protobuf.heads import heads
from exporter.formats.protobuf.writers import ProtobufWriter, own_writer, structs_in, writer_of
from exporter.formats.schema import arrow_schema
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.compiled import UnfitType
from exporter.formats.typed.events import EventTypeReader
from exporter.formats.typed.fit import nothing_read

IMAGES = ("before.", "after.")
"""Where rows stand in an envelope."""
NO_FRAME = "not_framed: the value does not begin with 00 and the id of a schema"
NO_INDEXES = "not_framed: the indexes of the message behind the schema's id are damaged"


class WriterValues(NamedTuple):
    """Values of one writer. shown: how reasons call its schema. skipped: bytes in front of each row's message."""

    shown: str
    writer: ProtobufWriter
    rows: np.ndarray
    skipped: int | np.ndarray


class Protobuf:
    """The format of Protobuf's values, framed or of a file."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        self._form = form
        self._sorter = Sorter(form, schemas)

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        return arrow_schema(spark_json, event_type, "Protobuf")

    def peek(self, source: TypeFrom) -> ProtobufPeek:
        """Implements `Format.peek`: what finds event types in values."""
        known = ("json", "schema") if self._form.envelope == "none" else ("json", "schema", "source")
        if source.kind not in known:
            raise ConfigError(
                f"Protobuf values name no {source.kind}", "take the event type from a field or the schema's name"
            )
        return ProtobufPeek(self._sorter.checked(), source, self._form)

    def reader(
        self, event_type: str, schema: pa.Schema, routing: Routing, _json_text: JsonText = "as_sent"
    ) -> ProtobufReader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        asked, fits = fits_of(self._form, event_type, schema, routing)
        sorter = self._sorter.keeping(structs_in(asked.read, ("",) if self._form.envelope == "none" else IMAGES))
        return ProtobufReader(sorter.checked(), asked, fits)


class Sorter:
    """Finds who wrote each value."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas, structs: frozenset[str] = frozenset()) -> None:
        """structs: columns of which each field is kept, as `plan_of` takes them."""
        self._form = form
        self._schemas = schemas
        self._structs = structs

    def keeping(self, structs: frozenset[str]) -> Sorter:
        """One that leaves messages at some paths what they are."""
        return Sorter(self._form, self._schemas, structs) if structs else self

    def checked(self) -> Sorter:
        """This one. Raises ConfigError if unframed values are of no message."""
        if not self._form.has_ids:
            _ = self._own
        return self

    @cached_property
    def _own(self) -> ProtobufWriter:
        return own_writer(self._form, self._structs)

    def groups(self, values: pa.BinaryArray, batch: ValueBytes, refused: dict[int, str]) -> Iterator[WriterValues]:
        """Values by their writers, all that can be read; the others are put among the refused. Null ones are not
        looked at."""
        there = values.is_valid().to_numpy(zero_copy_only=False)
        if not self._form.has_ids:
            yield WriterValues("", self._own, np.flatnonzero(there), 0)
            return
        ids = confluent_ids(values)
        refused |= dict.fromkeys(np.flatnonzero(there & (ids == NO_ID)).tolist(), NO_FRAME)
        framed = np.flatnonzero(ids != NO_ID)
        found = heads(batch, framed)
        refused |= dict.fromkeys(framed[found.damaged].tolist(), NO_INDEXES)
        for place, at in found.places.items():
            of_place = ids[framed[at]]
            for schema_id in np.unique(of_place).tolist():
                some = at[of_place == schema_id]
                text, called = self._schemas.text(schema_id), self._schemas.called(schema_id)
                if text is None:
                    refused |= dict.fromkeys(framed[some].tolist(), f"unknown_schema_id: {called}")
                else:
                    writer = writer_of(text, place, self._form.schemas, self._structs)
                    yield WriterValues(f"id {called}", writer, framed[some], found.skipped[some])


def _batch(values: pa.BinaryArray) -> ValueBytes:
    return ValueBytes(values, ReasonPaths(["$"]))


def _unresolvable(group: WriterValues, why: object) -> dict[int, str]:
    """Of each row of a group the reason that there is no way to read it."""
    of = f"{group.shown}: " if group.shown else ""
    return dict.fromkeys(group.rows.tolist(), f"unresolvable_schema: {of}{why}")


class ProtobufPeek:
    """Finds event types in Protobuf's values, by field or by message."""

    def __init__(self, sorter: Sorter, source: TypeFrom, form: ValueFormat) -> None:
        self._sorter = sorter
        self._source = source
        self._form = form

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        asked = pc.if_else(skipped, None, values) if skipped.true_count else values
        batch, reasons = _batch(asked), dict[int, str]()
        groups = self._sorter.groups(asked, batch, reasons)
        by_name = self._source.kind == "schema"
        found = (self._by_name(one, reasons) if by_name else self._by_field(one, batch, reasons) for one in groups)
        return types_in_order(found, len(values)), reasons

    def _by_name(self, group: WriterValues, reasons: dict[int, str]) -> tuple[np.ndarray, pa.StringArray]:
        name = group.writer.name
        if not name:
            reasons |= _unresolvable(group, group.writer.why)
            return group.rows[:0], pa.nulls(0, pa.string())
        if self._source.name == "short":
            name = name.rpartition(".")[2]
        return group.rows, pa.repeat(pa.scalar(name, pa.string()), len(group.rows))

    def _by_field(
        self, group: WriterValues, batch: ValueBytes, reasons: dict[int, str]
    ) -> tuple[np.ndarray, pa.StringArray]:
        writer, path = group.writer, self._source.name.split(".")
        if writer.wired is None:
            reasons |= _unresolvable(group, writer.why)
            return group.rows[:0], pa.nulls(0, pa.string())
        if self._source.kind == "source":
            rows, types, why = source_types(self._form, lambda path: _stands_at(group, batch, path))
            reasons |= why
            return rows, types
        try:
            EventTypeReader(writer.wired.type, tuple(path))
        except UnfitType as unfit:
            reasons |= _unresolvable(group, unfit)
            return group.rows[:0], pa.nulls(0, pa.string())
        typed = writer.reads(batch, group.rows, group.skipped, path)
        reasons |= typed.refused
        types, why = EventTypeReader(typed.record.type, tuple(path)).peeked(typed.record)
        reasons |= {int(typed.rows[at]): reason for at, reason in why.items()}
        return typed.rows, types


def _stands_at(
    group: WriterValues, batch: ValueBytes, path: Sequence[str]
) -> tuple[np.ndarray, pa.Array, Mapping[int, str]] | None:
    """The rows of a group that can be read, the texts at a path, and why others cannot be; None: there are no texts."""
    wired = group.writer.wired
    if wired is None:
        return None
    try:
        EventTypeReader(wired.type, tuple(path))
    except UnfitType:
        return None
    typed = group.writer.reads(batch, group.rows, group.skipped, path)
    return typed.rows, EventTypeReader(typed.record.type, tuple(path)).of(typed.record), typed.refused


class ProtobufReader:
    """See Reader. Keeps what is compiled per writer."""

    def __init__(self, sorter: Sorter, asked: TypedAsked, fits: Fits) -> None:
        self._sorter = sorter
        self._asked = asked
        self._made = fits
        self._fits: dict[tuple[str, int], tuple[ProtobufWriter, FittedEvents]] = {}

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        batch = _batch(values)
        nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
        refused = dict.fromkeys(nulls.tolist(), TOMBSTONE)
        reads = [self._of(group, batch) for group in self._sorter.groups(values, batch, refused)]
        return read_by_writers(reads, self._asked, refused)

    def _of(self, group: WriterValues, batch: ValueBytes) -> Read:
        if group.writer.wired is None:
            return nothing_read(self._asked, _unresolvable(group, group.writer.why))
        key = (group.shown, id(group.writer))  # of no other one as long as this one is kept
        if key not in self._fits:
            self._fits[key] = group.writer, self._made(group.writer.wired.type, group.shown)
        _, fit = self._fits[key]
        return fit.read(group.writer.reads(batch, group.rows, group.skipped))
