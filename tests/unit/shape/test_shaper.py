"""Rows on their way to a table: filtered, computed, dropped, with constants, and what fails on one of them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from exporter.arrow.spark_types import arrow_type
from exporter.column.spark_json import struct_of
from exporter.core.shapes import Shape
from exporter.formats.schema import arrow_schema
from exporter.shape.columns import table_columns
from exporter.shape.shaper import OWN, Shaper
from tests.support.schemas import schema
from tests.unit.shape.rows import decoded, made, records, shaped

PAIR = schema("a BIGINT, s STRING")


def pairs(*values: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"a": a, "s": s} for a, s in values]


def test_rows_for_which_the_filter_is_not_true_are_filtered() -> None:
    """False and null alike, as WHERE has it; the order of the others stays."""
    values = pairs((1, "x"), (2, "y"), (None, "z"), (3, None), (4, "no"), (5, "é"))
    answer = shaped(Shape(PAIR, where="a > 1 AND s <> 'no'"), values)
    assert made(answer) == pairs((2, "y"), (5, "é"))
    assert (answer.kept.to_pylist(), answer.filtered.to_pylist(), answer.bad) == ([1, 5], [0, 2, 3, 4], [])


def test_columns_are_computed_dropped_and_added_in_the_order_that_the_table_is_told_to_have() -> None:
    """What is computed sees what there was before; a computed column of a name that is there stands in its place."""
    shape = Shape(PAIR, computed=(("s", "a::VARCHAR || s"), ("n", "length(s)")), drop=("a",))
    answer = shaped(shape, pairs((1, "x"), (2, "yy")), [("env", "prod"), ("v", 3), ("f", 0.5), ("b", True)])
    assert made(answer)[1] == {"s": "2yy", "n": 2, "env": "prod", "v": 3, "f": 0.5, "b": True}
    told = struct_of(table_columns("t", shape, [("env", "prod"), ("v", 3), ("f", 0.5), ("b", True)]))
    assert answer.table.column_names == [*told.named, *OWN]
    assert answer.table.schema.types[:-2] == [arrow_type(one.type) for one in told.fields]


def test_a_row_on_which_an_expression_fails_is_told_of_and_its_neighbours_are_as_if_it_were_not_there() -> None:
    """The reason has the column and what DuckDB says; null stays null, and no row becomes null."""
    answer = shaped(Shape(PAIR, computed=(("n", "s::INTEGER"),)), pairs((1, "7"), (2, "x"), (3, None), (4, "9")))
    assert [row["n"] for row in made(answer)] == [7, None, 9]
    assert answer.kept.to_pylist() == [0, 2, 3]
    (bad,) = answer.bad
    assert bad[0] == 1
    assert bad[1].startswith("transform_failed: n: Conversion Error: Could not convert string 'x' to INT32")
    assert "SELECT" not in bad[1]


def test_the_reason_is_that_of_the_first_column_that_fails() -> None:
    """In the order of the settings; a filter that fails is told as `where`, whatever would be computed."""
    two = (("m", "error('m ' || s)::VARCHAR"), ("n", "s::INTEGER"))
    answer = shaped(Shape(PAIR, computed=two), pairs((1, "x")))
    assert answer.bad == [(0, "transform_failed: m: Invalid Input Error: m x")]
    answer = shaped(Shape(PAIR, where="s::INTEGER > 0", computed=two), pairs((1, "x")))
    assert answer.bad[0][1].startswith("transform_failed: where: Conversion Error")
    assert answer.table.num_rows == 0 and answer.table.column_names == ["a", "s", "m", "n", *OWN]


def test_what_the_filter_leaves_out_is_not_computed() -> None:
    """So a filter guards what is computed: a row that it leaves out fails nowhere."""
    answer = shaped(Shape(PAIR, where="s <> ''", computed=(("n", "s::INTEGER"),)), pairs((1, ""), (2, "5"), (3, "x")))
    assert (answer.filtered.to_pylist(), answer.kept.to_pylist(), [row for row, _ in answer.bad]) == ([0], [1], [2])


@pytest.mark.parametrize("text", ["s::INTEGER", "CASE WHEN s LIKE 'bad%' THEN error('no ' || s) ELSE s END"])
def test_every_tenth_row_fails_and_the_others_keep_their_order(text: str) -> None:
    """In several statements' worth of rows, by a cast as by error()."""
    values = pairs(*((row, f"bad{row}" if row % 10 == 3 else str(row)) for row in range(2_000)))
    answer = shaped(Shape(PAIR, computed=(("n", text),)), values)
    assert [row for row, _ in answer.bad] == [row for row in range(2_000) if row % 10 == 3]
    assert answer.kept.to_pylist() == [row for row in range(2_000) if row % 10 != 3]
    assert [int(row["n"]) for row in made(answer)] == answer.kept.to_pylist()
    assert all(f"bad{row}" in why for row, why in answer.bad)


