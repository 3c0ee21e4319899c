"""AWS Glue's schema registry: what is an answer of it and what is trouble, and what is decided by either."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from aws_schema_registry import DataAndSchema, SchemaRegistryClient
from aws_schema_registry.adapter.kafka import KafkaSerializer
from aws_schema_registry.avro import AvroSchema
from aws_schema_registry.codec import encode
from aws_schema_registry.jsonschema import JsonSchema
from botocore.stub import Stubber

from exporter.core.schemas import GUID, KnownSchemas, SchemaText, UnknownId, guid_number
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError, RegistryUnreachable
from exporter.formats.frames import framed
from exporter.local.server import free_ports
from exporter.proof.readers.reading import ValueReading
from exporter.registry.client import connect
from exporter.registry.glue import Glue
from exporter.registry.options import RegistryOptions
from exporter.registry.pins import Pins
from exporter.registry.server import Client, RegisteredSchema
from exporter.registry.source import Registry
from exporter.stores.memory import MemoryStore
from offsets.ranges import TopicPartition
from tests.support.fake_registry import Failure, FakeRegistry
from tests.support.glue_registry import REGISTRY, LocalGlue
from tests.support.services import fresh_name

pytestmark = pytest.mark.usefixtures("aws_credentials")

TP = TopicPartition("orders", 0)
LONG, TEXT = '{"type": "long"}', '{"type": "string"}'
NOBODY = UUID(int=7)


def options(endpoint: str, **given: Any) -> RegistryOptions:
    more = {"kind": "glue", "endpoint_url": endpoint, "registry_name": REGISTRY, "timeout_secs": 5.0, **given}
    return RegistryOptions(**more)


def asked(endpoint: str, **given: Any) -> Client:
    return connect(options(endpoint, **given))


def number(version: UUID) -> int:
    return guid_number(version.bytes)


def test_a_schema_is_given_as_it_was_registered(glue: LocalGlue) -> None:
    """By the id of its version, and by its name; what is not there is told apart."""
    name = fresh_name("orders")
    first, second = glue.add(name, LONG), glue.add(name, TEXT)
    other = glue.add(f"{name}-json", '{"title": "Order"}', "JSON")
    client = asked(glue.endpoint)
    assert client.ask(lambda server: server.schema(number(first))) == RegisteredSchema("AVRO", LONG, (), number(first))
    assert client.ask(lambda server: server.schema(number(other))) == RegisteredSchema(
        "JSON", '{"title": "Order"}', (), number(other)
    )
    assert client.ask(lambda server: server.version(name, 2)) == RegisteredSchema("AVRO", TEXT, (), number(second))
    assert client.ask(lambda server: server.versions(name)) == [1, 2]
    assert client.ask(lambda server: server.versions("none")) == []
    assert {name, f"{name}-json"} <= {*client.ask(lambda server: server.subjects())}
    assert asked(glue.endpoint, registry_name="none").ask(lambda server: server.subjects()) == []
    assert client.ask(lambda server: server.schema(number(NOBODY))) is None
    with pytest.raises(RegistryUnreachable, match="is there no longer"):
        client.ask(lambda server: server.version(name, 9))


def stubbed(answers: list[tuple[str, dict[str, Any]]]) -> Glue:
    """One whose answers are given; botocore checks that they have the shape of the API's."""
    import boto3

    client = boto3.client("glue", region_name="us-east-1")
    stub = Stubber(client)
    for name, answer in answers:
        stub.add_response(name, answer)
    stub.activate()
    return Glue(client, REGISTRY, 5.0)


def version(status: str, **more: Any) -> tuple[str, dict[str, Any]]:
    answer = {"SchemaVersionId": str(NOBODY), "SchemaDefinition": LONG, "DataFormat": "AVRO", "Status": status, **more}
    return "get_schema_version", answer


def test_only_a_version_that_was_taken_is_a_schema() -> None:
    """One that is being deleted was written by; one that was refused never was; one that is not decided is trouble."""
    glue = stubbed([version("AVAILABLE"), version("DELETING"), version("FAILURE")])
    found = RegisteredSchema("AVRO", LONG, (), number(NOBODY))
    assert [glue.schema(number(NOBODY)) for _ in range(3)] == [found, found, None]
    for answer in (version("PENDING"), version("AVAILABLE", DataFormat="XML"), ("get_schema_version", {})):
        with pytest.raises(RegistryUnreachable, match=r"glue\.us-east-1\.amazonaws\.com"):
            stubbed([answer]).schema(number(NOBODY))


