"""What whoever decodes can rely on, of the strict format for tests and of every real one alike (ROUTE).

tests/unit/formats has what is particular to JSON; here is what each format must do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.arrow.kafka_time import US
from exporter.core.columns import EVOLVED
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import NO_SCHEMAS
from exporter.core.shapes import Rename
from exporter.core.value_format import JSON, ValueFormat
from exporter.errors import ConfigError
from exporter.formats.decoder import Decoder
from exporter.formats.envelopes.texts import EnvelopedTexts
from exporter.formats.fake import FakeFormat
from exporter.formats.format import Format, Read
from exporter.formats.formats import FORMATS
from exporter.formats.json.format import Json
from exporter.formats.json_schema.format import JsonSchema
from exporter.formats.raw.format import Raw
from tests.support.avro_place import InAvro, InAvroUnion
from tests.support.proto_place import InProtobuf

Fields = dict[str, Any]
NAME = "order"
FRAME = b"\0\0\0\0\7"
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
TYPED = Routing(TypeFrom("json", "t"), EventTime("json", "at", "s"), ())
AT, AT_TEXT = 1_769_860_800, "2026-01-31T12:00:00Z"


def struct(*fields: tuple[str, Any, bool], evolved: Mapping[str, str] | None = None) -> str:
    """Spark schema JSON: (name, type, whether it may be null); evolved: name -> type of columns nobody declared."""
    made = [{"name": name, "type": kind, "nullable": nullable, "metadata": {}} for name, kind, nullable in fields]
    mark = {EVOLVED: "t/0/1"}
    made += [{"name": name, "type": kind, "nullable": True, "metadata": mark} for name, kind in (evolved or {}).items()]
    return json.dumps({"type": "struct", "fields": made})


COLUMNS = struct(("id", "long", True), ("s", "string", True))
REQUIRED = struct(("id", "long", False), ("s", "string", True))


class Place(Protocol):
    """A format, how its values are written, and what is wrong for it."""

    form: Format
    refused_types: Sequence[Any]
    broken: Sequence[bytes]

    def value(self, fields: Fields) -> bytes: ...

    def unknown(self, rescued: str) -> Fields: ...


class InPairs:
    """The fake."""

    form = FakeFormat()
    refused_types = ("double", "timestamp", "boolean", {"type": "array", "elementType": "long", "containsNull": True})
    broken = (b"id", b"id=1;", b"id=1=2", b"id=1;id=1", b"s=x;id=1", b"id=01", b"id=1.0", b"id=x", b"s=\xff", b"7=x",
              b"id=9223372036854775808", b"at=x", b"id= 1")  # fmt: skip

    def value(self, fields: Fields) -> bytes:
        return ";".join(f"{name}={fields[name]}" for name in sorted(fields)).encode()

    def unknown(self, rescued: str) -> Fields:
        pairs = dict(pair.split("=") for pair in rescued.split(";") if pair)
        return {name: int(text) if text.lstrip("-").isdigit() else text for name, text in pairs.items()}


class InJson:
    """The format of objects."""

    form = Json()
    refused_types = ("interval", "variant", "void",
                     {"type": "map", "keyType": "long", "valueType": "long", "valueContainsNull": True})  # fmt: skip
    broken = (b"", b"{", b"[]", b"5", b"null", b'{"id":"x"}', b'{"id":1.5}', b'{"id":1,"id":1}', b'{"s":"\xff"}',
              b'{"s":5}', b'{"id":9223372036854775808}', b'{"id":1}}', b'{"id":1}{"id":2}', b'{"at":"x"}')  # fmt: skip

    def value(self, fields: Fields) -> bytes:
        return json.dumps(fields).encode()

    def unknown(self, rescued: str) -> Fields:
        found: Fields = json.loads(rescued)
        return found


class InFramedJson(InJson):
    """Objects behind the id of a schema."""

    form = JsonSchema(ValueFormat("json_schema", "confluent"), NO_SCHEMAS)
    broken = (*(FRAME + value for value in InJson.broken), b"", b"\0\0\0\0", b"{}", b"\1\0\0\0\7{}")

    def value(self, fields: Fields) -> bytes:
        return FRAME + super().value(fields)


class InConnect:
    """Objects beside a schema."""

    form = EnvelopedTexts(Json(), ValueFormat("connect_json"))
    refused_types = InJson.refused_types
    broken = (b"", b"{", b"[]", b'{"id":1}', b'{"schema":null,"payload":5}', b'{"schema":5,"payload":{"id":1}}',
              *(b'{"schema":null,"payload":' + value + b"}" for value in InJson.broken))  # fmt: skip

    def value(self, fields: Fields) -> bytes:
        return json.dumps({"schema": None, "payload": fields}).encode()

    def unknown(self, rescued: str) -> Fields:
        found: Fields = json.loads(rescued)
        return found


PLACES: tuple[Place, ...] = (InPairs(), InJson(), InFramedJson(), InAvro(), InAvroUnion(), InProtobuf(), InConnect())
WITHOUT_FIELDS = {Raw}
"""Formats of values that have no fields: tests/unit/formats/test_raw.py."""
each_format = pytest.mark.parametrize("place", PLACES, ids=lambda place: type(place).__name__)


def read(place: Place, values: Sequence[bytes | None], routing: Routing = PLAIN, columns: str = COLUMNS) -> Read:
    """By a new reader; what a Read must be in any case is checked."""
    return again(place.form.reader(NAME, place.form.schema(columns, NAME), routing), place, values, columns)


def again(reader: Any, place: Place, values: Sequence[bytes | None], columns: str = COLUMNS) -> Read:
    found: Read = reader.read(pa.array(values, pa.binary()))
    rows = found.rows.to_pylist()
    assert rows == sorted(rows) and found.rows.type == pa.int32()
    assert sorted([*rows, *found.refused]) == list(range(len(values)))
    assert [column.type for column in found.columns] == place.form.schema(columns, NAME).types
    sides = [*found.columns, found.rescued, found.ignored, *([] if found.time is None else [found.time])]
    assert {len(side) for side in sides} == {len(rows)}
    assert (found.rescued.type, found.ignored.type) == (pa.string(), pa.int32())
    assert all(re.match(r"[a-z0-9_]+: ", reason) for reason in found.refused.values())
    return found


def shown(found: Read) -> dict[int, Any]:
    """Per input row its reason, or what was read of it."""
    sides = [*found.columns, found.rescued, *([] if found.time is None else [found.time])]
    taken = {
        row: ([side[at].as_py() for side in sides], found.ignored[at].as_py() or 0)
        for at, row in enumerate(found.rows.to_pylist())
    }
    return {**taken, **found.refused}


# --- columns -------------------------------------------------------------------------------------------------


@each_format
def test_a_schema_has_the_declared_columns_in_their_order(place: Place) -> None:
    """Texts and whole numbers are carried by any format; what is required stays so."""
    schema = place.form.schema(REQUIRED, NAME)
    assert schema == pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])


@each_format
def test_a_schema_that_the_format_cannot_carry_is_refused(place: Place) -> None:
    """At the start, with the type and the column; never at a record."""
    for kind in place.refused_types:
        with pytest.raises(ConfigError, match=r"types\.order, column odd"):
            place.form.schema(struct(("id", "long", True), ("odd", kind, True)), NAME)
    for text in ('"long"', '{"type":"struct","fields":[]}'):
        with pytest.raises(ConfigError, match="order"):
            place.form.schema(text, NAME)


@each_format
def test_a_column_in_the_way_of_the_event_type_or_time_is_refused(place: Place) -> None:
    """When the reader is made, which the start does once for each type."""
    by_number, at_text = TypeFrom("json", "id"), EventTime("json", "s")
    for routing in (replace(TYPED, type_from=by_number), replace(TYPED, event_time=at_text)):
        with pytest.raises(ConfigError):
            place.form.reader(NAME, place.form.schema(COLUMNS, NAME), routing)


# --- verdicts ------------------------------------------------------------------------------------------------


@each_format
def test_what_was_sent_is_what_is_read(place: Place) -> None:
    """Equal, in the order of the values; a field that is not there is null."""
    sent: list[Fields] = [{"id": 7, "s": "x"}, {"id": -(2**63)}, {"s": "\u00e9"}, {}, {"id": 2**63 - 1, "s": ""}]
    found = read(place, [place.value(fields) for fields in sent])
    ids, texts = (column.to_pylist() for column in found.columns)
    assert ids == [fields.get("id") for fields in sent]
    assert texts == [fields.get("s") for fields in sent]
    assert found.rescued.null_count == len(sent) and not any(found.ignored.to_pylist()) and not found.refused


@each_format
@pytest.mark.parametrize("unit", ["s", "iso"])
def test_what_cannot_be_read_is_refused_and_never_null(place: Place, unit: Any) -> None:
    """Each alone, and among good ones: a reason, or all of it."""
    good = place.value({"id": 1, "s": "x"})
    routing = replace(PLAIN, event_time=EventTime("json", "at", unit))
    for broken in place.broken:
        assert list(read(place, [broken], routing).refused) == [0], broken
        found = read(place, [good, broken, good], routing)
        assert list(found.refused) == [1]
        assert found.columns[0].to_pylist() == [1, 1]


@each_format
def test_null_is_a_tombstone(place: Place) -> None:
    """Not an empty record."""
    found = read(place, [None, place.value({"id": 1}), None])
    assert {row: reason.partition(":")[0] for row, reason in found.refused.items()} == {0: "tombstone", 2: "tombstone"}


@each_format
def test_a_required_field_that_is_missing_is_a_reason(place: Place) -> None:
    """The column has no null."""
    found = read(place, [place.value({"s": "x"}), place.value({"id": 1})], columns=REQUIRED)
    assert [reason.partition(":")[0] for reason in found.refused.values()] == ["missing_field"]
    assert found.columns[0].to_pylist() == [1]


@each_format
def test_no_batch_and_an_empty_one(place: Place) -> None:
    """No values are no rows, of the right types."""
    assert read(place, []).refused == {} == read(place, [], columns=REQUIRED).refused
    assert read(place, [], TYPED).time is not None


@each_format
def test_a_slice_of_values_is_read_as_they_are(place: Place) -> None:
    """Arrow's arrays may begin anywhere."""
    values = [place.value({"id": number}) for number in range(20)]
    reader = place.form.reader(NAME, place.form.schema(COLUMNS, NAME), PLAIN)
    found = reader.read(pa.array([None, *values, b"?"], pa.binary()).slice(1, 20))
    assert found.columns[0].to_pylist() == list(range(20)) and not found.refused


