"""Columns as DDL: what they are in Spark's schema, the type JSON among them, and what is said of text that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.column.ddl import NotColumns, ddl_schema


def field(name: str, kind: Any, **metadata: str) -> dict[str, Any]:
    told = {key.replace("_", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": True, "metadata": told}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


@pytest.mark.parametrize(
    ("ddl", "fields"),
    [
        ("payload {}", [field("payload", "string", exporter_json=".")]),
        ("payload: {} COMMENT 'JSON, as sent'",
         [field("payload", "string", comment="JSON, as sent", exporter_json=".")]),
        ("json {}, json STRING, `json`\t{}\n", [field("json", "string", exporter_json="."), field("json", "string"),
                                              field("json", "string", exporter_json=".")]),
        ("a STRUCT<a: {}, json: INT>",
         [field("a", struct(field("a", "string", exporter_json="."), field("json", "integer")))]),
        ("a STRUCT<json: ARRAY<{}>>, b DECIMAL(10, 2)",
         [field("a", struct(field("json", array("string"), exporter_json="element"))), field("b", "decimal(10,2)")]),
        ("a ARRAY< ARRAY <{}> >", [field("a", array(array("string")), exporter_json="element.element")]),
        ("a MAP<STRING, ARRAY<{}>> -- JSON, json JSON",
         [field("a", map_of(array("string")), exporter_json="value.element")]),
        ("a MAP<STRING, STRUCT<json /* JSON */: {}>>",
         [field("a", map_of(struct(field("json", "string", exporter_json="."))))]),
        ("STRUCT<a: {}>", [field("a", "string", exporter_json=".")]),
        (" -- nothing", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("written", ["JSON", "json", "Json"])
def test_json_is_a_type_where_a_type_stands(ddl: str, fields: list[Any], written: str) -> None:
    """A column of text, of which the nearest field says where the texts are; a name or a comment may say JSON, too."""
    assert json.loads(ddl_schema(ddl.replace("{}", written))) == struct(*fields)


def test_the_text_is_spark_s_to_the_letter() -> None:
    """It is in fingerprints."""
    assert ddl_schema("`ä` INT NOT NULL COMMENT 'é'") == (
        r'{"fields":[{"metadata":{"comment":"\u00e9"},"name":"\u00e4","nullable":false,"type":"integer"}],"type":"struct"}'
    )


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("a", "at the end: a type is due"),
        ("a INT b INT", "at 'b' (character 7): a comma or the end is due"),
        ("a INT,", "at the end: a name is due"),
        ("a INTERVAL DAY", "at 'INTERVAL' (character 3): a type is due"),
        ("1L INT", "at '1L' (character 1): a name is due"),
        ("ä INT", "at 'ä INT' (character 1): nothing of columns begins so"),
        ("a DECIMAL(39,1)", "a decimal has 1 to 38 digits"),
        ("a DECIMAL(3,5)", "a decimal has 1 to 38 digits"),
        ("a VARCHAR", "at the end: ( is due"),
        ("a JSON(5)", "at '(' (character 7): a comma or the end is due"),
        ("a ARRAY<JSON", "at the end: > is due"),
        ("a INT COMMENT x", "at 'x' (character 15): a text is due"),
        (r"a INT COMMENT '\u00e9'", "write the character instead of its number"),
        ("a INT /* b", "the comment at character 7 has no end"),
        ("a INT 'b", "nothing of columns begins so"),
        ("a " + "ARRAY<" * 100_000, "too many types in one another"),
    ],
)
def test_text_that_declares_no_columns_says_where_and_what_was_due(ddl: str, says: str) -> None:
    """A start tells it with the name of its type."""
    with pytest.raises(NotColumns) as refused:
        ddl_schema(ddl)
    assert says in str(refused.value)


def test_a_key_of_a_map_is_no_text_of_json() -> None:
    """It is told by its type that it cannot be one."""
    (one,) = json.loads(ddl_schema("m MAP<JSON, INT>"))["fields"]
    assert (one["type"]["keyType"], one["metadata"]) == ("json", {})
