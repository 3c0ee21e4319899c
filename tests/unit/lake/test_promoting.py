"""Columns whose schema says a wider type by now."""

from __future__ import annotations

import pytest

from exporter.core.columns import EVOLVED
from exporter.lake.promoting import Outgrown, promoted, widest
from exporter.lake.widening import CHANGES
from tests.support.schemas import column, fields, schema
from tests.unit.lake.test_widening import changed

GROWN = {EVOLVED: "schema 1"}


@pytest.mark.parametrize(
    ("have", "want", "found"),
    [
        ("INT", "BIGINT", ["a: integer to long"]),
        ("FLOAT", "DOUBLE", ["a: float to double"]),
        ("DECIMAL(5,2)", "DECIMAL(12,2)", ["a: decimal(5,2) to decimal(12,2)"]),
        ("BIGINT", "INT", []),
        ("BIGINT", "DOUBLE", []),
        ("INT", "STRING", []),
        ("DATE", "TIMESTAMP_NTZ", []),
        ("INT", "ARRAY<BIGINT>", []),
        ("ARRAY<INT>", "ARRAY<BIGINT>", ["a.element: integer to long"]),
        ("MAP<STRING, FLOAT>", "MAP<STRING, DOUBLE>", ["a.value: float to double"]),
        ("MAP<INT, BIGINT>", "MAP<BIGINT, BIGINT>", []),
        ("STRUCT<x: INT, y: BIGINT>", "STRUCT<y: INT, x: BIGINT>", ["a.x: integer to long"]),
        ("ARRAY<STRUCT<x: FLOAT>>", "ARRAY<STRUCT<x: DOUBLE>>", ["a.element.x: float to double"]),
    ],
)
def test_an_evolved_column_is_outgrown_by_a_type_that_holds_all_of_its_values(
    have: str, want: str, found: list[str]
) -> None:
    """At every level; the same text where nothing is. A column that is declared has the type that is declared."""
    table, wanted = schema(f"a {have}", a=GROWN), [fields(f"a {want}")]
    made, columns = promoted(table, wanted)
    assert [f"{one.path}: {one.have} to {one.want}" for one in columns] == found
    assert (made is table) == (not found)
    if found:
        assert promoted(made, wanted) == (made, ())
    assert promoted(schema(f"a {have}"), wanted)[1] == ()


def test_readers_are_told_what_a_column_was() -> None:
    """All that was noted of it stays; what cuts the table keeps its type, and so does a JSON text."""
    made, _ = promoted(
        schema("a MAP<STRING, ARRAY<TINYINT>> COMMENT 'c'", a=GROWN),
        [fields("a MAP<STRING, ARRAY<INT>>"), fields("a MAP<STRING, ARRAY<SMALLINT>>")],
    )
    noted = column(made, "a").metadata
    assert noted == {"comment": "c", **GROWN, CHANGES: [changed("byte", "integer", fieldPath="value.element")]}
    fixed = schema("a INT, j JSON", a=GROWN, j=GROWN)
    assert promoted(fixed, [fields("a BIGINT, j BIGINT")], ("a",)) == (fixed, ())


def test_of_columns_that_no_table_has_yet_the_widest_type_counts() -> None:
    """Nothing is noted of them: they never were anything else."""
    others = [fields("b INT"), fields("b DOUBLE, a BIGINT")]
    assert widest(fields("a INT, b SMALLINT"), others) == fields("a BIGINT, b DOUBLE")
    assert promoted(schema(""), others) == (schema(""), ()) and Outgrown("a", "b", "c").path == "a"