_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "s": st.text("abc\u00e9 ", max_size=5),
        "u": st.integers(0, 9),
        "v": st.just("x"),
        "t": st.sampled_from([NAME, NAME, "other"]),
        "at": st.integers(0, 2 * AT),
    },
)


@each_format
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    policy=st.sampled_from(["rescue", "ignore", "dead_letter"]), routing=st.sampled_from([PLAIN, TYPED]), data=st.data()
)
def test_alone_is_as_in_a_batch(place: Place, policy: Any, routing: Routing, data: st.DataObject) -> None:
    """ROUTE: what is said of a value depends on neither its neighbours nor what the reader has read before."""
    config = replace(routing, unknown_fields=policy)
    one = st.one_of(_FIELDS.map(place.value), st.sampled_from(place.broken), st.none())
    reader = place.form.reader(NAME, place.form.schema(COLUMNS, NAME), config)
    for values in data.draw(st.lists(st.lists(one, min_size=1, max_size=8), min_size=1, max_size=3)):
        batch = shown(again(reader, place, values))
        for row, value in enumerate(values):
            assert shown(read(place, [value], config))[0] == batch[row], value


# --- unknown fields ------------------------------------------------------------------------------------------


@each_format
def test_unknown_fields_go_where_the_policy_says(place: Place) -> None:
    """Kept, counted, or a reason; the fields of event type and event time are none."""
    value = place.value({"id": 1, "u": 5, "v": "x", "t": NAME, "at": AT})
    kept = read(place, [value], TYPED)
    assert place.unknown(kept.rescued[0].as_py()) == {"u": 5, "v": "x"} and not any(kept.ignored.to_pylist())
    counted = read(place, [value], replace(TYPED, unknown_fields="ignore"))
    assert (counted.rescued[0].as_py(), counted.ignored.to_pylist()) == (None, [2])
    refused = read(place, [value], replace(TYPED, unknown_fields="dead_letter"))
    assert [reason.partition(":")[0] for reason in refused.refused.values()] == ["unknown_field"]


