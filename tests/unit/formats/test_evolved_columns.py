"""Columns that nobody declared (VERDICT): they hold what fits them, and no record is any the worse for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.formats.decoded import DecodedBatch
from exporter.formats.decoder import Decoder
from exporter.formats.evolving import Evolving
from exporter.formats.json import judge
from exporter.formats.json.format import Json
from exporter.formats.marks import JSON_MARK, declared_only, evolved_mark
from tests.support.decoded_rows import rows_of, there
from tests.unit.formats.oracle import Refused, is_marked, merged, parsed, rescued, same, split, without_nulls
from tests.unit.formats.test_decoder import PLAIN, TUNINGS, routing, run, shown

AT = evolved_mark("t/0/7")
LARGE = 2**53
TIME = pa.timestamp("us", "UTC")


def evolved(name: str, kind: pa.DataType, *, as_json: bool = False) -> pa.Field:
    return pa.field(name, kind, metadata={**AT, **(JSON_MARK if as_json else {})})


def any_json(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=JSON_MARK)


def list_of(item: pa.DataType | pa.Field) -> pa.DataType:
    return pa.list_(item.with_name("element") if isinstance(item, pa.Field) else pa.field("element", item))


def map_of(item: pa.DataType | pa.Field) -> pa.DataType:
    return pa.map_(pa.string(), item.with_name("value") if isinstance(item, pa.Field) else pa.field("value", item))


ID = pa.field("id", pa.int64())


def rows(schema: pa.Schema, values: Sequence[bytes | None], config: Routing = PLAIN, **more: Any) -> list[Any]:
    """Of each record its columns and `_rescued`, those with something in them; or its reason."""
    decoded = run(Decoder("a", schema, config, **more), [*values])
    assert decoded.table.schema.equals(_unmarked(decoded.table.schema), check_metadata=True)
    return [*map(there, rows_of(decoded, "_event_time"))]


def _unmarked(schema: pa.Schema) -> pa.Schema:
    """As a file has it."""
    return pa.schema([field.remove_metadata() for field in schema])


# --- what fits, and what does not ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fit", "unfit"),
    [
        (pa.int64(), ["1", "-0", "9223372036854775807"], ['"1"', "1.0", "9223372036854775808", "true", "[]", "{}"]),
        (pa.int32(), ["1"], ["2147483648"]),
        (pa.float64(), ["1", "1.10", "1e20", "-1e300", "9007199254740992", "18014398509481984", "0.12345678901234567"],
         ["9007199254740993", "-9007199254740995", "9" * 30, "1e400", '"1.5"', "true"]),
        (pa.float32(), ["1", "0.1", "16777216"], ["16777217", "3.5e38"]),
        (pa.bool_(), ["true", "false"], ["0", '"true"']),
        (pa.string(), ['"x"', '""', '"\\u0000"'], ["1", "true", "[]", "{}"]),
        (TIME, ['"2024-01-05T10:11:12Z"', '"2024-01-05T10:11:12.123456789+02:00"', '"9999-12-31T23:59:59"'],
         ['"x"', "1", '"0000-01-01T00:00:00Z"', '"9999-12-31T23:00:00-05:00"', '"0001-01-01T00:00:00+01:00"',
          '"0000-12-31T23:59:59"']),
        (pa.date32(), ['"2024-01-05"', '"0001-01-01"'], ['"x"', "1", '"0000-12-31"', '"2024-01-05T10:11:12Z"']),
        (list_of(pa.int64()), ["[]", "[1,null]"], ["[1,2.5]", '["x"]', "{}", "1"]),
        (map_of(pa.int64()), ["{}", '{"a":1,"b":null}'], ["[]", "1"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_stays_where_it_would_be_without_the_column(
    kind: pa.DataType, fit: list[str], unfit: list[str]
) -> None:
    """As sent, in `_rescued`; whichever reader reads it, alone and among others."""
    schema = pa.schema([ID, evolved("v", kind)])
    values = [f'{{"id":{at},"v":{text}}}'.encode() for at, text in enumerate([*fit, *unfit])]
    for tuning in (None, *TUNINGS.values()):
        together = rows(schema, values, form=Json(tuning))
        assert all(row.keys() == {"id", "v"} for row in together[: len(fit)])
        assert together[len(fit) :] == [
            {"id": at, "_rescued": f'{{"v":{text}}}'} for at, text in enumerate(unfit, start=len(fit))
        ]
        assert [rows(schema, [value], form=Json(tuning))[0] for value in values] == together
        beside = [value.replace(b"{", b'{"u":0,', 1) for value in values]
        kept = [row.get("_rescued", "{}").replace("{", '{"u":0,', 1).replace(",}", "}") for row in together]
        expected = [{**row, "_rescued": rest} for row, rest in zip(together, kept, strict=True)]
        assert rows(schema, beside, form=Json(tuning)) == expected
        assert [rows(schema, [value], form=Json(tuning))[0] for value in beside] == expected


def test_digits_that_are_cut_count_where_the_time_is_in_its_column() -> None:
    """Of an array that stays whole in `_rescued` none is cut."""
    schema, sent = pa.schema([ID, evolved("l", list_of(TIME))]), '"2024-01-05T10:11:12.123456789Z"'
    for text, cut in ((f"[{sent},{sent}]", 2), (f'[{sent},"x"]', 0), (f"[{sent},5]", 0)):
        found = run(Decoder("a", schema, PLAIN), [f'{{"l":{text}}}'.encode()])
        assert (found.truncated, found.table["_rescued"].null_count) == (cut, 1 if cut else 0)


def test_each_member_of_an_object_is_judged_by_itself() -> None:
    """Also in an array, whose positions stay; an array of anything else stays whole."""
    item = pa.struct([evolved("a", pa.int64()), ("b", list_of(pa.int64()))])
    schema = pa.schema([ID, evolved("o", item), evolved("l", list_of(item)), evolved("m", map_of(pa.int64()))])
    assert rows(schema, [
        b'{"o":{"a":"x","b":[1],"u":5}}', b'{"o":{"a":1,"b":[1,"x"]}}', b'{"o":{"a":"x"}}', b'{"o":7}',
        b'{"l":[{"a":1},null,{"a":"x","b":[2]}]}', b'{"l":[{"a":1},5]}', b'{"m":{"a":1,"b":"x","c":null}}',
    ]) == [
        {"o": {"a": None, "b": [1]}, "_rescued": '{"o":{"a":"x","u":5}}'},
        {"o": {"a": 1, "b": None}, "_rescued": '{"o":{"b":[1,"x"]}}'},
        {"o": {"a": None, "b": None}, "_rescued": '{"o":{"a":"x"}}'},
        {"_rescued": '{"o":7}'},
        {"l": [{"a": 1, "b": None}, None, {"a": None, "b": [2]}], "_rescued": '{"l":[null,null,{"a":"x"}]}'},
        {"_rescued": '{"l":[{"a":1},5]}'},
        {"m": [("a", 1), ("c", None)], "_rescued": '{"m":{"b":"x"}}'},
    ]  # fmt: skip


def test_what_is_below_a_marked_field_is_not_declared_either() -> None:
    """Nothing in it is required, and nothing in it refuses; beside it what is declared still does."""
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", list_of(pa.int64()), nullable=False)])
    schema = pa.schema([pa.field("s", pa.struct([ID, evolved("o", inner)]))])
    values = [b'{"s":{"o":{}}}', b'{"s":{"o":{"a":"x","b":[true]}}}', b'{"s":{"id":"x","o":{"a":"x"}}}']
    assert rows(schema, values) == [
        {"s": {"id": None, "o": {"a": None, "b": None}}},
        {"s": {"id": None, "o": {"a": None, "b": None}}, "_rescued": '{"s":{"o":{"a":"x","b":[true]}}}'},
        "type_mismatch: $.s.id expected an integer, got a string",
    ]


def test_any_json_that_is_not_lifted_stays_as_it_was_sent() -> None:
    """An array that does not fit as a whole is no column of texts in its parts."""
    schema = pa.schema([ID, evolved("l", list_of(pa.struct([any_json("p")]))), evolved("m", map_of(any_json("value")))])
    assert rows(schema, [b'{"l":[{"p":{"a": 1}},{"p":null}],"m":{"k":[1 ]}}', b'{"l":[{"p":[1]},2],"m":[3]}']) == [
        {"l": [{"p": '{"a": 1}'}, {"p": None}], "m": [("k", "[1 ]")]},
        {"_rescued": '{"l":[{"p":[1]},2],"m":[3]}'},
    ]


def test_a_type_without_declared_columns_is_kept_whole_only_while_it_has_no_others() -> None:
    """With one, `_rescued` holds what is in none."""
    assert rows(pa.schema([]), [b'{"v":1,"u":2}']) == [{"_rescued": '{"v":1,"u":2}'}]
    assert rows(pa.schema([evolved("v", pa.int64())]), [b'{"v":1,"u":2}', b'{"v":1}']) == [
        {"v": 1, "_rescued": '{"u":2}'}, {"v": 1},
    ]  # fmt: skip


# --- what the routing reads -----------------------------------------------------------------------------

TYPED = Routing(TypeFrom("json", "meta.type"), EventTime("json", "at"), ())
NUMBERED = Routing(TypeFrom("json", "t"), EventTime("json", "meta.at", "ms"), ())


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        (TYPED, [evolved("meta", pa.struct([("type", pa.string()), ("x", pa.int64())])), evolved("at", TIME)]),
        (TYPED, [evolved("at", pa.string()), evolved("meta", map_of(pa.string()))]),
        (TYPED, [evolved("at", pa.timestamp("us")), evolved("meta", pa.struct([("type", pa.int64())]))]),
        (TYPED, [evolved("meta", pa.string(), as_json=True), evolved("at", TIME)]),
        (TYPED, [evolved("meta", pa.struct([any_json("type"), any_json("x")]))]),
        (NUMBERED, [evolved("meta", pa.struct([("at", pa.int64())])), evolved("t", pa.string())]),
        (NUMBERED, [evolved("meta", pa.struct([("at", pa.int32())])), evolved("t", pa.string(), as_json=True)]),
        (NUMBERED, [evolved("meta", pa.struct([("at", pa.float64())])), evolved("t", pa.int64())]),
    ],
)
@pytest.mark.parametrize("declared", [[], [ID]])
def test_what_the_routing_reads_is_judged_as_without_the_columns(
    config: Routing, columns: list[pa.Field], declared: list[pa.Field]
) -> None:
    """A column that holds it is filled; one of another type stays empty, and is in the way of nothing."""
    schema = pa.schema([*declared, *columns])
    at = b'"2024-02-01T00:00:00Z"' if config is TYPED else b"1706745600000"
    form = b'{"id":1,"meta":{"type":%b,"x":1},"at":%b}' if config is TYPED else b'{"id":1,"t":%b,"meta":{"at":%b}}'
    pairs = [(b'"a"', at), (b'"b"', at), (b"1", at), (b'"a"', b'"x"'), (b'"a"', b"true"), (b'"a"', b"null"),
             (b'"a"', b"99999999999999999999"), (b"{}", b"{}")]  # fmt: skip
    values = [form % pair for pair in pairs]
    values += [form.replace(b'{"at":%b}', b"7").replace(b'{"type":%b,"x":1}', b"[]").replace(b"%b", b"5")]
    with_them, without = Decoder("a", schema, config), Decoder("a", declared_only(schema), config)
    found, expected = run(with_them, values), run(without, values)
    assert (found.good.to_pylist(), found.bad) == (expected.good.to_pylist(), expected.bad)
    assert found.table["_event_time"] == expected.table["_event_time"]


def test_a_declared_column_in_the_way_is_still_refused() -> None:
    """At the start; JSON is no text of an event type."""
    for columns in ([pa.field("t", pa.int64())], [any_json("t")], [pa.field("meta", pa.int64())]):
        with pytest.raises(ConfigError, match="is declared"):
            Decoder("a", pa.schema([*columns, evolved("v", pa.int64())]), NUMBERED)


# --- VERDICT in the corners ------------------------------------------------------------------------------


def test_too_many_values_are_judged_as_without_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is an unknown field there does not count, so such a record is read by the declared columns alone."""
    monkeypatch.setattr(judge, "VALUES_MAX", 500)
    schema = pa.schema([ID, evolved("v", list_of(pa.int64()))])
    many = b",".join([b"1"] * 600)
    values = [b'{"id":1,"v":[%b]}' % many, b'{"id":1,"v":[%b,-0]}' % many, b'{"id":"x","v":[%b]}' % many]
    values += [b'{"id":1,"u":[%b],"v":[%b]}' % (many, many), b'{"id":1,"v":[%b]}' % b",".join([b"1"] * 200)]
    with_them = run(Decoder("a", schema, PLAIN), [*values])
    without = run(Decoder("a", pa.schema([ID]), PLAIN), [*values])
    assert (with_them.good, with_them.bad) == (without.good, without.bad)
    assert len(with_them.bad) == 2
    assert [held is None for held in with_them.table["v"].to_pylist()] == [True, True, False]


