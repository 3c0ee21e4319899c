"""A format for tests that is stricter than any real one: `id=7;name=x`, its names in order, each once.

It carries texts and whole numbers only, takes a number in one spelling only, and refuses what it is not meant to be
given. What holds for it and for JSON alike is what a format has to do (tests/contract/test_format.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.columns import JsonText
from exporter.core.routing import Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.formats.format import Read
from exporter.formats.marks import declared_only, holds_json, is_evolved
from exporter.formats.said import SaidType
from exporter.formats.schema import arrow_schema
from exporter.text import shorten

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_CARRIED = {pa.string(), pa.int64()}


class _Bad(Exception):
    """One value is bad; the text is the reason."""


class FakeFormat:
    """A format for tests: pairs of names and whole numbers."""

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """STRING and BIGINT columns at the top."""
        schema = arrow_schema(spark_json, event_type, "pairs")
        for field in schema:
            if field.type not in _CARRIED or not _NAME.fullmatch(field.name) or holds_json(field):
                raise ConfigError(
                    f"types.{event_type}, column {field.name}: pairs carry no {field.type} of that name",
                    "use STRING or BIGINT, and a name of letters, digits and dots",
                )
        return schema

    def peek(self, source: TypeFrom) -> PairsPeek:
        """A name, with its dots."""
        return PairsPeek(source.name)

    def reader(
        self, event_type: str, schema: pa.Schema, routing: Routing, _json_text: JsonText = "as_sent"
    ) -> PairsReader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        return PairsReader(event_type, schema, routing)


class PairsPeek:
    """Finds event types in pairs, as `Peek` asks."""

    def __init__(self, name: str) -> None:
        self._name = name

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        types: list[str | None] = []
        reasons: dict[int, str] = {}
        for row, (raw, skip) in enumerate(zip(values.to_pylist(), skipped.to_pylist(), strict=True)):
            found = None
            try:
                if raw is not None and not skip:
                    found = _parsed(raw).get(self._name) or None
                    if found is None:
                        raise _Bad(f"no_type: {self._name} is missing or empty")
            except _Bad as bad:
                reasons[row] = str(bad)
            types.append(found)
        return pa.array(types, pa.string()), reasons


class PairsReader:
    """See Reader. Keeps nothing between batches."""

    def __init__(self, event_type: str, schema: pa.Schema, routing: Routing) -> None:
        if not event_type or not {field.type for field in schema} <= _CARRIED:
            raise TypeError("a reader is of one event type, and of a schema that its format has made")
        time = routing.event_time
        self._said = SaidType(event_type, routing)
        self._schema = schema
        self._known = schema if routing.unknown_fields == "rescue" else declared_only(schema)
        self._policy = routing.unknown_fields
        self._route = routing.type_from.name if routing.type_from.kind == "json" else None
        self._time = time.path if time.kind == "json" else None
        self._time_type = US if time.unit == "iso" else pa.int64()
        for name, kind in ((self._route, pa.string()), (self._time, self._time_type)):
            if name in self._known.names and (found := self._known.field(name)).type != kind:
                if not is_evolved(found):
                    raise ConfigError(f"column {name} is declared {found.type}", f"declare it as {kind}")
                self._known = self._known.remove(self._known.get_field_index(name))

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        if values.type != pa.binary():
            raise TypeError(f"values are binary, not {values.type}")
        rows: list[int] = []
        taken: list[tuple[Mapping[str, Any], Any, str | None, int]] = []
        refused: dict[int, str] = {}
        for row, raw in enumerate(values.to_pylist()):
            try:
                taken.append(self._record(raw))
                rows.append(row)
            except _Bad as bad:
                refused[row] = str(bad)
        columns = [pa.array([one[0].get(field.name) for one in taken], field.type) for field in self._schema]
        time = None if self._time is None else pa.array([one[1] for one in taken], self._time_type)
        rescued = pa.array([one[2] for one in taken], pa.string())
        ignored = pa.array([one[3] for one in taken], pa.int32())
        return Read(pa.array(rows, pa.int32()), columns, time, rescued, ignored, refused)

    def _record(self, raw: bytes | None) -> tuple[Mapping[str, Any], Any, str | None, int]:
        """Declared fields, event time, what is kept of unknown fields, how many are not."""
        if raw is None:
            raise _Bad("tombstone: the value is null")
        sent = _parsed(raw)
        if self._route is not None and not self._said.fits(sent.get(self._route)):
            raise _Bad(self._said.mismatch)
        fields = [field for field in self._known if self._fits(field, sent.get(field.name))]
        known = {field.name: self._field(field, sent.get(field.name)) for field in fields}
        time = None if self._time is None or self._time not in sent else self._sent_time(sent[self._time])
        unknown = [f"{name}={text}" for name, text in sent.items() if name not in {*known, self._route, self._time}]
        if not len(self._known):
            return known, time, raw.decode(), 0
        if unknown and self._policy == "dead_letter":
            raise _Bad(f"unknown_field: {shorten(unknown[0].partition('=')[0])}")
        if not unknown or self._policy == "ignore":
            return known, time, None, len(unknown)
        return known, time, ";".join(unknown), 0

    def _fits(self, field: pa.Field, text: str | None) -> bool:
        """False for what stays an unknown field, because the column of that name was declared by nobody."""
        try:
            self._field(field, text)
        except _Bad:
            return not is_evolved(field) or field.name in (self._route, self._time)
        return True

    def _field(self, field: pa.Field, text: str | None) -> Any:
        if text is None and not field.nullable:
            raise _Bad(f"missing_field: {field.name} is required, but missing")
        return text if text is None or field.type == pa.string() else _number(field.name, text)

    def _sent_time(self, text: str) -> Any:
        if self._time_type == pa.int64():
            return _number(str(self._time), text)
        bad = _Bad(f"type_mismatch: {self._time} = {shorten(text)} is no time")
        if not _TIME.fullmatch(text):
            raise bad
        try:
            return pa.scalar(text).cast(US)
        except pa.ArrowInvalid:
            raise bad from None


def _parsed(raw: bytes) -> dict[str, str]:
    """The pairs of a value, in its order. Raises _Bad."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as bad:
        raise _Bad(f"not_utf8: byte {bad.start} of the value") from None
    pairs = [pair.split("=") for pair in text.split(";")] if text else []
    if not all(len(pair) == 2 and _NAME.fullmatch(pair[0]) for pair in pairs):
        raise _Bad(f"not_pairs: {shorten(text)}")
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise _Bad("duplicate_key: a name occurs twice")
    if names != sorted(names):
        raise _Bad("not_pairs: the names are not in order")
    return dict(zip(names, (sent for _, sent in pairs), strict=True))


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _Bad(f"type_mismatch: {name} = {shorten(text)} is no whole number")
    if not -(2**63) <= int(text) < 2**63:
        raise _Bad(f"out_of_range: {name} = {text} does not fit 64 bits")
    return int(text)
