"""Which columns a table gets of a Protobuf schema. In the driver.

A field that no column can hold is left out, and told: its values are kept where those of unknown fields are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from exporter.core.columns import Names, unfit
from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.protobuf.descriptors import BadSchema, descriptors
from exporter.formats.protobuf.plan import Unusable, plan_of

_SPARK: Mapping[pa.DataType, str] = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.decimal128(20, 0): "decimal(20,0)",
    pa.timestamp("us", "UTC"): "timestamp",
}


class Columns(NamedTuple):
    """name: full, of the message. fields: of a Spark schema, as parsed JSON, all nullable. refused: path -> why."""

    name: str
    fields: Sequence[Mapping[str, Any]]
    refused: Mapping[str, str]


def message_columns(schema: SchemaText, place: str = "") -> Columns:
    """Those of a registered message. place: its indexes, `1.0`; empty is the first one. Raises ConfigError."""
    found = descriptors(schema.text, schema.references)
    name = found.places.get(tuple(int(index) for index in place.split(".")) if place else (0,))
    if name is None:
        raise BadSchema(f"a Protobuf schema has no message {place or '0'}", "give the file that the message is in")
    try:
        return _columns(name, plan_of(found, name).type)
    except Unusable as error:
        raise BadSchema(f"message {name} has no columns: {error}", "declare what it can be, or leave it out") from None


def file_columns(form: ValueFormat) -> dict[str, Columns]:
    """Full name -> those of each message in a format's own files that can be read.

    Raises ConfigError if the one that the settings name cannot, or if a file cannot be used.
    """
    made: dict[str, Columns] = {}
    for file, text in form.schemas:
        try:
            found = descriptors(text)
        except BadSchema as error:
            raise ConfigError(f"schema file {file}: {error.message}", error.hint) from None
        for name in found.messages if form.message in found.messages else found.places.values():
            if name in made or found.messages[name].entry:
                continue
            try:
                made[name] = _columns(name, plan_of(found, name).type)
            except Unusable as error:
                if name == form.message:
                    what = f"schema file {file}: message {name} cannot be read: {error}"
                    raise ConfigError(what, "leave out what no column can hold") from None
    return made


def _columns(name: str, record: pa.StructType) -> Columns:
    refused: dict[str, str] = {}
    return Columns(name, _fields(record, "", refused), refused)


def _fields(struct: pa.StructType, path: str, refused: dict[str, str]) -> list[dict[str, Any]]:
    """The fields of a struct that columns can have."""
    fields: list[dict[str, Any]] = []
    names = Names(())
    for field in struct:
        here = f"{path}.{field.name}" if path else field.name
        if unfit(field.name, top=not path):
            refused[here] = "no column can have this name"
        elif names.clash(field.name):
            refused[here] = "Spark and Delta take its name for another one's"
        elif (kind := _spark(field.type, here, refused)) is None:
            refused.setdefault(here, "a struct without fields cannot be stored")
        else:
            names.add(field.name)
            fields.append({"name": field.name, "type": kind, "nullable": True, "metadata": {}})
    return fields


def _spark(kind: pa.DataType, path: str, refused: dict[str, str]) -> Any:
    """A type as parsed JSON; None if nothing is left of it."""
    if pa.types.is_struct(kind):
        fields = _fields(kind, path, refused)
        return {"type": "struct", "fields": fields} if fields else None
    if pa.types.is_map(kind):
        value = _spark(kind.item_type, f"{path}{{}}", refused)
        whole = {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        return None if value is None else whole
    if pa.types.is_list(kind):
        item = _spark(kind.value_type, f"{path}[]", refused)
        return None if item is None else {"type": "array", "elementType": item, "containsNull": True}
    return _SPARK[kind]
