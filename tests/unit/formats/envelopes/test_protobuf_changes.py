"""Debezium's envelopes as Protobuf messages: rows, `_cdc` and reasons as in JSON; the type is the source."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.executor.route import Router
from tests.support.decoded_rows import columns, decode_all, routing_of, rows_of
from tests.support.envelope_samples import KAFKA_US, MYSQL, POSTGRES, UNAVAILABLE, changed, text
from tests.support.proto_files import classes, text_of

PROTO = """
syntax = "proto3";
package shop;
message Value {
  optional int64 id = 1;
  optional string name = 2;
  optional string doc = 3;
  optional string more = 4;
}
message Source {
  string version = 1;
  optional int64 ts_ms = 2;
  optional string db = 3;
  optional string schema = 4;
  optional string table = 5;
  optional int64 lsn = 6;
  optional string file = 7;
  optional int64 pos = 8;
  optional int32 row = 9;
}
message Envelope {
  optional Value before = 1;
  optional Value after = 2;
  optional Source source = 3;
  string op = 4;
  optional int64 ts_ms = 5;
}
"""
FORM = ValueFormat("protobuf", "confluent", "debezium")
PLACE = b"\0\0\0\0\7\2\4"
"""The frame: id 7, and of one index the third message."""
SCHEMAS = KnownSchemas({7: (SchemaText("PROTOBUF", text_of(PROTO)),)})
ROW = {"id": 7, "name": "x", "doc": UNAVAILABLE, "more": "y"}


def message(change: dict[str, Any]) -> bytes:
    """One framed value."""
    made = classes(PROTO)["shop.Envelope"]()
    made.op = change["op"]
    for name in ("before", "after", "source"):
        if change.get(name) is None:
            continue
        inner = getattr(made, name)
        inner.SetInParent()
        for key, value in change[name].items():
            if key in inner.DESCRIPTOR.fields_by_name and value is not None:
                setattr(inner, key, value)
    return PLACE + bytes(made.SerializeToString())


def asking(form: ValueFormat) -> Routing:
    declared, time = columns(id="long", name="string", doc="string"), EventTime("json", "source.ts_ms", "ms")
    return routing_of(declared, form, type_from=TypeFrom("source"), event_time=time)


def read(form: ValueFormat, values: list[bytes]) -> list[Any]:
    """Per value its row or its reason."""
    return rows_of(decode_all(asking(form), values, KAFKA_US, schemas=SCHEMAS))


def test_messages_are_read_as_the_same_envelopes_in_json() -> None:
    """Each op, values that were not sent, envelopes of another type than they were routed by."""
    source = {name: item for name, item in POSTGRES.items() if name != "ts_us"}
    plain = {"version": "3", **source}
    changes = [changed(plain, "c", after=ROW), changed(plain, "u", before=ROW, after={"id": 7}),
               changed(plain, "d", before={"id": 7}), changed(plain, "t"), changed(plain, "c"), changed(plain, "x"),
               changed({**MYSQL, "ts_us": None}, "r", after=ROW)]  # fmt: skip
    found = read(FORM, [message(one) for one in changes])
    assert found == read(ValueFormat(envelope="debezium"), [text(one) for one in changes])
    assert [isinstance(one, str) for one in found] == [False, False, False, True, True, True, True]
    assert json.loads(found[0]["_rescued"]) == {"doc": UNAVAILABLE, "more": "y"}


def test_the_event_type_is_the_source() -> None:
    """Of messages as of texts; what names none says so."""
    values = [message(changed(POSTGRES, "c", after=ROW)), message(changed(MYSQL, "c", after=ROW)),
              message({"op": "c", "after": ROW}), PLACE + b"\xff", b"x"]  # fmt: skip
    batch = pa.RecordBatch.from_pydict({"key": pa.nulls(5, pa.binary()), "value": pa.array(values, pa.binary()),
                                        "topic": ["t"] * 5})  # fmt: skip
    routed = Router(asking(FORM), "t", SCHEMAS).route(batch)
    assert routed.event_types.to_pylist() == ["public.orders", "shop.orders", None, None, None]
    codes = [row["reason"].partition(":")[0] for row in routed.dead.to_pylist()]
    assert codes == ["unknown_type", "no_type", "truncated", "not_framed"]
