"""Decoding: one verdict per record, whatever its neighbours and whichever reader took it."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.arrow.years import US_FIRST, US_LAST
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.errors import ConfigError
from exporter.formats.decoded import DecodedBatch
from exporter.formats.decoder import Decoder
from exporter.formats.json.format import Json, JsonReader
from exporter.formats.json.judge import Judge, RecordVerdict
from exporter.formats.json.map_keys import KEYS_MAX, MapKeys
from exporter.formats.json.reading import ShapeReaders
from exporter.formats.json.ways import Habits, Tuning, Way
from exporter.formats.json.wrapped import WrappedReader
from tests.unit.formats.decode_cases import CASES, GOLDEN, NEIGHBOURS, SCHEMAS, code_of

KAFKA_US = 1_706_745_600_000_000  # 2024-02-01
LATE = "event_time_out_of_bounds"
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
TUNING = Tuning()
BLOCK_ROWS, PART_ROWS, FEW, WARY_AFTER = TUNING.block_rows, TUNING.part_rows, TUNING.few, TUNING.wary_after
TUNINGS = {
    "classifier": Tuning(wary_after=0),
    "judge": Tuning(judge_all=True),
    "entries": Tuning(maps_as_objects=False, judge_all=True),
}
GOLDEN_VERDICTS: dict[str, str] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


_OBJECTS = {"m": b"1", "ms": b'{"a":1}', "md": b"1.25", "mt": b'"2024-01-05T10:11:12Z"', "mr": b'"AAEC"'}
_OBJECTS["ml"] = b'[{"x":"2024-01-05"}]'
_KNOWN = ["a", "b", "", "key", "m", "k", "\u00e9"]


def _keyed(token: bytes) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (key.encode(), token) for key in _KNOWN) + b"}"


KEYED = b"{" + b",".join(b'"%s":%s' % (name.encode(), _keyed(token)) for name, token in _OBJECTS.items())
KEYED += b',"n":{"m":%s}}' % _keyed(b"0.5")
"""A value whose maps have many keys each."""


def routing(**changes: Any) -> Routing:
    return Routing(**{"type_from": TypeFrom("topic"), "event_time": EventTime("record"), "types": (), **changes})


def run(decoder: Decoder, values: list[bytes | None], kafka_us: int = KAFKA_US) -> DecodedBatch:
    times = pa.array([kafka_us] * len(values), pa.timestamp("us", "UTC"))
    decoded = decoder.decode(pa.array(values, pa.binary()), times)
    seen = sorted([*decoded.good.to_pylist(), *(row for row, _, _ in decoded.bad)])
    assert seen == list(range(len(values)))
    decoded.table.validate(full=True)
    assert decoded.table.num_rows == len(decoded.good)
    return decoded


def new_decoder(schema: str, config: Routing = PLAIN, reader: str = "any", tuning: Tuning = TUNING) -> Decoder:
    """reader: any, or force the classifier, the judge or the cutting reader from the first batch on.

    entries: the judge, with every map rewritten as a list, which leaves no map to the wrapped reader.
    keyed: the one that has seen some keys in every map, and takes maps with no others for objects.
    """
    decoder = Decoder("a", SCHEMAS[schema], config, Json(TUNINGS.get(reader, tuning)))
    if reader == "long":
        habits(decoder).long = True
    if reader == "keyed" and schema == "map":
        run(decoder, [KEYED])
        _by_keys(decoder, [KEYED])
    return decoder


def json_reader(decoder: Decoder) -> JsonReader:
    """What is behind it."""
    assert isinstance(decoder.reader, JsonReader)
    return decoder.reader


def habits(decoder: Decoder) -> Habits:
    """What it has learnt of the values so far."""
    return json_reader(decoder).habits


@contextmanager
def no_classifier() -> Iterator[None]:
    """Whoever asks the classifier meanwhile fails."""
    with mock.patch.object(ShapeReaders, "classify", mock.PropertyMock(side_effect=AssertionError("classified"))):
        yield


@contextmanager
def all_reads() -> Iterator[list[int]]:
    """How many values the fast reader has been given each time."""
    sizes: list[int] = []
    read = WrappedReader.read

    def counted(self: WrappedReader, values: pa.BinaryArray) -> pa.StructArray:
        sizes.append(len(values))
        return read(self, values)

    with mock.patch.object(WrappedReader, "read", counted):
        yield sizes


@functools.lru_cache(4_000)
def decoded_alone(schema: str, value: bytes, config: Routing = PLAIN, reader: str = "any") -> DecodedBatch:
    """By a decoder that has met nothing before; the same answer to whoever asks again."""
    return run(new_decoder(schema, config, reader), [value])


def shown(decoded: DecodedBatch) -> dict[int, Any]:
    """Per input row: its reason, or its columns (as text: exact, also for years no datetime has)."""
    columns = [column.combine_chunks() for column in decoded.table.columns]
    rows: dict[int, Any] = {
        row: [str(column.slice(at, 1)) for column in columns] for at, row in enumerate(decoded.good.to_pylist())
    }
    return rows | {row: (stage, reason) for row, stage, reason in decoded.bad}


def counts(decoded: DecodedBatch) -> tuple[int, int, int]:
    rescued = decoded.table["_rescued"]
    return len(rescued) - rescued.null_count, decoded.ignored, decoded.truncated


@pytest.mark.parametrize("name", CASES)
def test_golden_verdict(name: str) -> None:
    """A verdict changes only together with golden_verdicts.json and core/decoder_version.py."""
    assert code_of(decoded_alone(*CASES[name])) == GOLDEN_VERDICTS[name]


def test_golden_file_lists_each_case() -> None:
    """The golden file holds exactly the listed cases."""
    assert list(GOLDEN_VERDICTS) == list(CASES)


@pytest.mark.parametrize("name", [name for name, (_, value) in CASES.items() if len(value) < 300_000])
def test_readers_agree(name: str) -> None:
    """A record has one verdict, reason and row: alone, between others, after a bad batch, by judge or classifier."""
    schema, value = CASES[name]
    alone = decoded_alone(schema, value)
    for reader in ("classifier", "judge", "long", "entries", "keyed"):
        other = decoded_alone(schema, value, reader=reader)
        assert shown(other) == shown(alone)
        assert counts(other) == counts(alone)
    near = NEIGHBOURS[schema]
    decoder = new_decoder(schema)
    for values in ([near, near, value, near], [near, value, b"{", near, value]):
        batch = shown(run(decoder, values))
        for row, one in enumerate(values):
            assert batch[row] == shown(decoded_alone(schema, one))[0]


def test_rows_are_exact_values() -> None:
    """Good values arrive equal to what was sent, in the declared types and order."""
    value = (
        b'{"xs":[1,null],"s":"\\u0041\\n","b":-128,"h":1,"i":2,"l":9223372036854775807,"f":0.1,"g":0.1,"ok":true,'
        b'"d":"12.5","big":-0.000000000000000001,"pct":0.25,"ts":"1969-12-31T23:59:59.999999+01:00",'
        b'"n":{"a":1,"q":{"z":-1}},"ns":[{"s":"x"},null]}'
    )
    for reader in ("any", "classifier", "judge"):
        table = decoded_alone("flat", value, reader=reader).table
        assert table.schema.names == [*SCHEMAS["flat"].names, "_rescued", "_event_time"]
        assert table.schema.types[:-2] == SCHEMAS["flat"].types
        row = table.drop_columns(["ts", "_event_time"]).to_pylist()[0]
        assert row == {
            "s": "A\n", "b": -128, "h": 1, "i": 2, "l": 2**63 - 1, "f": 0.1, "g": pa.scalar(0.1, pa.float32()).as_py(),
            "ok": True, "d": Decimal("12.50"), "big": Decimal("-0.000000000000000001"), "pct": Decimal("0.25"),
            "n": {"a": 1, "s": None, "q": {"z": -1.0}}, "xs": [1, None],
            "ns": [{"a": None, "s": "x", "q": None}, None], "_rescued": None,
        }  # fmt: skip
        assert table["ts"].cast(pa.int64()).to_pylist() == [-3_600_000_001]


def test_casts_are_exact() -> None:
    """Dates, base64, zone-less times and maps, by key, arrive as values of their declared types."""
    value = b'{"on":"2024-02-29","bin":"AAEC","ntz":"2024-01-05T10:00:00+02:00","n":{"on":"1969-12-31"},"xs":["",null]}'
    row = decoded_alone("cast", value).table.to_pylist()[0]
    assert (row["on"].isoformat(), row["bin"], row["xs"]) == ("2024-02-29", b"\x00\x01\x02", [b"", None])
    assert (row["ntz"].isoformat(), row["n"]["on"].isoformat()) == ("2024-01-05T08:00:00", "1969-12-31")
    table = run(new_decoder("map"), [b'{"m":{"b":1,"a":null},"ms":{"k":{"a":1}}}', b"{}"]).table
    assert table["m"].to_pylist() == [[("a", None), ("b", 1)], None]
    assert table["ms"].to_pylist() == [[("k", {"a": 1})], None]


def _by_keys(decoder: Decoder, values: list[bytes]) -> DecodedBatch:
    """Decoded with the keys that are known alone: one that needs msgspec's cut, and teaches keys, fails."""
    with mock.patch.object(MapKeys, "learn", side_effect=AssertionError("learnt")):
        return run(decoder, values)


