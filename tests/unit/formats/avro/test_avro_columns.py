"""The columns that Avro schemas give: each line of the mapping, what no column holds, and that they hold the rest."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.columns import check_columns
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.format import Avro
from exporter.formats.avro.semantic import SEMANTIC
from exporter.formats.format import Read
from exporter.formats.registered import Registered, registered, registered_files
from tests.support.avro_oracle import random_body, random_spec, written
from tests.support.schemas import fields, whole
from tests.support.typed_values import plain

PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())


def text_of(**fields: Any) -> SchemaText:
    made = [{"name": name, "type": kind} for name, kind in fields.items()]
    return SchemaText("AVRO", json.dumps({"type": "record", "name": "shop.R", "fields": made}))


def columns(ddl: str) -> Any:
    return fields(f"x {ddl}")


def read(text: SchemaText, found: Registered, bodies: list[bytes], semantic: Any = "none") -> Read:
    """Bodies in a table of exactly the columns that were found."""
    form = Avro(ValueFormat("avro", "confluent", semantic_types=semantic), KnownSchemas({1: [text]}))
    spark = whole(found.fields)
    values = pa.array([b"\0\0\0\0\1" + body for body in bodies], pa.binary())
    return form.reader("order", form.schema(spark, "order"), PLAIN).read(values)


def named(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": "N", **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


UUID = bytes(range(16))
LINES: list[tuple[Any, Any, bytes, Any]] = [
    ("boolean", "BOOLEAN", b"\1", True),
    ("int", "INT", b"\2", 1),
    ("long", "BIGINT", b"\2", 1),
    ("float", "FLOAT", bytes(4), 0.0),
    ("double", "DOUBLE", bytes(8), 0.0),
    ("bytes", "BINARY", b"\2a", b"a"),
    ("string", "STRING", b"\2a", "a"),
    (named("enum", symbols=["A"]), "STRING", b"\0", "A"),
    (named("fixed", size=2), "BINARY", b"ab", b"ab"),
    (logical("int", "date"), "DATE", b"\2", 1),
    (logical("int", "time-millis"), "INT", b"\2", 1),
    (logical("long", "time-micros"), "BIGINT", b"\2", 1),
    (logical("long", "timestamp-millis"), "TIMESTAMP", b"\2", 1000),
    (logical("long", "timestamp-micros"), "TIMESTAMP", b"\2", 1),
    (logical("long", "timestamp-nanos"), "TIMESTAMP", written(1999), 1),
    (logical("long", "local-timestamp-millis"), "TIMESTAMP_NTZ", b"\2", 1000),
    (logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ", b"\2", 1),
    (logical("long", "local-timestamp-nanos"), "TIMESTAMP_NTZ", written(1999), 1),
    (logical("bytes", "decimal", precision=4, scale=2), "DECIMAL(4,2)", b"\2\1", Decimal("0.01")),
    (logical("bytes", "decimal", precision=38), "DECIMAL(38,0)", b"\2\1", Decimal(1)),
    (named("fixed", size=2, logicalType="decimal", precision=4, scale=2), "DECIMAL(4,2)", b"\0\1", Decimal("0.01")),
    (logical("bytes", "big-decimal"), "BINARY", b"\2a", b"a"),
    (logical("string", "uuid"), "STRING", b"\2a", "a"),
    (named("fixed", size=16, logicalType="uuid"), "STRING", UUID, "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (named("fixed", size=12, logicalType="duration"), "BINARY", bytes(12), bytes(12)),
    (named("record", fields=[{"name": "a", "type": "int"}]), "STRUCT<a: INT>", b"\2", {"a": 1}),
    (
        {"type": "array", "items": "int"},
        "ARRAY<INT>",
        b"\2\2\0",
        [1],
    ),
    (
        {"type": "map", "values": "int"},
        "MAP<STRING, INT>",
        b"\2\2a\2\0",
        [("a", 1)],
    ),
    (["null", "long"], "BIGINT", b"\2\2", 1),
    (["long"], "BIGINT", b"\0\2", 1),
    (["int", "long"], "BIGINT", b"\0\2", 1),
    (["double", "null", "float"], "DOUBLE", b"\4" + bytes(4), 0.0),
    (
        ["null", "int", "string"],
        "STRUCT<member_int: INT, member_string: STRING>",
        b"\4\2a",
        {"member_int": None, "member_string": "a"},
    ),
    (
        ["int", "float"],
        "STRUCT<member_int: INT, member_float: FLOAT>",
        b"\0\2",
        {"member_int": 1, "member_float": None},
    ),
    (
        [named("record", fields=[{"name": "a", "type": "int"}]), "bytes"],
        "STRUCT<member_n: STRUCT<a: INT>, member_bytes: BINARY>",
        b"\0\2",
        {"member_n": {"a": 1}, "member_bytes": None},
    ),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.dumps(line[0])[:60])
def test_each_type_has_its_column_and_is_read_into_it(line: tuple[Any, Any, bytes, Any]) -> None:
    """Nothing is left over, and nothing refused."""
    kind, column, body, expected = line
    text = text_of(x=kind)
    found = registered(text)
    assert (found.name, found.fields, found.refused) == ("shop.R", columns(column), {})
    got = read(text, found, [body])
    assert not got.refused and got.rescued.to_pylist() == [None]
    assert plain(got.columns[0]) == [expected]


@pytest.mark.parametrize(
    ("kind", "path", "why", "body", "rescued"),
    [
        ("null", "$.x", "always null", b"", None),
        (["null"], "$.x", "always null", b"\0", None),
        (named("record", fields=[]), "$.x", "a record without fields", b"", None),
        (
            logical("bytes", "decimal", precision=50, scale=2),
            "$.x",
            "a decimal of 50 digits: a column has 38 at most",
            b"\2a",
            '{"x":"YQ=="}',
        ),
        (
            {"type": "array", "items": logical("bytes", "decimal", precision=39)},
            "$.x[]",
            "a decimal of 39 digits: a column has 38 at most",
            b"\2\2a\0",
            '{"x":["YQ=="]}',
        ),
        (named("record", fields=[{"name": "a", "type": "null"}]), "$.x.a", "always null", b"", None),
        (["null", named("record", fields=[])], "$.x", "a record without fields", b"\2", '{"x":{}}'),
        ([named("record", fields=[{"name": "a", "type": "null"}])], "$.x", "always null", b"\0", '{"x":{}}'),
        ({"type": "array", "items": "null"}, "$.x[]", "always null", b"\4\0", '{"x":[null,null]}'),
        ({"type": "array", "items": ["null"]}, "$.x[]", "always null", b"\4\0\0\0", '{"x":[null,null]}'),
        ({"type": "map", "values": "null"}, "$.x{}", "always null", b"\2\2k\0", '{"x":{"k":null}}'),
        (
            {"type": "array", "items": named("record", fields=[])},
            "$.x[]",
            "a record without fields",
            b"\6\0",
            '{"x":[{},{},{}]}',
        ),
    ],
)
def test_what_no_column_holds_is_left_out_and_told(kind: Any, path: str, why: str, body: bytes, rescued: Any) -> None:
    """By its path. What there is of it in a record goes where unknown fields go."""
    text = text_of(x=kind, y="int")
    found = registered(text)
    assert found.fields == fields("y INT") and found.refused[path] == why
    got = read(text, found, [body + b"\2"])
    assert not got.refused and got.columns[0].to_pylist() == [1] and got.rescued.to_pylist() == [rescued]


def test_names_that_no_column_can_have_are_left_out() -> None:
    """Ours, and what is equal but for case, at each level."""
    inside = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}
    found = registered(text_of(_kafka="int", _rescued="int", id="long", ID="int", x=inside))
    assert found.fields == fields("id BIGINT, x STRUCT<a: INT>")
    assert sorted(found.refused) == ["$.ID", "$._kafka", "$._rescued", "$.x.A"]
    check_columns(whole(found.fields), "order")


def deep(levels: int) -> Any:
    return {"type": "array", "items": deep(levels - 1)} if levels else "int"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ('"string"', r"\$: string is no record"),
        ('{"type":"array","items":"int"}', r"\$: array is no record"),
        (text_of(x=deep(110)).text, "nested deeper than 100 levels"),
        ('{"type":"array","items":' * 9_000 + '"int"' + "}" * 9_000, "nested too deep"),
        ('{"type":"record"', "no JSON"),
        ('{"type":"record","name":"R"}', "has no 'fields'"),
        (
            '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "one twice: 'a'",
        ),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"gone"}]}', "nothing is called 'gone'"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":["int","int"]}]}', "a union has these branches"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":[]}]}', "a union has no branch"),
        ('{"type":"enum","name":"E","symbols":["A","A"]}', "has no symbols, or one twice"),
        ('{"type":"fixed","name":"F","size":-1}', "no size"),
        ("7", "is no schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(spec: str, why: str) -> None:
    """At the start, for files; of a registered one no record is read, with the same words."""
    with pytest.raises(ConfigError, match=why):
        registered(SchemaText("AVRO", spec))
    if '"record"' in spec:
        with pytest.raises(ConfigError, match=why):
            registered_files(ValueFormat("avro", schemas=(("x.avsc", spec),)))
    got = Avro(ValueFormat("avro", "confluent"), KnownSchemas({1: [SchemaText("AVRO", spec)]}))
    found = got.reader("order", pa.schema([]), PLAIN).read(pa.array([b"\0\0\0\0\1"], pa.binary()))
    assert found.refused[0].startswith("unresolvable_schema: id 1: ")


def test_records_that_have_each_other_again_and_again_are_refused_at_once() -> None:
    """Thirty of them would be a billion columns."""
    kind: Any = "int"
    for level in range(30):
        kind = {
            "type": "record",
            "name": f"R{level}",
            "fields": [{"name": "a", "type": kind}, {"name": "b", "type": _name(kind)}],
        }
    with pytest.raises(ConfigError, match="more than 20000 parts"):
        registered(SchemaText("AVRO", json.dumps(kind)))


def _name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["name"])


def test_files_give_columns_by_full_name() -> None:
    """Of each record at the top, and of the one that is named."""
    inside = {"type": "record", "name": "Item", "fields": [{"name": "price", "type": "int"}]}
    form = ValueFormat("avro", schemas=(("a.avsc", text_of(item=inside).text),), message="shop.Item")
    found = registered_files(form)
    assert list(found) == ["shop.Item", "shop.R"] and found["shop.Item"].fields == fields("price INT")
    assert registered_files(ValueFormat("avro")) == {}


# --- Connect's names -------------------------------------------------------------------------------------------


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, **more}


MEANT: list[tuple[Any, str, bytes, Any]] = [
    (connect("int", "io.debezium.time.Date"), "DATE", b"\2", 1),
    (connect("long", "io.debezium.time.Timestamp"), "TIMESTAMP", b"\2", 1000),
    (connect("long", "io.debezium.time.MicroTimestamp"), "TIMESTAMP", b"\2", 1),
    (connect("long", "io.debezium.time.NanoTimestamp"), "TIMESTAMP", written(1999), 1),
    (connect("string", "io.debezium.time.ZonedTimestamp"), "TIMESTAMP", b"\x281970-01-01T00:00:01Z", 1_000_000),
    (connect("int", "org.apache.kafka.connect.data.Date", logicalType="date"), "DATE", b"\2", 1),
    (
        connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis"),
        "TIMESTAMP",
        b"\2",
        1000,
    ),
    (connect("int", "org.apache.kafka.connect.data.Time", logicalType="time-millis"), "INT", b"\2", 1),
    (
        connect("bytes", "org.apache.kafka.connect.data.Decimal", logicalType="decimal", precision=64, scale=2),
        "DECIMAL(38,2)",
        b"\2\1",
        Decimal("0.01"),
    ),
    (
        connect("bytes", "org.apache.kafka.connect.data.Decimal", **{"connect.parameters": {"scale": "3"}}),
        "DECIMAL(38,3)",
        b"\2\1",
        Decimal("0.001"),
    ),
]


@pytest.mark.parametrize("line", MEANT, ids=lambda line: line[0]["connect.name"])
def test_connect_s_names_count_if_they_are_asked_for(line: tuple[Any, str, bytes, Any]) -> None:
    """Of each there is a line; without the setting the column is what is stored."""
    kind, column, body, expected = line
    text = text_of(x=["null", kind])
    found = registered(text, "", "connect")
    assert found.fields == columns(column)
    got = read(text, found, [b"\2" + body, b"\0"], "connect")
    assert not got.refused and plain(got.columns[0]) == [expected, None]
    if "logicalType" not in kind:
        stored = {"long": "BIGINT", "bytes": "BINARY"}.get(kind["type"], kind["type"])
        assert registered(text).fields == columns(stored)


def test_every_name_of_connect_s_has_a_line() -> None:
    """Whoever adds one adds it here."""
    assert {line[0]["connect.name"] for line in MEANT} == SEMANTIC.keys()


def test_text_that_is_no_instant_is_refused() -> None:
    """By its row; with a zone it is one."""
    text = text_of(x=connect("string", "io.debezium.time.ZonedTimestamp"))
    values = [b"1970-01-01T02:00:01+02:00", b"soon", b"\xff", b"1970-01-01T00:00:01.123456Z", b"1970-01-01T00:00:01"]
    values.append(b"1970-01-01T01:00:01.123456789+01:00")
    got = read(text, registered(text, "", "connect"), [written(len(one)) + one for one in values], "connect")
    assert plain(got.columns[0]) == [1_000_000, 1_123_456, 1_123_456] and got.truncated == 1
    assert list(got.refused) == [1, 2, 4] and all(one.startswith("bad_time: $.x") for one in got.refused.values())


# --- at random -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_columns_of_a_schema_hold_all_of_its_records(seed: int) -> None:
    """Nothing of a random schema's records is rescued or refused for its table."""
    dice = random.Random(seed)
    spec = random_spec(dice)
    text = SchemaText("AVRO", json.dumps(spec))
    found = registered(text)
    got = read(text, found, [random_body(dice, spec) for _ in range(30)])
    assert not any(found.refused[path] != "always null" for path in found.refused)
    codes = {reason.partition(":")[0] for reason in got.refused.values()}
    assert codes <= {"out_of_range", "duplicate_key", "bad_decimal"}
    assert got.rescued.null_count == len(got.rows)
