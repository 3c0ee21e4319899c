"""Columns whose schema says a wider type by now."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.lake.promoting import Outgrown, promoted, widest
from exporter.lake.widening import CHANGES
from tests.unit.lake.test_widening import changed, column, field, list_of, map_of, struct

GROWN = {EVOLVED: "schema 1"}


def table(*fields: dict[str, Any]) -> str:
    return json.dumps(struct(*fields))


@pytest.mark.parametrize(
    ("have", "want", "found"),
    [
        ("integer", "long", ["a: integer to long"]),
        ("float", "double", ["a: float to double"]),
        ("decimal(5,2)", "decimal(12,2)", ["a: decimal(5,2) to decimal(12,2)"]),
        ("long", "integer", []),
        ("long", "double", []),
        ("integer", "string", []),
        ("date", "timestamp_ntz", []),
        ("integer", list_of("long"), []),
        (list_of("integer"), list_of("long"), ["a.element: integer to long"]),
        (map_of("float"), map_of("double"), ["a.value: float to double"]),
        (map_of("long", "integer"), map_of("long", "long"), []),
        (struct(field("x", "integer"), field("y", "long")), struct(field("y", "integer"), field("x", "long")),
         ["a.x: integer to long"]),
        (list_of(struct(field("x", "float"))), list_of(struct(field("x", "double"))), ["a.element.x: float to double"]),
    ],
)  # fmt: skip
def test_an_evolved_column_is_outgrown_by_a_type_that_holds_all_of_its_values(
    have: Any, want: Any, found: list[str]
) -> None:
    """At every level; the same text where nothing is. A column that is declared has the type that is declared."""
    schema = table(field("a", have, **GROWN))
    made, columns = promoted(schema, [[field("a", want)]])
    assert [f"{one.path}: {one.have} to {one.want}" for one in columns] == found
    assert (made is schema) == (not found)
    if found:
        assert promoted(made, [[field("a", want)]]) == (made, ())
    assert promoted(table(field("a", have)), [[field("a", want)]])[1] == ()


def test_readers_are_told_what_a_column_was() -> None:
    """All that was noted of it stays; what cuts the table keeps its type, and so does a JSON text."""
    made, _ = promoted(
        table(field("a", map_of(list_of("byte")), comment="c", **GROWN)),
        [[field("a", map_of(list_of("integer")))], [field("a", map_of(list_of("short")))]],
    )
    noted = column(made, "a")["metadata"]
    assert noted == {"comment": "c", **GROWN, CHANGES: [changed("byte", "integer", fieldPath="value.element")]}
    fixed = table(field("a", "integer", **GROWN), field("j", "string", **{JSON_TEXT: ".", **GROWN}))
    assert promoted(fixed, [[field("a", "long"), field("j", "long")]], ("a",)) == (fixed, ())


def test_of_columns_that_no_table_has_yet_the_widest_type_counts() -> None:
    """Nothing is noted of them: they never were anything else."""
    others = [[field("b", "integer")], [field("b", "double"), field("a", "long")]]
    found = widest([field("a", "integer"), field("b", "short")], others)
    assert json.loads(json.dumps(found)) == [field("a", "long"), field("b", "double")]
    assert promoted(table(), others) == (table(), ()) and Outgrown("a", "b", "c").path == "a"
