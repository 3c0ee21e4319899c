"""Partition specs: `day`, which is stored for ever, and one of hours, which needs an entry and nothing else."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.arrow.keys import letter_keys, partition_keys
from offsets import partitions
from offsets.partitions import DAY, SPECS, BadPartition, Column, Partition, Spec
from tests.support.days import partition_of

HOUR = Spec(
    name="hour",
    width_us=3_600_000_000,
    columns=(*DAY.columns, Column("hour", "int", lambda begin: str(begin.hour))),
    begin=lambda texts: DAY.begin(texts[:1]) + timedelta(hours=int(texts[1])),
)
unhurried = settings(deadline=None)
MIDNIGHT = datetime(2026, 2, 1, tzinfo=timezone.utc)
moments = st.datetimes(timezones=st.just(timezone.utc))


@pytest.fixture(params=["day", "hour"])
def spec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Spec:
    """Each spec, as if it were an entry."""
    monkeypatch.setitem(SPECS, "hour", HOUR)
    partitions.parse.cache_clear()
    return SPECS[request.param]


@pytest.mark.parametrize(
    ("spec", "folder", "values", "condition", "label"),
    [
        ("day", "day=2026-11-01", {"day": "2026-11-01"}, "day = DATE'2026-11-01'", "2026-11-01"),
        (
            "hour", "day=2026-11-01/hour=7", {"day": "2026-11-01", "hour": "7"},
            "day = DATE'2026-11-01' AND hour = 7", "2026-11-01 7",
        ),
    ],
    indirect=["spec"],
)  # fmt: skip
def test_a_partition_is_named_alike_everywhere(
    spec: Spec, folder: str, values: dict[str, str], condition: str, label: str
) -> None:
    """NAMES: what is stored of it, and what is asked of SQL, is one value's."""
    found = spec.at(datetime(2026, 11, 1, 7, 59, 59, 999_999, tzinfo=timezone.utc))
    assert (found.folder, found.values, found.condition, found.label) == (folder, values, condition, label)
    assert partitions.parse(folder) == found == spec.of_values(values)


@pytest.mark.parametrize("name", ["day", "hour"])
@unhurried
@given(moments)
def test_parse_is_the_inverse_of_folder(name: str, moment: datetime) -> None:
    """NAMES: of every time that a table can hold, before 1970 as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SPECS, "hour", HOUR)
        partitions.parse.cache_clear()
        found = SPECS[name].at(moment)
        assert partitions.parse(found.folder) == found
        assert SPECS[name].of_values(found.values) == found


@unhurried
@given(st.lists(st.none() | moments))
def test_arrow_makes_the_same_keys(times: list[datetime | None]) -> None:
    """One division, rounded down; without a time it is null, for a dead letter 0."""
    array = pa.array(times, pa.timestamp("us", tz="UTC"))
    for spec in (DAY, HOUR):
        keys = [None if time is None else spec.at(time).key for time in times]
        assert partition_keys(array, spec.width_us).to_pylist() == keys
        assert letter_keys(array, spec.width_us).to_pylist() == [key or 0 for key in keys]


@pytest.mark.parametrize(
    "folder",
    ["", "day", "day=", "date=2026-01-01", "day=20260101", "day=2026-1-1", "day=2026-02-30", "day=2026-W01-1",
     "day=0000-01-01", "day=2026-01-01/", "day=2026-01-01/hour=1", "hour=1", "day=__HIVE_DEFAULT_PARTITION__",
     "day=2026-01-01T00"],
)  # fmt: skip
def test_what_no_spec_makes_is_no_partition(folder: str) -> None:
    """NAMES: also where Python would read a day in it."""
    with pytest.raises(BadPartition):
        partitions.parse(folder)


def test_values_of_others_are_no_partition() -> None:
    """A file that somebody else added may have none, or another form of the same day."""
    for values in ({}, {"day": None}, {"day": "2026-1-1"}, {"hour": "1"}):
        with pytest.raises(BadPartition):
            DAY.of_values(values)


def test_a_time_that_no_table_can_hold_has_no_folder() -> None:
    """It is told, and never becomes another day."""
    with pytest.raises(BadPartition):
        str(Partition("day", 3_000_000).folder)


@pytest.mark.parametrize(
    ("day", "after_secs", "late_secs", "closed"),
    [
        (date(2026, 1, 31), 3601, 3600, True),
        (date(2026, 1, 31), 3600, 3600, False),
        (date(2026, 1, 31), -1, 0, False),
        (date(2026, 2, 1), 3601, 3600, False),
        (date(9999, 12, 31), 0, 3600, False),
    ],
)
def test_a_day_is_closed_when_its_end_and_the_lateness_are_past(
    day: date, after_secs: float, late_secs: float, closed: bool
) -> None:
    """Days are UTC; the last day of all never ends."""
    assert partition_of(day).is_closed(MIDNIGHT + timedelta(seconds=after_secs), late_secs) is closed


def test_the_columns_name_the_spec(spec: Spec) -> None:
    """A table says by its partition columns how it is cut."""
    assert partitions.of_columns(spec.column_names) is spec
    assert partitions.of_columns(("month",)) is None
