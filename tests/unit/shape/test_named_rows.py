"""From values to rows by the names of the table, in every format; against plain Python over the values (R50, R51)."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.evolve import Evolution, grown
from exporter.core.named_growth import NamedGrowth
from exporter.core.naming import Names, decoded_schema
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.seen import At, Seen
from exporter.core.shapes import Shape, constant_fields, with_fields
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from exporter.formats.json.text import rescued_value
from exporter.formats.schema import arrow_schema
from exporter.lake.schema import table_schema
from exporter.shape.shaper import Shaper
from tests.support.proto_files import classes, text_of
from tests.unit.core.test_naming import field, struct, text
from tests.unit.formats.avro.test_avro_format import body_of
from tests.unit.formats.oracle import Refused, dumped, parsed, rescued, same, split
from tests.unit.formats.test_cased import Twice, any_case, respelled

DAY = 1_769_860_800_000_000
COLUMNS = text(
    field("uid", "long", nullable=False),
    field("tel"),
    field("person", struct(field("name"), field("born", "long"))),
    field("n", "long"),
)
NAMES: Names = (("uid", ("user.id", "uid", "old.uid")), ("tel", ("user.phone", "mobile")), ("person", ("user.who",)))


def a_routing(names: Names = NAMES, case: Any = "exact", **more: Any) -> Routing:
    decoded = decoded_schema(COLUMNS, names, "order", case)
    shape = Shape(decoded, tuple((one, tuple(paths)) for one, paths in names), case)
    return Routing(TypeFrom("topic"), EventTime("record"), (("order", COLUMNS),), shapes=(("order", shape),), **more)


def rows(routing: Routing, values: list[bytes], columns: str | None = None) -> list[Any]:
    """Of each value its row, by the names of the table, or its reason."""
    batch = pa.array(values, pa.binary())
    times = pa.array([DAY] * len(values), pa.timestamp("us", "UTC"))
    decoded = Decoder.of("order", routing, columns).decode(batch, times)
    shaped = Shaper(routing.shape_by_type["order"], routing.constants).shaped(decoded.table, decoded.table.select([]))
    found: dict[int, Any] = {row: reason for row, _, reason in decoded.bad}
    found |= {decoded.good[at].as_py(): reason for at, reason in shaped.bad}
    table = shaped.table.drop_columns(["_event_time"]).to_pylist()
    good = decoded.good.take(shaped.kept).to_pylist()
    found |= dict(zip(good, table, strict=True))
    return [found[row] for row in range(len(values))]


def held(row: Any) -> Any:
    return {name: one for name, one in row.items() if one is not None} if isinstance(row, dict) else row


# --- the same in every format -------------------------------------------------------------------------

SENT: list[tuple[dict[str, Any], Any]] = [
    ({"user": {"id": 1, "phone": "a", "mail": "m"}, "n": 5},
     {"uid": 1, "tel": "a", "n": 5, "_rescued": {"user": {"mail": "m"}}}),
    ({"user": {"id": None, "phone": None}, "uid": 2, "mobile": "b"}, {"uid": 2, "tel": "b"}),
    ({"user": {"id": 3}, "uid": 4, "old": {"uid": 5, "x": "x"}}, {"uid": 3, "_rescued": {"old": {"x": "x"}}}),
    ({"old": {"uid": 6}, "tel": "not mine"}, {"uid": 6, "_rescued": {"tel": "not mine"}}),
    ({"user": {"phone": "c"}},
     "missing_field: $.user.id or $.uid or $.old.uid is required, but null or missing"),
    ({"user": {"id": 7, "who": {"name": "w", "born": 1990, "age": 30}}},
     {"uid": 7, "person": {"name": "w", "born": 1990}, "_rescued": {"user": {"who": {"age": 30}}}}),
]  # fmt: skip
"""Fields as they are sent with the names of the table's settings, and the row."""

PROTO = """syntax = "proto3"; package shop;
message Who { optional string %(name)s = 1; optional int64 born = 2; optional int64 age = 3; }
message User { optional int64 %(id)s = 1; optional string phone = 2; optional string mail = 3;
  optional Who %(who)s = 4; }
message Old { optional int64 %(uid)s = 1; optional string x = 2; }
message Order { optional User %(user)s = 1; optional int64 %(uid)s = 2; optional string mobile = 3;
  optional Old old = 4; optional string tel = 5; optional int64 %(n)s = 6; }"""
AS_DECLARED = {name: name for name in ("name", "id", "who", "user", "uid", "n")}
OTHERWISE = {"name": "NAME", "id": "Id", "who": "Who", "user": "USER", "uid": "Uid", "n": "N"}


