"""Table schemas: created from the declaration, evolved by adding columns only."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.column.spark_json import struct_of
from exporter.column.types import Field
from exporter.core.specs import table_spec
from exporter.errors import ConfigError
from exporter.lake.change import Change, new_metadata
from exporter.lake.schema import keeps_event_time, refuses, schema_change, table_schema, with_event_time
from offsets.partitions import DAY, UNIT_PROPERTY, Spec
from offsets.table_log import TableView
from tests.support.schemas import fields, kind, names, schema, whole


def table(ddl: str, spec: Spec = DAY) -> str:
    return table_schema(schema(ddl), spec)


def without(text: str) -> str:
    """As an earlier version made it: without the exporter's own `_event_time`."""
    found = json.loads(text)["fields"]
    assert found.pop(1)["name"] == "_event_time"
    return json.dumps({"type": "struct", "fields": found}, separators=(",", ":"))


def view(text: str, **more: object) -> TableView:
    return TableView(1, "id", "f", {}, {}, ("day",), text, **more)


def evolved_schema(have: str, want: str) -> str:
    """The table's schema as it is to be, or to stay."""
    return schema_change(view(have), want, False).schema_json or have


def test_a_table_has_our_columns_around_the_declared_ones():
    """`_kafka` and `_event_time` first (inside Delta's indexed columns), `_rescued` and the partition column last."""
    assert names(table("a BIGINT")) == ["_kafka", "_event_time", "a", "_rescued", "day"]


def test_the_dead_letters_have_no_event_time():
    """Most of their records have none."""
    assert "_event_time" not in names(table_schema(None))


def test_a_table_that_is_cut_by_weeks_says_so_and_is_filled_by_nobody_once_it_does_not():
    """Its column would be a user's own then, and null in each row; of other units nothing is said (protocol 4.7)."""
    declared = table("a BIGINT", Spec("week"))
    assert names(declared)[-1] == "week"
    made = new_metadata(Change((), {}, {}, create=declared, spec=Spec("week")), "app", "a", {})
    found = TableView(1, "id", "f", {}, made["configuration"], tuple(made["partitionColumns"]), declared)
    assert table_spec(found) == Spec("week") and refuses(found, declared) == ""
    undone = replace(found, properties={})
    assert refuses(undone, table("a BIGINT", table_spec(undone))) == (
        "it is cut by week, and no such column is declared"
    )
    for unit in ("day", "hour", "month", "none"):
        configuration = new_metadata(Change((), {}, {}, create="{}", spec=Spec(unit, ("week",))), "app", "a", {})
        assert UNIT_PROPERTY not in configuration["configuration"]


def test_a_table_of_an_earlier_version_gets_its_event_time_behind_the_coordinates():
    """By the same text as a new table has it, once; whoever adds columns adds it too, but not to the dead letters."""
    new, old = table("a BIGINT"), without(table("a BIGINT"))
    assert with_event_time(old) == evolved_schema(old, new) == new
    assert with_event_time(new) == new
    assert names(evolved_schema(old, table("b BIGINT")))[:2] == ["_kafka", "_event_time"]
    assert evolved_schema(table_schema(None), table_schema(None)) == table_schema(None)
    assert refuses(view(old), new) == "", "until then it takes what has the column: readers go by the table"


@pytest.mark.parametrize("own", ["_event_time STRING", "_Event_Time TIMESTAMP"])
def test_a_column_of_that_name_from_before_it_was_the_exporters_stays_as_it_is(own):
    """Of another type, or written otherwise; the table takes what else is declared, and no second one."""
    before = without(table(f"{own}, a BIGINT"))
    assert with_event_time(before) == before
    assert evolved_schema(before, table("a BIGINT")) == before
    after = evolved_schema(before, table("b BIGINT"))
    assert tuple(one for one in struct_of(after).fields if one.name.lower() == "_event_time") == fields(own)
    views = {"old": view(before), "new": view(table("a BIGINT")), "older": view(without(table("a BIGINT")))}
    assert [name for name, one in views.items() if not keeps_event_time(one.schema_json)] == ["old"]


