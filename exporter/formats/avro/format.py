"""Avro values -> the declared columns of one event type. Runs on Spark executors.

    values ── writers.py ── rows of each writer ── plan.py ── Typed ── typed/fit.py ── Read, in the order of the rows

A plan reads all values of a writer at once, field by field; each row has its own place and verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.writers import AvroWriter, WriterRows, Writers, blocks, valid_of
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.binary.typed_rows import TOMBSTONE, read_by_writers, together, types_in_order
from exporter.formats.envelopes.typed import Fits, FittedEvents, fits_of, source_types
from exporter.formats.format import Read
from exporter.formats.schema import arrow_schema
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.events import told_types
from exporter.formats.typed.typed import Typed


class Avro:
    """The format of Avro's binary encoding."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        """Raises ConfigError for schema files that cannot be used."""
        self._form = form
        self._writers = Writers(form, schemas)

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        self._writers.check()
        return arrow_schema(spark_json, event_type, "Avro")

    def peek(self, source: TypeFrom) -> AvroPeek:
        """Implements `Format.peek`: what finds event types in values."""
        known = ("json", "schema") if self._form.envelope == "none" else ("json", "schema", "source")
        if source.kind not in known:
            hint = "take the event type from a field, the schema, a header or the key"
            raise ConfigError(f"Avro values name no {source.kind}", hint)
        self._writers.check()
        return AvroPeek(self._writers, source, self._form)

    def reader(
        self, event_type: str, schema: pa.Schema, routing: Routing, _json_text: JsonText = "as_sent"
    ) -> AvroReader:
        """See Format. A text is never JSON as it was sent."""
        self._writers.check()
        return AvroReader(self._writers, *fits_of(self._form, event_type, schema, routing))


class AvroReader:
    """Reads values of one event type."""

    def __init__(self, writers: Writers, asked: TypedAsked, fits: Fits) -> None:
        self._writers = writers
        self._asked = asked
        self._made = fits
        self._fits: dict[AvroPlan, FittedEvents] = {}

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        refused: dict[int, str] = {}
        if values.null_count:
            refused = dict.fromkeys(np.flatnonzero(~valid_of(values)).tolist(), TOMBSTONE)
        parts: dict[AvroPlan, tuple[AvroWriter, list[Typed]]] = {}
        for begin, batch, groups, unread in _groups(self._writers, values, valid_of(values)):
            refused.update(unread)
            for writer, rows, skipped in groups:
                if writer.plan is None:
                    refused.update(dict.fromkeys((rows + begin).tolist(), writer.refusal))
                    continue
                _, found = parts.setdefault(writer.plan, (writer, []))
                found.append(writer.plan.rows(batch, rows, skipped, begin))
        reads = [self._fit(writer).read(together(found)) for writer, found in parts.values()]
        return read_by_writers(reads, self._asked, refused)

    def _fit(self, writer: AvroWriter) -> FittedEvents:
        plan = writer.plan
        if plan is None:
            raise ValueError("values of this writer cannot be read")
        if plan not in self._fits:
            self._fits[plan] = self._made(plan.kind, writer.name)
        return self._fits[plan]


class AvroPeek:
    """Finds event types: in a field, of whose value nothing behind it is read, or in the name of the schema."""

    def __init__(self, writers: Writers, source: TypeFrom, form: ValueFormat) -> None:
        self._writers = writers
        self._form, self._by_source = form, source.kind == "source"
        self._by_schema, self._short = source.kind == "schema", source.name == "short"
        self._path = source.name.split(".")

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        asked = valid_of(values) & ~skipped.to_numpy(zero_copy_only=False)
        reasons: dict[int, str] = {}
        found: list[tuple[np.ndarray, pa.StringArray]] = []
        for begin, batch, groups, unread in _groups(self._writers, values, asked):
            reasons.update(unread)
            for group in groups:
                rows, types, why = self._of(group, batch)
                found.append((rows + begin, types))
                reasons.update({row + begin: reason for row, reason in why.items()})
        return types_in_order(found, len(values)), reasons

    def _of(self, group: WriterRows, batch: ValueBytes) -> tuple[np.ndarray, pa.Array, dict[int, str]]:
        """Rows that were read, their types, null where there is none, and why some have none."""
        writer, rows, skipped = group
        if self._by_schema and writer.schema is not None and writer.schema.kind == "record":
            name = writer.schema.short_name if self._short else writer.schema.name
            return rows, pa.repeat(pa.scalar(name, pa.string()), len(rows)), {}
        if writer.plan is None:
            return rows[:0], pa.nulls(0, pa.string()), dict.fromkeys(rows.tolist(), writer.refusal)
        if self._by_source:
            plan = writer.plan
            return source_types(self._form, lambda path: _at(plan, batch, group, path))
        found = writer.plan.peek(batch, rows, self._path, skipped)
        if found is None or found.record.type != pa.string():
            why = f"no_type: $.{'.'.join(self._path)} {'is missing' if found is None else 'is no text'}"
            return rows[:0], pa.nulls(0, pa.string()), dict.fromkeys(rows.tolist(), why)
        types, untold = told_types(found.record, self._path)
        return found.rows, types, {**found.refused, **{int(found.rows[at]): why for at, why in untold.items()}}


def _at(
    plan: AvroPlan, batch: ValueBytes, group: WriterRows, path: Sequence[str]
) -> tuple[np.ndarray, pa.Array, Mapping[int, str]] | None:
    """Rows that were read as far as a path, what stands there, and why others were not; None: nothing can."""
    found = plan.peek(batch, group.rows, path, group.skipped)
    return None if found is None else (found.rows, found.record, found.refused)


def _groups(
    writers: Writers, values: pa.BinaryArray, asked: np.ndarray
) -> Iterator[tuple[int, ValueBytes, list[WriterRows], dict[int, str]]]:
    """Block by block: its first row, its bytes, the rows of each writer in it; with the first, all rows without one."""
    groups, unread = writers.split(values, np.flatnonzero(asked))
    for begin, end in blocks(values, len(groups)):
        part = ValueBytes(values.slice(begin, end - begin), ReasonPaths())
        inside = [group.within(begin, end) for group in groups]
        yield begin, part, [group for group in inside if len(group.rows)], unread
        unread = {}
