"""Values in Glue's frame: as AWS's own serialisers wrote them, and by a plain reading of each record by itself."""

from __future__ import annotations

import base64
import io
import json
import random
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.arrow.kafka_time import VALUE_BYTES
from exporter.column.spark_json import text_of
from exporter.column.types import StructType
from exporter.core.reasons import CODES
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import GUID, KnownSchemas, SchemaText, UnknownId, guid_number
from exporter.core.value_format import ValueFormat
from exporter.executor.framing import Framing
from exporter.executor.judge_dead_letters import missing_ids
from exporter.executor.readers import TaskReaders
from exporter.formats import glue
from exporter.formats.frames import framed, ids_without_text, read_values, readable, reframed
from exporter.formats.registered import registered
from exporter.proof.readers.reader import NoGoodRecord, Undecided
from exporter.proof.readers.reading import ValueReading
from exporter.registry.protobuf import as_one_set
from tests.support.framed import TP, batch_of, judged, read_all
from tests.support.orders import order_of

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "glue_frames.json").read_text())
"""Frames of software.amazon.glue:schema-registry-serde, and the schemas that it registered for them."""


def texts() -> KnownSchemas:
    """As they are recorded."""
    made = {UUID(name): SchemaText(one["kind"], one["text"]) for name, one in GOLDEN["schemas"].items()}
    return KnownSchemas({
        guid_number(name.bytes): [as_one_set(one) if one.kind == "PROTOBUF" else one] for name, one in made.items()
    })  # fmt: skip


def routing_of(form: ValueFormat) -> Routing:
    """Every type is a table, without columns: `_rescued` has the whole value."""
    kind = "topic" if form.kind == "json" else "schema"
    return Routing(TypeFrom(kind), EventTime("record"), (), new_type="table", value_format=form)  # type: ignore[arg-type]


def said(kind: str, value: bytes) -> tuple[str, dict[str, Any]]:
    """The type of a plain golden value and its fields, by fastavro, json and Google's library."""
    schema, body = GOLDEN["schemas"][str(UUID(bytes=value[2:18]))], value[18:]
    if kind == "json_schema":
        return "Order", json.loads(body)
    if kind == "avro":
        writer = fastavro.parse_schema(json.loads(schema["text"]))
        made: Any = fastavro.schemaless_reader(io.BytesIO(body), writer, None)
        return "shop.Order", {name: one for name, one in made.items() if one is not None}
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["avro", "json_schema"])
def test_what_aws_s_serialisers_write_is_read(kind: Any) -> None:
    """Compressed or not, by the schema that they registered; so by the audit, and by a replay of dead letters."""
    frames = [(one["compression"], bytes.fromhex(one["value"])) for one in GOLDEN["frames"] if one["kind"] == kind]
    wanted = [said(kind, value) for how, value in frames if how == "plain"]
    assert len(frames) == 2 * len(wanted) == 6
    form, known = ValueFormat(kind, "glue"), texts()
    batch = batch_of([value for _, value in frames])
    found = read_all(batch, routing_of(form), known)
    assert [(found[at].type, found[at].document) for at in range(6)] == wanted * 2
    reading = ValueReading(form, known)
    assert [reading.read(value, TP, 0).document for _, value in frames] == [
        {**dict.fromkeys(reading.read(value, TP, 0).document), **fields}
        for (_, value), (_, fields) in zip(frames, wanted * 2, strict=True)
    ]
    assert judged(batch, routing_of(form), known) == [[name] for name, _ in wanted * 2]
    (lacking,) = missing_ids(routing_of(form), KnownSchemas(), iter([batch]))
    assert {int(one) for one in lacking.column("id").to_pylist()} == {guid_number(value[2:18]) for _, value in frames}


def messages() -> dict[str, Any]:
    """Full name -> class, of the golden schemas, as Google's library makes them."""
    found: dict[str, Any] = {}
    for (schema,) in texts().decisions.values():
        if isinstance(schema, SchemaText) and schema.kind == "PROTOBUF":
            pool = descriptor_pool.DescriptorPool()
            (file,) = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema.text)).file
            todo = [*pool.AddSerializedFile(file.SerializeToString()).message_types_by_name.values()]
            while todo:
                one = todo.pop()
                found[one.full_name] = message_factory.GetMessageClass(one)
                todo += one.nested_types
    return found


