"""What a column may be called, alone and beside others, at every level; and how a refusal reads."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA, KAFKA_COLUMN
from exporter.core.columns import JSON_TEXT, Names, check_columns, folded, reserved
from exporter.errors import ConfigError
from exporter.lake.schema import table_schema
from offsets.partitions import DAY, Spec

RESERVED = reserved(DAY)


def field(name: str, kind: Any = "long") -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def refused(*fields: dict[str, Any]) -> str:
    """The refusal's text after the type's name; it has a hint and exit code 2."""
    with pytest.raises(ConfigError) as caught:
        check_columns(json.dumps(struct(*fields)), "order")
    assert caught.value.hint and caught.value.exit_code == 2
    assert caught.value.message.startswith("types.order, column ")
    return caught.value.message.removeprefix("types.order, column ")


@pytest.mark.parametrize("name", [*sorted(RESERVED), "_Kafka", "_EVENT_TIME", "Day", "_\u212aafka", "_kafka.offset"])
def test_names_of_ours_are_refused_as_columns(name: str) -> None:
    """In any case, and what reads like one of the coordinates."""
    assert refused(field("a"), field(name)) == f"{name!r}: the exporter writes a column of that name itself"


@pytest.mark.parametrize(
    ("spec", "free", "ours"),
    [(Spec("hour"), ["month"], ["day", "HOUR"]), (Spec("month"), ["day", "hour"], ["Month"]),
     (Spec("none"), ["day", "hour", "month", "week"], []), (DAY, ["hour", "month", "week"], ["day"]),
     (Spec("week"), ["day", "hour", "month"], ["Week"])],
)  # fmt: skip
def test_a_name_of_a_time_is_ours_where_the_table_is_cut_by_it(spec: Spec, free: list[str], ours: list[str]) -> None:
    """A table by day may have a column `hour`, as it always could."""
    check_columns(json.dumps(struct(*map(field, free))), "order", spec)
    for name in ours:
        with pytest.raises(ConfigError, match="the exporter writes a column of that name itself"):
            check_columns(json.dumps(struct(field(name))), "order", spec)


def test_a_column_with_something_of_the_record_is_called_otherwise_where_the_table_is_cut_by_its_name() -> None:
    """A name that earlier versions took goes on being one wherever the table is not cut by weeks."""
    check_columns(json.dumps(struct(field("a"))), "order", own=["week"])
    with pytest.raises(ConfigError, match="'week': the table is cut by a column of that name"):
        check_columns(json.dumps(struct(field("a"))), "order", Spec("week"), own=["Week"])


@pytest.mark.parametrize(
    ("column", "fits"),
    [(field("c"), True), (field("c", "string"), True), (field("c", "date"), True), (field("c", "boolean"), True),
     (field("c", "byte"), True), (field("c", "double"), False), (field("c", "timestamp"), False),
     (field("c", "binary"), False), (field("c", "decimal(9,0)"), False), (field("c", struct(field("d"))), False),
     ({**field("c", "string"), "metadata": {JSON_TEXT: "."}}, False), (field("C"), False)],
)  # fmt: skip
def test_a_column_cuts_a_table_if_its_values_have_one_short_text(column: dict[str, Any], fits: bool) -> None:
    """Refused are those that are not there by just that name, and JSON, whatever holds it."""
    schema = json.dumps(struct(field("a"), column))
    if fits:
        check_columns(schema, "order", Spec("day", ("c",)))
        return
    with pytest.raises(ConfigError, match=r"types.order, column 'c'.*(cannot cut a table|no such column)") as caught:
        check_columns(schema, "order", Spec("day", ("c",)))
    assert caught.value.exit_code == 2 and caught.value.hint


def test_names_of_ours_are_free_below_the_top() -> None:
    """They are reserved as columns only."""
    check_columns(json.dumps(struct(field("s", struct(*map(field, sorted(RESERVED)))))), "order")


def test_every_column_that_the_exporter_adds_is_reserved() -> None:
    """Those of a type's table; a dead letter's columns are of a table of its own."""
    added = {one["name"] for one in json.loads(table_schema(json.dumps(struct())))["fields"]}
    assert added <= RESERVED
    assert RESERVED & set(DEAD_LETTER_SCHEMA.names) == {KAFKA_COLUMN}


@pytest.mark.parametrize("char", [*" ,;{}()=\"\\", *map(chr, range(32)), "\x7f", "\x85"])
def test_characters_that_delta_or_json_refuse_are_refused_at_every_level(char: str) -> None:
    """Delta would refuse the table for ever, or the decoder the record."""
    name = f"a{char}b"
    for wrapped, path in (
        (field(name), name),
        (field("s", struct(field(name))), f"s.{name}"),
        (field("l", array(array(struct(field(name))))), f"l[][].{name}"),
        (field("m", map_of(struct(field(name)))), f"m{{}}.{name}"),
    ):
        assert refused(field("a"), wrapped) == f"{path!r}: a name cannot hold {char!r}"


def test_an_empty_name_is_refused() -> None:
    """DuckDB has no way to write it."""
    assert refused(field("s", struct(field("")))) == "'s.': a name cannot be empty"


@pytest.mark.parametrize(
    "fields",
    [
        [field(f"x{char}y") for char in string.punctuation if char not in ',;{}()="\\'],
        [field(char) for char in string.punctuation if char not in ',;{}()="\\'],
        [field("größe"), field("日本"), field("😀"), field("a\u00a0b"), field("x" * 300)],
        [field("a"), field("a.b")],
        [field("a", struct(field("c"))), field("a.b"), field("a.b.d")],
        [field("a", array("long")), field("a.element"), field("m", map_of("long")), field("m.key")],
        [field("s", struct(field("a"), field("b"))), field("a"), field("b")],
    ],
)
def test_all_other_names_are_free(fields: list[dict[str, Any]]) -> None:
    """Whatever the readers tell apart, dots included; in a struct as well."""
    check_columns(json.dumps(struct(*fields)), "order")
    check_columns(json.dumps(struct(field("inner", struct(*fields)))), "order")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ([field("a"), field("A")], "'A': a is there too, and Spark and Delta ignore case"),
        ([field("a"), field("a")], "'a': a is there too, and Spark and Delta ignore case"),
        ([field("s"), field("\u017f")], "'\u017f': s is there too, and Spark and Delta ignore case"),
        ([field("a", struct(field("b"))), field("a.b")], "'`a.b`': readers cannot tell it from a.b"),
        ([field("a.b"), field("A", struct(field("B")))], "'A.B': readers cannot tell it from `a.b`"),
        ([field("a.b", struct(field("c"))), field("a", struct(field("b.c")))],
         "'a.`b.c`': readers cannot tell it from `a.b`.c"),
        ([field("a", array("long")), field("a.list.element")], "'`a.list.element`': readers cannot tell it from a[]"),
        ([field("m", map_of("long")), field("m.key_value.value")],
         "'`m.key_value.value`': readers cannot tell it from m{}"),
    ],
)  # fmt: skip
def test_names_that_a_reader_takes_for_one_another_are_refused_at_every_level(
    fields: list[dict[str, Any]], says: str
) -> None:
    """Spark ignores case; a dotted name may be the path of another column, in Spark or in the Parquet file."""
    assert refused(*fields) == says
    inner = refused(field("s", struct(*fields)))
    assert inner.partition(": ")[0] == f"'s.{says[1:].partition(': ')[0]}"


LETTERS = (Path(__file__).parents[2] / "golden" / "letters.txt").read_text(encoding="utf-8").splitlines()
"""Letters that Java takes for one, a line each: by `equalsIgnoreCase`, or by `toLowerCase` of the root locale."""


def test_letters_are_one_as_they_are_for_spark() -> None:
    """All of Unicode: those of a line fold alike, those of two lines apart. In a dotted I are two, `i` and its dot."""
    folds = [{folded(letter) for letter in line} for line in LETTERS]
    assert [line for line, found in zip(LETTERS, folds, strict=True) if len(found) > 1] == []
    assert len({fold for found in folds for fold in found}) == len(LETTERS) > 1300
    dotted = ("I", "i", "\u0130", "\u0131", "i\u0307", "\u0130\u0307", "I\u0307\u0307")
    assert {folded(text) for text in dotted} == {"i"}
    assert folded("\u0130d") == folded("ID") and folded("O\u0307") != folded("o")
    assert folded("\u0391\u03a3") == folded("\u03b1\u03c2") == folded("\u03b1\u03c3"), "at the end of a word too"


@pytest.mark.parametrize("pair", [("\u0130d", "id"), ("\u0131d", "ID"), ("i\u0307", "\u0130"), ("\u1e9e", "\u00df")])
def test_names_that_spark_takes_for_one_are_refused(pair: tuple[str, str]) -> None:
    """Java compares letter by letter in upper case and then in lower case: a dotted I is `i` to it."""
    assert "is there too, and Spark and Delta ignore case" in refused(field(pair[0]), field(pair[1]))
    assert Names([pair[0]]).clash(pair[1]) and Names([pair[1]]).clash(pair[0])
