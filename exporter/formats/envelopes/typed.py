"""Envelopes whose values say their types: all records of one writer at once. Runs on Spark executors.

    Typed {before, after, source, op, ts_ms} ── the rows, by their ops ── fit ── Read, with what was done to each

It finds the records that give no row; why they give none says what reads envelopes of JSON (debezium.py). Of MongoDB
the rows are texts, which the reader of JSON reads. A field that a writer's envelope has with another type than it must
have refuses all records of this writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.change import named, with_before
from exporter.formats.envelopes.debezium import IMAGES, OPS, Debezium
from exporter.formats.envelopes.former import asked_before, of_former, told_of
from exporter.formats.envelopes.hidden import Hidden
from exporter.formats.envelopes.images import Mongo
from exporter.formats.envelopes.opening import DEBEZIUM, ENVELOPES
from exporter.formats.envelopes.sources import Changes, SourceTexts
from exporter.formats.envelopes.texts import time_in
from exporter.formats.envelopes.unavailable import with_members
from exporter.formats.format import Read
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.compiled import UnfitType
from exporter.formats.typed.events import EventTimeOf, EventTypeReader, check_types
from exporter.formats.typed.fit import Fit, nothing_read
from exporter.formats.typed.typed import Typed


class FittedEvents(Protocol):
    """Makes the columns of one event type of one writer's records."""

    def read(self, typed: Typed) -> Read:
        """typed: of the writer's type."""
        ...


TOLD = ("op", "ts_us", "ts_ms", "message")
"""What a reason may tell of an envelope, besides its source and which rows there are."""
Fits: TypeAlias = Callable[[pa.StructType, str], FittedEvents]
"""From the type of a writer's records, and what reasons call its schema, to what makes columns of them."""


def fits_of(form: ValueFormat, event_type: str, schema: pa.Schema, routing: Routing) -> tuple[TypedAsked, Fits]:
    """What is asked of rows, and what makes it of records that may be in an envelope. Raises ConfigError."""
    if form.envelope == "none":
        asked = TypedAsked.by(event_type, schema, routing)
        return asked, lambda record, name: Fit(record, asked, name)
    envelope = DEBEZIUM.get(form.envelope)
    if envelope is None:
        raise ConfigError(f"DMS writes JSON, and the kind of values is {form.kind}", 'set `kind = "json"`')
    inside = replace(routing, type_from=TypeFrom("topic"))
    outer = time_in(envelope.members, schema, routing.event_time) is not None
    inside = replace(inside, event_time=EventTime("record")) if outer else inside
    asked = TypedAsked.by(event_type, schema, inside)
    mongo = Mongo(event_type, schema, inside) if form.envelope == "debezium_mongo" else None
    before = asked_before(schema, form.before)
    former = TypedAsked.by(event_type, before, of_former(routing)) if form.before else None
    wanted = _Outer(envelope, routing.type_from, routing.event_time if outer else None, mongo, former)
    return asked, lambda record, name: EnvelopeFit(record, name, asked, wanted)