def test_the_years_that_are_checked_are_those_of_declared_columns() -> None:
    """Their number in the table counts, and that of no others: a verdict from before does not change."""
    first = pa.struct([("a", pa.int64()), *(evolved(f"e{at}", pa.int64()) for at in range(40))])
    schema = pa.schema([("s", first), ("ts", TIME), evolved("when", TIME)])
    late = '"9999-12-31T23:00:00-05:00"'
    assert rows(schema, [f'{{"ts":{late}}}'.encode(), f'{{"when":{late}}}'.encode()]) == [
        "out_of_range: $.ts = 10000-01-01 04:00:00.000000Z lies outside the years 1 to 9999 in UTC",
        {"_rescued": f'{{"when":{late}}}'},
    ]


def test_whoever_refuses_a_record_is_asked_again_without_the_columns() -> None:
    """So that not even a fault of theirs changes a verdict: the record is good, and all of them null."""
    inner = pa.struct([("a", pa.int64()), evolved("b", pa.int64())])
    schema = pa.schema([ID, pa.field("s", inner), evolved("v", pa.int64())])
    decoder = Decoder("a", schema, PLAIN)
    assert isinstance(decoder.reader, Evolving)
    reader = decoder.reader.all_columns
    decoder.reader.all_columns = Json().reader("a", schema, routing(type_from=TypeFrom("json", "t")))
    values: list[bytes | None] = [b'{"id":1,"v":2,"s":{"a":1,"b":3}}', b'{"id":2,"t":"a","v":2}', b'{"id":"x"}', None]
    found = run(decoder, values)
    assert found.table["id"].to_pylist() == [1, 2] and found.table["v"].to_pylist() == [None, 2]
    assert found.table["s"].to_pylist() == [{"a": 1, "b": None}, None]
    assert found.table["_rescued"].to_pylist() == ['{"v":2,"s":{"b":3}}', None]
    decoder.reader.all_columns = reader
    assert found.bad == run(decoder, values).bad


