"""Unknown fields, whichever way they are taken out: where others had them, record by record, or by the judge."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.decoded import DecodedBatch
from exporter.formats.decoder import Decoder
from exporter.formats.json import judge
from exporter.formats.json.format import Json
from exporter.formats.json.judge import LARGE_BYTES, too_many_values
from exporter.formats.json.layouts import LAYOUTS_MAX, MARK
from exporter.formats.json.unknown import plain
from tests.unit.formats.decode_cases import CASES
from tests.unit.formats.oracle import Refused, dumped, parsed, split
from tests.unit.formats.test_decoder import (
    PLAIN,
    TUNINGS,
    counts,
    decoded_alone,
    habits,
    json_reader,
    new_decoder,
    routing,
    run,
    shown,
)

SHOP = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", pa.struct([("x", pa.float64()), ("u", pa.int32()), ("in", pa.struct([("y", pa.bool_())]))])),
        ("lines", pa.list_(pa.field("element", pa.struct([("sku", pa.string())])))),
        ("flags", pa.map_(pa.string(), pa.bool_())),
        ("parts", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
        ("ts", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
    ]
)
NO_MAPS = pa.schema([field for field in SHOP if not pa.types.is_map(field.type)])
POLICIES = ("rescue", "ignore", "dead_letter")


def taught(schema: pa.Schema, values: Sequence[bytes], config: Routing = PLAIN) -> Decoder:
    """A decoder that has met each of these often enough to know where they have unknown fields."""
    decoder = Decoder("a", schema, config)
    for value in values:
        run(decoder, [value])
        run(decoder, [value])
    return decoder


def cut_rows(decoder: Decoder, values: Sequence[bytes]) -> list[int]:
    """Rows of a block whose unknown fields are cut out by what the decoder has learnt."""
    cut = json_reader(decoder).layouts.cut(pa.array(values, pa.binary()))
    return [] if cut is None else [row for row, text in enumerate(cut.unknown.to_pylist()) if text is not None]


def judged(schema: pa.Schema, value: bytes, config: Routing = PLAIN) -> DecodedBatch:
    """By the judge alone."""
    return run(Decoder("a", schema, config, Json(TUNINGS["judge"])), [value])


# --- any reader says the same -------------------------------------------------------------------------


SHORT = [name for name, (_, value) in CASES.items() if len(value) < 20_000]


@pytest.mark.parametrize("name", SHORT)
def test_a_record_that_was_met_before_is_decoded_as_the_first_time(name: str) -> None:
    """Row, verdict, reason and counts of every listed case are the same after the decoder has learnt from it."""
    schema, value = CASES[name]
    config = routing(unknown_fields=POLICIES[SHORT.index(name) % 3])
    alone = decoded_alone(schema, value, config)
    decoder = new_decoder(schema, config)
    for _ in range(2):
        run(decoder, [value])
    again = run(decoder, [value, b"{", value])
    assert shown(again)[0] == shown(again)[2] == shown(alone)[0]
    assert counts(again) == tuple(2 * count for count in counts(alone))


_TEXTS = st.one_of(
    st.text(max_size=6),
    st.sampled_from(['"', "\\", "a:b", "{", "}", "[,]", ': "', "~0", "\x7f", "\n", "\u2028", "\U0001f600", "null"]),
).map(lambda text: json.dumps(text, ensure_ascii=len(text) % 2 == 0))
_NUMBERS = st.sampled_from(
    ["0", "-0", "-0.0", "7", "-12", "1.10", "1.0e400", "1E5", "1e-7", "9" * 30, "9" * 5000, "-05", "01", "1.", "+1"]
)
_ODD = st.sampled_from(
    ['"\\ud800"', '"\\udc00"', '"\\u003a"', '"\\x"', "NaN", "nul", '"a\tb"', "", "{", "}", "1,2", '""']
)
_PLAIN_VALUES = st.one_of(_TEXTS, _NUMBERS, st.sampled_from(["true", "false", "null"]))
_NAMES = st.sampled_from(["u", "w", "x", "n", "sku", "id", "a:b", "\\u003a", "\\u0075", "", "}", ",", '\\"'])


def _joined(parts: Sequence[str], blank: str) -> str:
    return ("," + blank).join(parts)


@st.composite
def _nested(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.integers(0, 9))
    if depth and kind == 0:
        return "[" + _joined(draw(st.lists(_nested(depth - 1), max_size=3)), draw(st.sampled_from(["", " "]))) + "]"
    if depth and kind in (1, 2):
        pairs = draw(st.lists(st.tuples(_NAMES, _nested(depth - 1)), max_size=3))
        colon = draw(st.sampled_from([":", ": ", " :"]))
        return "{" + _joined([f'"{name}"{colon}{value}' for name, value in pairs], "") + "}"
    if depth and kind == 3:
        levels = draw(st.sampled_from([50, 98, 120, 197, 200, 260]))
        return "[" * levels + "]" * levels
    return draw(_ODD) if kind == 4 and draw(st.integers(0, 3)) == 0 else draw(_PLAIN_VALUES)


_KNOWN_VALUES: dict[str, Any] = {
    "id": st.sampled_from(["1", "-7", "null", '"x"', "9223372036854775808"]),
    "name": st.one_of(_TEXTS, st.just('"plain"')),
    "ts": st.sampled_from(['"2024-01-05T10:11:12Z"', '"2024-01-05T10:11:12.123456789Z"', '"x"']),
    "price": st.sampled_from(["1.25", "1e3", '"7"', "1e-1000000000", "0.001"]),
    "flags": st.sampled_from(["{}", '{"a":true}', '{"u":true,"w":null}', '{"u":true,"x":false}', "[]"]),
}


@st.composite
def _member(draw: st.DrawFn, name: str, colon: str) -> str:
    """One field of a record, with whatever stands below it."""
    if name in _KNOWN_VALUES:
        value = draw(_KNOWN_VALUES[name])
    elif name in ("at", "in", "parts", "lines"):
        inner = {"at": ["x", "u", "in", "w"], "in": ["y", "u"], "parts": ["a", "b"], "lines": ["sku", "u", "w"]}[name]
        names = draw(st.lists(st.sampled_from(inner), max_size=3))
        value = "{" + _joined([draw(_member(one, colon)) for one in names], "") + "}"
        value = f"[{value},null,{value}]" if name == "lines" else value
    elif name in ("a", "b"):
        value = draw(st.sampled_from(['{"n":1}', '{"n":1,"u":2}', "null", "{}", '{"u":[]}']))
    elif name in ("x", "y", "sku"):
        value = draw(st.sampled_from(["1.5", "true", '"s"', "null"]))
    else:
        value = draw(_nested(2))
    return f'"{name}"{colon}{value}'


@st.composite
def _program(draw: st.DrawFn, names: Sequence[str]) -> list[bytes]:
    """Records as one program writes them: the same fields in about the same order, other values."""
    order = draw(st.lists(st.sampled_from([*names, "u", "w", "v", "\\u0075", "u"]), min_size=1, max_size=7))
    styles = [(":", ",", ""), (": ", ", ", ""), (" :\n", "\n,", " "), (":", ",", "\n"), (":", ",", "")]
    colon, comma, end = draw(st.sampled_from(styles))
    records = []
    for _ in range(draw(st.integers(2, 6))):
        fields = [one for one in order if draw(st.integers(0, 7))]
        if draw(st.integers(0, 7)) == 0:
            fields = draw(st.permutations(fields))
        text = "{" + comma.join(draw(_member(one, colon)) for one in fields) + "}" + end
        record = text.encode("utf-8", "surrogatepass")
        if draw(st.integers(0, 7)) == 0:
            at = draw(st.integers(0, len(record) - 1))
            other = draw(st.sampled_from([b"", b'"', b"}", b",", b"\n", b"\xff", b"{"]))
            record = record[:at] + other + record[at + 1 :]
        records.append(record)
    return records


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("maps", [True, False])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_was_learnt_changes_no_verdict(maps: bool, policy: Any, data: st.DataObject) -> None:
    """ROUTE: a record alone, judged, in a batch, behind others that the decoder learnt from; and a naive reader."""
    schema, config = SHOP if maps else NO_MAPS, routing(unknown_fields=policy)
    records = data.draw(_program(schema.names))
    decoder = taught(schema, records[:2], config)
    batch = run(decoder, records)
    seen, total = shown(batch), [0, 0, 0]
    for row, record in enumerate(records):
        alone = judged(schema, record, config)
        assert seen[row] == shown(alone)[0], record
        total = [a + b for a, b in zip(total, counts(alone), strict=True)]
        if not alone.bad and policy == "rescue":
            _, rest = split(record, schema)
            assert alone.table["_rescued"].to_pylist() == [None if rest is None else dumped(rest)], record
        if alone.bad and alone.bad[0][2].startswith(("not_json", "duplicate_key", "not_utf8")):
            with pytest.raises(Refused):
                parsed(record)
    assert tuple(total) == counts(batch)
    assert shown(run(decoder, records)) == seen


# --- where others had them: no place is believed ------------------------------------------------------

_ALIKE = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.struct([("u", pa.int64()), ("id", pa.int64()), ("in", pa.struct([("y", pa.int64())]))])),
        ("m", pa.map_(pa.string(), pa.bool_())),
        ("s", pa.string()),
    ]
)
"""Names in it stand at several places."""

TRAPS: dict[str, tuple[bytes, bytes]] = {
    "a declared field of a struct": (b'{"u":5,"id":7}', b'{"at":{"u":3,"id":4},"u":5,"id":7}'),
    "a declared field of a struct alone": (b'{"u":5,"id":7}', b'{"at":{"u":3,"id":4},"id":7}'),
    "a key of a map": (b'{"u":true,"id":7}', b'{"m":{"u":true,"id":false},"u":true,"id":7}'),
    "a key of a map alone": (b'{"u":true,"id":7}', b'{"m":{"u":true,"id":false}}'),
    "within a text": (b'{"u":5,"id":7}', b'{"s":"\\"u\\":5,\\"id\\":7"}'),
    "within a broken text": (b'{"u":5,"id":7}', b'{"s":"x"u":5,"id":7y"}'),
    "behind an escaped quote": (b'{"u":5,"id":7}', b'{"s":"\\"u":5,"id":7}'),
    "a key that ends like it": (b'{"u":5,"id":7}', b'{"a\\"u":5,"id":7}'),
    "a known field among them": (b'{"u":5,"s":"x"}', b'{"u":5,"id":1,"s":"x"}'),
    "a known field among several": (b'{"u":5,"w":6,"s":"x"}', b'{"u":5,"id":1,"s":"x"}'),
    "another value behind it": (b'{"u":5,"id":7}', b'{"u":5,6,"id":7}'),
    "two colons": (b'{"u":5,"id":7}', b'{"u":5:6,"id":7}'),
    "a key twice": (b'{"u":5,"id":7}', b'{"u":5,"u":6,"id":7}'),
    "a key twice apart": (b'{"u":5,"id":7}', b'{"u":5,"id":7,"u":6}'),
    "a key twice, escaped": (b'{"u":5,"id":7}', b'{"u":5,"\\u0075":6,"id":7}'),
    "a key twice in two places": (b'{"u":5,"id":7,"w":1,"s":""}', b'{"u":5,"id":7,"w":1,"u":2,"s":""}'),
    "a key twice in two usual places": (b'{"u":5,"v":1,"id":7,"w":1,"s":""}', b'{"u":5,"w":1,"id":7,"w":1,"s":""}'),
    "a key twice below": (b'{"u":{"a":1,"b":2},"id":7}', b'{"u":{"a":1,"a":2},"id":7}'),
    "a key twice below, blanks": (b'{"u":{"a":1,"b":2},"id":7}', b'{"u":{"a":1,"a" :2},"id":7}'),
    "a key twice below, a colon": (b'{"u":{"a":1,"b":2},"id":7}', b'{"u":{"a":1,"a":"\\u003a"},"id":7}'),
    "an end within it": (b'{"u":5,"id":7}', b'{"u":{"a":5,"id":7},"id":8}'),
    "only an end within it": (b'{"u":5,"id":7}', b'{"u":{"a":5,"id":7}}'),
    "a brace too many": (b'{"at":{"u":1,"w":5,"id":2},"s":""}', b'{"at":{"u":1,"w":5},"x":{"y":6,"id":2},"s":""}'),
    "halves that fit": (b'{"u":5,"id":7,"w":6,"s":""}', b'{"u":{"x":1,"id":7,"w":2},"s":""}'),
    "a struct less": (b'{"at":{"w":5,"id":2},"s":""}', b'{"w":5,"id":2,"s":""}'),
    "a struct more": (b'{"w":5,"id":2,"s":""}', b'{"at":{"w":5,"id":2},"s":""}'),
    "another struct": (b'{"at":{"w":5,"id":2}}', b'{"at":{"in":{"w":5,"id":2}}}'),
    "the end is not the end": (b'{"id":7,"u":5}', b'{"id":7,"u":5}}'),
    "nothing behind it": (b'{"id":7,"u":5}', b'{"id":7,"u":5'),
    "two records": (b'{"id":7,"u":5}', b'{"id":7,"u":5}\n{"id":8,"u":6}'),
    "two lines": (b'{"id":7,"u":5}', b'{"id":7,"u":5}\n{"u":6}'),
    "a line break": (b'{"id":7,"u":{"a":5}}', b'{"id":7,"u":{"a":\n5}}'),
    "no number": (b'{"u":5,"id":7}', b'{"u":05,"id":7}'),
    "no text": (b'{"u":"a","id":7}', b'{"u":"a\tb","id":7}'),
    "an escape": (b'{"u":"a","id":7}', b'{"u":"\\x","id":7}'),
    "an escape that the judge does not write": (b'{"u":"a","id":7}', b'{"u":"\\/\\u000a\\u007f","id":7}'),
    "escapes that the judge writes": (b'{"u":"a","id":7}', b'{"u":"\\"\\\\\\n\\r\\t\\b\\f","id":7}'),
    "an escaped end": (b'{"u":"a","id":7}', b'{"u":"\\","id":7}'),
    "half a pair": (b'{"u":"a","id":7}', b'{"u":"\\ud800","id":7}'),
    "no utf-8": (b'{"u":"a","id":7}', b'{"u":"\xff","id":7}'),
    "no utf-8 in a key": (b'{"u":{"a":1},"id":7}', b'{"u":{"\xff":1},"id":7}'),
    "minus zero": (b'{"u":{"a": 1},"id":7}', b'{"u":{"a": -0},"id":7}'),
    "a great number": (b'{"u":{"a": 1},"id":7}', b'{"u":{"a": 1.0e400},"id":7}'),
    "a long number": (b'{"u":{"a": 1},"id":7}', b'{"u":{"a": ' + b"9" * 5000 + b'},"id":7}'),
    "deep": (b'{"u":[],"id":7}', b'{"u":' + b"[" * 198 + b"]" * 198 + b',"id":7}'),
    "too deep": (b'{"u":[],"id":7}', b'{"u":' + b"[" * 200 + b"]" * 200 + b',"id":7}'),
    "empty": (b'{"u":5,"id":7}', b""),
    "a bad field besides": (b'{"u":5,"id":7}', b'{"u":5,"id":"x"}'),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", TRAPS)
def test_a_record_that_only_looks_like_others_is_read_as_it_is(name: str, policy: Any) -> None:
    """ROUTE: whatever stands where others have their unknown fields, alone and among those."""
    usual, value = TRAPS[name]
    config = routing(unknown_fields=policy)
    decoder = taught(_ALIKE, [usual], config)
    assert cut_rows(decoder, [usual, b"{}", usual]) == [0, 2]
    expected = {row: shown(judged(_ALIKE, sent, config))[0] for row, sent in enumerate([value, usual, value, b"{}"])}
    assert shown(run(decoder, [value, usual, value, b"{}"])) == expected
    decoder = taught(_ALIKE, [usual], config)
    assert shown(run(decoder, [value]))[0] == expected[0]


def test_fields_named_like_our_marks_are_kept() -> None:
    """A mark cannot be guessed; one that is known, as here, is still no column."""
    decoder = taught(_ALIKE, [b'{"u":5,"id":7}'])
    assert len(MARK) == 16
    value = b'{"%s9":1,"id":7}' % MARK.encode()
    assert run(decoder, [value]).table["_rescued"].to_pylist() == [value[:22].decode() + "}"]


@pytest.mark.parametrize(
    ("usual", "value", "unknown"),
    [
        (b'{"u":1,"id":7}', b'{"u":1.50,"id":8}', '{"u":1.50}'),
        (b'{"u":1,"id":7}', b'{"u":"x","id":8}', '{"u":"x"}'),
        (b'{"u":1,"id":7}', b'{"u":[1,{"a": 1.0}],"id":8}', '{"u":[1,{"a":1.0}]}'),
        (b'{"u":1,"id":7}', b'{"u":{"b":null,"a":[]},"id":8}', '{"u":{"b":null,"a":[]}}'),
        (b'{"u":1,"id":7}', b'{"u":"\\u00e9\\n","id":8}', '{"u":"\u00e9\\n"}'),
        (b'{"u":1,"id":7}', b'{"s":"y","u":1,"id":8,"at":null}', '{"u":1}'),
        (b'{"id":7,"u":1}', b'{"id":8,"s":null,"u":2}', '{"u":2}'),
        (b'{"u":1,"w":2,"id":7}', b'{"u":1,"w":[3],"id":8}', '{"u":1,"w":[3]}'),
        (b'{"u":1,"w":2,"id":7}', b'{"u":1,"x":{"y":{}},"z":3,"id":8}', '{"u":1,"x":{"y":{}},"z":3}'),
        (b'{"u":1,"id":7,"w":2,"s":""}', b'{"u":{},"id":8,"w":"3","s":"a"}', '{"u":{},"w":"3"}'),
        (b'{ "u" : 1 , "id" : 7 }', b'{ "u" : 5 , "id" : 8 }', '{"u":5}'),
        (b'{"u": {"a": 1}, "id": 7}', b'{"u": {"a": 2, "b": 3}, "id": 8}', '{"u":{"a":2,"b":3}}'),
        (b'{"at":{"w":1,"id":2,"z":3}}', b'{"at":{"w":5,"id":2,"z":[]}}', '{"at":{"w":5,"z":[]}}'),
        (b'{"at":{"in":{"w":1}},"u":2}', b'{"at":{"in":{"w":3}},"u":4}', '{"at":{"in":{"w":3}},"u":4}'),
        (b'{"v":0,"at":{"w":1},"u":2}', b'{"v":1,"at":{"w":3},"u":4}', '{"v":1,"at":{"w":3},"u":4}'),
        (b'{"a\\"b\\u0001":1,"id":7}', b'{"a\\"b\\u0001":2,"id":7}', '{"a\\"b\\u0001":2}'),
    ],
)  # fmt: skip
def test_unknown_fields_are_cut_out_where_others_had_them(usual: bytes, value: bytes, unknown: str) -> None:
    """Without msgspec or the judge looking at the record; of any kind, in structs, and as the judge writes them."""
    decoder = taught(_ALIKE, [usual])
    with (
        mock.patch.object(judge.Judge, "verdict", side_effect=AssertionError("judged")),
        mock.patch.object(judge.Judge, "guess", side_effect=AssertionError("taken apart")),
    ):
        decoded = run(decoder, [value, b"{}", value])
    assert decoded.table["_rescued"].to_pylist() == [unknown, None, unknown]
    assert shown(decoded)[0] == shown(judged(_ALIKE, value))[0]


def test_records_of_several_programs_are_all_cut() -> None:
    """In one block, each where its own writer has the fields; what none has is as it was sent."""
    usual = [b'{"u":%d,"id":7}', b'{"id":7,"u":%d}', b'{"u":%d,"s":"x"}', b'{"id":7,"at":{"w":%d}}']
    decoder = taught(_ALIKE, [one % 0 for one in usual])
    values = [(usual[row % 5] % row if row % 5 < 4 else b'{"id":%d}' % row) for row in range(50)]
    assert cut_rows(decoder, values) == [row for row in range(50) if row % 5 < 4]
    decoded = run(decoder, values)
    assert shown(decoded) == {row: shown(judged(_ALIKE, value))[0] for row, value in enumerate(values)}


def test_what_two_places_have_had_is_not_twice_in_one_record() -> None:
    """Each place alone looks as others did, in the block that taught it and in a later one."""
    decoder = taught(_ALIKE, [b'{"u":1,"v":1,"id":7,"w":1,"z":1,"s":""}'])
    value = b'{"u":1,"z":1,"id":7,"w":1,"z":2,"s":""}'
    for others in ([b'{"u":1,"z":1,"id":7,"w":1,"q":1,"s":""}'] * 8, [b"{}"]):
        (bad,) = run(decoder, [*others, value]).bad
        assert bad == (len(others), "decode", "duplicate_key: 'z' occurs twice in one object")


def test_names_that_are_data_are_not_learnt() -> None:
    """As many layouts as there may be, then no more; each record is decoded all the same."""
    values = [b'{"k%d":1,"id":7}' % number for number in range(LAYOUTS_MAX + 5)]
    decoder = taught(_ALIKE, values)
    assert cut_rows(decoder, values) == list(range(LAYOUTS_MAX))
    assert run(decoder, values).table["_rescued"].null_count == 0
    for _ in range(200):
        run(decoder, [b'{"id":7}'])
    assert cut_rows(decoder, values) == []


@pytest.mark.parametrize(
    "usual",
    [
        b'{"m":{"a":true},"at":{"in":{"y":1}},"id":1}',
        b'{"u":' + b'{"a":' * 150 + b"1" + b"}" * 150 + b',"id":7}',
        b'{"u":{%s},"id":7}' % b",".join(b'"a long name of a field %d":1' % number for number in range(2_000)),
        b'{"u":[%s],"id":7}' % b",".join(b'{"k%d":1}' % number for number in range(500)),
        b'{"u":' + b"[" * 100 + b"]" * 100 + b',"id":7}',
        b'{"u":"%s","id":7}' % (b"x" * 100_000),
        b"{%s}" % b",".join(b'"u%d":1,"at":{"w":1}' % number for number in range(1)),
    ],
    ids=["none", "deep", "wide", "many kinds", "arrays", "long", "struct"],
)
def test_what_is_met_twice_is_decoded_as_the_first_time(usual: bytes) -> None:
    """Also where it is too long or too deep to learn from."""
    expected = shown(judged(_ALIKE, usual))[0]
    for sent in ([usual] * 3, [usual, b"{}", usual]):
        seen = shown(run(taught(_ALIKE, [usual]), sent))
        assert seen[0] == seen[2] == expected


# --- taken apart, record by record --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('{"a":1.10,"b":[1e400,-0.0]}', '{"a":1.10,"b":[1e400,-0.0]}'),
        ('{ "a" : [ ] }', '{"a":[]}'),
        ('{"a":"\\u00e9\\/"}', '{"a":"\u00e9/"}'),
        ('{"a":12345678901234567890123}', '{"a":12345678901234567890123}'),
        ('{"a":"2024-01-05","b": "x"}', '{"a":"2024-01-05","b":"x"}'),
        ('{"a":1,"a":2}', None),
        ('{"a":1,"a" :2}', None),
        ('{"a":1,"a":"\\u003a"}', None),
        ('{"a":1,"a":"\\u003A"}', None),
        ('{"b":{"a":1,"\\u0061":2}}', None),
        ('{"a": -0}', None),
        ('{"a":"\\ud800"}', None),
        ('{"a":1', None),
    ],
)
def test_plain_json_is_written_as_the_judge_writes_it_or_left_to_it(text: str, written: str | None) -> None:
    """Numbers as sent, no blanks, escapes only where JSON asks for them; a key twice is never lost."""
    found = plain(text.encode())
    assert (found and found[0].decode()) == written


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1,"u":2}',
        b'{"lines":[{"sku":"a","u":1},null,{"w":{"x":[1, 2]}}],"v":"x"}',
        b'{"parts":{"a":{"n":1,"u":2},"b":null,"c":{}},"at":{"in":{"w":1},"w":2}}',
        b'{"parts":{"a:b":{"n":1,"u":2}}}',
        b'{"u":1,"u":2}',
        b'{"at":{"w":1},"at":{"x":1}}',
        b'{"at":{"x":1},"at":{"w":1}}',
        b'{"lines":{"sku":1}}',
        b'{"lines":[{"sku":1,"u":2}]}',
        b'{"lines":[[],{"u":2}]}',
        b'{"price":1e3,"u":2}',
        b'{"ts":"2024-01-05T10:11:12.1234567Z","u":2}',
        b'{"u":"\\u003a","w":1}',
        b'{"\\u003a":1,"u":2,"u":3}',
        b'{"price":"1e+-1","u":2}',
        b'{"name":"\xff","u":2}',
    ],
)
def test_a_record_that_was_taken_apart_is_as_if_judged(value: bytes, policy: Any) -> None:
    """Verdict, row and counts; alone, and among as many as it takes to have the classifier look at each first."""
    config = routing(unknown_fields=policy)
    for schema, size in itertools.product((SHOP, _ALIKE), (1, 3, 40)):
        expected = judged(schema, value, config)
        decoded = run(Decoder("a", schema, config), [value] * size)
        assert set(map(str, shown(decoded).values())) == {str(shown(expected)[0])}
        assert counts(decoded) == tuple(size * count for count in counts(expected))


_TYPED = routing(type_from=TypeFrom("json", "t"), event_time=EventTime("json", "at.ts"))


@pytest.mark.parametrize("name", SHORT)
def test_a_record_of_a_type_without_columns_is_kept_as_if_judged(name: str) -> None:
    """All of its fields are unknown; whole, alone and among others, with the event type and time in it or without."""
    value = CASES[name][1]
    typed = value.replace(b"{", b'{"t":"a","at":{"ts":"2024-01-05T10:11:12Z","x": 1},', 1).replace(b",}", b"}", 1)
    for config, sent in ((PLAIN, value), (_TYPED, typed)):
        expected = judged(pa.schema([]), sent, config)
        decoded = run(Decoder("a", pa.schema([]), config), [sent, b"{}", sent])
        assert shown(decoded)[0] == shown(decoded)[2] == shown(expected)[0]
        if not expected.bad:
            assert expected.table["_rescued"].to_pylist() == [dumped(parsed(sent))]


def test_a_type_without_columns_needs_no_judge() -> None:
    """Its records are written as the judge would, without an object of each value."""
    decoder = Decoder("a", pa.schema([]), _TYPED)
    with mock.patch.object(judge.Judge, "verdict", side_effect=AssertionError("judged")):
        decoded = run(decoder, [b'{"t":"a", "u":[1.0], "at":{"ts":"2024-01-05T10:11:12Z"}}'])
    assert decoded.table["_rescued"][0].as_py() == '{"t":"a","u":[1.0],"at":{"ts":"2024-01-05T10:11:12Z"}}'


def test_records_of_unknown_names_are_not_judged() -> None:
    """The judge makes an object of each value: it is asked only about what is in doubt."""
    decoder = Decoder("a", SHOP, PLAIN)
    values = [b'{"id":%d,"k%d":{"a":1},"lines":[{"u":%d}]}' % (row, row, row) for row in range(600)]
    with mock.patch.object(judge.Judge, "verdict", side_effect=AssertionError("judged")):
        decoded = run(decoder, values)
    assert decoded.table["_rescued"][7].as_py() == '{"k7":{"a":1},"lines":[{"u":7}]}'


def test_times_that_are_cut_count_only_where_they_are_stored() -> None:
    """Of records that are refused for their unknown fields none does, in streams of long timestamps neither."""
    config = routing(unknown_fields="dead_letter", event_time=EventTime("json", "ts"))
    long = b'{"ts":"2024-01-05T10:11:12.123456789Z"%s}'
    decoder = Decoder("a", SHOP, config)
    for _ in range(4):
        decoded = run(decoder, [long % b"", long % b',"u":1', long % b""])
        assert counts(decoded) == (0, 0, 2)
        assert decoded.bad == [(1, "decode", "unknown_field: $.u")]
    assert habits(decoder).long


def test_the_type_of_a_record_is_compared_without_its_unknown_fields_too() -> None:
    """ROUTE: a record that was routed by another type is refused, not filed."""
    config = routing(type_from=TypeFrom("json", "t"))
    decoder = taught(NO_MAPS, [b'{"t":"a","u":1,"id":2}'], config)
    decoded = run(decoder, [b'{"t":"a","u":1,"id":2}', b'{"t":"b","u":1,"id":2}'])
    assert [why.partition(":")[0] for _, _, why in decoded.bad] == ["type_mismatch"]


# --- records of very many values ------------------------------------------------------------------------

_MANY = {
    "an unknown field of numbers": b'{"id":1,"u":[%s]}' % (b"1," * 1_000_000 + b"1"),
    "one of objects": b'{"id":1,"u":[%s]}' % (b'{"a":1},' * 250_000 + b"1"),
    "a bad record with one": b'{"id":"x","u":[%s]}' % (b"1," * 1_000_000 + b"1"),
    "one in each of many structs": b'{"id":1,"lines":[%s]}' % (b'{"u":1},' * 200_000 + b"{}"),
    "a bad record with many known values": b'{"id":"x","many":[%s]}' % (b"1," * 1_000_000 + b"1"),
    "an unknown field beside many known values": b'{"id":1,"u":1,"many":[%s]}' % (b"1," * 1_000_000 + b"1"),
    "a cut one": b'{"id":1,"u":[%s' % (b"1," * 1_000_000),
}

_WEIGHED = """
import resource, sys
from tests.unit.formats.test_unknown_fields import _MANY, SHOP, PLAIN, judged, pa, run
from exporter.formats.decoder import Decoder
schema = SHOP.append(pa.field("many", pa.list_(pa.field("element", pa.int64()))))
run(Decoder("a", schema, PLAIN), [b'{"id":1,"u":{}}', b'{'])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for value in _MANY.values():
    run(Decoder("a", schema, PLAIN), [value])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def test_a_record_of_a_million_values_takes_a_small_multiple_of_its_size() -> None:
    """Two megabytes took 200: an object was made of each value, whether a column asks for it or not."""
    done = subprocess.run([sys.executable, "-c", _WEIGHED], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50 * max(map(len, _MANY.values()))


@contextmanager
def _few_values(limit: int) -> Iterator[None]:
    """As if the judge stopped at so many, and looked for unknown fields before it reads."""
    with mock.patch.multiple(judge, VALUES_MAX=limit, LARGE_BYTES=1):
        yield


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b'{"id":1,"xs":[1,2,3,4,5,6,7,8]}', ""),
        (b'{"id":1,"s":"a,b,c,d,e,f,g,h,i,j,k,l","xs":"x"}', "type_mismatch"),
        (b'{"id":1,"s":"\\",,,,,,,,,,,,,,\\"","xs":"x"}', "type_mismatch"),
        (b'{"id":"x","xs":[1,2,3,4,5,6,7,8]}', "too_many_values"),
        (b'{"id":1,"xs":[1,2,3,4,5,6,7,8]', "too_many_values"),
        (b'{"id":1,"u":[1,2,3,4,5,6,7,8]}', ""),
        (b'{"id":"x","u":[1,2,3,4,5,6,7,8]}', "type_mismatch"),
        (b'{"id":1,"d":1e1,"u":[1,2,3,4,5,6,7,8]}', ""),
        (b'{"id":1,"s":"\\x","u":[1,2,3,4,5,6,7,8]}', "too_many_values"),
        (b'{"id":1,"u":1,"xs":[1,2,3,4,5,6,7,8]}', ""),
        (b'{"id":1,"u":{"a":1,"a":[1,2,3,4,5,6,7,8]}}', "too_many_values"),
        (b'{"id":1,"d":1e1,"xs":[1,2,3,4,5,6,7,8]}', "too_many_values"),
    ],
)
def test_of_a_record_with_too_many_values_the_judge_makes_none(value: bytes, code: str) -> None:
    """It is good if the reader alone takes it, or its declared fields; else `too_many_values`, in whatever company."""
    fields = [("id", pa.int64()), ("s", pa.string()), ("xs", pa.list_(pa.int64())), ("d", pa.decimal128(9, 2))]
    schema, exact = pa.schema(fields), judge.Judge.exact
    looked: list[bytes] = []

    def look(self: judge.Judge, raw: bytes) -> judge.Verdict:
        looked.append(raw)
        return exact(self, raw)

    with _few_values(10), mock.patch.object(judge.Judge, "exact", look):
        alone = run(Decoder("a", schema, PLAIN), [value])
        assert [why.partition(":")[0] for _, _, why in alone.bad] == [code] * bool(code)
        assert not [raw for raw in looked if too_many_values(raw)]
        for others in ([b'{"id":1}', value], [b"{", value, b'{"u":1}'] * 10, [value, b'{"id":1,"u":[0]}', value]):
            decoder = taught(schema, [b'{"id":1,"u":1}'])
            for batch in (others, others):
                seen = shown(run(decoder, batch))
                assert {str(seen[row]) for row, one in enumerate(batch) if one == value} == {str(shown(alone)[0])}
        dead = routing(unknown_fields="dead_letter")
        refused = run(Decoder("a", schema, dead), [value]).bad
        assert (code or b'"u"' not in value) or refused == [(0, "decode", "unknown_field: $.u")]