def test_maps_of_known_keys_are_read_at_once() -> None:
    """Missing entries and nulls elsewhere do; other keys are learnt; an entry with null, however written, is kept."""
    decoder = new_decoder("map", reader="keyed")
    values = [b'{"s":null,"m":{"b":2,"a":1},"n":null}', b'{"m":{}}', b'{"n":{"m":{"a":0.5}},"md":null}', b"{}"]
    values += [b'{"m":{"\\u0061":7,"":0},"ms":{"k":{}},"s":"\\\\null"}']
    decoded = _by_keys(decoder, values)
    assert decoded.table["m"].to_pylist() == [[("a", 1), ("b", 2)], [], None, None, [("", 0), ("a", 7)]]
    assert decoded.table["ms"].to_pylist() == [None, None, None, None, [("k", {"a": None})]]
    assert [n and n["m"] for n in decoded.table["n"].to_pylist()] == [None, None, [("a", 0.5)], None, None]
    for entry in (b'"a":null', b'"\\u0061" : null', b'"b":1,"\\u0061"\n:\tnull', b'"":null', b'"\xc3\xa9":null'):
        with pytest.raises(AssertionError):
            _by_keys(decoder, [b'{"m":{%s}}' % entry])
        assert None in dict(run(decoder, [b'{"m":{%s}}' % entry]).table["m"].to_pylist()[0]).values()
    with pytest.raises(AssertionError):
        _by_keys(decoder, [b'{"m":{"z":1}}'])
    assert run(decoder, [b'{"m":{"z":1}}']).table["m"].to_pylist() == [[("z", 1)]]
    assert _by_keys(decoder, [b'{"m":{"z":1}}']).table["m"].to_pylist() == [[("z", 1)]]


