"""Schemas as confluent-kafka's own serialisers register them, found by their ids: in a real registry and the fake."""

from __future__ import annotations

import base64
import importlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.core.schemas import SchemaText, UnknownId
from exporter.errors import InvariantBroken, RegistryUnreachable
from exporter.local.registry import LocalRegistry
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.registry.pins import Pins
from exporter.registry.source import Registry
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition
from tests.support.fake_registry import FakeRegistry
from tests.support.services import fresh_name

ENDS = {TopicPartition("orders", 0): 100}
ADDRESS = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": "shop.Address"}],
}  # fmt: skip
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
COMMON = 'syntax = "proto3"; package NAME; message Address { string city = 1; }'
ORDERS = """
    syntax = "proto3"; package NAME; import "NAME/common.proto"; import "google/protobuf/timestamp.proto";
    message First { int64 id = 1; }
    message Order { int64 id = 1; Address to = 2; google.protobuf.Timestamp at = 3;
                    message Line { string sku = 1; } repeated Line lines = 4; }
"""


@pytest.fixture(params=["fake", "real"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of either."""
    if request.param == "real":
        yield request.getfixturevalue("registry")
    else:
        with FakeRegistry() as fake:
            yield fake.url


@pytest.fixture
def source(url: str, tmp_path: Path) -> Registry:
    """What the exporter asks, with nothing recorded."""
    return Registry(RegistryOptions((url,), unknown_after_secs=0.0), FileStore(str(tmp_path / "lake")))


def looked_up(source: Registry, framed: bytes) -> tuple[SchemaText, bytes]:
    """The schema of a value, and what follows the id; asked again without the registry it is the same."""
    assert framed[0] == 0
    schema_id = int.from_bytes(framed[1:5], "big")
    found = source.look_up("default", schema_id, ENDS, now=0.0)
    assert isinstance(found, SchemaText)
    alone = Registry(RegistryOptions(), source._store)
    alone.start()
    assert alone.known("default").text(schema_id) == found
    return found, framed[5:]


def avro_of(schema: SchemaText) -> Any:
    """As fastavro parses it, what it refers to first."""
    named: dict[str, Any] = {}

    def parsed(one: SchemaText) -> Any:
        for _, below in one.references:
            parsed(below)
        return fastavro.parse_schema(json.loads(one.text), named_schemas=named)

    return parsed(schema)


def test_avro_with_references_in_two_versions(url: str, source: Registry) -> None:
    """Read by fastavro with what the registry gave, each by its own id."""
    client, name = SchemaRegistryClient({"url": url}), fresh_name("avro")
    client.register_schema(f"{name}-address", Schema(json.dumps(ADDRESS), "AVRO"))
    references = [SchemaReference("shop.Address", f"{name}-address", 1)]
    context = SerializationContext(name, MessageField.VALUE)
    ids = set()
    for text, extra in ((ORDER, {}), (ORDER_2, {"note": "urgent"})):
        serializer = AvroSerializer(client, Schema(json.dumps(text), "AVRO", references))
        order = {"id": 7, "to": {"city": "Ulm"}, **extra}
        framed = serializer(order, context)
        schema, body = looked_up(source, framed)
        assert schema.kind == "AVRO" and [one for one, _ in schema.references] == ["shop.Address"]
        assert fastavro.schemaless_reader(io.BytesIO(body), avro_of(schema), None) == order
        ids.add(framed[1:5])
    assert len(ids) == 2
    loading = Registry(RegistryOptions((url,), "second", (f"{name}-value", "not-yet")), source._store)
    loading.start()
    assert {one.to_bytes(4, "big") for one in loading.known("second").decisions} == ids


def messages_of(schema: SchemaText) -> dict[str, Any]:
    """Full name -> class, and by the message indexes of the last file, as upb has them."""
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema.text)).file
    pool = descriptor_pool.DescriptorPool()
    for one in files:
        pool.AddSerializedFile(one.SerializeToString())
    last = pool.FindFileByName(files[-1].name)
    return {name: message_factory.GetMessageClass(one) for name, one in last.message_types_by_name.items()}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with the modules of ORDERS and of what it imports, made by Google's compiler."""
    from grpc_tools import protoc

    name = fresh_name("p").replace("-", "_")
    folder = tmp_path / "proto" / name
    folder.mkdir(parents=True)
    (folder / "common.proto").write_text(COMMON.replace("NAME", name))
    (folder / "orders.proto").write_text(ORDERS.replace("NAME", name))
    google = str(Path(importlib.import_module("grpc_tools").__file__ or "").parent / "_proto")
    root = str(tmp_path / "proto")
    arguments = ["", f"-I{root}", f"-I{google}", f"--python_out={root}", f"{name}/common.proto", f"{name}/orders.proto"]
    assert protoc.main(arguments) == 0
    monkeypatch.syspath_prepend(root)
    return name


def test_protobuf_with_imports_and_the_second_message_of_a_file(url: str, source: Registry, package: str) -> None:
    """Registered as a descriptor, which is what confluent-kafka does; read by upb with the set that was made of it."""
    module = importlib.import_module(f"{package}.orders_pb2")
    client, name = SchemaRegistryClient({"url": url}), fresh_name("protobuf")
    order = module.Order(id=7, lines=[module.Order.Line(sku="x")])
    order.to.city, order.at.seconds = "Ulm", 1_700_000_000
    serializer = ProtobufSerializer(module.Order, client, {"use.deprecated.format": False})
    schema, body = looked_up(source, serializer(order, SerializationContext(name, MessageField.VALUE)))
    assert schema.kind == "PROTOBUF" and schema.references == ()
    assert body[:2] == b"\x02\x02", "one index, and it is 1"
    message = messages_of(schema)["Order"].FromString(body[2:])
    assert (message.id, message.to.city, message.at.seconds, message.lines[0].sku) == (7, "Ulm", 1_700_000_000, "x")


def test_protobuf_that_was_registered_as_text(url: str, source: Registry, package: str, tmp_path: Path) -> None:
    """As Java's clients do; the set is equal to the one of the descriptors in all that counts."""
    client, name = SchemaRegistryClient({"url": url}), fresh_name("text")
    texts = {one: (tmp_path / "proto" / package / f"{one}.proto").read_text() for one in ("common", "orders")}
    client.register_schema(f"{name}-common", Schema(texts["common"], "PROTOBUF"))
    references = [SchemaReference(f"{package}/common.proto", f"{name}-common", 1)]
    schema_id = client.register_schema(f"{name}-value", Schema(texts["orders"], "PROTOBUF", references))
    schema, _ = looked_up(source, b"\0" + schema_id.to_bytes(4, "big"))
    found = messages_of(schema)
    assert list(found) == ["First", "Order"]
    message = found["Order"].FromString(found["Order"](id=7, to={"city": "Ulm"}).SerializeToString())
    assert (message.id, message.to.city) == (7, "Ulm")


def test_json_schema_with_a_reference(url: str, source: Registry) -> None:
    """The value is JSON behind the id."""
    client, name = SchemaRegistryClient({"url": url}), fresh_name("json")
    address = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Address", "type": "object",
               "properties": {"city": {"type": "string"}}}  # fmt: skip
    order = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
             "properties": {"id": {"type": "integer"}, "to": {"$ref": "address.json"}}}  # fmt: skip
    client.register_schema(f"{name}-address", Schema(json.dumps(address), "JSON"))
    references = [SchemaReference("address.json", f"{name}-address", 1)]
    serializer = JSONSerializer(Schema(json.dumps(order), "JSON", references), client)
    value = {"id": 7, "to": {"city": "Ulm"}}
    schema, body = looked_up(source, serializer(value, SerializationContext(name, MessageField.VALUE)))
    assert json.loads(body) == value and schema.kind == "JSON" and json.loads(schema.text) == order
    assert [(one, json.loads(below.text)) for one, below in schema.references] == [("address.json", address)]


