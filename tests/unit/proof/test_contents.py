"""Whole contents, without Spark: what a row must be of a value, and that one changed, lost or moved value is found."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.proof.contents.compare import Configured, Difference
from exporter.proof.contents.documents import NotJson, equal, read
from exporter.proof.contents.scalars import same_in
from exporter.proof.contents.times import days, micros


def column(name: str, kind: Any, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapped(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


def routing_of(*declared: dict[str, Any], **changed: Any) -> Routing:
    """Type in the header, event time the Kafka timestamp, unless it is said otherwise."""
    said = {"type_from": TypeFrom("header", "t"), "event_time": EventTime("record"), **changed}
    return Routing(types=(("a", json.dumps(record(*declared))),), **said)


def differences(
    declared: list[Any], sent: Any, held: Any, rescued: Any = None, *, table: list[Any] | None = None, **changed: Any
) -> list[Difference]:
    """Of one row. sent: JSON text or a value; table: its columns, unless they are the declared ones."""
    at = changed.pop("at", None)
    form = Configured.of(routing_of(*declared, **changed), "a", json.dumps(record(*(table or declared))))
    text = sent if isinstance(sent, str) else json.dumps(sent)
    rest = rescued if rescued is None or isinstance(rescued, str) else json.dumps(rescued)
    return form.differences(text.encode(), held, rest, at)


def places(*given: Any, **named: Any) -> list[str]:
    return [one.path for one in differences(*given, **named)]


# --- scalars -------------------------------------------------------------------------------------


TYPED = [
    ("string", '"é\\n"', "é\n", "é"),
    ("long", "9223372036854775807", 2**63 - 1, 2**63 - 2),
    ("integer", "-0", 0, 1),
    ("long", "1", 1, True),
    ("boolean", "true", True, 1),
    ("double", "0.1", 0.1, 0.2),
    ("double", "18446744073709551617", 2.0**64, 2.0**65),
    ("double", "-0.0", 0.0, 1e-300),
    ("double", "1E400000", 1.0, 2.0),
    ("float", "0.1", struct.unpack("f", struct.pack("f", 0.1))[0], 0.1),
    ("float", "1e-400000", 0.0, 1e-45),
    ("decimal(10,2)", "1.50", "1.5", "1.51"),
    ("decimal(10,2)", '"15e-1"', "1.50", "1.49"),
    ("decimal(38,0)", "12345678901234567890123456789012345678", "12345678901234567890123456789012345678", "1"),
    ("date", '"1969-12-31"', -1, 0),
    ("timestamp", '"1970-01-01T00:00:00.000001Z"', 1, 0),
    ("timestamp", '"1970-01-01T02:00:00.123456789+02:00"', 123_456, 123_457),
    ("timestamp", '"1970-01-01 00:00"', 0, 60_000_000),
    ("timestamp", '"1969-12-31T23:30-0030"', 0, 1),
    ("timestamp_ntz", '"0000-01-01"', -62_167_219_200_000_000, 0),
    ("binary", '"AP8="', b"\x00\xff", b"\x00\xfe"),
]


@pytest.mark.parametrize(("kind", "sent", "held", "other"), TYPED)
def test_a_column_holds_what_its_type_makes_of_the_value(kind: str, sent: str, held: Any, other: Any) -> None:
    """One value of each type as it is stored, and another that is not it."""
    beyond = sent == "1E400000"
    assert places([column("x", kind)], f'{{"x": {sent}}}', {"x": held}) == (["$.x"] if beyond else [])
    assert places([column("x", kind)], f'{{"x": {sent}}}', {"x": other}) == ["$.x"]
    assert places([column("x", kind)], f'{{"x": {sent}}}', {}) == ["$.x"]
    assert places([column("x", kind)], '{"x": null}', {"x": held}) == ["$.x"]
    assert places([column("x", kind)], '{"x": [1]}', {"x": held}) == ["$.x"]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3))
def test_the_nearest_of_32_bits_is_a_float(number: float, away: int) -> None:
    """A number between two floats belongs to the nearer one, wherever a double would round, and never to a third."""
    bits = struct.unpack("i", struct.pack("f", number))[0]
    same = same_in("float", "float", evolved=False)
    following, third = (struct.unpack("f", struct.pack("i", bits + n))[0] for n in (1, 2))
    assume(same is not None and math.isfinite(following) and math.isfinite(third))
    middle = (Decimal(number) + Decimal(following)) / 2
    sent = middle + (Decimal(number) - Decimal(following)) * away / Decimal(2**40)
    assert same(sent, number) or away <= 0
    assert same(sent, following) or away >= 0
    assert not same(sent, third)


@given(st.dates())
def test_days_are_those_of_the_calendar(day: Any) -> None:
    """As Python counts them, from year 1 on; and the year before has 366."""
    assert days(day.year, day.month, day.day) == day.toordinal() - 719_163
    assert days(0, 1, 1) == days(1, 1, 1) - 366


def test_other_texts_are_no_times() -> None:
    """What is no ISO time is never the time that a row has."""
    assert [micros(text) for text in ("", "1970", "1970-01-01T", "1970-01-01T00:00:00.Z", "now")] == [None] * 5


def test_a_widened_column_is_compared_as_it_was_declared() -> None:
    """What an earlier configuration declared narrower is compared by value; another type is not compared at all."""
    for declared, stored, sent, held, other in (
        ("integer", "long", 7, 7, 8),
        ("integer", "double", 7, 7.0, 7.5),
        ("long", "decimal(20,0)", 7, "7", "8"),
        ("float", "double", 0.1, struct.unpack("f", struct.pack("f", 0.1))[0], 0.1),
        ("decimal(5,2)", "decimal(12,4)", 1.5, "1.5000", "1.5001"),
        ("date", "timestamp_ntz", "1970-01-02", 86_400_000_000, 86_400_000_001),
    ):
        here = {"table": [column("x", stored)]}
        assert places([column("x", declared)], {"x": sent}, {"x": held}, **here) == []
        assert places([column("x", declared)], {"x": sent}, {"x": other}, **here) == ["$.x"]
    assert places([column("x", "long")], {"x": 1}, {"x": "one"}, table=[column("x", "string")]) == []
    assert places([column("x", "long")], {"x": 1}, {}, table=[column("y", "long")]) == []


# --- documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", '{"a":1,"a":1}', "[NaN]", "[-Infinity]", '{"a":1}x', b"\xff"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    """A key that occurs twice makes it none, at any level."""
    with pytest.raises(NotJson):
        read(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1.0", True), ("1e2", "100", True), ("0.1", "0.10", True), ("0.1", "0.1000000000000000001", False),
        ("1", "true", False), ("0", "false", False), ('"1"', "1", False), ("[null]", "[]", False),
        ('{"a":null}', "{}", True), ("[{}]", "[null]", False), ('{"a":[1,{"b":2}]}', '{"a":[1,{"b":2.0}]}', True),
        ("1e99999999999999999999", "1e99999999999999999999", True), ("9" * 5_000, "9" * 5_000, True),
        ("9" * 5_000, "9" * 4_999 + "8", False), ("1e400000", "10e399999", True),
    ],
)  # fmt: skip
def test_documents_are_equal_by_value(one: str, other: str, same: bool) -> None:
    """Numbers by value, exactly; null is absent in objects and a position in arrays."""
    assert equal(read(one), read(other)) is same


# --- rows ----------------------------------------------------------------------------------------


def test_what_no_column_holds_is_in_rescued() -> None:
    """At the top, in structs and in arrays by position; numbers by value, null as absent."""
    declared = [column("a", record(column("x", "long"))), column("l", array(record(column("x", "long"))))]
    sent = {"a": {"x": 1, "y": 2.50}, "l": [{"x": 1}, None, {"z": "t"}], "u": {"v": [1, None], "n": None}}
    held = {"a": {"x": 1}, "l": [{"x": 1}, None, {}]}
    rest = '{"a":{"y":2.5},"l":[null,null,{"z":"t"}],"u":{"v":[1,null]}}'
    assert places(declared, sent, held, rest) == []
    for spoilt in ('"y":2.4', '"y":"2.5"', '"w":2.5'):
        assert "$.a.y" in places(declared, sent, held, rest.replace('"y":2.5', spoilt))
    assert places(declared, sent, held, rest.replace('"z":"t"', '"z":"u"')) == ["$.l[2].z"]
    assert places(declared, sent, held, rest.replace("[1,null]", "[1]")) == ["$.u.v"]
    assert places(declared, sent, held, rest.replace("[null,null,{", "[null,{")) == ["$.l"]
    assert sorted(places(declared, sent, held)) == ["$.a.y", "$.l[2].z", "$.u"]


def test_a_value_stands_in_one_place_only() -> None:
    """In a column and in `_rescued` as well it is a finding, even if both are right."""
    assert places([column("x", "long")], {"x": 1}, {"x": 1}, {"x": 1}) == ["$.x"]
    assert places([column("x", "long")], {"x": 1}, {"x": 1}, {"y": 1}) == ["$.y"]
    assert places([column("x", "long")], {"x": 1}, {"x": 1}, [1]) == ["$"]


def test_fields_of_the_type_and_the_time_may_be_nowhere() -> None:
    """If no column is declared for them, and something is; the time must then stand in `_event_time`."""
    how: dict[str, Any] = {"type_from": TypeFrom("json", "m.type"), "event_time": EventTime("json", "m.at", "ms")}
    sent = {"m": {"type": "a", "at": 5, "u": 1}, "x": 1}
    assert places([column("x", "long")], sent, {"x": 1}, {"m": {"u": 1}}, at=5_000, **how) == []
    assert places([column("x", "long")], sent, {"x": 1}, {"m": {"u": 1}}, at=None, **how) == []
    assert places([column("x", "long")], sent, {"x": 1}, {"m": {"u": 1}}, at=5_001, **how) == ["$.m.at"]
    assert places([column("x", "long")], sent, {"x": 1}, {}, at=5_000, **how) == ["$.m"]
    assert places([column("x", "long")], {**sent, "m": {"type": "a", "at": 5}}, {"x": 1}, None, **how) == []
    typed = [column("m", record(column("type", "string")))]
    assert places(typed, {"m": {"type": "a", "at": 5}}, {"m": {"type": "a"}}, **how) == []
    assert places(typed, {"m": {"type": "a", "at": 5}}, {"m": {}}, **how) == ["$.m.type"]
    assert places([], sent, {}, sent, at=5_000, **how) == [], "a type without columns has all of it"
    assert places([], sent, {}, {"m": {"u": 1}, "x": 1}, **how) == ["$.m.type", "$.m.at"]


def test_what_is_ignored_may_be_nowhere() -> None:
    """With unknown_fields = "ignore", at every level; a declared column must hold its value all the same."""
    declared = [column("a", record(column("x", "long")))]
    sent = {"a": {"x": 1, "y": 2}, "u": 3}
    assert places(declared, sent, {"a": {"x": 1}}, unknown_fields="ignore") == []
    assert places(declared, sent, {"a": {}}, unknown_fields="ignore") == ["$.a.x"]
    assert places(declared, sent, {}, unknown_fields="ignore") == ["$.a"]
    assert places([], sent, {}, unknown_fields="ignore") == ["$.a", "$.u"], (
        "nothing is unknown to a type without columns"
    )


def test_columns_of_users_are_not_compared() -> None:
    """At the top and in structs; the record's value of that name is in `_rescued`."""
    declared = [column("a", record(column("x", "long")))]
    table = [column("a", record(column("x", "long"), column("mine", "long"))), column("theirs", "string")]
    sent = {"a": {"x": 1, "mine": 2}, "theirs": 3}
    held = {"a": {"x": 1, "mine": 77}, "theirs": "t"}
    assert places(declared, sent, held, {"a": {"mine": 2}, "theirs": 3}, table=table) == []
    assert places(declared, sent, held, {"a": {"mine": 2}}, table=table) == ["$.theirs"]


