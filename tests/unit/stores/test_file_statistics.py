"""A data file's statistics, case by case. No JVM; tests/spark/test_statistics.py compares them with those of Delta."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.stores.stores import open_store
from offsets.ranges import TopicPartition
from tests.support.days import partition_of

TP = TopicPartition("t", 0)
UTC_US = pa.timestamp("us", "UTC")
LAST = "\U0010ffff"
SMILE = "\U0001f600"


def stats_of(folder: Path, *groups: pa.Table) -> Any:
    """Of a file of these row groups. Decimals are exact."""
    file = GrowingFile(FileOrigin(open_store(str(folder)), "app", TP, 0, "a", "f", {}), partition_of(date(2026, 1, 1)))
    offset = 0
    for group in groups:
        file.add(group, offset, offset + group.num_rows - 1)
        file.encode()
        offset += group.num_rows
    return json.loads(file.finish().stats, parse_float=Decimal)


def column(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


def bounds(folder: Path, *groups: pa.Table) -> tuple[Any, Any]:
    """Least and greatest of column c; None where there is none."""
    stats = stats_of(folder, *groups)
    return stats["minValues"].get("c"), stats["maxValues"].get("c")


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        (pa.int8(), [3, -128, None], -128, 3),
        (pa.int16(), [3, -1, None], -1, 3),
        (pa.int32(), [3, 2], 2, 3),
        (pa.int64(), [2**63 - 1, -(2**63)], -(2**63), 2**63 - 1),
        (pa.float32(), [0.1, None, 1e10], Decimal("0.10000000149011612"), Decimal("1e10")),
        (pa.float64(), [0.1, -1e300], Decimal("-1e300"), Decimal("0.1")),
        (pa.float64(), [float("inf"), 1.0, float("-inf")], "-Infinity", "Infinity"),
        (pa.float64(), [float("nan"), 1.0, None], Decimal(1), "NaN"),
        (pa.float32(), [float("nan")], "NaN", "NaN"),
        (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("-2.20"), None], Decimal("-2.20"), Decimal("1.10")),
        (pa.decimal128(38, 18), [Decimal("1E-18"), Decimal("-12345678901234567890.123456789012345678")],
         Decimal("-12345678901234567890.123456789012345678"), Decimal("1E-18")),
        (pa.decimal128(38, 0), [10**37, -(10**37)], -(10**37), 10**37),
        (pa.date32(), [date(1582, 10, 4), date(2026, 1, 31)], "1582-10-04", "2026-01-31"),
        (pa.string(), ["b", "a", None, ""], "", "b"),
        (pa.bool_(), [True, False], None, None),
        (pa.binary(), [b"a"], None, None),
        (pa.list_(pa.int32()), [[1]], None, None),
        (pa.map_(pa.string(), pa.int32()), [[("a", 1)]], None, None),
        (pa.int32(), [None, None], None, None),
        (pa.string(), [None], None, None),
    ],
)  # fmt: skip
def test_bounds_are_those_of_the_values(tmp_path: Path, kind: pa.DataType, values: list[Any], low: Any, high: Any):
    """Exact, of every type that Delta keeps bounds of, in one row group or several; a group of nulls says nothing."""
    assert bounds(tmp_path, column(kind, *values)) == (low, high)
    several = [column(kind, value) for value in values]
    assert bounds(tmp_path, column(kind, None), *several, column(kind, None, None)) == (low, high)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000"),
        (-62_135_596_799_999_001, "0001-01-01T00:00:00.000"),
        (-61_120_828_676_000_001, "0033-02-27T00:02:03.999"),
        (-1, "1969-12-31T23:59:59.999"),
        (0, "1970-01-01T00:00:00.000"),
        (1_767_229_322_123_999, "2026-01-01T01:02:02.123"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999"),
        (253_402_300_800_000_000, None),
        (-62_135_596_800_000_001, None),
        (2**63 - 1, None),
        (-(2**63) + 1, None),
    ],
)
def test_instants_are_cut_to_milliseconds_and_years_have_four_digits(tmp_path: Path, micros: int, text: str | None):
    """Towards the past, before 1970 too; what four digits cannot say is no bound, and no error."""
    for kind, zone in ((UTC_US, "Z"), (pa.timestamp("us"), "")):
        wanted = None if text is None else text + zone
        assert bounds(tmp_path, pa.table({"c": pa.array([micros, None], pa.int64()).cast(kind)})) == (wanted, wanted)


def test_an_instant_that_is_no_bound_leaves_the_other_one(tmp_path: Path):
    """It is true all the same."""
    beyond = pa.table({"c": pa.array([0, 253_402_300_800_000_000], pa.int64()).cast(pa.timestamp("us"))})
    assert bounds(tmp_path, beyond) == ("1970-01-01T00:00:00.000", None)


@pytest.mark.parametrize(("days", "text"), [(-719_162, "0001-01-01"), (2_932_896, "9999-12-31"), (-719_163, None),
                                            (2_932_897, None), (2**31 - 1, None), (-(2**31), None)])  # fmt: skip
def test_dates_of_other_years_are_no_bounds(tmp_path: Path, days: int, text: str | None):
    """Python has no such date: it once ended the task."""
    assert bounds(tmp_path, pa.table({"c": pa.array([days], pa.int32()).cast(pa.date32())})) == (text, text)


def by_delta(text: str) -> str | None:
    """StatisticsCollection.truncateMaxStringAgg(32), on UTF-16 as Java has it."""
    units = [int.from_bytes(text.encode("utf-16-be")[at : at + 2], "big") for at in range(0, 2 * java_length(text), 2)]

    def taken(count: int) -> str:
        return b"".join(unit.to_bytes(2, "big") for unit in units[:count]).decode("utf-16-be")

    if len(units) <= 32:
        return text
    at = 33 if 0xD800 <= units[31] < 0xDC00 and 0xDC00 <= units[32] < 0xE000 else 32
    while at <= 64:
        if at >= len(units):
            return text
        if units[at : at + 2] == [0xDBFF, 0xDFFF]:
            at += 2
        else:
            return taken(at) + ("\x7f" if units[at] < 0x7F else LAST)
    return None


def java_length(text: str) -> int:
    return len(text.encode("utf-16-be")) // 2


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 33, "x" * 32, "x" * 32 + "\x7f"),
        ("x" * 32 + "\x7f", "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + "\u00e9", "x" * 32, "x" * 32 + LAST),
        (SMILE * 16, SMILE * 16, SMILE * 16),
        (SMILE * 17, SMILE * 17, SMILE * 16 + LAST),
        ("x" + SMILE * 17, "x" + SMILE * 17, "x" + SMILE * 16 + LAST),
        ("x" * 32 + LAST, "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + LAST + "a", "x" * 32, "x" * 32 + LAST + "\x7f"),
        (LAST * 32, LAST * 32, LAST * 32),
        (LAST * 33, LAST * 32, None),
        (LAST * 40, LAST * 32, None),
        ("y" * 5000, "y" * 32, "y" * 32 + "\x7f"),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_long_text_is_cut_and_its_upper_bound_rounded_up(tmp_path: Path, text: str, low: str, high: str | None):
    """As Delta cuts it: a pair of surrogates is not split, and where nothing greater can be said there is no bound."""
    assert by_delta(text) == high
    assert bounds(tmp_path, column(pa.string(), text, None)) == (low, high)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(st.sampled_from("a~\x7f\u00e9\ud7ff\ue000\uffff" + SMILE + LAST), max_size=70), min_size=1)
)
def test_no_text_is_outside_its_bounds(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    """In the order of UTF-8, in which Spark and Parquet compare; just as Delta would round them."""
    low, high = bounds(tmp_path_factory.mktemp("f"), column(pa.string(), *texts))
    assert high == by_delta(max(texts)) and low == min(texts)[:32]
    assert low <= min(texts) and (high is None or high >= max(texts))


def test_texts_too_long_for_a_footer_have_bounds(tmp_path: Path):
    """Parquet keeps none of texts over 4 KiB; also of a column below others, and whose name has a dot."""
    kind = pa.struct([("a.b", pa.string()), ("n", pa.int32())])
    rows = [{"s": {"a.b": end * 9000, "n": 1}, "a.b": None} for end in "zy"]
    table = pa.Table.from_pylist([*rows, {"s": None, "a.b": "x"}], pa.schema([("s", kind), ("a.b", pa.string())]))
    stats = stats_of(tmp_path, table, table.slice(2), table.slice(0, 1))
    assert stats["minValues"] == {"s": {"a.b": "y" * 32, "n": 1}, "a.b": "x"}
    assert stats["maxValues"] == {"s": {"a.b": "z" * 32 + "\x7f", "n": 1}, "a.b": "x"}
    assert stats["nullCount"] == {"s": {"a.b": 2, "n": 2}, "a.b": 3}


def test_a_name_with_a_dot_is_no_path(tmp_path: Path):
    """Each column has its own bounds: `a.b`, and b in the struct a."""
    table = pa.table({"a.b": [7], "a": pa.array([{"b": 1}], pa.struct([("b", pa.int64())])), "a.b.c": ["x"]})
    stats = stats_of(tmp_path, table)
    assert stats["minValues"] == stats["maxValues"] == {"a.b": 7, "a": {"b": 1}, "a.b.c": "x"}
    assert stats["nullCount"] == {"a.b": 0, "a": {"b": 0}, "a.b.c": 0}


def test_nulls_are_counted_of_every_leaf(tmp_path: Path):
    """Of lists, maps, booleans and binary values too; a leaf is null where a struct above it is."""
    inner = pa.struct([("xs", pa.list_(pa.int32())), ("ok", pa.bool_())])
    schema = pa.schema(
        [("xs", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32())), ("b", pa.binary()), ("s", inner)]
    )
    rows = [
        {"xs": [], "m": [("a", None)], "b": b"", "s": {"xs": [None], "ok": None}},
        {"xs": None, "m": None, "b": None, "s": None},
        {"xs": [None, 1], "m": [], "b": None, "s": {"xs": None, "ok": True}},
    ]
    table = pa.Table.from_pylist(rows, schema)
    wanted = {"xs": 1, "m": 1, "b": 2, "s": {"xs": 2, "ok": 2}}
    assert stats_of(tmp_path, table) == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": wanted}
    twice = {"xs": 2, "m": 2, "b": 4, "s": {"xs": 4, "ok": 4}}
    assert stats_of(tmp_path, table, table)["nullCount"] == twice


def test_the_first_32_leaves_have_statistics(tmp_path: Path):
    """A list or a map is one of them, a struct all that is in it, as Delta counts; none is taken for another's."""
    pair = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    before = {
        "xs": pa.array([[{"a": 1, "b": 2}]], pa.list_(pair)),
        "m": pa.array([[("k", {"a": 1, "b": 2})]], pa.map_(pa.string(), pair)),
    }
    columns = {f"c{number}": [number] for number in range(29)}
    last = {"s": pa.array([{"a": 30, "b": 31}], pair), "after": [1]}
    stats = stats_of(tmp_path, pa.table({**before, **columns, **last}))
    assert stats["minValues"] == {**{name: values[0] for name, values in columns.items()}, "s": {"a": 30}}
    assert stats["nullCount"].keys() == {"xs", "m", *columns, "s"} and stats["nullCount"]["s"] == {"a": 0}


_KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.decimal128(38, 18): st.decimals(-(10**19), 10**19, places=18),
    pa.decimal128(9, 2): st.decimals(-(10**6), 10**6, places=2),
}  # fmt: skip


@pytest.mark.parametrize("kind", _KINDS, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_numbers_have_exact_bounds(tmp_path_factory: pytest.TempPathFactory, kind: pa.DataType, data: st.DataObject):
    """The least and the greatest of all row groups, and nothing else, once read as the column's type."""
    groups = data.draw(
        st.lists(st.lists(st.one_of(st.none(), _KINDS[kind]), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    tables = [column(kind, *values) for values in groups]
    low, high = bounds(tmp_path_factory.mktemp("f"), *tables)
    ends = pc.min_max(pa.concat_tables(tables).column("c"))
    for bound, end in ((low, ends["min"]), (high, ends["max"])):
        exact = (
            bound
            if bound is None or pa.types.is_decimal(kind)
            else float(bound)
            if pa.types.is_floating(kind)
            else bound
        )
        assert pa.scalar(exact, kind).equals(end) or pa.scalar(exact, kind).as_py() == end.as_py()