_COMMON = b'{"id":1,"f":1.5,"n":7,"l":[{"a":1,"p":[1]}],"when":"2024-01-05T10:11:12Z"}'
_RARE = [
    b'{"id":1,"f":9007199254740993,"n":7}', b'{"id":1,"n":"x","f":1e300}', b'{"id":1,"n":1.5,"u":[1]}',
    b'{"id":"x","n":"x"}', b'{"id":1,"f":9007199254740993,"u":1}', b'{"l":[{"a":"x","p":{"z": 1}},null]}',
    b'{"l":[7],"id":2}', b'{"id":1', b'{"when":"9999-12-31T23:00:00-05:00","id":3}',
    b'{"id":1,"when":"2024-01-05T10:11:12.123456789Z"}',
]  # fmt: skip


@pytest.mark.parametrize("every", [2, 50, 700, 3_000])
def test_a_record_is_read_the_same_however_many_of_its_kind_there_are(every: int) -> None:
    """Among thousands, by whatever way their block takes."""
    item = pa.struct([("a", pa.int64()), any_json("p")])
    schema = pa.schema([
        ID, evolved("f", pa.float64()), evolved("n", pa.int64()), evolved("l", list_of(item)), evolved("when", TIME),
    ])  # fmt: skip
    alone = {value: shown(run(Decoder("a", schema, PLAIN), [value]))[0] for value in [_COMMON, *_RARE]}
    drawn = Random(every)
    values = [_COMMON if drawn.randrange(every) else drawn.choice(_RARE) for _ in range(9_000)]
    found = run(Decoder("a", schema, PLAIN), [*values])
    seen = shown(found)
    assert [values[row] for row in range(len(values)) if seen[row] != alone[values[row]]] == []
    assert found.truncated == values.count(_RARE[-1])


