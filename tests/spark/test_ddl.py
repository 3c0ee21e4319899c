"""Columns as users declare them, by Spark's own parser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.workbench import parse_schemas

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
