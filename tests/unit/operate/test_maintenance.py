"""What maintenance has to do, and when: pure rules, the schedule."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.lake.retention import interval_hours, protects_staged
from exporter.operate.maintain.due import Due, bins, due_partitions
from exporter.settings.model import Settings
from offsets.partitions import Spec
from tests.support.days import partition_of

MIDNIGHT = datetime(2026, 2, 1, tzinfo=timezone.utc)
DAY_SECS = 86_400


def test_due_are_closed_days_with_files_that_fit_together() -> None:
    """One file, or files that are large enough, are left alone; the day of today as well."""
    of_days = {30: [10, 20, 90, 200], 29: [5], 28: [60, 70], 31: [1, 1, 1]}
    sizes = {partition_of(date(2026, 1, day)): of_day for day, of_day in of_days.items()}
    now = MIDNIGHT - timedelta(hours=1)
    before, last = Due(partition_of(date(2026, 1, 30)), 2, 30), Due(partition_of(date(2026, 1, 31)), 3, 3)
    assert due_partitions(sizes, now, 3600, 100) == [before]
    assert due_partitions(sizes, now + timedelta(hours=3), 3600, 100) == [before, last]


def test_due_are_closed_hours_and_months_and_what_has_no_time() -> None:
    """By the table's own spec, each value by itself."""
    now = MIDNIGHT + timedelta(hours=2, seconds=1)
    for unit, late_secs, closed in (("hour", 3600, [0, 1]), ("month", 3600, [0]), ("none", 1e9, [0, 1, 2])):
        spec = Spec(unit, ("country",))
        moments = [MIDNIGHT + timedelta(hours=hours - 1) for hours in range(3)]
        sizes = {spec.at(moment, [f"C{at}"]): [1, 2] for at, moment in enumerate(moments)}
        due = due_partitions(sizes, now, late_secs, 100)
        assert [one.partition.texts for one in due] == [(f"C{at}",) for at in closed], unit
    null = Spec("none", ("country",)).of_key(0, [None])
    assert due_partitions({null: [1, 1]}, now, 0, 100) == [Due(null, 2, 2)]


@pytest.mark.parametrize(
    ("spec", "own", "condition"),
    [
        (Spec("day"), [], "`day` = DATE'2026-02-01'"),
        (Spec("hour"), [], "`day` = DATE'2026-02-01' AND `hour` = 0"),
        (Spec("month"), [], "`month` = '2026-02'"),
        (Spec("week"), [], "`week` = DATE'2026-01-26'"),
        (Spec("none"), [], ""),
        (Spec("day", ("country",)), ["DE"], "`day` = DATE'2026-02-01' AND `country` = 'DE'"),
        (Spec("none", ("country", "n")), [None, "-5"], "`country` IS NULL AND `n` = '-5'"),
        (Spec("none", ("c",)), ["${env:HOME}'"], "`c` = CAST(X'247B656E763A484F4D457D27' AS STRING)"),
    ],
)
def test_a_partition_is_asked_for_by_a_condition(spec: Spec, own: list[str | None], condition: str) -> None:
    """Of its columns; a value in which SQL could see anything but a text is written in hexadecimal digits."""
    assert Due(spec.at(MIDNIGHT, own), 0, 0).condition == condition


@given(st.lists(st.integers(1, 120)), st.integers(1, 100))
def test_what_was_packed_is_not_due_again(sizes: list[int], bytes_max: int) -> None:
    """No bin is too large, all small files are in one, and packing twice changes nothing more for merged files."""
    packed = bins(sizes, bytes_max)
    assert sorted(size for one in packed for size in one) == sorted(size for size in sizes if size < bytes_max)
    assert all(sum(one) <= bytes_max for one in packed)
    merged = [sum(one) for one in packed]
    assert len(bins(merged, bytes_max)) <= len(packed)


@pytest.mark.parametrize(
    ("retention", "stage_age_secs", "safe"),
    [
        ("interval 1 week", 6 * 3600, True),
        ("interval 1 day", 6 * 3600, True),
        ("interval 1 day", 23 * 3600, True),
        ("interval 1 day", 23 * 3600 + 1, False),
        ("interval 168 hours", 100 * 3600, True),
        ("interval 23 hours", 60, False),
        ("interval 0 hours", 0, False),
        ("a week", 60, False),
    ],
)
def test_a_retention_that_could_reach_a_staged_file_is_not_safe(
    retention: str, stage_age_secs: float, safe: bool
) -> None:
    """One day, the age of staged files and an hour: what cannot be read is not safe."""
    assert protects_staged(retention, stage_age_secs) is safe


def test_an_interval_is_read_as_delta_writes_it() -> None:
    """Of several parts the first one counts: never more than it is."""
    assert [interval_hours(text) for text in ("interval 2 weeks", "7 days", "INTERVAL 1 day 12 hours", "soon")] == [
        336, 168, 24, None
    ]  # fmt: skip


@pytest.mark.parametrize("cron", ["* * * *", "61 * * * *", "soon", "", "0 3 * * 1-5", "0 0 30 2 *"])
def test_a_cron_text_that_cannot_be_read_or_means_two_things_is_refused(cron: str) -> None:
    """Days of the week by name: their numbers are not the same everywhere."""
    field = Settings.model_fields["maintain_cron"]
    with pytest.raises(ValueError, match="should "):
        field.metadata[0].func(cron)
    assert field.metadata[0].func("0 3 * * mon-fri") == "0 3 * * mon-fri"
