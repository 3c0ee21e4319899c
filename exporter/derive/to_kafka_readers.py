"""What the bytes of a record say, by the columns that they are of, as rows say it: by the audit's reading of values.

    numbers, texts, bytes as they are    times: days, or microseconds since 1970    decimals: their digits
    a struct: the values of its fields, in order    a list or map: its items, in order, a map's by key

Protobuf cannot tell a default from a null: there both are None.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from operator import itemgetter
from typing import Any, Protocol

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.proof.contents import documents, times
from exporter.proof.contents.typed import Day, Either, Floating, Instant, ObjectPairs
from exporter.proof.readers.formats import reader_of as values_of
from exporter.proof.readers.reader import NoGoodRecord
from exporter.proof.readers.reading import framed
from exporter.registry.protobuf import as_one_set
from exporter.registry.server import Client, Server, whole

EXACT = Context(prec=100)
DEFAULTS = (0, "", b"", False, "0")
INTEGERS = frozenset(("byte", "short", "integer", "long"))
_TIME = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?)?\Z")


class SentReader(Protocol):
    """Of keys, or of values."""

    def read(self, data: bytes) -> Any:
        """What a record says. Raises all kinds of errors for bytes that say nothing."""

    def plain(self, row: Mapping[str, Any]) -> Any:
        """The same of a row."""


def reader_of(form: str, columns: Mapping[str, Any], registry: Callable[[], Client] | None) -> SentReader:
    """columns: a Spark struct, as its JSON has it. registry: opens the client, for a format with a registry."""
    if form == "json" or registry is None:
        return SentJsonReader(columns)
    return RegisteredReader(ValueFormat("avro" if form == "avro" else "protobuf", "confluent"), columns, registry())


def told(kind: Any, value: Any, scalar: Callable[[str, Any], Any], lossy: bool = False) -> Any:
    """A value by its type. scalar: of a type and a value that is not null. lossy: as Protobuf has it."""
    if value is None:
        return None
    if isinstance(kind, str):
        found = scalar(kind, value)
        return None if lossy and found in DEFAULTS else found
    if kind["type"] == "struct":
        parts = tuple(told(one["type"], value[one["name"]], scalar, lossy) for one in kind["fields"])
        return None if lossy and not any(part is not None for part in parts) else parts
    if kind["type"] == "array":
        parts = tuple(told(kind["elementType"], one, scalar, lossy) for one in value if not lossy or one is not None)
    else:
        pairs = value.items() if isinstance(value, dict) else value
        if isinstance(value, ObjectPairs):
            pairs = ((one["key"], one["value"]) for one in value)
        there = [(str(key), one) for key, one in pairs if not lossy or one is not None]
        there = sorted(there, key=itemgetter(0))
        parts = tuple((key, told(kind["valueType"], one, scalar, lossy)) for key, one in there)
    return None if lossy and not parts else parts


def row_scalar(kind: str, value: Any) -> Any:
    """A scalar of a row, as plain value."""
    return digits(value) if kind.startswith("decimal") else value


def digits(value: Any) -> str:
    """A decimal's, whatever its scale."""
    number = Decimal(value)
    return str(number.normalize(EXACT)) if number else "0"


class SentJsonReader:
    """Reads sent JSON; numbers keep their digits."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    def plain(self, row: Mapping[str, Any]) -> Any:
        return told(self._columns, row, row_scalar)

    def read(self, data: bytes) -> Any:
        return told(self._columns, documents.read(data), self._scalar)

    @staticmethod
    def _scalar(kind: str, value: Any) -> Any:
        if kind.startswith("decimal"):
            return digits(value)
        if kind in ("float", "double"):
            number = float(value)
            return number if kind == "double" else struct.unpack("<f", struct.pack("<f", number))[0]
        if kind == "binary":
            return base64.b64decode(value, validate=True)
        if kind in ("date", "timestamp", "timestamp_ntz"):
            return since_1970(value, days=kind == "date")
        wanted = int if kind in INTEGERS else bool if kind == "boolean" else str
        if type(value) is not wanted:
            raise NoGoodRecord(f"{value!r} is no {kind}")
        return value


def since_1970(text: str, days: bool) -> int:
    """Days, or microseconds, of a time in UTC; of any year."""
    found = _TIME.match(text)
    if found is None:
        raise NoGoodRecord(f"{text!r} is no time")
    number = times.days(*map(int, found.group(1, 2, 3)))
    if days:
        return number
    hour, minute, second = (int(one or 0) for one in found.group(4, 5, 6))
    micros = int((found[7] or "").ljust(6, "0")[:6])
    return number * times.DAY_US + (hour * 3600 + minute * 60 + second) * 1_000_000 + micros


class RegisteredReader:
    """By the schema that the registry has under the record's id."""

    def __init__(self, form: ValueFormat, columns: Mapping[str, Any], client: Client) -> None:
        self._values = values_of(form)
        self._lossy = form.kind == "protobuf"
        self._columns = columns
        self._client = client
        self._schemas: dict[int, SchemaText] = {}

    def plain(self, row: Mapping[str, Any]) -> Any:
        return told(self._columns, row, row_scalar, self._lossy)

    def read(self, data: bytes) -> Any:
        number, body = framed(data)
        if number not in self._schemas:
            self._schemas[number] = self._schema(number)
        sent = self._values.read(body, self._schemas[number])
        return told(self._columns, sent.document, self._scalar, self._lossy)

    def _schema(self, number: int) -> SchemaText:
        def conversation(server: Server) -> SchemaText | None:
            registered = server.schema(number)
            return None if registered is None else whole(server, registered)

        text = self._client.ask(conversation)
        if text is None:
            raise NoGoodRecord(f"the registry has no schema {number}")
        return as_one_set(text) if self._lossy else text

    @staticmethod
    def _scalar(kind: str, value: Any) -> Any:
        value = value.value if isinstance(value, (Either, Floating)) else value
        if kind.startswith("decimal"):
            return digits(repr(value) if isinstance(value, float) else value)
        if kind == "date" and isinstance(value, str):
            return since_1970(value, days=True)
        return value.micros if isinstance(value, Instant) else value.days if isinstance(value, Day) else value
