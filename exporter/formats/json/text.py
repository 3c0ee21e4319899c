"""What JSON text may be: depth, encoding, constants; and the words for what it is not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from exporter.formats.dead_letter import DeadLetter
from exporter.text import shorten

JSON_DEPTH_MAX = 200
"""Values nested deeper are not_json: a limit of ours, below the engines' own, which vary with the stack."""

PARSE_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What msgspec and json raise on a bad value; MemoryError is not the record's fault."""

TOO_DEEP = f"not_json: nested deeper than {JSON_DEPTH_MAX} levels"
NOT_OBJECT = "not_object: the value is JSON but no object"

DIGITS_MAX = 40
"""Of an integer whose value matters to anybody; Python refuses to read one of thousands."""

_decode = msgspec.json.Decoder().decode
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BRACKETS = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)


def refuse_constant(token: str) -> None:
    """json's hook for NaN, Infinity and -Infinity, which are not JSON."""
    raise ValueError(f"{token} is not JSON")


def not_utf8(error: UnicodeDecodeError) -> str:
    return f"not_utf8: byte {error.start} of the value"


def too_deep(raw: bytes) -> bool:
    """True if brackets outside strings nest deeper than JSON_DEPTH_MAX. Linear; no recursion."""
    if raw.count(b"{") + raw.count(b"[") <= JSON_DEPTH_MAX:
        return False
    depth, in_string = 0, False
    for match in _BRACKETS.finditer(raw):
        token = match.group()
        if token == b'"':
            in_string = not in_string
        elif not in_string:
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)
            if depth > JSON_DEPTH_MAX:
                return True
    return False


class StrictJson:
    """Reads a text that is one JSON object in which no key occurs twice, at any level, and words why it is none.

    By the standard library: slow. whole, fraction: what is made of the tokens of numbers.
    """

    def __init__(self, whole: Callable[[str], Any], fraction: Callable[[str], Any]) -> None:
        self._twins: list[str] = []
        self._scan = json.JSONDecoder(
            parse_int=whole, parse_float=fraction, parse_constant=refuse_constant, object_pairs_hook=self._object
        ).decode

    def read(self, raw: bytes) -> dict[str, Any]:
        """The value of a text of JSON. Raises DeadLetter."""
        self._twins.clear()
        try:
            text = raw.decode()
            if too_deep(raw):
                raise DeadLetter(TOO_DEEP)
            value = self._scan(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeDecodeError as bad:
            raise DeadLetter(not_utf8(bad)) from None
        except UnicodeEncodeError:
            raise DeadLetter("not_json: half of a surrogate pair") from None
        except PARSE_ERRORS as bad:
            blank = not raw.strip(b" \t\n\r")
            raise DeadLetter("not_json: the value is empty" if blank else f"not_json: {shorten(str(bad))}") from None
        if self._twins:
            raise DeadLetter(f"duplicate_key: {shorten(self._twins[0])!r} occurs twice in one object")
        if type(value) is not dict:
            raise DeadLetter(NOT_OBJECT)
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """json's hook for one object; notes its first key that occurs twice."""
        made = dict(pairs)
        if len(made) != len(pairs):
            left = list(made)
            self._twins.append(next(key for key, _ in pairs if not left or key != left.pop(0)))
        return made


def rescued_value(text: str) -> Any:
    """The value of a text in `_rescued`; a number that neither a double nor 40 digits hold is infinite."""
    try:
        return _decode(text)
    except PARSE_ERRORS:
        return json.loads(text, parse_int=lambda token: int(token) if len(token) <= DIGITS_MAX else math.inf)
