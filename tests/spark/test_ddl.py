"""Columns as users declare them, by Spark's own parser."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from exporter.core.ddl_schema import ddl_schema
from exporter.errors import ConfigError
from exporter.workbench import _parsed, parse_schemas

pytestmark = pytest.mark.spark

DDL = (
    "id BIGINT NOT NULL, json JSON NOT NULL COMMENT 'JSON, as sent', s STRUCT<q: json, `json`: INT>,\n"
    "xs ARRAY<JSON>, m MAP<STRING, ARRAY<JSON>> -- JSON\n, v VARCHAR(10)"
)


def test_spark_parses_columns_for_any_json_as_texts_that_say_so(spark: Any) -> None:
    """With whatever else was declared; the mark that stood in for them is nowhere to be seen."""
    (text,) = parse_schemas(spark, {"order": DDL.replace(", v VARCHAR(10)", "")}).values()
    fields = {field["name"]: field for field in json.loads(text)["fields"]}
    assert "varchar" not in text
    assert fields["json"] == {
        "name": "json", "type": "string", "nullable": False,
        "metadata": {"comment": "JSON, as sent", "exporter.json": "."},
    }  # fmt: skip
    q, inner = fields["s"]["type"]["fields"]
    assert (q["type"], q["metadata"], inner["type"]) == ("string", {"exporter.json": "."}, "integer")
    assert (fields["xs"]["type"]["elementType"], fields["xs"]["metadata"]) == ("string", {"exporter.json": "element"})
    assert fields["m"]["metadata"] == {"exporter.json": "value.element"}
    assert (fields["id"]["metadata"], fields["id"]["nullable"]) == ({}, False)


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        (DDL, "column v: type VARCHAR(10)"),
        ("m MAP<JSON, INT>", "a map's keys must be STRING"),
        ("a JSON(5)", "are no Spark DDL"),
        ("a ARRAY<JSON", "are no Spark DDL"),
    ],
)
def test_what_is_no_such_column_is_refused_as_ever(spark: Any, ddl: str, says: str) -> None:
    """With what was written, not with what stood in for it."""
    with pytest.raises(ConfigError) as refused:
        parse_schemas(spark, {"order": ddl})
    assert says in refused.value.message and "1785950062" not in refused.value.message


def test_whoever_has_no_jvm_reads_columns_as_spark_does(spark: Any) -> None:
    """Each form that is read at all gives the very same schema; what Spark refuses is left to it."""
    forms = [
        DDL, "a int",
        "a: BIGINT, `b``c d` STRING NOT NULL, C CHAR(3) COMMENT 'x, y'", "d DECIMAL, e DEC(5), f NUMERIC(12,2)",
        "s STRUCT<>, t STRUCT<a INT NOT NULL COMMENT 'c', b: STRUCT<`x.y`: DATE>>, u MAP<STRING, ARRAY<TIMESTAMP_NTZ>>",
        "a byte, b short, c long, d real, e double, f boolean, g binary, h timestamp_ltz, i timestamp /* c */ -- d",
        "order INT, table STRING, a.b INT", "1a INT", "a INT DEFAULT 1", "a INTERVAL DAY", "a VOID", "a INT b INT",
        "a INT,", "a DECIMAL(39,1)", "a DECIMAL(3,5)", "a COMMENT INT", "not INT NOT NULL", "a INT COMMENT 'x' 'y'",
        "a ARRAY<INT NOT NULL>", "A INT, a INT", "a STRING COLLATE UTF8_LCASE",
        "a CHARACTER(2)", "ä INT", "a DECIMAL()", "a DECIMAL(0)", "a VARCHAR",
    ]  # fmt: skip
    read = {ddl: found for ddl in forms if (found := ddl_schema(ddl)) is not None}
    assert len(read) >= 8
    assert {ddl: _parsed("order", ddl) for ddl in read} == read  # the very text: it is in fingerprints


@pytest.mark.parametrize("seed", [1, 2])
def test_columns_of_any_depth_are_the_same_text_with_a_jvm_and_without(spark: Any, seed: int) -> None:
    """A verb without one must not take settings for others than those in force."""
    rng = random.Random(seed)
    for _ in range(40):
        ddl = columns(rng, 0)
        assert ddl_schema(ddl) == _parsed("order", ddl), ddl


def columns(rng: random.Random, depth: int) -> str:
    """Columns, or the fields of a struct, spelled in any of the ways that Spark takes."""
    made = []
    for number in range(rng.randint(1, 4)):
        name = rng.choice(["`a ``b`", "json", "Order", "`ä.ö`", "x"]) if rng.random() < 0.5 else f"c{number}"
        null = " NOT NULL" if rng.random() < 0.2 else ""
        comment = rng.choice([" COMMENT 'it is, a JSON'", " comment ''"]) if rng.random() < 0.2 else ""
        made.append(f"{name}{rng.choice([':', ' ', ' : '])} {kind(rng, depth)}{null}{comment}")
    return rng.choice([",", ", ", " ,\n"]).join(made)


def kind(rng: random.Random, depth: int) -> str:
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(["JSON", "json", "INT", "bigint", "DECIMAL(38,2)", "Dec( 5 )", "TIMESTAMP_NTZ", "real"])
    inner = kind(rng, depth + 1)
    return rng.choice([f"ARRAY<{inner}>", f"MAP<STRING, {inner}>", f"struct<{columns(rng, depth + 1)}>"])
