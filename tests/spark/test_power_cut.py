"""A power cut at any moment: what was committed is there, once, and each log entry that is left names whole files.

The disk keeps what was synced and nothing else (tests/support/disk.py), or with luck some of the rest; each sync of
the real log store is a moment to cut the power at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.core.outcome import Landed, Stale
from exporter.core.writers import Claim, WriterKey
from exporter.lake import log_files as log_state
from exporter.lake.lake import Lake
from exporter.protocol.commit import DeltaCommitter
from exporter.stores.file import FileStore
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support import log_store
from tests.support.disk import Disk
from tests.support.lakes import create_anchored, stage_offsets
from tests.support.log_store import store_of

pytestmark = pytest.mark.spark

APP, NAME = "cut", "order"
P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
DAYS = (date(2026, 1, 31), date(2026, 2, 1))


@pytest.fixture(scope="module", autouse=True)
def watched(spark: Any) -> Iterator[None]:
    """The tables of these tests have the store that can be watched."""
    with log_store.losing_log_store(spark):
        yield


class Export:
    """Commits to a table, as a task does it."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.lake = Lake(spark, root, APP)
        self.table = self.lake.table(NAME)
        self.acknowledged: dict[TopicPartition, int] = {}

    def begin(self) -> None:
        create_anchored(self.lake, NAME, {P0: Position(0, -1), P1: Position(0, -1)})
        self.acknowledged = {P0: -1, P1: -1}

    def committed(self, tp: TopicPartition, new: int) -> Any:
        """The outcome of a commit from where the table is to `new`: a row of each offset, the days in turn."""
        view = self.table.view()
        assert view is not None
        committer = DeltaCommitter(self.lake, "test", {})
        committer.trust(NAME, view)
        at = view.position(APP, tp)
        assert at is not None
        offsets = range(at.offset + 1, new + 1)
        files = tuple(stage_offsets(self.lake, NAME, tp, part, day)
                      for day, part in zip(DAYS, (offsets[::2], offsets[1::2]), strict=True) if part)  # fmt: skip
        claim = Claim(WriterKey(NAME, tp), 0, at.offset, new, files, view.version)
        (settled,) = committer.commit(NAME, [claim]).settled
        if isinstance(settled.outcome, Landed):
            self.acknowledged[tp] = new
        return settled.outcome


def rows(folder: Path, tp: TopicPartition) -> list[int]:
    """As a reader that is not ours finds them; `id` is the offset."""
    table = deltalake.DeltaTable(folder).to_pyarrow_table(columns=["_kafka", "id"])
    of = [row["id"] for row in table.to_pylist() if row["_kafka"]["partition"] == tp.partition]
    return sorted(of)


def check(spark: Any, root: Path, acknowledged: dict[TopicPartition, int]) -> bool:
    """Whether there is a table; positions are not behind what was acknowledged, and rows are those up to them, once.

    All that a task does before is to list the log.
    """
    folder = root / NAME
    if (folder / "_delta_log").exists():
        path = spark._jvm.org.apache.hadoop.fs.Path(f"file:{folder / log_state.entry(0)}")
        store_of(spark).listFrom(path, spark.sparkContext._jsc.hadoopConfiguration())
    view = log_state.newest_view(FileStore(str(folder)))
    if view is None:
        assert not acknowledged, "the table is gone"
        return False
    for tp in (P0, P1):
        at = view.position(APP, tp)
        assert at is not None and at.offset >= acknowledged.get(tp, -1), (tp, at, acknowledged)
        assert rows(folder, tp) == list(range(at.offset + 1)), tp
    return True


def story(export: Export) -> None:
    """New days, a checkpoint, OPTIMIZE, and on."""
    sql, at = export.lake.session.sql, f"delta.`{export.table.uri}`"
    export.begin()
    for tp, new in ((P0, 5), (P1, 0), (P0, 8)):
        assert isinstance(export.committed(tp, new), Landed)
    assert export.table.checkpoint(1, apply=True)
    sql(f"OPTIMIZE {at} WHERE day = '2026-01-31'")
    assert isinstance(export.committed(P1, 4), Landed)


