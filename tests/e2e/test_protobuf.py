"""Each line of the mapping of Protobuf's types is a round trip: Google's library, Kafka, our table, and readers."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.core.routing import DEAD_LETTERS
from exporter.core.value_format import ValueFormat
from exporter.formats.registered import registered_files
from exporter.settings.meaning import value_formats
from tests.e2e.test_avro import ddl
from tests.support.lakes import NOON, Export, Exports, millis, wrong_places
from tests.support.read_back import READERS
from tests.support.schemas import listed
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

UTC = timezone.utc
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Suit { NONE = 0; HEARTS = 1; SPADES = 2; }
message Inner { int32 a = 1; optional string b = 2; }
message Order {
  google.protobuf.Timestamp at = 1;
  int32 int32_ = 2; sint32 sint32_ = 3; sfixed32 sfixed32_ = 4;
  int64 int64_ = 5; sint64 sint64_ = 6; sfixed64 sfixed64_ = 7;
  uint32 uint32_ = 8; fixed32 fixed32_ = 9; uint64 uint64_ = 10; fixed64 fixed64_ = 11;
  float float_ = 12; double double_ = 13; bool bool_ = 14; string string_ = 15; bytes bytes_ = 16;
  Suit suit = 17; Inner inner = 18;
  repeated sint64 numbers = 19; repeated string texts = 20; repeated Inner inners = 21;
  map<string, Inner> by_name = 22; map<int32, string> by_number = 23;
  optional string note = 24; optional int32 zero = 25;
  oneof choice { int32 number = 26; string text = 27; }
  google.protobuf.Timestamp ts = 28; google.protobuf.Duration lasts = 29;
  google.protobuf.Int64Value wrapped = 30; google.protobuf.StringValue wrapped_text = 31;
  google.protobuf.Any any = 32;
}
"""
MAX, MIN = 2**63 - 1, -(2**63)
FULL: dict[str, Any] = {
    "int32_": -(2**31), "sint32_": -(2**31), "sfixed32_": -(2**31), "int64_": MIN, "sint64_": MIN, "sfixed64_": MIN,
    "uint32_": 2**32 - 1, "fixed32_": 2**32 - 1, "uint64_": 2**64 - 1, "fixed64_": 2**64 - 1,
    "float_": -math.inf, "double_": 0.1, "bool_": True, "string_": "h\u00e9\u2603\U0001f600", "bytes_": b"\x00\xff",
    "suit": 2, "inner": {"a": 1}, "numbers": [1, -1, MAX], "texts": ["", "x"], "inners": [{"a": 1, "b": "x"}, {}],
    "by_name": {"k": {"a": 1, "b": ""}}, "by_number": {7: "x"}, "note": "", "zero": 0, "text": "",
    "ts": {"seconds": -1, "nanos": 999_999_999}, "lasts": {"seconds": 1, "nanos": 5}, "wrapped": {"value": 0},
    "wrapped_text": {"value": "w"}, "any": {"type_url": "t/x", "value": b"\x01"},
}  # fmt: skip
"""What Google's library is given for each field."""
COLUMNS: dict[str, tuple[str, Any, Any]] = {
    "int32_": ("INT", -(2**31), 0), "sint32_": ("INT", -(2**31), 0), "sfixed32_": ("INT", -(2**31), 0),
    "int64_": ("BIGINT", MIN, 0), "sint64_": ("BIGINT", MIN, 0), "sfixed64_": ("BIGINT", MIN, 0),
    "uint32_": ("BIGINT", 2**32 - 1, 0), "fixed32_": ("BIGINT", 2**32 - 1, 0),
    "uint64_": ("DECIMAL(20,0)", Decimal(2**64 - 1), Decimal(0)),
    "fixed64_": ("DECIMAL(20,0)", Decimal(2**64 - 1), Decimal(0)),
    "float_": ("FLOAT", -math.inf, 0.0), "double_": ("DOUBLE", 0.1, 0.0), "bool_": ("BOOLEAN", True, False),
    "string_": ("STRING", "h\u00e9\u2603\U0001f600", ""), "bytes_": ("BINARY", b"\x00\xff", b""),
    "suit": ("STRING", "SPADES", "NONE"), "inner": ("STRUCT<a: INT, b: STRING>", {"a": 1, "b": None}, None),
    "numbers": ("ARRAY<BIGINT>", [1, -1, MAX], []), "texts": ("ARRAY<STRING>", ["", "x"], []),
    "inners": ("ARRAY<STRUCT<a: INT, b: STRING>>", [{"a": 1, "b": "x"}, {"a": 0, "b": None}], []),
    "by_name": ("MAP<STRING, STRUCT<a: INT, b: STRING>>", {"k": {"a": 1, "b": ""}}, {}),
    "by_number": ("ARRAY<STRUCT<key: INT, value: STRING>>", [{"key": 7, "value": "x"}], []),
    "note": ("STRING", "", None), "zero": ("INT", 0, None), "number": ("INT", None, None), "text": ("STRING", "", None),
    "ts": ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), None),
    "lasts": ("STRUCT<seconds: BIGINT, nanos: INT>", {"seconds": 1, "nanos": 5}, None),
    "wrapped": ("BIGINT", 0, None), "wrapped_text": ("STRING", "w", None),
    "any": ("STRUCT<type_url: STRING, value: BINARY>", {"type_url": "t/x", "value": b"\x01"}, None),
}  # fmt: skip
"""Column, and what readers find there of FULL and of an empty message: what the wire cannot tell is its default."""
AT = {"seconds": int(NOON.timestamp())}
PROTOBUF = 'kind = "protobuf"\nschema_files = ["order.proto"]\nmessage = "shop.Order"'
BY_SCHEMA = 'kind = "schema"\nname = "short"'