@each_format
@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
def test_a_type_without_columns_is_kept_whole(place: Place, policy: Any) -> None:
    """Whatever the policy: there is nowhere else for it."""
    fields: Fields = {"id": 1, "t": NAME, "at": AT}
    reader = place.form.reader(NAME, pa.schema([]), replace(TYPED, unknown_fields=policy))
    found = reader.read(pa.array([place.value(fields)], pa.binary()))
    assert place.unknown(found.rescued[0].as_py()) == fields


# --- columns that nobody declared ------------------------------------------------------------------------------


@each_format
def test_what_does_not_fit_a_column_that_nobody_declared_is_an_unknown_field(place: Place) -> None:
    """What fits is in the column. A declared one beside it still refuses."""
    columns = struct(("id", "long", True), evolved={"n": "long", "s": "string"})
    sent: list[Fields] = [{"id": 1, "n": 5, "s": "x"}, {"n": "x", "u": 7}, {"id": "x", "n": "x"}]
    values = [place.value(fields) for fields in sent]
    found = read(place, values, columns=columns)
    assert [column.to_pylist() for column in found.columns] == [[1, None], [5, None], ["x", None]]
    assert found.rescued[0].as_py() is None and place.unknown(found.rescued[1].as_py()) == {"n": "x", "u": 7}
    assert list(found.refused) == [2]


