"""JSON behind Confluent's frame, and what a JSON Schema says of a table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from exporter.column.ddl import type_ddl
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.decoder import Decoder
from exporter.formats.formats import format_of
from exporter.formats.json_schema.columns import json_columns
from exporter.formats.registered import registered, registered_files
from exporter.formats.unframed import not_framed, unframed

HEAD = b"\0\0\0\0\7"
BARE = {
    b"": "not_framed: 0 bytes are too short for 00 and the id of a schema",
    b"\0\0\0\0": "not_framed: 4 bytes are too short for 00 and the id of a schema",
    b'{"id":1}': "not_framed: the value begins with byte 7b, and not with 00 and the id of a schema",
    b"\1\0\0\0\7{}": "not_framed: the value begins with byte 01, and not with 00 and the id of a schema",
}
COLUMNS = '{"fields":[{"metadata":{},"name":"id","nullable":true,"type":"long"}],"type":"struct"}'
FRAMED = (ValueFormat("json", "confluent"), ValueFormat("json_schema", "confluent"))


def schema(text: Any, **references: Any) -> SchemaText:
    named = tuple((name, schema(one)) for name, one in references.items())
    return SchemaText("JSON", json.dumps(text), named)


def columns(text: Any, **references: Any) -> dict[str, str]:
    return {one.name: type_ddl(one.type) for one in json_columns(schema(text, **references)).fields}


def test_frames_are_cut_and_what_has_none_is_told() -> None:
    """Each row by itself, a null stays one."""
    values = pa.array([HEAD + b"a", None, HEAD, *BARE, HEAD + b"\0" * 9], pa.binary())
    for some in (values, values.slice(1), pa.concat_arrays([values, values]).slice(3, 6)):
        bodies, refused = unframed(some)
        sent = some.to_pylist()
        assert bodies.to_pylist() == [None if one is None or one in BARE else one[5:] for one in sent]
        assert refused == {row: BARE[one] for row, one in enumerate(sent) if one in BARE}
    assert {one: not_framed(one) for one in BARE} == BARE


@pytest.mark.parametrize("form", FRAMED, ids=lambda form: form.kind)
def test_json_behind_a_frame_is_json(form: ValueFormat) -> None:
    """Rows, reasons and event types are those of the values without their frames."""
    routing = Routing(TypeFrom("json", "t"), EventTime("record"), (("a", COLUMNS),), value_format=form)
    sent = [HEAD + b'{"t":"a","id":1}', None, *BARE, HEAD + b'{"t":"a","id":"x"}', HEAD + b"{", HEAD + b'{"id":1}']
    values = pa.array(sent, pa.binary())
    found = Decoder.of("a", routing).decode(values, pa.array([10**15] * len(sent), pa.timestamp("us", "UTC")))
    assert found.good.to_pylist() == [0]
    told = {row: why for row, _, why in found.bad}
    assert told[1] == "tombstone: the value is null"
    assert [told[row] for row in range(2, 6)] == [*BARE.values()]
    assert told[6].startswith("type_mismatch: $.id")
    skipped = pa.array([False] * 8 + [True])
    types, reasons = format_of(form).peek(routing.type_from).types(values, skipped)
    assert types.to_pylist() == ["a", *[None] * 5, "a", None, None]
    assert reasons == {**{row: told[row] for row in range(2, 6)}, 7: reasons[7]}
    assert reasons[7].startswith("not_json: ")


def test_the_name_of_a_schema_is_its_title() -> None:
    """By the id in front of the value; one without a title gives no event type."""
    known = KnownSchemas({7: [schema({"title": "Order"})], 8: [schema({})]})
    peek = format_of(FRAMED[1], known).peek(TypeFrom("schema"))
    sent = [HEAD + b"{}", b"\0\0\0\0\x08{}", b"{}", None, HEAD]
    types, reasons = peek.types(pa.array(sent, pa.binary()), pa.array([False] * 4 + [True]))
    assert types.to_pylist() == ["Order", None, None, None, None]
    assert reasons == {1: "no_type: the schema of id 8 has no title", 2: BARE[b'{"id":1}']}
    dotted = KnownSchemas({7: [schema({"title": "shop.Order"})]})
    for name, called in (("", "shop.Order"), ("short", "Order")):
        peek = format_of(FRAMED[1], dotted).peek(TypeFrom("schema", name))
        assert peek.types(pa.array([HEAD], pa.binary()), pa.array([False]))[0].to_pylist() == [called]
    one = ValueFormat("json_schema", schemas=(("a.json", '{"title":"A"}'),))
    peek = format_of(one).peek(TypeFrom("schema"))
    named, reasons = peek.types(pa.array([b"{}", None], pa.binary()), pa.array([False, False]))
    assert (named.to_pylist(), reasons) == (["A", None], {})
    with pytest.raises(ConfigError, match="if there is one schema"):
        format_of(ValueFormat("json_schema")).peek(TypeFrom("schema"))


def test_columns_follow_from_a_schema() -> None:
    """Each line of the table, at every level."""
    address = {"type": "object", "properties": {"zip": {"type": "string"}, "no": {"type": ["integer", "null"]}}}
    found = columns({"title": "T", "type": "object", "definitions": {"A": address}, "properties": {
        "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
        "at": {"type": "string", "format": "date-time"}, "on": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"}, "e": {"enum": ["x", "y", None]}, "c": {"const": "x"},
        "o": {"oneOf": [{"type": "null"}, {"type": "integer"}]}, "in": {"type": ["integer", "number"]},
        "a": {"$ref": "#/definitions/A"}, "m": {"type": "object", "additionalProperties": {"type": "number"}},
        "l": {"type": "array", "items": {"$ref": "#/definitions/A"}}, "r": {"$ref": "other.json"},
        "f": {"allOf": [{"$ref": "other.json#/$defs/x"}]},
    }}, **{"other.json": {"$defs": {"x": {"type": "boolean"}}, "type": "string"}})  # fmt: skip
    inner = "STRUCT<zip: STRING, no: BIGINT>"
    assert found == {
        "i": "BIGINT", "n": "DOUBLE", "b": "BOOLEAN", "s": "STRING", "at": "TIMESTAMP", "on": "DATE", "mail": "STRING",
        "e": "STRING", "c": "STRING", "o": "BIGINT", "in": "DOUBLE", "a": inner, "m": "MAP<STRING, DOUBLE>",
        "l": f"ARRAY<{inner}>", "r": "STRING", "f": "BOOLEAN",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ({"type": ["string", "integer"]}, "it may be of several kinds"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "it may be of several kinds"),
        ({}, "it tells no type"),
        (True, "it may be anything"),
        ({"type": "file"}, "there is no type 'file'"),
        ({"type": "object"}, "it does not tell which fields it has"),
        ({"type": "array"}, "its elements are not of one kind that is told"),
        ({"type": "array", "items": [{"type": "string"}]}, "its elements are not of one kind that is told"),
        ({"$ref": "#"}, "it is in itself again"),
        ({"$ref": "#/definitions/no"}, "it refers to '#/definitions/no', where there is nothing"),
        ({"$ref": "no.json"}, "it refers to 'no.json', which is not among the schema's references"),
        ({"type": "object", "properties": {"y": {}}}, "none of its properties is a column"),
        ({"enum": ["a", 1]}, "it tells no type"),
    ],
)
def test_what_gives_no_column_is_told_with_its_place(inner: Any, why: str) -> None:
    """The others are columns all the same."""
    found = json_columns(schema({"properties": {"x": inner, "ok": {"type": "string"}}, "type": "object"}))
    assert [one.name for one in found.fields] == ["ok"]
    assert found.refused["$.x"] == why


def test_a_schema_that_says_nothing_of_columns_is_no_error() -> None:
    """Its values are JSON and are read without it; only what is no JSON is none."""
    for text in (True, {}, {"type": "string"}, [], {"$ref": "#"}):
        found = json_columns(schema(text))
        assert not found.fields
        assert list(found.refused) == ["$"]
    with pytest.raises(ConfigError, match="a JSON Schema is no JSON"):
        json_columns(SchemaText("JSON", "{"))


def test_names_that_no_column_can_have_stay_in_rescued() -> None:
    """One of ours, one that differs by case only, one that no reader takes."""
    text = {"type": "object", "properties": {name: {"type": "string"} for name in ("a", "A", "_kafka", "x y", "b")}}
    found = json_columns(schema(text))
    assert [one.name for one in found.fields] == ["a", "b"]
    assert set(found.refused) == {"$.A", "$._kafka", "$.x y"}


def test_columns_are_found_by_the_kind_of_a_schema_and_of_a_file() -> None:
    """As those of Avro and Protobuf are."""
    text = {"title": "Order", "type": "object", "properties": {"a": {"type": "string"}}}
    found = registered(schema(text))
    assert (found.name, [one.name for one in found.fields]) == ("Order", ["a"])
    files = (("a.json", json.dumps(text)), ("b.json", '{"type":"string"}'))
    assert {*registered_files(ValueFormat("json_schema", schemas=files))} == {"Order", "b.json"}
    with pytest.raises(ConfigError, match="another schema has the title 'Order' too"):
        registered_files(ValueFormat("json_schema", schemas=(files[0], ("c.json", files[0][1]))))