def test_values_are_counted_outside_of_texts() -> None:
    """Commas, colons and opening brackets; as many as there may be are not too many."""
    with _few_values(5):
        assert not too_many_values(b'{"a":[1,2,3]}')
        assert too_many_values(b'{"a":[1,2,3,4]}')
        assert not too_many_values(b'{"a":["1,2,3:[{","\\",,,,"]}')


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1,"u":%s}',
        b'{"id":"x","u":%s}',
        b'{"id":1,"id":2,"u":%s}',
        b'{"id":1,"name":"\\x","u":%s}',
        b'{"id":1,"u":%s,"price":1e3}',
        b'{"id":1,"u":%s,"name":"\xff"}',
        b'{"id":1,"u":%s,"ts":"2024-01-05T10:11:12.1234567Z"}',
        b'{"id":1,"u":%s,"lines":[{"sku":5}]}',
        b'{"id":1,"u":%s,"u":2}',
        b'{"id":1,"u":[%s,{"a":1,"a":2}]}',
        b'{"id":1,"u":[%s,-0]}',
    ],
)
def test_a_large_record_is_judged_as_a_small_one(value: bytes) -> None:
    """Its unknown fields are not read, and yet its verdict, reason and row are those of the judge who reads all."""
    large = value % (b"[" + b"1, " * LARGE_BYTES + b"1]")
    for policy in POLICIES:
        config = routing(unknown_fields=policy)
        with mock.patch.object(judge, "LARGE_BYTES", 1 << 30):
            expected = judged(SHOP, large, config)
        found = judged(SHOP, large, config)
        assert shown(found) == shown(expected) == shown(run(Decoder("a", SHOP, config), [large]))
        assert counts(found) == counts(expected)