def test_any_json_is_compared_as_json() -> None:
    """As sent or in another form; where metadata says so, in arrays and maps too."""
    declared = [
        column("j", "string", **{JSON_TEXT: "."}),
        column("l", array("string"), **{JSON_TEXT: "element"}),
        column("m", mapped(array("string")), **{JSON_TEXT: "value.element"}),
        column("s", record(column("j", "string", **{JSON_TEXT: "."}), column("t", "string"))),
    ]
    sent = {"j": [1.0, "é"], "l": ["t", 1, None], "m": {"k": [{"a": 1}]}, "s": {"j": "t", "t": "1"}}
    held = {
        "j": '[1.00, "\\u00e9"]', "l": ['"t"', "1", None], "m": {"k": ['{"a" : 1}']}, "s": {"j": '"t"', "t": "1"},
    }  # fmt: skip
    assert places(declared, sent, held) == []
    assert places(declared, sent, {**held, "j": '[1.01,"é"]'}) == ["$.j"]
    assert places(declared, sent, {**held, "j": "[1.0"}) == ["$.j"]
    assert places(declared, sent, {**held, "l": ["t", "1", None]}) == ["$.l[0]"]
    assert places(declared, sent, {**held, "m": {"k": ['{"a":2}']}}) == ["$.m.k[0]"]
    assert places(declared, sent, {**held, "s": {"j": "t", "t": "1"}}) == ["$.s.j"]


