"""What every store does, by the one in memory and by those that hold data."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pytest

from exporter.stores.file import FileStore
from exporter.stores.hdfs import HdfsStore
from exporter.stores.lease import leased
from exporter.stores.memory import DISKS, MemoryStore
from exporter.stores.object_store import ObjectStore
from exporter.stores.store import Entry, Store
from exporter.stores.stores import STORES, open_store

AWAY = ["../x", "a/../../x", "/x", ".."]
ODD = ["a b", "é", "100%", "%41", "it's", 'q"q', "~2E", "_delta_log", ".hidden", "day=2026-01-01", "a..b", "`"]


SERVED = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("s3", "azure", "gcs", "hdfs")]
STORES_HERE = ["memory", "file", *SERVED]


@pytest.fixture(params=STORES_HERE)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store whose root is not there yet."""
    monkeypatch.setitem(STORES, "memory", MemoryStore.at)
    name = uuid4().hex
    if request.param == "memory":
        yield open_store(f"memory://{name}/lake")
        DISKS.pop(name, None)
    elif request.param == "file":
        yield open_store(f"file://{tmp_path}/lake")
    else:
        yield request.getfixturevalue(request.param).below(f"{name}/lake")


def test_a_file_is_there_whole_once_it_is_written(store: Store) -> None:
    """The folders above it come to be with it; however it is read, it holds the same."""
    body = bytes(range(256)) * 300
    store.write_once("order/day=2026-01-01/x", pa.py_buffer(body))
    assert store.read("order/day=2026-01-01/x") == body and store.size("order/day=2026-01-01/x") == len(body)
    with store.reader("order/day=2026-01-01/x") as file:
        assert file.seekable() and file.read(3) == body[:3]
        file.seek(-5, 2)
        assert file.read() == body[-5:]
    store.write_once("empty", b"")
    assert store.read("empty") == b"" and store.size("empty") == 0


def test_nothing_is_written_a_second_time(store: Store) -> None:
    """NAMES: the first one stays, whatever the second one would have been."""
    store.write_once("a/x", b"first")
    for body in (b"second", b"first", b""):
        with pytest.raises(FileExistsError):
            store.write_once("a/x", body)
    assert store.read("a/x") == b"first"


def test_of_many_that_create_one_file_exactly_one_is_told_that_it_did(store: Store) -> None:
    """And it is that one's."""

    def tried(number: int) -> int | None:
        try:
            store.write_once("folder/x", str(number).encode())
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        (won,) = [number for number in pool.map(tried, range(64)) if number is not None]
    assert store.read("folder/x") == str(won).encode()


def test_what_others_look_for_by_name_is_created_once_and_whole(store: Store) -> None:
    """By exactly one of those who try at the same moment; nobody reads a part of it, and nothing else stays there."""
    read: set[bytes] = set()

    def tried(number: int) -> int | None:
        try:
            store.create("deep/folder/x", str(number).encode() * 50_000, sync=number % 8 == 0)
        except FileExistsError:
            read.add(store.read("deep/folder/x"))
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        (won,) = [number for number in pool.map(tried, range(10, 74)) if number is not None]
    assert read == {str(won).encode() * 50_000} and store.names("deep/folder") == ["x"]


def test_a_file_stands_in_no_other_file_s_place(store: Store) -> None:
    """Neither below a file nor where a folder is; in an object store these are other names."""
    if isinstance(store, ObjectStore):
        pytest.skip("there are no folders")
    store.write_once("a/b", b"")
    for path in ("a/b/c", "a"):
        with pytest.raises(OSError):
            store.write_once(path, b"")


def test_what_is_not_there_is_told_as_that(store: Store) -> None:
    """No size, nothing to delete and to list; reading and syncing raise."""
    store.write_once("a/x", b"1")
    for path in ("y", "a/y", "b/x"):
        assert store.size(path) is store.live_size(path) is None and store.delete(path) is False
        assert store.names(path) == [] == [*store.files(path)]
        assert not store.has_file(path) and not store.has_folder(path)
        for raises in (store.read, store.reader, *([store.sync] if store.syncs else [])):
            with pytest.raises(FileNotFoundError):
                raises(path)


def test_a_root_that_is_not_there_yet_holds_nothing(store: Store) -> None:
    """So has a lake before its first table."""
    assert store.names() == [] == [*store.files()] and not store.has_folder("order")


def test_a_folder_lists_what_stands_in_it_and_no_deeper(store: Store) -> None:
    """Names of files and folders; files with their size and their path from the root."""
    for path in ("x", "a/y", "a/z", "a/b/w", "ab/v"):
        store.write_once(path, path.encode())
    assert sorted(store.names()) == ["a", "ab", "x"] and sorted(store.names("a")) == ["b", "y", "z"]
    assert [*store.files()] == [Entry("x", 1)] and sorted(store.files("a")) == [Entry("a/y", 3), Entry("a/z", 3)]
    assert [*store.files("x")] == [] == [*store.files("a/y")], "a file is no folder"
    assert [store.has_folder(path) for path in ("a", "a/b", "x", "a/y", "b")] == [True, True, False, False, False]
    assert [store.has_file(path) for path in ("a", "a/b", "x", "a/y", "b")] == [False, False, True, True, False]


def test_a_file_is_deleted_once(store: Store) -> None:
    """Who comes second is told so, and the others stay."""
    store.write_once("a/x", b"1")
    store.write_once("a/y", b"2")
    assert store.delete("a/x") is True and store.delete("a/x") is False
    assert store.size("a/x") is None and [*store.files("a")] == [Entry("a/y", 1)]
    with pytest.raises(FileNotFoundError):
        store.read("a/x")


