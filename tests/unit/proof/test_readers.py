"""The audit's own readers: frames, decisions on ids, Avro by fastavro, Protobuf by Google's, envelopes."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import struct
import sys
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText, UnknownId
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.operate.audit.opinion import JudgedRecord, Opinion
from exporter.operate.audit.records import AuditedRecord
from exporter.proof.codes import DEAD_LETTER, EITHER, FILTERED
from exporter.proof.contents.documents import equal, same_scalar
from exporter.proof.contents.typed import Day, Floating, Instant
from exporter.proof.readers.formats import check
from exporter.proof.readers.reader import NoGoodRecord, NoValue, SentValue, Undecided
from exporter.proof.readers.reading import Readings, ValueReading, event_type_of
from offsets.ranges import TopicPartition
from tests.support.proto_files import classes, text_of

TP = TopicPartition("t", 0)
S = {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}
ALL: dict[str, Any] = {
    "type": "record",
    "name": "shop.All",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "f", "type": "float"},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "either", "type": ["null", "string", S]},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "items", "type": {"type": "array", "items": "S"}},
        {"name": "marks", "type": {"type": "map", "values": "double"}},
    ],
}
RAW = {
    "id": -5, "at": 1_500, "day": -1, "nanos": 1_999, "price": (-12345).to_bytes(3, "big", signed=True),
    "who": str(uuid.UUID(int=7)), "f": 0.1, "raw": b"\x00\xff", "kind": "B", "note": None,
    "either": ("shop.S", {"x": 1}), "wide": 2**40, "items": [{"x": 2}], "marks": {"a": float("nan")},
}  # fmt: skip


def avro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"_"'))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(plain), value)
    return stream.getvalue()


def of_file(schema: Any, **wanted: Any) -> ValueReading:
    form = ValueFormat("avro", schemas=(("a.avsc", json.dumps(schema)),), **wanted)
    return ValueReading(form, KnownSchemas())


def sent(reading: ValueReading, value: bytes, offset: int = 0) -> SentValue:
    return reading.read(value, TP, offset)


def test_an_avro_value_is_a_document_by_its_types() -> None:
    """What JSON lacks is a type of its own; unions of several kinds are objects, of two widths one number."""
    found = sent(of_file(ALL), avro(ALL, RAW))
    assert found.name == "shop.All"
    document = found.document
    marks = document.pop("marks")
    assert list(marks) == ["a"] and marks["a"].is_number(float("nan"))
    narrow = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert document == {
        "id": -5, "at": Instant(1_500_000, 1_500), "day": Day(-1), "nanos": Instant(1, 1_999),
        "price": Decimal("-123.45"),
        "who": "00000000-0000-0000-0000-000000000007", "f": Floating(narrow, True), "raw": b"\x00\xff", "kind": "B",
        "note": None, "either": {"member_s": {"x": 1}}, "wide": 2**40, "items": [{"x": 2}],
    }  # fmt: skip


def test_what_json_says_of_these_types_is_the_same_value() -> None:
    """As `_rescued` and columns of any JSON have them."""
    document = {**sent(of_file(ALL), avro(ALL, RAW)).document}
    held = {
        "id": -5, "at": "1970-01-01T00:00:01.500000Z", "day": "1969-12-31", "nanos": "1970-01-01T00:00:00.000001Z",
        "price": Decimal("-123.45"), "who": str(uuid.UUID(int=7)), "f": Decimal("0.1"), "raw": "AP8=", "kind": "B",
        "either": {"member_s": {"x": 1}}, "wide": 2**40, "items": [{"x": 2}], "marks": {"a": "NaN"},
    }  # fmt: skip
    assert equal(document, held)
    others = {"at": "1970-01-01T00:00:01.5001Z", "day": "1970-01-01", "f": Decimal("0.2"), "raw": "AA"}
    for name, other in others.items():
        assert not equal(document, {**held, name: other}), name


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, b"\x02\x00"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, b"\x80\x80\x80\x80\x10"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}, b"\x04a"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}, b"\x02\xff"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}, b"\x04"),
        (ALL, b""),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
            b"\x80\xc2\xd7\x2f\x00",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}, b"\x02" * 51 + b"\x00"),
    ],
    ids=["trailing", "int of 33 bits", "cut", "no UTF-8", "no such branch", "empty", "nothing often", "too deep"],
)
def test_an_avro_value_that_no_table_may_have_is_refused(schema: Any, body: bytes) -> None:
    """By the library, or by what the audit knows beyond it; what takes no bytes is never counted out."""
    with pytest.raises((NoGoodRecord, Undecided)):
        sent(of_file(schema), body)


def test_a_decimal_has_no_more_digits_than_its_type() -> None:
    """The library rounds it, or takes it as it is."""
    long = avro(ALL, {**RAW, "price": (10**5).to_bytes(3, "big")})
    with pytest.raises(NoGoodRecord, match="5 digits"):
        sent(of_file(ALL), long)


def test_what_only_the_writer_has_stands_beside_what_the_reader_makes_of_the_rest() -> None:
    """In records of lists, maps and unions with null too; aliases and defaults are the reader's."""

    def schema(inner: list[Any], outer: list[Any]) -> dict[str, Any]:
        kind = {"type": "record", "name": "S", "fields": inner}
        several, by_key = {"type": "array", "items": "S"}, {"type": "map", "values": "S"}
        parts: list[Any] = [("one", ["null", kind]), ("all", several), ("by", by_key)]
        fields = [*({"name": name, "type": one} for name, one in parts), *outer]
        return {"type": "record", "name": "R", "fields": fields}

    old = schema([{"name": "x", "type": "int"}, {"name": "gone", "type": "string"}], [{"name": "a", "type": "int"}])
    new = schema(
        [{"name": "y", "type": "long", "aliases": ["x"]}, {"name": "more", "type": "int", "default": 7}],
        [{"name": "b", "type": "string", "default": "d"}],
    )
    form = ValueFormat("avro", "confluent", schemas=(("a.avsc", json.dumps(new)),))
    reading = ValueReading(form, KnownSchemas({1: (SchemaText("AVRO", json.dumps(old)),)}))
    value = avro(old, {"one": None, "all": [{"x": 1, "gone": "g"}], "by": {"k": {"x": 2, "gone": "h"}}, "a": 3})
    one, two = ({"y": number, "more": 7, "gone": gone} for number, gone in ((1, "g"), (2, "h")))
    document = sent(reading, b"\0\0\0\0\1" + value).document
    assert document == {"one": None, "all": [one], "by": {"k": two}, "a": 3, "b": "d"}