def test_an_evolved_column_may_leave_a_value_in_rescued() -> None:
    """It holds the value or is null, whatever the type; a whole number that a double would round never is in it."""
    table = [column("x", "double", **{EVOLVED: "t/0/1"}), column("s", record(column("y", "long")), **{EVOLVED: ""})]
    assert places([], {"x": "t", "s": {"y": "u"}}, {"s": {}}, {"x": "t", "s": {"y": "u"}}, table=table) == []
    assert places([], {"x": 0.1, "s": {"y": 1}}, {"x": 0.1, "s": {"y": 1}}, table=table) == []
    assert places([], {"x": 2**53 + 1}, {"x": 2.0**53}, table=table) == ["$.x"]
    assert places([], {"x": 2**53 + 1}, {}, {"x": 2**53 + 1}, table=table) == []
    assert places([], {"x": 1}, {}, table=table) == ["$.x"]


def test_a_declared_column_may_leave_in_rescued_what_it_cannot_hold() -> None:
    """As a partition column does with an empty text, whatever becomes of unknown fields."""
    for policy in ("rescue", "ignore"):
        assert places([column("c", "string")], {"c": ""}, {}, {"c": ""}, unknown_fields=policy) == []
        assert places([column("c", "string")], {"c": ""}, {}, unknown_fields=policy) == ["$.c"]


