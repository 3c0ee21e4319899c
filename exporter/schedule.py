"""Work at the times of a cron line, in UTC."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone

LOOK_SECS = 0.2
"""Seconds between two looks at the clock and at whether a stop was asked for."""


def _now() -> datetime:
    return datetime.now(timezone.utc)


def on_schedule(
    cron: str,
    stopped: Callable[[], bool],
    once: Callable[[], None],
    waits: Callable[[datetime], None],
    now: Callable[[], datetime] = _now,
    look_secs: float = LOOK_SECS,
) -> None:
    """Call `once` at the times of `cron` until stopped. What falls due while one is in progress is left out.

    waits: told the next time, before it is waited for.
    """
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(cron, timezone=timezone.utc)
    while not stopped():
        due = trigger.get_next_fire_time(None, now())
        waits(due)
        while now() < due:
            if stopped():
                return
            time.sleep(look_secs)  # pace of the polling: the clock may be set meanwhile
        once()
