"""What one configuration makes of a record: the table it belongs to, and when it happened. Knows no driver.

    value ── readers/ ── event type ── rules/routes.py ── takers ── rules/filters.py ── what is expected of each

Written from the settings (routing.Routing) a second time, on purpose: the audit must not trust executor/ and formats/,
and imports none of them. Where this reading cannot tell, the answer is EITHER or nothing, never a finding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from exporter.core.columns import EVENT_TIME
from exporter.core.routing import Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.operate.audit.records import WHOLE_BYTES_MAX, AuditedRecord
from exporter.proof.codes import (
    DEAD_LETTER,
    EARLIER,
    EARLIER_UNROUTED,
    EITHER,
    FILTERED,
    NOT_HERE,
    UNROUTED,
    WHOLE,
)
from exporter.proof.readers.reader import NoGoodRecord, NoValue, SentValue, Undecided
from exporter.proof.readers.reading import Readings, event_time_of, event_type_of
from exporter.proof.rules.filters import Filter, has_filters, sifts
from exporter.proof.rules.routes import Routes, has_routes
from exporter.proof.rules.values import Unsure

IN_VALUES = ("json", "schema", "source")
"""Kinds of TypeFrom whose event type stands in the value."""


class Taker(NamedTuple):
    """One table that takes a record, or what stands for none. expected: what must become of a good record there."""

    code: int
    expected: int


class JudgedRecord:
    """A record, and what was read of its value so far: by each format and registry once."""

    __slots__ = ("_found", "record")

    def __init__(self, record: AuditedRecord) -> None:
        self.record = record
        self._found: dict[tuple[ValueFormat, str], SentValue | NoGoodRecord | None] = {}

    def read(self, form: ValueFormat, registry: str, readings: Readings) -> SentValue | NoGoodRecord | None:
        """By one format; None where nothing can be said, and of a record without a value."""
        key = (form, registry)
        if key not in self._found:
            self._found[key] = self._read(key, readings)
        return self._found[key]

    def _read(self, key: tuple[ValueFormat, str], readings: Readings) -> SentValue | NoGoodRecord | None:
        record = self.record
        if record.value is None or record.size > WHOLE_BYTES_MAX:
            return None
        try:
            return readings.of(*key).read(record.value, record.tp, record.offset, record.headers)
        except NoGoodRecord as refused:
            return refused.with_traceback(None)
        except (Undecided, RecursionError):
            return None


class Opinion:
    """One configuration. codes: event type -> code, for every type with a table or declared."""

    def __init__(self, routing: Routing, codes: Mapping[str, int], readings: Readings) -> None:
        self.routing = routing
        self._routes = Routes(routing, codes)
        self._ruled = has_routes(routing) or has_filters(routing)
        self._in_values = routing.type_from.kind in IN_VALUES
        self._readings = readings
        self._forms: dict[str, ValueFormat] = {}
        self._own = {codes[name] for name, schema in routing.types if name in codes and declares_event_time(schema)}
        self._codes = codes

    @cached_property
    def filters(self) -> Mapping[int, Filter]:
        """By the code of the table that may keep less than all that it takes."""
        some = {self._codes[name]: shape for name, shape in self.routing.shapes if sifts(shape)}
        return {code: Filter(shape, code) for code, shape in some.items()}

    def format_of(self, topic: str) -> ValueFormat:
        """How the values of a topic are written."""
        if topic not in self._forms:
            self._forms[topic] = self.routing.format_of(topic)
        return self._forms[topic]

    def sent(self, seen: JudgedRecord) -> SentValue | NoGoodRecord | None:
        """The value; None where nothing can be said of it."""
        return seen.read(self.format_of(seen.record.tp.topic), self.routing.registry, self._readings)

    def document(self, seen: JudgedRecord) -> Any:
        """The value as SQL sees it; Unsure where nothing can be said."""
        sent = self.sent(seen)
        return sent.document if isinstance(sent, SentValue) and sent.comparable else Unsure

    def row_sent(self, seen: JudgedRecord) -> SentValue:
        """The value that a row is held against. Raises NoGoodRecord, and Undecided."""
        sent, record = self.sent(seen), seen.record
        if sent is None and record.value is not None and record.size <= WHOLE_BYTES_MAX:
            reading = self._readings.of(self.format_of(record.tp.topic), self.routing.registry)
            sent = reading.read(record.value, record.tp, record.offset, record.headers, is_row=True)
        if isinstance(sent, NoGoodRecord) and self.routing.is_earlier:
            raise Undecided("an earlier version may have taken it")
        if isinstance(sent, NoGoodRecord):
            raise sent
        if sent is None or not sent.comparable:
            raise Undecided
        return sent

    def event_type(self, seen: JudgedRecord) -> str | None:
        """The text that says it; None if nothing does."""
        source = self.routing.type_from
        if not self._in_values:
            return type_beside(source, seen.record)
        sent = self.sent(seen)
        return event_type_of(sent, source) if isinstance(sent, SentValue) else None

    def takers(self, seen: JudgedRecord) -> list[Taker]:
        """The tables that take a record, filters left aside; DEAD_LETTER or UNROUTED alone if there is none."""
        if self._ruled and self._is_dead(seen):
            return [Taker(DEAD_LETTER, DEAD_LETTER)]
        return [Taker(code, code) for code in self._routes.takers(self.event_type(seen))]

    def expected(self, seen: JudgedRecord, taker: Taker) -> int:
        """Code of the table that must hold the record in the place of a taker, or of what else must become of it.

        DEAD_LETTER where it certainly is one, EITHER in doubt, EARLIER if it is one by this version, and was read
        by an earlier one.
        """
        sent, code = self.sent(seen), taker.code
        refused = EARLIER if self.routing.is_earlier else DEAD_LETTER
        doubtful = sent is None and seen.record.value is not None
        if self._is_filtered(seen):
            return FILTERED
        if self._is_unusable(seen):
            return DEAD_LETTER
        if code == DEAD_LETTER:
            unnamed = self._in_values and self.event_type(seen) is None
            return DEAD_LETTER if not unnamed else EITHER if doubtful else refused
        if code == UNROUTED and self._in_values and self.routing.is_earlier:
            return EARLIER_UNROUTED
        if code in (UNROUTED, WHOLE) or taker.expected == NOT_HERE:
            return taker.expected
        if isinstance(sent, SentValue):
            return taker.expected
        return EITHER if doubtful else refused

    def time(self, seen: JudgedRecord) -> int | None:
        """The event time in microseconds since 1970; None where it cannot be told for sure."""
        source = self.routing.event_time
        if source.kind == "record":
            return seen.record.micros
        sent, form = self.sent(seen), self.format_of(seen.record.tp.topic)
        return event_time_of(sent, source, form.envelope) if isinstance(sent, SentValue) else None

    def says_time(self, code: int) -> bool:
        """Whether `_event_time` of a table is the exporter's; a type may have declared a column of that name itself."""
        return code not in self._own

    def _is_empty(self, seen: JudgedRecord) -> bool:
        return seen.record.value is None or isinstance(self.sent(seen), NoValue)

    def _is_filtered(self, seen: JudgedRecord) -> bool:
        """Whether it is a tombstone that is counted and stands in no table."""
        return self.format_of(seen.record.tp.topic).tombstones == "count" and self._is_empty(seen)

    def _is_unusable(self, seen: JudgedRecord) -> bool:
        """Whether it is dead, whatever its event type."""
        record = seen.record
        return record.micros is None or record.size > self.routing.record_bytes_max or self._is_empty(seen)

    def _is_dead(self, seen: JudgedRecord) -> bool:
        return self._is_filtered(seen) or self._is_unusable(seen)


def is_plain(form: ValueFormat) -> bool:
    """Whether values are JSON and nothing else."""
    return form.kind == "json" and form.frame == "none" and form.envelope == "none"


def declares_event_time(schema_json: str) -> bool:
    """Whether a schema of an earlier version has a column of the name that is now the exporter's."""
    return any(field["name"].lower() == EVENT_TIME for field in json.loads(schema_json)["fields"])


def type_beside(source: TypeFrom, record: AuditedRecord) -> str | None:
    """The event type of a record where it does not stand in the value; None if nothing says it."""
    if source.kind == "topic":
        return record.tp.topic
    if source.kind == "key":
        return _text(record.key)
    said = [one["value"] for one in record.headers if one["key"] == source.name]
    return _text(said[-1]) if said else None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
