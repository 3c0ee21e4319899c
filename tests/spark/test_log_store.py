"""FENCE in a file system: of all who write a version one succeeds, and what it wrote is whole; so is its checksum."""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from exporter.lake.lake import Lake
from exporter.spark import jars
from exporter.stores.file import CHECKSUMS_CLASS, JAVA
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.lakes import create_anchored
from tests.support.log_store import store_of

VERSIONS = 300


def write(spark: Any, store: Any, path: Path, *lines: str, overwrite: bool = False) -> bool:
    """False if the file is there already. The disk is not waited for: test_power_cut.py is about that."""
    jvm = spark._jvm
    actions = jvm.java.util.ArrayList()
    for line in lines:
        actions.add(line)
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    conf.setBoolean(JAVA.sync_setting, False)
    try:
        store.write(jvm.org.apache.hadoop.fs.Path(f"file:{path}"), actions.iterator(), overwrite, conf)
    except Py4JJavaError as error:
        assert error.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException"
        return False
    return True


def test_of_two_that_write_a_version_at_once_one_is_told_no(spark: Any, tmp_path: Path) -> None:
    """FENCE: both look at the same moment, again and again; no version is told to both as theirs."""
    stores, together = [store_of(spark), store_of(spark)], threading.Barrier(2)

    def race(me: int) -> list[int]:
        won = []
        for version in range(VERSIONS):
            together.wait(60)
            if write(spark, stores[me], tmp_path / f"{version:020d}.json", f"by {me}"):
                won.append(version)
        return won

    with ThreadPoolExecutor(2) as pool:
        won = list(pool.map(race, (0, 1)))

    assert Counter(won[0] + won[1]) == dict.fromkeys(range(VERSIONS), 1)
    for me in (0, 1):
        assert {(tmp_path / f"{version:020d}.json").read_text() for version in won[me]} <= {f"by {me}\n"}
    assert len(list(tmp_path.iterdir())) == VERSIONS  # nothing temporary is left


def test_a_name_of_any_kind_is_written_as_it_is_and_a_missing_folder_is_an_error(spark: Any, tmp_path: Path) -> None:
    """Names are not taken for URIs, and no folder is made."""
    path = tmp_path / "a b%20~#:.json"
    assert write(spark, store_of(spark), path, "erste Zeile ü", "second")
    assert path.read_text("utf-8") == "erste Zeile ü\nsecond\n"
    with pytest.raises(AssertionError):
        write(spark, store_of(spark), tmp_path / "absent" / "0.json", "x")


def test_what_another_store_left_is_replaced_together_with_its_checksum(spark: Any, tmp_path: Path) -> None:
    """Hadoop's hidden checksum of the former text would make the new one unreadable."""
    path = tmp_path / "_last_checkpoint"
    assert write(spark, store_of(spark, "io.delta.storage.HDFSLogStore"), path, "theirs", overwrite=True)
    assert (tmp_path / "._last_checkpoint.crc").exists()

    store = store_of(spark)
    assert write(spark, store, path, ours := '{"version": 7, "size": 1}', overwrite=True)

    conf = spark.sparkContext._jsc.hadoopConfiguration()
    lines = store.read(spark._jvm.org.apache.hadoop.fs.Path(f"file:{path}"), conf)
    assert (lines.next(), lines.hasNext()) == (ours, False)  # Hadoop compares checksums at the end


def test_every_table_in_a_file_system_is_committed_to_by_this_store(spark: Any, tmp_path: Path) -> None:
    """Delta takes it for the scheme `file`."""
    create_anchored(Lake(spark, tmp_path, "app"), "order", {TopicPartition("t", 0): Position(0, 0)})
    log = tmp_path / "order" / "_delta_log"
    assert {path.name for path in log.iterdir() if path.is_file()} == {f"{0:020d}.json", f"{0:020d}.crc"}
    # Hadoop's own way to write would have left a hidden checksum behind each of the two


def test_a_checksum_is_there_whole_or_not_at_all(spark: Any, tmp_path: Path) -> None:
    """Under its name nothing is seen until it is closed; one that is there is only replaced if that is wanted."""
    jvm = spark._jvm
    path = tmp_path / "a b%20~#" / f"{7:020d}.crc"
    path.parent.mkdir()
    path.with_name(f".{path.name}.crc").write_bytes(b"of what another left")
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKSUMS_CLASS)
    streaming = jvm.org.apache.spark.sql.execution.streaming
    home = streaming if jars.spark_minor() < "4.2" else streaming.checkpointing
    manager = home.CheckpointFileManager.create(
        jvm.org.apache.hadoop.fs.Path(f"file:{path.parent}"), conf
    )
    assert manager.getClass().getName() == CHECKSUMS_CLASS

    def put(text: bytes, overwrite: bool) -> None:
        before = path.read_bytes() if path.exists() else None
        stream = manager.createAtomic(jvm.org.apache.hadoop.fs.Path(f"file:{path}"), overwrite)
        stream.write(text)
        assert (path.read_bytes() if path.exists() else None) == before
        stream.close()

    put(b"first", overwrite=False)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        put(b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    put(b"third", overwrite=True)
    assert path.read_bytes() == b"third"
    assert [*path.parent.iterdir()] == [path], "nothing temporary is left, nor what Hadoop would compare it with"


def test_a_checksum_that_outlived_its_version_is_gone_before_the_version_is_there_again(
    spark: Any, tmp_path: Path
) -> None:
    """Whoever sees the entry cannot meet the checksum of another one."""
    entry, checksum = tmp_path / f"{7:020d}.json", tmp_path / f"{7:020d}.crc"
    seen, ended = [], threading.Event()

    def watch() -> None:
        while not ended.is_set():
            if entry.exists():
                seen.append(checksum.exists())
                return

    for _ in range(30):
        entry.unlink(missing_ok=True)
        checksum.write_text('{"txnId": "of another"}')
        watcher = threading.Thread(target=watch)
        watcher.start()
        assert write(spark, store_of(spark), entry, "{}")
        watcher.join(60)
    assert seen == [False] * 30 and [*tmp_path.iterdir()] == [entry]


def test_the_checksum_of_who_won_a_version_is_not_taken_away_by_who_lost_it(spark: Any, tmp_path: Path) -> None:
    """Neither one that is there when the loser comes, nor one that appears while the loser removes a former one."""
    stores, together = [store_of(spark), store_of(spark)], threading.Barrier(2)

    def race(me: int) -> None:
        for version in range(VERSIONS):
            entry, checksum = tmp_path / f"{version:020d}.json", tmp_path / f"{version:020d}.crc"
            if me:
                checksum.write_text("of a former version")
            together.wait(60)
            if write(spark, stores[me], entry, f"by {me}"):
                whole = tmp_path / f"{me}.whole"
                whole.write_text(f"by {me}\n")
                os.link(whole, checksum)  # fails if there is one
                whole.unlink()
            together.wait(60)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(race, (0, 1)))
    for version in range(VERSIONS):
        entry = tmp_path / f"{version:020d}.json"
        assert entry.read_text() == entry.with_suffix(".crc").read_text()
    assert len([*tmp_path.iterdir()]) == 2 * VERSIONS, "nothing temporary is left"
