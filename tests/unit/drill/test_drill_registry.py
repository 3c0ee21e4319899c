"""The registry that a drill has in itself, and the records that name its schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.drill.producer import NOON
from exporter.drill.registry import BROKEN_EVERY, DrillRegistry, broken, schema, written
from exporter.errors import RegistryUnreachable
from exporter.executor.route import Router
from exporter.formats.decoder import Decoder
from exporter.formats.frames import confluent_ids
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.registry.server import Client
from tests.support.fake_schemas import FRAMED

KNOWN = KnownSchemas({1: (SchemaText("AVRO", schema(1)),)})
ROUTING = Routing(TypeFrom("json", "type"), EventTime("json", "at"), (("order", ""),), value_format=FRAMED)
COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture
def server() -> Iterator[DrillRegistry]:
    made = DrillRegistry()
    yield made
    made.close()


def client(server: DrillRegistry) -> Client:
    return connect(RegistryOptions((server.url,), timeout_secs=1.0))


def test_the_exporters_client_reads_what_it_says(server: DrillRegistry) -> None:
    """A schema by its id, that there is none, and which subjects there are."""
    server.texts[7] = schema(7)
    ask = client(server).ask
    found = ask(lambda one: one.schema(7))
    assert found is not None and (found.kind, found.text) == ("AVRO", schema(7))
    assert ask(lambda one: one.schema(8)) is None
    assert ask(lambda one: one.subjects()) == ["s7"]


@pytest.mark.parametrize("trouble", ["down", "slow", "500", "401"])
def test_each_trouble_is_no_answer_and_passes(server: DrillRegistry, trouble: str) -> None:
    """It is what an exporter takes for an outage; afterwards it answers on the same port."""
    server.breaks(trouble)
    with pytest.raises(RegistryUnreachable):
        client(server).ask(lambda one: one.schema(7))
    server.mends()
    assert client(server).ask(lambda one: one.schema(7)) is None


def test_one_that_was_wiped_has_nothing(server: DrillRegistry) -> None:
    """It says so as definitely as one that never had it."""
    server.texts[7] = schema(7)
    server.breaks("wiped")
    assert client(server).ask(lambda one: (one.schema(7), one.subjects())) == (None, [])


def binary(*values: Any) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def test_its_records_are_what_their_schema_says() -> None:
    """Their keys name the table; each broken one is bad, and none of them lacks a schema."""
    sent = [written(1, "order", number) for number in range(-3, 4)]
    batch = pa.record_batch({"value": binary(*(one.value for one in sent))})
    times = pa.array([NOON] * len(sent), pa.timestamp("us", "UTC"))
    decoded = Decoder.of("order", ROUTING, COLUMNS, schemas=KNOWN).decode(batch["value"], times)
    assert decoded.bad == [] and decoded.table["id"].to_pylist() == [*range(-3, 4)]
    assert {one.key for one in sent} == {b"order"}
    values = binary(*(broken(number).value for number in range(BROKEN_EVERY)))
    assert {*confluent_ids(values).tolist()} == {-1, 1}
    routed = Router(ROUTING, schemas=KNOWN).route(pa.record_batch({"value": values}))
    rest = routed.groups.get("order", pa.array([], pa.int32()))
    assert not Decoder.of("order", ROUTING, COLUMNS, schemas=KNOWN).decode(
        values.take(rest), times.slice(0, 1).take(pa.array([0] * len(rest), pa.int32()))
    ).good.to_pylist()
