"""Changes as Debezium and AWS DMS write them, of each kind and database: shapes as their documentation shows them."""

from __future__ import annotations

import base64
import json
from typing import Any

AT_MS = 1_769_860_800_000
KAFKA_US = AT_MS * 1000
"""2026-01-31T12:00:00Z."""
DAY = 20_484
"""2026-01-31 in days since 1970."""
UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLE_BASE64 = base64.b64encode(UNAVAILABLE.encode()).decode()
Change = dict[str, Any]

_COMMON: Change = {"version": "3.0.0.Final", "name": "shop", "ts_ms": AT_MS, "snapshot": "false", "sequence": None,
                   "ts_us": AT_MS * 1000, "ts_ns": AT_MS * 1_000_000}  # fmt: skip
MYSQL: Change = {**_COMMON, "connector": "mysql", "db": "shop", "table": "orders", "server_id": 223344,
                 "gtid": None, "file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7}  # fmt: skip
POSTGRES: Change = {**_COMMON, "connector": "postgresql", "db": "shop", "schema": "public", "table": "orders",
                    "sequence": '["24023119","24023128"]', "txId": 555, "lsn": 24023128, "xmin": None}  # fmt: skip
MONGO: Change = {**_COMMON, "connector": "mongodb", "db": "shop", "rs": "rs0", "collection": "orders", "ord": 31,
                 "lsid": None, "txnNumber": None, "wallTime": AT_MS}  # fmt: skip


def changed(source: Change, op: str, **rows: Any) -> Change:
    """One envelope. rows: before and after; a truncate and a message have none."""
    whole = {} if op in "tm" else {"before": None, "after": None}
    times = {"ts_ms": AT_MS + 123, "ts_us": AT_MS * 1000 + 123_456, "ts_ns": AT_MS * 1_000_000 + 123_456_789}
    return {**whole, **rows, "source": source, "transaction": None, "op": op, **times}


def message(prefix: str = "audit") -> Change:
    """What pg_logical_emit_message leads to: its table has no name."""
    content = base64.b64encode(b"who").decode()
    return changed({**POSTGRES, "table": ""}, "m", message={"prefix": prefix, "content": content})


def mongo(op: str, after: Any = None, before: Any = None, **more: Any) -> Change:
    """One of MongoDB, whose documents are texts."""
    shown = {name: None if row is None else json.dumps(row) for name, row in (("before", before), ("after", after))}
    return changed(MONGO, op, **shown, **{"updateDescription": None, **more})


def partial(fields: Any) -> dict[str, Any]:
    """The part of an update of which no image is sent."""
    return {"updateDescription": {"updatedFields": json.dumps(fields), "removedFields": None, "truncatedArrays": None}}


DMS: Change = {"timestamp": "2026-01-31T12:00:01.500000Z", "record-type": "data", "operation": "insert",
               "partition-key-type": "schema-table", "schema-name": "shop", "table-name": "orders",
               "transaction-id": 12884904641, "transaction-record-id": 2,
               "commit-timestamp": "2026-01-31T12:00:00.000000Z",
               "stream-position": "mysql-bin-changelog.000003.484.0.31"}  # fmt: skip
DMS_LOAD: Change = {name: DMS[name] for name in ("timestamp", "record-type", "partition-key-type", "schema-name",
                                                 "table-name")}  # fmt: skip


def dms(operation: str, data: Any = None, **more: Any) -> Change:
    """One of DMS. A load has no transaction."""
    metadata = {**(DMS_LOAD if operation == "load" else DMS), "operation": operation}
    return {**({} if data is None else {"data": data}), **more, "metadata": metadata}


def dms_control(operation: str, **names: Any) -> Change:
    """What DMS says of tables."""
    metadata = {"timestamp": DMS["timestamp"], "record-type": "control", "operation": operation,
                "partition-key-type": "task-id", "schema-name": "shop", "table-name": "orders", **names}  # fmt: skip
    return {"metadata": metadata}


def text(change: Any) -> bytes:
    """As it is sent: compact."""
    return json.dumps(change, separators=(",", ":")).encode()


# --- Connect's schemas ---------------------------------------------------------------------------------------

CONNECT, TIME = "org.apache.kafka.connect.data", "io.debezium.time"


def typed(kind: str, field: str | None = None, name: str | None = None, **more: Any) -> dict[str, Any]:
    """One schema as Connect's JSON converter writes it."""
    named = {} if name is None else {"name": name, "version": 1}
    return {"type": kind, "optional": True, **named, **more, **({} if field is None else {"field": field})}


def structure(*fields: dict[str, Any], field: str | None = None) -> dict[str, Any]:
    """The schema of a struct."""
    return typed("struct", field, "shop.Value", fields=list(fields))


def decimal(scale: int, field: str) -> dict[str, Any]:
    """The schema of a Decimal."""
    return typed("bytes", field, f"{CONNECT}.Decimal", parameters={"scale": str(scale)})


ROW = structure(
    typed("int64", "id"),
    typed("string", "name"),
    typed("int32", "d", f"{TIME}.Date"),
    typed("int64", "at", f"{TIME}.MicroTimestamp"),
    decimal(2, "price"),
    typed("string", "doc"),
)


def envelope_schema() -> dict[str, Any]:
    """The schema of an envelope around rows of ROW."""
    before, after = ({**ROW, "field": name} for name in ("before", "after"))
    source = structure(typed("string", "version"), typed("int64", "ts_ms"), field="source")
    return typed("struct", None, "shop.Envelope", fields=[before, after, source, typed("string", "op")])


def with_schema(payload: Any, schema: Any) -> dict[str, Any]:
    """What `schemas.enable = true` makes of a value."""
    return {"schema": schema, "payload": payload}


# --- What stands for values that were not sent --------------------------------------------------------------

NUMBERS = [*UNAVAILABLE.encode()]
EWKB = base64.b64encode(bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")).decode()
GEOGRAPHY = base64.b64encode(bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")).decode()
POINT = base64.b64encode(bytes.fromhex("0101000000000000FC83D797C1000000FC83D797C1")).decode()
_DIGITS = [base64.b64encode(bytes([one])).decode() for one in NUMBERS]
NOT_SENT: dict[str, tuple[str, Any]] = {
    "text": ("STRING", UNAVAILABLE),
    "bytea": ("BINARY", UNAVAILABLE_BASE64),
    "bytea as base64": ("STRING", UNAVAILABLE_BASE64),
    "blob as hex": ("STRING", UNAVAILABLE.encode().hex()),
    "hstore": ("MAP<STRING, STRING>", {UNAVAILABLE: UNAVAILABLE}),
    "hstore as json": ("STRING", f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'),
    "text[]": ("ARRAY<STRING>", [UNAVAILABLE]),
    "bytea[]": ("ARRAY<BINARY>", [UNAVAILABLE_BASE64]),
    "uuid[]": ("ARRAY<STRING>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
    "smallint[]": ("ARRAY<INT>", NUMBERS),
    "int[]": ("ARRAY<INT>", NUMBERS),
    "bigint[]": ("ARRAY<BIGINT>", NUMBERS),
    "date[]": ("ARRAY<INT>", NUMBERS),
    "real[]": ("ARRAY<FLOAT>", [float(one) for one in NUMBERS]),
    "double[]": ("ARRAY<DOUBLE>", [float(one) for one in NUMBERS]),
    "numeric[] as decimals": ("ARRAY<DECIMAL(9,2)>", _DIGITS),
    "numeric[] of any scale": (
        "ARRAY<STRUCT<scale: INT, value: BINARY>>", [{"scale": 0, "value": one} for one in _DIGITS],
    ),
    "boolean[]": ("ARRAY<BOOLEAN>", [True] * len(NUMBERS)),
    "geometry": ("STRUCT<wkb: BINARY, srid: INT>", {"wkb": EWKB, "srid": 4326}),
    "geography": ("STRUCT<wkb: BINARY, srid: INT>", {"wkb": GEOGRAPHY, "srid": 4326}),
    "point": (
        "STRUCT<x: DOUBLE, y: DOUBLE, wkb: BINARY, srid: INT>",
        {"x": -99999999.0, "y": -99999999.0, "wkb": POINT, "srid": None},
    ),
}  # fmt: skip
"""Type in PostgreSQL, and how it is handled -> a column for it, and what Debezium sends in JSON; `numeric` has 2 digits
behind its point."""
VALUES: dict[str, Any] = {
    "text": "__debezium", "bytea": "aGk=", "bytea as base64": "aGk=", "blob as hex": "5f5f", "hstore": {"a": "b"},
    "hstore as json": '{"a":"b"}', "text[]": ["a", UNAVAILABLE], "bytea[]": ["aGk="], "uuid[]": ["b68a35a7"],
    "smallint[]": NUMBERS[:-1], "int[]": [*NUMBERS[:-1], 0], "bigint[]": [0] * 28, "date[]": NUMBERS[::-1],
    "real[]": [95.0] * 28, "double[]": [-float(one) for one in NUMBERS], "numeric[] as decimals": ["Xw=="] * 28,
    "numeric[] of any scale": [{"scale": 0, "value": "Xw=="}], "boolean[]": [True] * 27 + [False],
    "geometry": {"wkb": "AQEA", "srid": 4326}, "geography": {"wkb": "AQEA", "srid": 4326},
    "point": {"x": -99999999.0, "y": 0.0, "wkb": "AQEA", "srid": None},
}  # fmt: skip
"""Of the same types: what is a value."""