def test_a_store_below_is_the_same_store(store: Store) -> None:
    """By its paths, by its uri, and by what a worker is sent."""
    store.write_once("order/day=1/x", b"1")
    table = store.below("order")
    assert table.read("day=1/x") == b"1" and table.uri() == store.uri("order")
    assert table.below("day=1").uri("x") == table.uri("day=1/x") == store.uri("order/day=1/x")
    for other in (open_store(table.uri(), store.options), pickle.loads(pickle.dumps(table)), store.below("order")):
        assert other == table and other.size("day=1/x") == 1
    assert open_store(store.uri(), store.options) == store
    table.write_once("day=1/y", b"2")
    assert sorted(store.names("order/day=1")) == ["x", "y"]


@pytest.mark.parametrize("path", AWAY)
def test_no_path_leads_out_of_the_root(store: Store, path: str) -> None:
    """Whatever is asked: what reads a name from somewhere cannot be led elsewhere by it."""
    table = store.below("order")
    store.write_once("x", b"1")
    calls: list[Callable[[str], object]] = [
        table.uri, table.below, table.read, table.reader, table.size, table.delete, table.sync, table.names,
        lambda at: [*table.files(at)], table.has_folder, table.has_file, table.unwritable,
        lambda at: table.write_once(at, b""), lambda at: table.replace(at, b""), lambda at: table.create(at, b""),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError):
            call(path)
    assert store.read("x") == b"1"


@pytest.mark.parametrize("name", ODD)
def test_names_are_taken_as_they_are(store: Store, name: str) -> None:
    """Nothing is decoded, quoted or left out."""
    store.write_once(f"{name}/{name}", b"1")
    assert store.names() == [name] == store.names(name) and [*store.files(name)] == [Entry(f"{name}/{name}", 1)]
    assert store.read(f"{name}/{name}") == b"1" and store.uri(name) == f"{store.uri()}/{name}"
    assert open_store(store.uri(name), store.options).size(name) == 1


@pytest.mark.parametrize("name", ODD)
def test_a_live_file_is_found_as_the_log_calls_it(store: Store, name: str) -> None:
    """URL-encoded; below the table, or a whole URI, as a clone of a table has it."""
    store.write_once(f"other/{name}", b"123")
    assert store.below("other").live_size(quote(name)) == 3
    assert store.below("table").live_size(quote(store.uri(f"other/{name}"), safe="/:")) == 3
    if isinstance(store, FileStore):
        assert store.below("table").live_size(quote(f"file://{store.uri()}/other/{name}", safe="/:")) == 3


def test_names_come_from_where_they_are_wanted(store: Store) -> None:
    """As a log is read from its newest checkpoint on."""
    for name in ("00", "01", "01.x", "02", "_x"):
        store.write_once(f"log/{name}", b"")
    assert sorted(store.names("log", after="01")) == ["01.x", "02", "_x"] and store.names("log", after="z") == []


def test_what_may_be_replaced_is_there_whole(store: Store) -> None:
    """And nothing else stays there."""
    for body in (b"1" * 100, b"2"):
        store.replace("log/_last", body)
        assert store.read("log/_last") == body and store.names("log") == ["_last"]


def test_a_lease_is_one_s_at_a_time(store: Store) -> None:
    """Who comes second is told so at once; afterwards it is free, also if its holder failed."""
    store.write_once("order/x", b"")
    table = store.below("order")
    with leased(table, "_lease") as first, leased(table, "_lease") as second, leased(table, "_other") as other:
        assert (first, second, other) == (True, False, True)
    with pytest.raises(RuntimeError), leased(store, "order/_lease2") as again:
        assert again
        raise RuntimeError
    assert table.names() == ["x"]


def test_a_lease_is_kept_while_it_is_held_and_free_once_its_holder_is_gone(store: Store) -> None:
    """It is renewed; that of a killed one expires."""
    secs = 3.0 if isinstance(store, HdfsStore) else 1.0  # to write a file takes it half a second; renewed each third
    with leased(store, "a/_lease", secs=secs) as first:
        time.sleep(secs * 5 / 3)  # longer than it lasts
        with leased(store, "a/_lease") as second:
            assert (first, second) == (True, False)
    store.replace("b/_lease", b'{"owner": "x", "until": 1}')
    store.replace("c/_lease", b"cut sh")
    with leased(store, "b/_lease") as taken, leased(store, "c/_lease") as repaired:
        assert taken and repaired


def test_whether_it_can_be_written_is_tried_and_leaves_nothing(store: Store) -> None:
    """Also where the folder is not there yet."""
    store.write_once("order/x", b"")
    for path in ("", "order", "order/_delta_log", "a/b/c"):
        assert store.unwritable(path) is store.unwritable(path, sync=True) is None
    assert store.trouble() == "" and store.names() == ["order"] and store.names("order") == ["x"]


def test_what_is_there_can_be_brought_to_disk(store: Store) -> None:
    """A file, and the names in a folder."""
    store.write_once("order/_delta_log/x", b"1")
    for path in ("order/_delta_log/x", "order/_delta_log", "order"):
        store.sync(path)


def test_it_makes_log_entries_exclusively_and_brings_what_the_jvm_needs_for_that(store: Store) -> None:
    """FENCE rests on it: else it is no store. The sources that it names are there."""
    assert store.commits_are_exclusive is True
    for source in store.java.sources:
        assert f"class {source.stem} " in source.read_text("utf-8")
    assert all(isinstance(value, str) for value in store.java.settings.values())


def test_names_are_the_same_for_a_jvm_that_writes_as_this_process_does(store: Store) -> None:
    """Nothing is asked where all ways to write it are one."""
    store.require_same_names(lambda: pytest.fail("nobody needs to know"))
    store.below("é").require_same_names(lambda: "UTF-8")
