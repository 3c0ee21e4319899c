"""The shop's events as Avro and as Protobuf, with the frame of Confluent's serialisers and schemas in a real registry.

The same rows in each: what differs is how a decimal and a day are written, for which Protobuf has no type.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from exporter.demo.shop_avro import AvroEvents, register, schemas, subject
from exporter.demo.shop_types import EVENT_TYPES

Form = Literal["json", "avro", "protobuf"]
TOPIC = "bench"
"""In the names of subjects, whatever the topic is called."""
HEAD = 4
"""So many fields come first and are encoded each time; the others once for each text."""
_KINDS = {"long": 3, "int": 5, "double": 1, "boolean": 8, "string": 9, "bytes": 12}
"""Of Avro -> FieldDescriptorProto.Type."""


def encoder(form: Form, registry: str) -> Callable[[str, bytes], bytes]:
    """(event type, JSON of a good event) -> its value. registry: URL, unless values are JSON."""
    if form == "json":
        return lambda _, value: value
    if form == "avro":
        ids = register(registry, TOPIC)
        events = AvroEvents(ids)
        heads = {name: b"\0" + first.to_bytes(4, "big") for name, (first, _) in ids.items()}
        return lambda name, value: heads[name] + events.body(name, value)
    return ProtobufEvents(registry).value


class ProtobufEvents:
    """One file of one message for each event type."""

    def __init__(self, registry: str) -> None:
        self._classes = classes()
        self._heads = {
            name: b"\0" + _registered(registry, name).to_bytes(4, "big") + b"\0" for name in self._classes
        }
        self._known: dict[tuple[str, bytes], bytes] = {}

    def value(self, name: str, value: bytes) -> bytes:
        """A framed message: the first fields, then the others as they were encoded once."""
        cut = value.index(b'"session":"') + len(b'"session":"') + 12 + 2
        key = (name, value[cut:])
        if key not in self._known:
            self._known[key] = self._encoded(name, json.loads(b"{" + value[cut:]))
        return self._heads[name] + self._encoded(name, json.loads(value[: cut - 1] + b"}")) + self._known[key]

    def _encoded(self, name: str, fields: Mapping[str, Any]) -> bytes:
        message = self._classes[name]()
        _fill(message, {key: one for key, one in fields.items() if key != "type"})
        return bytes(message.SerializeToString())


def _fill(message: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        held = getattr(message, name)
        if value is None:
            continue
        if field.message_type is None:
            if isinstance(value, list):
                held.extend(value)
            else:
                setattr(message, name, _scalar(field, value))
        elif field.message_type.full_name == "google.protobuf.Timestamp":
            held.FromJsonString(value)
        elif field.message_type.GetOptions().map_entry:
            held.update(value)
        elif isinstance(value, list):
            for one in value:
                _fill(held.add(), one)
        else:
            held.SetInParent()
            _fill(held, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        return base64.b64decode(value)
    return str(value) if field.type == field.TYPE_STRING else value


def _registered(url: str, name: str) -> int:
    body = json.dumps({"schemaType": "PROTOBUF", "schema": base64.b64encode(_file(name).SerializeToString()).decode()})
    request = urllib.request.Request(
        f"{url}/subjects/{subject(name, TOPIC)}-protobuf/versions", body.encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )  # fmt: skip
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


@cache
def classes() -> dict[str, Any]:
    """Event type -> class of its message."""
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for one in EVENT_TYPES:
        pool.Add(_file(one.name))
    return {
        one.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{one.name}")) for one in EVENT_TYPES
    }


@cache
def _file(name: str) -> Any:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    _add_fields(file.message_type.add(name=name), f".shop.{name}", schemas()[name]["fields"])
    return file


def _add_fields(message: Any, full_name: str, fields: list[Any]) -> None:
    for number, field in enumerate(fields, 1):
        optional = isinstance(field["type"], list)
        kind = field["type"][1] if optional else field["type"]
        _add(message, full_name, field["name"], number, kind, optional)


def _add(message: Any, full_name: str, name: str, number: int, kind: Any, optional: bool) -> None:
    """One field, and the message that it holds, inside of the one that has it."""
    logical = "" if isinstance(kind, str) else kind.get("logicalType", "")
    plain = kind if isinstance(kind, str) else kind["type"]
    if logical == "timestamp-micros":
        message.field.add(name=name, number=number, label=1, type=11, type_name=".google.protobuf.Timestamp")
    elif plain == "array":
        items = kind["items"]
        if isinstance(items, str):
            message.field.add(name=name, number=number, label=3, type=_KINDS[items])
            return
        inner = f"{name.capitalize()}Item"
        _add_fields(message.nested_type.add(name=inner), f"{full_name}.{inner}", items["fields"])
        message.field.add(name=name, number=number, label=3, type=11, type_name=f"{full_name}.{inner}")
    elif plain == "map":
        inner = f"{''.join(part.capitalize() for part in name.split('_'))}Entry"
        entry = message.nested_type.add(name=inner)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=9)
        entry.field.add(name="value", number=2, label=1, type=_KINDS[kind["values"]])
        message.field.add(name=name, number=number, label=3, type=11, type_name=f"{full_name}.{inner}")
    elif plain == "record":
        inner = name.capitalize()
        _add_fields(message.nested_type.add(name=inner), f"{full_name}.{inner}", kind["fields"])
        message.field.add(name=name, number=number, label=1, type=11, type_name=f"{full_name}.{inner}")
    else:
        found = message.field.add(name=name, number=number, label=1, type=9 if logical else _KINDS[plain])
        if optional:
            found.proto3_optional = True
            found.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