@pytest.mark.parametrize(
    "keys", [[f"k{n}" for n in range(KEYS_MAX + 1)], ["a", "new\nline"], ["a", 'quo"te'], ["a", "x" * 900_000]],
    ids=["many", "escaped", "quoted", "long"],
)  # fmt: skip
def test_keys_that_are_data_are_not_learnt(keys: list[str]) -> None:
    """Too many or too long, or such as JSON must escape: each block is read as the first one was."""
    decoder = new_decoder("map")
    for key in keys:
        assert run(decoder, [json.dumps({"m": {key: 1}}).encode()]).table["m"].to_pylist() == [[(key, 1)]]
    with pytest.raises(AssertionError, match="learnt"):
        _by_keys(decoder, [json.dumps({"m": {keys[0]: 1}}).encode()])
    assert run(decoder, [b'{"m":{"a":null}}']).table["m"].to_pylist() == [[("a", None)]]


def test_required_child_under_missing_parent() -> None:
    """A required child says nothing while its optional parent is absent, and Parquet takes the column."""
    import pyarrow.parquet as pq

    rows = [b'{"k":"x","m":{}}', b'{"k":"x","m":{},"n":{"r":1,"d":"2024-01-05","in":{"x":"y"}}}']
    decoded = run(new_decoder("required"), rows)
    assert [row and row["r"] for row in decoded.table["n"].to_pylist()] == [None, 1]
    assert decoded.table.schema.field("n") == SCHEMAS["required"].field("n")
    sink = pa.BufferOutputStream()
    pq.write_table(decoded.table, sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue()))["n"].to_pylist() == decoded.table["n"].to_pylist()


@pytest.mark.parametrize(
    ("value", "rescued"),
    [
        (b'{"u": 1.10, "i": 1}', '{"u":1.10}'),
        (b'{"n": {"u": [1, {"v": null}], "a": 1}}', '{"n":{"u":[1,{"v":null}]}}'),
        (b'{"ns": [{"a": 1}, null, {"u": 3}]}', '{"ns":[null,null,{"u":3}]}'),
        (b'{"u": "\\ud83d\\ude00\\u0000\\/"}', '{"u":"\U0001f600\\u0000/"}'),
        (b'{"u": null}', '{"u":null}'),
        (b'{"u": 1e400, "I": -0}', '{"u":1e400,"I":-0}'),
    ],
)
def test_rescue_holds_only_the_unknown_as_sent(value: bytes, rescued: str) -> None:
    """_rescued is an object of the unknown fields alone, nested as sent, number tokens unchanged."""
    decoded = decoded_alone("flat", value)
    assert decoded.table["_rescued"].to_pylist() == [rescued]
    assert counts(decoded) == (1, 0, 0)


def test_unknown_field_policies() -> None:
    """Unknown fields are rescued, counted, or send the record to the dead letters; never dropped in silence."""
    values = [b'{"i":1,"u":1,"n":{"v":2}}', b'{"i":2}']
    ignored = run(new_decoder("flat", routing(unknown_fields="ignore")), values)
    assert (counts(ignored), ignored.table["i"].to_pylist()) == ((0, 2, 0), [1, 2])
    assert ignored.table["_rescued"].null_count == 2
    refused = run(new_decoder("flat", routing(unknown_fields="dead_letter")), values)
    assert refused.bad == [(0, "decode", "unknown_field: $.u")]


def test_fraction_digits_beyond_micros_are_cut_and_counted() -> None:
    """Digits 7 to 9 are cut, not rounded, and each timestamp that lost some is counted."""
    value = b'{"ts":"2024-01-05T10:11:12.999999999Z"}'
    for reader in ("any", "classifier", "judge"):
        decoded = decoded_alone("flat", value, reader=reader)
        assert decoded.table["ts"].cast(pa.int64()).to_pylist() == [1_704_449_472_999_999]
        assert counts(decoded) == (0, 0, 1)


def test_long_fractions_stay_exact_in_every_batch() -> None:
    """A stream of 9-digit timestamps gives the same rows and counts in its first batch and its tenth."""
    values = [b'{"ts":"2024-01-05T10:11:12.%09dZ","i":%d}' % (i * 7_654_321, i) for i in range(100)]
    values += [b'{"ts":"2024-01-05","i":1}', b'{"ts":"x"}', b'{"i":5}']
    decoder = new_decoder("flat")
    first = run(decoder, values)
    for _ in range(10):
        again = run(decoder, values)
        assert shown(again) == shown(first)
        assert counts(again) == counts(first) == (0, 0, 100)


