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
