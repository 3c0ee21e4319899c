"""Table schemas: created from the declaration, evolved by adding columns only."""

from __future__ import annotations

import json

import pytest

from exporter.errors import ConfigError
from exporter.tables import evolved_schema, table_schema


def struct(*fields: tuple[str, object]) -> dict[str, object]:
    made = [{"name": name, "type": kind, "nullable": False, "metadata": {}} for name, kind in fields]
    return {"type": "struct", "fields": made}


def table(*fields: tuple[str, object]) -> str:
    return table_schema(json.dumps(struct(*fields)))


def names(schema: str) -> list[str]:
    return [field["name"] for field in json.loads(schema)["fields"]]


def test_a_table_has_our_columns_around_the_declared_ones():
    """`_kafka` first (inside Delta's indexed columns), `_rescued` and the partition column last."""
    assert names(table(("a", "long"))) == ["_kafka", "a", "_rescued", "day"]


def test_all_columns_of_a_table_are_nullable():
    """What is required is the decoder's business: a NOT NULL column could never be added later."""
    nested = {"type": "array", "containsNull": False, "elementType": struct(("x", "long"))}
    assert '"nullable":false' not in table(("a", nested))
    assert '"containsNull":false' not in table(("a", nested))


def test_an_unchanged_declaration_leaves_the_text_as_it_is():
    """No metadata change, no conflict with other tasks."""
    assert evolved_schema(table(("a", "long")), table(("a", "long"))) == table(("a", "long"))


def test_new_columns_are_added_at_every_level():
    """Top level, inside structs, inside arrays and map values."""
    inner = {"type": "map", "keyType": "string", "valueType": struct(("x", "long")), "valueContainsNull": True}
    wider = {**inner, "valueType": struct(("x", "long"), ("y", "string"))}
    before = table(("s", struct(("x", "long"))), ("m", inner))
    after = evolved_schema(before, table(("s", struct(("x", "long"), ("y", "date"))), ("m", wider), ("new", "long")))
    assert names(after)[-1] == "new"
    assert evolved_schema(after, table(("s", struct(("y", "date"))), ("m", wider))) == after


def test_columns_that_are_no_longer_declared_stay():
    """Their values are in the old files."""
    assert "a" in names(evolved_schema(table(("a", "long")), table(("b", "long"))))


@pytest.mark.parametrize(
    ("have", "want"),
    [("long", "string"), ("integer", "long"), ("long", struct(("x", "long"))), ("decimal(10,2)", "decimal(12,2)")],
)
def test_a_changed_type_is_refused_with_its_column(have, want):
    """No value is ever reinterpreted in silence."""
    with pytest.raises(ConfigError, match=r"column s\.x") as refused:
        evolved_schema(table(("s", struct(("x", have)))), table(("s", struct(("x", want)))))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("have", "want", "says"),
    [
        (("id", "long"), ("ID", "long"), "the table has a column id, which readers cannot tell from ID"),
        (("a", struct(("b", "long"))), ("a.b", "long"), r"the table has a column a\.b, .* from `a\.b`"),
        (("a.b", "long"), ("a", struct(("b", "long"))), r"the table has a column `a\.b`, .* from a\.b"),
    ],
)
def test_a_new_column_that_reads_like_one_of_the_table_is_refused(have, want, says):
    """Delta would refuse it for ever, or readers mix the two up; the old one is in the table although undeclared."""
    with pytest.raises(ConfigError, match=says) as refused:
        evolved_schema(table(have), table(want))
    assert refused.value.hint


def test_columns_that_read_alike_already_are_no_hindrance():
    """A table of an earlier version goes on, and gets what else is declared."""
    alike = [("a", struct(("b", "long"))), ("a.b", "long")]
    assert evolved_schema(table(*alike), table(*alike)) == table(*alike)
    assert "new" in names(evolved_schema(table(*alike), table(("new", "long"))))
