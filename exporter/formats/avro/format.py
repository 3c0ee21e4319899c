"""Avro values -> the declared columns of one event type. Runs on Spark executors.

    values ── writers.py ── rows of each writer ── plan.py ── Typed ── typed/fit.py ── Read, in the order of the rows

A plan reads all values of a writer at once, field by field; each row has its own place and verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.core.schemas import KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.plan import AvroPlan, Rows
from exporter.formats.avro.writers import TOMBSTONE, AvroWriter, WriterRows, Writers, blocks, valid_of
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.envelopes.typed import Fits, FittedEvents, fits_of, source_types
from exporter.formats.format import Read
from exporter.formats.joined import joined
from exporter.formats.schema import arrow_schema
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.fit import nothing_read
from exporter.formats.typed.typed import Typed


class Avro:
    """The format of Avro's binary encoding."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        """Raises ConfigError for schema files that cannot be used."""
        self._form = form
        self._writers = Writers(form, schemas)

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """See Format."""
        self._writers.check()
        return arrow_schema(spark_json, event_type, "Avro")

    def peek(self, source: TypeFrom) -> AvroPeek:
        """See Format."""
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


@dataclass
class _Parts:
    """What was read of one writer's values, block by block."""

    rows: list[np.ndarray] = field(default_factory=list)
    records: list[pa.StructArray] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    truncated: int = 0

    def add(self, rows: np.ndarray, found: Rows) -> None:
        """rows: those that it is of, in the whole batch."""
        self.rows.append(rows[found.good])
        self.records.append(found.record)
        self.refused.update({int(rows[row]): reason for row, reason in found.refused.items()})
        self.truncated += found.truncated

    def typed(self) -> Typed:
        return Typed(
            np.concatenate(self.rows).astype(np.int32), pa.concat_arrays(self.records), self.refused, self.truncated
        )


class AvroReader:
    """Reads values of one event type."""

    def __init__(self, writers: Writers, asked: TypedAsked, fits: Fits) -> None:
        self._writers = writers
        self._asked = asked
        self._made = fits
        self._fits: dict[AvroPlan, FittedEvents] = {}

    def read(self, values: pa.BinaryArray) -> Read:
        """See Reader."""
        refused: dict[int, str] = {}
        if values.null_count:
            refused = dict.fromkeys(np.flatnonzero(~valid_of(values)).tolist(), TOMBSTONE)
        parts: dict[AvroPlan, tuple[AvroWriter, _Parts]] = {}
        for begin, batch, groups, unread in _groups(self._writers, values, valid_of(values)):
            refused.update(unread)
            for writer, rows, skipped in groups:
                if writer.plan is None:
                    refused.update(dict.fromkeys((rows + begin).tolist(), writer.refusal))
                    continue
                _, found = parts.setdefault(writer.plan, (writer, _Parts()))
                found.add(rows + begin, writer.plan.rows(batch, rows, skipped))
        reads = [self._fit(writer).read(found.typed()) for writer, found in parts.values()]
        for read in reads:
            refused.update(read.refused)
        if not reads:
            return nothing_read(self._asked, refused)
        return replace(reads[0], refused=refused) if len(reads) == 1 else joined(reads, refused)

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
        """See Peek."""
        asked = valid_of(values) & ~skipped.to_numpy(zero_copy_only=False)
        reasons: dict[int, str] = {}
        rows: list[np.ndarray] = []
        names: list[pa.Array] = []
        for begin, batch, groups, unread in _groups(self._writers, values, asked):
            reasons.update(unread)
            for group in groups:
                good, found, why = self._of(group, batch)
                rows.append(good + begin)
                names.append(found)
                reasons.update({row + begin: reason for row, reason in why.items()})
        if not rows:
            return pa.nulls(len(values), pa.string()), reasons
        where = np.full(len(values), -1, np.int64)
        every = np.concatenate(rows)
        where[every] = np.arange(len(every))
        types = pa.concat_arrays(names).take(pa.array(where, mask=where < 0))
        return types, reasons

    def _of(self, group: WriterRows, batch: ValueBytes) -> tuple[np.ndarray, pa.Array, dict[int, str]]:
        """Rows with a type, their types, and why others have none."""
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
        shown = "$." + ".".join(self._path)
        if found is None or found.record.field(0).type != pa.string():
            why = f"no_type: {shown} {'is missing' if found is None else 'is no text'}"
            return rows[:0], pa.nulls(0, pa.string()), dict.fromkeys(rows.tolist(), why)
        reasons = {int(rows[row]): reason for row, reason in found.refused.items()}
        names, good = found.record.field(0), rows[found.good]
        null, empty = (mask.to_numpy(zero_copy_only=False) for mask in (names.is_null(), _equal(names, "")))
        if not (null | empty).any():
            return good, names, reasons
        reasons.update(dict.fromkeys(good[null].tolist(), f"no_type: {shown} is null or missing"))
        reasons.update(dict.fromkeys(good[empty].tolist(), f"no_type: {shown} is an empty string"))
        usable = ~(null | empty)
        return good[usable], names.filter(pa.array(usable)), reasons


def _at(
    plan: AvroPlan, batch: ValueBytes, group: WriterRows, path: Sequence[str]
) -> tuple[np.ndarray, pa.Array, dict[int, str]] | None:
    """Rows that were read as far as a path, what stands there, and why others were not; None: nothing can."""
    rows = group.rows
    found = plan.peek(batch, rows, path, group.skipped)
    if found is None:
        return None
    return rows[found.good], found.record.field(0), {int(rows[row]): why for row, why in found.refused.items()}


def _equal(names: pa.StringArray, text: str) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(names, text), False)


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
