"""Which columns the tables of event types get from schemas, registered ones and those of the settings (SchemaColumns).

In the driver alone. What makes columns of a schema is `registered.py`; here is which schema it is for a type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from exporter.column.types import Field, ScalarType, StructType
from exporter.core.routing import Routing
from exporter.core.schemas import CARRIED, KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.envelopes.columns import unwrapped
from exporter.formats.envelopes.connect_columns import connect_columns
from exporter.formats.registered import registered, registered_files

CARRIED_MAX = 1_000
"""Schemas that are remembered where records bring their own: those of garbage may be as many as records."""


class HasColumns(Protocol):
    """As formats/registered.py has it. name: of a record or message."""

    @property
    def name(self) -> str: ...

    @property
    def fields(self) -> Sequence[Field]: ...


class FromSchemas:
    """Of one configuration. Remembers what a schema asked for."""

    def __init__(
        self,
        routing: Routing,
        columns: Callable[[SchemaText, str, str], HasColumns] = registered,
        files: Callable[[ValueFormat], Mapping[str, HasColumns]] = registered_files,
    ) -> None:
        """columns, files: as in registered.py. Raises ConfigError for schemas of the settings that cannot be used."""
        self._routing = routing
        self._columns = columns
        self._files = {form: files(form) for form in routing.formats if form.has_schemas and not form.has_ids}
        self._readers = {form: files(form) for form in routing.formats if form.has_ids}
        self._known: dict[tuple[str, ValueFormat], Sequence[Field]] = {}

    def of_key(self, key: str, schemas: KnownSchemas, topic: str) -> Sequence[Field]:
        """See SchemaColumns. Those of the reader's schema, where a file has one of the same name."""
        form = self._routing.format_of(topic)
        if key.startswith(CARRIED):
            return self._carried(key, form)
        if (key, form) not in self._known:
            schema_id, _, place = key.partition(":")
            text = schemas.text(int(schema_id))
            if text is None:
                return ()
            try:
                found = self._columns(text, place, form.semantic_types)
                reader = self._readers.get(form, {}).get(found.name, found)
                self._known[key, form] = self._counting(unwrapped(reader.fields, form.envelope), form)
            except ConfigError:  # its records are refused for that
                self._known[key, form] = ()
        return self._known[key, form]

    def _counting(self, fields: Sequence[Field], form: ValueFormat) -> Sequence[Field]:
        """With a whole number where an event time is counted in JSON: it is read as that, whatever it is called."""
        time = self._routing.event_time
        counts = form.kind == "json_schema" and time.kind == "json" and time.unit != "iso"
        return counted(fields, time.path.split(".")) if counts else fields

    def _carried(self, key: str, form: ValueFormat) -> Sequence[Field]:
        """Those of a schema that a record brings along; none beyond so many different ones."""
        if (key, form) not in self._known and len(self._known) < CARRIED_MAX:
            try:
                found = connect_columns(key.removeprefix(CARRIED).encode(), form.semantic_types == "connect")
                self._known[key, form] = unwrapped(found.fields, form.envelope)
            except ConfigError:  # its records are refused for that
                self._known[key, form] = ()
        return self._known.get((key, form), ())

    def of_type(self, event_type: str, topic: str = "") -> Sequence[Field]:
        """Implements `SchemaColumns.of_type`: the columns that schemas give a type."""
        form = self._routing.format_of(topic) if topic else self._form_of(event_type)
        if form is None or form not in self._files:
            return ()
        there, source = self._files[form], self._routing.type_from
        if source.kind == "schema":
            short = source.name == "short"
            fit = [one for name, one in there.items() if event_type == (name.rpartition(".")[2] if short else name)]
        else:
            fit = [one for name, one in there.items() if form.message in ("", name)]
        return self._counting(unwrapped(fit[0].fields, form.envelope), form) if len(fit) == 1 else ()

    def _form_of(self, event_type: str) -> ValueFormat | None:
        """The format of a type's values; None if it may be several."""
        if self._routing.type_from.kind == "topic":
            return self._routing.format_of(event_type)
        formats = self._routing.formats
        return formats[0] if len(formats) == 1 else None


def counted(fields: Sequence[Field], path: Sequence[str]) -> Sequence[Field]:
    """The fields with BIGINT at a path where they have a time."""
    return [_counted(one, path[1:]) if one.name == path[0] else one for one in fields]


def _counted(one: Field, below: Sequence[str]) -> Field:
    if not below and one.type == ScalarType("timestamp"):
        return replace(one, type=ScalarType("long"))
    if below and isinstance(one.type, StructType):
        return replace(one, type=replace(one.type, fields=tuple(counted(one.type.fields, below))))
    return one
