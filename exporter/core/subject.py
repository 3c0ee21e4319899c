"""Whom to erase: where a subject stands in a value, and by which texts it is known (ERASED, protocol 4.16). Pure.

    a path    names of fields from the top of a value, through lists; a text that holds JSON is gone into as well
    a text    equal to one of the subject's; a number, to one that is written so

Of a dead letter nobody can say how it is to be read. So a path may begin anywhere in it, and of one that is no JSON it
is asked whether a text of the subject's stands in it as a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

Path = Sequence[str]
IN_BINARY_MIN = 4
"""Bytes of a text that is looked for in bytes that are no text: a shorter one stands there by chance."""
_DEPTH_MAX = 200


@dataclass(frozen=True)
class DataSubject:
    """paths: where it stands, from the top of a value. texts: by which it is known."""

    paths: tuple[tuple[str, ...], ...]
    texts: frozenset[str]

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        return frozenset(number for text in self.texts if (number := _number(text)) is not None)

    @cached_property
    def _words(self) -> re.Pattern[bytes]:
        """Each text, where neither a letter, a digit nor a `_` stands beside it."""
        some = b"|".join(re.escape(text.encode()) for text in sorted(self.texts, key=len, reverse=True))
        return re.compile(rb"(?<![0-9A-Za-z_\x80-\xff])(?:" + some + rb")(?![0-9A-Za-z_\x80-\xff])")

    @cached_property
    def _bytes(self) -> re.Pattern[bytes] | None:
        long = [text.encode() for text in self.texts if len(text.encode()) >= IN_BINARY_MIN]
        return re.compile(b"|".join(map(re.escape, sorted(long, key=len, reverse=True)))) if long else None

    def is_in_json(self, text: str, paths: Sequence[Path]) -> bool:
        """Whether the subject stands at one of these paths of a JSON text. What is no JSON has none."""
        value = _read(text)
        return any(self._is(leaf) for path in paths for leaf in _leaves(value, path))

    def is_in_letter(self, raw: bytes) -> bool:
        """Whether the subject may stand in bytes of which nobody knows how they are to be read."""
        if (text := text_in(raw)) is None:
            return self._bytes is not None and self._bytes.search(raw) is not None
        value = _read(text)
        if not isinstance(value, dict | list):
            return self._words.search(raw) is not None
        return any(self._is(leaf) for part in _parts(value) for path in self.paths for leaf in _leaves(part, path))

    def _is(self, leaf: Any) -> bool:
        if isinstance(leaf, bool):
            return ("true" if leaf else "false") in self.texts
        return leaf in self.texts if isinstance(leaf, str) else leaf in self._numbers


def text_in(raw: bytes) -> str | None:
    """Bytes as UTF-8; None for what is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _read(text: str) -> Any:
    """JSON as Python has it, numbers exactly; None for what is none."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=str)
    except (ValueError, RecursionError, InvalidOperation):
        return None


def _leaves(value: Any, path: Path) -> Iterator[Any]:
    """What has no parts at a path of a value."""
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one, path)
    elif isinstance(value, dict):
        if path and path[0] in value:
            yield from _leaves(value[path[0]], path[1:])
    elif path and isinstance(value, str):
        if value[:1] in ("{", "["):
            yield from _leaves(_read(value), path)
    elif not path and value is not None:
        yield value


def _parts(value: Any, depth: int = 0) -> Iterator[Any]:
    """All objects in a value, it among them."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = _read(value)
    inside = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if isinstance(value, dict):
        yield value
    for one in inside if depth < _DEPTH_MAX else ():
        yield from _parts(one, depth + 1)


def _number(text: str) -> Decimal | None:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None
