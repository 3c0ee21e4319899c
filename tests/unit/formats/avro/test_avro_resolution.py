"""A writer's schema read by a reader's: what fastavro makes of it, and what is refused before any value."""

from __future__ import annotations

import io
import json
import random
import struct
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from exporter.core.schemas import SchemaText
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.resolve import Unresolvable
from exporter.formats.avro.schema import parsed
from exporter.formats.typed.typed import Typed
from tests.support.typed_values import comparable, plain


def record(*fields: dict[str, Any] | tuple[str, Any], name: str = "R") -> dict[str, Any]:
    made = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": name, "fields": made}


def plan_of(writer: Any, reader: Any = None, *, connect: bool = False) -> AvroPlan:
    schemas = [None if one is None else parsed(SchemaText("AVRO", json.dumps(one))) for one in (writer, reader)]
    assert schemas[0] is not None
    return AvroPlan(schemas[0], schemas[1], connect=connect)


def body_of(spec: Any, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(json.dumps(spec))), value)
    return body.getvalue()


def read(plan: AvroPlan, *bodies: bytes) -> Typed:
    found = plan.rows(plan.batch(pa.array(bodies, pa.binary())), np.arange(len(bodies)))
    found.record.validate(full=True)
    return found


def one(writer: Any, reader: Any, value: Any) -> Any:
    """What becomes of a field x, or the reason."""
    writer_spec, reader_spec = record(("x", writer)), record(("x", reader))
    found = read(plan_of(writer_spec, reader_spec), body_of(writer_spec, {"x": value}))
    return found.refused[0] if found.refused else plain(found.record)[0]["x"]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", -(2**31), -(2**31)),
        ("int", "float", 7, 7.0),
        ("int", "double", 2**31 - 1, 2.0**31 - 1),
        ("long", "float", 2**24, 2.0**24),
        ("long", "double", 2**53, 2.0**53),
        ("float", "double", 0.1, 0.10000000149011612),
        ("long", "double", -(2**63), -(2.0**63)),
        ("string", "bytes", "\u00e9", b"\xc3\xa9"),
        ("bytes", "string", b"\xc3\xa9", "\u00e9"),
        ("int", ["null", "long"], 7, 7),
        (["null", "int"], "int", 7, 7),
        (["null", "int"], ["string", "null", "long"], 7, {"member_string": None, "member_long": 7}),
        ("string", ["int", "string"], "a", {"member_int": None, "member_string": "a"}),
        (["int", "string"], ["string", "long"], 7, {"member_string": None, "member_long": 7}),
        ("null", ["null", "int"], None, None),
        (["int", "long"], ["int", "long"], 2**40, 2**40),
        (["float", "double"], ["float", "double"], 0.5, 0.5),
        ("int", ["int", "long"], 3, 3),
        (["null", "int"], ["null", "int"], None, None),
        (["int", "string"], "string", "a", "a"),
    ],
)
def test_a_value_is_taken_as_the_reader_has_it(writer: Any, reader: Any, value: Any, expected: Any) -> None:
    """Wider numbers, text and bytes, branches of unions."""
    assert comparable(one(writer, reader, value)) == comparable(expected)


@pytest.mark.parametrize(
    ("writer", "reader", "value", "reason"),
    [
        ("long", "double", 2**53 + 1, "inexact: $.x would be rounded"),
        ("long", "double", 2**63 - 1, "inexact: $.x would be rounded"),
        ("int", "float", 2**24 + 1, "inexact: $.x would be rounded"),
        ("bytes", "string", b"\xff", "not_utf8: $.x"),
        (["null", "int"], "int", None, "unresolvable_branch: $.x"),
        (["int", "string"], "string", 7, "unresolvable_branch: $.x"),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["B"]},
            "A",
            "unknown_symbol: $.x",
        ),
    ],
)
def test_a_value_that_would_become_another_is_refused(writer: Any, reader: Any, value: Any, reason: str) -> None:
    """By its row: others of the same writer may be read."""
    assert one(writer, reader, value).startswith(reason)