@pytest.mark.parametrize("declared", [True, False])
def test_long_event_times_are_counted_once(declared: bool) -> None:
    """A cut event time counts once, declared or not, by every reader, and also where it is out of bounds."""
    fields = [("i", pa.int64()), ("at", pa.timestamp("us", "UTC"))][: 2 if declared else 1]
    values = [b'{"at":"2024-01-05T00:00:00.1234567%02dZ"}' % i for i in range(5)]
    values += [b'{"at":"1999-01-05T00:00:00.123456789Z"}']
    decoder = Decoder("a", pa.schema(fields), routing(event_time=EventTime("json", "at")))
    first = run(decoder, values)
    for _ in range(3):
        again = run(decoder, values)
        assert habits(decoder).long
        assert shown(again) == shown(first)
        assert counts(again) == counts(first) == (0, 0, 6)


def test_known_fields_need_no_column() -> None:
    """The route and event-time fields are neither unknown nor lost columns when undeclared."""
    config = routing(type_from=TypeFrom("json", "meta.type"), event_time=EventTime("json", "meta.at"))
    decoder = Decoder("a", pa.schema([("i", pa.int64())]), config)
    decoded = run(decoder, [b'{"i":1,"meta":{"type":"a","at":"2024-01-05T00:00:00Z"}}'])
    assert decoded.table.drop_columns("_event_time").to_pylist() == [{"i": 1, "_rescued": None}]
    decoded = run(decoder, [b'{"i":1,"meta":{"type":"a","at":"2024-01-05","u":1}}'])
    assert decoded.table["_rescued"].to_pylist() == ['{"meta":{"u":1}}']


