"""The one clock of a task: what time it is, and how it passes. tests/sim puts a simulated one in its place.

Rooms that a task's loop reaches take no time from elsewhere (tests/test_tidy.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Clock:
    """Where time comes from. core_secs: what this thread has had of a core."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    core_secs: Callable[[], float] = time.thread_time


_clock = Clock()


def tell_time_by(clock: Clock) -> Clock:
    """Put another clock in the place of the one so far, which is returned."""
    global _clock
    before, _clock = _clock, clock
    return before


def monotonic() -> float:
    """Seconds since any moment, never set back."""
    return _clock.monotonic()


def wall() -> float:
    """Seconds since 1970, as the machine believes."""
    return _clock.wall()


def wall_ms() -> int:
    """Milliseconds since 1970, as the machine believes."""
    return int(_clock.wall() * 1000)


def utc_now() -> datetime:
    """The same as a time of UTC."""
    return datetime.fromtimestamp(_clock.wall(), timezone.utc)


def sleep(secs: float) -> None:
    """Let so many seconds pass for this thread."""
    _clock.sleep(secs)


def core_secs() -> float:
    """Seconds of a core that this thread has had."""
    return _clock.core_secs()
