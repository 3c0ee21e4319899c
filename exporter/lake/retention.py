"""How long deleted files stay, and whether that protects staged ones. Pure."""

from __future__ import annotations

RETENTION_DEFAULT = "interval 1 week"
LOG_RETENTION_DEFAULT = "interval 30 days"
COMMIT_SECS_MAX = 3600.0
"""A staged file that is young enough when its commit begins is named in the log so much later at most."""

_HOURS = {"hour": 1, "day": 24, "week": 168, "month": 720, "year": 8760}


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
