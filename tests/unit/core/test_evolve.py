"""Which columns follow from what was seen, and how a table grows by them."""

from __future__ import annotations

import json
import random

import pytest

from exporter.column.ddl import quoted
from exporter.column.types import JSON
from exporter.core.columns import EVOLVED, NO_COLUMNS
from exporter.core.evolve import Evolution, grown, known_beforehand
from exporter.core.evolved import combined, has_evolved, union
from exporter.core.seen import At, Seen
from exporter.core.shapes import with_fields
from exporter.lake.schema import table_schema
from offsets.partitions import Spec
from tests.support.schemas import column, ddl, fields, kind, names, schema
from tests.unit.core.test_seen import a_value

EMPTY = table_schema(NO_COLUMNS)


def seen_of(*values: object) -> Seen:
    seen = Seen()
    for offset, value in enumerate(values):
        seen.add(value, At("t", 0, offset))
    return seen


def grow(*values: object, table: str = EMPTY, **limits: object) -> list[str]:
    return ddl(grown(table, seen_of(*values), Evolution(**limits)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([True, None], "v BOOLEAN"),
        ([1, -5], "v BIGINT"),
        ([1.5], "v DOUBLE"),
        ([1, 1.5], "v DOUBLE"),
        ([2**70, 1.5], "v DOUBLE"),
        (["a"], "v STRING"),
        ([{"a": 1}, {"b": "x"}], "v STRUCT<a: BIGINT, b: STRING>"),
        ([[1], [], [2]], "v ARRAY<BIGINT>"),
        ([[{"a": 1}, None, {"b": [True]}]], "v ARRAY<STRUCT<a: BIGINT, b: ARRAY<BOOLEAN>>>"),
        ([1, "a"], "v JSON"),
        ([{"a": 1}, "a"], "v JSON"),
        ([{"a": 1}, [1]], "v JSON"),
        ([True, 1], "v JSON"),
        ([2**63], "v JSON"),
        ([2**63, 1], "v JSON"),
        ([[1, "a"]], "v ARRAY<JSON>"),
        ([[[1, "a"]]], "v ARRAY<ARRAY<JSON>>"),
        ([{"a": [1, {}]}], "v STRUCT<a: ARRAY<JSON>>"),
    ],
)
def test_the_table_of_rules(values, column):
    """What the page of evolve.py says, line by line."""
    assert grow(*({"v": value} for value in values)) == [column]


@pytest.mark.parametrize("value", [None, {}, [], {"a": None}, {"a": {}}, [None], [[]], [{}]])
def test_nothing_makes_no_column(value):
    """Until something is in it: then its kind is known."""
    table = grown(EMPTY, seen_of({"v": value}), Evolution())
    assert table is EMPTY
    assert grow({"v": value}, {"v": 1}) == (["v BIGINT"] if value is None else ["v JSON"])


def test_a_new_field_says_where_it_was_seen_first():
    """At the record that had it, and every new field below it at its own."""
    table = grown(EMPTY, seen_of({}, {"a": {"b": 1}}, {"a": {"c": 1}}), Evolution())
    a = column(table, "a")
    assert a.metadata[EVOLVED] == "t/0/1"
    assert {one.name: one.metadata[EVOLVED] for one in a.type.fields} == {"b": "t/0/1", "c": "t/0/2"}
    assert names(table) == ["_kafka", "_event_time", "a", "_rescued", "day"]
    assert has_evolved(table)
    assert not has_evolved(EMPTY)


def test_a_table_grows_at_every_level_and_changes_nothing_that_is_there():
    """Below structs, elements and values of maps; what has another kind now stays in `_rescued`."""
    table = table_schema(schema("s STRUCT<x: INT>, m MAP<STRING, STRUCT<y: STRING>>, i INT"))
    news = {"s": {"new": 1}, "m": {"k1": {"z": True}, "k2": {"z": False}}, "i": "text", "items": [{"p": 1}]}
    once = grown(table, seen_of(news), Evolution())
    assert ddl(once) == [
        "s STRUCT<x: INT, new: BIGINT>", "m MAP<STRING, STRUCT<y: STRING, z: BOOLEAN>>", "i INT",
        "items ARRAY<STRUCT<p: BIGINT>>",
    ]  # fmt: skip
    again = grown(once, seen_of({"items": [None, {"q": "t"}], "s": {"x": "no number"}}), Evolution())
    assert ddl(again)[3] == "items ARRAY<STRUCT<p: BIGINT, q: STRING>>"
    assert grown(again, seen_of(news), Evolution()) is again


