"""Protobuf as a format: who wrote a value, what its columns are called, and what is no value of it."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.format import Read
from exporter.formats.frames import confluent_ids, message_places
from exporter.formats.protobuf.format import NO_FRAME, NO_INDEXES, Protobuf
from exporter.formats.protobuf.heads import heads
from tests.contract.test_format import struct
from tests.support.proto_files import EVERY, classes, text_of
from tests.support.proto_place import framed

PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
FRAMED = ValueFormat("protobuf", "confluent")
V1 = 'syntax = "proto3"; package shop; message Order { optional int32 id = 1; string name = 2; }'
V2 = ('syntax = "proto3"; package shop; message Other { bool x = 1; } message Order { message Line { int32 n = 1; } '
      'string title = 2; optional int64 id = 1; repeated Line lines = 3; }')  # fmt: skip
V3 = 'syntax = "proto3"; package shop; message Order { optional int64 id = 1; string customer = 2; uint32 more = 9; }'
COLUMNS = struct(("id", "long", True), ("customer", "string", True))


def known(**texts: str) -> KnownSchemas:
    """Ids (i7=...) and their schemas."""
    return KnownSchemas({int(name[1:]): [SchemaText("PROTOBUF", text)] for name, text in texts.items()})


VERSIONS = known(i1=text_of(V1), i2=text_of(V2), i3=text_of(V3), i4="?", i5=text_of("syntax = \"proto2\"; "
                 "package shop; message Order { optional group G = 1 { optional int32 x = 1; } }"))  # fmt: skip
READERS = ValueFormat("protobuf", "confluent", schemas=(("order.proto", text_of(V3)),))


def read(form: ValueFormat, schemas: KnownSchemas, values: list[bytes | None], columns: str = COLUMNS) -> Read:
    made = Protobuf(form, schemas)
    return made.reader("order", made.schema(columns, "order"), PLAIN).read(pa.array(values, pa.binary()))


def columns_of(found: Read) -> list[list[Any]]:
    return [column.to_pylist() for column in found.columns]


def order(version: str, **fields: Any) -> bytes:
    raw: bytes = classes(version)["shop.Order"](**fields).SerializeToString()
    return raw


ONE, TWO = framed(1, order(V1, id=5, name="a")), framed(2, order(V2, id=6, title="b"), b"\2\2")
THREE = framed(3, order(V3, id=7, customer="c"))


def test_three_writers_at_random_are_read_each_by_its_own_and_come_back_in_order() -> None:
    """Names are those that the reader's file has for the same numbers; types are widened."""
    rng = random.Random(40)
    kinds = [rng.randrange(3) for _ in range(3_000)]
    values = [[ONE, TWO, THREE][kind] for kind in kinds]
    found = read(READERS, VERSIONS, [*values])
    assert not found.refused and found.rows.to_pylist() == list(range(3_000))
    assert columns_of(found) == [[5 + kind for kind in kinds], ["abc"[kind] for kind in kinds]]


def test_without_a_file_of_the_reader_the_writer_s_names_count() -> None:
    """A renamed field is another one then, and is kept."""
    found = read(FRAMED, VERSIONS, [ONE, TWO, THREE])
    assert columns_of(found) == [[5, 6, 7], [None, None, "c"]]
    assert [json.loads(text) for text in found.rescued.to_pylist()] == [
        {"name": "a"}, {"title": "b", "lines": []}, {"more": 0}
    ]  # fmt: skip


def test_a_field_that_the_reader_s_file_lacks_keeps_its_name() -> None:
    """And one inside of messages follows its own message."""
    nested = ('syntax = "proto3"; package shop; message Order { optional int64 id = 1; message Line { int32 m = 1; } '
              'repeated Line rows = 3; }')  # fmt: skip
    form = ValueFormat("protobuf", "confluent", schemas=(("order.proto", text_of(nested)),))
    value = framed(2, order(V2, id=6, title="b", lines=[{"n": 1}, {"n": 2}]), b"\2\2")
    line = {"type": "struct", "fields": [{"name": "m", "type": "integer", "nullable": True, "metadata": {}}]}
    columns = struct(("rows", {"type": "array", "elementType": line, "containsNull": True}, True))
    found = read(form, VERSIONS, [value], columns)
    assert columns_of(found) == [[[{"m": 1}, {"m": 2}]]]
    assert json.loads(found.rescued[0].as_py()) == {"id": 6, "title": "b"}