def test_route_is_compared_with_the_parsed_type() -> None:
    """A record whose parsed type is another than the one it was routed by is refused, by every reader."""
    config = routing(type_from=TypeFrom("json", "t"))
    for reader in ("any", "classifier"):
        decoder = new_decoder("flat", config, reader)
        assert code_of(run(decoder, [b'{"t":"b"}'])) == "type_mismatch"
        decoded = run(decoder, [b'{"t":"a"}', b'{"t":"b"}', b'{"t":"a","t":"b"}', b"{}", b'{"t":"a","i":3}'])
        assert [code_of(decoded, row) for row in range(5)] == [
            "good", "type_mismatch", "duplicate_key", "type_mismatch", "good",
        ]  # fmt: skip


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    ("unit", "column", "one_second", "low", "over"),
    [
        ("iso", pa.timestamp("us", "UTC"), '"2000-01-01T00:00:01Z"', '"1999-12-31T23:59:59.999999Z"',
         '"2024-02-02T00:00:00.000001Z"'),
        ("s", pa.int64(), "946684801", "946684799", "1706832001"),
        ("ms", pa.int64(), "946684801000", "946684799999", "1706832000001"),
        ("us", pa.int64(), "946684801000000", "946684799999999", "1706832000000001"),
        ("ns", pa.int64(), "946684801000000999", "946684799999999999", "1706832000000001000"),
    ],
)  # fmt: skip
def test_event_time_bounds(declared: bool, unit: Any, column: Any, one_second: str, low: str, over: str) -> None:
    """The event time lies between the minimum and the record's own Kafka timestamp plus the margin, both inclusive."""
    fields = [("i", pa.int64()), ("at", column)] if declared else [("i", pa.int64())]
    decoder = Decoder("a", pa.schema(fields), routing(event_time=EventTime("json", "at", unit)))
    texts = [one_second, low, over, "null", "0" if unit != "iso" else '"0000-01-01"']
    if unit != "iso":
        texts += ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "1.5", '"2024-01-05"']
    decoded = run(decoder, [b'{"i":1,"at":%s}' % text.encode() for text in texts] + [b'{"i":1}'])
    expected = ["good", LATE, LATE, "missing_event_time", LATE]
    if unit != "iso":
        expected += [LATE, LATE, "out_of_range", "type_mismatch", "type_mismatch"]
    assert [code_of(decoded, row) for row in range(len(texts) + 1)] == [*expected, "missing_event_time"]
    assert decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [946_684_801_000_000]
    assert {stage for _, stage, reason in decoded.bad if "event_time" in reason} == {"event_time"}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_event_time_bounds_are_inclusive(unit: Any) -> None:
    """The least and the greatest event time allowed are good; one microsecond beyond is not."""
    per_us = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}[unit]
    high = KAFKA_US + 86_400 * 1_000_000
    at = [us // per_us if per_us else us * 1000 for us in (946_684_800_000_000, high)]
    decoder = Decoder("a", pa.schema([("i", pa.int64())]), routing(event_time=EventTime("json", "at", unit)))
    decoded = run(decoder, [b'{"at":%d}' % value for value in (*at, at[0] - 1, at[1] + (1 if per_us else 1000))])
    assert [code_of(decoded, row) for row in range(4)] == ["good", "good", LATE, LATE]
    assert decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [946_684_800_000_000, high]


def test_nanoseconds_before_1970_are_floored() -> None:
    """A negative time in ns is cut towards the past, as a positive one is."""
    config = routing(event_time=EventTime("json", "at", "ns"), event_time_min_us=-10)
    decoded = run(Decoder("a", pa.schema([("i", pa.int64())]), config), [b'{"at":-1}', b'{"at":-1000}', b'{"at":1}'])
    assert decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [-1, -1, 0]


def test_event_time_shows_the_value() -> None:
    """A reason holds the value that was sent, in its unit."""
    decoder = Decoder("a", pa.schema([("i", pa.int64())]), routing(event_time=EventTime("json", "at", "ms")))
    (bad,) = run(decoder, [b'{"at":1704448272}']).bad
    assert bad[2].startswith("event_time_out_of_bounds: $.at = 1704448272 ms lies outside 2000-01-01")


@pytest.mark.parametrize(
    ("kafka_us", "code"),
    [(KAFKA_US, "good"), (US_LAST, "good"), (US_LAST + 1, LATE), (2**63 - 1, LATE), (-1000, LATE), (-(2**63), LATE)],
)
def test_event_time_of_the_record(kafka_us: int, code: str) -> None:
    """With kind record the Kafka timestamp is the event time; -1 (none) is out of bounds; nothing overflows.

    No folder is named by a day after the year 9999.
    """
    assert code_of(run(new_decoder("flat"), [b"{}"], kafka_us)) == code


def test_event_time_column_of_another_type_is_refused() -> None:
    """A declared column that cannot be the event time or the route stops the start, not a record."""
    for config in (
        routing(event_time=EventTime("json", "s")),
        routing(event_time=EventTime("json", "ts", "ms")),
        routing(event_time=EventTime("json", "s.at")),
        routing(event_time=EventTime("json", "n")),
        routing(type_from=TypeFrom("json", "i")),
    ):
        with pytest.raises(ConfigError):
            Decoder("a", SCHEMAS["flat"], config)


# --- random ------------------------------------------------------------------------------------

_POOL = {
    schema: [value for kind, value in CASES.values() if kind == schema and len(value) < 3000] for schema in SCHEMAS
}
_TOKENS = [
    b"1", b"-1", b"1.5", b"1e3", b"null", b"true", b'""', b'"x"', b'"2024-01-05"', b"[]", b"{}", b"NaN", b"[1]", b"128",
    b'{"a":1}', b'"1.25"', b'"AAEC"', b"1e400", b'"2024-01-05T10:11:12.1234567Z"', b"99999999999999999999", b"0.001",
    b'"9999-12-31T23:59:59-05:00"', b'"0000-01-01"',
    b'{"r":1}', b'{"a":"x","u":1}', b'[{"a":1},{"u":1}]', b'"2024-02-30"', b'"\\ud800"', b"-0", b'{"f":1e39}', b"1e-7",
]  # fmt: skip
_KEYS = [b"a", b"b", b"\\u0061", b"", b"key", b"m", b"\\n", b"\xc3\xa9", b"\\u00e9"]


def _objects(tokens: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Objects of few keys, so that some stand twice, also escaped; one token for all values as often as not."""
    entries = st.lists(st.tuples(st.sampled_from(_KEYS), tokens), max_size=3)
    alike = st.builds(lambda keys, token: [(key, token) for key in keys], st.lists(st.sampled_from(_KEYS)), tokens)
    return st.builds(
        lambda pairs: b"{" + b", ".join(b'"%s": %s' % pair for pair in pairs) + b"}", st.one_of(entries, alike)
    )


@st.composite
def _values(draw: st.DrawFn, schema: str) -> bytes:
    """A listed case, a random object over the schema's names, or either of them damaged."""
    if draw(st.booleans()):
        value = draw(st.sampled_from(_POOL[schema]))
    else:
        names = [*SCHEMAS[schema].names, *SCHEMAS[schema].names, "u", "S"]
        tokens = st.sampled_from(_TOKENS)
        if "map" in schema:
            tokens = st.one_of(tokens, _objects(tokens), _objects(_objects(tokens)))
        fields = draw(st.lists(st.tuples(st.sampled_from(names), tokens), max_size=4))
        value = b"{" + b",".join(b'"%s":%s' % (name.encode(), token) for name, token in fields) + b"}"
        if schema == "required":
            value = value.replace(b"{", b'{"k":"x","m":{}' + (b"," if fields else b""), 1)
    if draw(st.integers(0, 3)) == 0 and value:
        at = draw(st.integers(0, len(value) - 1))
        other = draw(st.sampled_from([b"", b'"', b"}", b",", b"\n", b"\xff", b"1", b"{"]))
        value = value[:at] + other + value[at + 1 :]
    return value


@pytest.mark.parametrize("unknown", ["rescue", "ignore", "dead_letter"])
@pytest.mark.parametrize("schema", SCHEMAS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_alone_is_as_in_a_batch(schema: str, unknown: Any, data: st.DataObject) -> None:
    """ROUTE: verdict, reason, row and counts of a record never depend on neighbours, history, block size or reader."""
    config = routing(unknown_fields=unknown)
    batches = data.draw(st.lists(st.lists(_values(schema), min_size=1, max_size=6), min_size=1, max_size=3))
    part = data.draw(st.sampled_from([1, 2, PART_ROWS]))
    decoder = new_decoder(schema, config, tuning=Tuning(part_rows=part))
    for values in batches:
        batch = run(decoder, values)
        seen = shown(batch)
        total = [0, 0, 0]
        for row, value in enumerate(values):
            alone = decoded_alone(schema, value, config)
            judged = decoded_alone(schema, value, config, reader="judge")
            cut = decoded_alone(schema, value, config, reader="long")
            entries = decoded_alone(schema, value, config, reader="entries")
            keyed = decoded_alone(schema, value, config, reader="keyed")
            assert shown(alone)[0] == shown(judged)[0] == shown(cut)[0] == shown(entries)[0] == seen[row], value
            assert shown(keyed)[0] == seen[row], value
            assert counts(alone) == counts(judged) == counts(cut) == counts(entries) == counts(keyed)
            total = [a + b for a, b in zip(total, counts(alone), strict=True)]
        assert tuple(total) == counts(batch)


def _instant_text(instant: int, zone: int) -> str | None:
    """An instant as a clock shows it whose zone is so many minutes ahead of UTC; None without four digits."""
    text = pa.scalar(instant + zone * 60_000_000, pa.timestamp("us")).cast(pa.string()).as_py()
    sign, minutes = "-" if zone < 0 else "+", abs(zone)
    return f"{text}{sign}{minutes // 60:02}:{minutes % 60:02}" if re.match(r"\d{4}-", text) else None


_NEAR = st.one_of(st.integers(-3, 3), st.integers(-(10**11), 10**11))
_NEAR_EDGES = st.builds(lambda edge, by: edge + by, st.sampled_from([US_FIRST, US_LAST]), _NEAR)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_NEAR_EDGES, st.integers(-14 * 60, 14 * 60)), min_size=1, max_size=6))
def test_times_are_of_the_years_1_to_9999(sent: list[tuple[int, int]]) -> None:
    """In UTC, whatever zone they come in and in whatever company: the others are out of range, and say their value."""
    texts = [(instant, text) for instant, zone in sent if (text := _instant_text(instant, zone))]
    for schema, name in (("flat", "ts"), ("cast", "ntz")):
        values = [b'{"%s":"%s"}' % (name.encode(), text.encode()) for _, text in texts]
        batch = shown(run(new_decoder(schema), values))
        decoded = run(new_decoder(schema), values)
        for row, (instant, _) in enumerate(texts):
            inside = US_FIRST <= instant <= US_LAST
            assert code_of(decoded, row) == ("good" if inside else "out_of_range")
            for reader in ("any", "classifier", "judge", "long"):
                assert shown(decoded_alone(schema, values[row], reader=reader))[0] == batch[row]
        kept = [instant for instant, _ in texts if US_FIRST <= instant <= US_LAST]
        assert decoded.table[name].cast(pa.int64()).to_pylist() == kept


