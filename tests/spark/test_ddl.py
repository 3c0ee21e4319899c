"""Columns as users declare them, read as Spark's own parser reads them: the very same text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from exporter.column.ddl import NotColumns, ddl_schema
from exporter.core.columns import JSON_TEXT
from exporter.errors import ConfigError
from exporter.workbench import parse_schemas
from tests.unit.operate.test_written_ddl import ODD, WORDS

pytestmark = pytest.mark.spark

STANDS_FOR_JSON = "VARCHAR(77)"
FORMS = [
    "a int", "a: BIGINT, `b``c d` STRING NOT NULL, C CHAR(3) COMMENT 'x, y'", "d DECIMAL, e DEC(5), f NUMERIC(12,2)",
    "s STRUCT<>, t STRUCT<a INT NOT NULL COMMENT 'c', b: STRUCT<`x.y`: DATE>>, u MAP<STRING, ARRAY<TIMESTAMP_NTZ>>",
    "a byte, b short, c long, d real, e double, f boolean, g binary, h timestamp_ltz, i timestamp /* c */ -- d",
    "order INT, table STRING, a.b INT", "1a INT", "1st INT", "1L INT", "1D INT", "1e5 INT", "1 INT", "1bd INT",
    "a INT DEFAULT 1", "a INT b INT", "a INT,", "a DECIMAL(39,1)", "a DECIMAL(3,5)", "a DECIMAL(5,-2)",
    "a COMMENT INT", "not INT NOT NULL", "a INT COMMENT 'x' 'y'", "a INT COMMENT 'x''y'", 'a INT COMMENT "d"',
    'a INT COMMENT "d""e" \'f\'', r"a INT COMMENT 'it\'s'", r"a INT COMMENT 'x\ny\%z\q\\\0\b\r\t\Z\_'",
    r"a INT COMMENT r'x\y'", r'a INT COMMENT R"x\y"', "a INT COMMENT ''", "a INT COMMENT 'x' NOT NULL",
    "STRUCT<a: INT>", "struct INT", "struct STRUCT<struct: INT>", "a STRUCT<b INT COMMENT 'x' NOT NULL>",
    "a ARRAY<INT NOT NULL>", "A INT, a INT", "a CHARACTER(2)", "a DECIMAL()", "a VARCHAR",
    "a STRING(5)", "a INT NULL", "a b INT", "a-b INT", "$a INT", "a INT /* x /* y */ */", "a INT /* x /* y */",
    "a INT /*+ hint */", "", "  ", "a INT;", "a TIMESTAMP WITHOUT TIME ZONE", "a DOUBLE PRECISION", "a TEXT",
    "a ARRAY<INT>>", "a MAP<STRING,INT", "a STRUCT<b:INT,>", "a ARRAY<ARRAY<INT>>", "a MAP<INT, MAP<INT, INT>>",
    "ä INT", "日本 INT", "_a INT", "a\u00a0INT", "a INT --x\n, b INT", "a int not null comment 'x'", "a: INT, b INT",
]  # fmt: skip
OURS_REFUSES = [
    "INT", "a DECIMAL(0)", "a STRING COLLATE UTF8_LCASE", "a VOID", "a VARIANT", "a INTERVAL DAY", "a TIME",
    r"a INT COMMENT '\u00e9'",
]  # fmt: skip
"""What Spark takes and no table here can have, or is no column; and a character by its number."""


def spark_s(ddl: str) -> str | None:
    """The text of Spark; None of what it refuses."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return str(StructType.fromDDL(ddl).json())
    except (PySparkException, ValueError, TypeError):
        return None


def ours(ddl: str) -> str | None:
    try:
        return ddl_schema(ddl)
    except NotColumns:
        return None


def test_each_form_is_the_same_text_or_is_refused_by_both(spark: Any) -> None:
    """But for what no table here can have."""
    assert {ddl: ours(ddl) for ddl in FORMS} == {ddl: spark_s(ddl) for ddl in FORMS}
    assert sum(ours(ddl) is not None for ddl in FORMS) > len(FORMS) // 3
    assert all(spark_s(ddl) is not None and ours(ddl) is None for ddl in OURS_REFUSES)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_columns_of_any_depth_are_the_same_text(spark: Any, seed: int) -> None:
    """Where Spark has another type in JSON's stead, ours says that it is a text of JSON; all else is to the letter."""
    rng = random.Random(seed)
    for _ in range(60):
        ddl = columns(rng, 0)
        plain, marked = ddl.replace("{}", "STRING"), spark_s(ddl.replace("{}", STANDS_FOR_JSON))
        assert ours(plain) == spark_s(plain), plain
        assert marked is not None
        assert json.loads(ddl_schema(ddl.replace("{}", "JSON"))) == of_json(json.loads(marked)), ddl


def of_json(kind: Any) -> Any:
    """A struct of Spark's, with what stands for JSON as a text that says so."""
    fields = []
    for one in kind["fields"]:
        paths: list[str] = []
        made = {**one, "type": type_of(one["type"], [], paths)}
        fields.append({**made, "metadata": {**one["metadata"], **({JSON_TEXT: ",".join(paths)} if paths else {})}})
    return {**kind, "fields": fields}


def type_of(kind: Any, steps: list[str], paths: list[str]) -> Any:
    if kind == STANDS_FOR_JSON.lower():
        paths.append(".".join(steps) or ".")
        return "string"
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return of_json(kind)
    inner, step = ("elementType", "element") if kind["type"] == "array" else ("valueType", "value")
    return {**kind, inner: type_of(kind[inner], [*steps, step], paths)}


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("id BIGINT, v VARCHAR(10)", "column v: type VARCHAR(10)"),
        ("m MAP<JSON, INT>", "a map's keys must be STRING"),
        ("a JSON(5)", "types.order: the columns are no DDL: at '(' (character 7)"),
    ],
)
def test_what_is_no_such_column_is_refused_as_ever(ddl: str, says: str) -> None:
    """With what was written."""
    with pytest.raises(ConfigError) as refused:
        parse_schemas({"order": ddl})
    assert says in refused.value.message


def columns(rng: random.Random, depth: int) -> str:
    """Columns, or the fields of a struct, spelled in any of the ways that Spark takes."""
    made = []
    for number in range(rng.randint(1, 4)):
        quoted = "`" + rng.choice([*WORDS, *ODD]).replace("`", "``") + "`"
        name = rng.choice([quoted, "json", "Order", "x"]) if rng.random() < 0.5 else f"c{number}"
        null = " NOT NULL" if rng.random() < 0.2 else ""
        comment = rng.choice([" COMMENT 'it is, a JSON'", " comment ''"]) if rng.random() < 0.2 else ""
        made.append(f"{name}{rng.choice([':', ' ', ' : '])} {kind(rng, depth)}{null}{comment}")
    return rng.choice([",", ", ", " ,\n"]).join(made)


def kind(rng: random.Random, depth: int) -> str:
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(["{}", "{}", "INT", "bigint", "DECIMAL(38,2)", "Dec( 5 )", "TIMESTAMP_NTZ", "real"])
    inner = kind(rng, depth + 1)
    return rng.choice([f"ARRAY<{inner}>", f"MAP<STRING, {inner}>", f"struct<{columns(rng, depth + 1)}>"])