def test_all_columns_of_a_table_are_nullable():
    """What is required is the decoder's business: a NOT NULL column could never be added later."""
    nested = replace(kind("ARRAY<STRUCT<x: BIGINT NOT NULL>>"), nullable=False)
    made = table_schema(whole([Field("a", nested, nullable=False)]))
    assert '"nullable":false' not in made and '"containsNull":false' not in made


def test_an_unchanged_declaration_leaves_the_text_as_it_is():
    """No metadata change, no conflict with other tasks."""
    assert evolved_schema(table("a BIGINT"), table("a BIGINT")) == table("a BIGINT")


def test_new_columns_are_added_at_every_level():
    """Top level, inside structs, inside arrays and map values."""
    wider = "m MAP<STRING, STRUCT<x: BIGINT, y: STRING>>"
    before = table("s STRUCT<x: BIGINT>, m MAP<STRING, STRUCT<x: BIGINT>>")
    after = evolved_schema(before, table(f"s STRUCT<x: BIGINT, y: DATE>, {wider}, new BIGINT"))
    assert names(after)[-1] == "new"
    assert evolved_schema(after, table(f"s STRUCT<y: DATE>, {wider}")) == after


def test_columns_that_are_no_longer_declared_stay():
    """Their values are in the old files."""
    assert "a" in names(evolved_schema(table("a BIGINT"), table("b BIGINT")))


@pytest.mark.parametrize(
    ("have", "want"),
    [("BIGINT", "STRING"), ("INT", "BIGINT"), ("BIGINT", "STRUCT<x: BIGINT>"), ("DECIMAL(10,2)", "DECIMAL(12,2)")],
)
def test_a_changed_type_is_refused_with_its_column(have, want):
    """No value is ever reinterpreted in silence."""
    with pytest.raises(ConfigError, match=r"column s\.x") as refused:
        evolved_schema(table(f"s STRUCT<x: {have}>"), table(f"s STRUCT<x: {want}>"))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("have", "want", "says"),
    [
        ("id BIGINT", "ID BIGINT", "the table has a column id, which readers cannot tell from ID"),
        ("s STRUCT<x: BIGINT>", "s STRUCT<X: BIGINT>", r"a column s\.x, which .* from s\.X"),
        ("a STRUCT<b: BIGINT>", "`a.b` BIGINT", r"the table has a column a\.b, .* from `a\.b`"),
        ("`a.b` BIGINT", "a STRUCT<b: BIGINT>", r"the table has a column `a\.b`, .* from a\.b"),
    ],
)
def test_a_new_column_that_reads_like_one_of_the_table_is_refused(have, want, says):
    """Delta would refuse it for ever, or readers mix the two up; the old one is in the table although undeclared."""
    with pytest.raises(ConfigError, match=says) as refused:
        evolved_schema(table(have), table(want))
    assert refused.value.hint


def test_columns_that_read_alike_already_are_no_hindrance():
    """A table of an earlier version goes on, and gets what else is declared."""
    alike = table("a STRUCT<b: BIGINT>, `a.b` BIGINT")
    assert evolved_schema(alike, alike) == alike
    assert "new" in names(evolved_schema(alike, table("new BIGINT")))


def test_all_columns_that_do_not_fit_are_named() -> None:
    """One message for the table, not one start after the other."""
    have = table("a BIGINT, s STRUCT<x: BIGINT>, amount DECIMAL(12,2)")
    want = table("a STRING, s STRUCT<x: DATE>, AMOUNT DECIMAL(12,2)")
    with pytest.raises(ConfigError) as refused:
        evolved_schema(have, want)
    for told in ("column a is long", "column s.x is long", "cannot tell from AMOUNT"):
        assert told in str(refused.value)


def test_a_wider_column_is_refused_with_a_way_to_keep_the_values() -> None:
    """What the column cannot hold is whole in the dead letters; a new name for the column would not take the field."""
    with pytest.raises(ConfigError) as refused:
        evolved_schema(table("amount DECIMAL(12,2)"), table("amount DECIMAL(18,2)"))
    assert refused.value.message == "column amount is decimal(12,2) in the table and decimal(18,2) in the settings"
    assert "`_rescued`" in refused.value.hint and "dead letters" in refused.value.hint


