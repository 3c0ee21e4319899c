"""JSON taken apart into members and items, each as it was sent, and written again. Runs on Spark executors.

Raises what msgspec raises (text.PARSE_ERRORS).
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Key(str):
    """A key that is equal to itself only: a dict keeps those that occur twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _key(_kind: type, text: Any) -> _Key:
    """What msgspec asks for each key of a map."""
    return _Key(text)


members_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""Of two equal keys the last one."""
every_member = msgspec.json.Decoder(dict[_Key, msgspec.Raw], dec_hook=_key).decode
"""Those too that have a key twice."""
items_of = msgspec.json.Decoder(list[msgspec.Raw]).decode
compact = msgspec.json.encode
"""The compact text of values, and of parts."""
