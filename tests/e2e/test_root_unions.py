"""Several event types in one topic by Confluent's recipe: a registered union at the root, by references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from exporter.core.routing import DEAD_LETTERS
from tests.support.lakes import NOON, Export, millis
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CONF = {"auto.register.schemas": False, "use.latest.version": True}


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    made = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made}


EMPTY = {"type": "record", "name": "shop.Nothing", "fields": []}
CUSTOMER = record("Customer", id="long", name="string")
ORDER = record("Order", id="long", customer=["null", "shop.Customer"], mark=[EMPTY, "int"])


def test_a_root_union_by_references_lands_each_branch_in_its_table(
    kafka: str, topic: Callable[..., str], tmp_path: Path, registry: str, spark: Any
) -> None:
    """Columns of each branch alone; the null branch is a tombstone, which is counted; the audit finds nothing odd."""
    client = SchemaRegistryClient({"url": registry})
    name = topic()
    first = SchemaReference("shop.Customer", f"{name}-customer", 1)
    second = SchemaReference("shop.Order", f"{name}-order", 1)
    client.register_schema(first.subject, Schema(json.dumps(CUSTOMER), "AVRO"))
    client.register_schema(second.subject, Schema(json.dumps(ORDER), "AVRO", [first]))
    union = Schema(json.dumps(["null", "shop.Customer", "shop.Order"]), "AVRO", [first, second])
    client.register_schema(f"{name}-value", union)
    serializer = AvroSerializer(client, None, conf=CONF)
    known = {"id": 1, "name": "Ada"}
    sent = [("shop.Customer", known), ("shop.Order", {"id": 7, "customer": known, "mark": 5}), None,
            ("shop.Order", {"id": 8, "customer": None, "mark": ("shop.Nothing", {})})]  # fmt: skip
    context = SerializationContext(name, MessageField.VALUE)
    values: list[bytes] = [serializer(one, context) if one else b"" for one in sent]  # type: ignore[arg-type]
    values[2] = values[0][:5] + b"\0"  # the serialiser itself never sends the null of a union
    produce(kafka, name, {0: [Record(b"k", value, timestamp_ms=millis(NOON)) for value in values]})

    formats = ['kind = "avro"', 'tombstones = "count"', "[schema_registry]", f'urls = ["{registry}"]']
    e = Export(
        kafka, name, tmp_path, fresh_name("app"), {}, {"new_type": "table", "rescue_empty": True},
        'kind = "record"', type_from='kind = "schema"\nname = "short"', value_format="\n".join(formats),
    )  # fmt: skip
    e.run(spark)
    assert e.tables() == ["Customer", "Order", DEAD_LETTERS] and not e.rows(DEAD_LETTERS)
    assert e.columns("Customer").keys() == {"id", "name"}
    assert e.columns("Order").keys() == {"id", "customer", "mark"}
    assert [(row["id"], row["name"], row["_rescued"]) for row in e.rows("Customer")] == [(1, "Ada", None)]
    assert [(row["id"], row["customer"], row["_rescued"]) for row in e.rows("Order")] == [
        (7, known, None), (8, None, '{"mark":{"member_nothing":{}}}'),
    ]  # fmt: skip
    assert e.placed() == {(0, 0): ["Customer"], (0, 1): ["Order"], (0, 3): ["Order"]}
    report = e.audit(spark)
    assert report.clean and (report.checked, report.filtered) == (4, 1), report.as_text()
