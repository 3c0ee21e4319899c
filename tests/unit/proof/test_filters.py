"""The audit's own evaluation of filters: what it makes of a value is what the exporter makes of it, or it says nothing.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from exporter.formats.decoder import Decoder
from exporter.proof.codes import DEAD_LETTER, EITHER, sifted
from exporter.proof.contents.documents import NotJson, read
from exporter.proof.rules import functions
from exporter.proof.rules.expressions import evaluated
from exporter.proof.rules.filters import Filter
from exporter.proof.rules.sights import SqlSight
from exporter.proof.rules.values import Unsure, sql_of

CODE = 4
RECORD = {
    "topic": "t", "partition": 3, "offset": 7, "timestamp": 1_741_608_000_000_000, "key": b"k",
    "headers": [{"key": "h", "value": b"1"}],
}  # fmt: skip
INNER = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]}
KINDS: list[Any] = [
    "string", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal(5,2)", "decimal(38,0)", "date",
    "timestamp", "timestamp_ntz", "binary", INNER,
    {"type": "array", "elementType": "long", "containsNull": True},
    {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True},
]  # fmt: skip
TEXTS = [
    "null", "0", "-0", "1", "-1", "127", "128", "-129", "65536", "9223372036854775807", "9223372036854775808", "1.0",
    "1.5", "0.1", "-0.0", "1e3", "1E-3", "1e400", "16777217", "0.100000001490116119384765625", "1.005", "123.45",
    "1234.5", "1e38", "true", "false", '""', '"a"', '"\\u00e9\\n"', '"\\ud83d"', '"1.50"', '"1.505"', '"12"', '" 1"',
    '"AP8="', '"AP8"', '"2024-02-29"', '"2023-02-29"', '"2024-02-29T10:00:00Z"',
    '"2024-02-29T24:00:00Z"', '"0001-01-01"', '"2024-02-29T10:00:00.123456789+02:00"',
    '"2024-02-29T10:00:00.1234"', '"2024-02-29 10:00:00"', '"0000-01-01"',
    '"2024-02-29T10:00:00.5-05:30"', '"2024-02-29T10:00"', "[]", "[1,null,2]", "[1,1.5]", "[[1]]", "{}", '{"x":1}',
    '{"x":null,"y":2}', '{"x":1.5}', '{"x":"1"}', '{"a":1,"b":0.5}', '{"a":null}',
]  # fmt: skip


def schema(*fields: tuple[str, Any]) -> str:
    told = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return json.dumps({"type": "struct", "fields": told})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_it_is_sure_of_is_what_the_exporter_decodes(kind: Any) -> None:
    """In every type; and of most values it is sure."""
    columns = schema(("c", kind))
    routing = Routing(TypeFrom("header", "t"), EventTime("record"), (("a", columns),))
    sight, decoder, sure = SqlSight(Shape(columns), ["c"]), Decoder.of("a", routing), 0
    for text in TEXTS:
        value = b'{"c": ' + text.encode() + b"}"
        try:
            mine = sight.rows([sight.row(read(value), RECORD)]).column("c")
        except (Unsure, NotJson):
            continue
        sure += 1
        decoded = decoder.decode(pa.array([value]), pa.array([RECORD["timestamp"]], pa.timestamp("us", "UTC")))
        assert decoded.table.num_rows == 1, (text, decoded.bad)
        theirs = decoded.table.column("c")
        assert str(mine.type).replace("item", "element") == str(theirs.type).replace("item", "element")
        found, wanted = mine.to_pylist(), theirs.to_pylist()
        assert found == wanted, text
        if isinstance(found[0], float):
            assert math.copysign(1, found[0]) == math.copysign(1, wanted[0]) or text == "-0", text
    assert sure > 1


WHO = schema(("id", "long"), ("name", "string"), ("who", INNER), ("any", "string"), ("at", "timestamp"))
WHO = WHO.replace('"name": "any", "type": "string"', '"name": "any", "type": "varchar(3)"')
CASES = [
    ("\"any\" = 'a'", '{"any": "a"}', EITHER),
    ("\"any\" IS NULL", "{}", CODE),
    ("id > 3", '{"id": 4}', CODE),
    ("id > 3", '{"id": 3}', sifted(CODE)),
    ("id > 3", "{}", sifted(CODE)),
    ("id > 3 OR name IS NULL", "{}", CODE),
    ("NOT (id > 3)", "{}", sifted(CODE)),
    ("id > 3", '{"id": "4"}', EITHER),
    ("id > 3", '{"id": 4, "name": 5}', CODE),
    ("name = 'é'", '{"name": "\\u00e9"}', CODE),
    ("CAST(name AS INTEGER) > 3", '{"name": "x"}', DEAD_LETTER),
    ("CAST(name AS INTEGER) > 3", '{"name": "5"}', CODE),
    ("who.x = 1", '{"who": {"x": 1, "y": 2}}', CODE),
    ("\"at\" < TIMESTAMPTZ '2025-01-01'", '{"at": "2025-01-01T00:30:00+01:00"}', CODE),
    ("_kafka.topic = 't' AND _kafka.partition = 3 AND _kafka.offset = 7", "{}", CODE),
    ("_kafka.timestamp = TIMESTAMPTZ '2025-03-10 12:00:00Z' AND decode(_key) = 'k'", "{}", CODE),
    ("len(_headers) = 1 AND _headers[1].key = 'h'", "{}", CODE),
    ("no_such_column > 1", "{}", EITHER),
    ("id >", "{}", EITHER),
]  # fmt: skip


@pytest.mark.parametrize(("where", "sent", "expected"), CASES)
def test_a_record_is_kept_taken_out_dead_or_undecided(where: str, sent: str, expected: int) -> None:
    """True keeps it; false and null take it out; a failure is a dead letter; what is not sure is anything."""
    assert Filter(Shape(WHO, where=where), CODE).judged([read(sent)], [RECORD]) == [expected]


def test_each_row_is_judged_by_itself() -> None:
    """Failing neighbours, wherever they stand, change nothing."""
    texts = ["x" if row % 10 == 3 else str(row % 7) for row in range(200)]
    one = Filter(Shape(WHO, where="name <> '' AND CAST(name AS INTEGER) > 3"), CODE)
    found = one.judged([{"name": text} for text in texts] + [Unsure], [RECORD] * 201)
    wanted = [DEAD_LETTER if text == "x" else CODE if int(text) > 3 else sifted(CODE) for text in texts]
    assert found == [*wanted, EITHER]
    assert one.judged([], []) == []


def test_a_function_of_the_settings_is_called_once_more() -> None:
    """It adds what the filter sees, takes out rows itself, and fails on some; one that is not there leaves all open."""
    numbers = [4, -1, 13, 1, None, 13, 8]
    shape = Shape(schema(("n", "long"), ("more", "string")), python="tests.support.plug_ins:doubled",
                  python_version="1", python_columns=schema(("twice", "long")))  # fmt: skip
    sent = [{"n": n} for n in numbers]
    out = sifted(CODE)
    assert Filter(shape, CODE).judged(sent, [RECORD] * 7) == [CODE, out, DEAD_LETTER, CODE, out, DEAD_LETTER, CODE]
    asked = replace(shape, where="twice > 7")
    assert Filter(asked, CODE).judged(sent, [RECORD] * 7) == [CODE, out, DEAD_LETTER, out, out, DEAD_LETTER, CODE]
    assert Filter(shape, CODE).judged([{"n": 4, "more": 5}, Unsure], [RECORD] * 2) == [EITHER, EITHER]
    assert Filter(replace(shape, python="no.such:thing"), CODE).judged(sent[:1], [RECORD]) == [EITHER]


def test_columns_are_filled_from_their_paths_whatever_the_case_if_so_wanted() -> None:
    """The first path that is there; two fields that differ by case only leave it undecided."""
    named = Shape(schema(("user", INNER), ("old", "integer")), names=(("uid", ("user.x", "old")),), where="uid = 1")
    sent = [{"user": {"x": 1}, "old": 2}, {"user": {"x": None}, "old": 1}, {"uid": 1}, {"user": {"X": 1}}, {"user": 1}]
    assert Filter(named, CODE).judged(sent, [RECORD] * 5) == [CODE, CODE, sifted(CODE), sifted(CODE), EITHER]
    loose = Shape(schema(("Uid", "integer"), ("who", INNER)), case="insensitive", where='"Uid" = 1 OR who.x = 1')
    sent = [{"UID": 1}, {"uid": 1, "Uid": 1}, {"WHO": {"X": 1}}, {}]
    assert Filter(loose, CODE).judged(sent, [RECORD] * 4) == [CODE, EITHER, CODE, sifted(CODE)]


def test_several_expressions_are_of_one_row() -> None:
    """Values come as they are; a row on which one of them fails has none. A year beyond Python's is told apart."""
    rows = pa.table({"n": [1, 2, 0], "at": pa.array([0, 1, 253_402_300_800_000_000], pa.timestamp("us"))})
    found = evaluated(["n + 1", "CASE WHEN n = 2 THEN CAST('x' || n AS INTEGER) END"], rows)
    assert found == [(2, None), None, (1, None)]
    (first, _, beyond) = evaluated(['"at"'], rows)
    assert first is not None and beyond is not None and isinstance(beyond[0], OverflowError)
    assert sql_of({"type": "map", "keyType": "string", "valueType": INNER, "valueContainsNull": True}) == (
        'MAP(TEXT, STRUCT("x" INTEGER))'
    )


def test_whatever_a_function_does_on_a_row_it_is_that_row_on_which_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises anything, ends the process or does not come back: the audit goes on with the others."""
    monkeypatch.setattr(functions, "CALL_SECS", 0.3)
    for name, bad in (("fails_oddly", {1, 2, 3, 4, 5, 6}), ("hangs", {2})):
        shape = Shape(schema(("a", "long")), python=f"tests.unit.shape.test_function:{name}", python_version="1",
                      python_columns=schema(("twice", "long")))  # fmt: skip
        values = [-1 if name == "hangs" and value == 2 else value for value in range(8)]
        made = functions.SqlFunction(shape).made(pa.table({"a": values}))
        good = [value for _, table in made for value in table.column("twice").to_pylist()]
        assert good == [value for row, value in enumerate(values) if row not in bad]