def test_every_message_of_a_file_is_found_by_its_number() -> None:
    """Nested ones, names that differ by case, by a line below and by what follows them; so by the audit."""
    frames = [(one, bytes.fromhex(one["value"])) for one in GOLDEN["frames"] if one["kind"] == "protobuf"]
    form, known, classes = ValueFormat("protobuf", "glue"), texts(), messages()
    found = read_all(batch_of([value for _, value in frames]), routing_of(form), known)
    plain = {one["message"]: value for one, value in frames if one["compression"] == "plain"}
    reading = ValueReading(form, known)
    assert len(plain) == 10 and len(frames) == 20
    for at, (one, value) in enumerate(frames):
        message = classes[one["message"]].FromString(plain[one["message"]][19:])
        fields = {field.name: got for field, got in message.ListFields()}
        assert fields, "something is in it"
        assert found[at].type == one["message"], (found[at], one)
        assert fields.items() <= found[at].document.items()
        sent = reading.read(value, TP, at)
        exact = {name: got for name, got in fields.items() if type(got) is not float}
        assert sent.name == one["message"] and exact.items() <= dict(sent.document).items()


def test_a_map_is_one_though_its_entries_are_spelt_out() -> None:
    """AWS's serialisers register a text that no compiler takes."""
    (schema,) = next(one for one in texts().decisions.values() if one[0].kind == "PROTOBUF" and "Zebra" in
                     base64.b64decode(one[0].text).decode("latin-1"))  # type: ignore[union-attr]  # fmt: skip
    assert isinstance(schema, SchemaText) and not schema.why
    fields = json.loads(text_of(StructType(tuple(registered(schema).fields))))["fields"]
    columns = {one["name"]: one["type"] for one in fields}
    assert columns["counts"] == {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
    (guid,) = (name for name, one in texts().decisions.items() if one[0] == schema)
    raw = messages()["shop.Zebra"](id=1, counts={"a": 5}).SerializeToString()
    value = b"\3\0" + (guid - GUID).to_bytes(16, "big") + b"\5" + raw
    found = read_all(batch_of([value]), routing_of(ValueFormat("protobuf", "glue")), texts())
    assert found[0].document["counts"] == {"a": 5}


@pytest.mark.parametrize("number", [b"", b"\x80", b"\x0a", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\0"])
def test_a_number_that_no_message_has_is_refused(number: bytes) -> None:
    """And one that is cut off or too great; nothing is taken for the message of another number."""
    guid = next(bytes.fromhex(one["value"])[2:18] for one in GOLDEN["frames"] if one.get("message") == "shop.Zebra")
    form = ValueFormat("protobuf", "glue")
    found = read_all(batch_of([b"\3\0" + guid + number]), routing_of(form), texts())
    assert found[0].code == ("unresolvable_schema" if number == b"\x0a" else "not_framed"), found
    with pytest.raises(NoGoodRecord):
        ValueReading(form, texts()).read(b"\3\0" + guid + number, TP, 0)


# --- against a plain reading, record by record ---------------------------------------------------------------

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}
TEXT = SchemaText("AVRO", json.dumps(AVRO))
GUIDS = [bytes([n]) * 16 for n in (3, 0, 5, 255)]
"""Of which the first has a text, the second one later, the third is unknown, and of the last nothing is decided."""
KNOWN = KnownSchemas({
    guid_number(GUIDS[0]): [TEXT], guid_number(GUIDS[1]): [UnknownId({TP: 20}), TEXT],
    guid_number(GUIDS[2]): [UnknownId({TP: 10**9})],
})  # fmt: skip
FORM = ValueFormat("avro", "glue")


def body(number: int, text: str = "") -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": number, "s": text})
    return out.getvalue()


def plainly(value: bytes | None, offset: int) -> tuple[str, Any]:
    """What becomes of one record: its row, what is wrong with it, or that it waits."""
    if value is None:
        return "tombstone", None
    if len(value) < 18 or value[0] != 3 or value[1] not in (0, 5):
        return "not_framed", None
    name, rest = value[2:18], value[18:]
    if name not in GUIDS[:3] and not (name == GUIDS[1] and offset > 20):
        return "missing", name
    if value[1] == 5:
        try:
            rest = zlib.decompress(rest)
        except zlib.error:
            return "bad_zlib", None
        if len(zlib.compress(rest)) and not _is_all(value[18:]):
            return "bad_zlib", None
    if name == GUIDS[2] or (name == GUIDS[1] and offset <= 20):
        return "unknown_schema_id", str(UUID(bytes=name))
    stream = io.BytesIO(rest)
    try:
        found = fastavro.schemaless_reader(stream, fastavro.parse_schema(AVRO), None)
    except (EOFError, IndexError, ValueError):
        return "refused", None
    return ("refused", None) if stream.read(1) else ("row", found)


def _is_all(packed: bytes) -> bool:
    """zlib.decompress takes a second stream, or anything else, behind the first one for nothing."""
    reader = zlib.decompressobj()
    reader.decompress(packed)
    return reader.eof and not reader.unused_data


def odd(rng: random.Random, good: bytes) -> bytes | None:
    """A value that is damaged somehow, or not at all."""
    at = rng.randrange(len(good))
    return rng.choice([
        None, b"", good[:at], good + b"\0", good[:1] + bytes([rng.randrange(256)]) + good[2:],
        b"\0\0\0\0\7" + good[18:],
        good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :] if at < 2 or at > 17 else good[:18],
        good[:1] + bytes([5 - good[1]]) + good[2:], good + good[18:], bytes([4]) + good[1:],
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_every_record_is_what_it_is_by_itself(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good frames and damaged ones at random: the reading ends before the first that waits, and each before it is what
    a plain reading says, alone as in the batch, in however many parts that is read; so says the audit's."""
    rng = random.Random(seed)
    monkeypatch.setattr(glue, "PART_BYTES", rng.choice([1, 100, 1 << 20]))
    names = GUIDS[: 4 if rng.random() < 0.3 else 3]
    values = list[bytes | None]()
    for at in range(rng.randint(1, 60)):
        made = body(at, "x" * rng.randint(0, 60))
        name, is_packed = rng.choice(names), rng.random() < 0.5
        good = b"\3" + (b"\5" if is_packed else b"\0") + name + (zlib.compress(made) if is_packed else made)
        values.append(good if rng.random() < 0.7 else odd(rng, good))
    wanted = [plainly(value, at) for at, value in enumerate(values)]
    ends = next((at for at, (what, _) in enumerate(wanted) if what == "missing"), len(values))
    batch = batch_of(values)
    found = read_all(batch, routing_of(FORM), KNOWN)
    assert sorted(found) == list(range(ends))
    for at, (what, text) in enumerate(wanted[:ends]):
        verdict = found[at]
        if what == "row":
            assert verdict.document == text and not verdict.reason
        else:
            assert verdict.code == what or (what == "refused" and verdict.code in CODES), (at, verdict, what)
        assert read_all(batch.slice(at, 1), routing_of(FORM), KNOWN) == {at: verdict}
    told = Framing(lambda _: FORM, KNOWN)
    taken = [part for part, _ in told.cut(batch, TP)]
    assert sum(part.num_rows for part in taken) == ends
    assert {number for row in told.rows() for number in json.loads(row["ended"])["missing"]} == {
        guid_number(name) for what, name in wanted if what == "missing"
    }
    reading = ValueReading(FORM, KNOWN)
    for at, value in enumerate(values):
        if value is not None:
            try:
                assert wanted[at] == ("row", reading.read(value, TP, at).document)
            except (NoGoodRecord, Undecided) as error:
                waits = wanted[at][0] in ("missing", "unknown_schema_id")
                assert wanted[at][0] != "row" and (type(error) is NoGoodRecord or waits)
    by_text = judged(batch, routing_of(FORM), KNOWN)
    for at, (what, _) in enumerate(wanted):
        assert by_text[at] == (["Order"] if what == "row" else by_text[at] and ["Order"])
    lacking = ids_without_text(batch, FORM, KNOWN.texts)
    assert len(lacking) >= sum(what == "missing" for what, _ in wanted)


def test_a_value_that_would_fill_the_memory_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not inflated beyond the limit; what has just as many bytes is read."""
    monkeypatch.setattr(glue, "INFLATED_BYTES_MAX", 1_000)
    at_most = body(1, "x" * (1_000 - len(body(1, "x" * 900)) + 900))
    assert len(at_most) == 1_000
    beyond = at_most + b"\0"
    values = [b"\3\5" + GUIDS[0] + zlib.compress(one) for one in (at_most, beyond, b"\0" * 50_000_000, body(4))]
    found = read_all(batch_of(values), routing_of(FORM), KNOWN)
    assert [found[at].code for at in range(4)] == ["", "too_big", "too_big", ""]


def test_bombs_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are in a batch, few of them are in the memory at once, and each is read once."""
    monkeypatch.setattr(glue, "PART_BYTES", 1 << 20)
    bomb = b"\3\5" + GUIDS[0] + zlib.compress(body(7, "x" * 600_000))
    parts = list(Framing(lambda _: FORM, KNOWN).cut(batch_of([bomb] * 9), TP))
    assert [part.num_rows for part, _ in parts] == [2, 2, 2, 2, 1]
    assert all(frames is not None and read_values(part, frames).nbytes < 2 << 20 for part, frames in parts)
    assert [part.column("offset")[0].as_py() for part, _ in parts] == [0, 2, 4, 6, 8]
    assert judged(batch_of([bomb] * 9), routing_of(FORM), KNOWN) == [["Order"]] * 9


def test_a_damaged_value_is_no_record_without_one() -> None:
    """Where those are counted and in no table, it stays a dead letter."""
    values = [None, b"\3\5" + GUIDS[0], b"\3", b"\3\0" + GUIDS[0] + body(1)]
    batch = batch_of(values)
    found = framed(batch, TP, FORM, KNOWN)
    assert found is not None and sorted(found.unknown) == [1, 2]
    assert reframed(batch, found).column("value").is_null().to_pylist() == [True, False, False, False]


def test_what_is_measured_of_a_value_is_what_was_sent() -> None:
    """Also where only the first bytes of one that is too long are there: it is not called damaged."""
    packed = b"\3\5" + GUIDS[0] + zlib.compress(body(1, "x" * 1_000))
    batch = batch_of([packed, packed[:-3]]).append_column(VALUE_BYTES, pa.array([None, 10**8], pa.int64()))
    found = read_all(batch, routing_of(FORM), KNOWN)
    kept = f"the first {len(packed) - 3} are kept"
    assert found[0].document["id"] == 1
    assert found[1].reason == f"too_long: 100000000 bytes, the limit is 10000000, {kept}"
    small = TaskReaders(order_of("", replace(routing_of(FORM), record_bytes_max=18), {}, schemas=KNOWN))
    plain = batch_of([b"\3\0" + GUIDS[0] + body(1)])
    ((part, frames),) = Framing(lambda _: FORM, KNOWN).cut(plain, TP)
    (dead,) = small.router("t").route(readable(reframed(part, frames), frames)).dead.to_pylist()
    assert dead["reason"] == "too_long: 20 bytes, the limit is 18"


def test_values_behind_a_frame_whose_schema_nobody_needs() -> None:
    """JSON whose columns are declared: the frame is cut off, and no id is asked for."""
    form = ValueFormat("json", "glue")
    values = [b'\3\0' + GUIDS[3] + b'{"id":1}', b"\3\5" + GUIDS[2] + zlib.compress(b'{"id":2}'), b'{"id":3}']
    found = read_all(batch_of(values), routing_of(form), KnownSchemas())
    assert [found[at].document for at in range(2)] == [{"id": 1}, {"id": 2}]
    assert found[2].reason == "not_framed: the value begins with byte 7b, and not with 03"
    assert ids_without_text(batch_of(values), form, KnownSchemas()) == []
    reading = ValueReading(form, KnownSchemas())
    assert [reading.read(value, TP, 0).document for value in values[:2]] == [{"id": 1}, {"id": 2}]


def test_changes_of_a_database_are_read_behind_a_frame_as_without_one() -> None:
    """JSON with a registered schema, in Debezium's envelope."""
    form = ValueFormat("json_schema", "glue", "debezium")
    known = KnownSchemas({guid_number(GUIDS[0]): [SchemaText("JSON", '{"title": "shop.Envelope"}')]})
    change = b'{"before":null,"after":{"id":1},"source":{"schema":"shop","table":"orders"},"op":"c","ts_ms":1}'
    values = [b"\3\0" + GUIDS[0] + change, b"\3\5" + GUIDS[0] + zlib.compress(change)]
    found = read_all(batch_of(values), routing_of(form), known)
    assert [(found[at].type, found[at].document) for at in range(2)] == [("shop.Envelope", {"id": 1})] * 2