def test_a_name_that_would_be_that_of_two_fields_is_refused() -> None:
    """The reader calls another number so."""
    twisted = 'syntax = "proto3"; package shop; message Order { int64 name = 1; }'
    form = ValueFormat("protobuf", "confluent", schemas=(("order.proto", text_of(twisted)),))
    found = read(form, VERSIONS, [ONE], struct(("name", "string", True)))
    why = "unresolvable_schema: id 1: $.name: it would be the name of two fields, 1 and 2"
    assert dict(found.refused) == {0: why}


def test_what_cannot_be_read_at_all_is_a_reason_for_each_of_its_records_alone() -> None:
    """A schema that is none, one that no column can hold, a message that the file lacks, a column it cannot fill."""
    values = [ONE, framed(4, b""), framed(5, b""), framed(3, b"", b"\2\4"), framed(2, b"", b"\4\2\2"), THREE, None,
              framed(9, b""), b"{}", b"\0\0\0\0\1", framed(1, b"", b"\x01"), framed(1, b"", b"\x42")]  # fmt: skip
    found = read(FRAMED, VERSIONS, [*values])
    assert found.rows.to_pylist() == [0, 5]
    assert dict(found.refused) == {
        1: "unresolvable_schema: id 4: a Protobuf schema cannot be used: it is no base64",
        2: "unresolvable_schema: id 5: $.g: it is a group, which is not read",
        3: "unresolvable_schema: id 3: its file has no message 2",
        4: "unresolvable_schema: id 2: its file has no message 1.1",
        6: "tombstone: the value is null",
        7: "unknown_schema_id: 9",
        8: NO_FRAME,
        9: NO_INDEXES,
        10: NO_INDEXES,
        11: NO_INDEXES,
    }
    wrong = read(FRAMED, VERSIONS, [ONE], struct(("id", "string", True)))
    assert wrong.refused[0].startswith("unresolvable_schema: id 1: $.id")
    for row, value in enumerate(values):
        alone = read(FRAMED, VERSIONS, [value])
        assert dict(alone.refused) == ({0: found.refused[row]} if row in found.refused else {})


@pytest.mark.parametrize(
    ("indexes", "place"),
    [(b"\0", "A"), (b"\2\0", "A"), (b"\2\2", "B"), (b"\4\2\0", "B.C"), (b"\4\2\2", "B.D"), (b"\x82\0\x82\0", "B"),
     (b"\6\2\2\0", "B.D.E")],
)  # fmt: skip
def test_message_indexes_lead_to_the_message(indexes: bytes, place: str) -> None:
    """The first one of the file is the short form; a number may be padded."""
    text = ('syntax = "proto3"; message A { int32 a = 1; } message B { int32 b = 1; message C { int32 c = 1; } '
            'message D { int32 d = 1; message E { int32 e = 1; } } }')  # fmt: skip
    schemas = known(i1=text_of(text))
    made = Protobuf(FRAMED, schemas)
    peek = made.peek(TypeFrom("schema"))
    values = pa.array([framed(1, b"\x08\x07"), framed(1, b"\x08\x05", indexes), None], pa.binary())
    types, reasons = peek.types(values, pa.array([False] * 3))
    assert types.to_pylist() == ["A", place, None] and not reasons
    name = place[-1].lower()
    found = read(FRAMED, schemas, [framed(1, b"\x08\x05", indexes)], struct((name, "long", True)))
    assert columns_of(found) == [[5]]


@pytest.mark.parametrize(
    "indexes", [b"", b"\x80", b"\2", b"\4\2", b"\x01", b"\2\1", b"\x44" + b"\2" * 40, b"\xff" * 11]
)
def test_damaged_message_indexes_are_no_frame(indexes: bytes) -> None:
    """Cut, below zero, more than anybody nests, no number."""
    found = read(FRAMED, VERSIONS, [THREE, framed(3, b"", indexes), THREE])
    assert dict(found.refused) == {1: NO_INDEXES} and found.rows.to_pylist() == [0, 2]


