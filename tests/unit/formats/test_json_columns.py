"""Columns for any JSON: the value's text, and a verdict that never depends on what kind of value it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.decoder import Decoder
from exporter.formats.json import judge, lifted
from exporter.formats.json.format import Json
from exporter.formats.json.judge import LARGE_BYTES
from tests.support.decoded_rows import rows_of
from tests.unit.formats.decode_cases import CASES, NEIGHBOURS, SCHEMAS
from tests.unit.formats.test_decoder import PLAIN, TUNINGS, routing, run, shown
from tests.unit.formats.test_evolved_columns import ID, any_json, check_rows


def texts(values: Sequence[str], **more: Any) -> list[Any]:
    """What the column holds of each value, or the reason."""
    schema = pa.schema([ID, any_json("p")])
    found = run(Decoder("a", schema, PLAIN, **more), [f'{{"id":1,"p":{value}}}'.encode() for value in values])
    return [one if isinstance(one, str) else one["p"] for one in rows_of(found)]


_ANY = [
    "1", "-0", "1.0e400", "9" * 400, "true", '"x"', '""', '"\\u003a"', '"\\"\\n\\ud83d\\ude00\\u0000/\\/\u00e9"', "[]",
    "{}",
    "[1 ,null,{}]", '{"a": {"b":[1.10]},\n"c" :null}', '{"a:b":":"}', '{"\\u0061":1}', "[-0]", '[{"a":1},{"a":2}]',
    '"{\\"a\\":1}"', '"null"',
]  # fmt: skip


@pytest.mark.parametrize("tuning", [None, *TUNINGS], ids=str)
def test_any_value_is_held_as_it_was_sent(tuning: str | None) -> None:
    """Byte for byte, whatever it is and whichever reader reads the rest; alone as among others."""
    form = Json(TUNINGS[tuning] if tuning else None)
    assert texts(_ANY, form=form) == _ANY
    assert [texts([value], form=form)[0] for value in _ANY] == _ANY
    assert texts(["null", " null ", "  [1 ]  "], form=form) == [None, None, "[1 ]"]


def test_a_canonical_text_is_that_of_rescued() -> None:
    """Compact, number tokens as sent, no more escapes than needed."""
    values = [f'{{"p":{value}}}'.encode() for value in _ANY]
    kept = run(Decoder("a", pa.schema([ID]), PLAIN), [*values]).table["_rescued"].to_pylist()
    assert [f'{{"p":{text}}}' for text in texts(_ANY, json_text="canonical")] == kept


def test_it_may_stand_wherever_a_text_may() -> None:
    """In structs, arrays, maps, and those in each other; null and missing are null."""
    inner = pa.struct([any_json("q"), ("n", pa.int32())])
    schema = pa.schema([
        any_json("p"), ("s", inner), ("xs", pa.list_(any_json("element"))),
        ("m", pa.map_(pa.string(), any_json("value"))),
        ("ss", pa.list_(pa.field("element", inner))), ("ms", pa.map_(pa.string(), pa.list_(any_json("element")))),
    ])  # fmt: skip
    sent = (
        b'{"s":{"n":1,"q":[1 ],"w":2},"xs":[1,null,"x",{ }],"m":{"b":{"a":1},"a":null,"c":"t"},'
        b'"ss":[{"q":1.50},null,{"n":2,"w":3},{"q":null}],"ms":{"k":[[ ],null],"l":null},"u":{"q": 1}}'
    )
    found = run(Decoder("a", schema, PLAIN), [sent, b"{}"])
    assert found.table.drop_columns(["_event_time"]).to_pylist() == [
        {
            "p": None, "s": {"q": "[1 ]", "n": 1}, "xs": ["1", None, '"x"', "{ }"],
            "m": [("a", None), ("b", '{"a":1}'), ("c", '"t"')],
            "ss": [{"q": "1.50", "n": None}, None, {"q": None, "n": 2}, {"q": None, "n": None}],
            "ms": [("k", ["[ ]", None]), ("l", None)],
            "_rescued": '{"s":{"w":2},"ss":[null,null,{"w":3},null],"u":{"q":1}}',
        },
        {**dict.fromkeys(schema.names), "_rescued": None},
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name, (_, value) in CASES.items() if len(value) < 20_000])
def test_the_verdict_is_that_of_an_unknown_field(name: str) -> None:
    """Word for word, of the record as it was sent; so is what is read of the other columns."""
    schema, value = CASES[name]
    fields = [field for field in SCHEMAS[schema] if field.name != "u"]
    values = [NEIGHBOURS[schema], value, NEIGHBOURS[schema]]
    without = run(Decoder("a", pa.schema(fields), PLAIN), [*values])
    found = run(Decoder("a", pa.schema([*fields, any_json("u"), any_json("u2")]), PLAIN), [*values])
    assert (found.good, found.bad, found.truncated) == (without.good, without.bad, without.truncated)
    assert found.table.select(pa.schema(fields).names) == without.table.select(pa.schema(fields).names)


_BAD = {
    '{"a":1,"a":2}': "duplicate_key: 'a' occurs twice in one object",
    '{"a":1,"\\u0061":2}': "duplicate_key: 'a' occurs twice in one object",
    '{"\\u003a":{"a":1,"a":2}}': "duplicate_key: 'a' occurs twice in one object",
    '1,"p":2': "duplicate_key: 'p' occurs twice in one object",
    'null,"p":2': "duplicate_key: 'p' occurs twice in one object",
    '"\\ud800"': "not_json: half of a surrogate pair",
    "[" * 200 + "]" * 200: "not_json: nested deeper than 200 levels",
    "NaN": "not_json: NaN is not JSON",
    "[01]": "not_json: Expecting ',' delimiter: line 1 column 15 (char 14)",
    "": "not_json: Expecting value: line 1 column 13 (char 12)",
}


def test_what_is_no_good_json_refuses_the_record() -> None:
    """As it does anywhere else, and the reason tells the place in what was sent."""
    assert texts([*_BAD]) == [*_BAD.values()]
    assert [texts([value])[0] for value in _BAD] == [*_BAD.values()]
    assert texts(["[" * 199 + "]" * 199]) == ["[" * 199 + "]" * 199]
    broken = [b'{"p":{},"id":"\xff"}', b'{"p":"\xff"}', b'{"p":{"a": 1},"id":"x"}']
    assert [reason for _, _, reason in run(Decoder("a", pa.schema([ID, any_json("p")]), PLAIN), [*broken]).bad] == [
        "not_utf8: byte 14 of the value", "not_utf8: byte 6 of the value",
        "type_mismatch: $.id expected an integer, got a string",
    ]  # fmt: skip


def test_what_leads_to_it_must_be_of_its_kind() -> None:
    """A declared object, array or map refuses what is another kind, with the path and the kind that was sent."""
    schema = pa.schema([("s", pa.struct([any_json("q")])), ("xs", pa.list_(any_json("element"))),
                        ("m", pa.map_(pa.string(), any_json("value")))])  # fmt: skip
    found = run(Decoder("a", schema, PLAIN), [b'{"s":"x"}', b'{"s":[{}]}', b'{"xs":{"a":1}}', b'{"m":[1]}', b'{"m":1}'])
    assert [reason for _, _, reason in found.bad] == [
        "type_mismatch: $.s expected an object, got a string", "type_mismatch: $.s expected an object, got an array",
        "type_mismatch: $.xs expected an array, got an object", "type_mismatch: $.m expected an object, got an array",
        "type_mismatch: $.m expected an object, got an integer",
    ]  # fmt: skip


def test_one_that_is_required_must_be_there_and_not_null() -> None:
    """Whatever it is else."""
    schema = pa.schema([any_json("p").with_nullable(False)])
    found = run(Decoder("a", schema, PLAIN), [b'{"p":[]}', b"{}", b'{"p":null}', b'{"p":{"a":1,"\\u003a":2}}'])
    assert found.table["p"].to_pylist() == ["[]", '{"a":1,"\\u003a":2}']
    assert {reason for _, _, reason in found.bad} == {"missing_field: $.p is required, but null or missing"}


@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
def test_fields_beside_it_may_be_unknown(policy: Any) -> None:
    """They go where the policy says, learnt or not; nothing in the column is one."""
    decoder = Decoder("a", pa.schema([ID, any_json("p")]), routing(unknown_fields=policy))
    values: list[bytes | None] = [f'{{"id":{at},"p":{{"u":{at}}},"w":[{at}]}}'.encode() for at in range(8)]
    for _ in range(4):
        found = run(decoder, values)
        if policy == "dead_letter":
            assert [reason for _, _, reason in found.bad] == ["unknown_field: $.w"] * 8
        else:
            assert found.table["p"].to_pylist() == [f'{{"u":{at}}}' for at in range(8)]
            kept = [f'{{"w":[{at}]}}' for at in range(8)]
            assert found.table["_rescued"].to_pylist() == (kept if policy == "rescue" else [None] * 8)


def test_event_type_and_time_are_read_beside_it() -> None:
    """A record of another type is refused as ever."""
    config = Routing(TypeFrom("json", "t"), EventTime("json", "at.s", "s"), ())
    schema = pa.schema([any_json("p"), ("at", pa.struct([any_json("q")]))])
    good = b'{"t":"a","at":{"s":1706745600,"q":{"s": 1}},"p":{"t":"b"}}'
    found = run(Decoder("a", schema, config), [good, b'{"t":"b","at":{"s":1706745600},"p":{"t":"a"}}'])
    assert found.table.to_pylist()[0]["at"] == {"q": '{"s": 1}'} and found.table["p"].to_pylist() == ['{"t":"b"}']
    assert [reason for _, _, reason in found.bad] == ["type_mismatch: the event type was read as 'a' and is another"]


def test_a_large_value_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the column is one text, however many values there are in it; in doubt the record is as any other."""
    long = "[" + ",".join(['{"a": "b"}'] * (LARGE_BYTES // 8)) + "]"
    assert texts([long, "1"]) == [long, "1"]
    monkeypatch.setattr(judge, "VALUES_MAX", 500)
    assert texts([long]) == [long]
    doubtful = long[:-1] + ",-0]"
    assert texts([doubtful]) == [judge.TOO_MANY]


def test_what_is_in_doubt_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that the judge refuses as it was sent is not read by anybody else."""
    seen: list[bytes | None] = []
    verdict = judge.Judge.verdict
    monkeypatch.setattr(judge.Judge, "verdict", lambda self, raw: seen.append(raw) or verdict(self, raw))
    assert texts(['{"\\u003a":1}', "[1]"]) == ['{"\\u003a":1}', "[1]"]
    assert seen == [b'{"id":1,"p":{"\\u003a":1}}']
    assert lifted.PASSED_IN_VAIN.startswith("not_json: ")


# --- any values -----------------------------------------------------------------------------------------------

_LEAVES = st.sampled_from([*_ANY, *_BAD, '"\\u005c"', "1e5", "null", "NaN", "[", '"a\tb"', '"\xff"'])
_BLANK = st.sampled_from(["", "", " ", "\n\t"])


def _object(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(["a", "b", "p", "q", "\\u0061", "a:b", "\\u003a", ""])
    pairs = st.lists(st.tuples(names, _BLANK, values).map(lambda part: f'"{part[0]}"{part[1]}:{part[2]}'), max_size=3)
    return st.tuples(pairs, _BLANK).map(lambda found: "{" + found[1] + ",".join(found[0]) + found[1] + "}")


def _array(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda items: f"[{' ,'.join(items)}]")


_VALUES = st.recursive(_LEAVES, lambda inner: st.one_of(_array(inner), _object(inner)), max_leaves=6)
_RECORDS = st.lists(st.tuples(st.sampled_from(["p", "s", "xs", "m", "id", "w"]), _VALUES), max_size=4).map(
    lambda members: ("{" + ",".join(f'"{name}":{value}' for name, value in members) + "}").encode("latin-1")
)
_SCHEMA = pa.schema([
    ID, any_json("p"), ("s", pa.struct([any_json("q"), any_json("a")])), ("xs", pa.list_(any_json("element"))),
    ("m", pa.map_(pa.string(), any_json("value"))),
])  # fmt: skip


@pytest.mark.parametrize("json_text", ["as_sent", "canonical"])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=st.lists(_RECORDS, min_size=1, max_size=5))
def test_what_is_held_is_what_was_sent(json_text: Any, records: list[bytes]) -> None:
    """By Python's own reader of JSON; alone as among others; and no verdict is another than that of plain fields."""
    batch = run(Decoder("a", _SCHEMA, PLAIN, json_text=json_text), [*records])
    check_rows(_SCHEMA, records, batch)
    for row, (record, held) in enumerate(zip(records, rows_of(batch), strict=True)):
        alone = run(Decoder("a", _SCHEMA, PLAIN, json_text=json_text), [record])
        assert shown(alone)[0] == shown(batch)[row], record
        if isinstance(held, dict) and json_text == "as_sent":
            texts = [held["p"], *(held["xs"] or []), *(held["s"] or {}).values(), *dict(held["m"] or []).values()]
            assert all(text is None or text.encode() in record for text in texts), record