EMPTY = [None, {}, [], [None], [[], {}], {"a": None}, {"a": {"b": [{}, [None]]}, "": []}]
FULL = ["", 0, False, "null", "{}", [""], {"a": [{"b": None}, {"c": 0}]}, [[], [[False]]]]


@pytest.mark.parametrize("sent", EMPTY)
def test_without_rescued_nothing_that_is_empty_is_missed(sent: Any) -> None:
    """Where no column holds it: in one that nobody declared, in the fields of one, in a type without any."""
    grown = [column("x", "long", **{EVOLVED: "t/0/1"})]
    assert places([column("x", "long")], {"x": 1, "u": sent, "v": sent}, {"x": 1}) == []
    assert places([], {"x": sent}, {}, table=grown) == [] == places([], {"x": sent}, {})
    struct = [column("s", array(record(column("x", "long"))))]
    assert places(struct, {"s": [{"x": 1, "u": sent}]}, {"s": [{"x": 1}]}) == []
    how = {"type_from": TypeFrom("json", "m.type")}
    assert places([column("x", "long")], {"x": 1, "m": {"type": "a", "u": sent}}, {"x": 1}, **how) == []
    assert places([column("x", "long")], {"x": 1, "u": sent}, {"x": 1}, {"u": sent}) == [], "it may be there"


