"""Typed rows as columns: one example for each rule. tests/support/fit_oracle.py has all of them, for random ones."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from exporter.arrow.kafka_time import US
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.formats.event_times import EventTimes
from exporter.formats.format import Read
from exporter.formats.joined import MIXED, joined
from exporter.formats.json.format import Json
from exporter.formats.marks import JSON_MARK, evolved_mark
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.events import EventTypeReader
from exporter.formats.typed.fit import Fit
from exporter.formats.typed.texts import json_text
from exporter.formats.typed.typed import Typed
from tests.support import fit_oracle as oracle

NAME = "order"
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
NTZ = pa.timestamp("us")
ISO = EventTime("json", "at")
AT = 1_769_860_800


def decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale)


def fit(
    kind: pa.DataType, schema: pa.Schema, values: list[Any], routing: Routing = PLAIN, event_type: str = NAME
) -> Read:
    """values: of records, as the oracle has them."""
    made = Fit(kind, TypedAsked.by(event_type, schema, routing), "id 7")
    return made.read(Typed(np.arange(len(values)), oracle.arrow(values, kind)))


def one(kind: pa.DataType, target: pa.DataType, value: Any, free: bool = False) -> Any:
    """What a column of one type holds of a value of another, what is rescued of it, or the reason."""
    schema = pa.schema([pa.field("v", target, metadata=evolved_mark("t/0/1") if free else None)])
    found = fit(pa.struct([("v", kind)]), schema, [{"v": value}])
    return found.refused.get(0) or (oracle.plain(found.columns[0])[0], found.rescued[0].as_py())


# --- types ---------------------------------------------------------------------------------------------------

LOSSLESS = [
    (pa.int8(), pa.int64(), -5, -5),
    (pa.int32(), pa.int64(), 2**31 - 1, 2**31 - 1),
    (pa.int32(), pa.float64(), 2**31 - 1, 2.0**31 - 1),
    (pa.int16(), pa.float32(), -(2**15), -(2.0**15)),
    (pa.int64(), pa.float64(), 2**53, 2.0**53),
    (pa.int64(), pa.float32(), 2**60, 2.0**60),
    (pa.float32(), pa.float64(), 0.5, 0.5),
    (pa.int64(), decimal(19, 0), 2**63 - 1, Decimal(2**63 - 1)),
    (pa.int32(), decimal(12, 2), -7, Decimal("-7.00")),
    (decimal(12, 2), decimal(20, 4), Decimal("1.25"), Decimal("1.2500")),
    (pa.string(), pa.binary(), "\u00e9", "\u00e9".encode()),
]


@pytest.mark.parametrize(("kind", "target", "value", "held"), LOSSLESS, ids=str)
def test_a_wider_type_holds_the_same_value(kind: pa.DataType, target: pa.DataType, value: Any, held: Any) -> None:
    """Whether the column was declared or not."""
    assert one(kind, target, value) == one(kind, target, value, free=True) == (held, None)


@pytest.mark.parametrize(
    ("kind", "target", "value", "rest"),
    [
        (pa.int64(), pa.int32(), 2**31, "2147483648"),
        (pa.float64(), pa.float32(), 0.1, "0.1"),
        (decimal(20, 2), decimal(12, 2), Decimal(10**11), "100000000000.00"),
        (decimal(12, 3), decimal(12, 2), Decimal("0.125"), "0.125"),
        (pa.int64(), decimal(18, 0), 10**18, str(10**18)),
        (pa.float64(), pa.int64(), 1.0, "1.0"),
        (pa.int64(), pa.string(), 5, "5"),
        (pa.binary(), pa.string(), b"x", '"eA=="'),
        (pa.date32(), US, 0, '"1970-01-01"'),
        (US, NTZ, 0, '"1970-01-01T00:00:00.000000Z"'),
        (NTZ, US, 0, '"1970-01-01T00:00:00.000000"'),
        (US, pa.int64(), 0, '"1970-01-01T00:00:00.000000Z"'),
        (pa.int64(), US, 0, "0"),
        (pa.bool_(), pa.string(), True, "true"),
        (pa.struct([("a", pa.int32())]), pa.string(), {"a": 1}, '{"a":1}'),
        (pa.list_(pa.string()), pa.list_(pa.int64()), ["x", None], '["x",null]'),
        (pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.int64())]), [("a", 1)], '{"a":1}'),
    ],
    ids=str,
)
def test_a_type_that_never_fits_is_a_reason_or_rescued(
    kind: pa.DataType, target: pa.DataType, value: Any, rest: str
) -> None:
    """A declared column refuses all of this writer's records, null ones too; another refuses none."""
    reason = one(kind, target, value)
    assert reason.startswith("unresolvable_schema: id 7: $.v") and one(kind, target, None) == reason
    assert one(kind, target, value, free=True) == (None, f'{{"v":{rest}}}')
    assert one(kind, target, None, free=True) == (None, None)


