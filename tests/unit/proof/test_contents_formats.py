"""What the exporter makes of values with schemas, the audit finds right: its decoders against the audit's reading."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from exporter.core.columns import EVOLVED
from exporter.core.evolved import combined
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText, UnknownId
from exporter.core.value_format import ValueFormat
from exporter.formats.decoder import Decoder
from exporter.formats.registered import registered
from exporter.operate.audit.rows import values_of
from exporter.proof.contents.compare import Configured
from exporter.proof.readers.reader import NoGoodRecord, Undecided
from exporter.proof.readers.reading import ValueReading
from offsets.ranges import TopicPartition
from tests.support import envelope_samples
from tests.support.proto_files import EVERY, classes, text_of
from tests.support.proto_fuzz import message
from tests.support.schemas import listed
from tests.support.shop_formats import Kind, order, texts, view
from tests.unit.formats.protobuf import test_known_types
from tests.unit.proof.test_contents_decoded import US, texts_of

TP = TopicPartition("t", 0)


def struct_json(fields: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": [*fields]})


def check(
    form: ValueFormat,
    values: list[bytes],
    known: Mapping[int, SchemaText],
    declared: Sequence[Mapping[str, Any]],
    evolved: Sequence[Mapping[str, Any]] = (),
    **changed: Any,
) -> int:
    """Decode values, and compare each row that comes of it with what the audit reads; how many rows."""
    said: dict[str, Any] = {"type_from": TypeFrom("header", "t"), "event_time": EventTime("record"), **changed}
    marked = [{**one, "nullable": True, "metadata": {EVOLVED: "t/0/0"}} for one in evolved]
    table_json = struct_json([*declared, *marked])
    routing = Routing(types=(("a", struct_json(declared)),), value_format=form, **said)
    schemas = KnownSchemas({number: [text] for number, text in known.items()})
    columns = combined(struct_json(declared), table_json)
    decoder = Decoder.of("a", routing, columns, topic=TP.topic, schemas=schemas)
    decoded = decoder.decode(pa.array(values, pa.binary()), pa.array([1_741_608_000_000_000] * len(values), US))
    table = decoded.table.combine_chunks()
    names = table.column_names[: table.column_names.index("_rescued")]
    held = [values_of(table[name].combine_chunks()) for name in names]
    configured, reading = Configured.of(routing, "a", table_json), ValueReading(form, schemas)
    for at, row in enumerate(decoded.good.to_pylist()):
        columns_of = {name: column[at] for name, column in zip(names, held, strict=True) if column[at] is not None}
        for rescued in texts_of(table, at):
            found = configured.differences(
                values[row], columns_of, rescued, None, lambda value: reading.read(value, TP, 0).document
            )
            assert not found, (values[row], columns_of, rescued, found)
    return len(decoded.good)


def test_what_is_changed_in_a_row_would_be_found() -> None:
    """The comparison above can fail."""
    reading = ValueReading(ValueFormat("avro", "confluent"), KnownSchemas({2: [texts("avro")[2]]}))
    declared = struct_json([{"name": "id", "type": "long", "nullable": True, "metadata": {}}])
    configured = Configured.of(Routing(TypeFrom("topic"), EventTime("record"), (("a", declared),)), "a", declared)
    found = configured.differences(
        view("avro", 2), {"id": 1}, None, None, lambda value: reading.read(value, TP, 0).document
    )
    assert [one.path for one in found] == ["$.id", "$.at", "$.page"]


def test_what_a_replay_may_have_known_is_no_finding() -> None:
    """A record whose id was unknown is a dead letter; where a replay was since there was a text, it may be a row."""
    known = KnownSchemas({2: [UnknownId({TP: 5}), texts("avro")[2]]})
    for replayed, error in ({}, NoGoodRecord), ({TP: 3}, Undecided), ({TP: 2}, NoGoodRecord):
        with pytest.raises(error):
            ValueReading(ValueFormat("avro", "confluent"), known, replayed).read(view("avro", 2), TP, 3)
    assert (
        ValueReading(ValueFormat("avro", "confluent"), known, {TP: 9}).read(view("avro", 2), TP, 6).document["id"] == 2
    )


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_columns_that_come_of_a_schema(kind: Kind) -> None:
    """All of them, none of them, and half of them declared; what a later writer has is in `_rescued`."""
    known, form = texts(kind), ValueFormat(kind, "confluent")
    values = [order(kind, n) for n in range(5)] + [order(kind, n, extra="é") for n in range(5)]
    fields = listed(registered(known[1]).fields)
    for declared, evolved in ((fields, ()), (fields[:5], fields[5:]), ((), fields), ((), fields[:3])):
        assert check(form, values, known, declared, evolved) == 10
    assert check(form, values, known, fields, unknown_fields="dead_letter") == 5
    assert check(form, values, known, fields, unknown_fields="ignore") == 10


KINDS: list[Any] = [
    "boolean", "int", "long", "float", "double", "string", "bytes",
    {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-micros"}, {"type": "int", "logicalType": "time-millis"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
]  # fmt: skip


class Random:
    """Random Avro schemas, and values of them as fastavro writes them without their logical types."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._names = 0

    def record(self, depth: int = 0) -> dict[str, Any]:
        """A record of a few fields."""
        self._names += 1
        name = f"a.R{self._names}"
        fields = [{"name": f"f{at}", "type": self.kind(depth)} for at in range(self._rng.randint(1, 5))]
        return {"type": "record", "name": name, "fields": fields}

    def kind(self, depth: int) -> Any:
        """Any type; not too deep."""
        roll = self._rng.random()
        if roll < 0.55 or depth > 2:
            return self._rng.choice(KINDS)
        if roll < 0.65:
            return self.record(depth + 1)
        if roll < 0.72:
            self._names += 1
            return {"type": "enum", "name": f"E{self._names}", "symbols": ["A", "B", "C"]}
        if roll < 0.76:
            self._names += 1
            return {"type": "fixed", "name": f"F{self._names}", "size": 3}
        if roll < 0.84:
            return {"type": self._rng.choice(("array", "map")), "items": self.kind(depth + 1), "values": "long"}
        if roll < 0.95:
            return ["null", self._plain(depth)]
        return self._rng.choice((["int", "long"], ["null", "string", "long"], ["float", "double"]))

    def _plain(self, depth: int) -> Any:
        kind = self.kind(depth + 1)
        return self._rng.choice(KINDS) if isinstance(kind, list) or kind == "null" else kind

    def value(self, kind: Any) -> Any:
        """A value of a type."""
        rng = self._rng
        if isinstance(kind, list):
            picked = rng.choice(kind)
            return None if picked == "null" else self.value(picked)
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "record":
            return {one["name"]: self.value(one["type"]) for one in kind["fields"]}
        if name == "enum":
            return rng.choice(kind["symbols"])
        if name == "fixed":
            return rng.randbytes(3)
        if name == "array":
            return [self.value(kind["items"]) for _ in range(rng.choice((0, 1, 3)))]
        if name == "map":
            return {rng.choice(("k", "é", "")): self.value(kind["values"]) for _ in range(rng.choice((0, 1, 3)))}
        if not isinstance(kind, str) and kind.get("logicalType") == "decimal":
            number = rng.randint(-(10**9), 10**9)
            return number.to_bytes(5, "big", signed=True)
        bits = {"int": 31, "long": 63}.get(name, 0)
        if bits:
            wide = rng.choice((7, bits - 12, bits))
            return rng.randint(-(2**wide), 2**wide - 1)
        return {
            "boolean": lambda: rng.random() < 0.5,
            "float": lambda: struct.unpack("f", rng.randbytes(4))[0],
            "double": lambda: rng.choice((0.1, -0.0, float("inf"), float("nan"), rng.uniform(-1e9, 1e9))),
            "string": lambda: rng.choice(("", "a", "é😀", "\0")),
            "bytes": lambda: rng.randbytes(rng.choice((0, 1, 5))),
        }[name]()