# --- by the table's own schema -----------------------------------------------------------------------------


def test_a_decoder_takes_columns_as_the_table_has_them() -> None:
    """Spark's JSON with its metadata; without it the configuration's own."""
    mark = {EVOLVED: "t/0/1", JSON_TEXT: "value"}
    kind = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": False}
    declared = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    columns = {"type": "struct", "fields": [declared, {"name": "m", "type": kind, "nullable": False, "metadata": mark}]}
    values = [b'{"id":1,"m":{"a":[1],"b":null}}']
    config = routing(types=(("a", json.dumps({"type": "struct", "fields": [declared]})),))
    assert run(Decoder.of("a", config), values).table["_rescued"].to_pylist() == ['{"m":{"a":[1],"b":null}}']
    found = run(Decoder.of("a", config, json.dumps(columns)), values).table
    assert found["m"].to_pylist() == [[("a", "[1]"), ("b", None)]] and found["_rescued"].null_count == 1
    whole = run(Decoder.of("b", config, '{"type":"struct","fields":[]}'), values).table
    assert whole["_rescued"].to_pylist() == [values[0].decode()]


# --- any record, any such columns ---------------------------------------------------------------------------

_NAMES = ["id", "name", "at", "lines", "parts", "p", "a", "b", "c", "u"]
_SCALARS = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), TIME]
_TEXTS = ['"x"', '""', '"\\u003a"', '"a:b"', '"2024-01-05T10:11:12Z"', '"2024-01-05T10:11:12.123456789Z"',
          '"9999-12-31T23:00:00-05:00"', '"\\ud83d\\ude00"', '"{\\"a\\":1}"', '"null"']  # fmt: skip
