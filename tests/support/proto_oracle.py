"""A second opinion on Protobuf messages, one by one: Google's parser says the values, a plain walk what is odd.

It shares nothing with exporter/formats/protobuf: descriptors and values are Google's own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

VARINTS = {3: 64, 4: 64, 5: 32, 8: 1, 13: 32, 14: 32, 17: 32, 18: 64}
"""FieldDescriptor.type -> bits, of what is a number of base 128."""
FIXED = {1: 8, 6: 8, 16: 8, 2: 4, 7: 4, 15: 4}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SECONDS = range(-62_135_596_800, 253_402_300_800)


class Odd(Exception):
    """The walk cannot go on; the text is the code."""


class Part(NamedTuple):
    """One field on the wire: its number, wire type, and what stands there: a number, or bytes."""

    number: int
    wire: int
    value: Any


def number(raw: bytes, pos: int) -> tuple[int, int]:
    """A number of base 128, and the place behind it."""
    value = 0
    for at in range(10):
        if pos + at >= len(raw):
            raise Odd("truncated")
        value |= (raw[pos + at] & 127) << (7 * at)
        if raw[pos + at] < 128:
            if value >= 1 << 64:
                raise Odd("bad_varint")
            return value, pos + at + 1
    raise Odd("bad_varint")


def wires(field: Any) -> set[int]:
    """The wire types that a field may have."""
    own = 0 if field.type in VARINTS else {8: 1, 4: 5}.get(FIXED.get(field.type, 0), 2)
    return {own, 2} if field.is_repeated else {own}


def parts(raw: bytes, known: Mapping[int, set[int]]) -> Iterator[Part]:
    """The fields of a message until there is something that cannot be passed. known: field -> its wire types."""
    pos = 0
    while pos < len(raw):
        tag, behind = number(raw, pos)
        if behind - pos > 5 or tag >= 1 << 32 or tag < 8 or tag & 7 in (4, 6, 7):
            raise Odd("bad_tag")
        pos, wire = behind, tag & 7
        if tag >> 3 not in known:
            raise Odd("unknown_field")
        if wire not in known[tag >> 3]:
            raise Odd("wrong_wire_type")
        if wire == 0:
            value, pos = number(raw, pos)
            yield Part(tag >> 3, 0, value)
            continue
        size = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            size, pos = number(raw, pos)
            if size >= 1 << 63:
                raise Odd("bad_length")
        if size > len(raw) - pos:
            raise Odd("truncated")
        yield Part(tag >> 3, wire, raw[pos : pos + size])
        pos += size


def codes(raw: bytes, kind: Any) -> set[str]:
    """All that is odd about a message; kind: its descriptor."""
    fields = {field.number: field for field in kind.fields}
    found: set[str] = set()
    seen: dict[int, int] = {}
    keys: dict[int, list[Any]] = {}
    try:
        for part in parts(raw, {field.number: wires(field) for field in kind.fields}):
            field = fields[part.number]
            seen[part.number] = seen.get(part.number, 0) + 1
            found |= of_field(part, field)
            if is_map(field) and part.wire == 2:
                keys.setdefault(part.number, []).append(key_of(part.value, field.message_type))
    except Odd as odd:
        found.add(str(odd))
    if any(count > 1 and not fields[number].is_repeated for number, count in seen.items()):
        found.add("duplicate_field")
    for oneof in kind.oneofs:
        if sum(field.number in seen for field in oneof.fields) > 1:
            found.add("duplicate_field")
    if any(len(some) != len({*map(str, some)}) for some in keys.values()):
        found.add("duplicate_key")
    if any(field.is_required and field.number not in seen for field in kind.fields):
        found.add("missing_field")
    if kind.GetOptions().map_entry and 2 not in seen and fields[2].type == 11:  # the value is an empty message
        found |= codes(b"", fields[2].message_type)
    return found


def of_field(part: Part, field: Any) -> set[str]:
    """What is odd about one value, or about a piece of packed ones."""
    if field.type not in (9, 11, 12) and part.wire == 2:
        return of_packed(part.value, field)
    if field.type == 9:
        try:
            part.value.decode()
        except UnicodeDecodeError:
            return {"not_utf8"}
    if field.type == 11:
        found = codes(part.value, field.message_type)
        return found | (of_time(part.value, field.message_type) if is_time(field.message_type) else set())
    return of_number(part.value, field) if part.wire == 0 else set()


def of_packed(raw: bytes, field: Any) -> set[str]:
    if field.type in FIXED:
        return {"truncated"} if len(raw) % FIXED[field.type] else set()
    found: set[str] = set()
    pos = 0
    try:
        while pos < len(raw):
            value, pos = number(raw, pos)
            found |= of_number(value, field)
    except Odd as odd:
        found.add(str(odd))
        if raw[-1] >= 128:
            found.add("truncated")
    return found


def of_number(value: int, field: Any) -> set[str]:
    bits = VARINTS[field.type]
    signed = value - (1 << 64) if value >= 1 << 63 else value
    if field.type in (5, 14):
        if not -(1 << 31) <= signed < 1 << 31:
            return {"out_of_range"}
        return {"unknown_enum"} if field.type == 14 and signed not in field.enum_type.values_by_number else set()
    return {"out_of_range"} if value >= 1 << bits else set()


def is_time(kind: Any) -> bool:
    return bool(kind.full_name == "google.protobuf.Timestamp")


def of_time(raw: bytes, kind: Any) -> set[str]:
    try:
        found = parsed(raw, kind)
    except DecodeError:
        return set()
    return set() if found.seconds in SECONDS and 0 <= found.nanos < 10**9 else {"out_of_range"}


def is_map(field: Any) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def key_of(raw: bytes, entry: Any) -> Any:
    """The key of an entry that can be read, else one that is like no other."""
    key = entry.fields_by_number[1]
    found: Any = b"" if key.type == 9 else 0
    try:
        for part in parts(raw, {field.number: wires(field) for field in entry.fields}):
            if part.number == 1:
                found = part.value if key.type == 9 or part.wire == 0 else int.from_bytes(part.value, "little")
    except Odd:
        return object()
    return found


def parsed(raw: bytes, kind: Any) -> Any:
    """By Google's parser. Raises DecodeError."""
    return kind._concrete_class.FromString(raw)


