"""What reads the records of a task outlives it, where the next task reads alike."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark import cloudpickle

from exporter.core.order import Destination, TableTarget
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.table_options import TableOptions
from exporter.executor.readers import TaskReaders
from tests.support.orders import order_of


def columns(**kinds: str) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return json.dumps({"type": "struct", "fields": fields})


ROUTING = Routing(TypeFrom("json", "type"), EventTime("json", "at"), (("order", columns(id="long")),))
ORDER = order_of("", ROUTING, {}, {"order": TableTarget(decoded=columns(id="long", note="string"))})


def test_tasks_that_read_alike_share_what_reads() -> None:
    """As workers get them: each order is a copy of its own. What else a round is told does not matter."""
    first = TaskReaders(ORDER)
    copy = cloudpickle.loads(cloudpickle.dumps(replace(ORDER, carried_bytes=7, to=replace(ORDER.to, app="other"))))
    second = TaskReaders(copy)
    assert second.decoder("order", "t") is first.decoder("order", "t")
    assert second.router("t") is first.router("t")


@pytest.mark.parametrize(
    "change",
    [
        {"routing": replace(ROUTING, record_bytes_max=7)},
        {"schemas": KnownSchemas({1: [SchemaText("AVRO", '"long"')]})},
        {"tables": {"order": TableTarget(decoded=columns(id="long", more="string"))}},
        {"to": Destination("", "app", TableOptions(json_text="canonical"))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_that_reads_otherwise_has_its_own(change: dict[str, Any]) -> None:
    """A column that evolution made, a schema that has come, a setting: each from the next task on."""
    first = TaskReaders(ORDER).decoder("order", "t")
    assert TaskReaders(replace(ORDER, **change)).decoder("order", "t") is not first
