"""Protobuf of rows: by the message that follows from the columns, or by that of a .proto file.

A column is the field of its name. Times are google.protobuf.Timestamp, dates and decimals texts, but for fields of a
given message that are numbers: those get days, or microseconds since 1970. Of a derived message each field is optional,
and its number is its place among the columns: new columns come last.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from exporter.column.scalars import spelling
from exporter.column.spark_json import as_json
from exporter.column.types import DecimalType, Field, ListType, MapType, ScalarType, StructType, Type
from exporter.derive.to_kafka_avro import record_name
from exporter.errors import ConfigError
from exporter.formats.protobuf.compile import descriptor_set
from exporter.registry.server import Kind
from exporter.settings.schema_files import with_imports

TIMESTAMP = "google.protobuf.Timestamp"
_FIRST_DAY = date(1970, 1, 1).toordinal()
Setter = Callable[[Any, Any], None]
"""Puts a column's value, which is not null, into a message."""


class ProtobufForm:
    """One message. index: what stands between the id and the value."""

    kind: Kind = "PROTOBUF"

    def __init__(
        self, file: bytes, message: Any, index: bytes, columns: StructType, is_derived: bool = False
    ) -> None:
        """file: its FileDescriptorProto. message: the class.

        Raises ConfigError for columns that it has no field for.
        """
        self._is_derived = is_derived
        self._file = file
        self._message = message
        self._index = index
        self._fill = _filling(message.DESCRIPTOR, columns)

    def text(self) -> str:
        return base64.b64encode(self._file).decode()

    def require_follows(self, before: bytes) -> None:
        """Raises ConfigError if a number of a derived message means another column than in the version before.

        before: its FileDescriptorSet. Registries take that for a new name of the same field, and may allow it.
        """
        if not self._is_derived:
            return
        proto2 = _google("descriptor_pb2")
        old = proto2.FileDescriptorSet.FromString(before).file[-1].message_type
        new = proto2.FileDescriptorProto.FromString(self._file).message_type
        if old and (what := _renumbered(old[0], new[0])):
            raise ConfigError(what, "new columns come last: name them all in `value`, in the order that they had")

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        made = self._message()
        self._fill(made, row)
        return self._index + bytes(made.SerializeToString(deterministic=True))


