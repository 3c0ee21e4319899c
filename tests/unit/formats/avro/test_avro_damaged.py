"""Damaged bodies, each between two good ones: its row, its reason with the path, and nothing else is touched."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from exporter.core.schemas import SchemaText
from exporter.formats.avro.nested import FEW
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.schema import parsed
from exporter.formats.binary.cursor import ITEMS_MAX
from exporter.formats.typed.typed import Typed
from tests.support.avro_oracle import written

LONGEST = b"\xff" * 9


def plan_of(*fields: tuple[str, Any]) -> AvroPlan:
    spec = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    return AvroPlan(parsed(SchemaText("AVRO", json.dumps(spec))))


def read(plan: AvroPlan, *bodies: bytes) -> Typed:
    found = plan.rows(plan.batch(pa.array(bodies, pa.binary())), np.arange(len(bodies)))
    found.record.validate(full=True)
    return found


def text(raw: bytes) -> bytes:
    return written(len(raw)) + raw


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
PRICES = {"type": "array", "items": {"type": "record", "name": "Item", "fields": [{"name": "price", "type": "int"}]}}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MAP = {"type": "map", "values": "long"}
LONGS = {"type": "array", "items": "long"}
FLAGS = {"type": "map", "values": "boolean"}
CASES: list[tuple[str, Any, bytes, bytes, str]] = [
    ("truncated", "string", text(b"abc"), b"\x06ab", "truncated: $.x"),
    ("truncated number", "long", written(300), b"\xd8", "truncated: $.x"),
    ("truncated double", "double", bytes(8), bytes(7), "truncated: $.x"),
    ("truncated fixed", {"type": "fixed", "name": "F", "size": 3}, b"abc", b"ab", "truncated: $.x"),
    ("empty body", "long", b"\x02", b"", "truncated: $.x"),
    ("trailing bytes", "long", b"\x02", b"\x02\x00", "trailing_bytes: $ "),
    ("two records", "string", text(b"a"), text(b"a") * 2, "trailing_bytes: $ "),
    ("enum of the size", ENUM, b"\x02", written(3), "bad_enum: $.x"),
    ("enum of -1", ENUM, b"\x02", written(-1), "bad_enum: $.x"),
    ("branch 2 of 2", ["null", "long"], b"\x02\x02", written(2), "bad_branch: $.x"),
    ("branch -1", ["null", "long"], b"\x02\x02", written(-1), "bad_branch: $.x"),
    ("length -1", "string", text(b"a"), written(-1) + b"a", "bad_length: $.x"),
    ("length 2^31", "bytes", text(b"a"), written(2**31) + b"a", "truncated: $.x"),
    ("length 2^62", "string", text(b"a"), written(2**62) + b"a", "truncated: $.x"),
    ("length -2^63", "string", text(b"a"), written(-(2**63)) + b"a", "bad_length: $.x"),
    ("not UTF-8", "string", text(b"a"), text(b"a\xff"), "not_utf8: $.x"),
    ("half a surrogate", "string", text(b"a"), text(b"\xed\xa0\x80"), "not_utf8: $.x"),
    ("array of 2^31", LONGS, b"\x02\x02\x00", written(2**31) + b"\x02", "truncated: $.x"),
    ("array of 2^40", LONGS, b"\x02\x02\x00", written(2**40) + b"\x02", "truncated: $.x"),
    ("array of -2^63", LONGS, b"\x00", written(-(2**63)) + b"\x02", "bad_length: $.x"),
    ("array without end", LONGS, b"\x02\x02\x00", b"\x02\x02", "truncated: $.x"),
    ("boolean 2", "boolean", b"\x01", b"\x02", "bad_boolean: $.x"),
    ("int 2^31", "int", b"\x02", written(2**31), "out_of_range: $.x"),
    ("int 2^40", "int", b"\x02", written(2**40), "out_of_range: $.x"),
    ("11 bytes", "long", b"\x02", LONGEST + b"\x81\x00", "bad_varint: $.x"),
    ("10 bytes with overflow", "long", b"\x02", LONGEST + b"\x02", "bad_varint: $.x"),
    ("10 bytes and an end", "long", b"\x02", LONGEST, "truncated: $.x"),
    ("item 1 of 2", PRICES, b"\x04\x02\x04\x00", b"\x04\x02" + written(2**31) + b"\x00", "out_of_range: $.x[1].price"),
    ("key not UTF-8", MAP, b"\x00", b"\x02\x02\xff\x02\x00", "not_utf8: $.x{}"),
    ("key twice", MAP, b"\x00", b"\x04\x02a\x02\x02a\x02\x00", "duplicate_key: $.x"),
    ("decimal of 5 digits", DECIMAL, text(b"\x01"), text((10000).to_bytes(2, "big")), "bad_decimal: $.x"),
    ("decimal of no digit", DECIMAL, text(b"\x01"), text(b""), "bad_decimal: $.x"),
    ("a time of no table", MILLIS, b"\x02", written(2**62), "out_of_range: $.x"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].replace(" ", "-"))
def test_a_damaged_body_is_its_row_s_alone(case: tuple[str, Any, bytes, bytes, str]) -> None:
    """The row and the reason are told; the good ones beside it are read as they are without it."""
    _, kind, good, damaged, reason = case
    plan = plan_of(("x", kind))
    clean = read(plan, good, good)
    assert not clean.refused
    found = read(plan, good, damaged, good)
    assert found.rows.tolist() == [0, 2] and found.record == clean.record
    assert list(found.refused) == [1] and found.refused[1].startswith(reason)
    assert read(plan, damaged).refused == {0: found.refused[1]}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (LONGS, written(-2) + written(77) + b"\x02\x04\x00"),
        (LONGS, b"\x84\x80\x00\x02\x04\x00"),
        ("long", b"\x8a\x80\x00"),
    ],
    ids=["wrong-size-of-a-block", "padded-count", "padded-number"],
)
def test_what_every_reader_takes_is_taken(kind: Any, body: bytes) -> None:
    """A block's size is for who passes over it; a number may have more bytes than it needs."""
    found = read(plan_of(("x", kind)), body)
    assert not found.refused
    assert found.record.to_pylist() == [{"x": 5}] if kind == "long" else found.record.to_pylist() == [{"x": [1, 2]}]


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "Nothing", "fields": []},
                                   {"type": "fixed", "name": "F", "size": 0}], ids=str)  # fmt: skip
