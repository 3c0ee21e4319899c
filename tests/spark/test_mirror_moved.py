"""Updates that change the key (protocol 9.5, MOVED): the row of the former key goes."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporter.lake.lake import Lake
from tests.support.mirror_oracle import Page
from tests.support.mirrored import (
    CDC,
    ORDERS,
    by_delta_rs,
    changed,
    mirror_job,
    path_of,
    raw_table,
    require_clean,
    rows_of,
    silent_of,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake", "mirrored", sync=False)


def moved(seconds: int, was: dict[str, Any], **columns: Any) -> dict[str, Any]:
    """An update that tells what columns held before."""
    return {**changed("U", seconds, **columns), "_cdc_before": json.dumps(was)}


def test_the_row_of_a_former_key_goes_and_late_rows_do_not_bring_it_back(lake: Lake) -> None:
    """In one run or several, there and back again; an update of a former key that is newer stays. A mirror that was
    there before its source told of former keys takes them from then on."""
    raw = raw_table(lake, "order", ddl=f"id BIGINT, a STRING, b BIGINT, {CDC}")
    job = mirror_job(raw, ORDERS, "orders")
    raw.append([changed("I", 1, id=key, a="x", b=key) for key in (1, 2, 3, 4)])
    job.run()
    raw.sql("ALTER TABLE {t} ADD COLUMNS (_cdc_before STRING)")
    raw.append([
        moved(5, {"id": 1}, id=10, a="x"), moved(5, {"id": 2}, id=20, a="x"), moved(6, {"id": 20}, id=2, a="back"),
        moved(5, {"id": 3}, id=30, a="x"), changed("I", 7, id=3, a="new"), moved(8, {"id": None}, id=40),
        moved(8, {"b": 4}, id=4, a="y"), moved(8, {"id": 4}, id=4, a="z"),
    ])  # fmt: skip
    job.run()
    raw.append([changed("U", 3, id=1, a="late"), changed("U", 9, id=10, b=7, _rescued=silent_of("a"))])
    job.run()
    found = rows_of(raw, "orders", "a", "b")
    wanted = {2: ("back", None), 3: ("new", None), 4: ("z", None), 10: ("x", 7), 30: ("x", None), 40: (None, None)}
    assert found == wanted
    require_clean(job)
    job.rebuild()
    assert rows_of(raw, "orders", "a", "b") == found


def test_a_former_key_has_the_types_of_its_columns(lake: Lake) -> None:
    """Each type that a key may be of, as the export writes them; in a struct, and of several columns."""
    keys = {"d": date(2026, 1, 30), "at": datetime(2026, 1, 30, 1, 2, 3, 456789, timezone.utc), "p": Decimal("12.340"),
            "bin": b"\xff\0", "flag": True, "n": 1 << 62, "text": 'a"\\\u2028', "f": 0.1,
            "of": {"x": 5, "y": "z"}}  # fmt: skip
    kinds = {"d": "DATE", "at": "TIMESTAMP", "p": "DECIMAL(20,3)", "bin": "BINARY", "flag": "BOOLEAN", "n": "BIGINT",
             "text": "STRING", "f": "DOUBLE", "of": "STRUCT<x: INT, y: STRING>"}  # fmt: skip
    raw = raw_table(lake, "order", ddl=f"{', '.join(map(' '.join, kinds.items()))}, {CDC}, _cdc_before STRING")
    paths = [name for name in keys if name != "of"] + ["of.x"]
    job = mirror_job(raw, Page(paths, ["_cdc.ts"], "_cdc"), "orders")
    before = msgspec.json.Encoder(decimal_format="number").encode(keys).decode()
    moved_on = {**changed("U", 2, **{**keys, "n": 7, "of": {"x": 6, "y": "z"}}), "_cdc_before": before}
    raw.append([changed("I", 1, **keys), moved_on])
    job.run()
    rows = by_delta_rs(path_of(raw, "orders"))
    assert [(row["n"], row["of"]["x"]) for row in rows if not row["_deleted"]] == [(7, 6)]
    require_clean(job)
