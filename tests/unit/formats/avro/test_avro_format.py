"""Avro as a format of values: frames, ids, schema files, event types; what is particular to it beside the contract."""

from __future__ import annotations

import io
import json
import random
import struct
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import Frame, ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.format import Avro
from exporter.formats.avro.schema import fingerprint, parsed
from exporter.formats.decoder import Decoder
from exporter.formats.format import Read

Spec = dict[str, Any]
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
FRAMED = ValueFormat("avro", "confluent")


def record(name: str, /, **fields: Any) -> Spec:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def body_of(spec: Spec, value: Any, named: dict[str, Any] | None = None) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(json.dumps(spec)), named or {}), value)
    return body.getvalue()


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + body


def known(*specs: Any) -> KnownSchemas:
    """Their ids are 1, 2 and so on."""
    return KnownSchemas({number: [SchemaText("AVRO", json.dumps(spec))] for number, spec in enumerate(specs, start=1)})


def files(*specs: Any, frame: Frame = "none", message: str = "") -> ValueFormat:
    texts = tuple((f"{number}.avsc", json.dumps(spec)) for number, spec in enumerate(specs))
    return ValueFormat("avro", frame, message=message, schemas=texts)


def columns(**kinds: Any) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return json.dumps({"type": "struct", "fields": fields})


def read(form: Avro, values: list[bytes | None], routing: Routing = PLAIN, **kinds: Any) -> Read:
    schema = form.schema(columns(**kinds), "order") if kinds else pa.schema([])
    reader = form.reader("order", schema, routing)
    return reader.read(pa.array(values, pa.binary()))


