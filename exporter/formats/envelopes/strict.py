"""One JSON text, read whole and strictly, and written again as it was. Runs on Spark executors.

    raw ── proven to be one JSON object in which no key occurs twice ── its values, and the bytes of each of its members

Numbers that have another text than Python would give them are kept as msgspec.Raw, so nothing that is written again has
changed. The words of a refusal are those of the JSON format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from exporter.formats.json.judge import TOO_MANY, VALUES_MAX, too_many_values
from exporter.formats.json.text import (
    DIGITS_MAX,
    NOT_OBJECT,
    PARSE_ERRORS,
    TOO_DEEP,
    not_utf8,
    refuse_constant,
    too_deep,
)
from exporter.formats.json.unknown import plain
from exporter.text import shorten

written = msgspec.json.encode
"""The compact text of a value that parsed() gave, or that was made of such."""
members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The members of a proven object, each with its bytes as sent."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DeadLetter(Exception):
    """One record is a dead letter; the text is the reason: a code, a colon, and a path where there is one."""


def parsed(raw: bytes) -> dict[str, Any]:
    """The value of a text that is one JSON object in which no key occurs twice, at any level. Raises DeadLetter."""
    if len(raw) > VALUES_MAX and too_many_values(raw):
        raise DeadLetter(TOO_MANY)
    found = None if too_deep(raw) else plain(raw)
    value = _exact(raw) if found is None else found[1]
    if type(value) is not dict:
        raise DeadLetter(NOT_OBJECT)
    return value


def _exact(raw: bytes) -> Any:
    """The same of any JSON, where msgspec is in doubt: by the standard library, which words the reason."""
    twins: list[str] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            left = list(found)
            twins.append(next(key for key, _ in pairs if not left or key != left.pop(0)))
        return found

    try:
        text = raw.decode()
        if too_deep(raw):
            raise DeadLetter(TOO_DEEP)
        value = json.loads(
            text, parse_int=_whole, parse_float=_fraction, parse_constant=refuse_constant, object_pairs_hook=made
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeDecodeError as bad:
        raise DeadLetter(not_utf8(bad)) from None
    except UnicodeEncodeError:
        raise DeadLetter("not_json: half of a surrogate pair") from None
    except PARSE_ERRORS as bad:
        blank = not raw.strip(b" \t\n\r")
        raise DeadLetter("not_json: the value is empty" if blank else f"not_json: {shorten(str(bad))}") from None
    if twins:
        raise DeadLetter(f"duplicate_key: {shorten(twins[0])!r} occurs twice in one object")
    return value


def _whole(token: str) -> Any:
    return int(token) if len(token) <= DIGITS_MAX and token != "-0" else msgspec.Raw(token.encode())


def _fraction(token: str) -> msgspec.Raw:
    return msgspec.Raw(token.encode())


def kind_of(value: Any) -> str:
    """What a value is, as reasons name it."""
    kinds = {type(None): "null", bool: "a boolean", int: "an integer", str: "a text", list: "an array"}
    return "an object" if isinstance(value, Mapping) else kinds.get(type(value), "a number")
