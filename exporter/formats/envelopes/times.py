"""Event times that stand in an envelope, and not in the row. Runs on Spark executors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.core.routing import EventTime
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.strict import kind_of
from exporter.formats.json.times import INFINITE, plain_time
from exporter.text import shorten

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?!24)[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)  # Python 3.14 takes 24:00 for the next day, no earlier one does
_DIGITS = 6


def micros_of(text: str) -> tuple[int, bool] | None:
    """A moment, in UTC if it names no zone, in microseconds, and whether digits were cut; None if the text is none."""
    found = _TIME.fullmatch(plain_time(text))
    if found is None:
        return None
    try:
        zone = (found[3] or "Z").replace("Z", "+00:00")  # Python 3.10 knows no Z
        moment = datetime.fromisoformat(found[1] + zone)
    except ValueError:
        return None
    digits = found[2] or ""
    micros = (moment - _EPOCH) // timedelta(microseconds=1) + int(digits[:_DIGITS].ljust(_DIGITS, "0"))
    return micros, len(digits) > _DIGITS


class EnvelopeTime:
    """Reads event times out of envelopes."""

    def __init__(self, time: EventTime) -> None:
        self._path = time.path.split(".")
        self._iso = time.unit == "iso"
        self._shown = f"$.{time.path}"

    def read(self, doc: Mapping[str, Any]) -> tuple[int | None, bool]:
        """The time as sent, in microseconds if it is a text, and whether digits were cut. Raises DeadLetter."""
        value: Any = doc
        for name in self._path:
            value = value.get(name) if type(value) is dict else None
        if value is None:
            return None, False
        if self._iso:
            return self._moment(value)
        if type(value) is not int:
            raise DeadLetter(f"type_mismatch: {self._shown} expected an integer, got {kind_of(value)}")
        if not -(2**63) <= value < 2**63:
            raise DeadLetter(f"out_of_range: {self._shown} does not fit 64 bits")
        return value, False

    def _moment(self, value: Any) -> tuple[int, bool]:
        """Microseconds of a text, and whether digits were cut. Raises DeadLetter."""
        if type(value) is not str:
            raise DeadLetter(f"type_mismatch: {self._shown} expected a timestamp text, got {kind_of(value)}")
        found = micros_of(value)
        if value in INFINITE:
            raise DeadLetter(f"out_of_range: {self._shown} = {value} is infinite (PostgreSQL)")
        if found is None:
            raise DeadLetter(f"type_mismatch: {self._shown} = {shorten(value)!r} is no timestamp")
        return found

    def array(self, times: Sequence[int | None]) -> pa.Array:
        """As a Read has them."""
        found = pa.array(times, pa.int64())
        return found.cast(US) if self._iso else found