def _spoilt(rng: random.Random, body: bytes) -> bytes:
    """Now and then with another byte, or shorter, or longer."""
    roll = rng.random()
    if roll < 0.7 or not body:
        return body
    at = rng.randrange(len(body))
    if roll < 0.85:
        return body[:at] + bytes([rng.randrange(256)]) + body[at + 1 :]
    return body[:at] if roll < 0.95 else body + b"\0"


def avro_case(seed: int, kind: type[Random] = Random) -> tuple[SchemaText, list[bytes]]:
    """A schema and framed values, some of them damaged."""
    made, rng = kind(seed), random.Random(seed)
    schema = made.record()
    stripped = fastavro.parse_schema(json.loads(json.dumps(schema).replace('"logicalType"', '"was"')))
    values = []
    for _ in range(30):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, stripped, made.value(schema))
        values.append(b"\0\0\0\0\1" + _spoilt(rng, stream.getvalue()))
    return SchemaText("AVRO", json.dumps(schema)), values


@pytest.mark.parametrize("seed", range(40))
def test_whatever_avro_has(seed: int) -> None:
    """Random schemas and values, damaged ones among them: each row is what fastavro reads, and so is `_rescued`."""
    text, values = avro_case(seed)
    fields = listed(registered(text).fields)
    form = ValueFormat("avro", "confluent")
    half = len(fields) // 2
    good = check(form, values, {1: text}, fields)
    assert check(form, values, {1: text}, fields[:half], fields[half:]) >= good
    check(form, values, {1: text}, (), fields[half:])