def test_a_time_out_of_range_is_shown_and_has_a_path() -> None:
    """The reason tells which column, and what it would have held."""
    config = routing(event_time=EventTime("json", "ts"))
    beyond = b'{"ts":"2024-01-05T10:11:12Z","on":"0000-01-01"}'
    schema = pa.schema([("n", pa.struct([("a.b", pa.timestamp("us"))])), ("on", pa.date32())])
    decoder = Decoder("a", schema, config)
    decoded = run(decoder, [beyond, b'{"ts":"9999-12-31T23:59:59Z","on":"0000-01-01"}'])
    assert decoded.bad[0] == (0, "decode", "out_of_range: $.on = 0000-01-01 lies outside the years 1 to 9999 in UTC")
    assert code_of(decoded, 1) == LATE, "the verdict that it always had"
    nested = run(decoder, [b'{"ts":"2024-01-05T10:11:12Z","n":{"a.b":"0000-12-31T23:59:59.5"}}']).bad[0][2]
    assert nested.startswith("out_of_range: $.n.a.b = 0000-12-31 23:59:59.500000 lies")


def test_a_verdict_that_there_was_on_a_time_stays() -> None:
    """ROUTE: in lists, in maps and behind 27 columns other years have been stored; they still are."""
    columns = [(f"c{number}", pa.int32()) for number in range(25)]
    late = [("m", pa.map_(pa.string(), pa.int32())), ("late", pa.timestamp("us", "UTC")), ("xs", pa.list_(pa.date32()))]
    decoder = Decoder("a", pa.schema([*columns, *late]), PLAIN)
    assert not run(decoder, [b'{"late":"9999-12-31T23:59:59-01:00","xs":["0000-01-01"]}']).bad
    decoder = Decoder("a", pa.schema([*columns, late[1], late[2]]), PLAIN)
    assert code_of(run(decoder, [b'{"late":"9999-12-31T23:59:59-01:00","xs":["0000-01-01"]}'])) == "out_of_range"


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_nothing_becomes_null_in_silence(data: st.DataObject) -> None:
    """What is not null in the JSON of a declared field is not null, and equal, in the row; or the record is bad."""
    value = data.draw(_values("flat"))
    decoded = decoded_alone("flat", value)
    if decoded.bad:
        return
    sent = json.loads(value, parse_float=Decimal)
    row = decoded.table.drop_columns(["ts", "_event_time"]).to_pylist()[0]
    for name in row.keys() - {"_rescued"}:
        assert (sent.get(name) is None) == (row[name] is None)
        if isinstance(row[name], (bool, int, str)):
            assert sent[name] == row[name] and type(sent[name]) is type(row[name])
        elif isinstance(row[name], Decimal):
            assert Decimal(str(sent[name])) == row[name]
        elif isinstance(row[name], float):
            assert math.isclose(float(sent[name]), row[name], rel_tol=1e-7, abs_tol=1e-45)
    rescued = json.loads(row["_rescued"] or "{}")
    assert rescued.keys() >= sent.keys() - SCHEMAS["flat"].names


