"""The columns of tables whose rows are shaped, and which expressions may stand: found before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.column.ddl import type_ddl
from exporter.column.spark_json import struct_of
from exporter.core.shapes import Shape
from exporter.errors import ConfigError
from exporter.shape.columns import table_columns
from tests.support.schemas import schema

DECODED = schema(
    "a BIGINT, s STRING, day DATE, ts TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, texts ARRAY<STRING>, "
    "place STRUCT<city: STRING, height: DECIMAL(10,2)>, tags MAP<STRING, DOUBLE>, flag BOOLEAN"
)


def columns(shape: Shape, **constants: Any) -> dict[str, str]:
    """Name -> type of what the table has."""
    fields = struct_of(table_columns("orders", shape, constants.items())).fields
    return {one.name: type_ddl(one.type) for one in fields}


def type_of(text: str) -> str:
    return columns(Shape(DECODED, computed=(("made", text),)))["made"]


def refusal(text: str) -> str:
    """Why an expression cannot be."""
    with pytest.raises(ConfigError) as caught:
        type_of(text)
    assert caught.value.message.startswith("types.orders, set.made: ")
    assert caught.value.hint
    return caught.value.message.removeprefix("types.orders, set.made: ")


def test_a_table_has_what_is_left_of_the_decoded_columns_what_is_computed_and_the_constants() -> None:
    """In this order; a computed column of a decoded one's name stands in its place, and a function's columns count."""
    shape = Shape(
        schema("id BIGINT, mail STRING, note STRING"),
        python="m:f", python_columns=schema("score DOUBLE"),
        computed=(("mail", "sha256(mail)"), ("twice", "score * 2")), drop=("note",),
    )  # fmt: skip
    made = {"id": "BIGINT", "mail": "STRING", "score": "DOUBLE", "twice": "DOUBLE", "env": "STRING", "n": "BIGINT"}
    assert columns(shape, env="prod", n=3) == made
    assert list(columns(shape, env="prod", n=3)) == list(made)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a + 1", "BIGINT"), ("a = 1", "BOOLEAN"), ("a::TINYINT", "TINYINT"), ("a::UTINYINT", "SMALLINT"),
        ("a::REAL", "FLOAT"), ("a::USMALLINT", "INT"), ("a::UINTEGER", "BIGINT"), ("a::UBIGINT", "DECIMAL(20,0)"),
        ("1e3", "DOUBLE"),
        ("a::HUGEINT", "DECIMAL(38,0)"), ("a::UHUGEINT", "DECIMAL(38,0)"), ("place.height", "DECIMAL(10,2)"),
        ("s::UUID", "STRING"), ("s::ENUM('x', 'y')", "STRING"), ("s->'$.x'", "STRING"), ("s->>'$.x'", "STRING"),
        ("to_json(place)", "STRING"), ("raw", "BINARY"), ("ts::DATE", "DATE"), ("date_trunc('day', ts)", "TIMESTAMP"),
        ("ts AT TIME ZONE 'Europe/Berlin'", "TIMESTAMP_NTZ"), ("a::TIMESTAMP_S", "TIMESTAMP_NTZ"),
        ("place", "STRUCT<city: STRING, height: DECIMAL(10,2)>"), ("tags", "MAP<STRING, DOUBLE>"),
        ("texts", "ARRAY<STRING>"), ("[1, 2]::INTEGER[2]", "ARRAY<INT>"),
        ("{'x': [{'y': a}]}", "STRUCT<x: ARRAY<STRUCT<y: BIGINT>>>"), ("_kafka.offset", "BIGINT"), ("_key", "BINARY"),
        ("_kafka.timestamp", "TIMESTAMP"), ("_headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
        ("decode(list_filter(_headers, lambda h: h.key = 'k')[1].value)", "STRING"), ("S", "STRING"),
        ("list_reduce(texts, lambda x, y: x || y)", "STRING"), ("[x || s for x in texts if x <> '']", "ARRAY<STRING>"),
        ("list_sum([a])", "DECIMAL(38,0)"), ("split_part(s, '@', 2)", "STRING"), ("if(a > 1, s, 'y')", "STRING"),
        ("CASE WHEN a > 1 THEN s ELSE error('small') END", "STRING"), ("make_timestamptz(a)", "TIMESTAMP"),
        ("strftime(ts, '%Y')", "STRING"), ("a -- of the record\n", "BIGINT"),
        ("s LIKE 'a%' OR s IN ('x', s)", "BOOLEAN"), ("coalesce(try_cast(s AS INTEGER), -1)", "INT"),
        ("s COLLATE NOCASE = 'x'", "BOOLEAN"),
    ],
)  # fmt: skip
def test_a_computed_column_has_the_type_that_holds_what_its_expression_gives(text: str, kind: str) -> None:
    """Spark's own of DuckDB's, the next wider signed one of an unsigned one, and text of what is text to a reader."""
    assert type_of(text) == kind


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sum(a)", "sum() looks at several rows"), ("count(*)", "several rows"), ("row_number() OVER ()", "a window"),
        ("(SELECT 1)", "a subquery"), ("a = ANY ([1])", "a subquery"), ("unnest(texts)", "several rows of one"),
        ("regexp_split_to_table(s, 'x')", "unnest()"), ("generate_subscripts(texts, 1)", "unnest()"),
        ("json_group_array(s)", "string_agg()"), ("now()", "does not depend on the row alone"),
        ("current_date", "does not depend on"), ("current_timestamp", "does not depend on"), ("today()", "today()"),
        ("age(ts)", "age()"), ("age(local)", "age()"), ("ago(INTERVAL 1 DAY)", "current_timestamp"),
        ("random()", "random()"), ("uuid()", "uuid()"), ("nextval('s')", "nextval()"),
        ("txid_current()", "txid_current()"),
        ("getvariable('x')", "getvariable()"), ("current_setting('TimeZone')", "current_setting()"),
        ("in_search_path('x', 'y')", "in_search_path()"), ("version()", "version()"), ("hash(s)", "hash()"),
        ("pg_sleep(1)", "sleep_ms()"), ("pg_conf_load_time()", "current_timestamp"), ("random() -> '$'", "random()"),
        ("list_transform(texts, lambda x: random())", "random()"), ("get_block_size('x')", "a subquery"),
        ("list_transform(texts, lambda current_date: current_date)", "cannot be a parameter"),
        ("list_aggr([a], 'reservoir_quantile', 0.5)", "no sample"), ("list_aggr([a], s)", "name of an aggregate"),
        ("*", "`*`"), ("COLUMNS('a')", "`*`"), ("?", "a parameter"), ("$x", "a parameter"), ("#1", "by its number"),
        ("nothing", "there is no column nothing: it can use a, s, "), ("place.nothing", "nothing"),
        ("nothing(a)", "there is no function nothing()"), ("s.upper()", "write upper(...)"),
        ("system.main.now()", "main.now()"), ("a, s", "no column has the type TUPLE"), ("a), (s", "not one expression"),
        ("a) FROM t WHERE (a", "not one expression"), ("a) UNION SELECT (1", "not one expression"),
        ("a) ORDER BY (1", "not one expression"), ("a; SELECT 1", "syntax error"), ("a +", "syntax error"),
        ("", "type TUPLE"), ("at + 1", "syntax error"), ("upper(a, s)", "No function matches"),
        ("ts::TIME", "no column has the type TIME"),
        ("INTERVAL 1 DAY", "type INTERVAL"), ("a::BIT", "type BIT"), ("NULL", 'type "NULL"'),
        ("row(a, s)", "no column has"), ("MAP {1: 2}", "keys that are no texts"),
        ("ts::TIMESTAMP_NS", "TIMESTAMP_NS"), ("error('x')", "NULL"), ("union_value(x := 1)", "UNION"),
    ],
)  # fmt: skip
def test_an_expression_that_is_not_of_one_row_alone_or_has_no_type_is_refused(text: str, told: str) -> None:
    """By DuckDB's own catalogue: what looks at other rows, at the clock, at chance or at settings."""
    assert told in refusal(text)


def test_a_filter_is_a_condition() -> None:
    """Another type is no filter, and what is wrong with one is told as of `where`."""
    assert "a" in columns(Shape(DECODED, where="a > 1 AND s IS NOT NULL"))
    with pytest.raises(ConfigError, match=r"types\.orders, where: it is no condition: its type is BIGINT"):
        columns(Shape(DECODED, where="a"))
    with pytest.raises(ConfigError, match=r"types\.orders, where: .*sum\(\)"):
        columns(Shape(DECODED, where="sum(a) > 1"))


def test_a_column_cannot_be_called_as_a_part_of_the_record_where_sql_sees_both() -> None:
    """`_key` in SQL is the record's; without SQL a column may have the name."""
    decoded = schema("_KEY STRING")
    assert columns(Shape(decoded)) == {"_KEY": "STRING"}
    with pytest.raises(ConfigError, match="SQL calls a part of the record so"):
        columns(Shape(decoded, where="true"))


def test_computed_columns_see_what_there_was_before_any_was_computed() -> None:
    """So their order says nothing."""
    shape = Shape(DECODED, computed=(("s", "a"), ("made", "s || 'x'")))
    assert columns(shape)["made"] == "STRING"
    assert "there is no column made" in refusal("made + 1")
