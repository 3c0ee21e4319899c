"""Whole contents of rows that rules have made: by the table's names, without what goes, with what is computed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas
from exporter.core.shapes import Shape
from exporter.proof.contents.compare import NOTHING_SURE, Configured
from exporter.proof.readers.reading import ValueReading
from exporter.proof.rules.computing import ComputedFrom, Computing
from offsets.ranges import TopicPartition

INNER = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]}
ITEMS = {"type": "array", "elementType": INNER, "containsNull": True}


def schema(*fields: tuple[str, Any]) -> str:
    told = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return json.dumps({"type": "struct", "fields": told})


def places(
    shape: Shape | None, columns: str, sent: Any, held: Any, rest: Any = None, table: str = "", **changed: Any
) -> list[str]:
    """Where a row differs from its value, what SQL makes of it included."""
    shapes = (("a", shape),) if shape is not None else ()
    known = {"type_from": TypeFrom("json", "type"), "event_time": EventTime("record"), "types": (("a", columns),)}
    routing = Routing(**{**known, "shapes": shapes, **changed})
    value = json.dumps(sent).encode()
    record = {"topic": "t", "partition": 0, "offset": 5, "timestamp": 1_000_000, "key": b"k", "headers": None}
    document = ValueReading(routing.value_format, KnownSchemas()).read(value, TopicPartition("t", 0), 5).document
    asked = ComputedFrom(0, 0, 1, document, record)
    computed = Computing([routing], {1: "a"}).of([asked]).get(0, NOTHING_SURE)
    configured = Configured.of(routing, "a", table or columns)
    rescued = None if rest is None else json.dumps(rest)
    return [one.path for one in configured.differences(value, held, rescued, None, computed=computed)]


NAMED = Shape(
    schema(("user", {"type": "struct", "fields": [*INNER["fields"]]}), ("mobile", "string"), ("phone", "string")),
    names=(("uid", ("user.x",)), ("call", ("mobile", "phone"))),
)
NAMES = schema(("uid", "integer"), ("call", "string"))


@pytest.mark.parametrize(
    ("sent", "held", "rest", "found"),
    [
        ({"user": {"x": 1}, "phone": "p"}, {"uid": 1, "call": "p"}, None, []),
        ({"user": {"x": 1}, "mobile": "m", "phone": "p"}, {"uid": 1, "call": "m"}, None, []),
        ({"user": {"x": 1}, "mobile": "m", "phone": "p"}, {"uid": 1, "call": "p"}, None, ["$.call"]),
        ({"user": {"x": 1, "y": None}}, {"uid": 1}, None, []),
        ({"user": {"x": 1, "y": 2}}, {"uid": 1}, {"user": {"y": 2}}, []),
        ({"user": {"x": 1, "y": 2}}, {"uid": 1}, None, ["$.user"]),
        ({"user": {"x": 1}}, {"uid": 2}, None, ["$.uid"]),
        ({"user": {"x": 1}}, {}, None, ["$.uid"]),
        ({"user": None, "mobile": None}, {}, None, []),
        ({"user": {}}, {"uid": 1}, None, ["$.uid"]),
        ({"uid": 7, "user": {"x": 1}}, {"uid": 1}, {"uid": 7}, []),
        ({"uid": 7, "user": {"x": 1}}, {"uid": 1}, {"uid": 8}, ["$.uid"]),
        ({"uid": 7, "user": {"x": 1}}, {"uid": 2}, {"uid": 7}, ["$.uid"]),
    ],
)
def test_a_renamed_column_holds_the_first_of_its_paths(sent: Any, held: Any, rest: Any, found: list[str]) -> None:
    """What else stands on the way to a path is unknown under its own name."""
    assert places(NAMED, NAMES, sent, held, rest) == found


def test_a_struct_keeps_what_no_other_column_takes_of_it() -> None:
    """The rest of it stays one, be it empty."""
    user = {"type": "struct", "fields": [*INNER["fields"], {**INNER["fields"][0], "name": "y"}]}
    shape = Shape(schema(("user", user)), names=(("uid", ("user.x",)),))
    kept = {"type": "struct", "fields": [{**INNER["fields"][0], "name": "y"}]}
    columns = schema(("user", kept), ("uid", "integer"))
    assert places(shape, columns, {"user": {"x": 1, "y": 2}}, {"uid": 1, "user": {"y": 2}}) == []
    assert places(shape, columns, {"user": {"x": 1}}, {"uid": 1, "user": {}}) == []
    assert places(shape, columns, {"user": {"x": 1, "y": 2}}, {"uid": 1, "user": {"y": 3}}) == ["$.user.y"]


def test_fields_of_any_case_fill_their_columns() -> None:
    """At every level; of two that are one by case only nothing is said."""
    columns = schema(("Id", "integer"), ("items", ITEMS))
    shape = Shape(columns, case="insensitive")
    sent = {"ID": 1, "Items": [{"X": 2}]}
    assert places(shape, columns, sent, {"Id": 1, "items": [{"x": 2}]}) == []
    assert places(shape, columns, sent, {"Id": 1, "items": [{"x": 3}]}) == ["$.items[0].x"]
    assert places(shape, columns, {"ID": 1, "id": 2}, {"Id": 1}) == []
    assert places(Shape(columns), columns, {"ID": 1}, {"Id": 1}) == ["$.Id", "$.ID"]


def test_what_is_dropped_is_nowhere() -> None:
    """Neither in a column nor in `_rescued`; what is unknown beside it still is."""
    shape = Shape(schema(("id", "integer"), ("mail", "string")), drop=("mail",))
    columns = schema(("id", "integer"))
    assert places(shape, columns, {"id": 1, "mail": "m"}, {"id": 1}) == []
    assert places(shape, columns, {"id": 1, "mail": "m", "more": 2}, {"id": 1}) == ["$.more"]
    assert places(shape, columns, {"id": 1, "mail": "m"}, {"id": 1}, {"mail": "m"}) == ["$.mail"]
    named = Shape(schema(("id", "integer"), ("m", "string")), names=(("mail", ("m",)),), drop=("mail",))
    assert places(named, columns, {"id": 1, "m": "m", "mail": 3}, {"id": 1}, {"mail": 3}) == []
    parts = Shape(schema(("id", "integer"), ("who", INNER)), drop=("who",))
    assert places(parts, columns, {"id": 1, "who": {"x": 1, "y": 2}}, {"id": 1}, {"who": {"y": 2}}) == []


COMPUTED = Shape(
    schema(("id", "integer"), ("mail", "string"), ("at", "timestamp")),
    computed=(
        ("mail", "sha256(mail)"), ("twice", "id * 2"), ("day", 'CAST("at" AS DATE)'), ("part", "_kafka.offset"),
        ("raw", "_key"), ("list", "[id, NULL]"), ("money", "CAST(id AS DECIMAL(10,2)) / 4"), ("later", '"at"'),
        ("pair", "{'x': id}"),
    ),
    drop=("at",),
)  # fmt: skip
MADE = schema(
    ("id", "integer"), ("mail", "string"), ("twice", "integer"), ("day", "date"), ("part", "long"), ("raw", "binary"),
    ("list", {"type": "array", "elementType": "integer", "containsNull": True}), ("money", "decimal(10,2)"),
    ("later", "timestamp"), ("pair", INNER),
)  # fmt: skip
RIGHT = {
    "id": 5, "mail": "62c66a7a5dd70c3146618063c344e531e6d4b59e379808443ce962b3abd63c5a", "twice": 10, "day": 1,
    "part": 5, "raw": b"k", "list": [5, None], "money": "1.25", "later": 86_400_000_001, "pair": {"x": 5},
}  # fmt: skip
SENT = {"id": 5, "mail": "m", "at": "1970-01-02T00:00:00.000001Z"}


def test_computed_columns_are_what_the_sql_makes_of_the_value() -> None:
    """In every type; the value that one of them hides is nowhere else."""
    assert places(COMPUTED, MADE, SENT, RIGHT) == []
    assert places(COMPUTED, MADE, SENT, RIGHT, {"mail": "m"}) == ["$.mail"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("mail", "m"), ("mail", None), ("twice", 11), ("day", 0), ("part", 6), ("raw", b"l"), ("list", [5]),
     ("money", "1.26"), ("later", 86_400_000_000), ("pair", {"x": 6}), ("pair", None), ("id", 6)],
)  # fmt: skip
def test_each_wrong_value_is_found(name: str, value: Any) -> None:
    """One at a time, by the column's name."""
    assert places(COMPUTED, MADE, SENT, {**RIGHT, name: value}) == [f"$.{name}"]


