"""What a DuckDB calls right is right by the comparison of whole contents, whatever the value, the row and the text."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporter.core.record_columns import RecordColumns
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.operate.audit.plain import Plain
from exporter.operate.audit.records import AuditedRecord
from exporter.operate.audit.rows import AuditedTable, TableRows
from exporter.proof.contents.compare import Configured
from offsets.ranges import TopicPartition
from tests.unit.proof.test_contents_found import NAMES, SCALARS, drawn, leaves, other, put

TP, US = TopicPartition("t", 0), 1_741_608_000_000_000
OURS = [("_kafka", {"type": "struct", "fields": []}), ("_event_time", "timestamp"), ("_rescued", "string")]


def routing_of(declared: list[Any] | None, **changed: Any) -> Routing:
    """Type in the header, event time the record's, unless it is said otherwise. declared: None: the type is new."""
    types = () if declared is None else (("a", json.dumps({"type": "struct", "fields": declared})),)
    said: dict[str, Any] = {"type_from": TypeFrom("header", "t"), "event_time": EventTime("record"), **changed}
    made = Routing(types=types, new_type="table", **said)
    return replace(made, decoder_version=made.decoder_here)


def right(routing: Routing, columns: list[Any], *rows: tuple[Any, ...], **said: Any) -> list[bool]:
    """Which rows are called right. columns: of their table, beside those of each. rows: value, columns, `_rescued`.

    said: of the row, what is not of the record.
    """
    ours = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in OURS]
    whole = json.dumps({"type": "struct", "fields": [*ours, *columns, {"name": "day", "type": "date", "metadata": {}}]})
    table = AuditedTable("a", 1, whole, [*dict(routing.types).values()], ("day",), RecordColumns())
    at = said.get("at", US)
    own, records = [], []
    for offset, (text, held, rescued) in enumerate(rows):
        kafka = {"topic": "t", "partition": 0, "offset": offset, "epoch": 0, "timestamp": said.get("us", US)}
        day = said.get("day", at // 86_400_000_000)
        own.append({**held, "_kafka": kafka, "_event_time": at, "_rescued": rescued, "day": day})
        value = text.encode() if isinstance(text, str) else text
        records.append(AuditedRecord(TP, offset, US, b"k", value, len(value), [{"key": "t", "value": b"a"}]))
    parts = [pa.array([one.get(field.name) for one in own], field.type) for field in table.schema]
    held_rows, numbers = TableRows(table, pa.table(parts, schema=table.schema), ("t",), {}, {}), [*range(len(rows))]
    found = Plain(routing, [table]).right(records, [(held_rows, numbers, numbers)])
    return [at in found for at in numbers]


def is_clean(routing: Routing, columns: list[Any], text: Any, held: dict[str, Any], rescued: str | None) -> bool:
    """By the comparison of whole contents."""
    form = Configured.of(routing, "a", json.dumps({"type": "struct", "fields": columns}))
    value = text.encode() if isinstance(text, str) else text
    return not form.differences(value, held, rescued, None)


PLAIN_KINDS = st.recursive(
    st.sampled_from([*SCALARS]),
    lambda inner: (
        st.tuples(st.just("array"), inner)
        | st.tuples(st.just("struct"), st.dictionaries(NAMES, inner, min_size=1, max_size=3))
    ),
    max_leaves=4,
)
def test_what_is_called_right_is_right() -> None:
    """A right row, and those with another value, or none, somewhere; what is unknown in the value left out, or not."""
    seen = {True: 0, False: 0}

    @settings(max_examples=150)
    @given(drawn(PLAIN_KINDS))
    def compare(one: Any) -> None:
        routing, columns, text, stands = one
        known = {name: value for name, value in json.loads(text).items() if name in {one["name"] for one in columns}}
        rows = [(text, stands), (json.dumps(known), {**stands, "r": None})]
        for sent, row in [*rows]:
            for path, value in leaves(row):
                rows += [(sent, put(row, path, new)) for new in (other(value), None)]
        asked = [(sent, row["c"], None if row["r"] is None else json.dumps(row["r"])) for sent, row in rows]
        try:
            found = right(routing, columns, *asked)
        except (pa.ArrowInvalid, OverflowError):  # another value may be none of the column's
            return
        for says, row in zip(found, asked, strict=True):
            seen[says] += 1
            assert not says or is_clean(routing, columns, *row), row

    compare()
    assert seen[True] > 30 and seen[False] > 100, seen


COLUMN = {"nullable": True, "metadata": {}}
INNER = [{"name": "x", "type": "long", **COLUMN}, {"name": "y", "type": "string", **COLUMN}]
PRICE = {"name": "p", "type": "decimal(4,2)", **COLUMN}
NESTED = {
    "struct": {"type": "struct", "fields": INNER},
    "array": {"type": "array", "elementType": "string", "containsNull": True},
    "map": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    "doubles": {"type": "array", "elementType": "double", "containsNull": True},
    "prices": {"type": "array", "elementType": "decimal(15,2)", "containsNull": True},
    "long prices": {"type": "array", "elementType": "decimal(20,18)", "containsNull": True},
    "items": {"type": "array", "elementType": {"type": "struct", "fields": [PRICE, INNER[1]]}, "containsNull": True},
    "rates": {"type": "map", "keyType": "string", "valueType": "decimal(3,2)", "valueContainsNull": True},
}
KINDS: dict[str, list[Any]] = {
    "long": [0, 1, -5, 2**63 - 1], "double": [0.0, 1.0, 0.1, 1e300, float("nan"), float("inf")], "float": [0.5, 1.0],
    "string": ["a", "", "1", "é", "null", "{}", "\n", '"'], "boolean": [True, False], "date": [0, 20_000],
    "timestamp": [0, 1_741_608_000_000_000], "integer": [1], "doubles": [[float("nan")], [1.0]],
    "struct": [{"x": None, "y": None}, {"x": 1, "y": None}, {"x": None, "y": "a"}, {"x": 1, "y": "a"}],
    "array": [["a"], [], ["a", None]], "binary": [b"", b"ab"], "map": [[("x", 1)], [], [("y", None), ("x", 1)]],
    "decimal(10,2)": [Decimal("1.00"), Decimal("0.10"), Decimal("0.11"), Decimal("-5.00")],
    "decimal(4,0)": [Decimal(1)],
    "prices": [[], [Decimal("0.11")], [Decimal("9.99"), None], [Decimal("0.00")], [Decimal("10.00")]],
    "items": [[{"p": Decimal("9.99"), "y": "1e5"}], [{"p": None, "y": None}]], "rates": [[("x", Decimal("0.11"))]],
}  # fmt: skip
VALUES = [
    '"1.00"', '"0.1"', "0.11", "0.105", "1.005", "-5.0", '"-5"', '"YWI="', '"YWI"', '{"y":null,"x":1}', "0.110",
    "[0.11]", "[0.110]", "[0.110000000000000001]", "[9.99,null]", "[9.990000000000000001,null]", "[999e-2,null]",
    "[1e-400]", "[0.0]", "[0]", "[10]", "[10.0]", "[10.00]", '["0.11"]', '[{"p":9.99,"y":"1e5"}]', '{"x":0.11}',
    '[{"p":9.99,"y":"1.0000000000000001"}]', '[{"p":9.9900000000000001,"y":"1e5"}]', '[{"p":null,"y":null}]',
    '{"x":0.1100000000000000001}', '{"x":11e-2}',
    "1.0e0", "[NaN]", "[1]", "[1.0]", "9007199254740993",
    "null", "0", "-0", "1", "1.0", "-5", "1e0", "9223372036854775807", "9223372036854775808", "0.1", "0.10", "NaN",
    "Infinity", "1e300", "1.00000000000000000001", "0.1000000000000000055", '"a"', '"\\u0061"', '""', '"1"', '"é"',
    '"\\u00e9"', '"null"', '"{}"', '"\\n"', '"\\""', "true", "false", '"true"', '"1970-01-01"', '"2024-10-04"',
    '"1970-01-01T00:00:00Z"', '"2025-03-10T12:00:00Z"', '"2025-03-10T13:00:00.000000+01:00"',
    '"2025-03-10T12:00:00.0000001Z"', '"2025-3-10T12:00:00Z"', "{}", "[]", '["a"]', '["a",]', '["a",null]',
    '{"x":1}', '{"x":1,"y":null}', '{"x":1,"x":1}', '{"x":1,"z":null}', '{"y":"a","x":1}', '{"x":"1","y":"a"}',
    '{"x":1,"y":"a",}', "1,", "01", "+1", ".5", "'a'", "nan", "-Infinity",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_beside_every_value(kind: str) -> None:
    """Whatever JSON, or none, stands for a column: what is called right is right, and some are."""
    columns = [{"name": "c", "type": NESTED.get(kind, kind), **COLUMN}]
    routing = routing_of(columns)
    shapes = ('{"c":%s}', '{"c":%s,"c":%s}', '{"d":%s}', ' { "c" : %s }', '{"c":%s}x', '{"c":%s,"d":{"c":0.10}}')
    held = [{"c": value} for value in (None, *KINDS[kind])]
    asked = [(shape.replace("%s", text), one, None) for shape in shapes for text in VALUES for one in held]
    found = [row for row, says in zip(asked, right(routing, columns, *asked), strict=True) if says]
    plain = [(text, {"c": dict(held["c"])} if kind in ("map", "rates") and held["c"] is not None else held, rest)
             for text, held, rest in found]  # fmt: skip
    assert [row for row in plain if not is_clean(routing, columns, *row)] == []
    assert any(held["c"] is not None for _, held, _ in found)
    for row in found[::5]:
        assert right(routing, columns, row) == [True], "alone as in a batch"


@pytest.mark.parametrize("text", ["0.11", "0.110000000000000001"])
def test_decimals_in_arrays_that_doubles_do_not_tell_apart_are_looked_at(text: str) -> None:
    """The engine has a number in an array as the nearest double alone."""
    columns = [{"name": "c", "type": NESTED["long prices"], **COLUMN}]
    held = {"c": [Decimal("0.11").quantize(Decimal("1e-18"))]}
    assert right(routing_of(columns), columns, (f'{{"c":[{text}]}}', held, None)) == [False]


@settings(max_examples=60)
@given(st.text('{}[]",:c1 .e-\\u0', max_size=12) | st.binary(max_size=6))
@example('{"c":"a",}')
@example(b'{"c":"\xff"}')
@example('{"c":"\t"}')
@example('{"c":"\\ud800"}')
def test_any_text(text: Any) -> None:
    """Also none of JSON."""
    for kind, values in (("string", ["a", "", "\t", "\ufffd"]), ("long", [1, 0])):
        columns = [{"name": "c", "type": kind, **COLUMN}]
        asked = [(text, {"c": value}, None) for value in [None, *values]]
        for says, row in zip(right(routing_of(columns), columns, *asked), asked, strict=True):
            assert not says or is_clean(routing_of(columns), columns, *row), row


def test_a_column_that_was_added_holds_no_number_that_is_not_the_value_s() -> None:
    """A whole number that a double does not hold stays in `_rescued` there; declared, the column holds the nearest."""
    added = [{"name": "c", "type": "double", "nullable": True, "metadata": {"exporter.evolved": "t/0/0"}}]
    declared = [{"name": "c", "type": "double", **COLUMN}]
    near = ('{"c":9007199254740993}', {"c": 9007199254740992.0}, None)
    exact = ('{"c":4503599627370497}', {"c": 4503599627370497.0}, None)
    assert right(routing_of([]), added, near, exact) == [False, True]
    assert right(routing_of(declared), declared, near, exact) == [True, True]


@pytest.mark.parametrize("kind", ["long", "double", "string", "boolean", "array", "doubles", "items"])
def test_every_text_beside_every_value_of_a_type_that_nobody_declared(kind: str) -> None:
    """Its columns were all added; what says its type and its time is kept as well, there or in `_rescued`."""
    added = {"nullable": True, "metadata": {"exporter.evolved": "t/0/0"}}
    columns = [{"name": "c", "type": NESTED.get(kind, kind), **added}]
    held = [{"c": value} for value in (None, *KINDS[kind])]
    shapes = ('{"c":%s}', '{"c":%s,"c":%s}', '{"d":%s}', '{"t":"a","c":%s}')
    for says in TypeFrom("header", "t"), TypeFrom("json", "t"):
        routing = routing_of(None, type_from=says)
        asked = [(shape.replace("%s", text), one, rest) for shape in shapes for text in VALUES for one in held
                 for rest in (None, '{"t":"a"}')]  # fmt: skip
        found = [row for row, says in zip(asked, right(routing, columns, *asked), strict=True) if says]
        assert [row for row in found if not is_clean(routing, columns, *row)] == []
        assert says.kind == "json" or any(one["c"] is not None for _, one, _ in found)
    typed = [*columns, {**columns[0], "name": "t", "type": "string"}]
    whole = '{"t":"a","c":null}', {"c": None, "t": "a"}, None
    assert right(routing_of(None, type_from=TypeFrom("json", "t")), typed, whole) == [True]


def test_what_a_row_says_of_its_record_must_be_right_as_well() -> None:
    """Its type, timestamp, event time and day, and that nothing is left over."""
    columns = [{"name": "id", "type": "long", **COLUMN}]
    timed = routing_of(columns, type_from=TypeFrom("json", "type"), event_time=EventTime("json", "ts", "iso"))
    text, at = '{"type":"a","ts":"2025-03-10T12:00:00Z","id":1}', 1_741_608_000_000_000
    fine = text, {"id": 1}, None
    assert right(timed, columns, fine, at=at) == [True]
    assert right(timed, columns, fine, at=at + 1) == right(timed, columns, fine, at=at, us=US + 1000) == [False]
    assert right(timed, columns, fine, at=at, day=20_000) == [False]
    wrong = [
        (text, {"id": 1}, "{}"), (text, {"id": None}, None), (text.replace('"a"', '"b"'), {"id": 1}, None),
        (text.replace("}", ',"more":1}'), {"id": 1}, None),
    ]  # fmt: skip
    assert right(timed, columns, *wrong, fine, at=at) == [*[False] * len(wrong), True]
    numbers = routing_of(columns, event_time=EventTime("json", "ts", "ms"))
    some = [('{"ts":1741608000000,"id":1}', {"id": 1}, None), ('{"ts":"1741608000000","id":1}', {"id": 1}, None)]
    assert right(numbers, columns, *some, at=at) == [True, False]