@each_format
def test_such_columns_are_empty_where_unknown_fields_are_not_kept(place: Place) -> None:
    """An unknown field is one, whatever the table has."""
    columns, value = struct(("id", "long", True), evolved={"n": "long"}), place.value({"id": 1, "n": 5})
    refused = read(place, [value], replace(PLAIN, unknown_fields="dead_letter"), columns)
    assert [reason.partition(":")[0] for reason in refused.refused.values()] == ["unknown_field"]
    counted = read(place, [value], replace(PLAIN, unknown_fields="ignore"), columns)
    assert [column.to_pylist() for column in counted.columns] == [[1], [None]] and counted.ignored.to_pylist() == [1]


@each_format
@settings(max_examples=90, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    declared=st.sampled_from([(("id", "long", True), ("s", "string", True)), (("id", "long", False),), ()]),
    others=st.sampled_from([{"u": "long", "v": "long"}, {"t": "string", "at": "long"}, {"t": "long", "at": "string"}]),
    data=st.data(),
)
def test_no_such_column_changes_a_verdict(
    place: Place, declared: Sequence[tuple[str, Any, bool]], others: Mapping[str, str], data: st.DataObject
) -> None:
    """VERDICT: a record is good or bad, and why, by what is declared; also where the routing reads such a column."""
    one = st.one_of(_FIELDS.map(place.value), st.sampled_from(place.broken), st.none())
    values = data.draw(st.lists(one, min_size=1, max_size=6))
    plain = place.form.schema(struct(*declared), NAME) if declared else pa.schema([])
    grown = place.form.schema(struct(*declared, evolved=others), NAME)
    routing = data.draw(st.sampled_from([PLAIN, TYPED]))
    kafka = pa.array([AT * 10**6] * len(values), US)
    found = Decoder(NAME, grown, routing, place.form).decode(pa.array(values, pa.binary()), kafka)
    expected = Decoder(NAME, plain, routing, place.form).decode(pa.array(values, pa.binary()), kafka)
    assert (found.good, found.bad) == (expected.good, expected.bad)
    assert found.table.select(plain.names) == expected.table.select(plain.names)
    assert found.table["_event_time"] == expected.table["_event_time"]
    assert found.table.schema.equals(found.table.schema.remove_metadata(), check_metadata=True)


# --- event type and time -------------------------------------------------------------------------------------


@each_format
def test_a_record_is_of_each_event_type_that_the_rules_lead_it_to(place):
    """By its new name, a pattern that fits it, or as what no other table takes; else it is told that it is not."""
    sent = [place.value({"id": number, "t": said}) for number, said in enumerate((NAME, "old-order", "x", "y"))]
    rules: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [0]),
        ({"renames": (Rename("old-(.*)", "$1"),)}, [0, 1]),
        ({"matches": ((NAME, "x|old.*"),)}, [1, 2]),
        ({"unrouted": NAME}, [0, 1, 2, 3]),
        ({"unrouted": "count"}, [0]),
    ]
    for changes, taken in rules:
        routing = replace(PLAIN, type_from=TypeFrom("json", "t"), types=((NAME, COLUMNS),), **changes)
        found = read(place, sent, routing)
        assert found.rows.to_pylist() == taken
        assert {row: why.partition(":")[0] for row, why in found.refused.items()} == {
            row: "type_mismatch" for row in range(len(sent)) if row not in taken
        }