_DIGITS = st.one_of(
    st.text("0123456789", max_size=45),
    st.builds(lambda n, d: d * n, st.integers(0, 90), st.sampled_from("019")),
    st.builds(lambda n: "0" * n + "1", st.integers(0, 90)),
)
_EXPONENTS = st.one_of(
    st.just(""), st.builds(lambda e, n: f"{e}{n}", st.sampled_from(["e", "E", "e+"]), st.integers(-90, 90)),
    st.sampled_from(["e+-1", "e+", "e", "e-1000000000", "e1000000000", "e-40", "e38"]),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["", "-", "+"]), _DIGITS, st.one_of(st.none(), _DIGITS), _EXPONENTS, st.integers(0, 3))
def test_decimals_are_exact_or_refused(sign: str, whole: str, part: str | None, exponent: str, spelt: int) -> None:
    """A decimal column holds exactly the number that was sent: pyarrow alone is wrong, or crashes, on long ones."""
    token = sign + whole + ("" if part is None else f".{part}") + exponent
    hidden = token.replace("e", "\\u0065").replace("1", "\\u0031")
    text = (token if spelt == 0 else f'"{hidden}"' if spelt == 1 else f'"{token}"').encode()
    for name, kind in (("d", pa.decimal128(10, 2)), ("big", pa.decimal128(38, 18)), ("all", pa.decimal128(38, 38)),
                       ("int", pa.decimal128(38, 0)), ("pct", pa.decimal128(2, 2))):  # fmt: skip
        decoder = Decoder("a", pa.schema([(name, kind)]), PLAIN)
        decoded = run(decoder, [b'{"%s":%s}' % (name.encode(), text)])
        assert shown(decoded) == shown(run(decoder, [b'{"%s":%s}' % (name.encode(), text)]))
        for value in decoded.table[name].to_pylist():
            assert value == Decimal(token)
        if decoded.bad:
            assert code_of(decoded) in ("not_json", "type_mismatch", "out_of_range")


def test_a_value_that_only_looks_like_a_decimal_is_judged_alone() -> None:
    """One hexadecimal id of digits and an e does not send its whole batch to the classifier."""
    decoder = new_decoder("flat")
    values = [b'{"s":"1e5"}', *[b'{"s":"x"}'] * 99]
    with no_classifier():
        assert run(decoder, values).table.num_rows == 100


def test_a_few_records_that_the_reader_names_are_judged_alone() -> None:
    """A batch with them does not go to the classifier; rows and reasons are as if each had come alone."""
    decoder = new_decoder("flat")
    bad = {3: b'{"i":"x"}', 7: b'{"i":1', 8: b'{"s":"\xff"}', 20: b'{"i":1,"i":2}'}
    values = [bad.get(row, b'{"i":%d}' % row) for row in range(21)]
    with no_classifier():
        decoded = run(decoder, values)
    assert decoded.table["i"].to_pylist() == [row for row in range(21) if row not in bad]
    codes = {row: reason.partition(":")[0] for row, _, reason in decoded.bad}
    assert codes == {3: "type_mismatch", 7: "not_json", 8: "not_utf8", 20: "duplicate_key"}
    assert json_reader(decoder).ways == {Way.WITHOUT: 1}
    assert habits(decoder).classified == 0


def test_a_record_that_is_named_in_the_place_of_another_is_not_refused() -> None:
    """A value that closes its wrapper makes two documents of itself: the reader counts those, not values."""
    decoder = new_decoder("flat")
    values = [b'{"i":0}}\n{"v":{"i":0}', b'{"i":1}', b'{"i":"x"}', b'{"i":3}', b'{"i":4}']
    decoded = run(decoder, values)
    assert decoded.table["i"].to_pylist() == [1, 3, 4]
    assert [row for row, _, _ in decoded.bad] == [0, 2]


