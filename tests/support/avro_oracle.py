"""A reader of Avro's binary encoding, one value after the other, and bodies at random: what the fast one is held to.

It shares no code with exporter/formats, and says of a body only whether it is good, and what is in it. Times are whole
numbers of their column's unit, a map is a list of pairs, and what has no column is left out.
"""

from __future__ import annotations

import random
import struct
import uuid
from decimal import Decimal
from typing import Any

Spec = Any
"""A schema as parsed JSON; each named type is defined where it stands."""
GONE = object()
"""What no column holds."""
_PER = {"timestamp-millis": 1000, "local-timestamp-millis": 1000}


class Bad(Exception):
    """The body is damaged."""


def value_of(spec: Spec, body: bytes) -> Any:
    """What a body says. Raises Bad."""
    found, at = _read(spec, body, 0)
    if at != len(body):
        raise Bad("bytes are left")
    return found


def _need(condition: bool, why: str) -> None:
    if not condition:
        raise Bad(why)


def _long(body: bytes, at: int) -> tuple[int, int]:
    total = 0
    for nth in range(10):
        _need(at + nth < len(body), "it ends")
        total += (body[at + nth] % 128) << (7 * nth)
        if body[at + nth] < 128:
            _need(total < 2**64, "too large")
            return (total // 2 if total % 2 == 0 else -(total // 2) - 1), at + nth + 1
    raise Bad("too long")


def _bytes(body: bytes, at: int, size: int) -> tuple[bytes, int]:
    _need(0 <= size <= len(body) - at, "it ends")
    return body[at : at + size], at + size


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Bad("no text") from error


def _items(spec: Spec, body: bytes, at: int, is_map: bool) -> tuple[list[Any], int]:
    found: list[Any] = []
    while True:
        count, at = _long(body, at)
        if count == 0:
            keys = [one[0] for one in found] if is_map else []
            _need(len(set(keys)) == len(keys), "a key twice")
            return found, at
        if count < 0:
            count, (_, at) = -count, _long(body, at)
        for _ in range(count):
            _need(at < len(body), "it ends")
            if is_map:
                size, at = _long(body, at)
                raw, at = _bytes(body, at, size)
                one, at = _read(spec, body, at)
                found.append((_text(raw), one))
            else:
                one, at = _read(spec, body, at)
                found.append(one)


def _union(spec: list[Spec], body: bytes, at: int) -> tuple[Any, int]:
    tag, at = _long(body, at)
    _need(0 <= tag < len(spec), "no such branch")
    found, at = _read(spec[tag], body, at)
    real = [one for one in spec if one != "null"]
    if not real:
        return GONE, at
    if len(real) == 1 or set(real if all(isinstance(one, str) for one in real) else ()) in NUMBERS:
        return None if spec[tag] == "null" else found, at
    if spec[tag] == "null":
        return None, at
    return {f"member_{_name(one)}": found if one is spec[tag] else None for one in real}, at


NUMBERS = ({"int", "long"}, {"float", "double"})


def _name(spec: Spec) -> str:
    return spec if isinstance(spec, str) else str(spec.get("name", spec["type"])).rpartition(".")[2].lower()


def _read(spec: Spec, body: bytes, at: int) -> tuple[Any, int]:
    if isinstance(spec, list):
        return _union(spec, body, at)
    kind, logical = (spec, None) if isinstance(spec, str) else (spec["type"], spec.get("logicalType"))
    if kind == "null":
        return GONE, at
    if kind == "boolean":
        raw, at = _bytes(body, at, 1)
        _need(raw[0] < 2, "no boolean")
        return raw[0] == 1, at
    if kind in ("int", "long"):
        number, at = _long(body, at)
        _need(kind == "long" or -(2**31) <= number < 2**31, "no int")
        number *= _PER.get(logical, 1)
        _need(abs(number) <= (2**63 - 1) // _PER.get(logical, 1) * _PER.get(logical, 1) or logical not in _PER, "far")
        return number // 1000 if logical in ("timestamp-nanos", "local-timestamp-nanos") else number, at
    if kind in ("float", "double"):
        raw, at = _bytes(body, at, 4 if kind == "float" else 8)
        return struct.unpack("<f" if kind == "float" else "<d", raw)[0], at
    if kind in ("bytes", "string", "fixed"):
        size, at = (spec["size"], at) if kind == "fixed" else _long(body, at)
        raw, at = _bytes(body, at, size)
        if logical == "decimal":
            _need(len(raw) > 0, "no digit")
            number = int.from_bytes(raw, "big", signed=True)
            _need(abs(number) < 10 ** spec["precision"], "too many digits")
            return Decimal(f"{number}E{-spec.get('scale', 0)}"), at
        if kind == "fixed" and logical == "uuid":
            return str(uuid.UUID(bytes=raw)), at
        return (_text(raw) if kind == "string" else raw), at
    if kind == "enum":
        number, at = _long(body, at)
        _need(0 <= number < len(spec["symbols"]), "no symbol")
        return spec["symbols"][number], at
    if kind in ("array", "map"):
        return _items(spec["items" if kind == "array" else "values"], body, at, kind == "map")
    found = {}
    for field in spec["fields"]:
        found[field["name"]], at = _read(field["type"], body, at)
    return {name: value for name, value in found.items() if value is not GONE}, at


# --- at random -----------------------------------------------------------------------------------------------


def random_spec(random_: random.Random, depth: int = 3) -> Spec:
    """A record of all kinds of types, of which a column can be made."""
    return _record(random_, depth, [0])


def _record(random_: random.Random, depth: int, names: list[int]) -> Spec:
    names[0] += 1
    name = f"R{names[0]}"
    fields = [
        {"name": f"f{number}", "type": _spec(random_, depth - 1, names, field=True)}
        for number in range(random_.randint(1, 5))
    ]
    if all(field["type"] == "null" for field in fields):
        fields.append({"name": "g", "type": "int"})
    return {"type": "record", "name": name, "fields": fields}


def _spec(random_: random.Random, depth: int, names: list[int], field: bool = False) -> Spec:
    """field: it may have no column."""
    roll = random_.random()
    if depth > 0 and roll < 0.4:
        made = random_.choice(("record", "array", "map", "union", "optional"))
        if made == "record":
            return _record(random_, depth, names)
        if made in ("array", "map"):
            return {"type": made, "items" if made == "array" else "values": _spec(random_, depth - 1, names)}
        if made == "union":
            return _branches(random_, depth, names)
        below = _spec(random_, depth - 1, names)
        if not isinstance(below, list):
            return random_.choice((["null", below], [below, "null"]))
        return below
    if field and roll > 0.97:
        return "null"
    return _scalar(random_, names)


def _branches(random_: random.Random, depth: int, names: list[int]) -> Spec:
    made: dict[str, Spec] = {}
    for _ in range(random_.randint(1, 4)):
        one = _spec(random_, depth - 1, names)
        if not isinstance(one, list):
            made.setdefault(_name(one) if isinstance(one, str) or "name" in one else one["type"], one)
    made = made or {"int": "int"}
    if random_.random() < 0.4:
        made["null"] = "null"
    branches = list(made.values())
    random_.shuffle(branches)
    return branches


def _scalar(random_: random.Random, names: list[int]) -> Spec:
    names[0] += 1
    name, precision = f"N{names[0]}", random_.choice((1, 9, 18, 19, 30, 38))
    scale = random_.randint(0, precision)
    many = [
        *("boolean", "int", "long", "float", "double", "bytes", "string") * 2,
        {"type": "enum", "name": name, "symbols": ["A", "B", "C"][: random_.randint(1, 3)]},
        {"type": "fixed", "name": name, "size": random_.choice((1, 3, 70))},
        {"type": "fixed", "name": name, "size": 16, "logicalType": "uuid"},
        {"type": "fixed", "name": name, "size": 12, "logicalType": "duration"},
        {"type": "fixed", "name": name, "size": 17, "logicalType": "decimal", "precision": precision, "scale": scale},
        {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale},
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "string", "logicalType": "uuid"},
        *({"type": "long", "logicalType": one} for one in _LONGS),
    ]
    return random_.choice(many)


_LONGS = ("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
          "local-timestamp-micros", "local-timestamp-nanos")  # fmt: skip


def random_body(random_: random.Random, spec: Spec, long_lists: bool = False) -> bytes:
    """A body that is good, or nearly so. long_lists: of up to 80 items."""
    return _body(random_, spec, long_lists)


def written(number: int) -> bytes:
    """A long."""
    rest, found = (number * 2 if number >= 0 else -number * 2 - 1), []
    while rest > 127:
        found.append(rest % 128 + 128)
        rest //= 128
    return bytes([*found, rest])


def _body(random_: random.Random, spec: Spec, long_lists: bool) -> bytes:
    if isinstance(spec, list):
        tag = random_.randrange(len(spec))
        return written(tag) + _body(random_, spec[tag], long_lists)
    kind, logical = (spec, None) if isinstance(spec, str) else (spec["type"], spec.get("logicalType"))
    if kind == "null":
        return b""
    if kind == "boolean":
        return bytes([random_.randrange(2)])
    if kind in ("int", "long"):
        bits = random_.choice((1, 6, 7, 13, 14, 20, 31, 31 if kind == "int" else 63))
        return written(random_.choice((-1, 1)) * random_.getrandbits(bits) - random_.choice((0, 0, 0, 1)))
    if kind in ("float", "double"):
        form = "<f" if kind == "float" else "<d"
        return struct.pack(form, random_.choice((0.0, -0.0, 1.5, float("nan"), float("-inf"), random_.random())))
    if logical == "decimal":
        number = random_.choice((-1, 1)) * random_.randrange(10 ** random_.randint(0, spec["precision"]))
        size = spec["size"] if kind == "fixed" else number.bit_length() // 8 + 1 + random_.choice((0, 0, 0, 12))
        raw = number.to_bytes(size, "big", signed=True)
        return raw if kind == "fixed" else written(len(raw)) + raw
    if kind == "fixed":
        return random_.randbytes(spec["size"])
    if kind in ("bytes", "string"):
        text = "".join(random_.choices("ab\u00e9\u20ac\U0001f600", k=random_.choice((0, 1, 3, 90))))
        raw = text.encode() if kind == "string" else random_.randbytes(random_.choice((0, 2, 70)))
        return written(len(raw)) + raw
    if kind == "enum":
        return written(random_.randrange(len(spec["symbols"])))
    if kind in ("array", "map"):
        return _list_body(random_, spec, kind == "map", long_lists)
    return b"".join(_body(random_, field["type"], long_lists) for field in spec["fields"])


def _list_body(random_: random.Random, spec: Spec, is_map: bool, long_lists: bool) -> bytes:
    left = random_.choice((0, 1, 2, 5, random_.randint(20, 80) if long_lists and random_.random() < 0.3 else 3))
    found, keys = b"", 0
    while left:
        count = random_.randint(1, left)
        items = b""
        for _ in range(count):
            if is_map:
                key = f"k{keys if random_.random() < 0.99 else 0}".encode()
                keys, items = keys + 1, items + written(len(key)) + key
            items += _body(random_, spec["values" if is_map else "items"], False)
        left -= count
        found += (written(-count) + written(len(items)) if random_.random() < 0.3 else written(count)) + items
    return found + b"\x00"


def damaged(random_: random.Random, body: bytes) -> bytes:
    """A body with something wrong in it, most often."""
    raw = bytearray(body)
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        at = random_.randrange(len(raw) + 1)
        how = random_.randrange(6)
        if how == 0:
            del raw[at:]
        elif how == 1:
            raw[at:at] = random_.choice((b"\x00", b"\x80", b"\xff" * 9, b"\x02a", random_.randbytes(3)))
        elif how == 2 and at < len(raw):
            del raw[at]
        elif how == 3 and at < len(raw):
            raw[at] = random_.choice((0, 1, 2, 0x7F, 0x80, 0xFF, raw[at] ^ 1 << random_.randrange(8)))
        elif how == 4:
            raw += random_.choice((b"\x00", raw[:9]))
        elif at < len(raw):
            raw[at : at + 1] = written(random_.choice((2**31, -(2**31) - 1, 2**40, 2**62, -1, -(2**63), 2**63)))
    return bytes(raw)