def test_reasons_name_both_types_and_the_way() -> None:
    """Whoever reads one knows which column to declare otherwise."""
    kind = pa.struct([("l", pa.list_(pa.struct([("p", decimal(20, 2))])))])
    schema = pa.schema([("l", pa.list_(pa.field("element", pa.struct([("p", decimal(12, 2))]))))])
    why = "the writer has DECIMAL(20,2), which the column's DECIMAL(12,2) does not hold"
    assert fit(kind, schema, [{"l": []}]).refused == {0: f"unresolvable_schema: id 7: $.l[].p: {why}"}


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, -(2**53) - 1])
def test_an_integer_that_would_be_rounded(value: int) -> None:
    """The one promotion of Avro that may change a value: this record is a dead letter, the others are not."""
    assert one(pa.int64(), pa.float64(), value) == f"inexact: $.v = {value} would be rounded"
    assert one(pa.int64(), pa.float64(), value, free=True) == (None, f'{{"v":{value}}}')


@pytest.mark.parametrize(
    ("kind", "value", "rest"),
    [(US, 2**62, str(2**62)), (NTZ, -62_135_596_800_000_001, "-62135596800000001"), (pa.date32(), 10**8, "100000000")],
    ids=str,
)
def test_years_that_no_table_holds(kind: pa.DataType, value: int, rest: str) -> None:
    """Rescued as numbers, for they have no text that all read alike."""
    assert one(kind, kind, value).startswith("out_of_range: $.v = ")
    assert one(kind, kind, value).endswith("lies outside the years 1 to 9999 in UTC")
    assert one(kind, kind, value, free=True) == (None, f'{{"v":{rest}}}')
    schema, record = pa.schema([("l", pa.list_(kind))]), pa.struct([("l", pa.list_(kind))])
    assert fit(record, schema, [{"l": [0, value]}]).refused[0].startswith("out_of_range: $.l[1] = ")


# --- JSON ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.string(), 'a"b\\c\n\x01\u00e9\x7f', '"a\\"b\\\\c\\n\\u0001\u00e9\x7f"'),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), 1e20, "1e+20"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float32(), -math.inf, '"-Infinity"'),
        (pa.float32(), oracle.rounded(0.1, pa.float32()), "0.1"),
        (decimal(38, 12), Decimal("0.000000000001"), "0.000000000001"),
        (decimal(4, 2), Decimal("1.50"), "1.50"),
        (pa.bool_(), False, "false"),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.date32(), 20_000, '"2024-10-04"'),
        (US, 1_500_000, '"1970-01-01T00:00:01.500000Z"'),
        (NTZ, -1, '"1969-12-31T23:59:59.999999"'),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": None, "b": "x"}, '{"b":"x"}'),
        (pa.struct([("a", pa.int32())]), {"a": None}, "{}"),
        (pa.list_(pa.int32()), [1, None], "[1,null]"),
        (pa.list_(pa.int32()), [], "[]"),
        (pa.map_(pa.string(), pa.int32()), [('k"', None), ("l", 2)], '{"k\\"":null,"l":2}'),
    ],
    ids=str,
)  # fmt: skip
def test_the_json_of_a_value(kind: pa.DataType, value: Any, text: str) -> None:
    """In a column for any JSON and in `_rescued` alike; alone and among others."""
    assert json_text(oracle.arrow([None, value, None, value], kind)).to_pylist() == [None, text, None, text]
    schema = pa.schema([pa.field("v", pa.string(), metadata=JSON_MARK)])
    found = fit(pa.struct([("v", kind), ("u", kind)]), schema, [{"v": value, "u": value}])
    assert (found.columns[0].to_pylist(), found.rescued.to_pylist()) == ([text], [f'{{"u":{text}}}'])


