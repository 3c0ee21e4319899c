"""Schemas, of a registry or of files -> the columns that tables get of them. Pure.

A schema that cannot be used at all raises ConfigError: of files at the start. Each record of a registered one is
refused by its format with the same words, so who makes columns passes over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.columns import avro_columns, avro_file_columns, avro_places
from exporter.formats.json_schema.columns import json_file_columns
from exporter.formats.json_schema.roots import choice_columns, choice_places
from exporter.formats.protobuf.columns import protobuf_columns, protobuf_file_columns
from exporter.formats.spark_columns import Registered

TEXTS: Mapping[str, Callable[[SchemaText, str, bool], Registered]] = {
    "AVRO": avro_columns,
    "PROTOBUF": protobuf_columns,
    "JSON": choice_columns,
}
"""Kind of a schema's text -> its columns. The second argument is a place in it, the third whether Connect's names
count."""
PLACES: Mapping[str, Callable[[SchemaText], Sequence[str]]] = {"AVRO": avro_places, "JSON": choice_places}
"""Kind of a schema's text -> its places, of those kinds of which one text may describe several records."""
FILES: Mapping[str, Callable[[ValueFormat], Mapping[str, Registered]]] = {
    "avro": avro_file_columns,
    "protobuf": protobuf_file_columns,
    "json_schema": json_file_columns,
}
"""Kind of values -> the columns of a format's own schemas, by full name."""

__all__ = ["Registered", "places", "registered", "registered_files"]


def registered(schema: SchemaText, place: str = "", semantic_types: str = "none") -> Registered:
    """The columns of a registered schema. place: which record: `1.0` of Protobuf, `1` of a union; "" is the first.

    semantic_types: of the format. Raises ConfigError for a schema that cannot be used.
    """
    found = TEXTS.get(schema.kind)
    if found is None:
        raise ConfigError(f"schemas of the kind {schema.kind} give no columns", "declare the columns")
    return found(schema, place, semantic_types == "connect")


def places(schema: SchemaText) -> Sequence[str]:
    """The records that a registered schema describes, as far as it lists them at its root; "" is the first one."""
    found = PLACES.get(schema.kind)
    return found(schema) if found is not None else ("",)


def registered_files(form: ValueFormat) -> Mapping[str, Registered]:
    """The columns of a format's own schemas, by full name. Raises ConfigError for those that cannot be used."""
    found = FILES.get(form.kind)
    return found(form) if found is not None and form.schemas else {}