@pytest.mark.parametrize("seed", range(20))
def test_the_same_records_make_the_same_columns_and_only_once(seed):
    """Growing is a function of what was seen, and grows nothing the second time."""
    rng = random.Random(seed)
    values = [{key: a_value(rng) for key in "pqr"} for _ in range(20)]
    table = grown(EMPTY, seen_of(*values), Evolution())
    assert grown(table, seen_of(*values), Evolution()) is table
    rng.shuffle(values)
    assert ddl(grown(EMPTY, seen_of(*values), Evolution())) == ddl(table)


def test_names_that_no_column_can_have_stay_where_they_are():
    """Ours, refused characters, names that differ by case only or read like a nested field."""
    value = {"_kafka": 1, "_Rescued": 1, "day": 1, "": 1, "a b": 1, "A": 1, "a": 1, "s": {"t": 1}, "s.t": 1, "u.v": 1}
    assert grow(value) == ["A BIGINT", "s STRUCT<t: BIGINT>", "`u.v` BIGINT"]
    assert grow({"o": {"day": 1, "x=": 2, "B": 1, "b": 2}}) == ["o STRUCT<B: BIGINT, day: BIGINT>"]
    assert "day" in names(grown(table_schema(NO_COLUMNS, Spec("month")), seen_of(value), Evolution()))


def test_an_object_with_many_keys_becomes_a_map():
    """And the number of columns stays what it is, however many keys come."""
    many = {str(number): number for number in range(11)}
    assert grow({"o": many}, keys_max=10) == ["o MAP<STRING, JSON>"]
    assert grow({"o": [many]}, keys_max=10) == ["o ARRAY<MAP<STRING, JSON>>"]
    table = grown(EMPTY, seen_of({"o": {str(number): 1 for number in range(10)}}), Evolution(keys_max=10))
    assert grown(table, seen_of({"o": {"one more": 1}}), Evolution(keys_max=10)) is table
    crowded = {"o": {str(number): number for number in range(10_000)}}
    assert grow(crowded) == ["o MAP<STRING, JSON>"]


def test_a_table_with_many_columns_gets_maps_and_then_none():
    """columns_max counts leaves, those of the exporter included."""
    wide = {f"o{number}": {"a": 1, "b": 2} for number in range(4)}
    assert len(grow(wide, columns_max=100)) == 4
    table = grown(EMPTY, seen_of(wide), Evolution(columns_max=14))
    assert ddl(table) == [f"o{number} MAP<STRING, JSON>" for number in range(4)]
    assert grow({**wide, "x": 1}, columns_max=9) == ["o0 MAP<STRING, JSON>"]


def test_a_hint_names_the_type():
    """Of a path, also below arrays, as soon as anything is seen there."""
    hints = {"at": kind("TIMESTAMP"), "o[].d": kind("DATE"), "j": JSON, "n": kind("DOUBLE")}
    value = {"at": "2026-11-25T00:00:00Z", "o": [{"d": "2026-11-25"}], "j": 5, "n": None}
    assert grow(value, hints=hints) == ["at TIMESTAMP", "j JSON", "o ARRAY<STRUCT<d: DATE>>"]


def test_what_is_decoded_is_what_is_declared_and_what_was_made():
    """A declared field wins; a column that a user has added to the table is none of ours."""
    declared = schema("s STRUCT<x: INT NOT NULL> NOT NULL")
    table = grown(table_schema(declared), seen_of({"s": {"y": 1}, "z": "t"}), Evolution())
    made = combined(declared, with_fields(table, fields("users STRING")))
    assert names(made) == ["s", "z"]
    inside = column(made, "s").type.fields
    assert [(one.name, one.nullable, EVOLVED in one.metadata) for one in inside] == [
        ("x", False, False),
        ("y", True, True),
    ]
    assert combined(declared, table_schema(declared)) == json.dumps(json.loads(declared), separators=(",", ":"))