def test_symbols_that_the_reader_lacks_become_its_default() -> None:
    """Where it has one."""
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    reader = {"type": "enum", "name": "n.E", "symbols": ["C", "OTHER"], "default": "OTHER"}
    assert [one(writer, reader, symbol) for symbol in "ABC"] == ["OTHER", "OTHER", "C"]


DATE, MILLIS, MICROS = (
    {"type": kind, "logicalType": logical}
    for kind, logical in (("int", "date"), ("long", "timestamp-millis"), ("long", "timestamp-micros"))
)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", "int"),
        ("double", "float"),
        ("string", "int"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}),
        (MILLIS, MICROS),
        (MILLIS, "long"),
        ("long", MICROS),
        (DATE, "int"),
        (DATE, "long"),
        (decimal(9, 2), decimal(9, 3)),
        (decimal(9, 2), "bytes"),
        ("int", ["null", "string"]),
        (["int", "null"], "string"),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 4}),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "G", "size": 3}),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}),
        (record(("a", "int"), name="A"), record(("a", "int"), name="B")),
        (record(name="A"), record(("a", "int"), name="A")),
        (record(name="A"), record({"name": "a", "type": "int", "default": "x"}, name="A")),
    ],
)
def test_a_pair_that_never_fits_is_told_before_any_value(writer: Any, reader: Any) -> None:
    """With the path. A factor of a thousand would be silent else."""
    with pytest.raises(Unresolvable, match=r"^\$\.x"):
        plan_of(record(("x", writer)), record(("x", reader)))


def test_decimals_may_have_more_digits_than_their_writer() -> None:
    """And fewer, where the value has no more."""
    assert one(decimal(9, 2), decimal(20, 2), Decimal("12.34")) == Decimal("12.34")
    assert one(decimal(9, 2), decimal(4, 2), Decimal("12.34")) == Decimal("12.34")
    assert one(decimal(9, 2), decimal(4, 2), Decimal("112.34")).startswith("bad_decimal: $.x")


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("int", 7, 7),
    ("string", "\u00e9", "\u00e9"),
    ("bytes", "\u00ff", b"\xff"),
    ("boolean", True, True),
    ("double", 1, 1.0),
    (["null", "int"], None, None),
    (["int", "null"], 7, 7),
    ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
    (MILLIS, 5, 5000),
    (decimal(4, 2), "\u0001\u0000", Decimal("2.56")),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (["int", "string"], 7, {"member_int": 7, "member_string": None}),
    (record(("a", "int"), {"name": "b", "type": "int", "default": 9}, name="D"), {"a": 1}, {"a": 1, "b": 9}),
]


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS)
def test_a_field_that_the_writer_does_not_have_is_the_default(kind: Any, default: Any, expected: Any) -> None:
    """Of any type, in each record, also below lists."""
    inside = record({"name": "x", "type": kind, "default": default}, ("y", "int"), name="In")
    reader = record(("items", {"type": "array", "items": inside}))
    writer = record(("items", {"type": "array", "items": record(("y", "int"), name="In")}))
    found = read(
        plan_of(writer, reader), *(body_of(writer, {"items": [{"y": y} for y in range(n)]}) for n in (2, 0, 3))
    )
    assert [len(row["items"]) for row in plain(found.record)] == [2, 0, 3]
    assert all(
        comparable(item) == comparable({"x": expected, "y": y})
        for row in plain(found.record)
        for y, item in enumerate(row["items"])
    )


def test_fields_are_found_by_name_and_alias_and_the_others_kept() -> None:
    """In the reader's order; those that only the writer has stand behind them."""
    writer = record(("a", "int"), ("old", "string"), ("only", ["null", "long"]), ("b", "int"), name="ns1.R")
    reader = record(
        ("b", "long"), {"name": "new", "type": "string", "aliases": ["older", "old"]}, ("a", "int"), name="ns2.R"
    )
    found = read(plan_of(writer, reader), body_of(writer, {"a": 1, "old": "x", "only": 5, "b": 2}))
    assert found.record.to_pylist() == [{"b": 2, "new": "x", "a": 1, "only": 5}]
    assert [field.name for field in found.record.type] == ["b", "new", "a", "only"]


