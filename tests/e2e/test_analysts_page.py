"""The handbook's page for analysts runs: each query, in Python and in Spark, on a real export."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.lakes import NOON, Export, millis
from tests.support.processes import ROOT
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = ROOT / "deploy" / "handbook" / "analysts.md"
DAY = date(2026, 1, 31)


def payment(number: int, **more: Any) -> Record:
    value = {"type": "payment", "at": "2026-01-31T12:00:00Z", "order_id": f"o{number}", "amount": "1.25", **more}
    return Record(b"payment", json.dumps(value).encode(), timestamp_ms=millis(NOON))


def code(kind: str, lake: Path) -> list[str]:
    """The page's blocks of a language, for this lake."""
    found = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.S)
    return [block.replace("/data/lake", str(lake)) for block in found]


def test_each_query_of_the_page_gives_what_the_page_says(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any
) -> None:
    """Rows by day, a rescued field, dead letters by reason, and whether a day is complete."""
    types = {"payment": "order_id STRING, amount DECIMAL(12,2)"}
    e = Export(kafka, topic(1), tmp_path, "app", types=types, scalars={"valid_through": "idle_aware"})
    late = millis(NOON) + 86_400_000
    sent = [payment(1), payment(2, device={"x": 7}), payment(3, amount="many")]
    e.send({0: [*sent, Record(b"", b'{"type": "other"}', timestamp_ms=late)]})
    e.run(spark)

    said: dict[str, Any] = {"spark": spark}
    for block in code("python", e.root / "lake"):
        exec(block, said)
    assert said["per_day"] == [(DAY, 2, Decimal("2.50"))]
    assert said["rescued"] == [("o2", "7")]
    assert said["why"] == [("other", "unknown_type", 1), ("payment", "type_mismatch", 1)]
    ((partition, offset, _, text),) = said["sent"]
    assert (partition, offset, text) == (0, 2, sent[2].value.decode())
    assert said["complete"] is True
    assert said["through"] == "2026-02-01T11:59:59.999Z"

    per_day, rescued, why = (spark.sql(block).collect() for block in code("sql", e.root / "lake"))
    assert [tuple(row) for row in per_day] == said["per_day"]
    assert [tuple(row) for row in rescued] == said["rescued"]
    assert [tuple(row) for row in why] == said["why"]
