"""JSON, with a schema in front or beside it or without, and values that are one column as they are."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.proof.contents.documents import read
from exporter.proof.readers.reader import NoGoodRecord, SentValue, object_in
from exporter.proof.readers.semantics import CONNECT, VARIABLE, ZONED, meant

DEPTH_MAX = 100
"""Of schemas in one another, references counted."""


class JsonDocuments:
    """Reads JSON by the standard library."""

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        return SentValue(object_in(body, read))


class TitledJson:
    """JSON whose schema has a title: that of the id in front of it, or the only one of the settings."""

    def __init__(self, form: ValueFormat) -> None:
        self._only = form.schemas[0][1] if len(form.schemas) == 1 else "{}"
        self._connect = form.semantic_types == "connect"

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        document = object_in(body, read)
        schema = SchemaText("JSON", self._only) if schema is None else schema
        whole = json.loads(schema.text)
        title = whole.get("title") if type(whole) is dict else None
        if type(whole) is dict and not title and "properties" not in whole:
            some = whole.get("oneOf") if type(whole.get("oneOf")) is list else whole.get("anyOf")
            if type(some) is list:
                some = [one for one in some if type(one) is not dict or one.get("type") != "null"]
                title = _choice(document, some, schema)
        if self._connect:
            document = _titled(whole, schema, document, 0)
        return SentValue(document, title if type(title) is str else "")


def _choice(document: dict[str, Any], some: list[Any], schema: SchemaText) -> str:
    """The name of the object that a value is: the one that asks for most of what the value has, alone; or empty."""
    best: list[tuple[int, str]] = []
    for one in some:
        found, ref = _followed(one, schema), one.get("$ref", "") if type(one) is dict else ""
        if type(found) is not dict or type(found.get("properties")) is not dict:
            return ""
        required = found.get("required")
        asked = {one for one in required if type(one) is str} if type(required) is list else set()
        fits = asked <= document.keys()
        for name, told in found["properties"].items():
            texts = ([told["const"]] if "const" in told else told.get("enum")) if type(told) is dict else None
            if texts and all(type(text) is str for text in texts):
                asked.add(name)
                fits = fits and (type(document.get(name)) is not str or document[name] in texts)
        if fits:
            best.append((len(asked), found.get("title") or ref.split("/")[-1]))
    most = [name for count, name in best if count == max(count for count, _ in best)]
    return most[0] if len(most) == 1 and len(some) > 1 else ""


def _followed(part: Any, schema: SchemaText, hops: int = 20) -> Any:
    """What a reference leads to, if there is one."""
    if type(part) is not dict or "$ref" not in part or not hops:
        return part
    name, _, pointer = part["$ref"].partition("#")
    whole = json.loads(schema.text)
    if name and name != (whole.get("$id") if type(whole) is dict else None):
        schema = dict(schema.references).get(name, SchemaText("JSON", "null"))
        whole = json.loads(schema.text)
    for step in [one for one in pointer.split("/") if one]:
        whole = whole.get(step) if type(whole) is dict else None
    return _followed(whole, schema, hops - 1)


def _titled(told: Any, document: SchemaText, value: Any, depth: int) -> Any:
    """A value by the titles of its schema, which are Connect's names of types; as it is where they say nothing."""
    if value is None or type(told) is not dict or depth > DEPTH_MAX:
        return value
    if "$ref" in told:
        place, _, pointer = str(told["$ref"]).partition("#")
        document = dict(document.references).get(place, document) if place else document
        told = json.loads(document.text)
        for step in [one for one in unquote(pointer).split("/") if one]:
            told = told.get(step.replace("~1", "/").replace("~0", "~")) if type(told) is dict else None
        return _titled(told, document, value, depth + 1)
    for word in ("oneOf", "anyOf", "allOf"):
        if word in told and "properties" not in told:
            rest = [one for one in told[word] if type(one) is not dict or one.get("type") != "null"]
            return _titled(rest[0], document, value, depth + 1) if len(rest) == 1 else value
    name, parameters = told.get("title"), told.get("connect.parameters") or {}
    stored = {"integer": int, "string": str, "number": str}.get(str(told.get("type")))
    if type(name) is str and stored is type(value) and name not in (VARIABLE, ZONED):
        scale = str(parameters.get("scale", "0")) if type(parameters) is dict else "x"
        if not name.endswith(".Decimal") or (scale.isdecimal() and int(scale) <= 38):
            return meant(name, parameters if type(parameters) is dict else {}, value)
    if type(value) is dict and type(inner := told.get("properties")) is dict:
        return {name: _titled(inner.get(name), document, one, depth + 1) for name, one in value.items()}
    if type(value) is dict:
        others = told.get("additionalProperties")
        return {name: _titled(others, document, one, depth + 1) for name, one in value.items()}
    if type(value) is list:
        return [_titled(told.get("items"), document, one, depth + 1) for one in value]
    return value


class ConnectJson:
    """Connect's {"schema": ..., "payload": ...}: names of types say what a value means, Debezium's by option."""

    def __init__(self, form: ValueFormat) -> None:
        self._debezium = form.semantic_types == "connect"

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        found = object_in(body, read)
        if set(found) != {"schema", "payload"}:
            raise NoGoodRecord("no payload beside a schema")
        told, payload = found.get("schema"), found["payload"]
        name = str(told.get("name") or "") if type(told) is dict else ""
        payload = self._shaped(told, payload)
        if type(payload) is not dict:
            raise NoGoodRecord("the payload is no object")
        return SentValue(payload, name)

    def _shaped(self, schema: Any, value: Any) -> Any:
        """A value by its Connect schema; as it is where the two do not meet."""
        if value is None or type(schema) is not dict:
            return value
        name = schema.get("name")
        if type(name) is str and (name.startswith(CONNECT) or (self._debezium and name != ZONED)):
            found = meant(name, schema.get("parameters") or {}, value)
            if found is not value:
                return found
        kind = schema.get("type")
        if kind == "struct" and type(value) is dict:
            told: Any = schema.get("fields")
            some = [one for one in told if type(one) is dict] if type(told) is list else []
            fields = {str(one.get("field")): one for one in some}
            return {name: self._shaped(fields.get(name), one) for name, one in value.items()}
        if kind == "array" and type(value) is list:
            return [self._shaped(schema.get("items"), one) for one in value]
        if kind == "map" and type(value) is dict:
            return {name: self._shaped(schema.get("values"), one) for name, one in value.items()}
        return value


class RawValues:
    """One column `value`. is_text: it is UTF-8."""

    def __init__(self, is_text: bool) -> None:
        self._is_text = is_text

    def read(self, body: bytes, schema: SchemaText | None) -> SentValue:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        try:
            return SentValue({"value": body.decode("utf-8") if self._is_text else body})
        except UnicodeDecodeError as error:
            raise NoGoodRecord(str(error)) from error
