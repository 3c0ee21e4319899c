"""The routing configuration: everything that decides where a record goes (ROUTE).

A frozen value that is stored as JSON in the dead letters' properties, so that a later
version of the configuration can drain what the earlier one began. It holds no clock,
no path and no secret.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal

from exporter.core.columns import NO_COLUMNS
from exporter.core.decoder_version import FIRST_DECODER, THIRD_DECODER, Decoded, decoder_version, versions_read
from exporter.core.shapes import (
    COUNT,
    TO_DEAD_LETTERS,
    Constant,
    Rename,
    Shape,
    constant_fields,
    matched,
    renamed,
    with_fields,
)
from exporter.core.value_format import JSON, ValueFormat
from offsets.names import BadName, table_folder

ALWAYS_WRITTEN = frozenset((
    "type_from", "event_time", "types", "unknown_fields", "new_type", "isolation", "record_bytes_max",
    "event_time_min_us", "event_time_ahead_max_secs", "generation", "decoder_version",
    "kind", "name", "path", "unit",
))  # fmt: skip
"""The fields that the first version had. Any other is written only where it does not stand at its default, so that a
field that comes new changes no fingerprint of a running export: it would drain and seal every table at the upgrade."""

RAW_COLUMNS = {
    kind: json.dumps({"fields": [{"metadata": {}, "name": "value", "nullable": False, "type": of}], "type": "struct"},
                     sort_keys=True, separators=(",", ":"))
    for kind, of in (("bytes", "binary"), ("string", "string"))
}  # fmt: skip
"""Kind of a raw format -> the columns of its tables."""

DEAD_LETTERS = "dead_letters"
"""Event type and folder of the dead-letter table."""


def dead_letters_last(names: Iterable[str]) -> list[str]:
    """Event types in the order in which tables are read and moved: by name, the dead letters last (protocol 5.1)."""
    return sorted({*names}, key=lambda name: (name == DEAD_LETTERS, name))


@dataclass(frozen=True)
class TypeFrom:
    """Where the event type stands: a record header, a field of the value (dotted path), the key, the topic's name; the
    name of the value's schema (name: `short` for it without its namespace); an envelope's source, `schema.table`.

    The field's kind is `json` whatever the format: the name is from when there was no other, and is stored.
    """

    kind: Literal["header", "json", "key", "topic", "schema", "source"]
    name: str = ""


@dataclass(frozen=True)
class EventTime:
    """Where the event time stands: a field of the value (dotted path; `json`) in `unit`, or its Kafka timestamp."""

    kind: Literal["json", "record"]
    path: str = ""
    unit: Literal["iso", "s", "ms", "us", "ns"] = "iso"


@dataclass(frozen=True)
class Routing:
    """One routing configuration.

    types: (event type, Spark schema as canonical JSON text) sorted by event type.
    event_time_min_us: microseconds since 1970, UTC. event_time_ahead_max_secs: how far an
    event time may lie after the record's own Kafka timestamp. value_format: of the values, but for those of topics
    that a pattern of topic_formats fits whole: the first one counts. registry: the name under which decisions on schema
    ids are recorded. renames: of event types, before all else. matches: (declared type, pattern of the event types that
    its table takes; without one it takes its own). unrouted: what is done with an event type that no table takes: it is
    a dead letter, counted, or goes to the table of this declared type. shapes: what becomes of rows, by declared type;
    `types` are then the columns of its table. constants: columns of all tables.
    """

    type_from: TypeFrom
    event_time: EventTime
    types: tuple[tuple[str, str], ...]
    unknown_fields: Literal["rescue", "ignore", "dead_letter"] = "rescue"
    new_type: Literal["dead_letter", "table"] = "dead_letter"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    record_bytes_max: int = 10_000_000
    event_time_min_us: int = 946_684_800_000_000
    event_time_ahead_max_secs: int = 86_400
    generation: int = 0
    decoder_version: int = FIRST_DECODER
    value_format: ValueFormat = JSON
    topic_formats: tuple[tuple[str, ValueFormat], ...] = ()
    registry: str = "default"
    renames: tuple[Rename, ...] = ()
    matches: tuple[tuple[str, str], ...] = ()
    unrouted: str = TO_DEAD_LETTERS
    shapes: tuple[tuple[str, Shape], ...] = ()
    constants: tuple[tuple[str, Constant], ...] = ()

    def __post_init__(self) -> None:
        if list(self.types) != sorted(self.types):
            raise ValueError("types are sorted by event type: another order would be another fingerprint")

    @cached_property
    def schemas(self) -> dict[str, str]:
        """Event type -> Spark schema JSON."""
        return dict(self.types)

    def format_of(self, topic: str) -> ValueFormat:
        """How the values of a topic are written."""
        return next((form for pattern, form in self.topic_formats if re.fullmatch(pattern, topic)), self.value_format)

    @cached_property
    def has_ids(self) -> bool:
        """Whether there are values that name their schemas by ids of a registry."""
        return any(form.has_ids for form in self.formats)

    @property
    def formats(self) -> tuple[ValueFormat, ...]:
        """All formats that there may be, each once."""
        return tuple(dict.fromkeys([self.value_format, *(form for _, form in self.topic_formats)]))

    @property
    def decoder_here(self) -> int:
        """The version of the decoder that reads its values here; whoever recorded it had `decoder_version`."""
        return decoder_version(self._decoded)

    @property
    def _decoded(self) -> Decoded:
        return Decoded(
            [self.decoded_of(name) for name, _ in self.types],
            self.formats,
            time_is_text=self.event_time.kind == "json" and self.event_time.unit == "iso",
            ignores_case=any(shape.case == "insensitive" for _, shape in self.shapes),
        )

    @cached_property
    def _versions(self) -> frozenset[int]:
        """Those of the decoder that are read here. Kept: every type's decoder asks, and it parses the types of all."""
        return versions_read(self._decoded)

    @cached_property
    def is_earlier(self) -> bool:
        """Whether an earlier version of the decoder read its values, and nothing here reads them as that one did."""
        return self.decoder_version < self.decoder_here and self.decoder_version not in self._versions

    @property
    def earlier(self) -> tuple[Routing, ...]:
        """The same configuration under earlier versions, which is read here as those read it; the latest first."""
        versions = sorted(self._versions, reverse=True)
        return tuple(replace(self, decoder_version=one) for one in versions if one < self.decoder_version)

    @property
    def strict_times(self) -> bool:
        """Whether texts of times are read as before version 3."""
        earlier = {self.decoder_version, THIRD_DECODER} <= self._versions
        return earlier and self.decoder_version < THIRD_DECODER

    def columns_of(self, event_type: str) -> str:
        """Spark schema JSON of what is declared of a type: nothing of one that has a table without being declared,
        but for the one column of raw values, and constants. Where types are topics, the format of that topic
        counts."""
        if event_type in self.schemas:
            return self.schemas[event_type]
        bare = self._unshaped(event_type)
        return with_fields(bare, constant_fields(self.constants)) if self.constants else bare

    def _unshaped(self, event_type: str) -> str:
        form = self.format_of(event_type) if self.type_from.kind == "topic" else self.value_format
        return self.schemas.get(event_type, RAW_COLUMNS.get(form.kind, NO_COLUMNS))

    @cached_property
    def shape_by_type(self) -> dict[str, Shape]:
        """Declared type -> what becomes of its rows."""
        return dict(self.shapes)

    def decoded_of(self, event_type: str) -> str:
        """Spark schema JSON of what is decoded of a type's values: its declared columns, if nothing shapes them."""
        shape = self.shape_by_type.get(event_type)
        return shape.decoded if shape is not None else self._unshaped(event_type)

    def ignores_case(self, event_type: str) -> bool:
        """Whether a field of its values fills a column whose name differs from its own by case only."""
        shape = self.shape_by_type.get(event_type)
        return shape is not None and shape.case == "insensitive"

    def tables_of(self, text: str) -> tuple[str, ...]:
        """The event types whose tables take a record that says this event type; none: it is unrouted."""
        return self.taking(renamed(self.renames, text))

    def taking(self, name: str) -> tuple[str, ...]:
        """tables_of() an event type that is renamed already."""
        found = matched(self.matches, name)
        if name in self.schemas and name not in self._matching:
            found.append(name)
        if not found and self.takes_new(name):
            found.append(name)
        return tuple(sorted(found))

    def destinations_of(self, text: str) -> tuple[str, ...]:
        """tables_of(), or the declared type that takes what is of no table."""
        return self.tables_of(text) or self.taking_unrouted

    @cached_property
    def taking_unrouted(self) -> tuple[str, ...]:
        """The declared type that takes what is of no table, if one does."""
        return () if self.unrouted in (COUNT, TO_DEAD_LETTERS) else (self.unrouted,)

    @cached_property
    def has_rules(self) -> bool:
        """Whether a record may go to the table of another event type than it says."""
        return bool(self.renames or self.matches or self.taking_unrouted)

    @property
    def fans_out(self) -> bool:
        """Whether a record may belong to several tables."""
        return bool(self.matches)

    @cached_property
    def _matching(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.matches)

    @property
    def active_types(self) -> tuple[str, ...]:
        """The declared types and the dead letters, which come first."""
        return (DEAD_LETTERS, *(name for name, _ in self.types))

    def active_with(self, stored: Iterable[str]) -> tuple[str, ...]:
        """All active types: also those that are filled undeclared. stored: event types with a table of this app."""
        return (*self.active_types, *sorted({name for name in stored if self.is_new(name)}))

    def is_new(self, name: str) -> bool:
        """True for an event type that has a table without being declared."""
        return name not in self.schemas and self.takes_new(name)

    def takes_new(self, name: str) -> bool:
        """True if records of this undeclared event type have a table of their own."""
        return self.new_type == "table" and not self.clash(name)

    def clash(self, name: str) -> str:
        """Why an undeclared event type cannot have a table; empty if it can.

        By its name and the configuration alone (ROUTE): two undeclared types whose names differ by case only both
        have a table, because which of them came first is nothing that a record knows. A file system that takes
        their two folders for one is noticed when the second table is opened.
        """
        try:
            folder = table_folder(name).lower()
        except BadName as error:
            return str(error)
        if folder == DEAD_LETTERS:
            return f"{DEAD_LETTERS} is the exporter's own table"
        declared = self._declared_folders.get(folder)
        return f"{name!r} and the declared type {declared!r} differ by case only" if declared else ""

    @cached_property
    def _declared_folders(self) -> dict[str, str]:
        """Folder in lower case -> declared event type."""
        return {table_folder(name).lower(): name for name, _ in self.types}

    def to_json(self) -> str:
        """Canonical JSON: equal configurations give equal text."""
        return json.dumps(_as_stored(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Routing:
        """The inverse of `to_json`: the configuration that a text records."""
        fields = json.loads(text)
        fields["type_from"] = TypeFrom(**fields["type_from"])
        fields["event_time"] = EventTime(**fields["event_time"])
        fields["types"] = tuple((name, schema) for name, schema in fields["types"])
        if "value_format" in fields:
            fields["value_format"] = _value_format(fields["value_format"])
        if "topic_formats" in fields:
            fields["topic_formats"] = tuple((name, _value_format(form)) for name, form in fields["topic_formats"])
        if "renames" in fields:
            fields["renames"] = tuple(Rename(**one) for one in fields["renames"])
        if "shapes" in fields:
            fields["shapes"] = tuple((name, Shape.from_stored(one)) for name, one in fields["shapes"])
        for name in ("matches", "constants"):
            if name in fields:
                fields[name] = tuple((one, other) for one, other in fields[name])
        return cls(**fields)

    def fingerprint(self) -> str:
        """16 hex digits of SHA-256 over the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


def _value_format(fields: dict[str, Any]) -> ValueFormat:
    schemas = tuple((name, text) for name, text in fields.get("schemas", ()))
    return ValueFormat(**{**fields, "schemas": schemas, "before": tuple(fields.get("before", ()))})


def _as_stored(value: Any) -> Any:
    """What is written of a configuration or of one of its parts."""
    if isinstance(value, tuple):
        return [_as_stored(one) for one in value]
    if not is_dataclass(value):
        return value
    stands = {field: getattr(value, field.name) for field in fields(value)}
    return {
        field.name: _as_stored(found)
        for field, found in stands.items()
        if field.name in ALWAYS_WRITTEN or found != field.default
    }