def test_lists_of_many_pages_are_read_to_their_end() -> None:
    """Of schemas and of versions."""
    pages = [{"Schemas": [{"SchemaName": "a"}], "NextToken": "t"}, {"Schemas": [], "NextToken": "u"},
             {"Schemas": [{"SchemaName": "b"}]}]  # fmt: skip
    assert stubbed([("list_schemas", page) for page in pages]).subjects() == ["a", "b"]
    last = [{"VersionNumber": 3, "Status": "DELETING"}, {"VersionNumber": 4, "Status": "FAILURE"}]
    first = {"Schemas": [{"VersionNumber": 12, "Status": "AVAILABLE"}], "NextToken": "t"}
    versions: list[dict[str, Any]] = [first, {"Schemas": last}]
    assert stubbed([("list_schema_versions", page) for page in versions]).versions("orders") == [3, 12]


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Failure(400, b'{"__type": "AccessDeniedException", "message": "no"}'), "AccessDeniedException: no"),
        (Failure(400, b'{"__type": "ThrottlingException", "message": "slow"}'), "ThrottlingException: slow"),
        (Failure(400, b'{"__type": "InvalidInputException"}'), "InvalidInputException"),
        (Failure(404, b"<html>Not Found</html>"), "404"),
        (Failure(500, b'{"__type": "InternalServiceException"}'), "InternalServiceException"),
        (Failure(503, b"sorry"), "503"),
        (Failure(301, b"", {"Location": "http://127.0.0.1:1/"}), "."),
        (Failure(200, b"<html>Sign in</html>"), "."),
        (Failure(200, b""), "no schema"),
        (Failure(200, b"{}"), "no schema"),
        (Failure(200, b'{"SchemaVersionId": "x", "Status": "AVAILABLE", "DataFormat": "AVRO"}'), "no schema"),
        (Failure(hang_up=True), "."),
        (Failure(200, b"{}", after_secs=20), "no answer in time"),
        (Failure(200, b"{" + b" " * 60 + b"}", drip_secs=0.02), "no answer in time"),
        (Failure(200, b"{}", drip_secs=0.2, drip_head=True), "no answer in time"),
    ],
    ids=str,
)  # fmt: skip
def test_everything_else_is_trouble(failure: Failure, says: str) -> None:
    """Which decides nothing, ends in time, says what came, and shows no credentials."""
    with FakeRegistry() as server:
        server.failure = failure
        client = asked(server.url, timeout_secs=0.5)
        began = time.monotonic()
        with pytest.raises(RegistryUnreachable, match=says) as caught:
            client.ask(lambda glue: glue.schema(number(NOBODY)))
        assert server.url in caught.value.message and time.monotonic() - began < 5
        assert "region" in caught.value.hint


def test_an_answer_that_is_late_is_told_alike_by_either_clock() -> None:
    """Ours and botocore's run for as long as each other: which of them is the first is the machine's."""
    import boto3
    from botocore.config import Config

    with FakeRegistry() as server:
        server.failure = Failure(200, b"{}", after_secs=20)
        once = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
        client = boto3.client("glue", region_name="us-east-1", endpoint_url=server.url, config=once)
        for secs in (0.1, 5.0):
            with pytest.raises(RegistryUnreachable, match=f"no answer in time: not done after {secs:g} s"):
                Glue(client, REGISTRY, secs).schema(number(NOBODY))


def test_nobody_who_listens_and_no_credentials_are_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that starts before its role is there gets them later."""
    (port,) = free_ports(1)
    with pytest.raises(RegistryUnreachable, match=str(port)):
        asked(f"http://127.0.0.1:{port}").ask(lambda glue: glue.subjects())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(RegistryUnreachable, match="credentials"):
        asked(f"http://127.0.0.1:{port}").ask(lambda glue: glue.subjects())


def test_without_a_region_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings say it, or AWS's chain."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(ConfigError, match="region") as caught:
        connect(RegistryOptions(kind="glue"))
    assert "region" in caught.value.hint
    assert connect(RegistryOptions(kind="glue", region="eu-north-1")).ask(lambda glue: glue.shown) == (
        "https://glue.eu-north-1.amazonaws.com"
    )


def test_nothing_is_registered_there(glue: LocalGlue) -> None:
    """And it is not asked for ids of Confluent's: that it has none would say nothing of them."""
    client = asked(glue.endpoint)
    with pytest.raises(ConfigError, match="only read"):
        client.ask(lambda server: server.register("orders", "AVRO", LONG))
    with pytest.raises(RegistryUnreachable, match="no ids like 7") as caught:
        client.ask(lambda server: server.schema(7))
    assert "another" in caught.value.hint


