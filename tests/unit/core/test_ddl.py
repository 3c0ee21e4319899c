"""The type JSON in DDL: found where a type stands, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.core.ddl import MARK, with_json, with_marks


@pytest.mark.parametrize(
    "ddl",
    [
        "payload {}",
        "payload {} NOT NULL COMMENT 'JSON, as sent'",
        "payload: {}",
        "id BIGINT, payload\t{}\n",
        "json {}",
        "json STRING, JSON {}, `json` {}, `a``json` {}",
        "`a json` {}, b STRING",
        "a STRUCT<a: {}, json: INT, b {}>",
        "a STRUCT<json: ARRAY<{}>, b: DECIMAL(10, 2), c: {}>, d {}",
        "a ARRAY<{}>, b ARRAY< ARRAY <{}> >, c {}",
        "a MAP<STRING, {}>, b MAP<STRING, ARRAY<{}>>, c MAP<STRING, STRUCT<json: {}>>",
        "a DECIMAL(12, 2), b {}",
        "a /* JSON */ {} -- JSON, json JSON\n, b /* , x */ {}",
        "a STRING COMMENT \"it's JSON, json\", b {}",
        "a STRING COMMENT 'it\\'s, json JSON', b {}",
        "a STRING DEFAULT concat('x', 'y'), b {}",
        "STRUCT<a: {}, json: INT>",
        "a struct<b: map<string, {}>, c: {}>, d int",
    ],
)
@pytest.mark.parametrize("written", ["JSON", "json", "Json"])
def test_json_is_a_type_where_a_type_stands(ddl: str, written: str) -> None:
    """In any case, at any level; columns, comments and texts that say JSON stay as they are."""
    assert with_marks(ddl.replace("{}", written)) == ddl.replace("{}", MARK)


@pytest.mark.parametrize(
    "ddl", ["", "id BIGINT", "json INT", "a STRUCT<json: INT>", "a `json`", "jsonb INT, a JSONB", "a <", "a INT )", "'"]
)
def test_what_has_no_such_type_stays_as_it_is(ddl: str) -> None:
    """Also what is no DDL: to say so is up to Spark's parser."""
    assert with_marks(ddl) == ddl


def field(name: str, kind: Any, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


def test_the_nearest_field_says_where_the_texts_are() -> None:
    """By paths through arrays and maps; what else was said of the field stays."""
    kind = MARK.lower()
    parsed = struct(
        field("p", kind, comment="c"),
        field("xs", array(map_of(kind))),
        field("s", struct(field("q", kind), field("m", map_of(struct(field("r", array(kind))))))),
        field("id", "long"),
    )
    assert json.loads(with_json(json.dumps(parsed))) == struct(
        field("p", "string", comment="c", **{"exporter.json": "."}),
        field("xs", array(map_of("string")), **{"exporter.json": "element.value"}),
        field("s", struct(
            field("q", "string", **{"exporter.json": "."}),
            field("m", map_of(struct(field("r", array("string"), **{"exporter.json": "element"})))),
        )),
        field("id", "long"),
    )  # fmt: skip


def test_without_it_the_text_of_a_schema_stays_as_it_is() -> None:
    """Byte for byte: what was recorded so far has the same fingerprint."""
    text = '{"fields":[ {"name":"a","type":"varchar(10)","nullable":true,"metadata":{}}],"type":"struct"}'
    assert with_json(text) is text
