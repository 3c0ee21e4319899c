"""Schemas that headers name: by Confluent's own serialisers, and by a plain reading of each record by itself."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import GUID, ID_MAX, KnownSchemas, SchemaText, UnknownId, guid_number
from exporter.core.value_format import ValueFormat
from exporter.executor.framing import Framing
from exporter.executor.judge_dead_letters import missing_ids
from exporter.executor.readers import TaskReaders
from exporter.formats.frames import framed, ids_without_text, readable, reframed
from exporter.proof.readers.reader import NoGoodRecord, Undecided
from exporter.proof.readers.reading import ValueReading
from exporter.registry.options import RegistryOptions
from exporter.registry.source import Registry
from exporter.stores.memory import MemoryStore
from tests.contract.test_format import struct
from tests.support.fake_registry import FakeRegistry
from tests.support.framed import TP, batch_of, judged, read_all
from tests.support.orders import order_of
from tests.support.proto_files import EVERY, classes

NAMING = "__value_schema_id"
AVRO = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}
JSON_SCHEMA = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
COLUMNS = struct(("id", "long", True))
SERIALIZERS: dict[str, Any] = {
    "avro": lambda client, conf: AvroSerializer(client, json.dumps(AVRO), conf=conf),
    "json_schema": lambda client, conf: JSONSerializer(json.dumps(JSON_SCHEMA), client, conf=conf),
    "protobuf": lambda client, conf: ProtobufSerializer(
        classes(EVERY)["every.Inner"], client, {**conf, "use.deprecated.format": False}
    ),
}


def routing_of(form: ValueFormat) -> Routing:
    return Routing(TypeFrom("topic"), EventTime("record"), (("t", COLUMNS),), value_format=form)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as found:
        yield found


@pytest.mark.parametrize("kind", SERIALIZERS)
def test_what_confluent_s_header_serialisers_write_is_read(
    registry: FakeRegistry, store: MemoryStore, kind: Any
) -> None:
    """Nothing stands before the value, and nothing is lost: the GUID is looked up, recorded, and read by; so by the
    audit, and by a replay of a dead letter. A record with a frame beside it is read as ever."""
    client = SchemaRegistryClient({"url": registry.url})
    registry.add("other", '"long"')  # so that ids and GUIDs are not the same in number
    form, field = ValueFormat(kind, "confluent"), {"protobuf": "x"}.get(kind, "id")
    conf = {"schema.id.serializer": header_schema_id_serializer}
    rows = [(SERIALIZERS[kind](client, conf if n != 1 else {}), {field: n + 5}) for n in range(3)]
    values, headers = list[bytes | None](), list[Any]()
    for write, fields in rows:
        context = SerializationContext("t", MessageField.VALUE, [])
        values.append(write(classes(EVERY)["every.Inner"](**fields) if kind == "protobuf" else fields, context))
        headers.append(context.headers)
    assert [len(one) for one in headers] == [1, 0, 1] and headers[0][0][0] == NAMING
    batch = batch_of(values, headers)
    pinned = Registry(RegistryOptions((registry.url,)), store)
    pinned.start()
    framing = Framing(lambda _: form, pinned.known("default"))
    assert next(framing.cut(batch, TP))[0].num_rows == 0
    (told,) = framing.rows()
    guid, number = sorted(json.loads(told["ended"])["missing"], reverse=True)
    assert guid >= GUID and number <= ID_MAX
    for one in (guid, number):
        assert pinned.look_up("default", one, {TP: 3}, now=0.0) is not None
    folder = f"_schemas.guids/default/{UUID(bytes=headers[0][0][1][1:17])}"
    assert json.loads(store.read(f"{folder}/0.json"))["guid"] == folder.rpartition("/")[2]
    known = Registry(RegistryOptions(), store).known("default")
    assert [one.document[field] for one in read_all(batch, routing_of(form), known).values()] == [5, 6, 7]
    reading = ValueReading(form, known)
    documents = [reading.read(value or b"", TP, at, told).document for at, value, told in as_spark(batch)]
    assert [one[field] for one in documents] == [5, 6, 7]
    assert judged(batch, routing_of(form), known) == [["t"]] * 3
    (lacking,) = missing_ids(routing_of(form), KnownSchemas(), iter([batch]))
    assert sorted(map(int, lacking.column("id").to_pylist())) == [number, guid, guid]


def as_spark(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes | None, Any]]:
    return zip(*(batch.column(name).to_pylist() for name in ("offset", "value", "headers")), strict=True)


def test_a_registry_that_has_no_guids_says_so(registry: FakeRegistry, store: MemoryStore) -> None:
    """That no schema is of a GUID counts as of an id, and only from a registry that is the one that it was; nobody
    waits for ever. A replay brings the record in once the registry knows better."""
    number = registry.add("orders-value", json.dumps(AVRO))
    guid = guid_number(UUID(registry.guid(number)).bytes)
    registry.has_guids = False
    source = Registry(RegistryOptions((registry.url,), unknown_after_secs=0.0), store)
    source.start()
    assert source.look_up("default", number, {TP: 3}, now=0.0) is not None
    assert source.look_up("default", guid, {TP: 3}, now=0.0) == UnknownId({TP: 2})
    registry.has_guids = True
    assert isinstance(source.look_up("default", guid, {}, now=60.0), SchemaText)
    again = Registry(RegistryOptions(), store).known("default")
    assert again.of(guid, TP, 2) == UnknownId({TP: 2}) and again.of(guid, TP, 3) == again.text(number)


def test_ids_are_not_vouched_for_by_guids(registry: FakeRegistry, store: MemoryStore) -> None:
    """A registry that was wiped and filled anew gives the same GUIDs, and other ids: that it does not know one of them
    means nothing then."""
    number = registry.add("orders-value", json.dumps(AVRO), number=700)
    guids = [guid_number(UUID(registry.guid(registry.add(f"s{n}", f'{{"type":"fixed","name":"F{n}","size":1}}'))).bytes)
             for n in range(8)]  # fmt: skip
    source = Registry(RegistryOptions((registry.url,), unknown_after_secs=0.0), store)
    source.start()
    for one in (number, *guids):
        source.look_up("default", one, {TP: 3}, now=0.0)
    del registry.schemas[700]
    with pytest.raises(Exception, match="no longer knows ids that it gave"):
        source.look_up("default", 701, {TP: 3}, now=1.0)


# --- against a plain reading, record by record ---------------------------------------------------------------

TEXT = SchemaText("AVRO", json.dumps(AVRO))
GUIDS = [bytes([n]) * 16 for n in range(4)]
"""Of which the first has a text, the second one later, the third is unknown, and of the last nothing is decided."""
KNOWN = KnownSchemas({
    7: [TEXT], 8: [UnknownId({TP: 30})],
    guid_number(GUIDS[0]): [TEXT], guid_number(GUIDS[1]): [UnknownId({TP: 20}), TEXT],
    guid_number(GUIDS[2]): [UnknownId({TP: 10**9})],
})  # fmt: skip
GOOD = [b"\0\0\0\0\7", b"\0\0\0\0\x08", *(b"\1" + one for one in GUIDS[:3])]


def body(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"id": number})
    return out.getvalue()


def plainly(value: bytes | None, headers: list[tuple[str, bytes | None]], offset: int) -> tuple[str, Any]:
    """What becomes of one record: its id and row, what is wrong with it, or that it waits."""
    if value is None:
        return "tombstone", None
    said = ([text for name, text in headers if name == NAMING] or [None])[-1]
    frame, rest = (value, value[5:]) if said is None else (said, value)
    if frame[:1] == b"\0" and len(frame) >= 5:
        name: int | bytes = int.from_bytes(frame[1:5], "big")
    elif said is not None and said[:1] == b"\1" and len(said) >= 17:
        name = said[1:17]
    else:
        return "not_framed", None
    if name == 7 or name == GUIDS[0] or (name == GUIDS[1] and offset > 20):
        number = fastavro.schemaless_reader(io.BytesIO(rest), fastavro.parse_schema(AVRO), None)
        return "row", number["id"]  # type: ignore[index,call-overload]
    if (name == 8 and offset <= 30) or name in (GUIDS[1], GUIDS[2]) or (isinstance(name, int) and name > ID_MAX):
        return "unknown_schema_id", str(UUID(bytes=name)) if isinstance(name, bytes) else str(name)
    return "missing", name


@pytest.mark.parametrize("seed", range(60))
def test_every_record_is_what_it_is_by_itself(seed: int) -> None:
    """Frames and headers mixed at random, damaged ones, several of a name, values that look like frames: the reading
    ends before the first that waits, and each before it is what a plain reading says; so says the audit's."""
    rng = random.Random(seed)
    waits = rng.random() < 0.3
    names = GOOD + ([b"\1" + GUIDS[3], b"\0\0\0\0\x09"] if waits else [])
    values, headers = list[bytes | None](), list[Any]()
    for at in range(rng.randint(1, 60)):
        odd = rng.choice([b"", b"\1", b"\2" * 17, b"\0\0\0", b"\1" * 16, b"\0\xff\xff\xff\xff", b"\0\x80\0\0\0", None])
        name = rng.choice(names) if rng.random() < 0.85 else odd
        if rng.random() < 0.4 and (name is None or name[:1] != b"\1"):
            values.append(None if rng.random() < 0.05 else (name or b"") + (body(at) if name else b""))
            headers.append([("other", b"\1" + GUIDS[0])] * rng.randint(0, 2))
        else:
            looks = rng.choice(names[:2]) if name and name[:1] == b"\2" else b""
            values.append(rng.choice([None, *[looks + body(at)] * 20]))
            headers.append([*[(NAMING, rng.choice(names))] * rng.randint(0, 2), ("x", b""), (NAMING, name)])
    wanted = [plainly(value, told, at) for at, (value, told) in enumerate(zip(values, headers, strict=True))]
    ends = next((at for at, (what, _) in enumerate(wanted) if what == "missing"), len(values))
    form = ValueFormat("avro", "confluent")
    batch = batch_of(values, headers)
    everything = framed(batch, TP, form, KNOWN)
    assert everything is not None
    missing = {one if one < GUID else (one - GUID).to_bytes(16, "big") for one in everything.missing}
    assert missing == {name for what, name in wanted if what == "missing"}
    reading = ValueReading(form, KNOWN)
    for at, value, told in as_spark(batch):
        what, text = wanted[at]
        if value is None:
            continue
        try:
            assert (what, reading.read(value, TP, at, told).document["id"]) == (what, text)
        except (NoGoodRecord, Undecided) as error:
            assert (type(error) is Undecided) == (what == "missing") and what != "row"
    read = read_all(batch, routing_of(form), KNOWN)
    assert sorted(read) == list(range(ends))
    for at, (what, text) in enumerate(wanted[:ends]):
        if what == "row":
            assert read[at].document == {"id": text}
        else:
            assert read[at].code == what and (text is None or read[at].reason.endswith(str(text)))
    texts = ids_without_text(batch, form, KNOWN.texts)
    assert len(texts) == sum(1 for what, name in wanted if (what == "missing" or what == "unknown_schema_id")
                             and name not in (str(UUID(bytes=GUIDS[1])), "4294967295", "2147483648"))  # fmt: skip


