"""Values that a source did not send because they had not changed: Debezium's placeholder in their stead.

    {"id": 7, "doc": "__debezium_unavailable_value"} ── id 7, doc null, `_rescued` has doc as it was sent

So they are null and named, and a record's document is still its columns and `_rescued` put together (protocol 1.6).
They are looked for at the top of a row, in what is a column. Debezium gives the placeholder the type of its column:

    column                           placeholder                                    connector, since
    text, json, xml, any scalar      the text                                       all
    hstore                           a map of the text to itself, or its JSON       postgresql 2.3, 2.6
    binary                           the text's bytes, in base64 as JSON has them   all
    binary, mode `hex`               their hexadecimal digits; the text             all but postgresql; postgresql
    array of texts, of binary        the one element text, or its bytes             postgresql 2.2
    array of uuid                    the one element UUID of the bytes              postgresql 2.4
    array of integers, dates, times  28 numbers, the bytes                          postgresql 2.2
    array of fractions               28 numbers: 95.0, ...; decimals of one byte    postgresql 3.7
    array of boolean                 28 times true                                  postgresql 3.7
    geometry, geography, point       a point that is none on earth, or nearly none  postgresql 3

A value that says just this by chance cannot be told from it. Only of 28 times true that is likely enough to look at who
sent it, where a source says so; all other forms count whoever sent them. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from exporter.arrow.rows import patched

PLACEHOLDER = "__debezium_unavailable_value"
PLACEHOLDER_BYTES = PLACEHOLDER.encode()
PLACEHOLDER_BASE64 = base64.b64encode(PLACEHOLDER_BYTES).decode()
PLACEHOLDER_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""The UUID of version 3, without a name space, of the bytes."""
LONE_TEXTS = frozenset({PLACEHOLDER, PLACEHOLDER_BASE64, PLACEHOLDER_BYTES.hex(), PLACEHOLDER_UUID})
"""What stands alone in an array."""
TEXTS = frozenset({PLACEHOLDER, PLACEHOLDER_BASE64, PLACEHOLDER_BYTES.hex(), f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'})
POINTS = frozenset(
    base64.b64encode(bytes.fromhex(wkb)).decode()
    for wkb in (
        "0101000020E6100000000000FC83D797C1000000FC83D797C1",
        "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",
    )
)
"""Geometries as EWKB in base64: (-99999999, -99999999) and, of a geography, (179.999999, 89.999999)."""
NOWHERE = -99_999_999
"""x and y of a point."""
FLAGS_SINCE = (3, 7)
_PREFIX = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,48}(?:\.\d{1,48})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
"""One that may be a byte, or NOWHERE."""


def sends_flags(connector: Any, version: Any) -> bool:
    """Whether 28 times true may stand for an array, as far as a source says who sent it."""
    found = _PREFIX.match(version) if type(version) is str else None
    return connector in (None, "postgresql") and (found is None or (int(found[1]), int(found[2])) >= FLAGS_SINCE)


def is_unavailable(value: Any, flags: bool = True) -> bool:
    """Whether it stands for a value, of the types that JSON has. flags: see sends_flags."""
    kind = type(value)
    if kind is str:
        return value in TEXTS
    if kind is list:
        return is_list(value, flags)
    return kind is dict and (value == {PLACEHOLDER: PLACEHOLDER} or _is_point(value))


def is_list(items: Sequence[Any], flags: bool) -> bool:
    """The same of an array."""
    if len(items) == 1:
        return type(items[0]) is str and items[0] in LONE_TEXTS
    if len(items) != len(PLACEHOLDER_BYTES):
        return False
    return (flags and all(one is True for one in items)) or _spell(items)


def unavailable(image: Mapping[str, Any], columns: Collection[str], flags: bool = True) -> list[str]:
    """The names of the columns whose value is unavailable."""
    return [
        name
        for name, value in image.items()
        if name in columns and (value in TEXTS if type(value) is str else is_unavailable(value, flags))
    ]


def with_members(rescued: pa.StringArray, members: Mapping[int, str]) -> pa.StringArray:
    """What is in `_rescued`, and by row members more, of which it has none."""
    texts: dict[int, str] = {}
    for row, more in members.items():
        inside = (rescued[row].as_py() or "{}")[1:-1]
        texts[row] = "{" + inside + ("," if inside else "") + more + "}"
    return patched(rescued, texts)


def _spell(items: Sequence[Any]) -> bool:
    """Whether 28 numbers are the bytes, all of them times one power of ten."""
    first = _number(items[0])
    if first is None or first.is_signed() or first.normalize().as_tuple().digits != (9, 5):
        return False
    scale = first / PLACEHOLDER_BYTES[0]
    return all(_number(one) == byte * scale for one, byte in zip(items, PLACEHOLDER_BYTES, strict=True))


def _number(value: Any) -> Decimal | None:
    """A number as JSON has it, or one of one byte as decimals are sent; None of anything else."""
    kind = type(value)
    if kind is dict and value.keys() == {"scale", "value"} and value["scale"] == 0:
        return _of_byte(value["value"]) if type(value["value"]) is str else None
    if kind is str:
        return _of_byte(value)
    if kind not in (int, float, Decimal, msgspec.Raw):
        return None
    found = _NUMBER.fullmatch(bytes(value).decode() if kind is msgspec.Raw else str(value))
    return None if found is None else Decimal(found[0])


def _of_byte(text: str) -> Decimal | None:
    try:
        raw = base64.b64decode(text, validate=True) if len(text) == 4 else b""
    except (binascii.Error, ValueError):
        return None
    return Decimal(raw[0]) if len(raw) == 1 else None


def _is_point(value: Mapping[str, Any]) -> bool:
    """Whether it is one of those that stand for a geometry."""
    if not value.keys() <= {"x", "y", "wkb", "srid"}:
        return False
    wkb = value.get("wkb")
    return (type(wkb) is str and wkb in POINTS) or all(_number(value.get(name)) == NOWHERE for name in "xy")
