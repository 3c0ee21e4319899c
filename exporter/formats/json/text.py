"""What JSON text may be: depth, encoding, constants; and the words for what it is not."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

JSON_DEPTH_MAX = 200
"""Values nested deeper are not_json: a limit of ours, below the engines' own, which vary with the stack."""

PARSE_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What msgspec and json raise on a bad value; MemoryError is not the record's fault."""

TOO_DEEP = f"not_json: nested deeper than {JSON_DEPTH_MAX} levels"
NOT_OBJECT = "not_object: the value is JSON but no object"

DIGITS_MAX = 40
"""Of an integer whose value matters to anybody; Python refuses to read one of thousands."""

_decode = msgspec.json.Decoder().decode
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


def rescued_value(text: str) -> Any:
    """The value of a text in `_rescued`; a number that neither a double nor 40 digits hold is infinite."""
    try:
        return _decode(text)
    except PARSE_ERRORS:
        return json.loads(text, parse_int=lambda token: int(token) if len(token) <= DIGITS_MAX else math.inf)
