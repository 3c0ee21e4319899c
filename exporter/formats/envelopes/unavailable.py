"""Values that a source did not send because they had not changed: Debezium's placeholder in their stead.

    {"id": 7, "doc": "__debezium_unavailable_value"} ── id 7, doc null, `_rescued` has doc as it was sent

So they are null and named, and a record's document is still its columns and `_rescued` put together (protocol 1.6).
They are looked for at the top of a row, in what is a column. A text that says just this by chance cannot be told from
it. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

PLACEHOLDER = "__debezium_unavailable_value"
PLACEHOLDER_BYTES = PLACEHOLDER.encode()
PLACEHOLDER_BASE64 = base64.b64encode(PLACEHOLDER_BYTES).decode()
_TEXTS = frozenset({PLACEHOLDER, PLACEHOLDER_BASE64})
_NUMBERS = list(PLACEHOLDER_BYTES)


def is_unavailable(value: Any) -> bool:
    """Whether it stands for a value: the text, its bytes in base64 or as numbers, an array of it alone, a map of it."""
    kind = type(value)
    if kind is str:
        return value in _TEXTS
    if kind is list:
        return (len(value) == 1 and type(value[0]) is str and value[0] in _TEXTS) or value == _NUMBERS
    return kind is dict and value == {PLACEHOLDER: PLACEHOLDER}


def unavailable(image: Mapping[str, Any], columns: Collection[str]) -> list[str]:
    """The names of the columns whose value is unavailable."""
    return [
        name
        for name, value in image.items()
        if name in columns and (value in _TEXTS if type(value) is str else is_unavailable(value))
    ]
