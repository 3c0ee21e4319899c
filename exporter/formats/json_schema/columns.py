"""The columns that follow from a JSON Schema. Pure.

    integer, number, boolean    BIGINT, DOUBLE, BOOLEAN
    string                      STRING; of format date-time TIMESTAMP, of date DATE
    object with properties      STRUCT of these
    object of one kind of value MAP<STRING, ...>
    array of one kind           ARRAY
    T or null, each way         T
    $ref                        what it refers to, in the document or in one that the registry names
    title, connect.parameters   with Connect's names of types: DECIMAL, DATE, TIMESTAMP

What else there is gives no column: its values stay in `_rescued`. A schema is never a reason to refuse a value, which
is JSON and is read without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from exporter.column.types import Field, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import Names, never_added
from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.semantic import SEMANTIC, ZONED
from exporter.formats.envelopes.connect import NAMED, ConnectEntries, ConnectItems, Fields, Node
from exporter.formats.envelopes.connect_columns import decimal_type
from exporter.formats.schema import SCHEMA_DEPTH_MAX
from exporter.formats.spark_columns import Registered

_SCALARS = {"integer": "long", "number": "double", "boolean": "boolean", "string": "string"}
_FORMATS = {"date-time": "timestamp", "date": "date"}
_LOGICAL = {
    ("date", "integer"): "date",
    **{(f"timestamp-{unit}", "integer"): "timestamp" for unit in ("millis", "micros", "nanos")},
    (ZONED, "string"): "timestamp",
}
"""Logical type and JSON's -> the column's."""


def json_file_columns(form: ValueFormat) -> dict[str, Registered]:
    """The columns of a format's own schemas, by their titles, or by the files' names. Raises ConfigError."""
    found: dict[str, Registered] = {}
    for file, text in form.schemas:
        one = json_columns(SchemaText("JSON", text), connect=form.semantic_types == "connect")
        name = one.name or file
        if name in found:
            raise ConfigError(f"{file}: another schema has the title {name!r} too", "give each a title of its own")
        found[name] = one
    return found


def json_columns(schema: SchemaText, place: str = "", connect: bool = False) -> Registered:
    """What a schema says of a table. place: means nothing here. connect: whether Connect's names of types count.

    Raises ConfigError for text that is no JSON.
    """
    return columns_at(schema, parsed_text(schema), title(schema), connect)


def columns_at(schema: SchemaText, part: Any, name: str, connect: bool = False) -> Registered:
    """The columns of a part of a schema, which is called by a name."""
    walk = SchemaWalk(schema, connect)
    fields: tuple[Field, ...] = ()
    try:
        found, document, trail = walk.resolved(part, schema, "$", (_name(schema, ""),))
        if not isinstance(found, dict) or not isinstance(found.get("properties"), dict):
            raise NoColumn("$", "its values are no objects with properties")
        fields = walk.fields(found["properties"], document, "$", 1, trail, top=True)
    except NoColumn as no:
        walk.refused[no.path] = no.why
    return Registered(name, fields, walk.refused)


def title(schema: SchemaText) -> str:
    """The name of what a schema describes; empty if it has none. Raises ConfigError for text that is no JSON."""
    whole = parsed_text(schema)
    found = whole.get("title", "") if isinstance(whole, dict) else ""
    return found if isinstance(found, str) else ""


class NoColumn(Exception):
    """A place of which no column follows."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


@lru_cache(64)
def node_of(schema: SchemaText) -> Node | None:
    """What is not as JSON has it in values of a schema, by Connect's names of types; None: nothing."""
    try:
        return _node(parsed_text(schema), schema, SchemaWalk(schema), 0, (_name(schema, ""),))
    except ConfigError:
        return None


def _node(schema: Any, document: SchemaText, walk: SchemaWalk, depth: int, trail: tuple[str, ...]) -> Node | None:
    if depth > SCHEMA_DEPTH_MAX:
        return None
    try:
        found, document, trail = walk.resolved(schema, document, "$", trail)
    except NoColumn:
        return None
    if _named(found) and found.get("title") in NAMED:
        return NAMED[found["title"]]({"parameters": found.get("connect.parameters")}, "$")
    properties = found.get("properties")
    if isinstance(properties, dict):
        nodes = {name: _node(one, document, walk, depth + 1, trail) for name, one in properties.items()}
        fields = {name: node for name, node in nodes.items() if node is not None}
        return Fields(fields) if fields else None
    for word, made in (("items", ConnectItems), ("additionalProperties", ConnectEntries)):
        if isinstance(found.get(word), dict):
            below = _node(found[word], document, walk, depth + 1, trail)
            return None if below is None else made(below)
    return None