def types(form: Avro, source: TypeFrom, values: list[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    found, reasons = form.peek(source).types(pa.array(values, pa.binary()), pa.array([False] * len(values)))
    return found.to_pylist(), reasons


ORDER = record("shop.Order", id="long", name="string")


# --- frames ----------------------------------------------------------------------------------------------------


def test_rows_of_several_writers_come_back_in_their_order() -> None:
    """Three schemas at random, across blocks; each row by its own, with what the others have as null."""
    dice = random.Random(3)
    specs = [ORDER, record("shop.Order", name="string", id="int", extra="double"), record("shop.Order", id="long")]
    sent, values = [], []
    for row in range(20_000):
        which = dice.randrange(3)
        value = {"id": row, "name": f"n{row}", "extra": row / 2}
        sent.append((row, value["name"] if which < 2 else None, f'{{"extra":{row / 2}}}' if which == 1 else None))
        wanted = {field["name"]: value[field["name"]] for field in specs[which]["fields"]}
        values.append(framed(which + 1, body_of(specs[which], wanted)))
    found = read(Avro(FRAMED, known(*specs)), values, id="long", name="string")
    assert not found.refused and found.rows.to_pylist() == list(range(20_000))
    sides = [*(column.to_pylist() for column in found.columns), found.rescued.to_pylist()]
    assert list(zip(*sides, strict=True)) == sent


def test_what_has_no_frame_is_refused_and_so_is_an_id_without_a_schema() -> None:
    """Each with its own reason, and the others read."""
    schemas = KnownSchemas(
        {
            1: [SchemaText("AVRO", json.dumps(ORDER))],
            2: [SchemaText("JSON", "{}")],
            3: [SchemaText("AVRO", '"string"')],
            4: [SchemaText("AVRO", '{"type":')],
        }
    )
    good = framed(1, body_of(ORDER, {"id": 1, "name": "x"}))
    values = [
        good,
        b"",
        None,
        b"\0\0\0\0",
        b"\1" + good[1:],
        framed(9, b"x"),
        *(framed(n, b"\2\2x") for n in (2, 3, 4)),
        good,
    ]
    found = read(Avro(FRAMED, schemas), values, id="long")
    assert found.rows.to_pylist() == [0, 9]
    assert [found.refused[row].partition(" ")[0] for row in range(1, 6)] == [
        "not_framed:",
        "tombstone:",
        "not_framed:",
        "not_framed:",
        "unknown_schema_id:",
    ]
    assert [found.refused[row].partition(": ")[2][:24] for row in range(6, 9)] == [
        "id 2: it is no Avro sche",
        "id 3: $: string is no re",
        "id 4: it is no JSON: Exp",
    ]


def test_all_records_of_a_writer_that_never_fits_are_refused_alike() -> None:
    """With its id and the path: no column takes what is in the record, or no plan can be made."""
    kind: Any = "int"
    for _ in range(110):
        kind = {"type": "array", "items": kind}
    schemas = known(record("shop.Order", id="string"), record("L", next=kind))
    found = read(Avro(FRAMED, schemas), [framed(1, b"\2a"), framed(2, b"\2\0"), framed(1, b"\4ab")], id="long")
    assert found.refused[0] == found.refused[2] and found.refused[0].startswith("unresolvable_schema: id 1: $.id")
    assert found.refused[1].startswith("unresolvable_schema: id 2: $.next[]")
    assert found.refused[1].endswith("it is nested deeper than 100 levels")


def test_a_schema_file_of_the_writer_s_name_is_the_reader() -> None:
    """Its defaults and aliases count, by full name or by an alias of the record."""
    reader = record("shop.Order", id="long")
    reader["fields"] += [
        {"name": "title", "type": "string", "aliases": ["name"]},
        {"name": "level", "type": "int", "default": 3},
    ]
    form = replace(files({**reader, "aliases": ["old.Name"]}), frame="confluent")
    schemas = known(ORDER, {**ORDER, "name": "old.Name"}, {**ORDER, "name": "another.Name"})
    values = [framed(number, body_of(ORDER, {"id": 1, "name": "x"})) for number in (1, 2, 3)]
    found = read(Avro(form, schemas), values, title="string", level="integer")
    assert [column.to_pylist() for column in found.columns] == [["x", "x", None], [3, 3, None]]
    assert found.rescued.to_pylist() == ['{"id":1}', '{"id":1}', '{"id":1,"name":"x"}']


def single(spec: Spec, value: Any) -> bytes:
    return (
        b"\xc3\x01"
        + struct.pack("<Q", fingerprint(parsed(SchemaText("AVRO", json.dumps(spec)))))
        + body_of(spec, value)
    )


def test_single_objects_are_read_by_the_schema_of_their_fingerprint() -> None:
    """Also two versions of one record."""
    second = record("shop.Order", id="int", level="int")
    form = Avro(files(ORDER, second, frame="single_object"), KnownSchemas())
    good = single(ORDER, {"id": 1, "name": "x"})
    values = [
        good,
        single(second, {"id": 2, "level": 5}),
        b"\xc3\x01" + bytes(8) + good[10:],
        b"\xc3\x02" + good[2:],
        b"\xc3\x01",
        good,
    ]
    found = read(form, values, id="long", name="string")
    assert [column.to_pylist() for column in found.columns] == [[1, 2, 1], ["x", None, "x"]]
    assert {row: reason.partition(" ")[0] for row, reason in found.refused.items()} == {
        2: "unknown_schema_id:",
        3: "not_framed:",
        4: "not_framed:",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
        ("long", -3434872931120570953),
        ("float", 5583340709985441680),
        ("double", -8181574048448539266),
        ("bytes", 5746618253357095269),
        ("string", -8142146995180207161),
    ],
)
def test_fingerprints_are_those_of_the_specification(text: str, expected: int) -> None:
    """The known ones of the types without a name."""
    assert fingerprint(parsed(SchemaText("AVRO", json.dumps(text)))) == expected % 2**64


def test_a_fingerprint_knows_no_more_than_the_canonical_form() -> None:
    """As fastavro has it: no logical types, aliases, defaults or documents; full names."""
    spec = record(
        "a.b.R",
        when={"type": "long", "logicalType": "timestamp-micros"},
        e={"type": "enum", "name": "E", "symbols": ["A"]},
        f={"type": "fixed", "name": "o.F", "size": 3, "aliases": ["x"]},
        e2="E",
        m={"type": "map", "values": ["null", "R"]},
    )
    spec["fields"][0] |= {"default": 5, "doc": "x", "order": "ignore"}
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(json.dumps(spec)))
    expected = int.from_bytes(bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")), "little")
    assert fingerprint(parsed(SchemaText("AVRO", json.dumps(spec)))) == expected


# --- schema files and references -------------------------------------------------------------------------------


def test_unframed_values_are_of_the_one_record_that_there_is() -> None:
    """Or of the one that is named, wherever it is defined."""
    inside = record("shop.Item", price="int")
    two = files(record("A", x="int"), record("B", item=inside), message="shop.Item")
    assert read(Avro(two, KnownSchemas()), [b"\x04"], price="integer").columns[0].to_pylist() == [2]
    assert read(Avro(files(inside), KnownSchemas()), [b"\x04"], price="integer").columns[0].to_pylist() == [2]
    for form in (replace(two, message=""), replace(two, message="Item"), ValueFormat("avro")):
        with pytest.raises(ConfigError, match="schema files, which have: "):
            read(Avro(form, KnownSchemas()), [b"\x04"], price="integer")


def test_a_schema_file_of_which_no_value_can_be_read_is_told_at_the_start() -> None:
    """Before any record: when columns, a reader or a peek are asked for."""
    kind: Any = "int"
    for _ in range(110):
        kind = {"type": "array", "items": kind}
    form = Avro(files(record("R", x=kind)), KnownSchemas())
    for ask in (
        lambda: form.schema(columns(x="long"), "order"),
        lambda: form.peek(TypeFrom("json", "x")),
        lambda: form.reader("order", pa.schema([]), PLAIN),
    ):
        with pytest.raises(ConfigError, match=r"unresolvable_schema: \$\.x\[\]\[\].*: it is nested"):
            ask()


def test_schema_files_may_use_each_other_s_names() -> None:
    """In any order; what nobody defines, or two in different ways, is told at the start."""
    used, using = record("shop.Item", price="int"), record("shop.Order", items={"type": "array", "items": "shop.Item"})
    kind = {
        "type": "array",
        "containsNull": True,
        "elementType": {"type": "struct", "fields": json.loads(columns(price="integer"))["fields"]},
    }
    for specs in ((used, using), (using, used)):
        form = Avro(files(*specs, message="shop.Order"), KnownSchemas())
        assert read(form, [b"\x02\x04\x00"], items=kind).columns[0].to_pylist() == [[{"price": 2}]]
    for specs in ((using,), (used, record("shop.Item", price="long"), using)):
        with pytest.raises(ConfigError, match=r"schema file \d\.avsc: '?(nothing is called )?'shop.Item'"):
            Avro(files(*specs), KnownSchemas())


def test_references_of_a_registered_schema_are_found_at_any_depth() -> None:
    """One text may be referred to twice."""
    money = SchemaText("AVRO", json.dumps(record("x.Money", cents="long")))
    item = SchemaText("AVRO", json.dumps(record("x.Item", price="x.Money")), (("x.Money", money),))
    order = SchemaText("AVRO", json.dumps(record("x.Order", item="Item", total="x.Money")), (("a", item), ("b", money)))
    found = read(Avro(FRAMED, KnownSchemas({1: [order]})), [framed(1, b"\x02\x04")])
    assert found.rescued.to_pylist() == ['{"item":{"price":{"cents":1}},"total":{"cents":2}}']


# --- event types -----------------------------------------------------------------------------------------------


def test_the_schema_s_name_is_the_event_type_and_nothing_is_read_for_it() -> None:
    """In full or short; also of a body that is damaged, and of a schema that no table has."""
    schemas = known(ORDER, record("Bare", x="long"), record("shop.Odd", x={"type": "array", "items": "null"}))
    values = [framed(1, b""), framed(2, b"\2"), None, b"x", framed(3, b"")]
    form = Avro(FRAMED, schemas)
    assert types(form, TypeFrom("schema", "full"), values)[0] == ["shop.Order", "Bare", None, None, "shop.Odd"]
    found, reasons = types(form, TypeFrom("schema", "short"), values)
    assert found == ["Order", "Bare", None, None, "Odd"] and list(reasons) == [3]


def test_a_field_is_the_event_type_wherever_it_stands() -> None:
    """Below records, optional or not, an enum or a default; what is behind it is not read."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["new", "paid"]}
    specs = [
        record(
            "A",
            before={"type": "array", "items": "string"},
            head=["null", record("H", x="int", type="string")],
            tail="long",
        ),
        record("B", head=record("H", type=kind), tail="long"),
        record("C", head=record("H", x="int")),
        record("D", head=record("H", type="long")),
    ]
    values = [
        framed(1, b"\x02\x02a\x00\x02\x06\x06old"),
        framed(2, b"\x02"),
        framed(1, b"\x00\x00"),
        framed(3, b"\x02"),
        framed(4, b"\x02"),
        framed(1, b"\x02\x02a\x00\x02\x06\x00"),
        framed(1, b"\x02\x02"),
        framed(2, b"\x04"),
    ]
    found, reasons = types(Avro(FRAMED, known(*specs)), TypeFrom("json", "head.type"), values)
    assert found == ["old", "paid", None, None, None, None, None, None]
    assert [reasons[row] for row in range(2, 8)] == [
        "no_type: $.head.type is null or missing",
        "no_type: $.head.type is missing",
        "no_type: $.head.type is no text",
        "no_type: $.head.type is an empty string",
        "truncated: $.before[0] ends before its value does",
        "bad_enum: $.head.type is the number of no symbol",
    ]


def test_a_source_that_values_do_not_name_is_refused() -> None:
    """An envelope's, without one."""
    with pytest.raises(ConfigError, match="Avro values name no source"):
        Avro(FRAMED, KnownSchemas()).peek(TypeFrom("source"))


# --- values that Python has no object for ----------------------------------------------------------------------


def test_times_of_no_table_and_odd_numbers_end_nothing() -> None:
    """NaN and infinities are values; a time beyond the year 9999 is a reason, or text among unknown fields."""
    micros, date = {"type": "long", "logicalType": "timestamp-micros"}, {"type": "int", "logicalType": "date"}
    spec = record("R", at=micros, day=date, times={"type": "array", "items": micros}, value="double")
    odd = [b"\0\0\0" + struct.pack("<d", value) for value in (float("nan"), float("-inf"), -0.0)]
    far = [
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0\0" + bytes(8),
        b"\0\xfe\xff\xff\xff\x0f\0" + bytes(8),
        b"\0\0\x02\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0" + bytes(8),
    ]
    routing = replace(
        PLAIN, value_format=files(spec), types=(("order", columns(at="timestamp", day="date", value="double")),)
    )
    values = pa.array([*odd, *far], pa.binary())
    kafka = pa.array([1_769_860_800_000_000] * len(values), pa.timestamp("us", "UTC"))
    decoded = Decoder.of("order", routing).decode(values, kafka)
    assert decoded.good.to_pylist() == [0, 1, 2, 5]
    assert str(decoded.table["value"].to_pylist()[:3]) == "[nan, -inf, -0.0]"
    assert [reason.partition(" =")[0] for _, _, reason in decoded.bad] == ["out_of_range: $.at", "out_of_range: $.day"]
    assert "4611686018427387903" in decoded.table["_rescued"][3].as_py()


def test_nanoseconds_are_cut_and_counted() -> None:
    """Down, also before 1970; of good records."""
    spec = record("R", at={"type": "long", "logicalType": "timestamp-nanos"}, ok="boolean")
    values = [body_of(spec, {"at": nanos, "ok": True}) for nanos in (1_999, 2_000, -1)]
    found = read(Avro(files(spec), KnownSchemas()), [*values, values[0][:-1] + b"\x02"], at="timestamp")
    assert found.columns[0].cast(pa.int64()).to_pylist() == [1, 2, -1]
    assert found.truncated == 2 and list(found.refused) == [3]
