"""Columns of the schemas that records of Connect's JSON bring along, and that they hold what such records have."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.columns import EVOLVED
from exporter.core.evolved import combined
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import CARRIED, KnownSchemas
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.executor.framing import CARRIED_MAX, Framing
from exporter.formats.decoder import Decoder
from exporter.formats.envelopes.connect import schemas_in
from exporter.formats.envelopes.connect_columns import connect_columns
from exporter.formats.schema_columns import FromSchemas
from offsets.ranges import TopicPartition
from tests.support.schemas import whole
from tests.unit.formats.protobuf.test_columns import short

TP = TopicPartition("t", 0)
FORM = ValueFormat("connect_json")
CONNECT = "org.apache.kafka.connect.data."
KINDS: dict[str, tuple[Any, Any, Any, Any]] = {
    # what the schema says, Spark's type, the same with semantic types, a value as it is sent
    "int8": ({"type": "int8"}, "integer", "integer", -7),
    "int16": ({"type": "int16"}, "integer", "integer", 32_000),
    "int32": ({"type": "int32", "optional": True}, "integer", "integer", 2**31 - 1),
    "int64": ({"type": "int64"}, "long", "long", -(2**63)),
    "float": ({"type": "float"}, "double", "double", 0.1),
    "double": ({"type": "double"}, "double", "double", 1e300),
    "boolean": ({"type": "boolean"}, "boolean", "boolean", True),
    "string": ({"type": "string"}, "string", "string", "x"),
    "bytes": ({"type": "bytes"}, "binary", "binary", "AAE="),
    "price": ({"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}}, "decimal(38,2)",
              "decimal(38,2)", "Aw=="),
    "exact": ({"type": "bytes", "name": f"{CONNECT}Decimal",
               "parameters": {"scale": "2", "connect.decimal.precision": "8"}}, "decimal(8,2)", "decimal(8,2)", "Aw=="),
    "wide": ({"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "60"}}, None, None, "Aw=="),
    "day": ({"type": "int32", "name": f"{CONNECT}Date"}, "date", "date", 20_484),
    "time": ({"type": "int32", "name": f"{CONNECT}Time"}, "integer", "integer", 86_399_999),
    "at": ({"type": "int64", "name": f"{CONNECT}Timestamp"}, "timestamp", "timestamp", 1_769_860_800_000),
    "micros": ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "long", "timestamp",
               1_769_860_800_000_000),
    "zoned": ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "string", "timestamp",
              "2026-01-31T12:00:00Z"),
    "variable": ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal",
                  "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}]},
                 {"scale": "integer", "value": "binary"}, None, {"scale": 1, "value": "Aw=="}),
    "list": ({"type": "array", "items": {"type": "int32", "name": f"{CONNECT}Date"}}, ["date"], ["date"], [1, None]),
    "map": ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}}, {"map": "long"}, {"map": "long"},
            {"a": 1}),
    "odd_map": ({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int64"}}, None, None, [[1, 2]]),
    "row": ({"type": "struct", "fields": [{"type": "string", "field": "s"}]}, {"s": "string"}, {"s": "string"},
            {"s": "x"}),
    "nothing": ({"type": "struct", "fields": []}, None, None, {}),
}  # fmt: skip


def schema_of(*names: str) -> dict[str, Any]:
    return {"type": "struct", "optional": False, "fields": [{**KINDS[name][0], "field": name} for name in names]}


def value_of(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


@pytest.mark.parametrize("debezium", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_each_type_of_connect_has_its_column_which_holds_its_values(name: str, debezium: bool) -> None:
    """Nothing of a record stays in `_rescued` whose field has a column, and all of it does where it has none."""
    text = json.dumps(schema_of(name)).encode()
    found = connect_columns(text, debezium)
    kind = KINDS[name][2 if debezium else 1]
    assert [short(one.type) for one in found.fields] == ([] if kind is None else [kind])
    assert bool(found.refused) == (kind is None)
    form = ValueFormat("connect_json", semantic_types="connect" if debezium else "none")
    routing = Routing(TypeFrom("topic"), EventTime("record"), (("t", NOTHING),), value_format=form)
    table = whole(replace(one, metadata={EVOLVED: "schema of the record"}) for one in found.fields)
    decoder = Decoder.of("t", routing, combined(NOTHING, table), topic="t")
    values = pa.array([value_of(schema_of(name), {name: KINDS[name][3]})], pa.binary())
    decoded = decoder.decode(values, pa.array([1_741_608_000_000_000], pa.timestamp("us", "UTC")))
    assert len(decoded.good) == 1
    (rescued,) = decoded.table["_rescued"].to_pylist()
    assert (rescued is None) == (kind is not None)
    if kind is not None:
        assert decoded.table[name].to_pylist() != [None]


NOTHING = '{"type":"struct","fields":[]}'

def test_of_an_envelope_the_row_counts() -> None:
    """And a schema that is none gives nothing."""
    row = {**schema_of("int64", "day"), "field": "after"}
    envelope = {"type": "struct", "fields": [{**row, "field": "before"}, row, {"type": "string", "field": "op"}]}
    for form, names in ((ValueFormat("connect_json", envelope="debezium"), ["int64", "day"]),
                        (FORM, ["before", "after", "op"])):  # fmt: skip
        columns = FromSchemas(Routing(TypeFrom("topic"), EventTime("record"), (), value_format=form))
        found = columns.of_key(CARRIED + json.dumps(envelope), KnownSchemas(), "t")
        assert [one.name for one in found] == names
        assert not columns.of_key(f"{CARRIED}?", KnownSchemas(), "t")
    with pytest.raises(ConfigError, match="cannot be used"):
        connect_columns(b"[]", False)


@pytest.mark.parametrize("seed", range(10))
def test_the_schemas_that_values_bring_along_are_told_each_once(seed: int) -> None:
    """In whatever order their members stand; so many at most, and none of what is no such value."""
    rng = random.Random(seed)
    texts = [json.dumps(schema_of(name), separators=(",", ":")) for name in KINDS]
    values: list[bytes | None] = []
    wanted = dict[str, None]()
    for _ in range(200):
        text = rng.choice(texts)
        odd = rng.random()
        if odd < 0.1:
            values.append(rng.choice([None, b"", b"{}", b'{"schema":null,"payload":{}}', b'{"schema":1', b"\xff"]))
            continue
        first, last = f'{{"schema":{text},"payload":{{}}}}', f'{{"payload":{{}}, "schema" : {text}}}'
        values.append((first if odd < 0.6 else last).encode())
        wanted[text] = None
    assert schemas_in(pa.array(values, pa.binary()), 1_000) == [*wanted]
    assert schemas_in(pa.array(values, pa.binary()), 3) == [*wanted][:3]
    framing = Framing(lambda _: FORM, KnownSchemas())
    for _ in range(2):
        framing.met_carried("t", TP, pa.array(values, pa.binary()))
    (row,) = framing.rows()
    assert {*json.loads(row["met"])} == {CARRIED + one for one in [*wanted][:CARRIED_MAX]}
