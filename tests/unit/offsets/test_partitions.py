"""Partition specs: what each of them stores is stored for ever, and no two partitions are taken for one."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.arrow.keys import dead_letter_keys, partition_keys
from offsets import partitions
from offsets.partitions import DAY, NULL, TEXT_BYTES_MAX, UNIT_PROPERTY, UNITS, BadPartition, Spec, fits
from tests.support.days import partition_of

unhurried = settings(deadline=None)
MIDNIGHT = datetime(2026, 2, 1, tzinfo=timezone.utc)
moments = st.datetimes(timezones=st.just(timezone.utc))
units = st.sampled_from(sorted(UNITS))
unnamed = st.sampled_from(["day", "hour", "month", "none"])
"""That tables of the first versions have: their columns alone tell them."""
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(fits)
specs = st.builds(Spec, units, st.sampled_from([(), ("country",), ("a_1", "B")]))
ODD = ("a/b", "..", "a=b", "100%", "%41", "ü日", "x y", "\x01", "\n", "'", "\\", "NULL", "~")


@st.composite
def found(draw: Any) -> partitions.Partition:
    """Any partition."""
    spec = draw(specs)
    return spec.at(draw(moments), [draw(st.none() | texts | st.sampled_from(ODD)) for _ in spec.identity])


@pytest.mark.parametrize(
    ("spec", "own", "folder", "values", "label"),
    [
        (DAY, [], "day=2026-11-01", {"day": "2026-11-01"}, "2026-11-01"),
        (Spec("hour"), [], "day=2026-11-01/hour=7", {"day": "2026-11-01", "hour": "7"},
         "2026-11-01 7"),
        (Spec("month"), [], "month=2026-11", {"month": "2026-11"}, "2026-11"),
        (Spec("week"), [], "week=2026-10-26", {"week": "2026-10-26"}, "2026-10-26"),
        (Spec("week", ("country",)), ["DE"], "week=2026-10-26/country=DE", {"week": "2026-10-26", "country": "DE"},
         "2026-10-26 DE"),
        (Spec("none"), [], "", {}, ""),
        (Spec("day", ("country",)), ["DE"], "day=2026-11-01/country=DE", {"day": "2026-11-01", "country": "DE"},
         "2026-11-01 DE"),
        (Spec("none", ("country", "n")), [None, "-5"], f"country={NULL}/n=-5", {"country": None, "n": "-5"},
         "null -5"),
        (Spec("month", ("c",)), ["Île/d'Or 1%"], "month=2026-11/c=%C3%8Ele%2Fd%27Or%201%25",
         {"month": "2026-11", "c": "Île/d'Or 1%"}, "2026-11 Île/d'Or 1%"),
    ],
)  # fmt: skip
def test_a_partition_is_named_alike_everywhere(
    spec: Spec, own: list[str | None], folder: str, values: dict[str, str | None], label: str
) -> None:
    """NAMES: what is stored of it is one value's."""
    one = spec.at(datetime(2026, 11, 1, 7, 59, 59, 999_999, tzinfo=timezone.utc), own)
    assert (one.folder, one.values, one.label) == (folder, values, label)
    assert partitions.parse(folder, spec.unit.name if spec.unit.named else "") == one == spec.of_values(values)
    assert (partitions.parse(folder).folder, partitions.parse(folder).values) == (folder, values)


@unhurried
@given(found())
@example(Spec("hour", ("c",)).at(datetime(1969, 12, 31, 23, tzinfo=timezone.utc), ["../x"]))
def test_parse_is_the_inverse_of_folder(one: partitions.Partition) -> None:
    """NAMES: of every time that a table can hold, before 1970 as well, and of every value."""
    table_says = one.spec.properties.get(UNIT_PROPERTY, "")
    assert partitions.parse(one.folder, table_says) == one == one.spec.of_values(one.values)
    alone = partitions.parse(one.folder)
    assert (alone.folder, alone.values) == (one.folder, one.values) and (alone == one or table_says)
    assert one.folder.isascii() and all(len(part) <= 255 for part in one.folder.split("/"))