# --- what is decided by it ------------------------------------------------------------------------------------


def test_a_version_is_recorded_and_read_by_for_ever(glue: LocalGlue, store: MemoryStore) -> None:
    """Under its id, with all versions of the schemas that the settings name; the next task needs no Glue."""
    name = fresh_name("orders")
    known, other = glue.add(name, LONG), glue.add(fresh_name("others"), TEXT)
    source = Registry(options(glue.endpoint, subjects=(name,)), store)
    source.start()
    assert source.known("default").settled(number(known)) and not source.known("default").settled(number(other))
    assert source.look_up("default", number(other), {TP: 5}, now=0.0) == SchemaText("AVRO", TEXT)
    record = json.loads(store.read(f"_schemas.guids/default/{known}/0.json"))
    assert record["guid"] == str(known) and record["text"] == LONG
    alone = Registry(RegistryOptions(), store)
    alone.start()
    assert alone.known("default") == source.known("default")


def test_an_id_that_glue_does_not_know_is_decided_when_its_time_is_over(glue: LocalGlue, store: MemoryStore) -> None:
    """For what could be read by then, as long as Glue is the one that it was."""
    source = Registry(options(glue.endpoint, unknown_after_secs=60.0), store)
    known = number(glue.add(fresh_name("orders"), LONG))
    assert source.look_up("default", known, {TP: 5}, now=0.0) is not None
    missing = number(uuid4())
    assert source.look_up("default", missing, {TP: 5}, now=0.0) is None
    assert source.look_up("default", missing, {TP: 8}, now=60.0) == UnknownId({TP: 7})
    assert Pins(store, "default").read(missing).unknown == {TP: 7}
    stalls = Registry(options(glue.endpoint, unknown_schema_id="stall"), store)
    with pytest.raises(RegistryUnreachable, match="stall"):
        stalls.look_up("default", number(uuid4()), {TP: 5}, now=0.0)


def test_an_outage_decides_nothing_and_a_registry_that_was_emptied_says_nothing(store: MemoryStore) -> None:
    """What is recorded goes on being known."""
    with LocalGlue() as glue:
        source = Registry(options(glue.endpoint, unknown_after_secs=0.0), store)
        source.start()
        with pytest.raises(RegistryUnreachable, match="no schemas at all"):
            source.look_up("default", number(NOBODY), {TP: 5}, now=0.0)
        known = number(glue.add("orders", LONG))
        assert source.look_up("default", known, {TP: 5}, now=1.0) == SchemaText("AVRO", LONG)
        glue.kill()
        with pytest.raises(RegistryUnreachable, match=glue.endpoint):
            source.look_up("default", number(NOBODY), {TP: 5}, now=2.0)
        Registry(options(glue.endpoint), store).start()
        glue.start()
        with pytest.raises(RegistryUnreachable, match="no longer knows ids that it gave") as caught:
            source.look_up("default", number(NOBODY), {TP: 5}, now=3.0)
    assert str(UUID(int=known - GUID)) in caught.value.message
    assert Pins(store, "default").ids() == [known]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "zlib"])
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("avro", AvroSchema('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')),
        ("json_schema", JsonSchema('{"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}')),
    ],
)
def test_what_another_library_registers_and_writes_is_read(
    glue: LocalGlue, store: MemoryStore, kind: Any, schema: Any, packed: bool
) -> None:
    """Its frame names the version that Glue gave it, by which it is read."""
    serializer = KafkaSerializer(SchemaRegistryClient(glue.client, registry_name=REGISTRY), is_key=False)
    value = serializer.serialize(fresh_name(kind), DataAndSchema({"id": 5}, schema))
    if packed:
        value = encode(value[18:], UUID(bytes=value[2:18]), compression=True)
    form, source = ValueFormat(kind, "glue"), Registry(options(glue.endpoint), store)
    batch = pa.record_batch({"value": pa.array([value], pa.binary()), "offset": pa.array([0], pa.int64())})
    found = framed(batch, TP, form, KnownSchemas())
    assert found is not None
    ((schema_id, row),) = found.missing.items()
    assert row == 0 and source.look_up("default", schema_id, {TP: 1}, now=0.0) is not None
    assert ValueReading(form, source.known("default")).read(value, TP, 0).document == {"id": 5}
    again = framed(batch, TP, form, source.known("default"))
    assert again is not None and not again.missing and again.values is not None
    assert again.values[0].as_py()[5:] == (b"\x0a" if kind == "avro" else b'{"id":5}')
