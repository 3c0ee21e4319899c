"""The settings that are tables, in the TOML file only. Of formats: format_tables.py; of event types: type_tables.py."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from exporter.core.routing import EventTime, TypeFrom
from exporter.settings.format_tables import SchemaRegistry, ValueFormatTable
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.table import Table, check_path
from exporter.settings.type_tables import RenameTable, TypeTable


class TypeFromTable(Table):
    """[type_from]"""

    kind: Literal["header", "field", "json", "key", "topic", "schema", "source"] = Field(examples=["field"])
    """Where a record's event type stands: in a header, in a field of the value (json is another word for field), in the
    key, or it is the topic's name, the name of the value's schema, or the schema and table that an envelope says the
    row is of."""
    name: str = Field(default="", examples=["type"])
    """Name of the header, or dotted path of the field; of a schema full (the default) or short, without its namespace;
    empty for key, topic and source."""
    rename: tuple[RenameTable, ...] = Field(default=(), examples=[({"match": "(.*)-v[0-9]+", "to": "$1"},)])
    """Rules for event types, of which the first that fits a whole event type says what it is called from there on:
    `match` is a regular expression, `to` a text in which $1 and ${name} are groups and $$ is $."""

    @model_validator(mode="after")
    def _named(self) -> TypeFromTable:
        if self.kind == "schema":
            if self.name not in ("", "full", "short"):
                raise ValueError("name should be full or short with this kind")
            return self
        is_field = self.kind in ("json", "field")
        check_path("name", self.name, needed=is_field or self.kind == "header", dotted=is_field)
        return self

    @property
    def meant(self) -> TypeFrom:
        """As it is stored: one text for each meaning."""
        if self.kind == "field":
            return TypeFrom("json", self.name)
        return TypeFrom(self.kind, "" if (self.kind, self.name) == ("schema", "full") else self.name)


class EventTimeTable(Table):
    """[event_time]"""

    kind: Literal["field", "json", "record"] = Field(examples=["field"])
    """Where a record's event time stands: in a field of the value (json is another word for it), or it is the record's
    Kafka timestamp."""
    path: str = Field(default="", examples=["occurred_at"])
    """Dotted path of the field; empty for record."""
    unit: Literal["iso", "s", "ms", "us", "ns"] = "iso"
    """How the field tells the time: ISO-8601 text, or a number of seconds, milliseconds, microseconds or nanoseconds
    since 1970. A field that is a time by its schema needs no unit."""

    @model_validator(mode="after")
    def _pathed(self) -> EventTimeTable:
        check_path("path", self.path, needed=self.kind != "record", dotted=True)
        return self

    @property
    def meant(self) -> EventTime:
        """As it is stored: one text for each meaning."""
        return EventTime("json" if self.kind == "field" else self.kind, self.path, self.unit)


TABLES: dict[str, type[Table]] = {
    "type_from": TypeFromTable,
    "event_time": EventTimeTable,
    "types": TypeTable,
    "value_format": ValueFormatTable,
    "topic_formats": ValueFormatTable,
    "schema_registry": SchemaRegistry,
    "kafka_client": KafkaClient,
}
"""The settings that are tables, in the TOML file only."""

FREE = frozenset({"constants", "spark", "table_properties"})
"""Tables whose keys are not ours."""

NAMED = {"types": "event type", "topic_formats": "regular expression of topics"}
"""Of these there is a table for each of something."""

PATHS = frozenset(
    {"ssl_cafile", "ssl_certfile", "ssl_keyfile", "sasl_oauth_cafile", "sasl_kerberos_keytab"}
    | {"columns_file", "schema_files", "ca_file", "cert_file", "key_file", "proto"}
    | {f"{name}_file" for table in TABLES.values() for name in table.secrets()}
)
"""The settings in tables that are paths, relative to the TOML file."""

OF_VARIABLES = {
    f"{table}_{name}{end}": (table, f"{name}{end}")
    for table, model in TABLES.items()
    if table not in NAMED
    for name in model.secrets()
    for end in ("", "_file")
}
"""Settings in tables that the environment may give as well: secrets, so that a settings file holds none. As variable()
takes it -> table and setting."""
