"""Jobs of kind to_kafka: what a topic has of the rows of tables that a real export made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from tests.support.lakes import Export, mixed
from tests.support.sent import Got, got
from tests.support.services import fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Export:
    return Export(kafka, topic(2), tmp_path, fresh_name("app"))


def sending(export: Export, spark: Any, more: str = "", **settings: Any) -> tuple[Any, str]:
    """A job of `order` to a topic of its own, and that topic. more: tables below."""
    to = settings.pop("topic", fresh_name("sent"))
    lines = {"kind": "to_kafka", "source": "order", "topic": to, "key": "id", **settings}
    headers = lines.pop("headers", None)
    text = "\n".join(["[derive.out]", *(f"{name} = {json.dumps(one)}" for name, one in lines.items())])
    if headers:
        text += "\n[derive.out.headers]" + "".join(f"\n{name} = {json.dumps(one)}" for name, one in headers.items())
    return job_of(replace(export, more=f"{text}\n{more}"), spark), to


def job_of(export: Export, spark: Any, name: str = "out") -> Any:
    settings = export.settings()
    (job,) = jobs_of(settings, Lake(spark, settings.store, settings.app), [name])
    return job


def until_caught_up(job: Any) -> int:
    """Run it, as often as it says that there is more; the rows that were sent."""
    rows = 0
    while True:
        ran = job.run()
        rows += ran.rows
        if not ran.more:
            return rows


def require_clean(job: Any) -> None:
    lines = job.audit()
    assert lines
    assert [line for line in lines if not line.clean] == []


def orders(export: Export) -> list[dict[str, Any]]:
    return export.rows("order")


def test_each_row_is_sent_once_and_in_order(export: Export, spark: Any) -> None:
    """The topic is made as it is asked for; what the source gains follows; without anything new nothing is sent."""
    e = export
    produce(e.kafka, e.topic, {0: mixed(60), 1: mixed(60, first=1_000)})
    e.run(spark)
    job, to = sending(e, spark, partitions=3, rows_max=7)
    assert until_caught_up(job) == len(orders(e)) > 40
    assert job.run().idle

    def expected() -> list[int]:
        return sorted(row["id"] for row in orders(e))

    def ids(found: Sequence[Got]) -> list[int]:
        return [json.loads(one.value or b"")["id"] for one in found]

    found = got(e.kafka, to)
    assert sorted(ids(found)) == expected()
    assert all(one.key == str(json.loads(one.value or b"")["id"]).encode() for one in found)
    assert {one.partition for one in found} == {0, 1, 2}
    produce(e.kafka, e.topic, {0: mixed(60, first=2_000)})
    e.run(spark)
    assert until_caught_up(job) > 0
    assert sorted(ids(got(e.kafka, to))) == expected()
    require_clean(job)
