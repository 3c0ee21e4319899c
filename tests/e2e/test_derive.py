"""Jobs of [derive] over tables that a real export made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from tests.support.lakes import Export, mixed
from tests.support.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

QUERY = "SELECT id, amount, _kafka FROM source WHERE id % 2 = 0"


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Export:
    e = Export(kafka, topic(2), tmp_path, fresh_name("app"))
    return replace(e, more=f'[derive.even]\nkind = "sql"\nsource = "order"\nquery = "{QUERY}"')


def test_a_query_follows_its_source_and_takes_each_row_once(export: Export, spark: Any) -> None:
    """What the source gains is appended in one commit; a run without anything new makes no version."""
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
