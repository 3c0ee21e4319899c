"""Each kind of change of each database: the row or the dead letter that the handbook's table says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from exporter.arrow.own_columns import CDC_TYPE
from exporter.core.routing import EventTime, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.formats import format_of
from tests.support.decoded_rows import codes, columns, decode_all, routing_of, rows_of, there
from tests.support.envelope_samples import (
    AT_MS,
    DAY,
    KAFKA_US,
    MONGO,
    MYSQL,
    POSTGRES,
    UNAVAILABLE,
    UNAVAILABLE_BASE64,
    changed,
    dms,
    dms_control,
    envelope_schema,
    message,
    mongo,
    partial,
    text,
    with_schema,
)

TYPES = {"id": "long", "name": "string", "d": "date", "at": "timestamp", "price": "decimal(10,2)", "doc": "string"}
NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def decode(form: ValueFormat, values: Sequence[Any], declared: str = columns(**TYPES), **routing: Any) -> list[Any]:
    """Per value its row without nulls, or its reason. Rows have `_cdc` as a tuple of op, source and pos."""
    raws = [one if one is None or isinstance(one, bytes) else text(one) for one in values]
    found = rows_of(decode_all(routing_of(declared, form, **routing), raws, KAFKA_US), "_event_time")
    for one in found:
        if isinstance(one, dict) and (cdc := one.get("_cdc")):
            one["_cdc"] = (cdc["op"], cdc["source"], cdc["pos"])
    return [*map(there, found)]


DEBEZIUM = ValueFormat(envelope="debezium", semantic_types="connect")
MONGODB = ValueFormat(envelope="debezium_mongo")
OF_DMS = ValueFormat(envelope="dms")
IN_CONNECT = ValueFormat("connect_json", envelope="debezium", semantic_types="connect")
OLD, NEW = {"id": 7, "name": "old"}, {"id": 7, "name": "new"}


def test_mysql() -> None:
    """The image that a change leaves, or takes away; its place in the binary log with the transaction's id."""
    named = {**MYSQL, "gtid": "24bc7850-2c16-11e6-a073-0242ac110002:23"}
    found = decode(DEBEZIUM, [
        changed(MYSQL, "r", after=NEW), changed(MYSQL, "c", after=NEW), changed(MYSQL, "u", before=OLD, after=NEW),
        changed(named, "d", before=OLD), changed(MYSQL, "t"),
    ])  # fmt: skip
    at = "mysql-bin.000003:484:0"
    assert found == [
        {**NEW, "_cdc": ("R", "shop.orders", at)},
        {**NEW, "_cdc": ("I", "shop.orders", at)},
        {**NEW, "_cdc": ("U", "shop.orders", at)},
        {**OLD, "_cdc": ("D", "shop.orders", f"{at}@24bc7850-2c16-11e6-a073-0242ac110002:23")},
        f"cdc_truncate: of shop.orders at {NOON.isoformat(timespec='microseconds')}",
    ]


def test_postgres() -> None:
    """A delete has what the replica identity sends; the source is the schema's, not the database's."""
    found = decode(DEBEZIUM, [
        changed({**POSTGRES, "snapshot": True}, "r", after=NEW), changed(POSTGRES, "c", after=NEW),
        changed(POSTGRES, "u", after=NEW), changed(POSTGRES, "d", before={"id": 7, "name": None}),
        changed(POSTGRES, "d", before=OLD), changed(POSTGRES, "t"), message(), changed(POSTGRES, "d"),
    ])  # fmt: skip
    cdc = ("public.orders", "24023128")
    assert found == [
        {**NEW, "_cdc": ("R", *cdc)},
        {**NEW, "_cdc": ("I", *cdc)},
        {**NEW, "_cdc": ("U", *cdc)},
        {"id": 7, "_cdc": ("D", *cdc)},
        {**OLD, "_cdc": ("D", *cdc)},
        f"cdc_truncate: of public.orders at {NOON.isoformat(timespec='microseconds')}",
        "cdc_message: prefix 'audit'",
        "no_image: $.before is null or missing",
    ]


def test_a_delete_with_its_key_alone_fills_no_required_column() -> None:
    """A column that is NOT NULL holds no null: such a delete is a dead letter, and one of a required key is a row."""
    of_key, of_name = (columns((name,), **TYPES) for name in ("id", "name"))
    delete = changed(POSTGRES, "d", before={"id": 7})
    assert codes(decode(DEBEZIUM, [delete], of_key)) == [""]
    assert codes(decode(DEBEZIUM, [delete], of_name)) == ["missing_field"]