def test_what_is_not_sure_is_excused() -> None:
    """Of a field that may be read in another way, in a column of another type, or of a function of the settings."""
    unsure = {**SENT, "at": "1970-01-02 00:00:00.0000019"}
    assert places(COMPUTED, MADE, unsure, {**RIGHT, "twice": 11}) == []
    wider = MADE.replace('"name": "twice", "type": "integer"', '"name": "twice", "type": "long"')
    assert places(COMPUTED, MADE, SENT, {**RIGHT, "twice": 11}, table=wider) == []
    python = Shape(COMPUTED.decoded, computed=COMPUTED.computed, python="a:b", python_version="1")
    assert places(python, MADE, SENT, {**RIGHT, "twice": 11, "id": 9}) == []


def test_a_row_of_a_value_on_which_sql_fails_is_found() -> None:
    """It is to be a dead letter."""
    shape = Shape(schema(("name", "string")), computed=(("n", "CAST(name AS INTEGER)"),))
    columns = schema(("name", "string"), ("n", "integer"))
    assert places(shape, columns, {"name": "1"}, {"name": "1", "n": 1}) == []
    assert places(shape, columns, {"name": "x"}, {"name": "x"}) == ["$"]


def test_constants_are_in_every_row() -> None:
    """Of types whose rows are just read too, and of those without columns, which keep all of a value in `_rescued`."""
    constants = (("env", "prod"), ("n", 7), ("ok", True), ("x", 1.5))
    columns = schema(("id", "integer"), ("env", "string"), ("n", "long"), ("ok", "boolean"), ("x", "double"))
    right = {"id": 1, "env": "prod", "n": 7, "ok": True, "x": 1.5}
    shape = Shape(schema(("id", "integer")))
    assert places(shape, columns, {"id": 1}, right, constants=constants) == []
    for name, other in (("env", "test"), ("n", 8), ("ok", False), ("x", 2.5), ("env", None)):
        assert places(shape, columns, {"id": 1}, {**right, name: other}, constants=constants) == [f"$.{name}"]
    assert places(shape, columns, {"id": 1, "env": "sent"}, right, {"env": "sent"}, constants=constants) == []


def test_only_computed_columns_need_more_than_values() -> None:
    """Others are compared without the key and the headers of their records."""
    known = {"type_from": TypeFrom("topic"), "event_time": EventTime("record"), "types": (("a", MADE),)}
    filtered = Routing(**known, shapes=(("a", Shape(MADE, where="id > 1")),))
    computing = Computing([Routing(**known, shapes=(("a", COMPUTED),)), Routing(**known), filtered], {1: "a"})
    assert [computing.computes(number, 1) for number in range(3)] == [True, False, False]
