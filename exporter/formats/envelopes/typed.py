"""Envelopes whose values say their types: all records of one writer at once. Runs on Spark executors.

    Typed {before, after, source, op, ts_ms} ── the rows, by their ops ── fit ── Read, with what was done to each

It says of a record what the reading of JSON envelopes does (debezium.py), in the same words. Of MongoDB the rows are
texts, which the reader of JSON reads. A field that a writer's envelope has with another type than it must have refuses
all records of this writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import patched
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.cased import Unclear
from exporter.formats.envelopes.change import with_before
from exporter.formats.envelopes.debezium import OPS, truncated
from exporter.formats.envelopes.former import asked_before, of_former, told_of
from exporter.formats.envelopes.hidden import Hidden
from exporter.formats.envelopes.images import Mongo
from exporter.formats.envelopes.opening import ENVELOPES
from exporter.formats.envelopes.sources import BadEnvelope, SourceTexts
from exporter.formats.envelopes.texts import time_in
from exporter.formats.format import Read
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.compiled import UnfitType
from exporter.formats.typed.events import EventTimeOf, EventTypeReader
from exporter.formats.typed.fit import Fit, nothing_read
from exporter.formats.typed.typed import Typed
from exporter.text import shorten


class FittedEvents(Protocol):
    """Makes the columns of one event type of one writer's records."""

    def read(self, typed: Typed) -> Read:
        """typed: of the writer's type."""
        ...


Fits: TypeAlias = Callable[[pa.StructType, str], FittedEvents]
"""From the type of a writer's records, and what reasons call its schema, to what makes columns of them."""


def fits_of(form: ValueFormat, event_type: str, schema: pa.Schema, routing: Routing) -> tuple[TypedAsked, Fits]:
    """What is asked of rows, and what makes it of records that may be in an envelope. Raises ConfigError."""
    if form.envelope == "none":
        asked = TypedAsked.by(event_type, schema, routing)
        return asked, lambda record, name: Fit(record, asked, name)
    envelope = ENVELOPES[form.envelope]
    if form.envelope == "dms":
        raise ConfigError(f"DMS writes JSON, and the kind of values is {form.kind}", 'set `kind = "json"`')
    inside = replace(routing, type_from=TypeFrom("topic"))
    outer = time_in(envelope.members, schema, routing.event_time) is not None
    inside = replace(inside, event_time=EventTime("record")) if outer else inside
    asked = TypedAsked.by(event_type, schema, inside)
    mongo = Mongo(event_type, schema, inside) if form.envelope == "debezium_mongo" else None
    before = asked_before(schema, form.before)
    former = TypedAsked.by(event_type, before, of_former(routing)) if form.before else None
    return asked, lambda record, name: EnvelopeFit(record, name, asked, _Outer(routing, outer, mongo, former))


class _Outer:
    """What is read of envelopes. time: whether the event time is. mongo: what reads rows that are texts. former: what
    is asked of images of before; None: nothing."""

    def __init__(self, routing: Routing, time: bool, mongo: Mongo | None, former: TypedAsked | None) -> None:
        self.former = former
        self.type_from = routing.type_from
        self.time = routing.event_time if time else None
        self.mongo = mongo


