"""Tables as their files alone tell them: as Delta does, also where kill -9 left the last commits without a checksum."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import TableUnreadable
from exporter.lake import log_files as log_state
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView
from tests.support.lakes import create_anchored, stage_offsets

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


def by_delta(table: DeltaTable) -> TableView | None:
    """The view as Delta in a fresh process tells it."""
    forget(table._gateway.session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_state, "view_at", lambda folder, version: None)
        return table._view(table._snapshot())


def test_a_table_without_its_last_checksums_reads_the_same_and_costs_no_job(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is that of the checksum and that of Spark, whichever checksums are gone or cut short."""
    table = made(spark, tmp_path)
    checksums = sorted((Path(table.uri) / "_delta_log").glob("[0-9]*.crc"))
    assert len(checksums) == 5
    whole = table.view()
    assert whole is not None and whole.position("app", P0) == Position(0, 2) and whole.properties["mine"] == "2"
    assert by_delta(table) == whole
    checksums[4].unlink()
    assert by_delta(table) == whole, "by a state reconstruction"

    def not_asked(self: DeltaTable) -> None:
        raise AssertionError("the JVM was asked")

    monkeypatch.setattr(DeltaTable, "_snapshot", not_asked)
    for gone in ([4], [3, 4], [0, 1, 2, 3, 4]):
        for number in gone:
            checksums[number].unlink(missing_ok=True)
        assert table.view() == whole, gone
    checksums[3].write_text('{"metadata": {')
    assert table.view() == whole, "one that was cut short is passed over"


def test_what_the_files_do_not_tell_is_asked_of_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many commits since the last checksum, or a checksum without transactions."""
    table = made(spark, tmp_path)
    whole = table.view()
    for path in (Path(table.uri) / "_delta_log").glob("[0-9]*.crc"):
        path.unlink()
    monkeypatch.setattr(log_state, "REPLAYED_MAX", 3)
    assert log_state.newest_view(table.store) is None
    forget(spark)
    assert table.view() == whole
    (Path(table.uri) / "_delta_log" / f"{3:020d}.crc").write_text('{"metadata": {}, "protocol": {}}')
    assert log_state.newest_view(table.store) is None


def test_a_log_with_a_hole_is_never_read_as_a_table(spark: Any, tmp_path: Path) -> None:
    """Its newest checksum is there and would tell a position; a commit before it is gone."""
    table = made(spark, tmp_path)
    (Path(table.uri) / "_delta_log" / f"{2:020d}.json").unlink()
    forget(spark)
    with pytest.raises(TableUnreadable):
        table.view()


def test_the_files_tell_what_delta_tells_whatever_was_done_to_a_table(spark: Any, tmp_path: Path) -> None:
    """Properties, constraints, features, columns; rewritten, restored, replaced; behind a checkpoint of either kind."""
    table = made(spark, tmp_path)
    at = f"delta.`{table.uri}`"
    for statement in (
        f"ALTER TABLE {at} SET TBLPROPERTIES ('theirs' = '1')",
        f"ALTER TABLE {at} ADD COLUMNS (more STRING COMMENT 'later')",
        f"ALTER TABLE {at} ADD CONSTRAINT some CHECK (more IS NULL)",
        f"ALTER TABLE {at} DROP CONSTRAINT some",
        f"ALTER TABLE {at} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"ALTER TABLE {at} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        f"DELETE FROM {at} WHERE _kafka.offset = 1",
        f"OPTIMIZE {at}",
        f"RESTORE TABLE {at} TO VERSION AS OF 4",
        f"ALTER TABLE {at} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')",
        f"ALTER TABLE {at} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic')",
        f"REPLACE TABLE {at} (other INT) USING DELTA",
    ):
        spark.sql(statement)
        told = log_state.newest_view(table.store)
        assert told is not None and told == by_delta(table), statement


def commit(table: DeltaTable, tp: TopicPartition, position: int) -> int:
    app_id = str(AppId("app", tp, 0))
    return table.commit(Change((app_id,), {app_id: position}, {}), lambda view: None)


def transaction_of(path: Path) -> str:
    """As the checksum or the entry of a version names it."""
    first = json.loads(path.read_text().splitlines()[0])
    return str(first.get("txnId") or first["commitInfo"]["txnId"])


def test_a_version_that_is_made_anew_does_not_get_the_checksum_of_the_former_one(spark: Any, tmp_path: Path) -> None:
    """MONOTONE, COVER: a power cut took the newest entry and left its checksum; the next commit writes that version."""
    table = made(spark, tmp_path)
    newest = Path(table.uri) / log_state.entry(4)
    checksum = newest.with_suffix(".crc")
    before = checksum.read_bytes()
    newest.unlink()
    forget(spark)
    view = table.view()
    assert view is not None and view.position("app", P1) == Position(0, 1)
    assert commit(table, P0, 17) == 4
    assert checksum.read_bytes() != before and transaction_of(checksum) == transaction_of(newest)
    for view in (table.view(), by_delta(table)):
        assert view is not None and (view.position("app", P0), view.position("app", P1)) == (
            Position(0, 17), Position(0, 1)
        )  # fmt: skip


def test_delta_believes_a_checksum_only_of_the_transaction_that_made_its_version(spark: Any, tmp_path: Path) -> None:
    """MONOTONE, COVER: a writer with another log store has left one of a former version beside its own entry."""
    table = made(spark, tmp_path)
    checksum = (Path(table.uri) / log_state.entry(4)).with_suffix(".crc")
    truth, former = table.view(), checksum.read_text()
    listed = json.loads(former)
    for txn in listed["setTransactions"]:
        txn["version"] += 1_000
    checksum.write_text(json.dumps({**listed, "txnId": "another"}))
    assert by_delta(table) == truth
    forget(spark)
    assert commit(table, P0, 5) == 5
    after = json.loads(checksum.with_name(f"{5:020d}.crc").read_text())
    assert sorted(txn["version"] for txn in after["setTransactions"]) == [3, 5], "nor is the next one derived from it"