def test_a_row_that_is_suspected_and_does_not_fail_keeps_its_place() -> None:
    """error(NULL) fails on no row, though it looks as if it did."""
    values = pairs((1, "ok"), (2, None), (3, "x"), (4, "ok"), (5, None))
    answer = shaped(Shape(PAIR, computed=(("v", "CASE WHEN s = 'ok' THEN a ELSE error(s) END"),)), values)
    assert answer.bad == [(2, "transform_failed: v: Invalid Input Error: x")]
    assert [(row["a"], row["v"]) for row in made(answer)] == [(1, 1), (2, None), (4, 4), (5, None)]


def test_a_batch_of_more_rows_than_a_statement_takes_is_one_still() -> None:
    """Rows keep their numbers, good and bad ones."""
    rows = 40_000
    values = pairs(*((row, "x" if row in (5, 39_999) else "1") for row in range(rows)))
    computed = (("n", "s::INTEGER + a"), ("d", "CASE WHEN a = 30000 THEN 'infinity'::DATE END"))
    answer = shaped(Shape(PAIR, where="a <> 20000", computed=computed), values)
    assert [row for row, _ in answer.bad] == [5, 30_000, 39_999]
    assert answer.filtered.to_pylist() == [20_000]
    others = [row + 1 for row in range(rows) if row not in (5, 20_000, 30_000, 39_999)]
    assert answer.table.column("n").to_pylist() == others


def test_what_is_known_of_a_record_can_be_used() -> None:
    """Its coordinates, its key and its headers."""
    computed = (
        ("place", "_kafka.topic || '/' || _kafka.partition || '/' || _kafka.\"offset\""), ("k", "decode(_key)"),
        ("trace", "decode(list_filter(_headers, lambda h: h.key = 'trace')[1].value)"), ("at", "_kafka.timestamp"),
    )  # fmt: skip
    rows = made(shaped(Shape(schema(""), computed=computed), [{}, {}]))
    at = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert rows[0] == {"place": "shop/3/0", "k": None, "trace": "h0", "at": at}
    assert rows[1] == {"place": "shop/3/1", "k": "k1", "trace": None, "at": at.replace(second=1)}


def test_untouched_columns_are_the_decoders_own() -> None:
    """With their marks, as are those that evolved since, which no expression sees, whatever they are called."""
    mark = {b"exporter.json": b"."}
    table = decoded(PAIR, pairs((1, "1"), (2, "x"))).set_column(
        1, pa.field("s", pa.string(), metadata=mark), pa.chunked_array([["1", "x"]])
    )
    for name in ("later", "_key"):
        table = table.add_column(2, name, pa.array(["e1", "e2"]))
    shape = Shape(PAIR, computed=(("n", "s::INTEGER"), ("k", "decode(_key)")))
    answer = Shaper(shape, []).shaped(table, records(2, first=1))
    assert answer.table.schema.field("s").metadata == mark
    assert answer.table.drop_columns([*OWN]).to_pylist() == [
        {"a": 1, "s": "1", "_key": "e1", "later": "e1", "n": 1, "k": "k1"}
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("170141183460469231731687303715884105727::HUGEINT", "cast"), ("1::HUGEINT", Decimal(1)),
        ("'infinity'::TIMESTAMP", "years"), ("'infinity'::DATE", "years"), ("DATE '12000-01-01'", "years"),
        ("TIMESTAMPTZ '0000-06-01 00:00:00+00'", "years"), ("DATE '9999-12-31'", date(9999, 12, 31)),
        ("18446744073709551615::UBIGINT", Decimal(18446744073709551615)), ("'NaN'::DOUBLE::VARCHAR", "nan"),
        ("'6BA7B810-9DAD-11D1-80B4-00C04FD430C8'::UUID", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("'b'::ENUM('a', 'b')", "b"), ("'{\"x\": 1}'::JSON", '{"x": 1}'), ("[1, NULL]::UTINYINT[2]", [1, None]),
        ("MAP {'k': {'x': '1'::UUID}}", "cast"), ("{'x': [1.50]}", {"x": [Decimal("1.50")]}),
        ("'\\xFF'::BLOB", b"\xff"),
        ("TIMESTAMP_S '2024-01-02 03:04:05'", datetime(2024, 1, 2, 3, 4, 5)),
    ],
)  # fmt: skip
def test_what_an_expression_gives_is_what_the_table_holds_or_a_reason(text: str, value: Any) -> None:
    """Never another number, nor a time that readers of tables cannot read. The text depends on the row."""
    answer = shaped(Shape(PAIR, computed=(("v", f"CASE WHEN a = 1 THEN {text} END"),)), pairs((1, "x"), (2, "y")))
    if value in ("cast", "years"):
        assert [row for row, _ in answer.bad] == [0]
        assert ("years 1 to 9999" in answer.bad[0][1]) == (value == "years")
        assert [row["v"] for row in made(answer)] == [None]
    else:
        assert answer.bad == []
        assert [row["v"] for row in made(answer)] == [value, None]


