"""The shop's events as Avro with the frame of Confluent's serialisers, and their schemas in a registry.

    JSON event ── its first fields, encoded each time ── the others, encoded once for each text ── 00, id, Avro

What is bad is so in ways that Avro has. A few events come of a later writer, whose schema has a field more.
"""

from __future__ import annotations

import io
import json
import re
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from exporter.demo.shop import RECORD_BYTES_MAX, ShopEvent
from exporter.demo.shop_types import EVENT_TYPES
from exporter.errors import ConfigError, DependencyUnreachable

NAMESPACE = "shop"
LATER = "later"
"""Name of the field that only the later writers have."""
_SCALARS: Mapping[str, Any] = {
    "BIGINT": "long", "INT": "int", "SMALLINT": "int", "DOUBLE": "double", "BOOLEAN": "boolean", "STRING": "string",
    "BINARY": "bytes", "DATE": {"type": "int", "logicalType": "date"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip
_TOKEN = re.compile(r"\s*([A-Za-z_0-9`]+|[<>(),:])")
_HEAD = ("seq", "ts", "user_id", "session")
_REGISTER_SECS_MAX = 30.0


def subject(name: str, topic: str) -> str:
    """The subject of an event type's schemas, as TopicRecordNameStrategy calls it."""
    return f"{topic}-{NAMESPACE}.{name}"


@cache
def schemas(later: bool = False) -> dict[str, dict[str, Any]]:
    """Event type -> Avro schema. later: those with one field more, which may be left out."""
    found = {}
    for one in EVENT_TYPES:
        fields = _Ddl(one.ddl, one.name).fields()
        more = [{"name": LATER, "type": ["null", "string"], "default": None}] if later else []
        found[one.name] = {"type": "record", "name": one.name, "namespace": NAMESPACE, "fields": [*fields, *more]}
    return found


def register(url: str, topic: str) -> dict[str, tuple[int, int]]:
    """Event type -> the ids of its schema and of the later one. Raises DependencyUnreachable."""
    ids: dict[str, list[int]] = {name: [] for name in schemas()}
    for found in (schemas(), schemas(later=True)):
        for name, schema in found.items():
            ids[name].append(_registered(f"{url}/subjects/{subject(name, topic)}/versions", schema))
    return {name: (first, second) for name, (first, second) in ids.items()}


def _registered(url: str, schema: Mapping[str, Any]) -> int:
    body = json.dumps({"schema": json.dumps(schema), "schemaType": "AVRO"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
    try:
        with opener.open(request, timeout=_REGISTER_SECS_MAX) as answer:
            return int(json.load(answer)["id"])
    except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
        raise DependencyUnreachable(f"the schema registry took no schema: {error}", "start the demo again") from error


class AvroEvents:
    """Turns JSON events into Avro. ids: from register(). Raises ConfigError where fastavro is not installed."""

    def __init__(self, ids: Mapping[str, tuple[int, int]]) -> None:
        try:
            import fastavro
        except ImportError as error:
            hint = "pip install 'kafka-delta-exporter[audit]'"
            raise ConfigError("Avro is written by fastavro, which is not installed", hint) from error
        self._ids = ids
        self._write = fastavro.schemaless_writer
        self._later = fastavro.parse_schema(["null", "string"])
        self._head: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}
        for name, schema in schemas().items():
            fields = schema["fields"]
            self._head[name] = self._part(fastavro, schema, fields[: len(_HEAD)])
            self._rest[name] = self._part(fastavro, schema, fields[len(_HEAD) :])
        self._known: dict[tuple[str, bytes], bytes] = {}

    @staticmethod
    def _part(fastavro: Any, schema: Mapping[str, Any], fields: list[Any]) -> Any:
        return fastavro.parse_schema({**schema, "fields": json.loads(json.dumps(fields))})

    def of(self, event: ShopEvent) -> ShopEvent:
        """The same event as Avro; a bad one is bad in a way that Avro has."""
        name = event.event_type
        if event.bad == "tombstone":
            return event
        if event.bad == "":
            return event._replace(value=self._framed(name, 0, self.body(name, event.value or b"")))
        fields = {**_LEAST, **_read(event.value)}
        if event.bad == "absurd_event_time":
            return event._replace(value=self._framed(name, 0, self._encoded(name, fields)))
        if event.bad == "over_long":
            fields["session"] = "x" * (2 * RECORD_BYTES_MAX)
            return event._replace(value=self._framed(name, 0, self._encoded(name, fields)))
        if event.bad == "unknown_fields":
            return event._replace(value=self._framed(name, 1, self._encoded(name, fields) + self._one("green")))
        return event._replace(bad="truncated", value=self._framed(name, 0, self._encoded(name, fields)[:-1]))

    def body(self, name: str, value: bytes) -> bytes:
        """A good event, a JSON text of events(), without a frame."""
        cut = value.index(b'"session":"') + len(b'"session":"') + 12 + 2
        key = (name, value[cut:])
        if key not in self._known:
            self._known[key] = self._encoded_part(self._rest[name], json.loads(b"{" + value[cut:]))
        return self._encoded_part(self._head[name], json.loads(value[: cut - 1] + b"}")) + self._known[key]

    def _encoded(self, name: str, fields: Mapping[str, Any]) -> bytes:
        return self._encoded_part(self._head[name], fields) + self._encoded_part(self._rest[name], fields)

    def _encoded_part(self, schema: Any, fields: Mapping[str, Any]) -> bytes:
        stream = io.BytesIO()
        wanted = {one["name"]: _meant(one["type"], fields.get(one["name"])) for one in schema["fields"]}
        self._write(stream, schema, wanted)
        return stream.getvalue()

    def _one(self, text: str) -> bytes:
        stream = io.BytesIO()
        self._write(stream, self._later, text)
        return stream.getvalue()

    def _framed(self, name: str, version: int, body: bytes) -> bytes:
        return b"\0" + self._ids[name][version].to_bytes(4, "big") + body


_LEAST = {"seq": 0, "ts": "2025-03-10T00:00:00.000Z", "user_id": 0, "session": ""}
"""What a spoilt event may lack, and an Avro value cannot."""


def _read(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"")
    except ValueError:
        return {}
    return {name: one for name, one in found.items() if not (name == "user_id" and isinstance(one, dict))}


def _meant(kind: Any, value: Any) -> Any:
    """A value of JSON as fastavro takes it for a type."""
    if isinstance(kind, list):
        return None if value is None else _meant(kind[1], value)
    if value is None:
        return value
    name = kind if isinstance(kind, str) else kind.get("logicalType", kind["type"])
    if name == "record":
        return {one["name"]: _meant(one["type"], value.get(one["name"])) for one in kind["fields"]}
    if name == "array":
        return [_meant(kind["items"], one) for one in value]
    if name == "map":
        return {key: _meant(kind["values"], one) for key, one in value.items()}
    return _MEANT[name](value) if name in _MEANT else value


_MEANT: Mapping[str, Callable[[Any], Any]] = {
    "date": date.fromisoformat,
    "timestamp-micros": lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")),
    "decimal": lambda value: Decimal(str(value)),
    "bytes": b64decode,
    "double": float,
}


class _Ddl:
    """Columns of a Spark DDL as fields of Avro; all but the first four may be null. name: of the record."""

    def __init__(self, ddl: str, name: str) -> None:
        self._tokens = _TOKEN.findall(ddl)
        self._at = 0
        self._name = name

    def fields(self) -> list[dict[str, Any]]:
        """All columns of the DDL, as fields of Avro."""
        found = []
        while self._at < len(self._tokens):
            name = self._next()
            kind = self._kind(f"{self._name}_{name}")
            found.append({"name": name, "type": kind if name in _HEAD else ["null", kind]})
            self._skip(",")
        return found

    def _kind(self, name: str) -> Any:
        word = self._next()
        if word == "STRUCT":
            self._skip("<")
            fields = []
            while not self._skip(">"):
                field = self._next()
                self._skip(":")
                fields.append({"name": field, "type": ["null", self._kind(f"{name}_{field}")]})
                self._skip(",")
            return {"type": "record", "name": name, "fields": fields}
        if word in ("ARRAY", "MAP"):
            self._skip("<")
            if word == "MAP":
                self._next()
                self._skip(",")
            inner = self._kind(name)
            self._skip(">")
            return {"type": "array", "items": inner} if word == "ARRAY" else {"type": "map", "values": inner}
        if word == "DECIMAL":
            _, precision, _, scale, _ = (self._next() for _ in range(5))
            return {"type": "bytes", "logicalType": "decimal", "precision": int(precision), "scale": int(scale)}
        return _SCALARS[word]

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _skip(self, token: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += found
        return found
