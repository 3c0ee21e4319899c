"""JSON with exact numbers, by the standard library: what the topic has, what `_rescued` and columns of any JSON hold.

Objects are dicts, arrays lists, numbers int or Decimal, and a number beyond these is a Beyond. Null is absent: `equal`
does not tell them apart among the members of an object. Pure.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any

from exporter.proof.contents.typed import TYPED, Day, Instant, ObjectPairs, same_as_json
from exporter.text import escaped


class NotJson(Exception):
    """No JSON, or an object with a key that occurs twice."""


class Beyond(str):
    """A number that neither int nor Decimal holds, as written."""

    __slots__ = ()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotJson("a key occurs twice in one object")
    return made


def _refused(token: str) -> None:
    raise NotJson(f"{token} is no JSON")


def _whole(token: str) -> Any:
    try:
        return int(token)
    except ValueError:  # more digits than Python turns into an int
        return Decimal(token)


def _fraction(token: str) -> Any:
    try:
        return Decimal(token)
    except InvalidOperation:  # its exponent
        return Beyond(token)


_quick = json.JSONDecoder(parse_float=Decimal, parse_constant=_refused, object_pairs_hook=_members).decode
_any, _bare = (
    json.JSONDecoder(parse_int=_whole, parse_float=_fraction, parse_constant=one, object_pairs_hook=_members).decode
    for one in (_refused, str)
)


def read(text: str | bytes) -> Any:
    """The value of a JSON text. Raises NotJson."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        try:
            return _quick(text)
        except (ValueError, InvalidOperation):  # or a number that it does not take
            return _any(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def read_bare(text: str) -> Any:
    """The same of a text in which NaN and the infinities may stand as numbers: they are texts. Raises NotJson."""
    try:
        return _bare(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error


def equal(one: Any, other: Any) -> bool:
    """Whether two values are one: numbers by value, objects whatever the order of their members, null as absent.

    one: what was sent; it may have what JSON has not (typed.py), as the other may stand for it.
    """
    one = one.as_in(other) if isinstance(one, ObjectPairs) else one
    if type(one) is dict and type(other) is dict:
        return all(equal(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if type(one) is list and type(other) is list:
        return len(one) == len(other) and all(map(equal, one, other))
    return same_scalar(one, other)


def same_scalar(one: Any, other: Any) -> bool:
    """Whether two texts, numbers, booleans or nulls are one, as in `equal`. False for objects and arrays."""
    if isinstance(one, TYPED):
        return same_as_json(one, other)
    if type(one) is type(other):
        return type(one) not in (dict, list) and bool(one == other)
    return {type(one), type(other)} == {int, Decimal} and bool(one == other)


SHOWN_MAX = 40
"""So many characters of a scalar are told, so many digits of binary."""


def shown(value: Any) -> str:
    """What stands somewhere: a scalar, of a long one the beginning; of an object or array how much is in it."""
    if value is None:
        return "nothing"
    if type(value) is dict:
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if type(value) is str:
        more = f"... ({len(value)} characters)" if len(value) > SHOWN_MAX else ""
        return f'"{escaped(value[:SHOWN_MAX])}"{more}'
    if type(value) is bytes:
        more = f"... ({len(value)} bytes)" if 2 * len(value) > SHOWN_MAX else ""
        return f"0x{value.hex()[:SHOWN_MAX]}{more}"
    if type(value) is bool:
        return str(value).lower()
    text = escaped(str(value))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"


def shown_in(kind: Any, held: Any) -> str:
    """What stands in a column. kind: Spark's type, or how a report calls it."""
    if held is None or not isinstance(kind, str):
        return shown(held)
    if type(held) is int and kind in _TIMES:
        held = _TIMES[kind](held)
    return f"{shown(held)} as {kind}"


_TIMES = {"date": Day, "timestamp": Instant, "timestamp_ntz": Instant}
