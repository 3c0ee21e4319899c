"""What a scalar column must hold of a JSON value: the audit's own opinion, from what the handbook says of each type.

A row comes as plain values (rows.py): dates as days since 1970, timestamps as microseconds since 1970. A value of the
topic is what documents.py reads, or one of typed.py, from a format that has more types than JSON. Pure.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from exporter.proof.contents.documents import NotJson, equal, read
from exporter.proof.contents.times import DAY_US, days_of, micros
from exporter.proof.contents.typed import Day, Floating, Instant, as_float, base64_bytes, narrowed, same_as_json

Same = Callable[[Any, Any], bool]
"""(value of the topic, value of the row), neither null: whether the column may hold just that."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def same_in(declared: str, stored: str, evolved: bool) -> Same | None:
    """How a column is compared that is declared as one type (Spark's name) and stored as another; None if not at all.

    Stored may only be declared, or wider: a table's column may have been widened since. evolved: the exporter has made
    the column, which then never holds a number that is not the value's.
    """
    kind, held = _family(declared), _family(stored)
    if held not in _WIDER.get(kind, {kind}):
        return None
    if kind == "double":
        return _same_double_exact if evolved else _same_double
    if kind == "integer":
        return _same_integer_of_text if held == "decimal" else _same_integer
    if (kind, held) == ("date", "timestamp_ntz"):
        return _same_midnight
    return _SAME.get(kind)


def _family(kind: str) -> str:
    if kind in ("byte", "short", "integer", "long"):
        return "integer"
    return "decimal" if kind.startswith("decimal(") else kind


_WIDER = {
    "integer": {"integer", "double", "decimal"},
    "float": {"float", "double"},
    "date": {"date", "timestamp_ntz"},
}
"""What Delta's type widening makes of a type, by families."""


def _same_text(sent: Any, held: Any) -> bool:
    if type(sent) is str:
        return bool(sent == held)
    return isinstance(sent, (Instant, Day)) and same_as_json(sent, held)  # as JSON with a schema beside it says it


def _same_boolean(sent: Any, held: Any) -> bool:
    return sent is held


def _same_integer(sent: Any, held: Any) -> bool:
    sent = sent.raw if isinstance(sent, Instant) else sent.days if isinstance(sent, Day) else sent
    return type(sent) is int and type(held) is not bool and bool(sent == held)


def _same_integer_of_text(sent: Any, held: Any) -> bool:
    return _same_integer(sent, Decimal(held))


def _same_double(sent: Any, held: Any) -> bool:
    if isinstance(sent, Floating):
        number = as_float(held)
        return number is not None and sent.is_number(number)
    return bool(_as_double(sent) == held)


def _same_double_exact(sent: Any, held: Any) -> bool:
    """As _same_double, but for a whole number that a double does not hold exactly: that one stays in `_rescued`."""
    return bool(sent == held) if type(sent) is int else _same_double(sent, held)


def _as_double(sent: Any) -> float | None:
    """The nearest double; None for what is no number, or beyond all of them."""
    if type(sent) is not int and type(sent) is not Decimal:
        return None
    try:
        return float(sent)
    except OverflowError:
        return None


def _same_float(sent: Any, held: Any) -> bool:
    """The nearest of 32 bits; reading over a double may round twice, so of two neighbours the nearer one counts."""
    if isinstance(sent, Floating):
        return _same_double(sent, held)
    number = _as_double(sent)
    if number is None or type(held) is not float or not math.isfinite(held):
        return False
    try:
        over_double: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        over_double = math.inf
    if over_double == held:
        return True
    if not 1e-60 < abs(number) < 1e60 or not math.isfinite(over_double) or narrowed(held) != held:
        return False
    exact = Fraction(sent)
    return abs(exact - Fraction(held)) <= abs(exact - Fraction(over_double))


def _same_decimal(sent: Any, held: Any) -> bool:
    """A number, or a text that is one."""
    if type(sent) is str and not _NUMBER.fullmatch(sent):
        return False
    if type(sent) not in (int, Decimal, str):
        return False
    try:
        return Decimal(sent) == Decimal(held)
    except InvalidOperation:
        return False


def _same_date(sent: Any, held: Any) -> bool:
    if isinstance(sent, Day) or type(sent) is int:  # a number is one in what Debezium sends without a schema
        return bool((sent.days if isinstance(sent, Day) else sent) == held)
    return type(sent) is str and days_of(sent) == held


def _same_midnight(sent: Any, held: Any) -> bool:
    return held % DAY_US == 0 and _same_date(sent, held // DAY_US)


def _same_time(sent: Any, held: Any) -> bool:
    if isinstance(sent, Instant):
        return bool(sent.micros == held)
    return type(sent) is str and micros(sent) == held


def _same_binary(sent: Any, held: Any) -> bool:
    there = sent if type(sent) is bytes else base64_bytes(sent)
    return there is not None and there == held


def same_json(sent: Any, held: Any) -> bool:
    """The column of any JSON: the text of the value, as sent or in another form of it."""
    try:
        return type(held) is str and equal(sent, read(held))
    except NotJson:
        return False


_SAME: dict[str, Same] = {
    "string": _same_text,
    "boolean": _same_boolean,
    "float": _same_float,
    "decimal": _same_decimal,
    "date": _same_date,
    "timestamp": _same_time,
    "timestamp_ntz": _same_time,
    "binary": _same_binary,
}
