"""What the bytes of a record say, by the columns that they are of, as rows say it: the audit's own reading.

    numbers, texts, bytes as they are    times: days, or microseconds since 1970    decimals: their digits
    a struct: the values of its fields, in order    a list or map: its items, in order, a map's by key

Protobuf cannot tell a default from a null: there both are None.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from io import BytesIO
from operator import itemgetter
from typing import Any, Protocol

from exporter.registry.protobuf import as_one_set
from exporter.registry.server import Client, whole

EXACT = Context(prec=100)
DEFAULTS = (0, "", b"", False, "0")
INTEGERS = frozenset(("byte", "short", "integer", "long"))
_TIME = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z?)?\Z")


class DecodeError(Exception):
    """Bytes that are not what they should be."""


class Reader(Protocol):
    """Of keys, or of values."""

    def read(self, data: bytes) -> Any:
        """What a record says. Raises all kinds of errors for bytes that say nothing."""

    def plain(self, row: Mapping[str, Any]) -> Any:
        """The same of a row."""


def reader_of(form: str, columns: Mapping[str, Any], registry: Callable[[], Client] | None) -> Reader:
    """columns: a Spark struct, as its JSON has it. registry: opens the client, for a format with a registry."""
    if form == "json" or registry is None:
        return JsonReader(columns)
    return AvroReader(columns, registry()) if form == "avro" else ProtobufReader(columns, registry())


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
        there = [(str(key), one) for key, one in pairs if not lossy or one is not None]
        there = sorted(there, key=itemgetter(0))
        parts = tuple((key, told(kind["valueType"], one, scalar, lossy)) for key, one in there)
    return None if lossy and not parts else parts


def row_scalar(kind: str, value: Any) -> Any:
    """Of a row."""
    return digits(value) if kind.startswith("decimal") else value


def digits(value: Any) -> str:
    """A decimal's, whatever its scale."""
    number = Decimal(value)
    return str(number.normalize(EXACT)) if number else "0"


class JsonReader:
    """Python's own parser, numbers as they stand."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    def plain(self, row: Mapping[str, Any]) -> Any:
        return told(self._columns, row, row_scalar)

    def read(self, data: bytes) -> Any:
        return told(self._columns, json.loads(data, parse_float=Decimal), self._scalar)

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
            raise DecodeError(f"{value!r} is no {kind}")
        return value


def since_1970(text: str, days: bool) -> int:
    """Days, or microseconds, of a time in UTC; of any year."""
    found = _TIME.match(text)
    if found is None:
        raise DecodeError(f"{text!r} is no time")
    year, month, day = map(int, found.group(1, 2, 3))
    # Source: https://howardhinnant.github.io/date_algorithms.html, days_from_civil
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    number = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    if days:
        return number
    hour, minute, second = (int(one or 0) for one in found.group(4, 5, 6))
    micros = int((found[7] or "").ljust(6, "0")[:6])
    return ((number * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + micros


class AvroReader:
    """fastavro, by the schema that the registry has under the record's id."""

    def __init__(self, columns: Mapping[str, Any], client: Client) -> None:
        self._columns = columns
        self._client = client
        self._schemas: dict[int, Any] = {}

    def plain(self, row: Mapping[str, Any]) -> Any:
        return told(self._columns, row, row_scalar)

    def read(self, data: bytes) -> Any:
        import fastavro

        magic, number = struct.unpack_from(">bI", data)
        if magic != 0:
            raise DecodeError("it has no schema's id")
        if number not in self._schemas:
            registered = self._client.ask(lambda server: server.schema(number))
            if registered is None:
                raise DecodeError(f"the registry has no schema {number}")
            self._schemas[number] = fastavro.parse_schema(_without_logical(json.loads(registered.text)))
        source = BytesIO(data[5:])
        row = fastavro.schemaless_reader(source, self._schemas[number], None)
        if source.read(1):
            raise DecodeError("something comes after the value")
        return told(self._columns, row, self._scalar)

    @staticmethod
    def _scalar(kind: str, value: Any) -> Any:
        if kind.startswith("decimal"):
            scale = int(kind.rpartition(",")[2].rstrip(")"))
            return digits(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, EXACT))
        return value


def _without_logical(schema: Any) -> Any:
    """Times and decimals as they are stored: Python's own could not hold all of them."""
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
    return schema


class ProtobufReader:
    """Google's library, by the message that the registry has under the record's id."""

    def __init__(self, columns: Mapping[str, Any], client: Client) -> None:
        self._columns = columns
        self._client = client
        self._files: dict[int, Any] = {}

    def plain(self, row: Mapping[str, Any]) -> Any:
        return told(self._columns, row, row_scalar, lossy=True)

    def read(self, data: bytes) -> Any:
        from google.protobuf import message_factory

        magic, number = struct.unpack_from(">bI", data)
        if magic != 0:
            raise DecodeError("it has no schema's id")
        if number not in self._files:
            self._files[number] = self._file(number)
        source = BytesIO(data[5:])
        count = _zigzag(source)
        path = [_zigzag(source) for _ in range(count)] or [0]
        message = [*self._files[number].message_types_by_name.values()][path[0]]
        for one in path[1:]:
            message = message.nested_types[one]
        made = message_factory.GetMessageClass(message).FromString(source.read())
        return told(self._columns, _as_row(made, self._columns), self._scalar, lossy=True)

    def _file(self, number: int) -> Any:
        from google.protobuf import descriptor_pb2, descriptor_pool

        def conversation(server: Any) -> Any:
            registered = server.schema(number)
            return None if registered is None else whole(server, registered)

        text = self._client.ask(conversation)
        if text is None:
            raise DecodeError(f"the registry has no schema {number}")
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(as_one_set(text).text)).file
        pool = descriptor_pool.DescriptorPool()
        for one in files:
            pool.Add(one)
        return pool.FindFileByName(files[-1].name)

    @staticmethod
    def _scalar(kind: str, value: Any) -> Any:
        if kind.startswith("decimal"):
            return digits(value if isinstance(value, str) else repr(value))
        if kind == "date" and isinstance(value, str):
            return since_1970(value, days=True)
        if hasattr(value, "nanos"):
            return value.seconds * 1_000_000 + value.nanos // 1_000
        return value


def _as_row(message: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """What a message says of columns; what is not there is None."""
    row: dict[str, Any] = {}
    for column in columns["fields"]:
        name, kind = column["name"], column["type"]
        field, value = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
        if field.has_presence and not message.HasField(name):
            row[name] = None
        elif isinstance(kind, dict) and kind["type"] == "map":
            inner = kind["valueType"]
            row[name] = {key: _part(value[key], inner) for key in value}
        elif isinstance(kind, dict) and kind["type"] == "array":
            row[name] = [_part(one, kind["elementType"]) for one in value]
        else:
            row[name] = _part(value, kind)
    return row


def _part(value: Any, kind: Any) -> Any:
    return _as_row(value, kind) if isinstance(kind, dict) else value


def _zigzag(source: BytesIO) -> int:
    number = shift = 0
    while True:
        (byte,) = source.read(1)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
