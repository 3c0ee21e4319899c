"""Days and instants as the audit reads them from texts. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

DAY_US = 86_400_000_000
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,9}))?)?)?)?"
    r"(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


def days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the Gregorian calendar, year 0 and before 1582 included.

    Source: Howard Hinnant, 'chrono-Compatible Low-Level Date Algorithms', days_from_civil.
    """
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def days_of(text: str) -> int | None:
    """Days since 1970 of an ISO date; None if it is none."""
    found = _DATE.fullmatch(text)
    return days(*map(int, found.groups())) if found else None


def micros(text: str) -> int | None:
    """Microseconds since 1970 of an ISO time, in UTC if it says no zone, digits beyond microseconds cut; else None.

    A leap second is the moment after it.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    secs = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    if sign:
        ahead = int(hours) * 3600 + int(minutes or 0) * 60
        secs -= ahead if sign == "+" else -ahead
    return days(int(year), int(month), int(day)) * DAY_US + secs * 1_000_000 + int(f"{fraction or '':0<6}"[:6])


def date_text(since: int) -> str:
    """The ISO date of days since 1970; as a number in years that it does not have."""
    try:
        return (_EPOCH + timedelta(days=since)).date().isoformat()
    except OverflowError:
        return f"{since} days since 1970"


def time_text(since: int) -> str:
    """The ISO time of microseconds since 1970, in UTC; as a number in years that it does not have."""
    try:
        return (_EPOCH + timedelta(microseconds=since)).isoformat() + "Z"
    except OverflowError:
        return f"{since} us since 1970"