# --- nulls and unknown fields --------------------------------------------------------------------------------


def test_what_is_required_and_null_is_a_reason() -> None:
    """Where the struct that has it is there; a writer without the field has it null."""
    kind = pa.struct([("a", pa.int32()), ("s", pa.struct([("b", pa.bool_())])), ("l", pa.list_(pa.int32()))])
    inner = pa.struct([pa.field("b", pa.bool_(), nullable=False)])
    item = pa.list_(pa.field("element", pa.int32(), nullable=False))
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", inner), ("l", item)])
    good: dict[str, Any] = {"a": 1, "s": {"b": True}, "l": [1]}
    records = [good, {**good, "a": None}, {**good, "s": None}, {**good, "s": {"b": None}}, {**good, "l": [1, None]}]
    found = fit(kind, schema, records)
    assert found.refused == {
        1: "missing_field: $.a is required, but null or missing",
        3: "missing_field: $.s.b is required, but null or missing",
        4: "missing_field: $.l[1] is required, but null",
    }
    assert found.columns[1].to_pylist() == [{"b": True}, None]
    for column in found.columns:
        column.validate(full=True)
    lacks = fit(pa.struct([("x", pa.int32())]), schema, [{"x": 1}])
    assert lacks.refused == {0: "missing_field: $.a is required, but null or missing"}