class Odd(Random):
    """Beside all others what no column can hold: records in themselves, branches without fields or of one name."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._open: list[str] = []
        self.named: dict[str, Any] = {}
        self._deep = 0

    def record(self, depth: int = 0) -> dict[str, Any]:
        """It may stand in itself."""
        self._open.append(f"a.R{self._names + 1}")
        made = super().record(depth)
        self._open.pop()
        self.named[made["name"]] = made
        return made

    def kind(self, depth: int) -> Any:
        """Odd in a third of all cases."""
        roll = self._rng.random()
        if roll < 0.66:
            return super().kind(depth)
        self._names += 1
        empty = {"type": "record", "name": f"a.E{self._names}", "fields": []}
        alike = [{"type": "record", "name": f"{space}.Same{self._names}", "fields": [{"name": "x", "type": "int"}]}
                 for space in "abA"]  # fmt: skip
        self.named |= {one["name"]: one for one in (empty, *alike)}
        again = self._rng.choice(self._open)
        return self._rng.choice([
            ["null", empty], [empty, "string"], alike, ["null", *alike], [again, "null"], ["null", again, "long"],
            {"type": "array", "items": again}, {"type": "map", "values": ["null", again]},
            {"type": "map", "values": empty}, {"type": "map", "values": "null"}, empty, "null",
            {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 3},
        ])  # fmt: skip

    def value(self, kind: Any) -> Any:
        """Records in themselves end sooner or later."""
        if isinstance(kind, list):
            some = [one for one in kind if one == "null"] if self._deep > 6 and "null" in kind else kind
            picked = self._rng.choice(some)
            name = picked if isinstance(picked, str) else picked.get("name")
            made = self.value(picked)
            return (name, made) if name in self.named and self.named[name]["type"] == "record" else made
        if kind == "null" or (isinstance(kind, str) and kind in self.named):
            return None if kind == "null" else self.value(self.named[kind])
        self._deep += 1
        try:
            if not isinstance(kind, str) and kind["type"] in ("array", "map") and self._deep > 6:
                return [] if kind["type"] == "array" else {}
            return super().value(kind)
        finally:
            self._deep -= 1


@pytest.mark.parametrize("seed", range(80))
def test_what_no_column_can_hold_is_in_rescued_and_refuses_nothing(seed: int) -> None:
    """Random schemas with such fields and branches: each row is what fastavro reads, in columns and `_rescued`."""
    text, values = avro_case(seed, Odd)
    fields, form = listed(registered(text).fields), ValueFormat("avro", "confluent")
    good = check(form, values, {1: text}, fields)
    assert 0 < check(form, values, {1: text}, (), fields) >= good
    assert check(form, values, {1: text}, ()) >= good


@pytest.mark.parametrize("seed", range(20))
def test_whatever_protobuf_has(seed: int) -> None:
    """Random messages of every kind of field, broken ones among them: each row is what Google's parser reads."""
    rng, made = random.Random(seed), classes(EVERY)["every.Every"]
    text = SchemaText("PROTOBUF", text_of(EVERY))
    values = [b"\0\0\0\0\1\0" + message(rng, made.DESCRIPTOR, rng.choice((0.0, 0.0, 0.02))) for _ in range(30)]
    fields = listed(registered(text).fields)
    form = ValueFormat("protobuf", "confluent")
    half = len(fields) // 2
    check(form, values, {1: text}, fields)
    check(form, values, {1: text}, fields[:half], fields[half:])
    check(form, values, {1: text}, (), fields[half:])
    with pytest.raises(NoGoodRecord):
        ValueReading(form, KnownSchemas({1: [text]})).read(values[0] + b"\x07", TP, 0)


