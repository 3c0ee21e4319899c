"""Dates and decimals that Connect registers: DATE and DECIMAL, and messages as they were where a table has a STRUCT."""

from __future__ import annotations

import json
import random
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.registered import registered
from tests.contract.test_format import struct
from tests.support.proto_files import classes, text_of
from tests.support.proto_place import framed
from tests.unit.formats.protobuf.test_columns import short
from tests.unit.formats.protobuf.test_format import columns_of, read

FORM = ValueFormat("protobuf", "confluent")
META = '[(confluent.field_meta) = { params: [ { key: "precision", value: "8" }, { key: "scale", value: "2" } ] }]'
ORDER = f"""
    syntax = "proto3"; package shop;
    import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto";
    import "google/type/timeofday.proto"; import "google/type/money.proto";
    message Order {{
      int64 id = 1;
      confluent.type.Decimal price = 2 {META};
      repeated confluent.type.Decimal prices = 3 {META};
      map<string, google.type.Date> days = 4;
      google.type.Date day = 5;
      repeated google.type.Date dates = 6;
      google.type.TimeOfDay at = 7;
      google.type.Money cost = 8;
      confluent.type.Decimal any = 9;
      confluent.type.Decimal whole = 10 [(confluent.field_meta) = {{ params: [ {{ key: "scale", value: "0" }} ] }}];
      confluent.type.Decimal wide = 11 [(confluent.field_meta) = {{ params: [ {{ key: "precision", value: "60" }},
                                                                           {{ key: "scale", value: "2" }} ] }}];
    }}
"""
DECIMAL = {"value": "binary", "precision": "long", "scale": "integer"}
DATE = [("year", "integer", True), ("month", "integer", True), ("day", "integer", True)]


def decimal(number: int, scale: int) -> dict[str, Any]:
    size = (number.bit_length() + 8) // 8
    return {"value": number.to_bytes(size, "big", signed=True), "precision": 9, "scale": scale}


def values(*orders: dict[str, Any]) -> list[bytes]:
    made = classes(ORDER)["shop.Order"]
    return [framed(1, made(**one).SerializeToString()) for one in orders]


def known() -> KnownSchemas:
    return KnownSchemas({1: [SchemaText("PROTOBUF", text_of(ORDER))]})


def test_each_type_that_connect_registers_has_its_column() -> None:
    """A decimal whose field does not say of how many digits stays a message, as times of a day and money do."""
    found = {one.name: short(one.type) for one in registered(SchemaText("PROTOBUF", text_of(ORDER))).fields}
    assert found == {
        "id": "long", "price": "decimal(8,2)", "prices": ["decimal(8,2)"], "days": {"map": "date"}, "day": "date",
        "dates": ["date"], "any": DECIMAL, "whole": "decimal(38,0)", "wide": DECIMAL,
        "at": dict.fromkeys(("hours", "minutes", "seconds", "nanos"), "integer"),
        "cost": {"currency_code": "string", "units": "long", "nanos": "integer"},
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_dates_and_decimals_are_what_python_makes_of_them(seed: int) -> None:
    """Absent is null; a scale that differs from the column's is taken where no digit is lost, and a record whose number
    or day the column cannot hold is a dead letter with the place."""
    rng = random.Random(seed)
    orders, rows, refused = [], list[Any](), dict[int, str]()
    for at in range(60):
        one: dict[str, Any] = {"id": at}
        want: list[Any] = [None, [], None, []]
        why = ""
        if rng.random() < 0.7:
            number, scale = rng.randint(-(10 ** rng.randint(0, 12)), 10 ** rng.randint(0, 12)), rng.randint(-2, 6)
            one["price"], found = decimal(number, scale), Decimal(number).scaleb(-scale)
            fits = found == round(found, 2) and abs(found) < 10**6
            want[0], why = (found, why) if fits else (None, why or "bad_decimal: $.price")
        if rng.random() < 0.5:
            pennies = [rng.randint(-99_999_999, 99_999_999) for _ in range(rng.randint(0, 3))]
            one["prices"], want[1] = [decimal(n, 2) for n in pennies], [Decimal(n).scaleb(-2) for n in pennies]
        for name, place in (("day", 2), ("dates", 3)):
            if rng.random() < 0.6:
                year, month, day = rng.randint(0, 10_000), rng.randint(0, 13), rng.randint(0, 31)
                if rng.random() < 0.9:
                    year, month, day = rng.choice((1, 4, 1900, 2000, 9999)), 2, 28
                got = {"year": year, "month": month, "day": day}
                one[name] = got if name == "day" else [got]
                try:
                    made = date(year, month, day)
                    want[place] = made if name == "day" else [made]
                except ValueError:
                    why = why or f"out_of_range: $.{name}" + ("" if name == "day" else "[0]")
        orders.append(one)
        rows.append(want)
        if why:
            refused[at] = why
    columns = struct(
        ("price", "decimal(8,2)", True),
        ("prices", {"type": "array", "elementType": "decimal(8,2)", "containsNull": True}, True),
        ("day", "date", True),
        ("dates", {"type": "array", "elementType": "date", "containsNull": True}, True),
    )
    found = read(FORM, known(), values(*orders), columns)
    assert {at: why.partition(" ")[0] + " " + why.split(" ")[1] for at, why in found.refused.items()} == refused
    good = [row for at, row in enumerate(rows) if at not in refused]
    assert [list(row) for row in zip(*columns_of(found), strict=True)] == good and 0 < len(good) < 60


def test_what_a_decimal_cannot_be_is_a_dead_letter() -> None:
    """No bytes, more digits than the column has, a scale that no number has; 38 digits are held."""
    most = 10**38 - 1
    orders = [{"whole": decimal(most, 0)}, {"whole": decimal(-most, 0)}, {"whole": decimal(most + 1, 0)},
              {"price": {"scale": 2}}, {"whole": decimal(1, -(2**31))}, {"whole": decimal(0, 2**31 - 1)},
              {"whole": decimal(10**300, 300)}, {"whole": decimal(1, 2**31 - 1)}]  # fmt: skip
    found = read(FORM, known(), values(*orders), struct(("whole", "decimal(38,0)", True)))
    assert columns_of(found)[0] == [Decimal(most), Decimal(-most), Decimal(0), Decimal(1)]
    codes = {at: why.partition(":")[0] for at, why in found.refused.items()}
    assert codes == dict.fromkeys((2, 3, 4, 7), "bad_decimal")


def test_a_table_that_has_a_message_as_a_struct_goes_on_as_it_was() -> None:
    """Its column came of a schema that listed what it imports, before these messages had a type of their own."""
    day, price = {"year": 2024, "month": 0, "day": 0}, decimal(150, 2)
    inside = json.loads(struct(*DATE))
    parts = json.loads(struct(("value", "binary", True), ("precision", "long", True), ("scale", "integer", True)))
    several = {"type": "array", "elementType": parts, "containsNull": True}
    columns = struct(("day", inside, True), ("prices", several, True))
    found = read(FORM, known(), values({"day": day, "prices": [price]}), columns)
    assert not found.refused and columns_of(found) == [[day], [[price]]]
    other = read(FORM, known(), values({"day": {**day, "month": 2, "day": 1}}), struct(("id", "long", True)))
    assert json.loads(other.rescued[0].as_py())["day"] == "2024-02-01"
