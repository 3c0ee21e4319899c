"""Debezium's envelopes in Avro: what is made of them is what is made of the same envelopes in JSON."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.envelopes.columns import unwrapped
from exporter.formats.formats import format_of
from tests.support.decoded_rows import columns, decode_all, routing_of, rows_of, there
from tests.support.envelope_samples import (
    KAFKA_US,
    MONGO,
    MYSQL,
    POSTGRES,
    UNAVAILABLE,
    changed,
    message,
    mongo,
    partial,
    text,
)
from tests.support.schemas import fields

NULL_TEXT, NULL_LONG = ["null", "string"], ["null", "long"]


def record(called: str, /, **fields: Any) -> dict[str, Any]:
    """An Avro record, whose nullable fields have null as their default."""
    made = [{"name": n, "type": t, **({"default": None} if isinstance(t, list) else {})} for n, t in fields.items()]
    return {"type": "record", "name": called, "namespace": "shop", "fields": made}


VALUE = record("Value", id="long", name=NULL_TEXT, doc=NULL_TEXT, tags=["null", {"type": "array", "items": "string"}],
               numbers=["null", {"type": "array", "items": "int"}], more=NULL_TEXT)  # fmt: skip
SOURCE = record("Source", version="string", ts_ms="long", ts_us=NULL_LONG, db="string", schema=NULL_TEXT,
                table=NULL_TEXT, collection=NULL_TEXT, file=NULL_TEXT, pos=NULL_LONG, row=["null", "int"],
                gtid=NULL_TEXT, lsn=NULL_LONG, ord=NULL_LONG)  # fmt: skip
MESSAGE = record("Message", prefix=NULL_TEXT, content=["null", "bytes"])


def envelope(image: Any, again: Any) -> dict[str, Any]:
    """The schema of an envelope."""
    return record("Envelope", before=["null", image], after=["null", again], source=SOURCE, op="string",
                  ts_ms=NULL_LONG, ts_us=NULL_LONG, message=["null", MESSAGE])  # fmt: skip


ROWS, DOCUMENTS = envelope(VALUE, "shop.Value"), envelope("string", "string")


def avro(change: dict[str, Any], schema: Any) -> bytes:
    """One value without a frame."""
    told = change.get("message")
    sent = {**change, "message": None if told is None else {"prefix": told["prefix"], "content": b"who"}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), sent)
    return out.getvalue()


def form_of(schema: Any, kind: Any) -> ValueFormat:
    return ValueFormat("avro", envelope=kind, message="shop.Envelope", schemas=(("e.avsc", json.dumps(schema)),))


def array_of(kind: str) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


DECLARED = columns(id="long", name="string", doc="string", tags=array_of("string"), numbers=array_of("integer"))


def decode(form: ValueFormat, values: Sequence[bytes | None], declared: str = DECLARED, **routing: Any) -> list[Any]:
    """Per value its row, or its reason."""
    return [*map(told, rows_of(decode_all(routing_of(declared, form, **routing), values, KAFKA_US)))]


def told(row: Any) -> Any:
    """A row; what is null in `_rescued` is as if it were not there."""
    return row if isinstance(row, str) else {**row, "_rescued": there(json.loads(row["_rescued"] or "{}"))}


SOURCES: Sequence[dict[str, Any]] = (
    MYSQL, POSTGRES, {**MYSQL, "gtid": "24bc7850:23"}, {**MYSQL, "gtid": ""}, {**MYSQL, "ts_us": None},
    {**MYSQL, "table": None}, {**POSTGRES, "schema": ""}, {**MYSQL, "ts_us": 2**62},
    {**MYSQL, "ts_us": None, "ts_ms": 2**60},
    {**MYSQL, "file": None}, {**MYSQL, "pos": None}, {**POSTGRES, "lsn": None},
)  # fmt: skip


def some_row(some: random.Random) -> dict[str, Any] | None:
    return None if some.random() < 0.1 else {
        "id": some.choice([0, 7, -(2**63)]), "name": some.choice([None, "x", "", UNAVAILABLE]),
        "doc": some.choice([None, "x", UNAVAILABLE, UNAVAILABLE + "x"]), "more": some.choice([None, "x", UNAVAILABLE]),
        "tags": some.choice([None, [], ["x"], [UNAVAILABLE], [UNAVAILABLE, "x"]]),
        "numbers": some.choice([None, [1], [*UNAVAILABLE.encode()]]),
    }  # fmt: skip


def some_changes(seed: int, count: int) -> list[dict[str, Any]]:
    """Changes of relational databases, of all kinds."""
    some = random.Random(seed)
    return [
        message() if some.random() < 0.05
        else changed(some.choice(SOURCES), some.choice("ccruuddtx"), before=some_row(some), after=some_row(some))
        for _ in range(count)
    ]  # fmt: skip


def without_nulls(change: dict[str, Any]) -> dict[str, Any]:
    """A null member of a row is an unknown field in JSON, and none in Avro, where each record has all fields."""
    rows = {name: change[name] for name in ("before", "after") if change.get(name) is not None}
    return {**change, **{n: {k: v for k, v in row.items() if v is not None} for n, row in rows.items()}}


@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
def test_rows_and_reasons_are_those_of_json(policy: Any) -> None:
    """Each change, both ways: columns, `_rescued`, `_cdc`, reasons word for word; and alone as in the batch."""
    changes = some_changes(3, 400)
    in_avro, in_json = form_of(ROWS, "debezium"), ValueFormat(envelope="debezium")
    values = [avro(change, ROWS) for change in changes]
    found = decode(in_avro, values, unknown_fields=policy)
    expected = decode(in_json, [text(without_nulls(change)) for change in changes], unknown_fields=policy)
    for change, one, other in zip(changes, found, expected, strict=True):
        assert one == other, change
    for at in range(0, len(values), 9):
        assert decode(in_avro, [values[at]], unknown_fields=policy) == [found[at]]
    assert {one.partition(":")[0] for one in found if isinstance(one, str)} >= {
        "cdc_truncate", "cdc_message", "unknown_op", "no_image", "bad_envelope",
    }  # fmt: skip
    assert sum(not isinstance(one, str) for one in found) > 100 or policy == "dead_letter"


def test_documents_of_mongo_are_texts_in_avro_too() -> None:
    """The same rows and reasons."""
    document = {"_id": {"$oid": "5f50d2c2e1d2a1b6a1b6a1b6"}, "n": {"$numberLong": "5"}, "u": {"$minKey": 1}}
    changes = [
        mongo("r", document), mongo("c", document), mongo("u", **partial({})), mongo("u", document), mongo("d"),
        mongo("d", None, document), mongo("c"), changed(MONGO, "c", after="[1]"), changed(MONGO, "d", before="{"),
        mongo("c", {"n": "x"}),
    ]  # fmt: skip
    declared = columns(_id="string", n="long")
    found = decode(form_of(DOCUMENTS, "debezium_mongo"), [avro(one, DOCUMENTS) for one in changes], declared)
    expected = decode(ValueFormat(envelope="debezium_mongo"), [text(one) for one in changes], declared)
    assert found == expected and sum(isinstance(one, str) for one in found) == 5


@pytest.mark.parametrize(("kind", "path", "unit"), [("json", "source.ts_ms", "ms"), ("json", "ts_us", "us")])
@pytest.mark.parametrize("type_from", [TypeFrom("source"), TypeFrom("json", "source.table"), TypeFrom("topic")])
def test_type_and_time_may_be_the_envelope_s(kind: Any, path: str, unit: Any, type_from: TypeFrom) -> None:
    """As in JSON; a record of another type than it was routed by is refused."""
    changes = [*some_changes(4, 60), {**changed(POSTGRES, "c", after={"id": 1}), "ts_us": None}]
    routing: dict[str, Any] = {"type_from": type_from, "event_time": EventTime(kind, path, unit)}
    found = decode(form_of(ROWS, "debezium"), [avro(one, ROWS) for one in changes], **routing)
    assert found == decode(ValueFormat(envelope="debezium"), [text(one) for one in changes], **routing)


@pytest.mark.parametrize("source", [TypeFrom("source"), TypeFrom("json", "source.table")])
def test_types_are_found_as_in_json(source: TypeFrom) -> None:
    """Or are not, by whatever words."""
    changes = some_changes(5, 100)
    skipped = pa.array([at % 7 == 0 for at in range(len(changes))])
    types, reasons = (
        format_of(form_of(ROWS, "debezium"))
        .peek(source)
        .types(pa.array([avro(one, ROWS) for one in changes], pa.binary()), skipped)
    )
    wanted, why = (
        format_of(ValueFormat(envelope="debezium"))
        .peek(source)
        .types(pa.array([text(one) for one in changes], pa.binary()), skipped)
    )
    assert types == wanted and reasons.keys() == why.keys()


def test_damaged_values_have_the_words_of_their_format() -> None:
    """A cut one, one with bytes behind it, none."""
    value = avro(changed(MYSQL, "c", after={"id": 1}), ROWS)
    found = decode(form_of(ROWS, "debezium"), [value, value[:-1], value + b"\0", None, value])
    assert [isinstance(one, str) for one in found] == [False, True, True, True, False]
    assert [str(one).partition(":")[0] for one in found[1:4]] == ["truncated", "trailing_bytes", "tombstone"]


def test_what_is_no_envelope_is_refused_by_writer() -> None:
    """All records of a schema without an op, or with images of two types."""
    plain = json.dumps(VALUE)
    form = ValueFormat("avro", envelope="debezium", schemas=(("v.avsc", plain),))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(VALUE), {"id": 1})
    assert decode(form, [out.getvalue()] * 2) == ["no_envelope: $.op is null or missing"] * 2
    odd = envelope(VALUE, record("Other", id="long"))
    found = decode(form_of(odd, "debezium"), [avro(changed(MYSQL, "c", after={"id": 1}), odd)])
    assert found == ["no_envelope: $.before and $.after are of different types"]
    with pytest.raises(ConfigError, match="DMS writes JSON"):
        decode(form_of(ROWS, "dms"), [])


def test_the_columns_of_an_envelope_are_those_of_its_row() -> None:
    """Of an image that there is; a document's are not known; without an envelope all are."""
    row, all_of_it = fields("id BIGINT"), fields("op STRING, before STRUCT<id: BIGINT>, after STRUCT<id: BIGINT>")
    assert unwrapped(all_of_it, "debezium") == row and unwrapped(all_of_it[:2], "debezium") == row
    assert unwrapped(all_of_it, "none") == all_of_it
    assert unwrapped(all_of_it, "debezium_mongo") == unwrapped(all_of_it[:1], "debezium") == ()