def test_columns_are_made_for_the_messages_that_values_are_read_as() -> None:
    """Whoever tells the driver which schemas were met, and whoever reads by them, find the same message."""
    rng = random.Random(5)
    some = [b"\0", b"\2\0", b"\2\2", b"\4\2\0", b"\x82\0\4", b"\2\x82\1", b"\2\xfe\xff\xff\xff\x0f"]
    some.append(b"\x14" + b"\2" * 10)
    indexes = [rng.choice([*some, rng.randbytes(rng.randint(0, 4))]) for _ in range(2_000)]
    values = pa.array([framed(1, rng.randbytes(rng.randint(0, 3)), one) for one in indexes], pa.binary())
    found = heads(ValueBytes(values, ReasonPaths(["$"])), np.arange(len(values)))
    places = message_places(values, confluent_ids(values))
    for place, rows in found.places.items():
        shown = "" if place == (0,) else ".".join(map(str, place))
        assert {*places[rows].tolist()} == {shown}
    assert len(found.places) > 6 and len(found.damaged) > 100


def test_types_by_schema_are_told_although_nobody_can_read_the_values() -> None:
    """The name of the message is known; short or in full. A schema that is none has no name."""
    values = pa.array([ONE, framed(5, b""), framed(4, b""), b"x"], pa.binary())
    made = Protobuf(FRAMED, VERSIONS)
    for name, told in (("full", "shop.Order"), ("short", "Order")):
        types, reasons = made.peek(TypeFrom("schema", name)).types(values, pa.array([False] * 4))
        assert types.to_pylist() == [told, told, None, None]
        assert {row: reason.partition(":")[0] for row, reason in reasons.items()} == {
            2: "unresolvable_schema", 3: "not_framed"
        }  # fmt: skip


def test_a_type_inside_of_a_message_or_an_enum_is_read_without_the_rest() -> None:
    """A path; a field that no text is refuses all of its writer."""
    made = Protobuf(FRAMED, known(i1=text_of(EVERY)))
    every = classes(EVERY)["every.Every"]
    values = pa.array([framed(1, every(inner={"y": "t"}, color="RED", i32=5).SerializeToString()),
                       framed(1, b""), framed(1, b"\x08")], pa.binary())  # fmt: skip
    shown = {"inner.y": ["t", None, None], "color": ["RED", "NONE", None], "i32": [None] * 3, "i32.x": [None] * 3}
    for path, told in shown.items():
        types, reasons = made.peek(TypeFrom("json", path)).types(values, pa.array([False] * 3))
        assert types.to_pylist() == told and {*reasons} == {row for row in range(3) if told[row] is None}
    with pytest.raises(ConfigError, match="name no source"):
        made.peek(TypeFrom("source"))


def test_without_a_frame_the_settings_say_which_message_it_is() -> None:
    """By its full name; needless where there is one alone."""
    files = (("a.proto", text_of(V1)), ("b.proto", text_of(EVERY)))
    form = ValueFormat("protobuf", message="shop.Order", schemas=files)
    found = read(form, KnownSchemas(), [order(V1, id=5, name="a"), None, b"\x08"], struct(("id", "long", True)))
    assert columns_of(found) == [[5]] and {*found.refused} == {1, 2}
    single = ValueFormat("protobuf", schemas=files[:1])
    assert columns_of(read(single, KnownSchemas(), [order(V1, id=5)], struct(("id", "long", True)))) == [[5]]
    for message, why in (("", "have 4 messages"), ("shop.Nothing", r"no schema file has a message shop\.Nothing")):
        with pytest.raises(ConfigError, match=why):
            read(ValueFormat("protobuf", message=message, schemas=files), KnownSchemas(), [])
    group = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 1; } }'
    with pytest.raises(ConfigError, match="message A cannot be read"):
        read(ValueFormat("protobuf", schemas=(("a.proto", text_of(group)),)), KnownSchemas(), [])


