"""What a value says, by libraries that are not the exporter's: fastavro, Google's protobuf, json.loads.

For the naive checker. A value is a dictionary of its fields and the name of its schema. Bad is what certainly is a
dead letter, Unsure and Untold what this cannot tell.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tests.support.places import Place

Config = Mapping[str, Any]
Decisions = Mapping[int, Sequence[Mapping[str, Any]]]
"""Id -> what the files beside the tables say of it, in their order."""
PLAIN = {"kind": "json", "frame": "none", "envelope": "none", "tombstones": "dead_letter"}
IMAGES = {"c": "after", "r": "after", "u": "after", "d": "before"}


class Bad(Exception):
    """The value is certainly a dead letter."""


class Empty(Bad):
    """The value says that there is none: a tombstone."""


class Unsure(Exception):
    """Plain Python cannot tell. Its argument: the event type, where it is not known yet to the caller."""


class Untold(Exception):
    """Nothing can be said of where the record belongs."""


def form_of(config: Config, topic: str) -> dict[str, Any]:
    """The format of a topic's values, as the dead letters record it."""
    for pattern, form in config.get("topic_formats", []):
        if re.fullmatch(pattern, topic):
            return {**PLAIN, **form}
    return {**PLAIN, **config.get("value_format", {})}


def decisions(place: Place, registry: str) -> Decisions:
    """All that is recorded of a registry's ids."""
    found: dict[int, dict[int, Any]] = defaultdict(dict)
    for file in place.files(f"_schemas.pins/{registry}"):
        folder, number = file.path.split("/")[-2], file.name.removesuffix(".json")
        if folder.isdigit() and number.isdigit():
            found[int(folder)][int(number)] = json.loads(place.read(file))
    return {schema_id: [one for _, one in sorted(numbered.items())] for schema_id, numbered in found.items()}


def read(value: bytes, at: tuple[str, int, int], form: Mapping[str, Any], known: Decisions) -> tuple[Any, str, str]:
    """A value that is no plain JSON: its fields, the name of its schema, where an envelope's row is from."""
    schema, body = None, value
    if form["frame"] == "confluent":
        if len(value) < 5 or value[0]:
            raise Bad
        body = value[5:]
        if form["kind"] in ("avro", "protobuf", "json_schema"):
            schema = _decided(int.from_bytes(value[1:5], "big"), at, known)
    if form["frame"] == "single_object":
        raise Untold
    found, name = _by_kind(body, form, schema)
    if form["envelope"] == "none":
        return found, name, ""
    return _row(found, form["envelope"], name)


def _decided(schema_id: int, at: tuple[str, int, int], known: Decisions) -> Mapping[str, Any]:
    topic, partition, offset = at
    for one in known.get(schema_id, ()):
        if one["decision"] == "text":
            return one
        if one["through"].get(topic, {}).get(str(partition), -1) >= offset:
            raise Bad
    raise Untold


def _by_kind(body: bytes, form: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[Any, str]:
    kind = form["kind"]
    if kind == "bytes":
        return {"value": body}, ""
    try:
        if kind == "string":
            return {"value": body.decode()}, ""
        if kind == "avro":
            return _avro(body, form, schema)
        if kind == "protobuf":
            return _protobuf(body, form, schema)
        found = json.loads(body)
    except (Bad, Untold):
        raise
    except RecursionError:
        raise Untold from None
    except Exception:  # noqa: BLE001 - whatever the library does not read is none
        raise Bad from None
    if kind == "connect_json":
        found = found.get("payload") if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise Bad
    return found, ""


def _avro(body: bytes, form: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[Any, str]:
    import fastavro

    text = schema["text"] if schema else _only(form)
    parsed = _parsed(text, json.dumps(schema["references"]) if schema else "[]")
    branch, body = (parsed, body) if isinstance(parsed, dict) else _branch(parsed, body)
    if branch == "null" and not body:
        raise Empty
    if not isinstance(branch, dict):
        raise Bad
    stream = io.BytesIO(body)
    found = fastavro.schemaless_reader(stream, branch, None)
    if stream.tell() < len(body):
        raise Bad
    return found, branch["name"]


def _branch(union: list[Any], body: bytes) -> tuple[Any, bytes]:
    """The branch of a value, of a schema that is a union, and what stands behind its number."""
    number = 0
    for at, byte in enumerate(body):
        number |= (byte & 127) << 7 * at
        if byte < 128:
            if number % 2 or number // 2 >= len(union):
                raise Bad
            return union[number // 2], body[at + 1 :]
    raise Bad


def _only(form: Mapping[str, Any]) -> str:
    if len(form.get("schemas", ())) != 1 or form.get("message"):
        raise Untold
    return str(form["schemas"][0][1])


@cache
def _parsed(text: str, references: str) -> Any:
    import fastavro

    named: dict[str, Any] = {}

    def load(some: Sequence[Mapping[str, Any]]) -> None:
        for one in some:
            load(one["references"])
            known = json.loads(one["text"])
            full = known["name"] if "." in known["name"] else f"{known.get('namespace', '')}.{known['name']}".strip(".")
            if full not in named:
                fastavro.parse_schema(known, named)

    load(json.loads(references))
    parsed = fastavro.parse_schema(json.loads(text), named)
    if isinstance(parsed, dict):
        return parsed
    known = {"__fastavro_parsed": True, "__named_schemas": dict(named)}  # of what it refers to
    whole = [named.get(one, one) if isinstance(one, str) else one for one in parsed]
    return [{**one, **known} if isinstance(one, dict) else one for one in whole]


def _protobuf(body: bytes, form: Mapping[str, Any], schema: Mapping[str, Any] | None) -> tuple[Any, str]:
    if schema and body[:1] not in (b"\0", b"\2"):
        raise Untold
    if schema:  # a place of one index, or the short form of [0]
        index, body = (0, body[1:]) if body[:1] == b"\0" else (body[1] >> 1, body[2:])
    made = _message(schema["text"], index, "") if schema else _message(_only(form), 0, form.get("message", ""))
    found = made.FromString(body)
    return {one.name: _told(found, one) for one in found.DESCRIPTOR.fields}, found.DESCRIPTOR.full_name


@cache
def _message(text: str, index: int, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text)).file
    pool = descriptor_pool.DescriptorPool()
    for one in files:
        pool.Add(one)
    tops = pool.FindFileByName(files[-1].name).message_types_by_name
    found = pool.FindMessageTypeByName(name) if name else [*tops.values()][index]
    return message_factory.GetMessageClass(found)


def _told(message: Any, field: Any) -> Any:
    """A scalar field as Python has it; of what has parts only whether there is something."""
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.full_name == "google.protobuf.Timestamp":
        return value.ToDatetime()
    if field.enum_type is not None and field.enum_type.values_by_number.get(value) is not None:
        return field.enum_type.values_by_number[value].name
    return value if isinstance(value, (int, float, str, bytes)) else {"": "parts"}


def _row(found: Mapping[str, Any], envelope: str, name: str) -> tuple[Any, str, str]:
    if "payload" in found and set(found) <= {"schema", "payload"}:
        found = found["payload"] or {}
    if envelope == "dms":
        told, row = found.get("metadata") or {}, found.get("data")
        parts = [told.get("schema-name"), told.get("table-name")]
        row = row if told.get("record-type") == "data" else None
    else:
        source = found.get("source") or {}
        row = found.get(IMAGES.get(found.get("op") or "", ""))
        parts = [source.get("schema") or source.get("db"), source.get("table")]
    if row is None:
        raise Bad
    if not isinstance(row, dict):
        raise Untold
    return row, name, ".".join(parts) if all(parts) else ""
