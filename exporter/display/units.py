"""Numbers, sizes and times as a person reads them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from datetime import datetime, timezone
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def number(value: float) -> str:
    """Grouped by thousands; a fraction with two digits."""
    if isinstance(value, int) or (math.isfinite(value) and value == int(value)):
        return f"{int(value):,}"
    return f"{value:,.2f}"


def short(value: float) -> str:
    """In few characters, as on an axis: 1.5 M."""
    for unit, one in (("G", 1e9), ("M", 1e6)):
        if abs(value) >= one:
            return f"{value / one:.4g}\u00a0{unit}"
    return number(value) if abs(value) >= 1000 else f"{value:.4g}"


def things(count: int, what: str) -> str:
    """A count with its noun: 1 table, 2 tables."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Bytes, never broken over two lines."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f}\u00a0{unit}" if unit == "B" else f"{count:.1f}\u00a0{unit}"
        count /= 1024
    return f"{count:,.1f}\u00a0TiB"


def moment(at_ms: float) -> str:
    """A moment in UTC, to the second."""
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%m-%d %H:%M:%S}"


def clock(at_ms: float) -> str:
    """The time of the day, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%H:%M:%S}"


def span(width_ms: float) -> str:
    """How long, in the largest unit that fits."""
    for unit, length in _SPANS:
        if width_ms >= length:
            return f"{width_ms / length:.1f} {unit}"
    return f"{width_ms:.0f} ms"


def secs_span(secs: float) -> str:
    """How long, of seconds, in whole ones below a minute."""
    return f"{secs:.0f} s" if secs < 60 else span(secs * 1000)


def sums(pairs: Iterable[tuple[T, int]]) -> dict[T, int]:
    """Added up by key, the largest first."""
    found: Counter[T] = Counter()
    for key, amount in pairs:
        found[key] += amount
    return dict(found.most_common())
