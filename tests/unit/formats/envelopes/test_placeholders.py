"""Values that Debezium did not send: in JSON and in Avro, of each type of column, and what only looks like one."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import uuid
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest

from exporter.column.ddl import ddl_schema
from exporter.core.value_format import ValueFormat
from tests.support.decoded_rows import decode_all, routing_of, rows_of
from tests.support.envelope_samples import KAFKA_US, NOT_SENT, POSTGRES, UNAVAILABLE, VALUES, changed, text
from tests.support.not_sent import is_hidden
from tests.unit.formats.envelopes.test_typed_changes import avro

AVRO: dict[str, Any] = {
    "STRING": "string", "BINARY": "bytes", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double", "BOOLEAN": "boolean", "MAP<STRING, STRING>": {"type": "map", "values": "string"},
    "DECIMAL(9,2)": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "STRUCT<scale: INT, value: BINARY>": [("scale", "int"), ("value", "bytes")],
    "STRUCT<wkb: BINARY, srid: INT>": [("wkb", "bytes"), ("srid", ["null", "int"])],
    "STRUCT<x: DOUBLE, y: DOUBLE, wkb: BINARY, srid: INT>": [
        ("x", "double"), ("y", "double"), ("wkb", "bytes"), ("srid", ["null", "int"]),
    ],
}  # fmt: skip
SOURCE: Any = {"type": "record", "name": "Source", "fields": [
    {"name": "version", "type": ["null", "string"]}, {"name": "connector", "type": ["null", "string"]},
    {"name": "ts_ms", "type": "long"}, {"name": "db", "type": "string"}, {"name": "schema", "type": "string"},
    {"name": "table", "type": "string"},
]}  # fmt: skip
NEWEST = {**POSTGRES, "version": "3.7.0.Final"}


def avro_type(name: str, kind: str) -> Any:
    """Of a column in Avro."""
    if kind.startswith("ARRAY<"):
        return {"type": "array", "items": avro_type(name, kind[len("ARRAY<") : -1])}
    found = AVRO[kind]
    if not isinstance(found, list):
        return found
    fields = [{"name": field, "type": of} for field, of in found]
    return {"type": "record", "name": "R_" + "".join(filter(str.isalnum, name)), "fields": fields}


def avro_value(kind: Any, value: Any) -> Any:
    """What a value in JSON is in Avro."""
    if isinstance(kind, list):
        return None if value is None else avro_value(kind[1], value)
    if kind == "bytes":
        return base64.b64decode(value)
    if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
        return Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-2)
    if isinstance(kind, dict) and kind["type"] == "array":
        return [avro_value(kind["items"], one) for one in value]
    if isinstance(kind, dict) and kind["type"] == "record":
        return {one["name"]: avro_value(one["type"], value[one["name"]]) for one in kind["fields"]}
    return value


COLUMNS = {name: f"c{at}" for at, name in enumerate(NOT_SENT)}
"""Avro has names without blanks."""


def decode(form: ValueFormat, values: list[bytes], required: bool = False) -> list[Any]:
    """Per value its row, or its reason."""
    kinds = ", ".join(f"{COLUMNS[n]} {kind}{' NOT NULL' * required}" for n, (kind, _) in NOT_SENT.items())
    schema = ddl_schema(f"id BIGINT, {kinds}")
    assert schema is not None
    return rows_of(decode_all(routing_of(schema, form), values, KAFKA_US))


def in_json(row: dict[str, Any], source: Any = NEWEST) -> bytes:
    return text(changed(source, "u", after={"id": 7, **{COLUMNS[name]: one for name, one in row.items()}}))


def avro_form() -> ValueFormat:
    return ValueFormat("avro", envelope="debezium", message="Envelope", schemas=(("e.avsc", json.dumps(envelope())),))


def envelope() -> Any:
    columns = [{"name": COLUMNS[n], "type": ["null", avro_type(n, kind)]} for n, (kind, _) in NOT_SENT.items()]
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, *columns]}
    return {"type": "record", "name": "Envelope", "fields": [
        {"name": "before", "type": ["null", value]}, {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE}, {"name": "op", "type": "string"}, {"name": "ts_ms", "type": "long"},
    ]}  # fmt: skip


def in_avro(row: dict[str, Any], source: Any = NEWEST) -> bytes:
    sent = {name: None if one is None else avro_value(avro_type(name, NOT_SENT[name][0]), one)
            for name, one in row.items()}  # fmt: skip
    after = {"id": 7, **{COLUMNS[name]: sent.get(name) for name in NOT_SENT}}
    return avro(changed(source, "u", after=after), envelope())


DEBEZIUM = ValueFormat(envelope="debezium")
AS_NUMBERS = {"numeric[] as decimals"}
"""Which the two formats have in different words: in JSON the bytes of decimals, which no column of decimals holds."""


def test_the_uuid_is_the_one_that_java_makes_of_the_placeholder() -> None:
    """UUID.nameUUIDFromBytes: version 3, without a name space."""
    digest = hashlib.md5(UNAVAILABLE.encode(), usedforsecurity=False).digest()
    assert NOT_SENT["uuid[]"][1] == [str(uuid.UUID(bytes=digest, version=3))]


@pytest.mark.parametrize("name", NOT_SENT)
def test_what_was_not_sent_is_null_and_kept_as_it_was_sent(name: str) -> None:
    """Of each type of PostgreSQL's columns, in JSON and in Avro alike; what is no placeholder is a value."""
    sent, other = {name: NOT_SENT[name][1]}, {name: VALUES[name]}
    assert is_hidden(sent[name]) and not is_hidden(other[name])
    for form, write in ((DEBEZIUM, in_json), (avro_form(), in_avro)):
        hidden, value = decode(form, [write(sent), write(other)])
        assert hidden[COLUMNS[name]] is None, (form.kind, hidden)
        kept = json.loads(hidden["_rescued"])[COLUMNS[name]]
        assert is_hidden(kept), (form.kind, hidden["_rescued"])
        if name in AS_NUMBERS:
            assert form.kind == "json" or value[COLUMNS[name]] is not None
            continue
        assert kept == sent[name]
        assert value[COLUMNS[name]] is not None and value["_rescued"] is None, (form.kind, value)


