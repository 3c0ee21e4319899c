"""Each line of the mapping of Avro's types is a round trip: fastavro, Kafka, our table, and readers not of ours."""

from __future__ import annotations

import io
import json
import math
import struct
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.core.value_format import ValueFormat
from exporter.formats.registered import registered_files
from tests.support.lakes import NOON, Export, Exports, millis, wrong_places
from tests.support.read_back import READERS
from tests.support.schemas import listed
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

UTC = timezone.utc


class Line(NamedTuple):
    """A type. column: as DDL. sent: what fastavro is given, held: what readers find for it."""

    avro: Any
    column: str
    sent: list[Any]
    held: list[Any]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(name: str, size: int, logical_type: str = "", **more: Any) -> dict[str, Any]:
    named = {"logicalType": logical_type} if logical_type else {}
    return {"type": "fixed", "name": name, "size": size, **named, **more}


FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds of the first and the last instant that a table holds."""
STARTS = datetime(1, 1, 1, tzinfo=UTC)
ENDS = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
UUID = "0b9f9a4e-5b1f-4c8e-9a53-0a7b1c2d3e4f"
NOT_NULL = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"},
                                                           {"name": "b", "type": ["null", "string"]}]}  # fmt: skip
LINES: dict[str, Line] = {
    "boolean": Line("boolean", "BOOLEAN", [True, False], [True, False]),
    "int": Line("int", "INT", [2**31 - 1, -(2**31)], [2**31 - 1, -(2**31)]),
    "long": Line("long", "BIGINT", [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    "float": Line("float", "FLOAT", [0.5, -math.inf], [0.5, -math.inf]),
    "double": Line("double", "DOUBLE", [0.1, 5e-324], [0.1, 5e-324]),
    "bytes": Line("bytes", "BINARY", [b"\x00\xff", b""], [b"\x00\xff", b""]),
    "string": Line("string", "STRING", ["h\u00e9\u2603\U0001f600", ""], ["h\u00e9\u2603\U0001f600", ""]),
    "enum": Line({"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}, "STRING", ["SPADES", "HEARTS"],
                 ["SPADES", "HEARTS"]),
    "fixed": Line(fixed("Four", 4), "BINARY", [b"\x00\x01\x02\xff"] * 2, [b"\x00\x01\x02\xff"] * 2),
    "date": Line(logical("int", "date"), "DATE", [-719_162, 2_932_896], [date(1, 1, 1), date(9999, 12, 31)]),
    "time_millis": Line(logical("int", "time-millis"), "INT", [0, 86_399_999], [0, 86_399_999]),
    "time_micros": Line(logical("long", "time-micros"), "BIGINT", [0, 86_399_999_999], [0, 86_399_999_999]),
    "ts_millis": Line(logical("long", "timestamp-millis"), "TIMESTAMP", [FIRST, LAST], [STARTS, ENDS]),
    "ts_micros": Line(logical("long", "timestamp-micros"), "TIMESTAMP", [FIRST * 1000, LAST * 1000 + 999],
                      [STARTS, ENDS.replace(microsecond=999_999)]),
    "ts_nanos": Line(logical("long", "timestamp-nanos"), "TIMESTAMP", [1_500_000_999, -1],
                     [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]),
    "local_millis": Line(logical("long", "local-timestamp-millis"), "TIMESTAMP_NTZ", [0, LAST],
                         [datetime(1970, 1, 1), ENDS.replace(tzinfo=None)]),
    "local_micros": Line(logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ", [1, -1],
                         [datetime(1970, 1, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
    "decimal_bytes": Line(logical("bytes", "decimal", precision=12, scale=2), "DECIMAL(12,2)",
                          [Decimal("-0.01"), Decimal("9999999999.99")], [Decimal("-0.01"), Decimal("9999999999.99")]),
    "decimal_fixed": Line(fixed("Sixteen", 16, "decimal", precision=38, scale=0), "DECIMAL(38,0)",
                          [Decimal(-(10**38) + 1), Decimal(10**38 - 1)], [Decimal(-(10**38) + 1), Decimal(10**38 - 1)]),
    "uuid": Line(logical("string", "uuid"), "STRING", [UUID, UUID], [UUID, UUID]),
    "uuid_fixed": Line(fixed("Uuid", 16, "uuid"), "STRING", [bytes.fromhex(UUID.replace("-", ""))] * 2, [UUID, UUID]),
    "duration": Line(fixed("Duration", 12, "duration"), "BINARY", [bytes(12), bytes(range(12))],
                     [bytes(12), bytes(range(12))]),
    "record": Line(NOT_NULL, "STRUCT<a: INT, b: STRING>", [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
                   [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    "array": Line({"type": "array", "items": ["null", "long"]}, "ARRAY<BIGINT>", [[1, None], []], [[1, None], []]),
    "map": Line({"type": "map", "values": "Inner"}, "MAP<STRING, STRUCT<a: INT, b: STRING>>",
                [{"k": {"a": 1, "b": None}}, {}], [{"k": {"a": 1, "b": None}}, {}]),
    "optional": Line(["null", "string"], "STRING", ["x", None], ["x", None]),
    "one": Line(["int"], "INT", [5, -5], [5, -5]),
    "int_or_long": Line(["null", "int", "long"], "BIGINT", [2**40, None], [2**40, None]),
    "float_or_double": Line(["double", "float"], "DOUBLE", [("float", 0.5), ("double", 0.1)], [0.5, 0.1]),
    "union": Line(["null", "int", "string"], "STRUCT<member_int: INT, member_string: STRING>", [5, "x"],
                  [{"member_int": 5, "member_string": None}, {"member_int": None, "member_string": "x"}]),
}  # fmt: skip
FIELDS = [{"name": name, "type": line.avro} for name, line in LINES.items()]
AT = {"name": "at", "type": logical("long", "timestamp-millis")}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [AT, *FIELDS]}
AVRO = 'kind = "avro"\nschema_files = ["order.avsc"]'
BY_SCHEMA = 'kind = "schema"\nname = "short"'


def written(schema: Any, value: dict[str, Any]) -> bytes:
    """The bare binary form."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def rows(lines: dict[str, Line]) -> list[dict[str, Any]]:
    """A record for each of the two values of each type."""
    return [{"at": millis(NOON), **{name: line.sent[at] for name, line in lines.items()}} for at in range(2)]


