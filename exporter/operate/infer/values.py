"""A record's value as a JSON object, or why it is none; with the codes that a dead letter would have. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

DEPTH_MAX = 200
"""As the decoder counts."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class NoRow(Exception):
    """The value is no object that could be a row. code: of the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class _Twice(Exception):
    """A key stands twice in an object."""


def document(value: bytes) -> dict[str, Any]:
    """The object, integers exactly. Raises NoRow."""
    try:
        found = json.loads(value.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise NoRow("not_utf8") from None
    except _Twice:
        raise NoRow("duplicate_key") from None
    except (ValueError, RecursionError):
        raise NoRow("not_json") from None
    if type(found) is not dict:
        raise NoRow("not_object")
    if _deeper(found, DEPTH_MAX) or (_SURROGATE.search(value) and _half_a_pair(found)):
        raise NoRow("not_json")
    return found


def _half_a_pair(value: Any) -> bool:
    """Whether some text in it is none that can be written."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _no_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _deeper(value: Any, most: int) -> bool:
    """Whether objects and arrays are nested in more than `most` levels."""
    level = [value]
    for _ in range(most + 1):
        if not level:
            return False
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
    return True


def at_path(value: dict[str, Any], path: tuple[str, ...]) -> Any:
    """What stands at a path of keys; None where nothing does."""
    found: Any = value
    for name in path:
        if type(found) is not dict:
            return None
        found = found.get(name)
    return found
