"""Avro's schemas -> columns: those that a plan reads, but for what no table has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.resolve import Unresolvable
from exporter.formats.avro.schema import BadAvroSchema, Schema, named_in, parsed, parsed_files, records_of
from exporter.formats.spark_columns import Registered, spark_fields


def avro_columns(schema: SchemaText, place: str, connect: bool) -> Registered:
    """The columns of a registered schema. place: the number of a branch, if it is a union; else those of the one
    record that there is. Raises ConfigError."""
    try:
        found = parsed(schema)
        if found.branches:
            found = _branch(found, place)
        return _columns(found, connect)
    except (BadAvroSchema, RecursionError) as error:
        raise ConfigError(f"an Avro schema cannot be used: {error}", "register another one") from None


def avro_places(schema: SchemaText) -> Sequence[str]:
    """The places of a registered schema that have columns: numbers of a union's records. Raises ConfigError."""
    try:
        branches = parsed(schema).branches
    except (BadAvroSchema, RecursionError):
        return ("",)
    return [str(number) for number, one in enumerate(branches) if one.kind == "record"] or ("",)


def _branch(union: Schema, place: str) -> Schema:
    """The record of a root union that a place names. Raises ConfigError."""
    if place.isdecimal() and int(place) < len(union.branches):
        return union.branches[int(place)]
    records = records_of([union])
    if len(records) != 1:
        what = f"an Avro schema cannot be used: $: it is a union of {len(records)} records"
        raise ConfigError(what, "each is a writer of its own")
    return records[0]


def avro_file_columns(form: ValueFormat) -> Mapping[str, Registered]:
    """The columns of all records of a format's schemas; of `message` if it stands inside of one. Raises ConfigError."""
    try:
        schemas = parsed_files(form.schemas)
    except BadAvroSchema as error:
        raise ConfigError(f"schema file {error}", "see `schema_files`") from None
    records = {one.name: one for one in records_of(schemas)}
    if form.message and form.message not in records:
        named = {name: one for schema in schemas for name, one in named_in(schema).items() if one.kind == "record"}
        records.update({form.message: named[form.message]} if form.message in named else {})
    return {name: _columns(one, form.semantic_types == "connect") for name, one in sorted(records.items())}


def _columns(schema: Schema, connect: bool) -> Registered:
    """The columns that a record's schema gives. Raises ConfigError."""
    if schema.kind != "record":
        raise ConfigError(f"an Avro schema cannot be used: $: {schema.kind} is no record", "wrap it in a record")
    try:
        plan = AvroPlan(schema, connect=connect)
    except Unresolvable as error:
        hint = "no record of this schema can be exported as it is"
        raise ConfigError(f"the Avro record {schema.name} cannot be used: {error}", hint) from None
    refused = dict(plan.refused)
    return Registered(schema.name, spark_fields(list(plan.kind), refused), refused)
