"""What a scalar value looks like: a time, a date, a number of milliseconds; and how it is shown masked. Pure.

Stricter than the decoder: of what is called a time or a date here, every value fits a TIMESTAMP or a DATE column.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple


class NumberUnit(NamedTuple):
    """Of a number of time since 1970. per_sec: how many there are in a second."""

    name: str
    per_sec: int


UNITS = {
    "s": NumberUnit("seconds", 1), "ms": NumberUnit("milliseconds", 1_000), "us": NumberUnit("microseconds", 1_000_000),
    "ns": NumberUnit("nanoseconds", 1_000_000_000),
}  # fmt: skip
"""By the names that the settings have for them."""
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SHOWN_MAX = 40

_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800
"""2000 and 2100: between these a number tells its unit, for the ranges of the units do not meet."""
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)?", re.ASCII
)


def form_of(value: Any) -> str:
    """`time` or `date` of a text, a unit of UNITS of an integer, else nothing."""
    if type(value) is str:
        if not 10 <= len(value) <= 35 or value[4] != "-":
            return ""
        timed = _TIME.fullmatch(value)
        if timed is not None:
            return "time" if _day(timed[1]) else ""
        return "date" if _day(value) else ""
    if type(value) is int:
        fits = (name for name, unit in UNITS.items() if _FIRST_S <= value // unit.per_sec < _LAST_S)
        return next(fits, "")
    return ""


def _day(text: str) -> bool:
    """The first and the last year are left out: a zone might lead beyond what a column holds."""
    found = _DATE.fullmatch(text)
    if found is None or not 1 < int(found[1]) < 9999:
        return False
    try:
        date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return False
    return True


def millis_of(value: Any, form: str) -> int | None:
    """Milliseconds since 1970 of a value whose form is a time or a unit."""
    if form in UNITS:
        return int(value) * 1_000 // UNITS[form].per_sec
    if form != "time":
        return None
    text = re.sub(r"(\.\d{1,6})\d*", lambda found: found[1].ljust(7, "0"), value.replace("Z", "+00:00"))
    at = datetime.fromisoformat(text)
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return (at - EPOCH) // timedelta(milliseconds=1)


def shown(value: Any, plain: bool) -> str:
    """A scalar as an example: as JSON, or with an `a` for each letter and a 9 for each digit."""
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
    if plain or isinstance(value, bool):
        return text
    return "".join("9" if one.isdigit() else _letter(one) if one.isalpha() else one for one in text)


def _letter(one: str) -> str:
    return "A" if one.isupper() else "a"