def test_a_power_cut_at_any_moment_takes_nothing_that_was_committed(
    spark: Any, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """ORDER, COVER: after it a task goes on, and each offset is there once."""
    (machine := tmp_path / "machine").mkdir()
    disk, export = Disk(machine), Export(spark, machine / "new" / "lake")
    cuts: list[tuple[Path, dict[TopicPartition, int]]] = []
    luck = random.Random(seed := random.randrange(1 << 32))
    record_property("seed", seed)

    def cut() -> None:
        for lucky in (None, luck):
            left = disk.cut(tmp_path / "cuts" / str(len(cuts)), lucky)
            cuts.append((left / "new" / "lake", dict(export.acknowledged)))

    def seen(path: Path) -> None:
        if path.is_relative_to(machine):
            disk.synced(path)
            cut()

    with log_store.syncs_seen(spark, tmp_path, seen):
        story(export)
        cut()
    there = [(root, done) for root, done in cuts if check(spark, root, done)]
    assert len(there) > 20 and check(spark, *cuts[-2]), "the last cut came when all was done"
    for root, done in [there[0], *random.Random(seed).sample(there[1:], 3)]:
        again = Export(spark, root)
        for tp in (P0, P1):
            assert isinstance(again.committed(tp, 9), Landed), (root, done)
        assert check(spark, root, again.acknowledged)


def test_a_file_that_was_once_not_synced_is_not_offered_again(spark: Any, tmp_path: Path) -> None:
    """A system that has failed to write a file's bytes drops them, and tells it once; they are read again instead."""
    export = Export(spark, tmp_path)
    export.begin()
    log_store.arm(spark, NAME, syncs=1)
    outcome = export.committed(P0, 3)
    assert isinstance(outcome, Stale) and "the disk does not answer" in outcome.reason
    assert check(spark, tmp_path, {P0: -1}) and not log_store.left(spark, NAME)
    assert isinstance(export.committed(P0, 3), Landed) and rows(Path(export.table.uri), P0) == [0, 1, 2, 3]


def test_the_store_asks_the_system_itself(spark: Any, tmp_path: Path) -> None:
    """What cannot be synced at all ends the commit, and no entry is left."""
    export = Export(spark, tmp_path)
    export.begin()
    view = export.table.view()
    assert view is not None
    committer = DeltaCommitter(export.lake, "test", {})
    committer.trust(NAME, view)
    file = stage_offsets(export.lake, NAME, P0, [0], DAYS[0])
    path = Path(export.table.uri) / file.path
    path.rename(path.with_name("whole"))
    path.symlink_to("/dev/zero")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exporter.lake.table.DeltaTable.require", lambda table, path, size_bytes: None)
        (settled,) = committer.commit(NAME, [Claim(WriterKey(NAME, P0), 0, -1, 0, (file,), view.version)]).settled
    assert isinstance(settled.outcome, Stale), settled
    assert [*(Path(export.table.uri) / "_delta_log").glob("*1.json")] == []


def test_whatever_a_version_names_is_synced_before_it(spark: Any, tmp_path: Path) -> None:
    """Deletion vectors and change data of a user's statement in this session, not only files of rows."""
    export = Export(spark, tmp_path / "lake")
    export.begin()
    assert isinstance(export.committed(P0, 5), Landed)
    at = f"delta.`{export.table.uri}`"
    for feature in ("delta.enableDeletionVectors", "delta.enableChangeDataFeed"):
        spark.sql(f"ALTER TABLE {at} SET TBLPROPERTIES ('{feature}' = 'true')")
    seen: list[Path] = []
    with log_store.syncs_seen(spark, tmp_path, seen.append):
        spark.sql(f"UPDATE {at} SET id = 100 WHERE id = 2")
    there = {path for path in Path(export.table.uri).rglob("*") if path.suffix in (".bin", ".parquet")}
    new = {path for path in there if path.suffix == ".bin" or "_change_data" in str(path)}
    assert {path.suffix for path in new} == {".bin", ".parquet"} and new <= {*seen}
    told = [path == Path(export.table.uri) / "_delta_log" for path in seen]
    assert max(map(seen.index, new)) < len(told) - 1 - told[::-1].index(True), "before the entry's name"


@pytest.mark.parametrize("sync", [True, False])
def test_the_setting_decides_whether_anything_waits_for_the_disk(spark: Any, tmp_path: Path, sync: bool) -> None:
    """Commits and readings of a lake that does not sync wait for nothing."""
    seen: list[Path] = []
    export = Export(spark, tmp_path / "lake")
    export.begin()
    try:
        Lake(spark, tmp_path / "lake", APP, sync)
        with log_store.syncs_seen(spark, tmp_path, seen.append):
            assert isinstance(export.committed(P0, 3), Landed)
    finally:
        Lake(spark, tmp_path / "lake", APP)
    assert bool(seen) is sync