def test_single_objects_are_read_by_their_fingerprint() -> None:
    """CRC-64-AVRO of the canonical form, little-endian; what has another one is refused."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    form = fastavro.schema.to_parsing_canonical_form(schema)
    head = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))
    reading = of_file(schema, frame="single_object")
    assert sent(reading, head + b"\x02").document == {"a": 1}
    for value in (b"\x02", b"\xc3\x01" + bytes(8) + b"\x02"):
        with pytest.raises(NoGoodRecord):
            sent(reading, value)


def test_what_is_decided_of_an_id_decides_for_the_audit_too() -> None:
    """Unknown through an offset is a dead letter, behind it the text reads; of other ids nothing can be said."""
    text = SchemaText("AVRO", json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}))
    reading = ValueReading(ValueFormat("avro", "confluent"), KnownSchemas({7: (UnknownId({TP: 10}), text)}))
    value = b"\x00" + (7).to_bytes(4, "big") + b"\x02"
    with pytest.raises(NoGoodRecord, match="unknown"):
        sent(reading, value, 10)
    assert sent(reading, value, 11).document == {"a": 1}
    with pytest.raises(Undecided):
        sent(reading, b"\x00\x00\x00\x00\x08\x02")
    for cut in (b"", value[:4], b"\x01" + value[1:]):
        with pytest.raises(NoGoodRecord):
            sent(reading, cut)


def test_what_a_schema_refers_to_is_read_first() -> None:
    """Registered by itself, and named by another one."""
    inner = SchemaText("AVRO", json.dumps({**S, "name": "a.S"}))
    outer = {"type": "record", "name": "a.R", "fields": [{"name": "s", "type": "S"}, {"name": "t", "type": "a.S"}]}
    text = SchemaText("AVRO", json.dumps(outer), (("a.S", inner),))
    reading = ValueReading(ValueFormat("avro", "confluent"), KnownSchemas({1: (text,)}))
    assert sent(reading, b"\x00\x00\x00\x00\x01\x02\x04").document == {"s": {"x": 1}, "t": {"x": 2}}


def proto() -> tuple[str, Any]:
    """A set of descriptors in base64, and the class of its message shop.Order."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    other = file.message_type.add(name="Other")
    other.field.add(name="x", number=1, type=5, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="n", number=3, type=11, label=1, type_name=".google.protobuf.Int64Value")
    order.field.add(name="tags", number=4, type=9, label=3)
    order.field.add(name="f", number=5, type=2, label=1)
    order.enum_type.add(name="K").value.extend([descriptor_pb2.EnumValueDescriptorProto(name="NONE", number=0)])
    order.field.add(name="kind", number=6, type=14, label=1, type_name=".shop.Order.K")
    order.field.add(name="inner", number=7, type=11, label=1, type_name=".shop.Other")
    entry = order.nested_type.add(name="MarksEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=12, label=1)
    order.field.add(name="marks", number=8, type=11, label=3, type_name=".shop.Order.MarksEntry")
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return base64.b64encode(files.SerializeToString()).decode(), made


def test_a_protobuf_value_is_a_document_by_its_descriptor() -> None:
    """Defaults where the wire cannot tell, null where it can; an enum is its name, a wrapper what is in it."""
    text, made = proto()
    message = made(id=2**40, tags=["a", ""], f=0.5, marks={"m": b"\xff"})
    message.at.FromDatetime(dt.datetime(1970, 1, 1, 0, 0, 1))
    message.n.value = 0
    reading = ValueReading(ValueFormat("protobuf", "confluent"), KnownSchemas({1: (SchemaText("PROTOBUF", text),)}))
    found = sent(reading, b"\x00\x00\x00\x00\x01\x02\x02" + message.SerializeToString())
    assert found.name == "shop.Order"
    assert found.document == {
        "id": 2**40, "at": Instant(1_000_000), "n": 0, "tags": ["a", ""], "f": Floating(0.5, True), "kind": "NONE",
        "inner": None, "marks": {"m": b"\xff"},
    }  # fmt: skip
    assert sent(reading, b"\x00\x00\x00\x00\x01\x00").document == {"x": 0}, "the first message has a short place"
    for bad in (b"\x02\x04", b"\x02\x02\x08", b"\x02\x02\x30\x05", b"\x02\x02\x22\x01\xff"):
        with pytest.raises(NoGoodRecord):
            sent(reading, b"\x00\x00\x00\x00\x01" + bad)


def test_a_registered_message_has_the_names_of_the_reader() -> None:
    """By the numbers of its fields, in lists and maps too; what only the writer has is called as there."""
    head, inner = 'syntax = "proto3"; package shop; message Order {', "message Inner { int32 NAME = 1; }"
    text = f"{head} int32 AT = 1; Inner one = 2; repeated Inner LIST = 3; map<string, Inner> by = 4; MORE }} {inner}"
    old = text.replace("AT", "a").replace("LIST", "b").replace("NAME", "x").replace("MORE", "bool m = 9;")
    new = text.replace("AT", "z").replace("LIST", "list").replace("NAME", "y").replace("MORE", "")
    known = KnownSchemas({1: (SchemaText("PROTOBUF", text_of(old)),)})
    body = classes(old)["shop.Order"](a=1, one={"x": 2}, b=[{"x": 3}], by={"k": {"x": 4}}, m=True).SerializeToString()
    for schemas in ((), (("new", text_of(new)),)):
        reading = ValueReading(ValueFormat("protobuf", "confluent", schemas=schemas), known)
        at, several, name = ("z", "list", "y") if schemas else ("a", "b", "x")
        assert sent(reading, b"\0\0\0\0\1\0" + body).document == {
            at: 1, "one": {name: 2}, several: [{name: 3}], "by": {"k": {name: 4}}, "m": True
        }  # fmt: skip


def test_a_protobuf_message_of_a_file_is_named() -> None:
    """Of several, none is guessed."""
    text, _ = proto()
    named = ValueReading(ValueFormat("protobuf", message="shop.Other", schemas=(("s", text),)), KnownSchemas())
    assert sent(named, b"\x08\x05").document == {"x": 5}
    with pytest.raises(Undecided):
        sent(ValueReading(ValueFormat("protobuf", schemas=(("s", text),)), KnownSchemas()), b"\x08\x05")


def test_raw_values_are_one_column() -> None:
    """Bytes are any, texts are UTF-8."""
    assert sent(ValueReading(ValueFormat("bytes"), KnownSchemas()), b"\xff").document == {"value": b"\xff"}
    assert sent(ValueReading(ValueFormat("string"), KnownSchemas()), "é".encode()).document == {"value": "é"}
    with pytest.raises(NoGoodRecord):
        sent(ValueReading(ValueFormat("string"), KnownSchemas()), b"\xff")


def test_an_envelope_has_one_row_or_none() -> None:
    """Debezium by its operation, DMS by what kind of record it is; each says where the row is from."""
    source = {"db": "d", "schema": "s", "table": "t"}
    reading = ValueReading(ValueFormat(envelope="debezium"), KnownSchemas())
    for op, row in {"c": {"a": 1}, "r": {"a": 1}, "u": {"a": 1}, "d": {"b": 2}}.items():
        value = {"op": op, "before": {"b": 2}, "after": {"a": 1}, "source": source}
        found = sent(reading, json.dumps(value).encode())
        assert (found.document, found.source) == (row, "s.t")
    for bad in ({"op": "t"}, {"op": "c", "after": None}, {"op": []}, {}):
        with pytest.raises(NoGoodRecord):
            sent(reading, json.dumps(bad).encode())
    reading = ValueReading(ValueFormat(envelope="dms"), KnownSchemas())
    told = {"record-type": "data", "operation": "load", "schema-name": "s", "table-name": "t"}
    assert sent(reading, json.dumps({"data": {"a": 1}, "metadata": told}).encode()).source == "s.t"
    with pytest.raises(NoGoodRecord):
        sent(reading, json.dumps({"data": {}, "metadata": {**told, "record-type": "control"}}).encode())


def test_connect_s_names_of_types_count_by_option() -> None:
    """A number is a day, a text a decimal; Debezium's only by option."""
    schema = {"type": "struct", "name": "n.S", "fields": [
        {"field": "d", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "p", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ]}  # fmt: skip
    value = json.dumps({"schema": schema, "payload": {"d": 1, "p": "AP8="}}).encode()
    plain = sent(ValueReading(ValueFormat("connect_json"), KnownSchemas()), value)
    assert (plain.document, plain.name) == ({"d": 1, "p": Decimal("2.55")}, "n.S")
    meant = sent(ValueReading(ValueFormat("connect_json", semantic_types="connect"), KnownSchemas()), value)
    assert meant.document == {"d": Day(1), "p": Decimal("2.55")}


def test_connect_s_names_of_avro_s_records_change_nothing() -> None:
    """A decimal with a scale of its own is no column's type: it stays a scale and bytes."""
    name = "io.debezium.data.VariableScaleDecimal"
    fields = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
    inside = {"type": "record", "name": name, "connect.name": name, "fields": fields}
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": inside}]}
    value = {"x": {"scale": 2, "value": b"{"}}
    assert sent(of_file(schema, semantic_types="connect"), avro(schema, value)).document == value


def test_a_record_in_itself_is_a_document_up_to_a_depth() -> None:
    """Of Protobuf its bytes are kept as they were sent, which this library does not say: nothing is compared."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}
    assert sent(of_file(schema), b"\x02\x02\x00").document == {"a": {"a": {"a": None}}}
    assert sent(of_file(schema), b"\x02" * 50 + b"\x00").comparable
    text = text_of('syntax = "proto3"; message A { int32 x = 1; A a = 2; }')
    reading = ValueReading(ValueFormat("protobuf", schemas=(("a", text),)), KnownSchemas())
    found = sent(reading, b"\x08\x05\x12\x02\x08\x06")
    assert (found.document["x"], found.name, found.comparable) == (5, "A", False)
    with pytest.raises(Undecided):
        sent(reading, b"\x12\x02\x08")


def test_of_a_union_at_the_root_the_branch_is_the_document() -> None:
    """Registered by references, or the one union of the files; its null is no value, and other damage is refused."""
    other = {"type": "record", "name": "shop.T", "fields": [{"name": "s", "type": "shop.S"}]}
    s = {**S, "name": "shop.S"}
    texts = [SchemaText("AVRO", json.dumps(one)) for one in (s, other)]
    root = SchemaText("AVRO", '["null","shop.S","shop.T","int"]', (("shop.S", texts[0]), ("shop.T", texts[1])))
    reading = ValueReading(ValueFormat("avro", "confluent"), KnownSchemas({7: [root]}))
    head = b"\0\0\0\0\7"
    found = [sent(reading, head + body) for body in (b"\2\4", b"\4\6", b"\x82\0\4")]
    assert [(one.name, one.document) for one in found] == [
        ("shop.S", {"x": 2}), ("shop.T", {"s": {"x": 3}}), ("shop.S", {"x": 2}),
    ]  # fmt: skip
    with pytest.raises(NoValue):
        sent(reading, head + b"\0")
    for body in (b"", b"\0\0", b"\1", b"\6\2", b"\x08", b"\xff" * 12, b"\2", b"\2\4\0"):
        with pytest.raises(NoGoodRecord) as odd:
            sent(reading, head + body)
        assert type(odd.value) is NoGoodRecord
    files = tuple((str(at), json.dumps(one)) for at, one in enumerate((s, other, ["shop.T", "shop.S"])))
    bare = ValueReading(ValueFormat("avro", schemas=files), KnownSchemas())
    assert sent(bare, b"\2\4").name == "shop.S"
    named = ValueReading(ValueFormat("avro", schemas=files, message="shop.S"), KnownSchemas())
    assert sent(named, b"\4").document == {"x": 2}


def test_the_event_type_is_the_schema_s_name_or_a_field() -> None:
    """Whole or short; a field that is no text says none."""
    value = SentValue({"a": {"b": "x", "n": 1}}, "shop.Order", "s.t")
    wanted = {("schema", "full"): "shop.Order", ("schema", "short"): "Order", ("source", ""): "s.t",
              ("json", "a.b"): "x", ("json", "a.n"): None, ("json", "q"): None}  # fmt: skip
    assert {key: event_type_of(value, TypeFrom(*key)) for key in wanted} == wanted  # type: ignore[arg-type]


def test_a_configuration_says_what_it_asks_a_value_for() -> None:
    """Event type and time, as the format of its topic has them. The null of a union says that there is no value."""
    schema = {"type": "record", "name": "a.R", "fields": [{"name": "n", "type": "long"}]}

    def judged(value: bytes | None, topic: str = "t", **changed: Any) -> tuple[Any, ...]:
        said = {"type_from": TypeFrom("schema", "short"), "event_time": EventTime("record"), "types": (), **changed}
        routing = Routing(**said)
        routing = replace(routing, decoder_version=routing.decoder_here)
        judge = Opinion(routing, {"dead_letters": DEAD_LETTER, "R": 1}, Readings({}))
        seen = JudgedRecord(AuditedRecord(TopicPartition(topic, 0), 0, 7, None, value, len(value or b""), []))
        (taker,) = judge.takers(seen)
        return judge.event_type(seen), judge.time(seen), judge.expected(seen, taker)

    optional = ValueFormat("avro", schemas=(("a", json.dumps(["null", schema])),), tombstones="count")
    assert judged(b"\0", value_format=optional) == judged(None, value_format=optional) == (None, 7, FILTERED)
    form = ValueFormat("avro", schemas=(("a", json.dumps(schema)),))
    timed = {"event_time": EventTime("json", "n", "ms"), "value_format": form, "new_type": "table"}
    assert judged(b"\x02", **timed) == ("R", 1_000, 1)
    assert judged(b"", **timed) == judged(None, **timed) == (None, None, DEAD_LETTER)
    assert judged(b"\x02", topic_formats=(("t", form),), new_type="table") == ("R", 7, 1)
    assert judged(b"\x02", "u", topic_formats=(("t", form),)) == (None, 7, DEAD_LETTER)
    assert same_scalar(Floating(0.0), 0)


def test_topics_of_several_formats_are_judged_each_by_its_own() -> None:
    """A tombstone is counted where the topic's format says so; what cannot be decided may be anywhere."""
    formats = (("s", ValueFormat("string", tombstones="count")), ("x", ValueFormat("avro", "confluent")))
    columns = json.dumps({"type": "struct", "fields": []})
    codes = {"j": 1, "s": 2, "x": 3, "dead_letters": DEAD_LETTER}

    def judged(types: tuple[str, ...], topic: str, value: bytes | None) -> tuple[int, bool]:
        declared = tuple((name, columns) for name in types)
        routing = Routing(TypeFrom("topic"), EventTime("json", "ts", "iso"), declared, topic_formats=formats)
        judge = Opinion(replace(routing, decoder_version=routing.decoder_here), codes, Readings({}))
        seen = JudgedRecord(AuditedRecord(TopicPartition(topic, 0), 0, 7, None, value, len(value or b""), []))
        (taker,) = judge.takers(seen)
        return judge.expected(seen, taker), judge.time(seen) is not None

    rows = [("j", b'{"ts":"2025-03-10T00:00:00Z"}'), ("j", b"{"), ("j", None), ("s", b"t"), ("s", b"\xff"), ("s", None),
            ("x", b"\0\0\0\0\1")]  # fmt: skip
    found = [judged(("j", "s"), *row) for row in rows]
    dead = DEAD_LETTER
    assert [code for code, _ in found] == [1, dead, dead, 2, dead, FILTERED, dead], "x has no table"
    assert [timed for _, timed in found] == [True] + [False] * 6
    assert judged(("j", "s", "x"), *rows[-1]) == (EITHER, False)


@pytest.mark.parametrize(("kind", "module"), [("avro", "fastavro"), ("protobuf", "google.protobuf")])
def test_a_library_that_is_not_installed_is_told_with_a_hint(
    kind: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match="not installed") as error:
        check([ValueFormat(), ValueFormat(kind, "confluent")])
    assert "pip install" in error.value.hint