class EnvelopeFit:
    """One writer's envelopes as rows of one event type. See FittedEvents.

    refusal: why no record of this writer is any; empty if they may be.
    """

    def __init__(self, record: pa.StructType, name: str, asked: TypedAsked, outer: _Outer) -> None:
        """name: of the writer's schema, for reasons."""
        self._asked = asked
        self._outer = outer
        self.refusal = ""
        try:
            self._op = _field(record, "op", pa.types.is_string, "no_envelope")
            self._rows = _images(record, outer.mongo is not None)
            self._source = SourceTexts(record, outer.mongo is not None)
            self._time = _time(record, outer.time)
            path = tuple(outer.type_from.name.split("."))
            self._type = EventTypeReader(record, path) if outer.type_from.kind == "json" else None
        except BadEnvelope as bad:
            self.refusal = str(bad)
        except UnfitType as unfit:
            self.refusal = f"unresolvable_schema: {name + ': ' if name else ''}{unfit}"
        if self.refusal:
            return
        try:
            kind = asked.spelled(record.field(self._rows[0]).type)
        except Unclear as unclear:
            self.refusal = unclear.of(name)
            return
        self._fit = None if outer.mongo else Fit(kind, asked, name)
        self._hidden = None if outer.mongo else Hidden(kind, asked.read)
        asks = outer.former and len(outer.former.schema) and not outer.mongo and "before" in self._rows
        self._former = Fit(kind, outer.former, name) if asks and outer.former else None

    def read(self, typed: Typed) -> Read:
        """See FittedEvents."""
        if self.refusal:
            return nothing_read(self._asked, {**typed.refused, **dict.fromkeys(typed.rows.tolist(), self.refusal)})
        record = typed.record
        ops, bad = self._ops(record)
        images = self._taken(record, ops, bad)
        changes = self._source.changes(record, bad)
        time, cut = self._times(record, bad)
        self._check_type(record, changes, bad)
        good = np.setdiff1d(np.arange(len(record)), np.fromiter(bad, np.int64, len(bad)))
        at = pa.array(good)
        rows = Typed(typed.rows[good], images.take(at), {}, typed.truncated)
        deleted = pc.equal(ops, "d").take(at)
        mongo = self._outer.mongo
        read = mongo.read(rows, deleted) if mongo else self._columns(rows, record, at)
        refused = {**typed.refused, **{int(typed.rows[row]): reason for row, reason in bad.items()}, **read.refused}
        where = at.take(pc.index_in(read.rows, pa.array(rows.rows, pa.int32())))
        cdc = changes.array(ops).take(where)
        if self._outer.former is not None:
            cdc = with_before(cdc, self._before(self._outer.former, typed, read))
        found = replace(read, refused=refused, cdc=cdc)
        return found if time is None else replace(found, time=time.take(where), truncated=read.truncated + cut)

    def _ops(self, record: pa.StructArray) -> tuple[pa.StringArray, dict[int, str]]:
        """The op of each record, and why records with another one than those that give rows are refused."""
        ops = pc.struct_field(record, "op")
        odd = pc.indices_nonzero(pc.invert(pc.fill_null(pc.is_in(ops, pa.array(list(OPS))), False))).to_pylist()
        if not odd:
            return ops, {}
        names = self._source.names(record)
        return ops, {row: _odd_op(record[row], ops[row].as_py(), names[row].as_py()) for row in odd}

    def _taken(self, record: pa.StructArray, ops: pa.StringArray, bad: dict[int, str]) -> pa.Array:
        """The image of each record: null where there is none, which is bad, but for deletes in MongoDB."""
        kind = record.type.field(self._rows[0]).type
        both = [
            pc.struct_field(record, name) if name in self._rows else pa.nulls(len(record), kind)
            for name in ("after", "before")
        ]
        deleted = pc.fill_null(pc.equal(ops, "d"), False)
        numbers = np.arange(len(record)) + deleted.to_numpy(zero_copy_only=False) * len(record)
        images = pa.concat_arrays(both).take(pa.array(numbers))
        for row in pc.indices_nonzero(images.is_null()).to_pylist():
            op = ops[row].as_py()
            if self._outer.mongo is None or op != "d":
                code = "partial_update" if self._outer.mongo and op == "u" else "no_image"
                bad.setdefault(row, f"{code}: $.{'before' if op == 'd' else 'after'} is null or missing")
        return images

    def _before(self, asked: TypedAsked, typed: Typed, read: Read) -> list[str | None]:
        """What columns held before, of each row that was read."""
        if self._former is None or self._former.refusal:
            return [None] * len(read.rows)
        images = pc.struct_field(typed.record, "before")
        told = pc.and_(pc.equal(pc.struct_field(typed.record, "op"), "u"), images.is_valid())
        at = pc.indices_nonzero(pc.fill_null(told, False))
        former = self._former.read(Typed(typed.rows[at.to_numpy()], images.take(at), {}, 0))
        return told_of(former, read, asked.schema, self._asked.schema)

    def _columns(self, rows: Typed, envelopes: pa.StructArray, at: pa.Array) -> Read:
        """What is in the rows, without values that were not sent; these are named in `_rescued`.

        envelopes: theirs, and others'. at: which of them are theirs.
        """
        fit, hidden = self._fit, self._hidden
        if fit is None or hidden is None:
            raise ValueError("rows that are texts have no fields")
        flags = self._source.flags(envelopes.take(at)) if hidden.asks_flags else None
        record, members = hidden.without(rows.record, flags)
        read = fit.read(replace(rows, record=record))
        if not members:
            return read
        where = {int(rows.rows[at]): text for at, text in members.items()}
        found = {at: where[row] for at, row in enumerate(read.rows.to_pylist()) if row in where}
        texts = {at: _with(read.rescued[at].as_py(), text) for at, text in found.items()}
        return replace(read, rescued=patched(read.rescued, texts))

    def _times(self, record: pa.StructArray, bad: dict[int, str]) -> tuple[pa.Array | None, int]:
        if self._time is None:
            return None, 0
        found = self._time.of(record)
        for row, reason in found.bad.items():
            bad.setdefault(row, reason)
        return found.times, found.cut

    def _check_type(self, record: pa.StructArray, changes: Any, bad: dict[int, str]) -> None:
        """A record's type must be the one that it was routed by."""
        if self._outer.type_from.kind not in ("source", "json"):
            return
        found = changes.names if self._type is None else self._type.of(record)
        fits = self._asked.said.fitting(found)
        for row in pc.indices_nonzero(pc.invert(fits)).to_pylist():
            bad.setdefault(row, self._asked.said.mismatch)