def test_values_that_were_not_sent_are_null_and_named() -> None:
    """Whatever the column's type is, and whatever is done with unknown fields; without a column it is one of these."""
    declared = columns(id="long", name="string", doc="string", raw="binary", price="decimal(10,2)", n="long")
    gone = {"name": UNAVAILABLE, "doc": [UNAVAILABLE], "raw": UNAVAILABLE_BASE64, "price": UNAVAILABLE_BASE64,
            "n": [*UNAVAILABLE.encode()]}  # fmt: skip
    for policy in ("rescue", "ignore", "dead_letter"):
        (found,) = decode(DEBEZIUM, [changed(POSTGRES, "u", after={"id": 7, **gone})], declared, unknown_fields=policy)
        assert (found["id"], json.loads(found["_rescued"]), len(found)) == (7, gone, 3)
    other = changed(POSTGRES, "u", after={"id": 7, "other": UNAVAILABLE, "name": UNAVAILABLE})
    kept, refused = (decode(DEBEZIUM, [other], unknown_fields=one)[0] for one in ("rescue", "dead_letter"))
    assert json.loads(kept["_rescued"]) == {"other": UNAVAILABLE, "name": UNAVAILABLE}
    assert refused == "unknown_field: $.other"
    required = columns(("name",), id="long", name="string")
    assert codes(decode(DEBEZIUM, [other], required)) == ["missing_field"]
    text_of_mysql = decode(DEBEZIUM, [changed(POSTGRES, "c", after={"id": 7, "name": UNAVAILABLE + "!"})])
    assert text_of_mysql[0]["name"] == UNAVAILABLE + "!"


def test_mongo_in_all_its_capture_modes() -> None:
    """An update is a row where its image is sent; a delete without one has the record's key only."""
    old, new = {"_id": {"$oid": "5f50d2c2e1d2a1b6a1b6a1b6"}, "n": 1}, {"_id": {"$oid": "5f50d2c2e1d2a1b6a1b6a1b6"}}
    declared = columns(_id="string", n="long")
    found = decode(MONGODB, [
        mongo("r", new), mongo("c", new),
        mongo("u", **partial({"n": 1})), mongo("u", new, **partial({})), mongo("u", new, old, **partial({})),
        mongo("u", None, old, **partial({"n": 2})), mongo("d"), mongo("d", None, old), mongo("c"),
        changed(MONGO, "c", after={"_id": 1}), changed(MONGO, "c", after="[1]"), changed(MONGO, "c", after='{"a":'),
    ], declared)  # fmt: skip
    cdc, oid = ("shop.orders", f"{AT_MS}:31"), "5f50d2c2e1d2a1b6a1b6a1b6"
    assert found == [
        {"_id": oid, "_cdc": ("R", *cdc)},
        {"_id": oid, "_cdc": ("I", *cdc)},
        "partial_update: $.after is null or missing",
        {"_id": oid, "_cdc": ("U", *cdc)},
        {"_id": oid, "_cdc": ("U", *cdc)},
        "partial_update: $.after is null or missing",
        {"_cdc": ("D", *cdc)},
        {"_id": oid, "n": 1, "_cdc": ("D", *cdc)},
        "no_image: $.after is null or missing",
        "bad_envelope: $.after is an object, not a text",
        "not_object: $.after: the value is JSON but no object",
        "not_json: $.after: Expecting value: line 1 column 6 (char 5)",
    ]
    assert decode(MONGODB, [mongo("d")], columns(("_id",), _id="string")) == [
        "missing_field: $._id is required, but null or missing"
    ]


def test_dms() -> None:
    """What DMS loads, and what happens then; what it says of tables is a dead letter."""
    found = decode(OF_DMS, [
        dms("load", NEW), dms("insert", NEW), dms("update", NEW, **{"before-image": OLD}), dms("delete", OLD),
        dms("delete", **{"before-image": OLD}), dms_control("create-table"), dms_control("drop-table"),
        dms("insert"), dms("merge", NEW), {"data": NEW}, {"data": NEW, "metadata": {"record-type": "other"}},
    ])  # fmt: skip
    cdc = ("shop.orders", "mysql-bin-changelog.000003.484.0.31:12884904641:2")
    assert found == [
        {**NEW, "_cdc": ("R", "shop.orders", None)},
        {**NEW, "_cdc": ("I", *cdc)},
        {**NEW, "_cdc": ("U", *cdc)},
        {**OLD, "_cdc": ("D", *cdc)},
        {**OLD, "_cdc": ("D", *cdc)},
        "cdc_control: create-table of shop.orders",
        "cdc_control: drop-table of shop.orders",
        "no_image: $.data is null or missing",
        "unknown_op: $.metadata.operation = 'merge'",
        "no_envelope: $.metadata is null or missing",
        "no_envelope: $.metadata.record-type is other",
    ]