@pytest.mark.parametrize("seed", range(5))
def test_dates_and_decimals_that_connect_registers(seed: int) -> None:
    """As columns of their own, as STRUCTs where a table has that, and in `_rescued`."""
    rng = random.Random(seed)
    orders = [
        {
            "price": test_known_types.decimal(rng.randint(-(10**8), 10**8), rng.choice((0, 2, 2, 2, 5))),
            "prices": [test_known_types.decimal(rng.randint(-999, 999), 2)] * rng.randint(0, 2),
            "whole": test_known_types.decimal(rng.randint(-(10**38), 10**38), 0),
            "any": test_known_types.decimal(5, 3),
            "day": {"year": rng.randint(1, 9999), "month": rng.randint(1, 12), "day": rng.randint(1, 31)},
            "days": {"a": {"year": 2000, "month": 2, "day": 29}},
        }
        for _ in range(40)
    ]
    text = test_known_types.known().text(1)
    assert text is not None
    fields, form, values = listed(registered(text).fields), test_known_types.FORM, test_known_types.values(*orders)
    assert 0 < check(form, values, {1: text}, fields) < 40
    assert check(form, values, {1: text}, fields[:4], fields[4:]) < 40
    check(form, values, {1: text}, (), fields[:1])
    day = {"type": "struct", "fields": columns(year="integer", month="integer", day="integer")}
    price = {"type": "struct", "fields": columns(value="binary", precision="long", scale="integer")}
    well = [{"day": {"year": 1, "month": 1, "day": 1 + n}, "price": test_known_types.decimal(n, 2)} for n in range(9)]
    assert check(form, test_known_types.values(*well), {1: text}, columns(day=day), columns(price=price)) == 9
    reading = ValueReading(form, KnownSchemas({1: [text]}))
    with pytest.raises(Undecided):
        reading.read(test_known_types.values({"day": {"year": 2024}})[0], TP, 0)


ROW = {"id": 7, "name": "é", "total": 1.5, "day": 20_484, "doc": envelope_samples.UNAVAILABLE, "more": {"a": [1, None]}}


def columns(**kinds: Any) -> list[dict[str, Any]]:
    """Fields of a Spark schema."""
    return [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]


def of_debezium() -> list[bytes]:
    """Of each kind of change, with rows that differ."""
    made = [
        envelope_samples.changed(source, op, before={**ROW, "id": 8}, after=None if op == "d" else ROW)
        for source in (envelope_samples.MYSQL, envelope_samples.POSTGRES)
        for op in "crud"
    ]
    bad = [envelope_samples.changed(envelope_samples.MYSQL, op) for op in "tcx"]
    return [envelope_samples.text(one) for one in [*made, *bad, envelope_samples.message()]]