_NUMBERS = ["0", "-0", "7", "1.5", "1.10", "1e20", "1e400", "9007199254740992", "9007199254740993", "9" * 19, "9" * 400]
_ODD = ["NaN", '"\\ud800"', '"\xff"', "01", "", "{", '"a\tb"', "[" * 201 + "]" * 201, "[" * 120 + "]" * 120]


def _evolved_type(depth: int) -> st.SearchStrategy[pa.Field]:
    """A type, in a field of no name."""
    plain = st.sampled_from(_SCALARS).map(lambda kind: pa.field("", kind))
    any_value = st.just(any_json(""))
    if not depth:
        return st.one_of(plain, plain, any_value)
    below = _evolved_type(depth - 1)
    structs = st.dictionaries(st.sampled_from(_NAMES), below, min_size=1, max_size=3).map(
        lambda fields: pa.field("", pa.struct([field.with_name(name) for name, field in fields.items()]))
    )
    return st.one_of(
        plain, any_value, structs, structs,
        below.map(lambda item: pa.field("", list_of(item))), below.map(lambda item: pa.field("", map_of(item))),
    )  # fmt: skip


def _more(taken: Sequence[str]) -> st.SearchStrategy[list[pa.Field]]:
    """Fields that nobody declared, beside declared ones."""
    names = st.sampled_from([name for name in _NAMES if name not in taken])
    return st.dictionaries(names, _evolved_type(2), max_size=3).map(
        lambda fields: [
            field.with_name(name).with_metadata({**AT, **(field.metadata or {})}) for name, field in fields.items()
        ]
    )


