"""Random Protobuf messages: right ones in every spelling, odd ones, and broken ones."""

from __future__ import annotations

import random
import struct
from typing import Any

from tests.support.proto_oracle import FIXED, VARINTS, is_map

_TIMES = ("seconds", "nanos")


def number(value: int, rng: random.Random | None = None) -> bytes:
    """A number of base 128, now and then longer than it has to be."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    while rng is not None and len(out) < 10 and rng.random() < 0.02:
        out[-1] |= 128
        out.append(0)
    return bytes(out)


def message(rng: random.Random, kind: Any, odd: float = 0.0, depth: int = 0) -> bytes:
    """A message of a descriptor. odd: how likely each thing in it is one that no writer sends."""
    pieces: list[bytes] = []
    chosen = {oneof.name: rng.choice(oneof.fields).number for oneof in kind.oneofs}
    dense = rng.choice((0.05, 0.3, 0.8))
    for field in sorted(kind.fields, key=lambda one: one.number):
        oneof = field.containing_oneof
        if not field.is_required and rng.random() > dense and field.name not in ("key", "value"):
            continue
        if oneof is not None and chosen[oneof.name] != field.number and rng.random() >= odd:
            continue
        pieces += _field(rng, field, odd, depth)
    if rng.random() < 0.2:
        rng.shuffle(pieces)
    if rng.random() < odd:
        pieces.insert(rng.randint(0, len(pieces)), _strange(rng))
    if pieces and rng.random() < odd:
        pieces.append(rng.choice(pieces))
    return b"".join(pieces)


def _field(rng: random.Random, field: Any, odd: float, depth: int) -> list[bytes]:
    wire = 0 if field.type in VARINTS else {8: 1, 4: 5}.get(FIXED.get(field.type, 0), 2)
    times = rng.choice((0, 1, 2, 3, 3, 40)) if field.is_repeated and depth < 2 else 1
    if is_map(field):
        times = min(times, 3)
    values = [_value(rng, field, odd, depth) for _ in range(times)]
    if rng.random() < odd / 3:
        wire = rng.choice((0, 1, 2, 3, 4, 5, 6, 7))
    tag = number(field.number << 3 | wire, rng)
    if field.is_repeated and field.type not in (9, 11, 12) and rng.random() < 0.6:
        body = b"".join(values)
        if rng.random() < odd and body:
            body = body[:-1] if rng.random() < 0.5 else body + b"\xff"
        return [number(field.number << 3 | 2, rng) + number(len(body), rng) + body]
    return [tag + value for value in values]


def _value(rng: random.Random, field: Any, odd: float, depth: int) -> bytes:
    if field.type in VARINTS:
        return number(_whole(rng, field, odd), rng)
    if field.type in FIXED:
        plain = struct.pack("<d" if FIXED[field.type] == 8 else "<f", rng.choice((0.0, -1.5, 1e30, float("nan"))))
        return rng.choice((plain, rng.randbytes(FIXED[field.type])))
    if field.type == 9:
        text = "".join(rng.choice("ab \u00e9\u4e2d\U0001f600") for _ in range(rng.choice((0, 1, 5, 30)))).encode()
        body = text if rng.random() >= odd else rng.choice((b"\xff", text + b"\xc3", b"\xed\xa0\x80", text[1:]))
    elif field.type == 12:
        body = rng.randbytes(rng.choice((0, 1, 9)))
    else:
        body = message(rng, field.message_type, odd, depth + 1)
    size = len(body) if rng.random() >= odd / 4 else rng.choice((len(body) + 1, 1 << 31, 1 << 63, 1 << 64, 0))
    return number(size, rng) + body


def _whole(rng: random.Random, field: Any, odd: float) -> int:
    if rng.random() < odd:
        return rng.choice((1 << 31, 1 << 32, (1 << 33) + 1, -(1 << 31) - 1, 2, 1 << 63, rng.getrandbits(64), -1))
    if field.type == 14:
        return int(rng.choice(field.enum_type.values).number)
    if field.name in _TIMES and field.containing_type.full_name.startswith("google.protobuf."):
        return rng.randint(-(10**9), 2 * 10**9) if field.name == "seconds" else rng.randint(0, 10**9 - 1)
    bits = rng.choice((1, 7, 8, 14, 31, 32, 63, 64))
    width = VARINTS[field.type]
    if field.type == 5 and bits >= 32:
        return -rng.getrandbits(31) - 1
    value = rng.getrandbits(min(bits, width))
    return value & 0x7FFFFFFF if field.type == 5 else value


def _strange(rng: random.Random) -> bytes:
    """A field that the message does not have, or no field at all."""
    tag = rng.choice((60 << 3, 60 << 3 | 2, 60 << 3 | 3, 1 << 3 | 4, 1 << 3 | 6, 0, 2, (1 << 35) | 8, 1 << 32))
    return number(tag) + rng.choice((b"\x01", b"\x00", b"\x01a", number(60 << 3 | 4)))


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """Bytes changed, left out, put in, doubled."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, to = sorted((rng.randint(0, len(out)), rng.randint(0, len(out))))
        how = rng.randrange(6)
        if how == 0 and out:
            out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del out[at : min(to, at + 4)]
        elif how == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 1, 4)))
        elif how == 3:
            out += out[at:to]
        elif how == 4:
            del out[at:]
        elif out:
            out[min(at, len(out) - 1)] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    return bytes(out)


def some(rng: random.Random, kind: Any) -> bytes:
    """One of all sorts."""
    raw = message(rng, kind, rng.choice((0.0, 0.0, 0.01, 0.05)))
    return damaged(rng, raw) if rng.random() < 0.35 else raw