def test_rows_in_envelopes() -> None:
    """Of Debezium and of DMS, with columns declared and grown; a value that was not sent is null, and told."""
    declared, grown = columns(id="long", doc="string"), columns(name="string", total="double")
    form = ValueFormat(envelope="debezium", semantic_types="connect")
    assert check(form, of_debezium(), {}, declared, grown) == 8
    assert check(form, of_debezium(), {}, [*declared, *columns(day="date")]) == 8
    assert check(form, of_debezium(), {}, ()) == 8
    changes = [envelope_samples.dms(op, {**ROW, "doc": "x"}) for op in ("load", "insert", "update", "delete")]
    changes.append(envelope_samples.dms_control("create-table"))
    assert check(ValueFormat(envelope="dms"), list(map(envelope_samples.text, changes)), {}, declared, grown) == 4


@pytest.mark.parametrize("semantic_types", ["none", "connect"])
def test_rows_beside_their_schema(semantic_types: Any) -> None:
    """Connect's JSON, where numbers are days, instants and decimals by the names of their types."""
    known = envelope_samples
    schema = known.structure(
        known.typed("int64", "id"), known.typed("int32", "day", "org.apache.kafka.connect.data.Date"),
        known.typed("int64", "at", "org.apache.kafka.connect.data.Timestamp"),
        known.typed("int64", "micros", "io.debezium.time.MicroTimestamp"), known.decimal(2, "price"),
    )  # fmt: skip
    rows = [
        {"id": 1, "day": 20_484, "at": known.AT_MS, "micros": known.AT_MS * 1_000 + 1, "price": "AP8="},
        {"id": 2, "day": -1, "at": -1, "micros": 0, "price": "/w=="},
        {"id": 3, "day": None, "at": None, "micros": None, "price": None},
    ]
    values = [known.text(known.with_schema(row, schema)) for row in rows]
    form = ValueFormat("connect_json", semantic_types=semantic_types)
    typed = columns(day="date", at="timestamp", price="decimal(10,2)")
    assert check(form, values, {}, typed, columns(id="long")) == 3
    assert check(form, values, {}, (), columns(at="string", micros="string", day="string", price="double")) == 3


def test_texts_and_bytes_as_they_are() -> None:
    """One column, value."""
    values = [b"", b"a", "é\0".encode(), b"\xff"]
    assert check(ValueFormat("bytes"), values, {}, columns(value="binary")) == 4
    assert check(ValueFormat("string"), values, {}, columns(value="string")) == 3


def test_json_behind_a_frame() -> None:
    """With an id that means nothing here, and with one that is decided."""
    values = [b"\0\0\0\0\1" + one for one in (b'{"id":1,"x":[0.10]}', b"[]", b'{"id":2}', b"")] + [b'{"id":3}']
    assert check(ValueFormat("json", "confluent"), values, {}, columns(id="long")) == 2
    schema = SchemaText("JSON", '{"type":"object","properties":{"id":{"type":"integer"}}}')
    assert check(ValueFormat("json_schema", "confluent"), values, {1: schema}, columns(id="long")) == 2


def test_what_no_column_can_hold() -> None:
    """A record without fields and null say nothing; the bytes of a number of too many digits are in `_rescued`."""
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
    fields = [{"name": "id", "type": "int"}, {"name": "wide", "type": wide}, {"name": "nothing", "type": "null"},
              {"name": "empty", "type": {"type": "record", "name": "E", "fields": []}}]  # fmt: skip
    schema = {"type": "record", "name": "R", "fields": fields}
    text = SchemaText("AVRO", json.dumps(schema))
    values = [b"\0\0\0\0\1" + body for body in (b"\2\4\1\0", b"\4\0")]
    assert check(ValueFormat("avro", "confluent"), values, {1: text}, listed(registered(text).fields)) == 2
    assert check(ValueFormat("avro", "confluent"), values, {1: text}, (), listed(registered(text).fields)) == 2