@st.composite
def _schemas(draw: st.DrawFn) -> pa.Schema:
    """Declared columns, none of them in some cases, with others at each level."""
    if draw(st.integers(0, 4)) == 0:
        return pa.schema(draw(_more(()).filter(bool)))
    at = pa.struct([("a", pa.float64()), *draw(_more(["a"]))])
    item = pa.struct([("a", pa.string()), *draw(_more(["a"]))])
    kinds = {"id": pa.int64(), "name": pa.string(), "at": at, "lines": list_of(item), "parts": map_of(item)}
    fields = [pa.field(name, kind) for name, kind in kinds.items()]
    return pa.schema([*fields, any_json("p"), *draw(_more([*kinds, "p"]))])


@st.composite
def _value(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.integers(0, 11 if depth else 6))
    if kind <= 2:
        return draw(st.sampled_from(_TEXTS))
    if kind <= 4:
        return draw(st.sampled_from(_NUMBERS))
    if kind <= 6:
        odd = draw(st.integers(0, 15)) == 0
        return draw(st.sampled_from(_ODD if odd else ["true", "false", "null"]))
    if kind <= 8:
        return "[" + ",".join(draw(st.lists(_value(depth - 1), max_size=3))) + "]"
    return draw(_object(_NAMES, depth - 1))


@st.composite
def _object(draw: st.DrawFn, names: Sequence[str], depth: int) -> str:
    keys = draw(st.lists(st.sampled_from(names), max_size=4))
    return _written(draw, [(key, draw(_value(depth))) for key in keys])


def _written(draw: st.DrawFn, members: Sequence[tuple[str, str]]) -> str:
    colon = draw(st.sampled_from([":", ":", ": ", " :\n"]))
    return "{" + ",".join(f'"{key}"{colon}{value}' for key, value in members) + "}"


@st.composite
def _like(draw: st.DrawFn, field: pa.Field, wrong: int) -> str:
    """A value that mostly is what the field is for. wrong: of so many values one is any other."""
    kind = field.type
    if draw(st.integers(1, wrong)) == 1 + wrong // 2:
        return draw(_value(2))
    if pa.types.is_struct(kind):
        return draw(_like_fields(list(kind), wrong))
    if pa.types.is_list(kind):
        items = draw(st.lists(_like(kind.value_field, wrong), max_size=3))
        return "[" + ",".join([*items, *draw(st.sampled_from([[], [], ["null"]]))]) + "]"
    if pa.types.is_map(kind):
        keys = draw(st.lists(st.sampled_from(_NAMES), max_size=3, unique=True))
        return _written(draw, [(key, draw(_like(kind.item_field, wrong))) for key in keys])
    if field.metadata and b"exporter.json" in field.metadata:
        return draw(_value(2))
    return draw(st.sampled_from(_FITTING[kind]))


@st.composite
def _like_fields(draw: st.DrawFn, fields: Sequence[pa.Field], wrong: int) -> str:
    """An object with some of the fields in any order, and sometimes with others."""
    some = [field for field in fields if draw(st.integers(0, 3))]
    members = [(field.name, draw(_like(field, 4 if is_marked(field, "evolved") else wrong))) for field in some]
    known = [field.name for field in fields]
    if draw(st.integers(0, 3)) == 0:
        others = _NAMES if draw(st.integers(0, 9)) == 0 else [name for name in [*_NAMES, "w"] if name not in known]
        members.append((draw(st.sampled_from(others)), draw(_value(2))))
    return _written(draw, draw(st.permutations(members)))


