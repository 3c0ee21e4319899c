"""When what works on a schedule is called."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from exporter.schedule import on_schedule

MIDNIGHT = datetime(2026, 2, 1, tzinfo=timezone.utc)


def test_the_schedule_goes_by_the_clock_and_ends_when_asked() -> None:
    """At each time that comes once, which is told before; one that came while it worked is left out."""
    began: list[str] = []
    told: list[str] = []
    clock = [MIDNIGHT - timedelta(minutes=50)]

    def now() -> datetime:
        clock[0] += timedelta(minutes=7)
        return clock[0]

    def once() -> None:
        began.append(f"{clock[0]:%H:%M}")
        clock[0] += timedelta(minutes=90 * (len(began) == 1))

    on_schedule(
        "0 * * * *", lambda: len(began) == 2, once, lambda due: told.append(f"{due:%H:%M}"), now, look_secs=0
    )  # fmt: skip
    assert began == ["00:06", "02:04"]
    assert told == ["00:00", "02:00"]
