"""Widened columns: which types may be, how the table's schema says so, and that nothing else changes a type."""

from __future__ import annotations

import json
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.column.spark_json import scalar_of
from exporter.column.types import Field, MapType, StructType
from exporter.core.shapes import with_fields
from exporter.errors import ConfigError
from exporter.lake.schema import refuses, schema_change, table_schema
from exporter.lake.widening import CHANGES, ENABLED, is_wider, now_double, restated
from offsets.table_log import TableView
from tests.support.schemas import column, fields, kind, schema

KINDS = (
    "byte", "short", "integer", "long", "float", "double", "decimal(5,2)", "decimal(12,2)", "decimal(12,4)",
    "decimal(13,4)", "date", "timestamp", "timestamp_ntz", "string", "boolean", "binary",
)  # fmt: skip
WIDER = {
    ("byte", "short"), ("byte", "integer"), ("byte", "long"), ("byte", "double"),
    ("short", "integer"), ("short", "long"), ("short", "double"),
    ("integer", "long"), ("integer", "double"),
    ("float", "double"),
    ("decimal(5,2)", "decimal(12,2)"), ("decimal(5,2)", "decimal(12,4)"), ("decimal(5,2)", "decimal(13,4)"),
    ("decimal(12,4)", "decimal(13,4)"),
    ("date", "timestamp_ntz"),
}  # fmt: skip
"""The Delta protocol's own, without those that make decimals of integers. 12,2 to 13,4 would lose a digit before the
point."""


def table(ddl: str) -> str:
    return table_schema(schema(ddl))


def view(schema: str, partition: str = "day", **properties: str) -> TableView:
    return TableView(1, "id", "f", {}, properties, (partition,), schema)


def changed(old: str, new: str, **where: str) -> dict[str, str]:
    return {"toType": new, "fromType": old, **where}


def test_a_type_is_wider_if_readers_make_its_values_of_the_old_ones() -> None:
    """Those pairs and no others, whatever order they are asked in; no type is wider than itself."""
    kinds = [*map(scalar_of, KINDS)]
    assert {(have.name, want.name) for have, want in product(kinds, kinds) if is_wider(have, want)} == WIDER
    assert not is_wider(kind("INT"), kind("ARRAY<BIGINT>")) and not is_wider(kind("STRUCT<>"), kind("STRUCT<>"))


def test_a_wider_declaration_widens_the_column_of_the_table() -> None:
    """The type is the declared one, its metadata tell readers what it was, and the property asks for the feature."""
    old = view(with_fields(table(""), fields("id INT COMMENT 'kept', page STRING")))
    evolved = schema_change(old, table("id BIGINT, page STRING"), True)
    wide = column(evolved.schema_json, "id")
    assert (wide.type, wide.metadata) == (kind("BIGINT"), {"comment": "kept", CHANGES: [changed("integer", "long")]})
    assert (column(evolved.schema_json, "page"),) == fields("page STRING")
    assert (evolved.properties, evolved.added) == ({ENABLED: "true"}, ())
    assert evolved.widened == ("id from integer to long",)


def test_a_column_can_be_widened_again() -> None:
    """Readers find all the types that its files may have, in their order; the feature is asked for once."""
    first = schema_change(view(table("id TINYINT")), table("id SMALLINT"), True)
    again = schema_change(view(first.schema_json or "", **first.properties), table("id BIGINT"), True)
    assert column(again.schema_json, "id").metadata == {CHANGES: [changed("byte", "short"), changed("short", "long")]}
    assert again.properties == {}


def test_types_are_widened_at_every_level() -> None:
    """The nearest field of a struct says so, with the way to the type; new fields come along."""
    old = "STRUCT<x: INT, l: ARRAY<MAP<STRING, FLOAT>>>"
    new = "STRUCT<x: BIGINT, l: ARRAY<MAP<STRING, DOUBLE>>, y: DATE>"
    evolved = schema_change(
        view(table(f"s {old}, m MAP<STRING, {old}>")), table(f"s {new}, m MAP<STRING, {new}>"), True
    )
    wide = fields(
        "x BIGINT, l ARRAY<MAP<STRING, DOUBLE>>, y DATE",
        x={CHANGES: [changed("integer", "long")]},
        l={CHANGES: [changed("float", "double", fieldPath="element.value")]},
    )
    assert column(evolved.schema_json, "s") == Field("s", StructType(wide))
    assert column(evolved.schema_json, "m") == Field("m", MapType(kind("STRING"), StructType(wide)))
    assert evolved.added == ("s.y", "m.value.y")
    assert set(evolved.widened) == {
        "s.x from integer to long", "s.l.element.value from float to double",
        "m.value.x from integer to long", "m.value.l.element.value from float to double",
    }  # fmt: skip


