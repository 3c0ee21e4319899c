"""Documents of MongoDB: extended JSON read as plain JSON, once more for the audit, by the handbook's table. Pure.

An object whose members are those of a form stands for one value, wherever it is below the top; any other is an object.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from exporter.proof.contents.documents import NotJson, read, read_bare
from exporter.proof.contents.times import DAY_US, date_text
from exporter.proof.readers.reader import Undecided, object_in

_UUID_KINDS, _UUID_BYTES = ("4", "04"), 16
_BITS = {"$numberInt": 31, "$numberLong": 63}
_WORDS = ("NaN", "Infinity", "-Infinity")
_MINUS_ZERO = re.compile(r":\s*-0\s*[,}]")


def document(text: str) -> dict[str, Any]:
    """A document of MongoDB's extended JSON. Raises Refused, and Undecided."""
    found = object_in(text, read_bare)
    if "$" in text and _MINUS_ZERO.search(text):
        raise Undecided("whether -0 is a whole number depends on its form")
    return {name: _plain(one) for name, one in found.items()}


def _plain(value: Any) -> Any:
    if type(value) is list:
        return [_plain(one) for one in value]
    if type(value) is not dict:
        return value
    found = _meant(value)
    return {name: _plain(one) for name, one in value.items()} if found is value else found


def _meant(value: dict[str, Any]) -> Any:
    """What an object stands for; itself if it is of no form."""
    names = (*value,)
    if names == ("$binary", "$type"):
        return _binary(value, *value.values())
    if len(names) != 1:
        return value
    ((name, inner),) = value.items()
    members = set(inner) if type(inner) is dict else set()
    if name == "$binary" and members == {"base64", "subType"}:
        return _binary(value, inner["base64"], inner["subType"])
    if name == "$timestamp" and members == {"t", "i"}:
        return inner if all(type(one) is int for one in inner.values()) else value
    if name == "$date" and members == {"$numberLong"}:
        inner = _whole(inner["$numberLong"])
    if name == "$date" and type(inner) is int:
        return _moment(value, inner)
    if name == "$undefined" and inner is True:
        return None
    if type(inner) is not str:
        return value
    if name in ("$oid", "$symbol", "$uuid", "$numberDecimal", "$date"):
        return inner
    if name in _BITS:
        number, most = _whole(inner), 1 << _BITS[name]
        return number if number is not None and -most <= number < most else value
    return _double(value, inner) if name == "$numberDouble" else value


def _whole(text: Any) -> int | None:
    digits = text.removeprefix("-") if type(text) is str else ""
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 19 else None


def _double(value: dict[str, Any], text: str) -> Any:
    """The number that a text is."""
    try:
        found = read(text) if text == text.strip() else None
    except NotJson:
        return text if text in _WORDS else value
    return value if found is None or isinstance(found, (bool, list, dict)) or type(found) is str else found


def _moment(value: dict[str, Any], millis: int) -> Any:
    """The text of a moment, if its year has four digits."""
    days, rest = divmod(millis * 1_000, DAY_US)
    if not -719_162 <= days <= 2_932_896:
        return value
    secs, micros = divmod(rest, 1_000_000)
    return f"{date_text(days)}T{secs // 3600:02}:{secs // 60 % 60:02}:{secs % 60:02}.{micros // 1_000:03}Z"


def _binary(value: dict[str, Any], text: Any, kind: Any) -> Any:
    if type(text) is not str or type(kind) is not str or len(text) % 4:
        return value
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return value
    if kind not in _UUID_KINDS or len(raw) != _UUID_BYTES:
        return text
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