def test_when_a_change_was_made_is_what_its_source_says() -> None:
    """To the microsecond where it is told; of DMS the commit; else when the connector saw it."""
    moment = KAFKA_US
    cases: list[tuple[ValueFormat, Any, int | None]] = [
        (DEBEZIUM, changed({**MYSQL, "ts_us": moment + 5}, "c", after=NEW), moment + 5),
        (DEBEZIUM, changed({**MYSQL, "ts_us": None}, "c", after=NEW), moment),
        (DEBEZIUM, {**changed({"db": "shop", "table": "orders"}, "c", after=NEW), "ts_us": None}, moment + 123_000),
        (DEBEZIUM, {"op": "c", "after": NEW}, None),
        (OF_DMS, dms("insert", NEW), moment),
        (OF_DMS, dms("load", NEW), moment + 1_500_000),
    ]
    for form, change, expected in cases:
        decoded = decode_all(routing_of(columns(**TYPES), form), [text(change)], moment)
        assert decoded.table.schema.field("_cdc").type == CDC_TYPE
        cdc = decoded.table["_cdc"].combine_chunks()
        assert cdc.field("ts").cast(pa.int64()).to_pylist() == [expected]
        assert cdc.field("key").to_pylist() == [None]


def test_with_schemas_values_are_what_their_schemas_say() -> None:
    """`schemas.enable = true`: days, microseconds and unscaled numbers; and Debezium's types only where they are asked
    for."""
    row = {"id": 7, "name": "x", "d": DAY, "at": AT_MS * 1000 + 5, "price": "BNI=", "doc": UNAVAILABLE}
    value = with_schema(changed(POSTGRES, "u", after=row), envelope_schema())
    (found,) = decode(IN_CONNECT, [value])
    assert found == {"id": 7, "name": "x", "d": date(2026, 1, 31), "at": NOON.replace(microsecond=5),
                     "price": Decimal("12.34"), "_rescued": f'{{"doc":"{UNAVAILABLE}"}}',
                     "_cdc": ("U", "public.orders", "24023128")}  # fmt: skip
    plain = ValueFormat("connect_json", envelope="debezium")
    whole = columns(id="long", d="long", at="long", price="decimal(10,2)")
    (found,) = decode(plain, [value], whole)
    assert (found["d"], found["at"], found["price"]) == (DAY, AT_MS * 1000 + 5, Decimal("12.34"))


def test_without_schemas_no_unit_is_guessed() -> None:
    """A day is one day everywhere; of a moment nobody knows whether it is in milliseconds."""
    (found,) = decode(DEBEZIUM, [changed(MYSQL, "c", after={"id": 1, "d": DAY})])
    assert found["d"] == date(2026, 1, 31)
    moment = changed(MYSQL, "c", after={"id": 1, "at": AT_MS})
    assert codes(decode(DEBEZIUM, [moment])) == ["unknown_unit"]
    assert decode(DEBEZIUM, [moment], columns(id="long", at="long"))[0]["at"] == AT_MS
    untold = ValueFormat(envelope="debezium")
    assert codes(decode(untold, [changed(MYSQL, "c", after={"d": DAY})])) == ["type_mismatch"]
    zoned = changed(MYSQL, "c", after={"id": 1, "at": "2026-01-31T13:00:00+01:00"})
    assert decode(untold, [zoned])[0]["at"] == NOON


def test_the_row_is_judged_as_any_json() -> None:
    """Unknown fields, duplicates and misfits: the same words, with paths in the row."""
    found = decode(DEBEZIUM, [
        changed(MYSQL, "c", after={"id": "x"}), changed(MYSQL, "c", after={"id": 1, "more": {"b": [1.50, "x"]}}),
        b'{"op":"c","after":{"id":1,"id":2}}', b'{"op":"c","after":{"id":1,"m":{"b":1,"b":2}}}',
        changed(MYSQL, "c", after=[1]), changed(MYSQL, "c", after="x"),
    ])  # fmt: skip
    assert found[0] == "type_mismatch: $.id expected an integer, got a string"
    assert found[1]["_rescued"] == '{"more":{"b":[1.5,"x"]}}'
    assert found[2:] == ["duplicate_key: 'id' occurs twice in one object",
                         "duplicate_key: 'b' occurs twice in one object",
                         "no_image: $.after is an array", "no_image: $.after is a text"]  # fmt: skip


