"""Jobs of [derive] over tables that a real export made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pytest
import tomllib

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from tests.support.lakes import NOON, Export, Exports, millis, mixed
from tests.support.pages import PageExport
from tests.support.processes import ROOT
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

QUERY = "SELECT id, amount, _kafka FROM source WHERE id % 2 = 0"


@pytest.fixture
def export(exports: Exports) -> Export:
    e = exports(2)
    return replace(e, more=f'[derive.even]\nkind = "sql"\nsource = "order"\nquery = "{QUERY}"')


def test_a_query_follows_its_source_and_takes_each_row_once(export: Export, spark: Any) -> None:
    """What the source gains comes in one commit; without anything new there is none; maintenance does not see it."""
    e = export

    def even() -> list[int]:
        table = deltalake.DeltaTable(str(e.root / "lake" / "_derived.tables" / "even"))
        return sorted(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())

    def expected() -> list[int]:
        return sorted(row["id"] for row in e.rows("order") if row["id"] % 2 == 0)

    produce(e.kafka, e.topic, {0: mixed(60), 1: mixed(60, first=1_000)})
    e.run(spark)
    settings = e.settings()
    (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app))
    assert job.run().version == 0
    assert even() == expected() != []
    assert job.run().idle
    produce(e.kafka, e.topic, {0: mixed(60, first=2_000)})
    e.run(spark)
    assert job.run().version == 1
    assert even() == expected()
    assert job.run().idle
    maintenance = Maintenance(e.lake(spark), MaintenanceLimits(0.0, 1 << 29, 21_600.0))
    assert maintenance.tables(()) == e.tables() == ["click", DEAD_LETTERS, "order", "payment"]
    assert [(line.clean, line.rows) for line in job.audit()] == [(True, len(even()))]


def test_the_settings_of_the_page_are_what_it_takes(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """As they are written there, but for the places: a row for each item, with its record's place."""
    page = (ROOT / "deploy" / "handbook" / "derive-sql.md").read_text()
    text = re.findall(r"```toml\n(.*?)```", page, re.S)[0]
    assert len(text.splitlines()) <= 15
    told = tomllib.loads(text)
    e = PageExport(kafka, topic(), tmp_path, fresh_name("app"), more=text)
    orders = [{"type": "order", "order_id": n, "at": "2026-01-31T12:00:00Z", "items": ITEMS[:n]} for n in range(3)]
    records = [Record(b"order", json.dumps(one).encode(), timestamp_ms=millis(NOON)) for one in orders]
    produce(kafka, e.topic, {0: records})
    e.run(spark)
    settings = e.settings()
    (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app))
    assert (job.name, job.run().rows, job.audit()[0].clean) == (*told["derive"], 2, True)
    found = deltalake.DeltaTable(str(tmp_path / "lake" / "_derived.tables" / job.name)).to_pyarrow_table().to_pylist()
    made = sorted((row["order_id"], row["sku"], row["amount"], row["_kafka"]["offset"]) for row in found)
    assert made == [(1, "a", 2, 1), (2, "a", 2, 2)]


ITEMS = [{"sku": "a", "amount": 2}, {"sku": "b", "amount": 0}]
