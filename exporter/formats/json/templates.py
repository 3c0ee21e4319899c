"""How the unknown fields of a stretch look when they look as others did: a pattern. Runs on Spark executors."""

from __future__ import annotations

import re
from json.decoder import JSONDecoder
from json.encoder import encode_basestring
from typing import Any, NamedTuple

PATTERN_MAX = 8_192
"""Characters. A pattern of much longer ones is refused by Arrow's engine (RE2)."""

_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\nrtbf])*"'
"""One that is written so by the judge, too."""
_VALUE = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
PLAIN_PATTERN = rf"{_VALUE}|\[(?:{_VALUE}(?:,{_VALUE})*)?\]"
"""Of a single field: a scalar, or an array of scalars."""


class Template(NamedTuple):
    """How the fields of a stretch look if their keys are these, in this order. pattern: of all behind the first key.

    What fits it is as the judge writes it. fields: their number. keys: theirs, not of those in them.
    """

    pattern: str
    fields: int
    keys: frozenset[str]


class _Pairs(list[Any]):
    """An object as (key, value) in its order."""


_parse = JSONDecoder(object_pairs_hook=_Pairs, parse_int=float).decode


def template_of(name: str, sent: str) -> Template | None:
    """The template of a stretch, of which `sent` follows its first key; None if its pattern would be too long."""
    fields = _parse(f"{{{encode_basestring(name)}:{sent}}}")
    pattern = _pattern(fields)
    if pattern is None:
        return None
    behind = pattern[len(rf"\{{{re.escape(encode_basestring(name))}:") : -len(r"\}")]
    return Template(behind, len(fields), frozenset(key for key, _ in fields))


def _pattern(value: Any) -> str | None:
    """Of all values that have the same keys in the same order, and plain values where this one has any."""
    if not isinstance(value, list):
        return _VALUE
    if isinstance(value, _Pairs):
        inner = [(re.escape(encode_basestring(key)), _pattern(item)) for key, item in value]
        pattern = rf"\{{{','.join(f'{key}:{item}' for key, item in inner)}\}}"
        return pattern if len(pattern) <= PATTERN_MAX and all(item for _, item in inner) else None
    items = dict.fromkeys(map(_pattern, value)) or {_VALUE: None}
    if None in items:
        return None
    item = f"(?:{'|'.join(filter(None, items))})"
    pattern = rf"\[(?:{item}(?:,{item})*)?\]"
    return pattern if len(pattern) <= PATTERN_MAX else None
