"""Whether a value says that Debezium was not sent another one: by the handbook's table, and the standard library."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

PLACEHOLDERS = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
NO_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""What UUID.nameUUIDFromBytes gives of the placeholder."""


def is_hidden(value: Any, flags: bool = True) -> bool:
    """Whether it says that a value was not sent. flags: 28 times true may."""
    said = PLACEHOLDERS[0].encode()
    texts, twice = (*PLACEHOLDERS, said.hex()), {PLACEHOLDERS[0]: PLACEHOLDERS[0]}
    if type(value) is str:
        return value in texts or value == json.dumps(twice, separators=(",", ":"))
    if type(value) is dict:
        return value == twice or _is_nowhere(value)
    if type(value) is not list or len(value) not in (1, len(said)):
        return False
    if len(value) == 1:
        return type(value[0]) is str and value[0] in (*texts, NO_UUID)
    bare = [one["value"] if type(one) is dict and one.keys() == {"scale", "value"} and one["scale"] == 0 else one
            for one in value]  # fmt: skip
    if all(type(one) is bool for one in bare):
        return flags and all(bare)
    if all(type(one) is str for one in bare):
        return [_bytes(one) for one in bare] == [said[at : at + 1] for at in range(len(said))]
    if not all(type(one) in (int, float) for one in bare):
        return False
    numbers, wanted = [Decimal(str(one)) for one in bare], [Decimal(byte) for byte in said]
    return any([one.scaleb(scale) for one in numbers] == wanted for scale in range(-12, 39))


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


NOWHERE = ("0101000020E6100000000000FC83D797C1000000FC83D797C1", "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")


def _is_nowhere(value: dict[str, Any]) -> bool:
    """A point that stands for a geometry."""
    if value.keys() - {"x", "y", "wkb", "srid"}:
        return False
    wkb = value.get("wkb")
    if type(wkb) is str and (_bytes(wkb) or b"").hex().upper() in NOWHERE:
        return True
    both = [value.get("x"), value.get("y")]
    return all(type(one) in (int, float) and Decimal(str(one)) == -99999999 for one in both)