def derived(columns: StructType, subject: str) -> ProtobufForm:
    """By the columns. Raises ConfigError."""
    proto2 = _google("descriptor_pb2")
    name = record_name(subject)
    file = proto2.FileDescriptorProto(
        name=f"{name}.proto", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    _describe(file.message_type.add(), name, columns, proto2.FieldDescriptorProto)
    pool = _pool()
    pool.Add(file)
    message = _google("message_factory").GetMessageClass(pool.FindMessageTypeByName(name))
    return ProtobufForm(file.SerializeToString(deterministic=True), message, b"\0", columns, is_derived=True)


def given(path: Path, name: str, columns: StructType) -> ProtobufForm:
    """By a file that imports none but Google's own. Raises ConfigError."""
    try:
        texts = with_imports(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"proto: {path} cannot be read: {error}", "the path is relative to the TOML file") from error
    if len(texts) > 1:
        raise ConfigError(f"proto: {path} imports {[*texts][1]!r}", "put the messages that it needs into the one file")
    files = _google("descriptor_pb2").FileDescriptorSet.FromString(descriptor_set(texts)).file
    pool = _google("descriptor_pool").DescriptorPool()
    for one in files:
        pool.Add(one)
    own = files[-1]
    names = [one.name for one in own.message_type]
    full = {f"{own.package}.{one}".lstrip("."): number for number, one in enumerate(names)}
    wanted = name or next(iter(full), "")
    if wanted not in full:
        raise ConfigError(f"{path} has no message {wanted!r}", f"`message` is one of {', '.join(full) or 'none'}")
    number = full[wanted]
    index = b"\0" if number == 0 else bytes((2, *_zigzag(number)))  # one index
    message = _google("message_factory").GetMessageClass(pool.FindMessageTypeByName(wanted))
    return ProtobufForm(own.SerializeToString(deterministic=True), message, index, columns)


def _renumbered(old: Any, new: Any) -> str:
    """The first number that another field has, in words, or empty; in messages of the same name below too."""
    names = {field.number: field.name for field in old.field}
    for field in new.field:
        if (before := names.get(field.number, field.name)) != field.name:
            return f"field {field.number} of message {new.name} would be {field.name}, and was {before}"
    below = {one.name: one for one in old.nested_type}
    return next(filter(None, (_renumbered(below[one.name], one) for one in new.nested_type if one.name in below)), "")


def _zigzag(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes((number,))


def _describe(message: Any, name: str, struct: StructType, field_type: Any) -> None:
    """Fill a DescriptorProto with a field for each column."""
    message.name = name
    for number, column in enumerate(struct.fields, 1):
        field = message.field.add(name=column.name, number=number, label=field_type.LABEL_OPTIONAL)
        if not column.name.isidentifier():
            hint = "give it another name in `value`: `... AS name`"
            raise ConfigError(f"a field of Protobuf cannot be called {column.name!r}", hint)
        kind = column.type
        if isinstance(kind, ListType):
            field.label, kind = field_type.LABEL_REPEATED, kind.inner
        elif isinstance(kind, MapType):
            field.label = field_type.LABEL_REPEATED
            entry = StructType((Field("key", kind.key), Field("value", kind.inner)))
            inner = message.nested_type.add()
            _describe(inner, _entry_name(column.name), entry, field_type)
            for one in inner.field:
                one.ClearField("proto3_optional"), one.ClearField("oneof_index")
            inner.ClearField("oneof_decl")
            inner.options.map_entry = True
            field.type, field.type_name = field_type.TYPE_MESSAGE, inner.name
            continue
        _typed(message, field, kind, field_type)
    _optional(message, field_type)


def _typed(message: Any, field: Any, kind: Type, field_type: Any) -> None:
    """Say of what type a field is, with a message of its own for a struct."""
    if isinstance(kind, StructType):
        inner = message.nested_type.add()
        _describe(inner, f"{field.name}_struct", kind, field_type)
        field.type, field.type_name = field_type.TYPE_MESSAGE, inner.name
        return
    known = "" if isinstance(kind, ListType | MapType) else spelling(kind).protobuf
    if not known:
        what = f"Protobuf has no type for {field.name}: {as_json(kind)}"
        raise ConfigError(what, "cast it to STRING in `value`, or leave it out there")
    field.type = getattr(field_type, f"TYPE_{known}")
    if field.type == field_type.TYPE_MESSAGE:
        field.type_name = f".{TIMESTAMP}"


def _optional(message: Any, field_type: Any) -> None:
    """Of each single scalar it can be told whether it is there."""
    for field in message.field:
        if field.label == field_type.LABEL_OPTIONAL and field.type != field_type.TYPE_MESSAGE:
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _entry_name(name: str) -> str:
    """What protoc calls the message of a map's entries."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _filling(descriptor: Any, struct: StructType) -> Callable[[Any, Mapping[str, Any]], None]:
    """How a message is filled from a row. Raises ConfigError for a column without a field."""
    fields = descriptor.fields_by_name
    if missing := [name for name in struct.named if name not in fields]:
        what = f"message {descriptor.full_name} has no field {missing[0]!r}"
        raise ConfigError(what, "name the columns that it has in `value`, with `AS` where they are called otherwise")
    setters = [(one.name, _setter(fields[one.name], one.type)) for one in struct.fields]

    def fill(message: Any, row: Mapping[str, Any]) -> None:
        for name, put in setters:
            if (value := row[name]) is not None:
                put(message, value)

    return fill


def _setter(field: Any, kind: Type) -> Setter:
    name = field.name
    if isinstance(kind, MapType):
        return _map_setter(field, kind)
    if isinstance(kind, ListType):
        if not _is_scalar(kind.inner) or _is_timestamp(field):
            fill_one = _message_filler(field, kind.inner)

            def put_all(message: Any, values: Any) -> None:
                for one in _there(values):
                    fill_one(getattr(message, name).add(), one)

            return put_all
        convert = _converter(field, kind.inner)
        return lambda message, values: getattr(message, name).extend(map(convert, _there(values)))
    if isinstance(kind, StructType) or _is_timestamp(field):
        fill = _message_filler(field, kind)

        def put(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()
            fill(inner, value)

        return put
    convert = _converter(field, kind)
    return lambda message, value: setattr(message, name, convert(value))


def _map_setter(field: Any, kind: MapType) -> Setter:
    name, entry = field.name, field.message_type.fields_by_name
    keyed = _converter(entry["key"], kind.key)
    value_field = entry["value"]
    if not _is_scalar(kind.inner) or _is_timestamp(value_field):
        fill = _message_filler(value_field, kind.inner)

        def put_messages(message: Any, pairs: Any) -> None:
            for key, value in pairs:
                if value is not None:
                    fill(getattr(message, name)[keyed(key)], value)

        return put_messages
    convert = _converter(value_field, kind.inner)

    def put(message: Any, pairs: Any) -> None:
        there = getattr(message, name)
        for key, value in pairs:
            if value is not None:
                there[keyed(key)] = convert(value)

    return put


def _is_scalar(kind: Type) -> bool:
    return isinstance(kind, ScalarType | DecimalType)


def _message_filler(field: Any, kind: Type) -> Setter:
    if field.message_type is None or isinstance(kind, ListType | MapType):
        what = f"Protobuf has no type for {field.full_name}: {as_json(kind)}"
        raise ConfigError(what, "cast it to STRING in `value`")
    if isinstance(kind, StructType):
        return _filling(field.message_type, kind)

    def fill(message: Any, micros: int) -> None:
        message.seconds, rest = divmod(micros, 1_000_000)
        message.nanos = rest * 1_000

    return fill


def _converter(field: Any, kind: Type) -> Callable[[Any], Any]:
    """A value as a scalar field takes it."""
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return float
    if field.type != field.TYPE_STRING:
        return lambda value: value
    if kind == ScalarType("date"):
        return _day_text
    return str


def _day_text(days: int) -> str:
    """ISO 8601; days beyond Python's years as a number."""
    try:
        return (date.fromordinal(_FIRST_DAY) + timedelta(days)).isoformat()
    except OverflowError:
        return str(days)


def _is_timestamp(field: Any) -> bool:
    return field.message_type is not None and field.message_type.full_name == TIMESTAMP


def _there(values: Any) -> list[Any]:
    """Protobuf has no null in a list."""
    return [one for one in values if one is not None]


def _pool() -> Any:
    pool = _google("descriptor_pool").DescriptorPool()
    file = _google("timestamp_pb2").DESCRIPTOR
    proto = _google("descriptor_pb2").FileDescriptorProto()
    file.CopyToProto(proto)
    pool.Add(proto)
    return pool


def _google(module: str) -> Any:
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise ConfigError("google.protobuf is not installed", "pip install 'kafka-delta-exporter[protobuf]'")
    return import_module(f"google.protobuf.{module}")