class _Outer(NamedTuple):
    """What is read of envelopes. time: if it is read there. mongo: what reads rows that are texts. former: what is
    asked of images of before; None: nothing."""

    envelope: Debezium
    type_from: TypeFrom
    time: EventTime | None
    mongo: Mongo | None
    former: TypedAsked | None


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
            _field(record, "op", pa.types.is_string, "no_envelope")
            self._rows = _images(record, outer.mongo is not None)
            self._source = SourceTexts(record, outer.envelope)
            self._time = _time(record, outer.time)
            path = tuple(outer.type_from.name.split("."))
            self._type = EventTypeReader(record, path) if outer.type_from.kind == "json" else None
        except DeadLetter as bad:
            self.refusal = str(bad)
        except UnfitType as unfit:
            self.refusal = f"unresolvable_schema: {name + ': ' if name else ''}{unfit}"
        if self.refusal:
            return
        try:
            kind = asked.spelled(record.field(self._rows[0]).type)
        except DeadLetter as unclear:
            self.refusal = str(unclear.within(name))
            return
        self._fit = None if outer.mongo else Fit(kind, asked, name)
        self._hidden = None if outer.mongo else Hidden(kind, asked.read)
        asks = outer.former and len(outer.former.schema) and not outer.mongo and "before" in self._rows
        self._former = Fit(kind, outer.former, name) if asks and outer.former else None

    def read(self, typed: Typed) -> Read:
        """Implements `FittedEvents.read`: rows and refusals of typed values."""
        if self.refusal:
            return nothing_read(self._asked, {**typed.refused, **dict.fromkeys(typed.rows.tolist(), self.refusal)})
        record = typed.record
        ops, changes = pc.struct_field(record, "op"), self._source.changes(record)
        deleted = pc.fill_null(pc.equal(ops, "d"), False)
        images = self._taken(record, deleted)
        bad = self._why_not(record, self._odd(ops, deleted, images, changes))
        time, cut = EventTimeOf.told(self._time, record, bad)
        if self._outer.type_from.kind in ("source", "json"):
            types = changes.names if self._type is None else self._type.of(record)
            check_types(types, self._asked.said, bad)
        good = np.setdiff1d(np.arange(len(record)), np.fromiter(bad, np.int64, len(bad)))
        at = pa.array(good)
        rows = Typed(typed.rows[good], images.take(at), {}, typed.truncated)
        mongo = self._outer.mongo
        read = mongo.read(rows, deleted.take(at)) if mongo else self._columns(rows, record, at)
        refused = {**typed.refused, **{int(typed.rows[row]): reason for row, reason in bad.items()}, **read.refused}
        where = at.take(pc.index_in(read.rows, pa.array(rows.rows, pa.int32())))
        cdc = changes.array(ops).take(where)
        if self._outer.former is not None:
            cdc = with_before(cdc, self._before(self._outer.former, typed, read))
        found = replace(read, refused=refused, cdc=cdc)
        return found if time is None else replace(found, time=time.take(where), truncated=read.truncated + cut)

    def _taken(self, record: pa.StructArray, deleted: pa.BooleanArray) -> pa.Array:
        """The image of each record, null where there is none."""
        kind = record.type.field(self._rows[0]).type
        both = [
            pc.struct_field(record, name) if name in self._rows else pa.nulls(len(record), kind) for name in IMAGES
        ]
        numbers = np.arange(len(record)) + deleted.to_numpy(zero_copy_only=False) * len(record)
        return pa.concat_arrays(both).take(pa.array(numbers))

    def _odd(
        self, ops: pa.StringArray, deleted: pa.BooleanArray, images: pa.Array, changes: Changes
    ) -> Sequence[int]:
        """The records that give no row: by their op, without an image, but for deletes in MongoDB, or by their time."""
        gives = pc.and_(pc.is_in(ops, pa.array(list(OPS))), images.is_valid())
        gives = pc.or_(gives, deleted) if self._outer.mongo else gives
        odd: list[int] = [] if gives.false_count == 0 else pc.indices_nonzero(pc.invert(gives)).to_pylist()
        return sorted({*odd, *changes.beyond})

    def _why_not(self, record: pa.StructArray, rows: Sequence[int]) -> dict[int, str]:
        """Why records give no row, as their envelope says of JSON. Images are not looked into."""
        if not rows:
            return {}
        at = pa.array(rows)
        told = {name: pc.struct_field(record, name).take(at) for name in TOLD if record.type.get_field_index(name) >= 0}
        sides = {name: pc.struct_field(record, name).is_valid().take(at) for name in self._rows}
        docs = pa.table({**told, "source": self._source.plain(record.take(at)), **sides}).to_pylist()
        image: Any = "{}" if self._outer.mongo else {}
        reasons: dict[int, str] = {}
        for row, doc in zip(rows, docs, strict=True):
            try:
                self._outer.envelope.change({**doc, **{name: image if doc[name] else None for name in self._rows}})
            except DeadLetter as bad:
                reasons[row] = str(bad)
        if len(reasons) < len(rows):
            raise ValueError("an envelope that gives no row gives one in JSON")
        return reasons

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
        return replace(read, rescued=with_members(read.rescued, found))


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
    told = {row: named([_text(side.get(row)) for side in sides]) for row in every}
    what = f"the source of an envelope ({form.envelope}) is missing, empty or no text"
    reasons |= {row: f"no_type: {what}" for row, name in told.items() if not name}
    types = {row: name for row, name in told.items() if name}
    return np.fromiter(types, np.int64, len(types)), pa.array(list(types.values()), pa.string()), reasons


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _field(record: pa.StructType, name: str, fits: Callable[[pa.DataType], bool], code: str) -> pa.DataType:
    """The type of a field that must be there. Raises DeadLetter."""
    at = record.get_field_index(name)
    if at < 0:
        raise DeadLetter(f"{code}: $.{name} is null or missing")
    if not fits(record.field(at).type):
        raise DeadLetter(f"{code}: $.{name} is {record.field(at).type}")
    return record.field(at).type


def _images(record: pa.StructType, texts: bool) -> list[str]:
    """Which of the two images the writer's envelopes have; of one type. Raises DeadLetter."""
    names = [name for name in IMAGES if record.get_field_index(name) >= 0]
    if not names:
        raise DeadLetter("no_envelope: $.after and $.before are missing")
    kinds = {_field(record, name, pa.types.is_string if texts else pa.types.is_struct, "no_envelope") for name in names}
    if len(kinds) > 1:
        raise DeadLetter("no_envelope: $.before and $.after are of different types")
    return names


def _time(record: pa.StructType, time: EventTime | None) -> EventTimeOf | None:
    """What reads the event time beside the images. Raises UnfitType."""
    return None if time is None else EventTimeOf(record, tuple(time.path.split(".")), time.unit)