@dataclass
class SchemaWalk:
    """From a schema to types. refused: path -> why there is no column, grows. connect: whether Connect's names of
    types count."""

    root: SchemaText
    connect: bool = False
    refused: dict[str, str] = field(default_factory=dict)

    def fields(
        self, properties: Mapping[str, Any], document: SchemaText, path: str, depth: int, trail: tuple[str, ...],
        top: bool = False,
    ) -> tuple[Field, ...]:  # fmt: skip
        """The columns of an object's properties; one that gives none is left out."""
        made: list[Field] = []
        names = Names(())
        for name, inner in properties.items():
            at = f"{path}.{name}"
            try:
                if never_added(name, top=top) or names.clash(name):
                    raise NoColumn(at, "no column can have this name beside the others")
                kind = self.kind(inner, document, at, depth + 1, trail)
            except NoColumn as no:
                self.refused[no.path] = no.why
                continue
            names.add(name)
            made.append(Field(name, kind))
        return tuple(made)

    def kind(self, schema: Any, document: SchemaText, path: str, depth: int, trail: tuple[str, ...]) -> Type:
        """The column type of a schema. Raises NoColumn."""
        if depth > SCHEMA_DEPTH_MAX:
            raise NoColumn(path, f"it is nested deeper than {SCHEMA_DEPTH_MAX} levels")
        found, document, trail = self.resolved(schema, document, path, trail)
        if self.connect and (named := _named(found)):
            return named
        one = _one_type(found, path)
        if one == "object":
            return self._object(found, document, path, depth, trail)
        if one == "array":
            items = found.get("items")
            if not isinstance(items, dict) or "prefixItems" in found:
                raise NoColumn(path, "its elements are not of one kind that is told")
            return ListType(self.kind(items, document, f"{path}[]", depth + 1, trail))
        if one == "string":
            return ScalarType(_FORMATS.get(str(found.get("format")), "string"))
        if one not in _SCALARS:
            raise NoColumn(path, f"there is no type {one!r}")
        return ScalarType(_SCALARS[one])

    def _object(
        self, found: Mapping[str, Any], document: SchemaText, path: str, depth: int, trail: tuple[str, ...]
    ) -> Type:
        properties, others = found.get("properties"), found.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            fields = self.fields(properties, document, path, depth, trail)
            if not fields:
                raise NoColumn(path, "none of its properties is a column")
            return StructType(fields)
        if not isinstance(others, dict):
            raise NoColumn(path, "it does not tell which fields it has")
        return MapType(ScalarType("string"), self.kind(others, document, f"{path}{{}}", depth + 1, trail))

    def resolved(
        self, schema: Any, document: SchemaText, path: str, trail: tuple[str, ...]
    ) -> tuple[Any, SchemaText, tuple[str, ...]]:
        """A schema without the wrappings that say no more than `or null`, and where its own references count from.

        trail: the references that led here: one that leads to itself has no end.
        """
        while True:
            if not isinstance(schema, dict):
                raise NoColumn(path, "it may be anything" if schema is True else "it is no schema")
            if "$ref" in schema:
                schema, document, name = _referred(str(schema["$ref"]), document, path)
                if name in trail:
                    raise NoColumn(path, "it is in itself again")
                trail = (*trail, name)
                continue
            choices = next((schema[word] for word in ("oneOf", "anyOf", "allOf") if word in schema), None)
            if choices is None or "properties" in schema:
                return schema, document, trail
            rest = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(rest) != 1:
                raise NoColumn(path, "it may be of several kinds")
            schema = rest[0]


def _one_type(schema: Mapping[str, Any], path: str) -> str:
    """The one type beside null. Raises NoColumn."""
    kinds = schema.get("type")
    named = kinds if isinstance(kinds, list) else [kinds] if kinds is not None else [*_implied(schema)]
    rest = [kind for kind in named if kind != "null"]
    if {*rest} == {"integer", "number"}:
        return "number"
    if len(rest) != 1 or not isinstance(rest[0], str):
        raise NoColumn(path, "it may be of several kinds" if len(rest) > 1 else "it tells no type")
    return rest[0]


def _named(schema: Mapping[str, Any]) -> Type | None:
    """The type that Connect's name of a schema's type stands for, where its values are what the name counts on."""
    title, kind = schema.get("title"), schema.get("type")
    logical = SEMANTIC.get(title, "") if isinstance(title, str) else ""
    if logical == "decimal":
        return decimal_type(schema.get("connect.parameters")) if kind in ("number", "string") else None
    found = _LOGICAL.get((logical, str(kind)))
    return ScalarType(found) if found else None


def _implied(schema: Mapping[str, Any]) -> Iterator[str]:
    """What a schema without a type says by what else it has."""
    if "properties" in schema:
        yield "object"
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(one, str) or one is None for one in values):
        yield "string"


def _referred(ref: str, document: SchemaText, path: str) -> tuple[Any, SchemaText, str]:
    """What a reference leads to, the document that it is in, and a name for it. Raises NoColumn."""
    place, _, pointer = ref.partition("#")
    whole = parsed_text(document)
    if place and not (isinstance(whole, dict) and place == whole.get("$id")):
        named = dict(document.references)
        if place not in named:
            raise NoColumn(path, f"it refers to {place!r}, which is not among the schema's references")
        document = named[place]
        whole = parsed_text(document)
    for step in filter(None, unquote(pointer).split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(whole, dict) or key not in whole:
            raise NoColumn(path, f"it refers to {ref!r}, where there is nothing")
        whole = whole[key]
    return whole, document, _name(document, pointer)


def _name(document: SchemaText, pointer: str) -> str:
    """Of a place in a document; one for all that lead to it."""
    return f"{id(document)}#{pointer}"


def parsed_text(schema: SchemaText) -> Any:
    """What a text says. Raises ConfigError."""
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a JSON Schema is no JSON: {error}", "register it anew, or correct the file") from error
