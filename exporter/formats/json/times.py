"""Texts of times as RFC 3339 allows them, in the words that Arrow's parser knows. Pure.

    2024-01-05t10:11:12z         T and Z are small letters
    2024-01-05T10:11:12,5Z       a comma is a decimal point
    2016-12-31T23:59:60Z         a leap second, which ends an hour in UTC: the moment after it, 2017-01-01T00:00:00Z

No clock here counts leap seconds: the two moments are one. A second 60 elsewhere is none.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)([Tt ])(\d\d:(\d\d):)(\d\d)(?:([.,])(\d{1,9}))?([Zz]|[+-]\d\d(?::?(\d\d))?|)", re.ASCII
)
_LEAP = "60"
INFINITE = frozenset(
    {"infinity", "-infinity", "9223372036825200000", "-9223372036832400000", "9223372036825200", "-9223372036832400"}
)
"""What Debezium sends for PostgreSQL's infinite timestamps: texts, microseconds, milliseconds."""
INFINITE_DAYS = frozenset({"infinity", "-infinity", "-2147472692", "-2147472691"})
"""The same of its infinite dates: texts, and days since 1970, as 32 bits hold them."""


def plain_time(text: str) -> str:
    """A text of the same moment as Arrow reads it; the text itself if it is none, or needs no other."""
    found = _TIME.fullmatch(text)
    if found is None:
        return text
    day, mark, hour, minute, second, _, digits, zone, ahead = found.groups()
    fraction = f".{digits}" if digits else ""
    mark, zone = mark.upper(), zone.upper()
    if second != _LEAP:
        return f"{day}{mark}{hour}{second}{fraction}{zone}"
    in_utc = int(minute) - int(f"{zone[0]}{ahead}" if ahead else 0)
    if in_utc % 60 != 59:
        return text
    try:
        last = datetime.fromisoformat(f"{day}T{hour}59") + timedelta(seconds=1)
    except (ValueError, OverflowError):
        return text
    return f"{last.isoformat(mark)}{fraction}{zone}"