def test_without_the_setting_a_wider_column_is_refused_with_what_it_would_do() -> None:
    """Nobody's readers end without having been asked for."""
    with pytest.raises(ConfigError) as refused:
        schema_change(view(table("amount DECIMAL(12,2)")), table("amount DECIMAL(18,2)"), False)
    assert refused.value.message == "column amount is decimal(12,2) in the table and decimal(18,2) in the settings"
    assert refused.value.hint.startswith("`type_widening = true`") and "delta-rs 1.6" in refused.value.hint


@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("BIGINT", "INT"),
        ("BIGINT", "DOUBLE"),
        ("DECIMAL(12,2)", "DECIMAL(13,4)"),
        ("STRING", "BIGINT"),
        ("DATE", "TIMESTAMP"),
        ("ARRAY<INT>", "BIGINT"),
        ("MAP<INT, STRING>", "MAP<BIGINT, STRING>"),
    ],
)
def test_any_other_change_of_a_type_is_refused_with_the_setting_too(have: str, want: str) -> None:
    """Narrower, not exact, of another kind, a map's keys: Delta would commit it, and nobody could read the table."""
    with pytest.raises(ConfigError, match="column a") as refused:
        schema_change(view(table(f"a {have}")), table(f"a {want}"), True)
    assert "type_widening" not in refused.value.hint


def test_a_partition_column_stays_as_it_is() -> None:
    """Its values are texts in the log, which are not written anew."""
    with pytest.raises(ConfigError, match="column code") as refused:
        schema_change(view(table("code INT, n INT"), partition="code"), table("code BIGINT, n BIGINT"), True)
    assert "column n" not in str(refused.value)


def test_bounds_of_a_float_hold_for_it_as_a_double() -> None:
    """Those at the given paths alone; all other numbers and texts stay digit by digit."""
    stats = {
        "numRecords": 3,
        "minValues": {"f": 0.1, "s": {"f": -0.3}, "money": 0, "text": "\ue0001"},
        "maxValues": {"f": "NaN", "s": {"f": 16777216.0}, "d": 0.1},
        "nullCount": {"f": 0, "s": {"f": 0}},
    }
    text = json.dumps(stats, ensure_ascii=False).replace('"money": 0', '"money": 9007199254740993.10')
    found = restated(text, [("f",), ("s", "f"), ("gone",), ("gone", "f")])
    bounds = json.loads(found)
    low, high = bounds["minValues"], bounds["maxValues"]
    assert low["f"] < single(0.1) and low["s"]["f"] < single(-0.3) and high["s"]["f"] > 16777216.0
    assert (low["f"], low["s"]["f"], high["s"]["f"]) == pytest.approx((0.1, -0.3, 16777216.0))
    assert (high["f"], high["d"], low["text"]) == ("NaN", 0.1, "\ue0001")
    assert '"money":9007199254740993.10' in found and bounds["nullCount"] == stats["nullCount"]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_float_lies_beyond_its_restated_bounds(number: float) -> None:
    """Whatever its shortest text is."""
    shortest = pa.scalar(number, pa.float32()).cast(pa.string()).as_py()
    text = f'{{"minValues":{{"f":{float(shortest)!r}}},"maxValues":{{"f":{float(shortest)!r}}}}}'
    bounds = json.loads(restated(text, [("f",)]))
    assert bounds["minValues"]["f"] <= number <= bounds["maxValues"]["f"]


def test_what_becomes_a_double_is_found_through_structs() -> None:
    """Not in lists and maps, which have no bounds."""
    ddl = "f FLOAT, g FLOAT, s STRUCT<f: FLOAT>, l ARRAY<FLOAT>"
    wide = ddl.replace("FLOAT", "DOUBLE").replace("g DOUBLE", "g FLOAT")
    have, want = (StructType(fields(text)) for text in (ddl, wide))
    assert list(now_double(have, want)) == [("f",), ("s", "f")]


def single(number: float) -> float:
    return float(pa.scalar(number, pa.float32()).as_py())


def test_nothing_to_widen_changes_nothing() -> None:
    """No property, no text: a start with the setting is no change of a table's metadata."""
    same = schema_change(view(table("a BIGINT")), table("a BIGINT"), True)
    assert (same.schema_json, same.properties, same.widened) == (None, {}, ())
    assert schema_change(view(table("a BIGINT")), None, True) == same


def test_a_widened_table_takes_files_of_the_type_that_it_had_at_that_place() -> None:
    """What is still to be drained under the old settings; a type that another part of the column had is no excuse."""
    old, new = table("l ARRAY<INT>"), table("l ARRAY<BIGINT>")
    now = view(schema_change(view(old), new, True).schema_json or "")
    assert refuses(now, new) == refuses(now, old, widened=False) == ""
    assert "column l.element is long" in refuses(now, old)
    assert refuses(now, table("l ARRAY<SMALLINT>"), widened=False)
    assert refuses(now, table("l INT"), widened=False)