def test_what_is_no_envelope() -> None:
    """Heartbeats, changes of schemas, markers of transactions, and what is damaged: each has its reason."""
    good = text(changed(MYSQL, "c", after=NEW))
    cases: list[tuple[Any, str]] = [
        ({"ts_ms": AT_MS}, "no_envelope"), ({"op": 1}, "no_envelope"), ({"op": "x", "after": NEW}, "unknown_op"),
        ({"status": "BEGIN", "id": "571", "ts_ms": AT_MS}, "no_envelope"),
        ({"source": MYSQL, "ddl": "CREATE TABLE ...", "tableChanges": []}, "no_envelope"),
        ({"schema": None, "payload": changed(MYSQL, "c", after=NEW)}, "no_envelope"),
        (None, "tombstone"), (b"", "not_json"), (b"null", "not_object"), (b"[]", "not_object"),
        (good[:-1], "not_json"), (good + b"}", "not_json"), (good + b"{}", "not_json"),
        (b"\xef\xbb\xbf" + good, "not_json"),
        (good.replace(b'"new"', b'"\xff"'), "not_utf8"), (good.replace(b'"new"', b'"\\ud800"'), "not_json"),
        (good.replace(b'"op"', b'"op":"c","op"'), "duplicate_key"), (good.replace(b"484", b"NaN"), "not_json"),
        (good.replace(b'"pos"', b'"file":"x","pos"'), "duplicate_key"),
        (b'{"op":"c","after":' + b"[" * 300, "not_json"),
        (changed({**MYSQL, "ts_us": "x"}, "c", after=NEW), "bad_envelope"),
        (changed({**MYSQL, "ts_us": 2**62}, "c", after=NEW), "bad_envelope"),
        (changed({**MYSQL, "table": 5}, "c", after=NEW), "bad_envelope"),
        (changed({**MYSQL, "pos": [1]}, "c", after=NEW), "bad_envelope"),
        ({"op": "c", "after": NEW, "source": "x"}, "bad_envelope"),
    ]  # fmt: skip
    for value, code in cases:
        assert codes(decode(DEBEZIUM, [value])) == [code], value
    assert codes(decode(DEBEZIUM, [good, *(value for value, _ in cases), good])) == [
        "",
        *(code for _, code in cases),
        "",
    ]


def test_connect_alone() -> None:
    """The payload is the value; what stands around it has to be just that."""
    schema = envelope_schema()["fields"][0]
    plain = ValueFormat("connect_json", semantic_types="connect")
    good = text(with_schema({"id": 1, "d": DAY}, schema))
    cases: list[tuple[Any, str]] = [
        (good, ""), (with_schema({"id": 1}, None), ""), (with_schema(None, schema), "tombstone"),
        (with_schema(5, None), "not_object"), ({"payload": {}}, "no_envelope"), ({"id": 1}, "no_envelope"),
        ({**with_schema({}, None), "more": 1}, "no_envelope"), (with_schema({}, 5), "bad_schema"),
        (with_schema({}, {"type": "int128"}), "bad_schema"), (with_schema({}, {"type": "struct"}), "bad_schema"),
        (b'{"schema":null,"payload":{},"payload":{}}', "duplicate_key"), (good[:-1], "not_json"),
        (good + b"}", "not_json"),
        (b'{"schema":null,"payload":{"id":1}},"x":{}}', "not_json"),
        (b'{"schema":null,"payload":{"id":1,"id":1}}', "duplicate_key"),
        (b'{"schema":{"type":"int8","type":"int8"},"payload":{}}', "duplicate_key"), (b"[]", "not_object"),
        (None, "tombstone"),
    ]  # fmt: skip
    for value, code in cases:
        assert codes(decode(plain, [value])) == [code], value
    (found,) = decode(plain, [good])
    assert found == {"id": 1, "d": date(2026, 1, 31)}