# --- values --------------------------------------------------------------------------------------------------


def value_of(message: Any) -> dict[str, Any]:
    """A message as rows have it."""
    return {field.name: field_of(message, field) for field in sorted(message.DESCRIPTOR.fields, key=lambda f: f.number)}


def field_of(message: Any, field: Any) -> Any:
    if is_map(field):
        kinds = field.message_type.fields_by_name
        items = [(key, one_of(value, kinds["value"])) for key, value in getattr(message, field.name).items()]
        items.sort(key=lambda item: str(item[0]))
        return items if kinds["key"].type == 9 else [{"key": key, "value": value} for key, value in items]
    if field.is_repeated:
        return [one_of(value, field) for value in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return one_of(getattr(message, field.name), field)


def one_of(value: Any, field: Any) -> Any:
    if field.type == 14:
        return next(one.name for one in field.enum_type.values if one.number == value)
    if field.type in (1, 2):
        return plain(value)
    if field.type != 11:
        return value
    name = value.DESCRIPTOR.full_name
    if is_time(value.DESCRIPTOR):
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return one_of(value.value, value.DESCRIPTOR.fields_by_name["value"])
    return value_of(value)


def plain(value: Any) -> Any:
    """Numbers so that equal ones are equal bit by bit, and no number is like any other."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        plains = [plain(one) for one in value]
        pairs = plains and isinstance(plains[0], tuple)
        entries = plains and isinstance(plains[0], dict) and [*plains[0]] == ["key", "value"]
        return sorted(plains, key=lambda one: str(one["key"] if entries else one[0])) if pairs or entries else plains
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value
