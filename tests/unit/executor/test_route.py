"""Routing: the event type of each record, and why some have none."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.executor.route import Routed, Router
from exporter.formats.decoder import Decoder
from exporter.formats.json.text import JSON_DEPTH_MAX, too_deep
from tests.support.schemas import schema

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def router(kind: Any, name: str = "", **changes: Any) -> Router:
    types = (("a", "{}"), ("b", "{}"), ("é", "{}"))
    return Router(Routing(TypeFrom(kind, name), EventTime("record"), types, **changes))


def batch(values: list[bytes | None], **columns: Any) -> pa.RecordBatch:
    count = len(values)
    arrays = {
        "key": pa.array(columns.get("keys", [None] * count), pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array([columns.get("topic", "t")] * count, pa.string()),
    }
    if "headers" in columns:
        rows = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in columns["headers"]]
        arrays["headers"] = pa.array(rows, HEADERS)
    return pa.RecordBatch.from_pydict(arrays)


def answers(routed: Routed) -> list[tuple[str | None, str]]:
    """Per row: the event type and `live` or the code of the reason. Checks that each row is in one place."""
    found: dict[int, tuple[str | None, str]] = {}
    for name, rows in routed.groups.items():
        assert rows.to_pylist() == sorted(rows.to_pylist())
        for row in rows.to_pylist():
            assert row not in found
            found[row] = (name, "live")
    for dead in routed.dead.to_pylist():
        assert dead["index"] not in found
        code = dead["reason"].partition(":")[0]
        assert dead["stage"] == ("size" if code == "too_long" else "route")
        assert dead["event_type"] == routed.event_types[dead["index"]].as_py()
        found[dead["index"]] = (dead["event_type"], code)
    assert sorted(found) == list(range(len(routed.event_types)))
    return [found[row] for row in range(len(found))]


JSON_CASES: list[tuple[bytes | None, str | None, str]] = [
    (b'{"type":"a"}', "a", "live"),
    (b' {\n"type" :\t"b" , "x":1}', "b", "live"),
    (b'{"x":{"type":"b"},"type":"a"}', "a", "live"),
    (b'{"x":"\\"type\\":\\"b\\"","type":"a"}', "a", "live"),
    (b'{"type":"\\u0061"}', "a", "live"),
    (b'{"\\u0074ype":"a"}', "a", "live"),
    ('{"type":"é"}'.encode(), "é", "live"),
    (b'{"type":"a","x":broken', "a", "live"),
    (b'{"type":"a\\"b"}', 'a"b', "unknown_type"),
    (b'{"type":"zz"}', "zz", "unknown_type"),
    (b'{"type":"A"}', "A", "unknown_type"),
    (b'{"type":"dead_letters"}', "dead_letters", "unknown_type"),
    (b'{"m":{"type":"a"}}', None, "no_type"),
    (b'{"type":""}', None, "no_type"),
    (b'{"type":null}', None, "no_type"),
    (b'{"type":5}', None, "no_type"),
    (b'{"type":["a"]}', None, "no_type"),
    (b'{"x":1e400}', None, "no_type"),
    (b"{}", None, "no_type"),
    (b'[{"type":"a"}]', None, "not_object"),
    (b'"a"', None, "not_object"),
    (b"null", None, "not_object"),
    (b"", None, "not_json"),
    (b" \n", None, "not_json"),
    (b'{"type":', None, "not_json"),
    (b'{"type" "a"}', None, "not_json"),
    (b'{"x":NaN}', None, "not_json"),
    (b'{"x":' + b"[" * 100_000, None, "not_json"),
    (b'{"x":' + b"[" * 300 + b"]" * 300 + b',"type":"a"}', None, "not_json"),
    (b'{"type":"\xff"}', None, "not_utf8"),
    (b'{"type":"\\ud800"}', None, "no_type"),
    (None, None, "tombstone"),
]


def test_json_cases() -> None:
    """The type is the JSON string at the top-level key, however it is spelt; the rest is dead with its code."""
    expected = [(name, code) for _, name, code in JSON_CASES]
    values = [value for value, _, _ in JSON_CASES]
    assert answers(router("json", "type").route(batch(values))) == expected
    for value, answer in zip(values, expected, strict=True):
        assert answers(router("json", "type").route(batch([value]))) == [answer]


def test_nested_path() -> None:
    """A dotted path reads nested objects, and decoys elsewhere are not taken."""
    values = [b'{"m":{"t":"a"},"t":"b"}', b'{"t":"b"}', b'{"m":{"t":1}}', b'{"m":"a"}', b'{"m.t":"a"}']
    routed = router("json", "m.t").route(batch(values))
    assert answers(routed) == [("a", "live"), *[(None, "no_type")] * 4]
    assert routed.dead["reason"].to_pylist()[1].startswith("no_type: $.m.t")


def test_duplicate_type_keys_always_end_dead() -> None:
    """A value with two type keys is routed by itself alone, and the decoder it meets refuses it."""
    values = [b'{"type":"a","type":"b"}', b'{"x":1,"type":"a","type":"b"}', b'{"type":"a","x":1,"type":"a"}']
    config = Routing(TypeFrom("json", "type"), EventTime("record"), (("a", schema("")), ("b", schema(""))))
    for near in ([], [b'{"type":"a"}'], [b'{"y":0,"type":"b"}', None]):
        types = Router(config).route(batch([*near, *values])).event_types.to_pylist()[len(near) :]
        assert types == ["a", "b", "a"]
    for value, name in zip(values, types, strict=True):
        decoded = Decoder(name, pa.schema([("x", pa.int64())]), config).decode(
            pa.array([value, b'{"type":"%s"}' % name.encode()], pa.binary()),
            pa.array([1_706_745_600_000_000] * 2, pa.timestamp("us", "UTC")),
        )
        assert [(row, reason.partition(":")[0]) for row, _, reason in decoded.bad] == [(0, "duplicate_key")]


def test_header() -> None:
    """The last header of the name wins; its value must be non-empty UTF-8; slices keep their rows."""
    headers = [
        None, [("t", b"a")], [("t", b"b"), ("x", b"q"), ("t", b"a")], [("t", b"a"), ("t", None)], [("t", b"\xff")],
        [("t", b"")], [("x", b"a")], [], [("t", b"zz")], [("t", b"b")],
    ]  # fmt: skip
    values: list[bytes | None] = [b"1"] * 9 + [None]
    expected = [
        (None, "no_type"), ("a", "live"), ("a", "live"), (None, "no_type"), (None, "not_utf8"),
        (None, "no_type"), (None, "no_type"), (None, "no_type"), ("zz", "unknown_type"), ("b", "tombstone"),
    ]  # fmt: skip
    rows = batch(values, headers=headers)
    for start in range(len(values)):
        assert answers(router("header", "t").route(rows.slice(start))) == expected[start:]
        assert answers(router("header", "t").route(rows.slice(start, 1))) == expected[start : start + 1]
    assert answers(router("header", "t").route(batch([b"1"]))) == [(None, "no_type")]


def test_key_and_topic() -> None:
    """The key's text or the topic's name is the type; a tombstone keeps it."""
    keys = [b"a", None, b"", b"\xff", "é".encode(), b"b"]
    values: list[bytes | None] = [b"1"] * 5 + [None]
    assert answers(router("key").route(batch(values, keys=keys))) == [
        ("a", "live"), (None, "no_type"), (None, "no_type"), (None, "not_utf8"), ("é", "live"), ("b", "tombstone"),
    ]  # fmt: skip
    assert answers(router("topic").route(batch([b"1", None], topic="a"))) == [("a", "live"), ("a", "tombstone")]


def test_a_value_that_was_cut_on_its_way_is_as_long_as_it_was() -> None:
    """ROUTE: who reads a record, and how much of it is kept, changes neither its table nor its reason but for that."""
    limited, says = router("topic", record_bytes_max=12), "too_long: 20 bytes, the limit is 12"
    whole, cut = batch([b"x" * 20], topic="a"), batch([b"x" * 15], topic="a")
    cut = cut.append_column("value_bytes", pa.array([20], pa.int64()))
    for one, kept in ((whole, ""), (cut, ", the first 15 are kept")):
        (row,) = limited.route(one).dead.to_pylist()
        assert (row["event_type"], row["stage"], row["reason"]) == ("a", "size", says + kept)


def test_too_long_is_decided_before_parsing() -> None:
    """A value over the limit is dead by its size alone; its type is known only from outside the value."""
    values: list[bytes | None] = [b'{"type":"a"}', b'{"type":"a" }', b"{" * 13]
    assert answers(router("json", "type", record_bytes_max=12).route(batch(values))) == [
        ("a", "live"), (None, "too_long"), (None, "too_long"),
    ]  # fmt: skip
    routed = router("topic", record_bytes_max=12).route(batch(values, topic="a"))
    assert answers(routed) == [("a", "live"), ("a", "too_long"), ("a", "too_long")]
    assert routed.dead["reason"].to_pylist()[0] == "too_long: 13 bytes, the limit is 12"


def test_new_types_get_tables_if_configured() -> None:
    """With new_type = table an undeclared type is live, unless its name clashes with a declared one or ours."""
    values: list[bytes | None] = [b'{"type":"%s"}' % name for name in (b"a", b"zz", b"A", b"Dead_Letters", b"zz")]
    routed = router("json", "type", new_type="table").route(batch(values))
    assert [code for _, code in answers(routed)] == ["live", "live", "bad_type_name", "bad_type_name", "live"]
    assert routed.dead["reason"].to_pylist()[0] == "bad_type_name: 'A' and the declared type 'a' differ by case only"
    assert routed.groups["zz"].to_pylist() == [1, 4]


def test_a_new_types_name_is_judged_alone() -> None:
    """ROUTE: names that differ by case among each other both pass, whichever comes first; unusable ones never do."""
    names = ["Zz", "zz", "ä", "Ä", "..", "a/b", " ", "_x", "_delta_log", "_Delta_Log", "x" * 201, "ä" * 34]
    values: list[bytes | None] = [json.dumps({"type": name}).encode() for name in names]
    routing = {"new_type": "table"}
    codes = [code for _, code in answers(router("json", "type", **routing).route(batch(values)))]
    assert codes == ["live"] * 8 + ["bad_type_name"] * 4
    for value, code in zip(values, codes, strict=True):
        assert [code] == [one for _, one in answers(router("json", "type", **routing).route(batch([value])))]


def test_empty_batch() -> None:
    """A batch without rows has no groups and no dead."""
    for kind in ("json", "header", "key", "topic"):
        assert answers(router(kind, "type").route(batch([], headers=[]))) == []


@pytest.mark.parametrize("text", [b'"' + b"[" * 500 + b'"', b"[]" * 500, b'"\\"' + b"{" * 500 + b'"'])
def test_brackets_that_do_not_nest(text: bytes) -> None:
    """Only nesting counts as depth: not brackets in strings, nor one after the other."""
    assert not too_deep(text)


def test_depth_limit_is_exact() -> None:
    """The limit is inclusive, and holds for open and closed brackets alike."""
    assert not too_deep(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    assert too_deep(b"[" * (JSON_DEPTH_MAX + 1))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_route_never_depends_on_neighbours(data: st.DataObject) -> None:
    """ROUTE: type, stage and reason of a record are those it has alone."""
    key = st.sampled_from(["type", "x", "m"])
    inner = st.dictionaries(key, st.sampled_from(["a", "b", "", "é", 'q"', None, 5, {"type": "b"}]), max_size=3)
    one = st.one_of(
        st.sampled_from([value for value, _, _ in JSON_CASES]),
        inner.map(lambda fields: json.dumps(fields, ensure_ascii=False).encode()),
        inner.map(lambda fields: json.dumps(fields, indent=1).encode()[:-3]),
    )
    values = data.draw(st.lists(one, max_size=8))
    chosen = data.draw(st.sampled_from(["type", "m.type", "x"]))
    routed = router("json", chosen).route(batch(values))
    dead = {row["index"]: (row["event_type"], row["stage"], row["reason"]) for row in routed.dead.to_pylist()}
    seen = answers(routed)
    for row, value in enumerate(values):
        alone = router("json", chosen).route(batch([value]))
        assert answers(alone) == [seen[row]]
        if row in dead:
            (only,) = alone.dead.to_pylist()
            assert (only["event_type"], only["stage"], only["reason"]) == dead[row]
