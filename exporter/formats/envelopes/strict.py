"""One JSON text, read whole and strictly, and written again as it was. Runs on Spark executors.

    raw ── proven to be one JSON object in which no key occurs twice ── its values, and the bytes of each of its members

Numbers that have another text than Python would give them are kept as msgspec.Raw, so nothing that is written again has
changed. The words of a refusal are those of the JSON format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from exporter.formats.dead_letter import DeadLetter
from exporter.formats.json.judge import TOO_MANY, VALUES_MAX, too_many_values
from exporter.formats.json.text import DIGITS_MAX, NOT_OBJECT, StrictJson, too_deep
from exporter.formats.json.unknown import plain


def parsed(raw: bytes) -> dict[str, Any]:
    """The value of a text that is one JSON object in which no key occurs twice, at any level. Raises DeadLetter."""
    if len(raw) > VALUES_MAX and too_many_values(raw):
        raise DeadLetter(TOO_MANY)
    found = None if too_deep(raw) else plain(raw)
    value = StrictJson(_whole, _fraction).read(raw) if found is None else found[1]
    if type(value) is not dict:
        raise DeadLetter(NOT_OBJECT)
    return value


def _whole(token: str) -> Any:
    return int(token) if len(token) <= DIGITS_MAX and token != "-0" else msgspec.Raw(token.encode())


def _fraction(token: str) -> msgspec.Raw:
    return msgspec.Raw(token.encode())


def kind_of(value: Any) -> str:
    """What a value is, as reasons name it."""
    kinds = {type(None): "null", bool: "a boolean", int: "an integer", str: "a text", list: "an array"}
    return "an object" if isinstance(value, Mapping) else kinds.get(type(value), "a number")
