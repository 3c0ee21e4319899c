"""Which rows are too old: whole partitions, by midnight in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from exporter.core.days_kept import NO_TIME, DaysKept, bound_of, is_too_old
from exporter.core.routing import DEAD_LETTERS
from offsets.partitions import DAY, Spec

NOW = datetime(2026, 11, 18, 13, 59, tzinfo=timezone.utc)  # a Wednesday


@pytest.mark.parametrize(
    ("time", "days", "bound"),
    [
        ("day", 1, "2026-11-17"),
        ("day", 30, "2026-10-19"),
        ("hour", 1, "2026-11-17"),
        ("week", 1, "2026-11-16"),
        ("week", 3, "2026-11-09"),
        ("month", 18, "2026-10-01"),
        ("month", 17, "2026-11-01"),
        ("none", 2, "2026-11-16"),
    ],
)
def test_the_bound_is_where_the_partition_of_the_last_day_begins(time: str, days: int, bound: str) -> None:
    """Columns in their own right change nothing."""
    for spec in (Spec(time), Spec(time, ("country",))):
        assert bound_of(spec, NOW, days) == datetime.fromisoformat(f"{bound}T00:00+00:00")


@pytest.mark.parametrize("time", ["day", "hour", "week", "month"])
def test_a_partition_is_too_old_if_all_of_its_moments_are(time: str) -> None:
    """Against each hour of it, for all partitions around the bound."""
    spec = Spec(time)
    bound = bound_of(spec, NOW, 40)
    for hours in range(-24 * 100, 24 * 5):
        moment = bound + timedelta(hours=hours)
        assert is_too_old("order", spec.at(moment), bound) == (moment < bound)


def test_what_has_no_time_is_never_too_old() -> None:
    """A table that is not cut by time, and dead letters of records without a timestamp."""
    assert not is_too_old("order", Spec("none").of_key(0), NOW)
    assert not is_too_old(DEAD_LETTERS, NO_TIME, NOW)
    assert is_too_old("order", NO_TIME, NOW) and is_too_old(DEAD_LETTERS, DAY.of_key(1), NOW)


def test_how_long_a_table_keeps_its_rows() -> None:
    """Its own days, else those of all; the dead letters have theirs."""
    some = DaysKept({"order": 0, "click": 7}, 30, 400)
    assert [some.of(name) for name in ("order", "click", "else", DEAD_LETTERS)] == [0, 7, 30, 400]
    assert DaysKept().of("order") == DaysKept().of(DEAD_LETTERS) == 0