def test_what_is_measured_of_a_value_is_what_was_sent() -> None:
    """A frame that is made for a reader counts for no limit."""
    form = ValueFormat("avro", "confluent")
    batch = batch_of([b"\x02" * 10, b"\x02" * 11], [[(NAMING, b"\1" + GUIDS[0])]] * 2)
    found = framed(batch, TP, form, KNOWN)
    routing = Routing(TypeFrom("topic"), EventTime("record"), (("t", COLUMNS),), value_format=form, record_bytes_max=10)
    readers = TaskReaders(order_of("", routing, {}, schemas=KNOWN))
    dead = readers.router("t").route(readable(reframed(batch, found), found)).dead.to_pylist()
    assert [(one["index"], one["reason"]) for one in dead] == [(1, "too_long: 11 bytes, the limit is 10")]


@pytest.mark.parametrize("rest", [b"", b"\2", b"\2\2\2", b"\1", b"\4\2", b"\0\0"])
def test_damaged_indexes_in_a_header_are_no_frame(rest: bytes) -> None:
    """Whatever the value begins with: nothing of it is taken for an index."""
    form = ValueFormat("protobuf", "confluent")
    batch = batch_of([b"\0\2\2\0"], [[(NAMING, b"\1" + GUIDS[0] + rest)]])
    found = framed(batch, TP, form, KNOWN)
    assert found is not None and found.unknown[0].startswith("not_framed: the indexes of the message in the header")
    with pytest.raises(NoGoodRecord):
        ValueReading(form, KNOWN).read(b"\0\2\2\0", TP, 0, [{"key": NAMING, "value": b"\1" + GUIDS[0] + rest}])


def test_values_behind_a_frame_that_nobody_needs_may_have_their_id_in_a_header() -> None:
    """Then nothing is cut off."""
    form = ValueFormat("json", "confluent")
    headers = [[(NAMING, b"\1" + GUIDS[3])], [], [(NAMING, b"?")]]
    batch = batch_of([b'{"id":1}', b'\0\0\0\0\7{"id":2}', b'{"id":3}'], headers)
    found = framed(batch, TP, form, KnownSchemas())
    assert found is not None and [*found.unknown] == [2]
    read = read_all(batch, routing_of(form), KnownSchemas())
    assert [read[at].document for at in range(2)] == [{"id": 1}, {"id": 2}] and read[2].code == "not_framed"
    reading = ValueReading(form, KnownSchemas())
    assert [reading.read(v or b"", TP, at, h).document["id"] for at, v, h in as_spark(batch) if at < 2] == [1, 2]