@unhurried
@given(found(), found())
def test_no_two_partitions_have_one_folder(one: partitions.Partition, other: partitions.Partition) -> None:
    """Whatever their specs: a folder, with what its table says, tells which one it is."""
    told = [(each.folder, each.values, each.spec.properties) for each in (one, other)]
    assert (one == other) == (told[0] == told[1])
    assert (one.folder == other.folder) == (one.values == other.values)


@unhurried
@given(st.lists(st.none() | moments), units)
@example([datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=timezone.utc), MIDNIGHT], "month")
@example([datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)], "month")
@example([datetime(1969, 12, 28, 23, 59, 59, 999_999, tzinfo=timezone.utc), datetime.min.replace(tzinfo=timezone.utc)],
         "week")
def test_arrow_makes_the_same_keys(times: list[datetime | None], unit: str) -> None:
    """Rounded down; without a time it is null, for a dead letter 0."""
    array = pa.array(times, pa.timestamp("us", tz="UTC"))
    keys = [None if one is None else Spec(unit).at(one).key for one in times]
    assert partition_keys(array, unit).to_pylist() == keys
    days = [0 if one is None else DAY.at(one).key for one in times]
    assert dead_letter_keys(array).to_pylist() == days


@unhurried
@given(moments, units)
def test_a_partition_ends_where_the_next_one_begins(moment: datetime, unit: str) -> None:
    """The moment lies in its own partition and in no other."""
    one, ways = Spec(unit).at(moment), UNITS[unit]
    micros = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    if ways.begin_us is not None and moment.year < 9999:
        assert ways.begin_us(one.key) <= micros < ways.begin_us(one.key + 1)


@pytest.mark.parametrize(
    "folder",
    ["day", "day=", "day=20260101", "day=2026-1-1", "day=2026-02-30", "day=2026-W01-1",
     "day=0000-01-01", "day=2026-01-01/", "day=__HIVE_DEFAULT_PARTITION__", "day=2026-01-01T00", "hour=1",
     "day=2026-01-01/hour=01", "day=2026-01-01/hour=24", "day=2026-01-01/hour=-1", "day=2026-01-01/hour=",
     "hour=1/day=2026-01-01", "month=2026-1", "month=2026-13", "month=202611", "month=2026-11-01",
     "month=2026-11/day=2026-11-01", "day=2026-01-01/month=2026-01", "Day=2026-01-01", "country=DE/day=2026-01-01",
     "country=", "country=a b", "country=%4", "country=%zz", "country=%41", "country=%c3%bc", "country=%FF",
     "country=ü", "country=DE/country=DE", "a-b=1", "=1", "a=b=c", "country=%5F_HIVE_DEFAULT_PARTITION__",
     f"country={'x' * (TEXT_BYTES_MAX + 1)}"],
)  # fmt: skip
def test_what_no_spec_makes_is_no_partition(folder: str) -> None:
    """NAMES: also where Python would read a day, an hour or a value in it."""
    with pytest.raises(BadPartition):
        partitions.parse(folder)


def test_values_of_others_are_no_partition() -> None:
    """A file that somebody else added may have none, or another form of the same day."""
    for spec, values in (
        (Spec("week"), {"week": "2026-10-27"}), (Spec("week"), {"week": "2026-W44"}),
        (DAY, {}), (DAY, {"day": None}), (DAY, {"day": "2026-1-1"}), (DAY, {"hour": "1"}),
        (Spec("none", ("country",)), {}), (Spec("none", ("country",)), {"country": "x" * 999}),
    ):  # fmt: skip
        with pytest.raises(BadPartition):
            spec.of_values(values)
    assert Spec("none", ("c",)).of_values({"c": ""}) == Spec("none", ("c",)).of_key(0, [None])  # for Delta they are one


