"""JSON, with a schema in front or beside it or without, and values that are one column as they are."""

from __future__ import annotations

import json
from typing import Any

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.operate.audit.contents.documents import NotJson, read
from exporter.operate.audit.readers.reader import Refused, Sent
from exporter.operate.audit.readers.semantics import CONNECT, ZONED, meant


class JsonDocuments:
    """By the standard library."""

    def read(self, body: bytes, schema: SchemaText | None) -> Sent:
        """See Reader."""
        return Sent(_object(body))


class TitledJson:
    """JSON whose schema has a title: that of the id in front of it, or the only one of the settings."""

    def __init__(self, form: ValueFormat) -> None:
        self._only = form.schemas[0][1] if len(form.schemas) == 1 else "{}"

    def read(self, body: bytes, schema: SchemaText | None) -> Sent:
        """See Reader."""
        whole = json.loads(self._only if schema is None else schema.text)
        title = whole.get("title") if type(whole) is dict else None
        return Sent(_object(body), title if type(title) is str else "")


class ConnectJson:
    """Connect's {"schema": ..., "payload": ...}: names of types say what a value means, Debezium's by option."""

    def __init__(self, form: ValueFormat) -> None:
        self._debezium = form.semantic_types == "connect"

    def read(self, body: bytes, schema: SchemaText | None) -> Sent:
        """See Reader."""
        found = _object(body)
        if set(found) != {"schema", "payload"}:
            raise Refused("no payload beside a schema")
        told, payload = found.get("schema"), found["payload"]
        name = str(told.get("name") or "") if type(told) is dict else ""
        payload = self._shaped(told, payload)
        if type(payload) is not dict:
            raise Refused("the payload is no object")
        return Sent(payload, name)

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
            fields = {one.get("field"): one for one in schema.get("fields") or ()}
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

    def read(self, body: bytes, schema: SchemaText | None) -> Sent:
        """See Reader."""
        try:
            return Sent({"value": body.decode("utf-8") if self._is_text else body})
        except UnicodeDecodeError as error:
            raise Refused(str(error)) from error


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = read(body)
    except NotJson as error:
        raise Refused(str(error)) from error
    if type(found) is not dict:
        raise Refused("no object")
    return found