@pytest.fixture
def export(exports: Exports, tmp_path: Path) -> Exports:
    """Makes exports of fresh topics: export(schema, columns)."""

    def make(schema: Any, columns: str) -> Export:
        (tmp_path / "order.avsc").write_text(json.dumps(schema))
        types = {"Order": columns} if columns else {}
        return exports(types=types, type_from=BY_SCHEMA, value_format=AVRO)

    return make


def of(value: bytes | None, place: str = "Order") -> Record:
    return Record(place.encode(), value, timestamp_ms=millis(NOON))


def test_a_schema_gives_these_columns() -> None:
    """Table by table what the lines say, and what no column can be is named."""
    more = [{"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}}, {"name": "n", "type": "null"}]
    schema = {**ORDER, "fields": [*ORDER["fields"], *more]}
    found = registered_files(ValueFormat("avro", schemas=(("order.avsc", json.dumps(schema)),)))["shop.Order"]
    assert {one["name"]: ddl(one["type"]) for one in listed(found.fields)} == {
        "at": "TIMESTAMP", **{name: line.column for name, line in LINES.items()},
    }  # fmt: skip
    assert found.refused.keys() == {"$.empty", "$.n"}


def ddl(kind: Any) -> str:
    """A Spark type as parsed JSON, in SQL."""
    names = {"integer": "INT", "long": "BIGINT"}
    if isinstance(kind, str):
        return names.get(kind, kind.upper())
    if kind["type"] == "array":
        return f"ARRAY<{ddl(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"MAP<STRING, {ddl(kind['valueType'])}>"
    return f"STRUCT<{', '.join(one['name'] + ': ' + ddl(one['type']) for one in kind['fields'])}>"


def test_every_type_is_read_back_as_it_was_sent(export: Exports, spark: Any) -> None:
    """By three readers; both values of each type, the second ones at the edges."""
    e = export(ORDER, ", ".join(f"{name} {line.column}" for name, line in LINES.items()))
    e.send({0: [of(written(ORDER, value)) for value in rows(LINES)]})
    e.run(spark)
    assert wrong_places(e) == {}
    wanted = [{name: line.held[at] for name, line in LINES.items()} for at in range(2)]
    for reader, read in READERS.items():
        assert read(spark, e, "Order", [*LINES]) == wanted, reader
    assert [(row["_event_time"], row["_rescued"]) for row in e.rows("Order")] == [(NOON, None)] * 2


def test_what_no_column_holds_is_kept_and_what_is_damaged_is_a_dead_letter(export: Exports, spark: Any) -> None:
    """The rest of a record is JSON in `_rescued`, for every reader; a damaged one between good ones is told why."""
    e = export(ORDER, "long BIGINT, record STRUCT<a: INT>, map JSON, decimal_fixed JSON")
    good = [written(ORDER, value) for value in rows(LINES)]
    damaged = [good[0][:-3], good[0] + b"\x00", b"", None]
    e.send({0: [of(good[0]), *(of(one, DEAD_LETTERS) for one in damaged), of(good[1])]})
    e.run(spark)
    assert wrong_places(e) == {}
    kept = [row["_rescued"] for row in READERS["QueryBuilder"](spark, e, "Order", ["_rescued"])]
    texts = [{"map": '{"k":{"a":1}}', "decimal_fixed": "-" + "9" * 38}, {"map": "{}", "decimal_fixed": "9" * 38}]
    for read in READERS.values():
        assert [row["_rescued"] for row in read(spark, e, "Order", ["_rescued"])] == kept
        assert read(spark, e, "Order", ["map", "decimal_fixed"]) == texts
    first, second = (json.loads(text, parse_float=Decimal) for text in kept)
    assert first["record"] == {"b": "x"} and "record" not in second
    assert first["decimal_bytes"] == Decimal("-0.01") and first["bytes"] == "AP8=" and second["float"] == "-Infinity"
    assert first["ts_millis"] == "0001-01-01T00:00:00.000000Z" and first["date"] == "0001-01-01"
    assert first["double"] == Decimal("0.1") and first["array"] == [1, None]
    assert first.keys() == LINES.keys() - {"long", "map", "decimal_fixed"}
    reasons = [row["reason"].partition(":")[0] for row in e.rows(DEAD_LETTERS)]
    assert reasons == ["truncated", "trailing_bytes", "truncated", "tombstone"]
    e.proven(spark)


def test_single_objects_name_their_writer(export: Exports, spark: Any) -> None:
    """Two versions of a record in one topic, each by its fingerprint; what only one has is null in the other."""
    old = {"type": "record", "name": "Order", "fields": [AT, {"name": "id", "type": "int"}]}
    new = {"type": "record", "name": "Order", "fields": [AT, {"name": "id", "type": "long"},
                                                          {"name": "note", "type": "string"}]}  # fmt: skip
    e = export(old, "id BIGINT, note STRING")
    (e.root / "new.avsc").write_text(json.dumps(new))
    e = replace(e, value_format='kind = "avro"\nframe = "single_object"\nschema_files = ["order.avsc", "new.avsc"]')
    noon = {"at": millis(NOON)}
    newer = headed(new, {**noon, "id": 2**40, "note": "x"})
    values = [headed(old, {**noon, "id": 1}), newer, headed(old, {**noon, "id": 3})]
    stranger = {**old, "fields": [AT, {"name": "id", "type": "string"}]}
    odd = headed(stranger, {**noon, "id": "x"})
    e.send({0: [*(of(one) for one in values), of(odd, DEAD_LETTERS)]})
    e.run(spark)
    assert wrong_places(e) == {}
    wanted = [{"id": 1, "note": None}, {"id": 2**40, "note": "x"}, {"id": 3, "note": None}]
    for reader, read in READERS.items():
        assert read(spark, e, "Order", ["id", "note"]) == wanted, reader


def headed(schema: Any, value: dict[str, Any]) -> bytes:
    """A single object."""
    plain = fastavro.schema.to_parsing_canonical_form(schema)
    print_ = int(fastavro.schema.fingerprint(plain, "CRC-64-AVRO"), 16)
    return b"\xc3\x01" + struct.pack(">Q", print_) + written(schema, value)