_FITTING = {
    pa.int64(): ["0", "-0", "7", "9007199254740993"],
    pa.float64(): ["0", "1.10", "1e20", "9007199254740992", "9007199254740993"],
    pa.bool_(): ["true", "false"],
    pa.string(): _TEXTS,
    TIME: ['"2024-01-05T10:11:12Z"', '"2024-01-05T10:11:12.123456789Z"', '"9999-12-31T23:00:00-05:00"'],
}


@st.composite
def _cases(draw: st.DrawFn) -> tuple[pa.Schema, list[bytes]]:
    """A schema, and records that are more or less of it."""
    schema = draw(_schemas())
    wrong = draw(st.sampled_from([20, 60, 200]))
    texts = draw(st.lists(_like_fields(list(schema), wrong), min_size=1, max_size=6))
    return schema, [text.encode("latin-1") for text in texts]


_EVERY = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("tuning", [None, *TUNINGS], ids=str)
@_EVERY
@given(case=_cases())
def test_no_column_that_nobody_declared_changes_a_verdict_or_loses_a_value(
    tuning: str | None, case: tuple[pa.Schema, list[bytes]]
) -> None:
    """VERDICT, and ROUTE: as without them, alone as among others, met before or not; and nothing of it is lost."""
    schema, records = case
    check_rows(schema, records, checked(schema, records, Json(TUNINGS[tuning] if tuning else None)))


@pytest.mark.parametrize("tuning", [None, "judge"])
@_EVERY
@given(case=_cases())
def test_so_it_is_with_large_records(tuning: str | None, case: tuple[pa.Schema, list[bytes]]) -> None:
    """Of which the unknown fields are not read if that can be helped."""
    schema, records = case
    with mock.patch.object(judge, "LARGE_BYTES", 1):
        check_rows(schema, records, checked(schema, records, Json(TUNINGS[tuning] if tuning else None)))


@_EVERY
@given(case=_cases(), values_max=st.integers(1, 40))
def test_so_it_is_with_too_many_values(case: tuple[pa.Schema, list[bytes]], values_max: int) -> None:
    """Where a verdict does depend on which fields are unknown ones: those that were not declared are."""
    schema, records = case
    with mock.patch.object(judge, "VALUES_MAX", values_max), mock.patch.object(judge, "LARGE_BYTES", 1):
        checked(schema, records, Json())


def checked(schema: pa.Schema, records: Sequence[bytes], form: Json) -> DecodedBatch:
    """The records decoded together: as alone, and with the verdicts that they have without these columns."""
    decoder = Decoder("a", schema, PLAIN, form)
    for _ in range(2):
        run(decoder, [*records])
    batch = run(decoder, [*records])
    declared = run(Decoder("a", declared_only(schema), PLAIN, form), [*records])
    assert (batch.good.to_pylist(), batch.bad) == (declared.good.to_pylist(), declared.bad)
    seen = shown(batch)
    for row, record in enumerate(records):
        assert shown(run(Decoder("a", schema, PLAIN, form), [record]))[0] == seen[row], record
    return batch


def check_rows(schema: pa.Schema, records: Sequence[bytes], decoded: DecodedBatch) -> None:
    """By the oracle: what is refused, what is in which column, and that the two sides make the record again."""
    for held, record in zip(rows_of(decoded), records, strict=True):
        try:
            columns, rest = split(record, schema)
        except Refused:
            assert isinstance(held, str), record
            continue
        assert rescued(held["_rescued"]) == rest, record
        assert all(same(columns.get(field.name), held[field.name], field) for field in schema), record
        assert without_nulls(merged(columns, rest) or {}) == without_nulls(parsed(record)), record
