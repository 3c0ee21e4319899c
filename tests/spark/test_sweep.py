"""The sweep on a real table: what it lists, what it deletes, and what it must never touch (TEMP)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.core.outcome import Landed
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.operate.maintain.sweep import sweep
from exporter.protocol.commit import DeltaCommitter
from offsets.names import AppId
from offsets.positions import TOMBSTONE, Position
from offsets.ranges import TopicPartition
from tests.support.lakes import create_anchored, stage_offsets
from tests.support.sessions import Kept

pytestmark = pytest.mark.spark

P0 = TopicPartition("events", 0)
DAY = date(2026, 1, 31)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    lake = Lake(spark, tmp_path, "sweeping")
    create_anchored(lake, "order", {P0: Position(0, -1)})
    return lake


def commit(lake: Lake, expected: int, new: int, files: Sequence[StagedFile]) -> None:
    committer, view = DeltaCommitter(lake, "test", {}), lake.table("order").view()
    assert view is not None
    committer.trust("order", view)
    claim = Claim(WriterKey("order", P0), 0, expected, new, tuple(files), view.version)
    report = committer.commit("order", [claim])
    assert all(isinstance(settled.outcome, Landed) for settled in report.settled), report


def stage(lake: Lake, first: int, last: int, epoch: int = 0) -> StagedFile:
    return stage_offsets(lake, "order", P0, list(range(first, last + 1)), DAY, epoch)


def on_disk(lake: Lake, name: str = "order") -> set[str]:
    folder = Path(lake.table(name).uri)
    return {str(path.relative_to(folder)) for path in folder.glob("day=*/*")}


def ids(lake: Lake) -> list[int]:
    column = deltalake.DeltaTable(lake.table("order").uri).to_pyarrow_table(columns=["id"]).column("id")
    return sorted(column.to_pylist())


def test_exactly_the_orphans_at_or_before_the_position_are_listed_and_then_deleted(lake: Lake, spark: Any) -> None:
    """Live files, tombstones, what may still be committed, other apps' and foreign files stay; so do all rows."""
    folder = Path(lake.table("order").uri)
    commit(lake, -1, 9, [stage(lake, 0, 9)])
    orphans = [stage(lake, 0, 9), stage(lake, 3, 19)]
    torn = stage(lake, 5, 6)
    (folder / torn.path).write_bytes(b"PAR1 half")
    commit(lake, 9, 19, [stage(lake, 10, 19)])
    spark.sql(f"OPTIMIZE delta.`{folder}`")
    tombstoned = on_disk(lake)
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 4")
    staged = stage(lake, 20, 29)
    (folder / f"day={DAY}" / "part-00000-0a.c000.zstd.parquet").write_bytes(b"x")
    other = Lake(spark, lake.root, "other")
    foreign = stage_offsets(other, "order", P0, [1], DAY)
    before, rows = on_disk(lake), ids(lake)
    wanted = sorted(file.path for file in [*orphans, torn])

    (found,) = sweep(lake, apply=False)
    assert list(found.paths) == wanted
    assert found.bytes == sum((folder / path).stat().st_size for path in wanted)
    assert on_disk(lake) == before
    (done,) = sweep(lake, apply=True)
    assert (done.deleted, list(done.paths)) == (3, wanted)
    assert on_disk(lake) == before - set(wanted)
    assert {staged.path, foreign.path} <= on_disk(lake) and tombstoned - set(wanted) <= on_disk(lake)
    (again,) = sweep(lake, apply=True)
    assert (again.paths, again.deleted) == ((), 0)
    commit(lake, 19, 29, [staged])
    assert ids(lake) == sorted([*rows, *range(20, 30)])
    spark.sql(f"RESTORE delta.`{folder}` TO VERSION AS OF 1")
    assert ids(lake) == list(range(10))


def test_the_verb_lists_and_deletes_only_with_apply(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Table, files and bytes; the paths as JSON; a settings file whose broker nobody asks."""
    orphan = stage(lake, 0, 3)
    commit(lake, -1, 9, [stage(lake, 0, 9)])
    kept = Kept(lake.session)
    monkeypatch.setattr("exporter.workbench.open_lake", lambda settings: Lake(kept, settings.table_root, lake.app))
    monkeypatch.delenv("EXPORTER_CACHE_DIR", raising=False)
    monkeypatch.delenv("EXPORTER_TEST_KAFKA", raising=False)
    config = Path(lake.root) / "exporter.toml"
    config.write_text(
        'brokers = ["nowhere:1"]\ntopics = ["events"]\ngroup = "sweeping"\n'
        f'table_root = "{lake.root}"\n[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n'
        '[types.order]\ncolumns = "id BIGINT"\n'
    )

    def typed(*flags: str) -> str:
        done = CliRunner().invoke(cli, ["sweep", "--config", str(config), *flags])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert f"order\t1\t{orphan.size_bytes:,}\t0" in typed()
    assert orphan.path in on_disk(lake)
    (row,) = json.loads(typed("--apply", "--format", "json"))
    assert row == {"event_type": "order", "paths": [orphan.path], "bytes": orphan.size_bytes, "deleted": 1}
    assert orphan.path not in on_disk(lake)


def test_a_file_that_is_committed_after_the_listing_is_spared(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot comes after the listing: with the order turned round a live file would be deleted."""
    staged = stage(lake, 0, 9)
    real = type(lake.table("order")).state

    def state(table: Any) -> Any:
        if table.view().position(lake.app, P0) == Position(0, -1):
            commit(lake, -1, 9, [staged])
        return real(table)

    monkeypatch.setattr(type(lake.table("order")), "state", state)
    (done,) = sweep(lake, apply=True)
    assert done.paths == ()
    assert ids(lake) == list(range(10))


def test_a_closed_epoch_leaves_nothing_and_another_apps_table_is_left_alone(lake: Lake, spark: Any) -> None:
    """What a fenced task staged beyond the seal cannot land any more; the next epoch's files may."""
    beyond, ahead = stage(lake, 0, 99), stage(lake, 10, 19, epoch=1)
    old, new = str(AppId(lake.app, P0, 0)), str(AppId(lake.app, P0, 1))
    versions = {old: TOMBSTONE, str(AppId(lake.app, P0, 0, "sealed")): 9, new: 9}
    lake.table("order").commit(Change((old, new), versions, {}), lambda view: None)
    other = Lake(spark, lake.root, "other")
    create_anchored(other, "click", {P0: Position(0, 50)})
    theirs = stage_offsets(lake, "click", P0, [1], DAY)
    (done,) = sweep(lake, apply=True)
    assert (done.event_type, done.paths) == ("order", (beyond.path,))
    assert on_disk(lake) == {ahead.path}
    assert on_disk(lake, "click") == {theirs.path}