def test_a_message_in_itself_is_kept_as_it_was_sent() -> None:
    """In base64, in lists and maps too; all else of its record is a row. Twice is twice, and cut short is cut short."""
    text = ('syntax = "proto3"; message A { int32 x = 1; A a = 2; repeated A more = 3; map<string, A> named = 4; }')
    made = classes(text)["A"](x=1, a={"x": 2, "a": {"x": 3}}, more=[{"x": 4}, {}], named={"k": {"x": 5}})
    body = made.SerializeToString()
    files = (("a", text_of(text)),)
    values = [body, body + b"\x12\x00", body[:-1], b"\x08\x07"]
    found = read(ValueFormat("protobuf", schemas=files), KnownSchemas(), [*values], struct(("x", "long", True)))
    assert columns_of(found) == [[1, 7]]
    assert {row: why.partition(" ")[0] for row, why in found.refused.items()} == {
        1: "duplicate_field:", 2: "truncated:",
    }  # fmt: skip
    kept = json.loads(found.rescued[0].as_py())
    inside = classes(text)["A"].FromString(base64.b64decode(kept["a"]))
    assert (inside, len(kept["more"]), list(kept["named"])) == (made.a, 2, ["k"])


def test_an_empty_message_is_kept_among_the_unknown_fields() -> None:
    """No column can hold it; that it was there is not lost."""
    text = ('syntax = "proto3"; import "google/protobuf/empty.proto"; message A { optional int32 x = 1; '
            'google.protobuf.Empty gone = 2; repeated google.protobuf.Empty some = 3; }')  # fmt: skip
    made = classes(text)["A"](x=1, gone={}, some=[{}, {}]).SerializeToString()
    found = read(ValueFormat("protobuf", schemas=(("a", text_of(text)),)), KnownSchemas(), [made, b""],
                 struct(("x", "long", True)))  # fmt: skip
    assert columns_of(found) == [[1, None]]
    assert [json.loads(one) for one in found.rescued.to_pylist()] == [{"gone": {}, "some": [{}, {}]}, {"some": []}]


def test_what_confluent_s_serialiser_writes_is_read() -> None:
    """Its frame, its indexes, and the schema as it registers it: a descriptor of one file."""
    client = SchemaRegistryClient.new_client({"url": "mock://protobuf"})
    values, ids = [], set()
    for name, fields in (("every.Every", {"i64": 5, "text": "x"}), ("every.Inner", {"x": 7}), ("every.Leaf", {"v": 3})):
        kind = classes(EVERY)[name]
        write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
        values.append(write(kind(**fields), SerializationContext(name, MessageField.VALUE)))
        ids.add(int.from_bytes(values[-1][1:5], "big"))
    texts = {one: client.get_schema(one) for one in ids}
    schemas = KnownSchemas({one: [SchemaText("PROTOBUF", text.schema_str)] for one, text in texts.items()})
    made = Protobuf(FRAMED, schemas)
    types, reasons = made.peek(TypeFrom("schema")).types(pa.array(values, pa.binary()), pa.array([False] * 3))
    assert types.to_pylist() == ["every.Every", "every.Inner", "every.Leaf"] and not reasons
    assert [base64.b64decode(text.schema_str, validate=True)[:1] for text in texts.values()]
    columns = struct(("i64", "long", True), ("x", "long", True), ("v", "long", True))
    found = read(FRAMED, schemas, [*values], columns)
    assert columns_of(found) == [[5, None, None], [None, 7, None], [None, None, 3]] and not found.refused


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are read in several goes are what they are in one."""
    rng = random.Random(4)
    values = [rng.choice([ONE, THREE, framed(3, b"\x08"), framed(1, b"\x08" * 9), None]) for _ in range(500)]
    whole = read(READERS, VERSIONS, [*values])
    monkeypatch.setattr("exporter.formats.protobuf.writers.BLOCK_ROWS", 7)
    parts = read(READERS, VERSIONS, [*values])
    monkeypatch.setattr("exporter.formats.protobuf.writers.BLOCK_BYTES", 20)
    bytewise = read(READERS, VERSIONS, [*values])
    assert columns_of(whole) == columns_of(parts) == columns_of(bytewise)
    assert dict(whole.refused) == dict(parts.refused) == dict(bytewise.refused)
