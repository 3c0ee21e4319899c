"""MongoDB's extended JSON, both forms of its second version and the older one, as plain JSON. Runs on Spark executors.

    {"$oid": "5f..."}, {"$symbol": "x"}, {"$uuid": "c8..."}      the text
    {"$numberInt": "5"}, {"$numberLong": "5"}                    5
    {"$numberDouble": "1.5"}                                     1.5; the text where it is NaN or infinite
    NaN, Infinity, -Infinity, as Debezium writes doubles         the text
    {"$numberDecimal": "1.50"}                                   the text: a number would lose its zeros
    {"$date": "2026-01-31T12:00:00Z"}                            the text
    {"$date": 1769860800000}, {"$date": {"$numberLong": "1..."}} "2026-01-31T12:00:00.000Z"
    {"$binary": {"base64": "aGk=", "subType": "00"}}             "aGk="; 8-4-4-4-12 where it is a UUID (04, 16 bytes)
    {"$timestamp": {"t": 5, "i": 1}}                             {"t": 5, "i": 1}
    {"$undefined": true}                                         null

What is none of these forms, letter by letter, is the object that it is.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from exporter.formats.envelopes.strict import parsed
from exporter.formats.json.parts import compact

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_BARE = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|(?<![\w.+-])(NaN|-?Infinity)(?![\w.+-]|[ \t\r\n]*:)', re.ASCII | re.DOTALL
)
"""A text, which stays as it is, or a number that JSON does not have, and no name of a member."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_UUID_BYTES = 16


def plain_document(text: str) -> tuple[Mapping[str, Any], bytes]:
    """A document as plain JSON: its value and its text. Raises Refused for what is no JSON object."""
    text = _quoted(text)
    raw = text.encode()
    value = parsed(raw)
    if "$" not in text and "\\u" not in text:
        return value, raw
    plain = {name: plain_value(item) for name, item in value.items()}
    return plain, compact(plain)


def _quoted(text: str) -> str:
    """A text in which numbers that JSON does not have are texts. It is no JSON if it was none but for them."""
    if not any(word in text for word in ("NaN", "Infinity")):
        return text
    return _BARE.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text)


def plain_value(value: Any) -> Any:
    """A value, at any level of a document."""
    if type(value) is list:
        return [plain_value(item) for item in value]
    if type(value) is not dict:
        return value
    found = _FORMS[name](value) if len(value) <= 2 and (name := next(iter(value), "")) in _FORMS else value
    return {key: plain_value(item) for key, item in value.items()} if found is value else found


def iso_of_millis(millis: int) -> str | None:
    """A moment in UTC as text, None if its year has not four digits."""
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return None


Form = Callable[[dict[str, Any]], Any]
"""What becomes of an object whose first key is that of the form; the object itself if it is not of the form."""


def _text(name: str) -> Form:
    def read(value: dict[str, Any]) -> Any:
        return value[name] if len(value) == 1 and type(value[name]) is str else value

    return read


def _integer(name: str, bits: int) -> Form:
    def read(value: dict[str, Any]) -> Any:
        number = _whole(value[name]) if len(value) == 1 else None
        return value if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1) else number

    return read


def _whole(text: Any) -> int | None:
    return int(text) if type(text) is str and _WHOLE.fullmatch(text) else None


def _double(value: dict[str, Any]) -> Any:
    text = value["$numberDouble"]
    if len(value) > 1 or type(text) is not str:
        return value
    if _NUMBER.fullmatch(text):
        return msgspec.Raw(text.encode())
    return text if text in _NOT_FINITE else value


def _date(value: dict[str, Any]) -> Any:
    found = value["$date"]
    if len(value) > 1 or type(found) is str:
        return value if len(value) > 1 else found
    if type(found) is dict and list(found) == ["$numberLong"]:
        found = _whole(found["$numberLong"])
    text = iso_of_millis(found) if type(found) is int else None
    return value if text is None else text


def _binary(value: dict[str, Any]) -> Any:
    found = value["$binary"]
    if type(found) is dict and len(value) == 1 and found.keys() == {"base64", "subType"}:
        text, kind = found["base64"], found["subType"]
    else:
        text, kind = (found, value["$type"]) if value.keys() == {"$binary", "$type"} else (None, None)
    if type(text) is not str or type(kind) is not str or not _BASE64.fullmatch(text):
        return value
    raw = base64.b64decode(text) if kind in ("4", "04") else b""
    return str(uuid.UUID(bytes=raw)) if len(raw) == _UUID_BYTES else text


def _timestamp(value: dict[str, Any]) -> Any:
    found = value["$timestamp"]
    fits = len(value) == 1 and type(found) is dict and found.keys() == {"t", "i"}
    return found if fits and all(type(one) is int for one in found.values()) else value


def _undefined(value: dict[str, Any]) -> Any:
    return None if len(value) == 1 and value["$undefined"] is True else value


_FORMS: Mapping[str, Form] = {
    "$oid": _text("$oid"),
    "$symbol": _text("$symbol"),
    "$uuid": _text("$uuid"),
    "$numberInt": _integer("$numberInt", 32),
    "$numberLong": _integer("$numberLong", 64),
    "$numberDouble": _double,
    "$numberDecimal": _text("$numberDecimal"),
    "$date": _date,
    "$binary": _binary,
    "$timestamp": _timestamp,
    "$undefined": _undefined,
}