@pytest.mark.parametrize(
    ("user_has", "reason"),
    [
        ("a DECIMAL(18,2), b STRING", "column a is decimal(18,2) in the table and decimal(12,2) in the"),
        ("a2 DECIMAL(12,2), b STRING", "it lacks column a, which the settings declare"),
        ("extra BIGINT", "it lacks columns a, b, which the settings declare"),
        ("A DECIMAL(12,2), b STRING", "which readers cannot tell from a"),
        ("a DECIMAL(12,2), b STRING, extra BIGINT", ""),
    ],
    ids=["widened", "renamed", "other columns", "renamed by case", "wider"],
)
def test_a_table_that_a_user_has_altered_is_refused_by_itself_with_what_to_do(user_has, reason) -> None:
    """A reason to park its type, not an error that ends all of them."""
    found = refuses(view(table(user_has)), table("a DECIMAL(12,2), b STRING"))
    assert reason in found and bool(reason) == bool(found)


def test_what_a_user_has_widened_still_takes_files_of_before() -> None:
    """So that a switch to the wider type can bring the table up first; any other change of a type is no widening."""
    changes = [{"toType": "decimal(18,2)", "fromType": "decimal(12,2)"}]
    altered = json.loads(table("a DECIMAL(18,2), b STRING"))
    altered["fields"][2]["metadata"] = {"delta.typeChanges": changes}
    found = view(json.dumps(altered))
    assert refuses(found, table("a DECIMAL(12,2), b STRING"), widened=False) == ""
    assert refuses(found, table("a DECIMAL(18,2), b STRING")) == ""
    for declared in (table("a DECIMAL(11,2), b STRING"), table("a DECIMAL(12,2), b BIGINT")):
        assert refuses(found, declared, widened=False)


def test_whatever_refuses_files_is_told_at_once() -> None:
    """Columns and constraints in one reason."""
    told = TableView(1, "id", "f", {}, {"delta.constraints.small": "a < 5"}, ("day",), table("c BIGINT"))
    assert "it lacks column a" in refuses(told, table("a BIGINT"))
    assert "constraint small CHECK (a < 5)" in refuses(told, table("a BIGINT"))
    assert refuses(told, None) == "constraint small CHECK (a < 5)"


def test_a_table_says_which_of_its_texts_are_json() -> None:
    """At every level; whatever else is said of a column at the top goes, as it always did."""
    made = table("p JSON COMMENT 'c', s STRUCT<q: JSON COMMENT 'c'> COMMENT 'c'")
    assert struct_of(made).fields[2:4] == fields("p JSON, s STRUCT<q: JSON COMMENT 'c'>")
    assert '"metadata":{"exporter.json":"."}' in made


def test_what_is_said_of_a_column_is_no_other_type() -> None:
    """Where evolution found it, or a comment: neither in the way of what is declared, nor lost."""
    stored = json.loads(table("a BIGINT, s STRUCT<x: STRING>"))
    stored["fields"][2]["metadata"] = {"exporter.evolved": "t/0/1"}
    stored["fields"][3]["type"]["fields"][0]["metadata"] = {"comment": "c"}
    text = json.dumps(stored)
    declared = table("a BIGINT, s STRUCT<x: STRING>")
    assert evolved_schema(text, declared) == text
    assert refuses(view(text), declared) == ""
    assert json.loads(evolved_schema(text, table("b BIGINT")))["fields"][2] == stored["fields"][2]


@pytest.mark.parametrize(("text", "json_text"), [("STRING", "JSON"), ("ARRAY<STRING>", "ARRAY<JSON>")])
def test_texts_do_not_become_json_nor_json_texts(text: str, json_text: str) -> None:
    """What stands in the old files would be something else from then on; the column is named."""
    as_json, plain = table(f"s STRUCT<y: BIGINT>, x {json_text}"), table(f"s STRUCT<y: BIGINT>, x {text}")
    assert evolved_schema(as_json, as_json) == as_json
    for have, want, told in (
        (plain, as_json, "plain ones in the table and JSON"),
        (as_json, plain, "JSON in the table"),
    ):
        with pytest.raises(ConfigError, match=f"the texts of column x are {told}") as refused:
            evolved_schema(have, want)
        assert refused.value.hint
        assert told in refuses(view(have), want)