def source_types(
    form: ValueFormat, peek: Callable[[Sequence[str]], tuple[np.ndarray, pa.Array, Mapping[int, str]] | None]
) -> tuple[np.ndarray, pa.Array, dict[int, str]]:
    """The event types that the sources of envelopes name.

    peek: the rows that have been read so far as a path, what stands there, and why others were not read; None if a
    writer has no such field. Gives rows, their types, and the reasons of others.
    """
    envelope = ENVELOPES[form.envelope]
    sides: list[dict[int, Any]] = []
    reasons: dict[int, str] = {}
    for name in envelope.names:
        found = peek([envelope.holder, name])
        sides.append({})
        if found is not None:
            rows, texts, why = found
            sides[-1] = dict(zip(rows.tolist(), texts.to_pylist(), strict=True))
            reasons = {**why, **reasons}
    every = sorted({row for side in sides for row in side} - reasons.keys())
    told = {row: envelope.named([_text(side.get(row)) for side in sides]) for row in every}
    what = f"the source of an envelope ({form.envelope}) is missing, empty or no text"
    reasons |= {row: f"no_type: {what}" for row, name in told.items() if not name}
    named = {row: name for row, name in told.items() if name}
    return np.fromiter(named, np.int64, len(named)), pa.array(list(named.values()), pa.string()), reasons


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _with(rescued: str | None, members: str) -> str:
    """What is in `_rescued`, and more."""
    inside = rescued[1:-1] if rescued else ""
    return "{" + inside + ("," if inside else "") + members + "}"


def _odd_op(record: pa.StructScalar, op: str | None, name: str | None) -> str:
    if op == "t":
        return truncated(name, {one: record[one].as_py() for one in ("source", "ts_us", "ts_ms") if one in record})
    if op == "m":
        message = record["message"].as_py() if "message" in record else None
        prefix = message.get("prefix") if type(message) is dict else None
        return "cdc_message: " + (f"prefix {prefix!r}"[:120] if type(prefix) is str else "without a prefix")
    return "no_envelope: $.op is null or missing" if op is None else f"unknown_op: $.op = {shorten(op)!r}"


def _field(record: pa.StructType, name: str, fits: Callable[[pa.DataType], bool], code: str) -> pa.DataType:
    """The type of a field that must be there. Raises BadEnvelope."""
    at = record.get_field_index(name)
    if at < 0:
        raise BadEnvelope(f"{code}: $.{name} is null or missing")
    if not fits(record.field(at).type):
        raise BadEnvelope(f"{code}: $.{name} is {record.field(at).type}")
    return record.field(at).type


def _images(record: pa.StructType, texts: bool) -> list[str]:
    """Which of the two images the writer's envelopes have; of one type. Raises BadEnvelope."""
    names = [name for name in ("after", "before") if record.get_field_index(name) >= 0]
    if not names:
        raise BadEnvelope("no_envelope: $.after and $.before are missing")
    kinds = {_field(record, name, pa.types.is_string if texts else pa.types.is_struct, "no_envelope") for name in names}
    if len(kinds) > 1:
        raise BadEnvelope("no_envelope: $.before and $.after are of different types")
    return names


def _time(record: pa.StructType, time: EventTime | None) -> EventTimeOf | None:
    """Raises UnfitType."""
    return None if time is None else EventTimeOf(record, tuple(time.path.split(".")), time.unit)