def test_a_schema_that_is_known_beforehand_adds_its_fields():
    """Before the first record; what the table has as another type stays."""
    known = fields("a BIGINT NOT NULL, s STRUCT<b: DATE>")
    once = known_beforehand(EMPTY, known, "registry:7")
    assert ddl(once) == ["a BIGINT", "s STRUCT<b: DATE>"]
    assert column(once, "a").metadata == {EVOLVED: "registry:7"}
    assert known_beforehand(once, known, "registry:8") is once
    wider = fields("a STRING, s STRUCT<b: DATE, c: BIGINT>")
    assert ddl(known_beforehand(once, wider, "registry:8")) == ["a BIGINT", "s STRUCT<b: DATE, c: BIGINT>"]


def test_two_tasks_end_with_the_columns_of_both():
    """Whoever commits last adds what the other has not; the text of a wider one is kept as it is."""
    values = ({"a": 1, "s": {"x": 1}}, {"b": 1, "s": {"y": 1}})
    one, other = (grown(EMPTY, seen_of(value), Evolution()) for value in values)
    both = union(one, other)
    assert both is not None
    assert sorted(ddl(both)) == ["a BIGINT", "b BIGINT", "s STRUCT<x: BIGINT, y: BIGINT>"]
    assert union(both, one) == both
    assert union(EMPTY, one) == one
    assert union(one, EMPTY) == one


@pytest.mark.parametrize(("mine", "theirs"), [(1, "t"), ({"x": 1}, {"x": "t"}), (1, [1]), ("t", None), ([1], [2.5])])
def test_of_two_types_for_one_column_none_is_both(mine, theirs):
    """A text and JSON as text are not the same either."""
    values = ([{"v": mine}], [{"v": theirs}] if theirs is not None else [{"v": 1}, {"v": "t"}])
    one, other = (grown(EMPTY, seen_of(*some), Evolution()) for some in values)
    assert union(one, other) is None
    assert union(other, one) is None


@pytest.mark.parametrize(
    "name",
    ["_change_type", "_Commit_Version", "_commit_timestamp", "__is_cdc", "_metadata", "_METADATA", "_row_id_",
     "__delta_internal_is_row_deleted", "_row-id-col-7", "_row-commit-version-col-7", "_tmp_metadata_row_index"],
)  # fmt: skip
def test_a_name_that_delta_has_for_itself_is_no_column_of_values(name: str) -> None:
    """It stays in `_rescued`, whatever the table's properties are by then; inside of a struct it is a name as any."""
    assert grown(EMPTY, seen_of({name: 1}), Evolution()) is EMPTY
    assert known_beforehand(EMPTY, fields(f"`{name}` STRING"), "a schema") is EMPTY
    assert grow({"a": {name: 1}, name: {"b": 1}}) == [f"a STRUCT<{quoted(name)}: BIGINT>"]


def test_a_table_that_has_such_a_column_keeps_it() -> None:
    """An earlier version made it, or a user: values go there as ever."""
    there = table_schema(schema("_change_type STRING"))
    made = grown(there, seen_of({"_change_type": "c", "a": 1}), Evolution())
    assert names(made)[:3] == ["_kafka", "_event_time", "_change_type"] and "a" in names(made)


def test_a_name_is_a_column_up_to_255_bytes() -> None:
    """At every level, seen or known from a schema; a longer one stays in `_rescued`, and in no manifest."""
    fits, long = "n" * 253 + "\u00fc", "n" * 254 + "\u00fc"
    assert grow({fits: 1, long: 2, "s": {fits: 1, long: 2}}) == [f"`{fits}` BIGINT", f"s STRUCT<`{fits}`: BIGINT>"]
    assert known_beforehand(EMPTY, fields(f"`{long}` STRING"), "a schema") is EMPTY
    assert long not in seen_of({long: 1, "s": [{"x" * 1_000_000: 1}]}).to_json()
    assert len(seen_of({"x" * 1_000_000: 1}).to_json()) < 100