@cache
def messages() -> Any:
    """Message classes as Google's compiler and library make them."""
    with TemporaryDirectory() as folder:
        Path(folder, "order.proto").write_text(PROTO)
        out = Path(folder, "order.desc")
        google = Path(str(importlib.import_module("grpc_tools").__file__)).parent / "_proto"
        arguments = ["protoc", f"-I{folder}", f"-I{google}", "--include_imports", f"--descriptor_set_out={out}"]
        assert importlib.import_module("grpc_tools.protoc").main([*arguments, "order.proto"]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def written(**fields: Any) -> bytes:
    message: bytes = messages()(at=AT, **fields).SerializeToString()
    return message


def of(value: bytes | None, place: str = "Order") -> Record:
    return Record(place.encode(), value, timestamp_ms=millis(NOON))


@pytest.fixture
def export(exports: Exports, tmp_path: Path) -> Exports:
    """Makes exports of fresh topics: export(columns)."""

    def make(columns: str) -> Export:
        (tmp_path / "order.proto").write_text(PROTO)
        return exports(types={"Order": columns}, type_from=BY_SCHEMA, value_format=PROTOBUF)

    return make


def test_a_message_gives_these_columns(tmp_path: Path) -> None:
    """Field by field what COLUMNS says."""
    (tmp_path / "order.proto").write_text(PROTO)
    e = Export("localhost:1", "t", tmp_path, "app", {"Order": "at TIMESTAMP"}, type_from=BY_SCHEMA,
               value_format=PROTOBUF)  # fmt: skip
    form: ValueFormat = value_formats(e.settings())[0][1]
    found = registered_files(form)["shop.Order"]
    assert {one["name"]: ddl(one["type"]) for one in listed(found.fields)} == {
        "at": "TIMESTAMP", **{name: column for name, (column, *_) in COLUMNS.items()},
    }  # fmt: skip
    assert not found.refused


def test_every_type_is_read_back_as_it_was_sent(export: Exports, spark: Any) -> None:
    """By three readers, at the edges; an empty message has the defaults, and null where absence can be told."""
    e = export(", ".join(f"{name} {column}" for name, (column, *_) in COLUMNS.items()))
    e.send({0: [of(written(**FULL)), of(written())]})
    e.run(spark)
    assert wrong_places(e) == {}
    wanted = [{name: found[at] for name, (_, *found) in COLUMNS.items()} for at in range(2)]
    for reader, read in READERS.items():
        assert read(spark, e, "Order", [*COLUMNS]) == wanted, reader
    assert [(row["_event_time"], row["_rescued"]) for row in e.rows("Order")] == [(NOON, None)] * 2


def test_what_no_column_holds_is_kept_and_what_is_damaged_is_a_dead_letter(export: Exports, spark: Any) -> None:
    """The rest of a message is JSON in `_rescued`, for every reader; a damaged one between good ones is told why."""
    e = export("int64_ BIGINT NOT NULL, inner STRUCT<a: INT>, inners ARRAY<STRUCT<b: STRING>>")
    full = written(**{**FULL, "inner": {"a": 1, "b": "x"}})
    damaged = [full[:-1], full + b"\xc2\x02\x00", full + b"\x10\x01", b"\x0f", None]
    e.send({0: [of(full), *(of(one, DEAD_LETTERS) for one in damaged), of(full)]})
    e.run(spark)
    assert wrong_places(e) == {}
    texts = [[row["_rescued"] for row in read(spark, e, "Order", ["_rescued"])] for read in READERS.values()]
    assert texts == [texts[0]] * len(READERS)
    kept = json.loads(texts[0][0], parse_float=Decimal)
    assert kept["inner"] == {"b": "x"} and kept["inners"] == [{"a": 1}, {"a": 0}]
    assert kept["uint64_"] == 2**64 - 1 and kept["bytes_"] == "AP8=" and kept["float_"] == "-Infinity"
    assert kept["ts"] == "1969-12-31T23:59:59.999999Z" and kept["by_number"] == [{"key": 7, "value": "x"}]
    assert kept.keys() == COLUMNS.keys() - {"int64_", "number"}
    reasons = [row["reason"].partition(":")[0] for row in e.rows(DEAD_LETTERS)]
    assert reasons == ["truncated", "unknown_field", "duplicate_field", "bad_tag", "tombstone"]
    e.proven(spark)


def test_a_descriptor_set_is_as_good_as_its_text(export: Exports, spark: Any) -> None:
    """What protoc has made of it, and a wider type of a column: INT in BIGINT, uint32 in DECIMAL."""
    e = export("int32_ BIGINT, uint32_ DECIMAL(20,0), float_ DOUBLE, string_ BINARY")
    pool, done = messages().DESCRIPTOR.file, descriptor_pb2.FileDescriptorSet()
    for file in [*pool.dependencies, pool]:
        file.CopyToProto(done.file.add())
    (e.root / "order.desc").write_bytes(done.SerializeToString())
    e = replace(e, value_format=PROTOBUF.replace("order.proto", "order.desc"))
    e.send({0: [of(written(**FULL))]})
    e.run(spark)
    wanted = {"int32_": -(2**31), "uint32_": Decimal(2**32 - 1), "float_": -math.inf,
              "string_": "h\u00e9\u2603\U0001f600".encode()}  # fmt: skip
    for reader, read in READERS.items():
        assert read(spark, e, "Order", [*wanted]) == [wanted], reader