# --- event type and time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (DEBEZIUM, [(changed(MYSQL, "c", after=NEW), "shop.orders"), (changed(POSTGRES, "t"), "public.orders")]),
        (DEBEZIUM, [(message(), "cdc_message"), ({"op": "c", "after": NEW}, "no_type"), (b"x", "not_json")]),
        (MONGODB, [(mongo("c", {}), "shop.orders"), (mongo("u"), "shop.orders")]),
        (OF_DMS, [(dms("insert", NEW), "shop.orders"), (dms_control("drop-table"), "shop.orders")]),
        (OF_DMS, [(dms_control("x", **{"table-name": None}), "cdc_control"), ({"data": NEW}, "no_envelope")]),
        (IN_CONNECT, [(with_schema(changed(MYSQL, "c", after=NEW), None), "shop.orders"), ({}, "no_envelope")]),
    ],
)
def test_the_event_type_is_the_source(form: ValueFormat, values: list[tuple[Any, str]]) -> None:
    """Schema, or database, and table; what names none has the reason that says what it is."""
    raws = [one if isinstance(one, bytes) else text(one) for one, _ in values]
    peek = format_of(form).peek(TypeFrom("source"))
    types, reasons = peek.types(pa.array([*raws, None], pa.binary()), pa.array([False] * (len(raws) + 1)))
    found = [name or reasons[row].partition(":")[0] for row, name in enumerate(types.to_pylist()[:-1])]
    assert found == [expected for _, expected in values] and not types[len(raws)].is_valid
    assert len(raws) not in reasons
    skipped = peek.types(pa.array(raws, pa.binary()), pa.array([True] * len(raws)))
    assert skipped[0].null_count == len(raws) and not skipped[1]


def test_a_type_may_be_any_text_of_the_envelope() -> None:
    """`source.table`, say; and a record of another type than it was routed by is refused."""
    for kind, name in ((TypeFrom("json", "source.table"), "orders"), (TypeFrom("source"), "shop.orders")):
        values = [changed(MYSQL, "c", after=NEW), changed({**MYSQL, "table": "other"}, "c", after=NEW)]
        assert codes(decode(DEBEZIUM, values, name=name, type_from=kind)) == ["", "type_mismatch"]
        types, _ = format_of(DEBEZIUM).peek(kind).types(pa.array([text(values[0])]), pa.array([False]))
        assert types.to_pylist() == [name]


def test_what_values_do_not_say_no_type_is_taken_from() -> None:
    """Without an envelope there is no source; JSON names no schema."""
    for form, kind in ((ValueFormat("connect_json"), "source"), (DEBEZIUM, "schema"), (ValueFormat(), "source")):
        with pytest.raises(ConfigError, match="name no"):
            format_of(form).peek(TypeFrom(kind))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "unit", "declared", "expected"),
    [
        ("source.ts_ms", "ms", {}, AT_MS * 1000),
        ("ts_ms", "ms", {}, AT_MS * 1000 + 123_000),
        ("ts_ms", "ms", {"ts_ms": "long"}, AT_MS * 1000 - 1000),
        ("made", "us", {}, AT_MS * 1000 - 5),
        ("source.at", "iso", {}, AT_MS * 1000 - 1_000_000),
    ],
)
def test_the_event_time_is_of_the_row_or_of_the_envelope(path: str, unit: Any, declared: Any, expected: int) -> None:
    """Of the envelope where the path begins with one of its members, unless a column is declared so."""
    source = {**MYSQL, "at": "2026-01-31T11:59:59.000000123Z"}
    change = changed(source, "c", after={"ts_ms": AT_MS - 1, "made": AT_MS * 1000 - 5})
    config = routing_of(columns(id="long", **declared), DEBEZIUM, event_time=EventTime("json", path, unit))
    decoded = decode_all(config, [text(change), text({**change, "source": {}, "after": {}, "ts_ms": None})], KAFKA_US)
    assert decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [expected]
    assert [reason.partition(":")[0] for _, _, reason in decoded.bad] == ["missing_event_time"]
    assert decoded.truncated == (1 if unit == "iso" else 0)


def test_an_event_time_of_another_kind_is_refused() -> None:
    """A text where an integer is expected, one that no clock shows, one beyond 64 bits."""
    for unit, value, code in (("ms", "x", "type_mismatch"), ("iso", 5, "type_mismatch"), ("iso", "x", "type_mismatch"),
                              ("iso", "2026-01-31T24:00:00Z", "type_mismatch"),
                              ("ms", 2**64, "out_of_range"), ("ms", True, "type_mismatch")):  # fmt: skip
        change = {**changed(MYSQL, "c", after=NEW), "ts_ns": value}
        assert codes(decode(DEBEZIUM, [change], event_time=EventTime("json", "ts_ns", unit))) == [code]  # type: ignore[arg-type]