def test_unknown_fields_are_rescued_in_place() -> None:
    """Objects in objects, arrays position by position; null is absent, and known fields of the routing are known."""
    inner = pa.struct([("a", pa.int32()), ("u", pa.int32())])
    kind = pa.struct([("t", pa.string()), ("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    known = pa.struct([("a", pa.int32())])
    schema = pa.schema([("s", known), ("l", pa.list_(pa.field("element", known))), ("m", pa.map_(pa.string(), known))])
    some, none = {"a": 1, "u": 2}, {"a": 1, "u": None}
    records = [{"t": NAME, "s": some, "l": [none, some, None], "m": [("k", some), ("n", none)]},
               {"t": NAME, "s": none, "l": [none], "m": None}]  # fmt: skip
    routing = replace(PLAIN, type_from=TypeFrom("json", "t"))
    found = fit(kind, schema, records, routing)
    assert found.rescued.to_pylist() == ['{"s":{"u":2},"l":[null,{"u":2},null],"m":{"k":{"u":2}}}', None]
    assert found.columns[1].to_pylist() == [[{"a": 1}, {"a": 1}, None], [{"a": 1}]]
    assert fit(kind, schema, records, replace(routing, unknown_fields="ignore")).ignored.to_pylist() == [3, None]
    refused = fit(kind, schema, records, replace(routing, unknown_fields="dead_letter")).refused
    assert refused == {0: "unknown_field: $.s.u"}


def test_what_nobody_declared_holds_what_fits_member_by_member() -> None:
    """A field and an entry of a map by itself, an array as a whole."""
    mark = evolved_mark("t/0/1")
    inner = pa.struct([("a", pa.int64()), ("b", pa.string())])
    kind = pa.struct([("s", inner), ("m", pa.map_(pa.string(), pa.int64())), ("l", pa.list_(pa.int64()))])
    schema = pa.schema([
        pa.field("s", pa.struct([("a", pa.int64()), ("b", pa.int64())]), metadata=mark),
        pa.field("m", pa.map_(pa.string(), pa.int32()), metadata=mark),
        pa.field("l", pa.list_(pa.float64()), metadata=mark),
    ])  # fmt: skip
    odd = 2**53 + 1
    found = fit(kind, schema, [{"s": {"a": 1, "b": "x"}, "m": [("k", 1), ("n", odd), ("z", None)], "l": [1, odd]}])
    assert [oracle.plain(column)[0] for column in found.columns] == [
        {"a": 1, "b": None}, [("k", 1), ("z", None)], None,
    ]  # fmt: skip
    assert found.rescued.to_pylist() == [f'{{"s":{{"b":"x"}},"m":{{"n":{odd}}},"l":[1,{odd}]}}']
    assert one(pa.float64(), pa.float32(), 0.5, free=True) == (0.5, None)


def test_rows_that_were_not_decoded_keep_their_reason() -> None:
    """And the numbers of the others are those of the batch."""
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    record = oracle.arrow([{"a": 1}, {"a": None}], pa.struct([("a", pa.int64())]))
    typed = Typed(np.array([1, 4]), record, {0: "truncated: $.a"}, 3)
    found = Fit(record.type, TypedAsked.by(NAME, schema, PLAIN)).read(typed)
    reasons = {0: "truncated: $.a", 4: "missing_field: $.a is required, but null or missing"}
    assert (found.rows.to_pylist(), found.refused, found.truncated) == ([1], reasons, 3)


# --- event type and event time -------------------------------------------------------------------------------


def test_a_record_of_another_type_is_refused() -> None:
    """Null among them, and all of a writer that has no such field."""
    routing = replace(PLAIN, type_from=TypeFrom("json", "m.t"))
    kind = pa.struct([("m", pa.struct([("t", pa.string())]))])
    found = fit(kind, pa.schema([]), [{"m": {"t": NAME}}, {"m": {"t": "x"}}, {"m": None}], routing)
    reason = "type_mismatch: the event type was read as 'order' and is another"
    assert found.refused == {1: reason, 2: reason}
    assert fit(pa.struct([("m", pa.struct([("x", pa.string())]))]), pa.schema([]), [{"m": None}], routing).refused
    why = fit(pa.struct([("m", pa.int64())]), pa.schema([]), [{"m": 1}], routing).refused[0]
    assert why == "unresolvable_schema: id 7: $.m: the writer has BIGINT, but the event type stands below it"


def test_event_types_are_peeked() -> None:
    """A type, or why there is none."""
    kind = pa.struct([("m", pa.struct([("t", pa.string())]))])
    record = oracle.arrow([{"m": {"t": "a"}}, {"m": {"t": ""}}, {"m": None}], kind)
    found, why = EventTypeReader(kind, ("m", "t")).peeked(record)
    assert found.to_pylist() == ["a", None, None]
    assert why == {1: "no_type: $.m.t is an empty string", 2: "no_type: $.m.t is null or missing"}


@pytest.mark.parametrize(
    ("kind", "unit", "value", "time"),
    [
        (pa.int64(), "s", AT, AT),
        (pa.int32(), "s", AT, AT),
        (decimal(20, 0), "ms", Decimal(AT * 1000), AT * 1000),
        (US, "ms", AT * 10**6 + 1, AT * 10**6 + 1),
        (US, "iso", AT * 10**6, AT * 10**6),
        (NTZ, "iso", AT * 10**6, AT * 10**6),
        (pa.date32(), "iso", 20_000, 20_000 * 86_400 * 10**6),
        (pa.string(), "iso", "2026-01-31T12:00:00Z", AT * 10**6),
        (pa.int64(), "s", None, None),
    ],
    ids=str,
)
def test_the_event_time(kind: pa.DataType, unit: Any, value: Any, time: Any) -> None:
    """A number of its unit, or an instant whatever the unit is."""
    routing = replace(PLAIN, event_time=replace(ISO, unit=unit))
    found = fit(pa.struct([("at", kind)]), pa.schema([]), [{"at": value}], routing)
    assert found.time is not None and found.time.cast(pa.int64()).to_pylist() == [time]
    assert found.time.type == (pa.int64() if pa.types.is_integer(kind) or pa.types.is_decimal(kind) else US)


TEXTS = ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00.123456789+02:00", "2026-01-31", "2026-01-31T12:00", "x", "",
         "2026-13-01T00:00:00Z", "2026-01-31T12:00:00.5", "2026-01-31T12:00:00+0530",
         "0000-01-01T00:00:00Z", None]  # fmt: skip


def test_texts_are_event_times_as_in_json() -> None:
    """The same texts, the same instants, the same reasons; alone and among others."""
    routing = replace(PLAIN, event_time=ISO)
    kind, schema = pa.struct([("at", pa.string())]), pa.schema([("x", pa.int64())])
    together = fit(kind, schema, [{"at": text} for text in TEXTS], routing)
    for row, text in enumerate(TEXTS):
        value = b"{}" if text is None else f'{{"at":"{text}"}}'.encode()
        by_json = Json().reader(NAME, schema, routing).read(pa.array([value], pa.binary()))
        alone = fit(kind, schema, [{"at": text}], routing)
        assert (alone.refused, alone.time, alone.truncated) == (by_json.refused, by_json.time, by_json.truncated)
        assert together.refused.get(row) == alone.refused.get(0)
    assert together.truncated == 1


@pytest.mark.parametrize(("kind", "unit"), [(pa.string(), "s"), (pa.int64(), "iso"), (pa.float64(), "s")], ids=str)
def test_what_is_no_event_time_refuses_the_writer(kind: pa.DataType, unit: Any) -> None:
    """By its type: a text is no number, a number no text."""
    routing = replace(PLAIN, event_time=replace(ISO, unit=unit))
    reason = fit(pa.struct([("at", kind)]), pa.schema([]), [{"at": None}], routing).refused[0]
    assert reason.startswith("unresolvable_schema: id 7: $.at: the writer has ")


def test_a_number_beyond_64_bits_is_no_event_time() -> None:
    """Of an unsigned integer, which is a decimal here."""
    routing = replace(PLAIN, event_time=replace(ISO, unit="ns"))
    found = fit(pa.struct([("at", decimal(20, 0))]), pa.schema([]), [{"at": Decimal(2**63)}, {"at": None}], routing)
    assert found.refused == {0: f"out_of_range: $.at = {2**63} does not fit 64 bits"} and found.rows.to_pylist() == [1]


@pytest.mark.parametrize(
    ("field", "routing"),
    [
        (pa.field("t", pa.int64()), replace(PLAIN, type_from=TypeFrom("json", "t"))),
        (pa.field("t", pa.string(), metadata=JSON_MARK), replace(PLAIN, type_from=TypeFrom("json", "t"))),
        (pa.field("at", pa.string()), replace(PLAIN, event_time=ISO)),
        (pa.field("at", pa.string()), replace(PLAIN, event_time=replace(ISO, unit="ms"))),
        (pa.field("m", pa.string()), replace(PLAIN, event_time=replace(ISO, path="m.at"))),
    ],
    ids=str,
)
def test_a_declared_column_in_the_way(field: pa.Field, routing: Routing) -> None:
    """It is told before any record; one that nobody declared is never in the way."""
    with pytest.raises(ConfigError):
        TypedAsked.by(NAME, pa.schema([field]), routing)
    assert TypedAsked.by(NAME, pa.schema([field.with_metadata(evolved_mark("t/0/1"))]), routing)


# --- several writers -----------------------------------------------------------------------------------------


def test_readings_of_several_writers_are_one() -> None:
    """In the order of the rows, numbers and instants side by side, each judged as it would be alone."""
    routing = replace(PLAIN, event_time=replace(ISO, unit="ms"))
    schema = pa.schema([("id", pa.int64())])
    kinds = [pa.struct([("id", pa.int32()), ("at", pa.int64())]), pa.struct([("id", pa.int64()), ("at", US)])]
    values = [[{"id": 0, "at": AT * 1000}, {"id": 2, "at": 0}], [{"id": 1, "at": AT * 10**6}, {"id": 3, "at": 0}]]
    reads = [
        Fit(kind, TypedAsked.by(NAME, schema, routing)).read(Typed(np.array([at, at + 2]), oracle.arrow(part, kind)))
        for at, (kind, part) in enumerate(zip(kinds, values, strict=True))
    ]
    whole = joined(reads)
    assert whole.rows.to_pylist() == whole.columns[0].to_pylist() == [0, 1, 2, 3]
    assert whole.time is not None and whole.time.type == MIXED
    kafka = pa.array([AT * 10**6] * 4, US)
    times, inside, late = EventTimes(routing).check(whole.time, kafka)
    assert inside.to_pylist() == [True, True, False, False]
    assert times.cast(pa.int64()).to_pylist() == [AT * 10**6, AT * 10**6, 0, 0]
    for read, rows in zip(reads, ([0, 2], [1, 3]), strict=True):
        assert read.time is not None
        assert EventTimes(routing).check(read.time, kafka.slice(0, 2))[2] == {1: late[rows[1]]}