@each_format
def test_the_event_time_is_as_sent(place: Place) -> None:
    """A number of its unit, or an instant; null where it is missing, which is for others to judge."""
    values = [place.value({"at": AT, "t": NAME}), place.value({"t": NAME})]
    found = read(place, values, TYPED)
    assert found.time is not None and found.time.type == pa.int64() and found.time.to_pylist() == [AT, None]
    found = read(place, [place.value({"at": AT_TEXT})], replace(PLAIN, event_time=EventTime("json", "at")))
    assert found.time is not None and found.time.type == US and found.time.cast(pa.int64()).to_pylist() == [AT * 10**6]
    assert read(place, values).time is None


@each_format
def test_a_record_of_another_type_than_it_was_routed_by_is_refused(place: Place) -> None:
    """ROUTE: it is not filed."""
    found = read(place, [place.value({"t": "other", "id": 1}), place.value({"t": NAME, "id": 2})], TYPED)
    assert [reason.partition(":")[0] for reason in found.refused.values()] == ["type_mismatch"]
    assert found.columns[0].to_pylist() == [2]


@each_format
def test_a_peek_finds_the_type_or_says_why_not(place: Place) -> None:
    """A type, a reason, or neither for what is null or skipped; alone as in a batch."""
    peek = place.form.peek(TypeFrom("json", "t"))
    values = [place.value({"t": "a", "id": 1}), place.value({"id": 1}), place.value({"id": 1, "t": "b"}), None,
              place.value({"t": "long"}), place.value({"t": ""}), place.broken[0], place.value({"t": "a"})]  # fmt: skip
    skipped = [False] * 4 + [True] + [False] * 3
    types, reasons = peek.types(pa.array(values, pa.binary()), pa.array(skipped))
    assert types.to_pylist() == ["a", None, "b", None, None, None, None, "a"]
    assert reasons.keys() == {1, 5, 6}
    assert [reasons[row].partition(":")[0] for row in (1, 5)] == ["no_type", "no_type"]
    for row, value in enumerate(values):
        alone, why = peek.types(pa.array([value], pa.binary()), pa.array([skipped[row]]))
        assert (alone[0].as_py(), why.get(0)) == (types[row].as_py(), reasons.get(row))


# --- with what is common to all formats ----------------------------------------------------------------------


@each_format
def test_the_decoder_judges_event_times_of_any_format(place: Place) -> None:
    """Bounds and missing ones: the same words, whatever the value is made of."""
    decoder = Decoder(NAME, place.form.schema(COLUMNS, NAME), TYPED, place.form)
    times = [AT, 0, AT + 2 * 86_400, None]
    values = [place.value({"id": row, "t": NAME, **({} if at is None else {"at": at})}) for row, at in enumerate(times)]
    kafka = pa.array([AT * 10**6] * len(values), US)
    decoded = decoder.decode(pa.array([*values, None], pa.binary()), pa.concat_arrays([kafka, kafka.slice(0, 1)]))
    assert decoded.good.to_pylist() == [0] and decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [AT * 10**6]
    bounds = "2000-01-01 00:00:00.000000Z .. 2026-01-31 12:00:00.000000Z (Kafka) + 86400 s"
    late = "event_time_out_of_bounds: $.at = {} s lies outside " + bounds
    assert decoded.bad == [
        (1, "event_time", late.format(0)),
        (2, "event_time", late.format(AT + 2 * 86_400)),
        (3, "event_time", "missing_event_time: $.at is null or missing"),
        (4, "decode", "tombstone: the value is null"),
    ]


def test_every_format_that_there_is_does_this() -> None:
    """Whoever adds one adds it here."""
    assert {type(form(JSON, NO_SCHEMAS)) for form in FORMATS.values()} <= {
        *(type(place.form) for place in PLACES), *WITHOUT_FIELDS
    }


def test_a_format_that_this_version_does_not_know_is_refused() -> None:
    """A configuration of a later version cannot be drained by this one: it says so, and reads nothing."""
    with pytest.raises(ConfigError, match="'lines', which this version does not know"):
        Decoder(NAME, pa.schema([]), replace(PLAIN, value_format=ValueFormat("lines")))
