"""The page of SQL jobs, over a table that a real export made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest
import tomllib

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from tests.support.lakes import NOON, millis
from tests.support.pages import PageExport
from tests.support.processes import ROOT
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]


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
