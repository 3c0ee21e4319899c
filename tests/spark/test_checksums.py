"""Tables whose last commits have no checksum, as kill -9 leaves them: read from their log, without a Spark job."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from exporter.tables import Change, DeltaTable, Lake, add_action
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.lakes import create_anchored, stage_offsets

pytestmark = pytest.mark.spark

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)


def made(spark: Any, root: Path) -> DeltaTable:
    """A table with five commits, one of which changes its properties."""
    lake = Lake(spark, root, "app")
    create_anchored(lake, "order", {P0: Position(0, -1), P1: Position(0, -1)})
    table = lake.table("order")
    for number in range(4):
        app_id = str(AppId("app", (P0, P1)[number % 2], 0))
        file = stage_offsets(lake, "order", (P0, P1)[number % 2], [number], date(2026, 1, 31))
        properties = {"mine": str(number)} if number == 2 else {}
        table.commit(Change((app_id,), {app_id: number}, {}, (add_action(file, {}),), properties), lambda view: None)
    return table


def forget(spark: Any) -> None:
    """Delta's cache, as in a fresh process."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_a_table_without_its_last_checksums_reads_the_same_and_costs_no_job(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is that of the checksum and that of Spark, whichever checksums are gone or cut short."""
    table = made(spark, tmp_path)
    log = table.folder / "_delta_log"
    checksums = sorted(log.glob("[0-9]*.crc"))
    assert len(checksums) == 5
    whole = table.view()
    assert whole is not None and whole.position("app", P0) == Position(0, 2) and whole.properties["mine"] == "2"
    shutil.copytree(log, tmp_path / "kept")
    with monkeypatch.context() as slow:
        slow.setattr(DeltaTable, "_replayed", lambda self, version: None)
        checksums[4].unlink()
        forget(spark)
        assert table.view() == whole, "what Spark makes of it"

    def no_job(self: DeltaTable, snapshot: Any) -> dict[str, int]:
        raise AssertionError("a state reconstruction")

    monkeypatch.setattr(DeltaTable, "_transactions", no_job)
    for gone in ([4], [3, 4], [0, 1, 2, 3, 4]):
        for number in gone:
            checksums[number].unlink(missing_ok=True)
        forget(spark)
        assert table.view() == whole, gone
    checksums[3].write_text('{"metadata": {')
    forget(spark)
    assert table.view() == whole, "one that was cut short is passed over"


def test_what_the_files_do_not_tell_is_asked_of_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many commits since the last checksum, or a checksum without transactions."""
    table = made(spark, tmp_path)
    whole = table.view()
    for path in (table.folder / "_delta_log").glob("[0-9]*.crc"):
        path.unlink()
    monkeypatch.setattr("exporter.tables.REPLAYED_MAX", 3)
    assert table._replayed(4) is None
    forget(spark)
    assert table.view() == whole
    (table.folder / "_delta_log" / f"{3:020d}.crc").write_text('{"metadata": {}, "protocol": {}}')
    assert table._replayed(4) is None