def test_sql_sees_decoded_columns_in_the_types_that_it_was_checked_with() -> None:
    """For each type that a column can have."""
    scalars = [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP",
        "TIMESTAMP_NTZ", "DECIMAL(38,0)", "DECIMAL(5,2)",
    ]  # fmt: skip
    ddl = [f"c{at} {kind}" for at, kind in enumerate(scalars)]
    ddl += ["list ARRAY<DECIMAL(5,2)>", "map MAP<STRING, ARRAY<DECIMAL(5,2)>>"]
    ddl += ["struct STRUCT<`a b`: MAP<STRING, ARRAY<DECIMAL(5,2)>>, at: TIMESTAMP>"]
    declared = schema(", ".join(ddl))
    kinds = {one.name: one.type for one in struct_of(declared).fields}
    copies = tuple((f"{name}_copy", name) for name in kinds)
    told = struct_of(table_columns("t", Shape(declared, computed=copies), [])).named
    assert {name: told[f"{name}_copy"].type for name in kinds} == kinds
    types = tuple((f"{name}_type", f"typeof({name})") for name in kinds)
    answer = shaped(Shape(declared, computed=(*copies, *types)), [{}])
    (row,) = made(answer)
    assert row["c4_type"] == "BIGINT" and row["c10_type"] == "TIMESTAMP WITH TIME ZONE"
    for name, kind in kinds.items():
        assert answer.table.schema.field(f"{name}_copy").type == arrow_type(kind)
        assert arrow_type(kind) == arrow_schema(declared, "t", "JSON").field(name).type


def test_no_rows_are_none() -> None:
    """Of the table's columns, whatever there is to do."""
    answer = shaped(Shape(PAIR, where="a > 1", computed=(("n", "s::INTEGER"),), drop=("a",)), [], [("env", "x")])
    assert answer.table.column_names == ["s", "n", "env", *OWN]
    assert (len(answer.kept), len(answer.filtered), answer.bad) == (0, 0, [])


def test_a_fault_of_the_engine_is_no_rows_own() -> None:
    """Memory that is not there, a broken statement: the task fails and is tried again, and no record is to blame."""
    import duckdb

    shaper = Shaper(Shape(PAIR, computed=(("n", "a + 1"),)), [])
    table = decoded(schema("a STRING, s STRING"), [{"a": "x", "s": "y"}])  # not as it was checked
    with pytest.raises(duckdb.BinderException):
        shaper.shaped(table, records(1))


def test_batches_may_differ_in_how_their_columns_are_held() -> None:
    """In marks, in chunks, in the width of a text's offsets: each is read as what it is, and none is kept."""
    shaper = Shaper(Shape(PAIR, where="a > 1", computed=(("n", "upper(s)"),)), [])
    table = decoded(PAIR, pairs((1, "w"), (2, "x"), (3, "é")))
    large = table.set_column(1, "s", table.column("s").cast(pa.large_string()))
    marked = table.replace_schema_metadata({"x": "y"}).select([1, 0, 2, 3])
    for rows in (table, large, pa.concat_tables([table.slice(0, 1), table.slice(1)]), marked, table.slice(1), table):
        answer = shaper.shaped(rows, records(rows.num_rows))
        assert answer.table.column("n").to_pylist() == ["X", "É"]
        assert answer.kept.to_pylist()[-1] == rows.num_rows - 1


@pytest.mark.parametrize(
    ("shape", "sees"),
    [
        (Shape(PAIR, where="a > 1", computed=(("n", "s || '1'"), ("c", "1"))), False),
        (Shape(PAIR, drop=("a",)), False),
        (Shape(PAIR, where="_kafka.partition > 1"), True), (Shape(PAIR, computed=(("k", "_KEY"),)), True),
        (Shape(PAIR, python="tests.unit.shape.test_function:doubled"), True),
    ],
)  # fmt: skip
def test_the_record_is_asked_for_only_where_something_sees_it(shape: Shape, sees: bool) -> None:
    """Who asks for the value alone gets the same without it, and a constant, which asks for nothing."""
    shaper = Shaper(shape, [])
    assert shaper.sees_record == sees
    if not sees:
        table = decoded(PAIR, pairs((1, "1"), (2, "2")))
        without, beside = shaper.shaped(table, table.select([])), shaper.shaped(table, records(2))
        assert (without.table, without.kept) == (beside.table, beside.kept)