@pytest.mark.parametrize("form", [DEBEZIUM, avro_form()], ids=["json", "avro"])
def test_28_times_true_is_a_value_of_those_who_never_sent_it_for_another(form: ValueFormat) -> None:
    """Debezium does since 3.7, and for PostgreSQL alone; who does not say who he is may."""
    flags = {"boolean[]": NOT_SENT["boolean[]"][1]}
    sources = [({}, False), ({"version": "3.6.9.Final"}, False), ({"version": "4.0.0.Final"}, True),
               ({"connector": "mysql", "version": "4.0.0.Final"}, False), ({"connector": None, "version": None}, True),
               ({"version": "SNAPSHOT"}, True)]  # fmt: skip
    write = in_json if form.kind == "json" else in_avro
    rows = decode(form, [write(flags, {**POSTGRES, **source}) for source, _ in sources])
    assert [row[COLUMNS["boolean[]"]] is None for row in rows] == [hidden for _, hidden in sources]


@pytest.mark.parametrize("form", [DEBEZIUM, avro_form()], ids=["json", "avro"])
def test_what_was_not_sent_fills_no_column_that_must_be_filled(form: ValueFormat) -> None:
    """It is a dead letter, which names the column."""
    row = {name: one for name, one in VALUES.items() if name not in AS_NUMBERS}
    write = in_json if form.kind == "json" else in_avro
    for name, (_, value) in NOT_SENT.items():
        (reason,) = decode(form, [write({**row, "numeric[] as decimals": [], name: value})], required=True)
        assert isinstance(reason, str) and reason.startswith("missing_field"), (name, reason)
        assert COLUMNS[name] in reason or name in AS_NUMBERS, (name, reason)


@pytest.mark.parametrize("seed", range(6))
def test_json_and_avro_and_a_plain_reader_agree_on_what_was_not_sent(seed: int) -> None:
    """Rows of placeholders, values and what is nearly one, in one batch."""
    some = random.Random(seed)

    def value(name: str) -> Any:
        _, sent = deepcopy(NOT_SENT[name])
        if isinstance(sent, list) and some.random() < 0.3:
            sent[some.randrange(len(sent))] = VALUES[name][0]
        elif isinstance(sent, dict) and some.random() < 0.3:
            at = some.choice([*sent])
            sent[at] = VALUES[name].get(at, sent[at])
        return some.choice([sent, sent, VALUES[name], None])

    rows = [{name: value(name) for name in NOT_SENT if name not in AS_NUMBERS} for _ in range(40)]
    sources = [some.choice([NEWEST, POSTGRES, {**NEWEST, "connector": "mysql"}]) for _ in rows]
    found = [
        decode(form, [write(row, source) for row, source in zip(rows, sources, strict=True)])
        for form, write in ((DEBEZIUM, in_json), (avro_form(), in_avro))
    ]
    for row, source, *sides in zip(rows, sources, *found, strict=True):
        flags = source["connector"] == "postgresql" and source["version"] == NEWEST["version"]
        hidden = {COLUMNS[name]: one for name, one in row.items() if one is not None and is_hidden(one, flags)}
        for side in sides:
            assert isinstance(side, dict), side
            assert json.loads(side["_rescued"] or "{}") == hidden
            assert {name for name in row if side[COLUMNS[name]] is None} == {
                name for name, one in row.items() if one is None or COLUMNS[name] in hidden
            }