def test_what_is_not_there_is_told_apart(url: str, source: Registry) -> None:
    """An id and a subject that nobody has registered; each is an answer."""
    client, name = SchemaRegistryClient({"url": url}), fresh_name("absent")
    client.register_schema(name, Schema('{"type": "string"}', "AVRO"))
    for schema_id in (0, 999_999_999, 2**31 - 1, 2**31, 2**32 - 1):
        assert isinstance(source.look_up("default", schema_id, ENDS, now=0.0), UnknownId)
    asked = connect(RegistryOptions((url,)))
    assert asked.ask(lambda server: server.versions(f"{name}/none of these")) == []
    assert asked.ask(lambda server: server.versions(name)) == [1]
    assert name in asked.ask(lambda server: server.subjects())


def test_a_registry_that_was_wiped_and_one_that_was_filled_anew(tmp_path: Path) -> None:
    """The real one forgets everything when it stops: first its answers mean nothing, then they contradict."""
    store = FileStore(str(tmp_path))
    with LocalRegistry() as server:
        options = RegistryOptions((server.url,), subjects=("orders-value",), unknown_after_secs=0.0)
        client = SchemaRegistryClient({"url": server.url})
        client.register_schema("orders-value", Schema('{"type": "long"}', "AVRO"))
        source = Registry(options, store)
        source.start()
        (schema_id,) = source.known("default").decisions
        server.kill()
        with pytest.raises(RegistryUnreachable, match=server.url):
            source.look_up("default", schema_id + 1, ENDS, now=0.0)
        Registry(options, store).start()
        assert source.known("default").settled(schema_id)
        server.start()
        with pytest.raises(RegistryUnreachable, match="no longer knows ids"):
            source.look_up("default", schema_id + 1, ENDS, now=0.0)
        SchemaRegistryClient({"url": server.url}).register_schema("others", Schema('{"type": "int"}', "AVRO"))
        for asked in (lambda: source.look_up("default", schema_id + 1, ENDS, now=0.0), Registry(options, store).start):
            with pytest.raises(InvariantBroken, match=f"another schema under id {schema_id}"):
                asked()
    assert Pins(store, "default").ids() == [schema_id]
