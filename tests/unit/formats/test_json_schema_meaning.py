"""Connect's names of types in a JSON Schema: columns, and values that are what they mean; the audit reads the same."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from exporter.column.types import ScalarType
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from exporter.formats.registered import registered
from exporter.formats.schema_columns import FromSchemas
from tests.support.schemas import listed, whole
from tests.unit.formats.protobuf.test_columns import short
from tests.unit.proof.test_contents_formats import check, columns

CONNECT = "org.apache.kafka.connect.data."
PLAIN = ValueFormat("json_schema", "confluent")
FORM = ValueFormat("json_schema", "confluent", semantic_types="connect")


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "title": name, "connect.version": 1, **more}


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}


PRICE = named("number", f"{CONNECT}Decimal", **{"connect.type": "bytes", "connect.parameters": {"scale": "2"}})
EXACT = {**PRICE, "connect.parameters": {"scale": "2", "connect.decimal.precision": "8"}}
DAY = named("integer", f"{CONNECT}Date", **{"connect.type": "int32"})
SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": maybe(PRICE), "exact": EXACT, "wide": {**PRICE, "connect.parameters": {"scale": "60"}},
        "day": DAY, "time": named("integer", f"{CONNECT}Time"), "at": named("integer", f"{CONNECT}Timestamp"),
        "micros": named("integer", "io.debezium.time.MicroTimestamp"),
        "zoned": named("string", "io.debezium.time.ZonedTimestamp"),
        "days": {"type": "array", "items": {"$ref": "#/definitions/day"}},
        "row": {"type": "object", "properties": {"due": maybe(DAY)}},
        "by": {"type": "object", "additionalProperties": DAY},
    },
    "definitions": {"day": DAY},
}  # fmt: skip
TEXT = SchemaText("JSON", json.dumps(SCHEMA))
TYPES = {
    "id": "long", "price": "decimal(38,2)", "exact": "decimal(8,2)", "wide": "double", "day": "date", "time": "long",
    "at": "timestamp", "micros": "timestamp", "zoned": "timestamp", "days": ["date"], "row": {"due": "date"},
    "by": {"map": "date"},
}  # fmt: skip
OLD = {**TYPES, "price": "double", "exact": "double", "day": "long", "at": "long", "micros": "long",
       "zoned": "string", "days": ["long"], "row": {"due": "long"}, "by": {"map": "long"}}  # fmt: skip


def framed(**value: Any) -> bytes:
    return b"\0\0\0\0\1" + json.dumps(value).encode()


def test_names_of_types_decide_columns_where_they_are_to() -> None:
    """Without the setting a table is what it was: then numbers are numbers."""
    for semantic, types in (("connect", TYPES), ("none", OLD)):
        found = registered(TEXT, "", semantic)
        assert {one.name: short(one.type) for one in found.fields} == types


@pytest.mark.parametrize("seed", range(10))
def test_values_are_what_their_names_mean(seed: int) -> None:
    """Decimals in base64 and as numbers, exactly; days and moments; the audit finds the same, in columns, in whole
    numbers of a table that was there before, and in `_rescued`."""
    rng = random.Random(seed)
    values, wanted = list[bytes](), list[Any]()
    for _ in range(40):
        day, millis, cents = rng.randint(-20_000, 40_000), rng.randint(0, 2 * 10**12), rng.randint(-(10**7), 10**7)
        raw = cents.to_bytes(8, "big", signed=True)
        price = Decimal(cents).scaleb(-2)
        sent: Any = float(price) if rng.random() < 0.3 else base64_of(raw)
        values.append(framed(id=cents, price=sent, exact=None, day=day, at=millis, micros=millis * 1_000, time=5,
                             days=[day, None], row={"due": day}, by={"a": day}))  # fmt: skip
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=millis)
        one = date(1970, 1, 1) + timedelta(days=day)
        wanted.append([cents, price, one, at, at, [one, None], {"due": one}, [("a", one)]])
    fields = registered(TEXT, "", "connect").fields
    routing = Routing(TypeFrom("topic"), EventTime("record"), (("a", whole(fields)),), value_format=FORM)
    decoder = Decoder.of("a", routing, topic="t", schemas=KnownSchemas({1: [TEXT]}))
    times = pa.array([1_741_608_000_000_000] * len(values), pa.timestamp("us", "UTC"))
    table = decoder.decode(pa.array(values, pa.binary()), times).table
    names = ("id", "price", "day", "at", "micros", "days", "row", "by")
    assert [list(row) for row in zip(*(table[name].to_pylist() for name in names), strict=True)] == wanted
    assert table["_rescued"].null_count == len(values)
    told, plain = listed(fields), listed(registered(TEXT).fields)
    for declared, evolved in ((told, ()), ((), told), ((), told[:2]), ((), plain)):
        assert check(FORM, values, {1: TEXT}, declared, evolved) == len(values)
    assert check(FORM, values, {1: TEXT}, columns(day="long", at="long")) == len(values)
    assert check(PLAIN, values, {1: TEXT}, plain[:1]) == len(values)


def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def test_what_is_not_as_its_schema_says_stays_as_it_is() -> None:
    """Whether it fits is for its column to say; what is no JSON is refused in the reader's own words."""
    fields = listed(registered(TEXT, "", "connect").fields)
    odd = [framed(day="x", price=True, at=1.5), framed(day=10**9), framed(price="?")]
    values = [*odd, b"\0\0\0\0\1{", b"\0\0\0\0\1[]"]
    assert check(FORM, values, {1: TEXT}, (), fields) == 3
    assert check(FORM, values, {1: TEXT}, fields) == 0


def test_an_event_time_in_a_unit_is_read_as_the_number_that_was_sent() -> None:
    """As ever, and its column holds that; one in ISO is what its name makes of it."""
    millis = 1_741_608_000_000
    for unit, kind, held in (("ms", "long", millis), ("iso", "timestamp", millis * 1_000)):
        routing = Routing(TypeFrom("topic"), EventTime("json", "at", unit), (), value_format=FORM)
        known = KnownSchemas({1: [TEXT]})
        fields = FromSchemas(routing).of_key("1", known, "t")
        assert {one.name: one.type for one in fields}["at"] == ScalarType(kind)
        decoder = Decoder.of("a", replace(routing, types=(("a", whole(fields)),)), topic="t", schemas=known)
        times = pa.array([millis * 1_000 + 5], pa.timestamp("us", "UTC"))
        decoded = decoder.decode(pa.array([framed(at=millis, day=1)], pa.binary()), times)
        assert len(decoded.good) == 1 and decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [millis * 1_000]
        assert decoded.table["at"].cast(pa.int64()).to_pylist() == [held]