def respelt(value: Any, spelling: dict[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {spelling.get(name, name): respelt(one, spelling) for name, one in value.items()}


def in_json(value: dict[str, Any], spelling: dict[str, str]) -> tuple[ValueFormat, bytes]:
    return ValueFormat(), json.dumps(respelt(value, spelling)).encode()


def in_avro(value: dict[str, Any], spelling: dict[str, str]) -> tuple[ValueFormat, bytes]:
    def record(name: str, /, **fields: Any) -> Any:
        kinds = {spelling.get(key, key): ["null", kind] for key, kind in fields.items()}
        made = [{"name": key, "type": kind, "default": None} for key, kind in kinds.items()]
        return {"type": "record", "name": name, "fields": made}

    who = record("Who", name="string", born="long", age="long")
    user = record("User", id="long", phone="string", mail="string", who=who)
    order = record("Order", user=user, uid="long", mobile="string", old=record("Old", uid="long", x="string"),
                   tel="string", n="long")  # fmt: skip
    form = ValueFormat("avro", schemas=(("order.avsc", json.dumps(order)),))
    return form, body_of(order, respelt(value, spelling))


def in_protobuf(value: dict[str, Any], spelling: dict[str, str]) -> tuple[ValueFormat, bytes]:
    def message(kind: Any, fields: dict[str, Any]) -> Any:
        made = kind()
        for name, one in fields.items():
            if isinstance(one, dict):
                getattr(made, name).CopyFrom(message(type(getattr(made, name)), one))
            elif one is not None:
                setattr(made, name, one)
        return made

    file = PROTO % spelling
    form = ValueFormat("protobuf", message="shop.Order", schemas=(("order.proto", text_of(file)),))
    return form, message(classes(file)["shop.Order"], respelt(value, spelling)).SerializeToString()


@pytest.mark.parametrize("write", [in_json, in_avro, in_protobuf])
@pytest.mark.parametrize("spelling", [AS_DECLARED, OTHERWISE], ids=["exact", "insensitive"])
def test_names_and_case_are_the_same_in_every_format(write: Any, spelling: dict[str, str]) -> None:
    """A column is the first of its paths that is there; what fills it is in no `_rescued`, its neighbours are."""
    case = "exact" if spelling is AS_DECLARED else "insensitive"
    made = [write(value, spelling) for value, _ in SENT]
    found = rows(a_routing(case=case, value_format=made[0][0]), [raw for _, raw in made])
    for row, (_, wanted) in zip(found, SENT, strict=True):
        one = held(row)
        if isinstance(one, dict) and "_rescued" in one:
            one["_rescued"] = json.loads(one["_rescued"])
        assert one == wanted


def test_a_struct_column_that_a_path_leads_into_keeps_its_own_fields() -> None:
    """And it has no field for what the path takes out of it."""
    names: Names = (("tel", ("person.phone",)),)
    value = b'{"uid":1,"person":{"name":"w","phone":"p","q":1}}'
    assert rows(a_routing(names), [value]) == [
        {"uid": 1, "tel": "p", "person": {"name": "w", "born": None}, "n": None, "_rescued": '{"person":{"q":1}}'}
    ]


def test_what_stands_on_the_way_is_an_object_or_null() -> None:
    """Anything else refuses the record, as it does for a STRUCT that is declared."""
    found = rows(a_routing(), [b'{"user":"bob","uid":1}', b'{"user":null,"uid":1}', b'{"user":{"id":"x"},"uid":1}'])
    assert found[0] == "type_mismatch: $.user expected an object, got a string"
    assert held(found[1]) == {"uid": 1}
    assert found[2] == "type_mismatch: $.user.id expected an integer, got a string"


def test_each_policy_for_unknown_fields_sees_the_same_unknown_fields() -> None:
    """What fills a column by its path is none."""
    values = [b'{"user":{"id":1}}', b'{"user":{"id":1,"x":2}}', b'{"user":{"id":1},"tel":"t"}']
    assert rows(a_routing(unknown_fields="dead_letter"), values)[1:] == [
        "unknown_field: $.user.x", "unknown_field: $.tel",
    ]  # fmt: skip
    assert [held(row) for row in rows(a_routing(unknown_fields="ignore"), values)] == [{"uid": 1}] * 3


# --- against plain Python -----------------------------------------------------------------------------


def at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(value: dict[str, Any], path: str, what: Any) -> None:
    *way, last = path.split(".")
    for name in way:
        inner = value.setdefault(name, {})
        value = inner if isinstance(inner, dict) else {}
    value[last] = what


def a_value(rng: Random, case: str) -> bytes:
    value: dict[str, Any] = {}
    of = {path: column for column, paths in NAMES for path in paths} | {"n": "n"}
    for path, column in of.items():
        if rng.random() < 0.5:
            fitting = {"uid": 1, "tel": "t", "n": 2, "person": rng.choice([{"name": "x"}, {"born": 5, "z": {"q": 1}}])}
            put(value, path, rng.choice([fitting[column]] * 9 + [None, None, "x", 1.5, {}]))
    for _ in range(rng.randrange(3)):
        put(value, rng.choice(["user.mail", "user.who.age", "old", "tel", "b", "user.tags", "person.x"]),
            rng.choice([1, "s", [1], {"k": 1}, None]))  # fmt: skip
    if case == "insensitive":
        value = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: {any_case(rng, k): v for k, v in pairs})
    return json.dumps(value).encode()


def expected(raw: bytes, decoded: pa.Schema, case: str) -> Any:
    """By column; None for a dead letter."""
    try:
        sent = raw if case == "exact" else dumped(respelled(parsed(raw), decoded)).encode()
        columns, rest = split(sent, decoded)
    except (Refused, Twice):
        return None
    found = {column: next((one for path in paths if (one := at(columns, path)) is not None), None)
             for column, paths in NAMES}  # fmt: skip
    if found["uid"] is None:
        return None
    for _, paths in NAMES:
        for path in paths:
            *way, last = path.split(".")
            holder = at(columns, ".".join(way)) if way else columns
            if isinstance(holder, dict):
                holder.pop(last, None)
    return {**columns, **found}, rest


@pytest.mark.parametrize("case", ["exact", "insensitive"])
@pytest.mark.parametrize("grows", [False, True])
def test_any_values_give_the_rows_that_plain_python_makes_of_them(case: str, grows: bool) -> None:
    """Each alone as in a batch; and where the table has grown, what it has by now changes no verdict (VERDICT)."""
    routing = a_routing(case=case)
    good = bad = 0
    for seed in range(8):
        rng = Random(f"{case}{grows}{seed}")
        values = [a_value(rng, case) for _ in range(20)]
        plain = rows(routing, values)
        columns = None
        if grows:
            named = NamedGrowth(routing, "order")
            seen = Seen()
            for offset, row in enumerate(plain[:10]):
                if isinstance(row, dict) and row["_rescued"]:
                    seen.add(rescued_value(row["_rescued"]), At("t", 0, offset))
            table = grown(table_schema(COLUMNS), named.seen(seen), Evolution())
            columns = named.decoded(table)
            in_table = {one["name"]: one for one in json.loads(table)["fields"]}
        found = rows(routing, values, columns)
        decoded = arrow_schema(columns or routing.decoded_of("order"), "order", "JSON")
        for row, raw in enumerate(values):
            assert rows(routing, [raw], columns)[0] == found[row], raw
            wanted = expected(raw, decoded, case)
            assert isinstance(found[row], dict) == (wanted is not None) == isinstance(plain[row], dict), raw
            if wanted is None:
                bad += 1
                continue
            good += 1
            here, rest = wanted
            assert rescued(found[row]["_rescued"]) == rest, raw
            kinds = arrow_schema(json.dumps({"type": "struct", "fields": [in_table[name] for name in found[row]
                                 if name != "_rescued"]}) if grows else COLUMNS, "order", "JSON")  # fmt: skip
            assert {one.name for one in kinds} == found[row].keys() - {"_rescued"}
            for one in kinds:
                assert same(here.get(one.name), found[row][one.name], one), (raw, one, found[row])
    assert good > 30 and bad > 20


def test_a_computed_column_is_no_field_of_a_value() -> None:
    """A table that had the column of its values before: nothing is decoded into it twice."""
    before = grown(table_schema(COLUMNS), _seen({"site": {"x": 1}}), Evolution())
    table = with_fields(COLUMNS, constant_fields([("site", "here")]))
    routing = replace(a_routing(), constants=(("site", "here"),), types=(("order", table),))
    row = rows(routing, [b'{"uid":1,"site":{"x":2}}'], NamedGrowth(routing, "order").decoded(before))[0]
    assert held(row) == {"uid": 1, "site": "here", "_rescued": '{"site":{"x":2}}'}


def _seen(value: Any) -> Seen:
    seen = Seen()
    seen.add(value, At("t", 0, 0))
    return seen
