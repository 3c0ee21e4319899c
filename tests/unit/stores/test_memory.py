"""The store in memory is stricter than one that holds data: what it lets pass, all let pass."""

from __future__ import annotations

import pytest

from exporter.stores.memory import MemoryStore
from exporter.stores.store import Entry


@pytest.mark.parametrize("path", ["a//b", "a/", "./a", "a/.", "a/./b", "/a", "a\nb", "a/../b"])
def test_it_normalises_nothing(store: MemoryStore, path: str) -> None:
    """A path that a file system would forgive is refused."""
    with pytest.raises(ValueError):
        store.write_once(path, b"")
    with pytest.raises(ValueError):
        MemoryStore.at(f"memory://{path}")


def test_a_name_is_used_once_for_ever(store: MemoryStore) -> None:
    """NAMES: also after its file is deleted."""
    store.write_once("a", b"1")
    assert store.delete("a")
    with pytest.raises(FileExistsError):
        store.write_once("a", b"1")


def test_a_listing_may_be_late(store: MemoryStore) -> None:
    """What was just written can be read, and is listed when the storage likes."""
    store.write_once("d/old", b"1")
    store.disk.lists_late = True
    store.write_once("d/new", b"2")
    assert store.read("d/new") == b"2" and store.size("d/new") == 1
    assert store.names("d") == ["old"] and [*store.files("d")] == [Entry("d/old", 1)]
    store.disk.settle()
    assert store.names("d") == ["new", "old"]


def test_what_is_open_fails_once_its_file_is_deleted(store: MemoryStore) -> None:
    """Object stores do not wait for readers."""
    store.write_once("a", b"123")
    with store.reader("a") as file:
        assert file.read(1) == b"1" and not file.writable()
        store.delete("a")
        with pytest.raises(FileNotFoundError):
            file.read(1)


def test_it_says_what_was_synced_and_what_it_is_told_to_say(store: MemoryStore) -> None:
    """Of a file and of a folder, in order."""
    store.write_once("d/a", b"")
    store.sync("d/a")
    store.sync("d")
    assert store.disk.synced == [store.uri("d/a"), store.uri("d")]
    store.disk.trouble = "out"
    assert store.trouble() == "out"