def test_a_reader_s_alias_of_a_record_is_its_name() -> None:
    """Of records, enums and fixed."""
    writer = record(("x", record(("a", "int"), name="com.Old")))
    reader = record(("x", {**record(("a", "long"), name="com.New"), "aliases": ["Old"]}))
    assert read(plan_of(writer, reader), b"\x02").record.to_pylist() == [{"x": {"a": 1}}]


# --- at random, against fastavro -------------------------------------------------------------------------------


ADDRESS = record(("street", "string"), ("zip", ["null", "int"]), name="Address")
READER = record(
    ("id", "long"),
    {"name": "name", "type": "string", "aliases": ["title"]},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}},
    ("weight", "double"),
    {"name": "level", "type": "int", "default": 3},
    ("tags", {"type": "array", "items": "string"}),
    ("counts", {"type": "map", "values": "long"}),
    {"name": "home", "type": ["null", ADDRESS], "default": None},
    name="shop.Order",
)
WRITERS = [
    record(
        ("id", "int"),
        ("name", "string"),
        ("status", {"type": "enum", "name": "Status", "symbols": ["NEW", "DONE"]}),
        ("weight", "float"),
        ("tags", {"type": "array", "items": "string"}),
        ("counts", {"type": "map", "values": "int"}),
        name="shop.Order",
    ),
    record(
        ("gone", record(("a", "int"), ("b", {"type": "array", "items": "string"}), name="Gone")),
        ("weight", "int"),
        ("counts", {"type": "map", "values": "long"}),
        ("status", {"type": "enum", "name": "Status", "symbols": ["DONE", "NEW"]}),
        ("title", "string"),
        ("id", "long"),
        ("home", ADDRESS),
        ("tags", {"type": "array", "items": "string"}),
        ("level", "int"),
        name="shop.Order",
    ),
    READER,
]


def made(dice: random.Random, spec: Any) -> Any:
    """A value of a schema."""
    if isinstance(spec, list):
        return made(dice, dice.choice(spec))
    kind = spec if isinstance(spec, str) else spec["type"]
    simple: dict[str, Any] = {
        "null": None,
        "int": dice.randrange(-1000, 1000),
        "long": dice.randrange(-(2**53), 2**53),
        "float": struct.unpack("<f", struct.pack("<f", dice.random()))[0],
        "double": dice.random(),
        "string": "abc\u00e9"[: dice.randrange(5)],
    }
    if kind in simple:
        return simple[kind]
    if kind == "enum":
        return dice.choice(spec["symbols"])
    if kind == "array":
        return [made(dice, spec["items"]) for _ in range(dice.choice((0, 1, 3, 40)))]
    if kind == "map":
        return {f"k{n}": made(dice, spec["values"]) for n in range(dice.choice((0, 1, 3)))}
    return {field["name"]: made(dice, field["type"]) for field in spec["fields"]}


@pytest.mark.parametrize("writer", WRITERS, ids=["fewer-and-narrower", "others-and-reordered", "the-same"])
def test_good_bodies_are_read_as_fastavro_resolves_them(writer: Any) -> None:
    """Every field of the reader's, of a thousand records."""
    dice = random.Random(7)
    bodies = [body_of(writer, made(dice, writer)) for _ in range(1_000)]
    found = read(plan_of(writer, READER), *bodies)
    assert not found.refused
    schemas = [fastavro.parse_schema(json.loads(json.dumps(one))) for one in (writer, READER)]
    names = [field["name"] for field in READER["fields"]]
    for body, got in zip(bodies, plain(found.record), strict=True):
        wanted: Any = fastavro.schemaless_reader(io.BytesIO(body), schemas[0], schemas[1])
        got["counts"] = dict(got["counts"])
        assert {name: got[name] for name in names} == wanted
