"""Values that a format with types of its own has beside those of JSON, and the JSON that stands for them.

    Floating   a number of 32 or 64 bits, NaN and the infinities among them
    Instant    a point in time; Day: a date
    bytes      binary, base64 in JSON
    ObjectPairs      a map whose keys are no texts, a list in JSON
    Either     an object that stands for one value: whichever of the two the table has

As a Format's document has them (readers/): what the topic has. What a table has, in `_rescued` and in columns of any
JSON, is what documents.py reads. Pure.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from exporter.proof.contents.times import date_text, days_of, micros, time_text

_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Floating:
    """A number as its format had it. narrow: of 32 bits."""

    value: float
    narrow: bool = False

    def __str__(self) -> str:
        return str(self.value)

    def is_number(self, other: float) -> bool:
        """Whether a double is this one: NaN is NaN, and of 32 bits the nearest counts."""
        if math.isnan(self.value) or math.isnan(other):
            return math.isnan(self.value) and math.isnan(other)
        return self.value == other or (self.narrow and self.value == narrowed(other))


@dataclass(frozen=True)
class Instant:
    """Microseconds since 1970, digits beyond them cut. raw: the number that the value has, if it has one."""

    micros: int
    raw: int | None = None

    def __str__(self) -> str:
        return time_text(self.micros)


@dataclass(frozen=True)
class Day:
    """A date, in days since 1970."""

    days: int

    def __str__(self) -> str:
        return date_text(self.days)


class ObjectPairs(list[Any]):
    """Objects of `key` and `value`, each key once: a map whose keys are no texts. Their order means nothing."""

    def as_in(self, other: Any) -> list[Any]:
        """The same in the order of another list of such pairs; what is not there comes last."""
        left = {str(one["key"]): one for one in self}
        keys = [str(one.get("key")) for one in other if type(one) is dict] if type(other) is list else []
        found = [left.pop(key) for key in keys if key in left]
        return [*found, *left.values()]


@dataclass(frozen=True)
class Either:
    """parts: of the object. value: what it stands for."""

    parts: dict[str, Any]
    value: Any

    def as_in(self, other: Any) -> Any:
        """What of the two a table has whose column or `_rescued` is another value."""
        return self.parts if type(other) is dict else self.value


TYPED = (Floating, Instant, Day, bytes)


def narrowed(number: float) -> float | None:
    """The nearest number of 32 bits; None where there is none."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return None


def same_as_json(sent: Any, held: Any) -> bool:
    """Whether a scalar of JSON stands for one of TYPED."""
    if isinstance(sent, Floating):
        number = as_float(held)
        return number is not None and sent.is_number(number)
    if type(held) is int and isinstance(sent, Instant):  # beyond the years that a text has
        return held in (sent.micros, sent.raw)
    if type(held) is int and isinstance(sent, Day):
        return held == sent.days
    if type(held) is not str:
        return False
    if isinstance(sent, Instant):
        return micros(held) == sent.micros
    if isinstance(sent, Day):
        return days_of(held) == sent.days
    return bool(base64_bytes(held) == sent)


def as_float(held: Any) -> float | None:
    """A number of JSON, or the text of one that JSON does not have; else None."""
    if type(held) is str:
        return _NO_NUMBERS.get(held)
    if type(held) not in (int, float, Decimal):
        return None
    try:
        return float(held)
    except OverflowError:
        return None


def base64_bytes(text: Any) -> bytes | None:
    """The bytes of a text in base64; None if it is none."""
    try:
        return base64.b64decode(text, validate=True) if type(text) is str else None
    except (binascii.Error, ValueError):
        return None
