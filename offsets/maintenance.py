"""What the maintenance of a table has to do, from its files and its log. Pure.

    day   ── ended, and event_time_late_max_secs more ── closed: nothing more is expected for it
    files ── smallest first, packed into bins of at most file_bytes_max ── a bin of two or more is rewritten as one

The same packing as Delta's own OPTIMIZE, so that what is due now is not due again right after it. The clock here
decides when work is worth its while, never what is right: a record that comes for a closed day is just appended.
Positions are none of its business: OPTIMIZE, checkpoint and VACUUM leave every txn action as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

CHECKPOINT_COMMITS = 20
"""Commits since the last checkpoint from which on a reader's start is worth one."""
RETENTION_DEFAULT = "interval 1 week"
COMMIT_SECS_MAX = 3600.0
"""A staged file that is young enough when its commit begins is named in the log so much later at most."""

_HOURS = {"hour": 1, "day": 24, "week": 168, "month": 720, "year": 8760}


@dataclass(frozen=True)
class DueDay:
    """A closed day that is worth rewriting: files that go, and their bytes."""

    day: str
    files: int
    bytes: int


def due_days(sizes: Mapping[str, Sequence[int]], now: datetime, late_secs: float, file_bytes_max: int) -> list[DueDay]:
    """The days to be rewritten, oldest first. sizes: day -> bytes of each live file. now: UTC."""
    due = []
    for day in sorted(day for day in sizes if is_closed(day, now, late_secs)):
        merged = [size for packed in bins(sizes[day], file_bytes_max) if len(packed) > 1 for size in packed]
        if merged:
            due.append(DueDay(day, len(merged), sum(merged)))
    return due


def is_closed(day: str, now: datetime, late_secs: float) -> bool:
    """Whether the UTC day YYYY-MM-DD ended more than late_secs ago. False for what is no day."""
    try:
        begins = datetime.combine(date.fromisoformat(day), datetime.min.time(), timezone.utc)
        return begins + timedelta(days=1, seconds=late_secs) < now
    except (ValueError, OverflowError):
        return False


def bins(sizes: Iterable[int], bytes_max: int) -> list[list[int]]:
    """Files below bytes_max, smallest first, each bin filled before the next one. Source: Delta's OptimizeExecutor."""
    packed: list[list[int]] = []
    filled = 0
    for size in sorted(size for size in sizes if size < bytes_max):
        if not packed or filled + size > bytes_max:
            packed.append([])
            filled = 0
        packed[-1].append(size)
        filled += size
    return packed


def interval_hours(interval: str) -> int | None:
    """Whole hours of a Delta interval text ('interval 1 week'), of its first part; None if it cannot be read."""
    words = interval.lower().removeprefix("interval").split()
    if len(words) < 2 or not words[0].isdigit() or words[1].rstrip("s") not in _HOURS:
        return None
    return int(words[0]) * _HOURS[words[1].rstrip("s")]


def protects_staged(retention: str, stage_age_max_secs: float) -> bool:
    """Whether VACUUM with this retention deletes no file that may still be committed (TEMP).

    VACUUM knows neither positions nor writers, only ages: a staged file is committed up to stage_age_max_secs after
    it was written, and its commit takes its time. One day at least, as the commit path demands it (protocol 4.2).
    """
    hours = interval_hours(retention) or 0
    return hours >= 24 and hours * 3600 >= stage_age_max_secs + COMMIT_SECS_MAX