def test_a_text_that_readers_take_for_null_is_no_value() -> None:
    """Nor one that a folder cannot be called by; all others are."""
    unfit = ("", NULL, "a\0", "x" * (TEXT_BYTES_MAX + 1), "é" * 34)
    assert not any(map(fits, unfit))
    assert all(map(fits, (*ODD, "x" * TEXT_BYTES_MAX, "é" * 33, NULL.lower())))


def test_a_time_that_no_table_can_hold_has_no_folder() -> None:
    """It is told, and never becomes another day."""
    for unit, key in (("day", 3_000_000), ("hour", 1 << 40), ("month", 100_000), ("month", -24_000), ("week", 1 << 20)):
        with pytest.raises(BadPartition):
            str(Spec(unit).of_key(key).folder)


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


def test_an_hour_and_a_month_close_like_a_day_and_no_time_is_always_closed() -> None:
    """A table without a time would else never be packed."""
    last = MIDNIGHT - timedelta(seconds=1)
    for unit, closes in (("hour", MIDNIGHT), ("month", MIDNIGHT), ("week", MIDNIGHT + timedelta(days=1))):
        one = Spec(unit).at(last)
        assert not one.is_closed(closes, 0) and one.is_closed(closes + timedelta(seconds=1), 0)
    assert not Spec("month").at(datetime.max.replace(tzinfo=timezone.utc)).is_closed(MIDNIGHT, 0)
    assert Spec("none", ("c",)).of_key(0, ["x"]).is_closed(datetime(1970, 1, 1, tzinfo=timezone.utc), 1e9)


@given(specs)
def test_the_columns_name_the_spec(spec: Spec) -> None:
    """A table says by its partition columns how it is cut, or by these and the unit that it names."""
    assert partitions.of_columns(spec.column_names, spec.properties.get(UNIT_PROPERTY, "")) == spec


@given(unnamed)
def test_the_units_of_the_first_versions_are_named_in_no_table(unit: str) -> None:
    """What is stored is for ever: their tables have no such property."""
    assert Spec(unit).properties == {} and partitions.of_columns(Spec(unit).column_names) == Spec(unit)


def test_a_column_called_week_is_what_it_was_where_the_table_does_not_say_otherwise() -> None:
    """An earlier version cut by a user's column of that name, whatever is in it; a unit unknown here is nobody's."""
    for names in (("week",), ("week", "country"), ("country", "week")):
        assert partitions.of_columns(names) == Spec("none", names)
    assert partitions.parse("week=47") == Spec("none", ("week",)).of_key(0, ["47"])
    assert partitions.of_columns(("week",), "week") == Spec("week")
    for names, unit in (((), "week"), (("country", "week"), "week"), (("week", "day"), "week"), (("day",), "quarter")):
        assert partitions.of_columns(names, unit) is None


@pytest.mark.parametrize(
    ("folder", "text"),
    [("day=2026-11-01/hour=7", "2026-11-01"), ("month=2026-11/c=x", "2026-11"), ("week=2026-10-26", "2026-10-26"),
     ("week=47", ""), ("week=2026-10-27", ""), ("", ""), ("country=DE", "")],
)  # fmt: skip
def test_a_folder_alone_tells_its_time(folder: str, text: str) -> None:
    """As an announcement has it: the day, or what stands in its place."""
    assert partitions.time_text(folder) == text


@pytest.mark.parametrize(
    "names",
    [("hour",), ("day", "month"), ("month", "hour"), ("country", "day"), ("a", "a"), ("a b",), ("x" * 51,), ("DAY",),
     ("a-b",), ("ü",), ("",)],
)  # fmt: skip
def test_columns_that_no_spec_has_are_somebody_elses(names: tuple[str, ...]) -> None:
    """Such a table is filled by others."""
    assert partitions.of_columns(names) is None