@pytest.mark.parametrize("sent", EMPTY[1:])
def test_what_is_empty_is_missed_beside_a_rescued_value_and_in_a_declared_column(sent: Any) -> None:
    """`_rescued` is whole or null; and a column that the settings name holds what was sent."""
    assert places([column("x", "long")], {"u": sent, "v": 1}, {}, {"v": 1}) == ["$.u"]
    assert places([column("x", "long")], {"x": sent}, {}) == ["$.x"]


@pytest.mark.parametrize("sent", FULL)
def test_a_value_that_is_not_empty_is_always_missed(sent: Any) -> None:
    """However deep among empty ones it stands."""
    for where in (sent, [None, sent], {"a": {}, "b": {"c": [[], sent]}}):
        assert places([column("x", "long")], {"x": 1, "u": where}, {"x": 1}) == ["$.u"]
        assert places([], {"x": where}, {}, table=[column("x", "long", **{EVOLVED: "t/0/1"})]) == ["$.x"]


@pytest.mark.parametrize(
    ("kind", "sent", "held", "told"),
    [
        ("string", "sent", "held", ('"sent"', '"held" as string')),
        ("string", "x" * 50, "\n", (f'"{"x" * 40}"... (50 characters)', '"\\n" as string')),
        ("long", 1, 2, ("1", "2 as long")),
        ("double", 1.5, 2.5, ("1.5", "2.5 as double")),
        ("boolean", True, False, ("true", "false as boolean")),
        ("date", "2025-03-09", 1, ('"2025-03-09"', "1970-01-02 as date")),
        ("date", "2025-03-09", -10_000_000, ('"2025-03-09"', "-10000000 days since 1970 as date")),
        ("timestamp", "2025", 1, ('"2025"', "1970-01-01T00:00:00.000001Z as timestamp")),
        ("timestamp", "2025", -(2**62), ('"2025"', "-4611686018427387904 us since 1970 as timestamp")),
        ("binary", "AQI=", b"\x01\x03", ('"AQI="', "0x0103 as binary")),
        ("binary", "AQI=", bytes(21), ('"AQI="', f"0x{'0' * 40}... (21 bytes) as binary")),
        ("decimal(38,0)", 10**50, Decimal(7), (f"1{'0' * 39}... (51 characters)", "7 as decimal(38,0)")),
    ],
)  # fmt: skip
def test_a_difference_tells_both_values_and_of_a_long_one_the_beginning(
    kind: str, sent: Any, held: Any, told: tuple[str, str]
) -> None:
    """A person sees at once what is wrong; no report holds a whole document, and nothing that moves a cursor."""
    assert differences([column("x", kind)], {"x": sent}, {"x": held}) == [("$.x", *told)]


def test_a_difference_tells_how_much_is_in_what_has_parts() -> None:
    """Of an object and an array; what is in `_rescued` is said to be there."""
    (found,) = differences([column("x", "string")], {"u": {"a": "sent"}}, {}, {"u": {"a": ["held"]}})
    assert found == ("$.u.a", '"sent"', "an array of 1 in `_rescued`")
    (found,) = differences([column("x", "string")], {"x": {"a": 1, "b": 2}}, {"x": "held"})
    assert found == ("$.x", "an object of 2", '"held" as string')


@pytest.mark.parametrize(
    ("value", "rescued"), [(b"x", None), (b"[1]", None), (b"{}", "{")]
)
def test_what_cannot_be_read_is_one_difference(value: bytes, rescued: str | None) -> None:
    """Of a record that is no object, and of a row that is broken."""
    form = Configured.of(routing_of(), "a", json.dumps(record()))
    assert [one.path for one in form.differences(value, {}, rescued, None)] == ["$"]
    assert [one.path for one in form.differences(None, {}, rescued, None)] == ["$"]