def test_items_that_take_no_bytes_are_a_thousand_at_most(items: Any) -> None:
    """A hundred million of them would fit nine bytes; alone and beside many others."""
    plan = plan_of(("x", {"type": "array", "items": items}))
    bodies = [written(count) + b"\0" for count in (1, 300, 1_000, 1_001, 10**8, 2**62)] + [written(600) * 2 + b"\0"]
    for some in (bodies, bodies * 2 * FEW):
        found = read(plan, *some)
        assert [row % len(bodies) for row in found.rows.tolist()] == [0, 1, 2] * (len(some) // len(bodies))
        assert {reason.partition(" brings")[0] for reason in found.refused.values()} == {"too_big: $.x"}


@pytest.mark.parametrize("count", [1, 2, 25, 72])
@pytest.mark.parametrize("beside", [0, 1, 2 * FEW])
@pytest.mark.parametrize(
    ("items", "good", "damaged", "reason"),
    [
        ("int", b"\x02", written(2**31), "out_of_range: $.x[{}] "),
        ("string", b"\x02a", b"\x03a", "bad_length: $.x[{}] "),
        ("boolean", b"\x01", b"\x02", "bad_boolean: $.x[{}] "),
        (["null", "string"], b"\x02\x02a", b"\x04", "bad_branch: $.x[{}] "),
        (LONGS, b"\x04\x02\x04\x00", b"\x04\x02" + LONGEST + b"\x7f", "bad_varint: $.x[{}][1] "),
        (FLAGS, b"\x02\x02a\x01\x00", b"\x02\x02a\x02\x00", "bad_boolean: $.x[{}]{{0}} "),
    ],
    ids=["int", "string", "boolean", "optional", "array", "map"],
)  # fmt: skip
def test_a_damaged_item_has_its_number_however_it_is_found(
    count: int, beside: int, items: Any, good: bytes, damaged: bytes, reason: str
) -> None:
    """In a list that is read step by step, all at once, or located first: long or short, alone or beside many."""
    plan = plan_of(("x", {"type": "array", "items": items}), ("y", "boolean"))
    whole = written(count) + good * count + b"\x00\x01"
    bad = written(count) + good * (count - 1) + damaged + b"\x00\x02"
    found = read(plan, *[whole] * beside, bad, *[whole] * beside)
    assert list(found.refused) == [beside] and found.refused[beside].startswith(reason.format(count - 1))
    assert found.rows.tolist() == [row for row in range(2 * beside + 1) if row != beside]
    assert len(set(map(str, found.record.to_pylist()))) <= 1


def test_the_first_of_two_failures_is_the_reason() -> None:
    """In the order of the bytes; text that is none is told last of all."""
    plan = plan_of(("a", "string"), ("b", "boolean"), ("c", "int"))
    found = read(plan, text(b"\xff") + b"\x02" + written(2**31), text(b"\xff") + b"\x01" + written(2**31),
                 text(b"\xff") + b"\x01\x02")  # fmt: skip
    assert [reason.partition(" ")[0] for reason in found.refused.values()] == ["bad_boolean:", "out_of_range:",
                                                                               "not_utf8:"]  # fmt: skip


def test_a_record_of_too_many_items_is_refused_at_once() -> None:
    """In one list or in several, in one block or in many; as many as there may be are read."""
    plan = plan_of(("x", {"type": "array", "items": "long"}), ("y", {"type": "array", "items": "boolean"}))
    most = written(ITEMS_MAX) + b"\x02" * ITEMS_MAX + b"\x00"
    more = written(ITEMS_MAX) + b"\x02" * ITEMS_MAX + b"\x02\x02\x00"
    found = read(plan, most + b"\x00", more + b"\x00", most + b"\x02\x01\x00")
    assert found.rows.tolist() == [0] and len(found.record.field("x")[0]) == ITEMS_MAX
    assert [one.partition(" brings")[0] for one in found.refused.values()] == ["too_big: $.x", "too_big: $.y"]


def test_items_that_make_much_of_little_are_too_big() -> None:
    """Each counts with what Arrow takes for it, not with its bytes."""
    wide = {"type": "record", "name": "W", "fields": [{"name": f"f{n}", "type": "long"} for n in range(200)]}
    plan = plan_of(("x", {"type": "array", "items": ["null", wide]}))
    few, many = written(30_000) + b"\x00" * 30_001, written(50_000) + b"\x00" * 50_001
    found = read(plan, few, many)
    assert found.rows.tolist() == [0] and found.refused[1].startswith("too_big: $.x")


def test_nested_lists_count_as_one() -> None:
    """Walked or in lockstep: the items of all levels."""
    cube = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "long"}}}
    plan = plan_of(("x", cube))

    def body(size: int) -> bytes:
        row = written(size) + b"\x02" * size + b"\x00"
        return written(size) + (written(size) + row * size + b"\x00") * size + b"\x00"

    for beside in (0, FEW + 10):
        small = body(3)
        found = read(plan, *[small] * beside, body(45), body(47), *[small] * beside)
        assert list(found.refused) == [beside + 1]
        assert found.refused[beside + 1].startswith("too_big: $.x[")
    assert read(plan, body(47)).refused == {0: found.refused[beside + 1]}
