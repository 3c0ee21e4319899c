"""What a table asks its store, without a JVM: the name in SQL, staged files, entries of its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import LogCleaned, StorageSilent, TableUnreadable
from exporter.lake import log_files
from exporter.lake.table import DeltaTable
from exporter.stores.file import JAVA, FileStore
from exporter.stores.memory import DISKS, Disk, MemoryStore
from exporter.stores.s3 import S3Store
from exporter.stores.store import Store
from tests.support.java import java, raised


def table_in(store: Store) -> DeltaTable:
    """A table that asks no JVM."""
    gateway: Any = None
    return DeltaTable(lambda: gateway, store, "app", "order.v1")


@pytest.fixture
def table() -> Iterator[DeltaTable]:
    yield table_in(MemoryStore.at("memory://table/lake/order~2Ev1"))
    DISKS.pop("table", None)


class NoSnapshots:
    """A gateway whose log cannot be read."""

    none = None

    def log(self, uri: str) -> Any:
        raise RuntimeError("java.io.IOException")


@pytest.mark.parametrize("trouble", ["", "no answer"])
def test_a_version_that_cannot_be_read_is_gone_only_if_the_storage_answers(trouble: str) -> None:
    """A log that was cleaned up needs a person; an outage passes."""
    gateway: Any = NoSnapshots()
    table = DeltaTable(lambda: gateway, MemoryStore.at("memory://gone/order"), "app", "order")
    DISKS.setdefault("gone", Disk()).trouble = trouble
    with pytest.raises(StorageSilent if trouble else LogCleaned):
        table.view_at(3)
    DISKS.pop("gone")


def staged(size_bytes: int) -> tuple[str, int]:
    return "day=2026-01-01/app.t.0.0.00000000000000000009.a.parquet", size_bytes


def test_a_table_s_name_in_sql_is_quoted() -> None:
    """Whatever its root is called."""
    assert table_in(FileStore("/a `b` 'c'/order")).sql_name == "delta.`/a ``b`` 'c'/order`"


def test_a_staged_file_has_to_be_there_with_its_size(table: DeltaTable) -> None:
    """TEMP: VACUUM may have deleted it, a power cut may have cut it short; both are told, each as what it is."""
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 'memory://table/lake/order~2Ev1/day=2026"):
        table.require(*staged(3))
    table.store.write_once(staged(3)[0], b"123")
    table.require(*staged(3))
    with pytest.raises(ValueError, match="has 3 bytes instead of 4"):
        table.require(*staged(4))


def test_an_entry_is_read_by_its_lines(table: DeltaTable) -> None:
    """One that is gone was cleaned up; one that cannot be read is no entry."""
    info = {"commitInfo": {"operation": "WRITE", "userMetadata": json.dumps({"commit_id": "c"})}}
    table.store.write_once(log_files.entry(0), (json.dumps(info) + "\n").encode())
    table.store.write_once(log_files.entry(1), b'{"add"')
    table.store.write_once(log_files.entry(2), b"\xff")
    assert table.logged(0).commit_id == "c"
    for version in (1, 2):
        with pytest.raises(TableUnreadable, match=f"version {version} cannot be read"):
            table.logged(version)
    with pytest.raises(LogCleaned, match="version 3 is no longer in its log"):
        table.logged(3)


def test_entries_without_a_byte_are_named_from_the_newest_back(table: DeltaTable) -> None:
    """As far as the log goes back, and no further than was asked."""
    for version, body in ((2, b""), (3, b"{}"), (4, b""), (5, b"")):
        table.store.write_once(log_files.entry(version), body)
    assert table.empty_entries(5, 10) == [5, 4, 2] and table.empty_entries(5, 2) == [5, 4]


def test_what_the_store_s_commits_say_of_the_disk_is_told_from_all_else() -> None:
    """By the class of the error, wherever in the chain of causes it stands."""
    table = table_in(FileStore("/lake/order"))
    wrapped = java("org.apache.spark.SparkException", java(JAVA.not_synced))
    assert table.not_synced(raised(wrapped)) and table.not_synced(raised(java(JAVA.not_synced)))
    assert not table.not_synced(raised(java("java.io.IOException"))) and not table.not_synced(OSError())


def test_what_a_store_s_client_says_in_the_jvm_is_no_table_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer of S3, as after keys that have ended, ended the task with 70: it may be another a moment later."""
    gateway: Any = None
    of_s3 = DeltaTable(lambda: gateway, S3Store.at("s3://lake/order"), "app", "order", sync=False)
    of_a_disk = DeltaTable(lambda: gateway, FileStore("/lake/order"), "app", "order", sync=False)
    bad_request = java("java.io.IOException", java("org.apache.hadoop.fs.s3a.AWSBadRequestException"))
    damaged = java("java.io.IOException", java("com.fasterxml.jackson.core.JsonParseException"))
    for table, what, silent in (of_s3, bad_request, True), (of_s3, damaged, False), (of_a_disk, bad_request, False):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(TableUnreadable) as told:
            patch.setattr(log_files, "newest_view", lambda store, what=what: (_ for _ in ()).throw(raised(what)))
            table.view()
        assert isinstance(told.value, StorageSilent) == silent
    gateway = SimpleNamespace(none=None, log=lambda uri: (_ for _ in ()).throw(raised(bad_request)))
    monkeypatch.setattr(log_files, "former_view", lambda *_: None)
    with pytest.raises(StorageSilent):
        DeltaTable(lambda: gateway, S3Store.at("s3://lake/order"), "app", "order").view_at(3)


@pytest.mark.parametrize("stands", ["nothing", "an empty log", "a file", "no commit"])
def test_delta_is_asked_of_a_table_only_where_something_stands_in_its_place(tmp_path: Path, stands: str) -> None:
    """A verb that looks for tables that nobody has made yet would start a JVM for each."""
    log, asked = tmp_path / "_delta_log", list[str]()
    if stands != "nothing":
        log.write_text("") if stands == "a file" else log.mkdir()
    if stands == "no commit":
        (log / ".tmp").write_text("")

    def gateway() -> Any:
        asked.append("gateway")
        raise RuntimeError("java")

    table = DeltaTable(gateway, FileStore(str(tmp_path)), "app", "order", sync=False)
    if stands in ("nothing", "an empty log"):
        assert table.view() is None and not asked
    else:
        with pytest.raises(TableUnreadable, match="java"):
            table.view()
        assert asked