@pytest.mark.parametrize("bad", [b'{"i":"x"}', b'{"i":1,"u":2}', b'{"i":1', None, b'{"i":1,"i":2}', b'{"i":1e400}'])
@pytest.mark.parametrize("at", [0, 1, PART_ROWS - 1, PART_ROWS, BLOCK_ROWS // 2, BLOCK_ROWS - 1, BLOCK_ROWS, 9_999])
def test_a_refused_record_costs_few_others_a_second_reading(bad: bytes | None, at: int) -> None:
    """Whether the reader names it or not: those before it in its block, and a part; what it says is as if alone."""
    decoder = new_decoder("flat")
    values = [bad if row == at else b'{"i":%d}' % row for row in range(10_000)]
    with all_reads() as reads:
        decoded = run(decoder, values)
    alone = run(new_decoder("flat"), [bad])
    assert decoded.table["i"].to_pylist() == [*range(at), *alone.table["i"].to_pylist(), *range(at + 1, 10_000)]
    assert [(row, *why) for row, *why in decoded.bad] == [(at, *why) for _, *why in alone.bad]
    assert decoded.table["_rescued"].null_count == decoded.table.num_rows - counts(alone)[0]
    assert 9_999 <= sum(reads) <= 10_000 + BLOCK_ROWS + 2 * PART_ROWS


@pytest.mark.parametrize("cut", [b"", b"{", b'{"i":1', b'{"i":1}]', b'{"s":"\xff'])
def test_records_that_are_cut_short_cost_no_other_a_second_reading(cut: bytes) -> None:
    """They are judged before the reader sees their block, which stays whole; what they say is as if alone."""
    decoder = new_decoder("flat")
    bad = (0, 5, BLOCK_ROWS - 1, BLOCK_ROWS, 9_999)
    values = [cut if row in bad else b'{"i":%d}' % row for row in range(10_000)]
    with all_reads() as reads:
        decoded = run(decoder, values)
    (alone,) = run(new_decoder("flat"), [cut]).bad
    assert decoded.bad == [(row, *alone[1:]) for row in bad]
    assert decoded.table["i"].to_pylist() == [row for row in range(10_000) if row not in bad]
    assert reads == [BLOCK_ROWS - 3, BLOCK_ROWS - 1, 9_999 - 2 * BLOCK_ROWS]


@pytest.mark.parametrize("ending", [1, FEW, FEW + 1, 200])
def test_good_records_with_a_line_break_behind_are_read_as_any(ending: int) -> None:
    """Few are judged in vain, more are not looked at; a record that is refused besides is told all the same."""
    decoder = new_decoder("flat")
    values = [b'{"i":%d}' % row + b"\n" * (row < ending) for row in range(300)]
    with no_classifier():
        assert run(decoder, values).table["i"].to_pylist() == [*range(300)]
        values[0], values[250] = b'{"i":', b'{"i":"x"}'
        assert [(row, why.partition(":")[0]) for row, _, why in run(decoder, values).bad] == [
            (0, "not_json"),
            (250, "type_mismatch"),
        ]


_SHORT, _WRONG, _NO_TIME = b'{"i":1', b'{"i":"x"}', b'{"ts":"x"}'
WAYS: dict[Way, list[bytes]] = {
    Way.WHOLE: [b"{}"],
    Way.CUT_SHORT: [b"{}", _SHORT],
    Way.BEFORE: [*[b"{}"] * (PART_ROWS + 1), _WRONG],
    Way.WITHOUT: [b"{}", _WRONG],
    Way.CLASSIFIED: [_WRONG] * (FEW + 1),
    Way.SEARCHED: [_NO_TIME] * (FEW + 1),
    Way.JUDGED: [b'{"ts":"2024-01-05"}', b'{"ts":"2024-01-05T10:11:12.123456789Z"}'],
}
"""A batch that takes it. JUDGED is one for the reader that cuts timestamps."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_way_is_taken_by_some_batch(way: Way) -> None:
    """The table of ways.py is drawn from what happens; and a way changes no verdict."""
    values = WAYS[way]
    decoder = new_decoder("flat", reader="long" if way is Way.JUDGED else "any")
    seen = shown(run(decoder, values))
    assert way in json_reader(decoder).ways
    alone = {value: shown(decoded_alone("flat", value))[0] for value in set(values)}
    assert seen == {row: alone[value] for row, value in enumerate(values)}


def test_what_the_reader_refuses_alone_is_no_good_record() -> None:
    """The last way: should the judge ever pass what the reader does not take, it is a dead letter and ends nothing."""
    decoder = new_decoder("flat")
    values = [b'{"i":1}', _WRONG, b'{"i":3}']
    with (
        mock.patch.object(Judge, "verdict", lambda self, raw: RecordVerdict(raw)),
        mock.patch.object(Judge, "guess", lambda self, raw: None),
    ):
        decoded = run(decoder, values)
    assert json_reader(decoder).ways == {Way.ONE_BY_ONE: 1}
    assert decoded.bad == [(1, "decode", "not_json: the reader refuses what the judge passed")]
    assert decoded.table["i"].to_pylist() == [1, 3]


def test_blocks_grow_again_after_a_refused_record() -> None:
    """From a part on, up to a whole block."""
    decoder = new_decoder("flat")
    run(decoder, [b'{"i":"x"}', *[b"{}"] * 99])
    with all_reads() as reads:
        run(decoder, [b"{}"] * 40_000)
    sizes = reads
    assert sizes[0] == PART_ROWS and max(sizes) == BLOCK_ROWS
    assert all(before <= after for before, after in itertools.pairwise(sizes[:-1]))


def test_more_named_records_than_a_few_go_to_the_classifier() -> None:
    """And are refused as if each had come alone."""
    decoder = new_decoder("flat")
    values = [b'{"i":"x"}' if row % 2 else b'{"i":1}' for row in range(4 * FEW)]
    decoded = run(decoder, values)
    assert [row for row, _, _ in decoded.bad] == list(range(1, 4 * FEW, 2))
    assert habits(decoder).classified == 1
    assert json_reader(decoder).ways == {Way.CLASSIFIED: 1}


def test_one_batch_that_was_sorted_out_makes_nobody_wary() -> None:
    """Only after some in a row the reader is not tried first; one batch without is enough to trust it again."""
    decoder = new_decoder("flat")
    bad, good = [b'{"i":1.5}'] * (FEW + 1), [b'{"i":1}']
    for _ in range(WARY_AFTER):
        assert habits(decoder).classified < WARY_AFTER
        run(decoder, bad)
    assert habits(decoder).classified == WARY_AFTER
    run(decoder, good)
    assert habits(decoder).classified == 0
