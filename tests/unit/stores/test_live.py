"""Sizes of live files, asked for by folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from exporter.stores.file import FileStore
from exporter.stores.live import LiveSizes
from exporter.stores.store import Entry


class Asked(FileStore):
    """A store that counts what it is asked for."""

    listed: ClassVar[list[str]] = []
    named: ClassVar[list[str]] = []

    def files(self, folder: str = "") -> Iterator[Entry]:
        self.listed.append(folder)
        return super().files(folder)

    def live_size(self, path: str) -> int | None:
        self.named.append(path)
        return super().live_size(path)


def test_each_folder_is_listed_once_and_only_what_it_does_not_tell_is_asked_for_by_name(tmp_path: Path) -> None:
    """As the log calls them: encoded, or a whole URI; one that is gone is still told as that."""
    (tmp_path / "day=1" / "n=a%20b").mkdir(parents=True)
    for name, size in (("x", 1), ("y", 2), ("n=a%20b/z", 3)):
        (tmp_path / "day=1" / name).write_bytes(b"1" * size)
    (tmp_path / "w").write_bytes(b"1234")
    Asked.listed.clear()
    Asked.named.clear()
    sizes = LiveSizes(Asked(str(tmp_path)))
    asked = ["day=1/x", "day=1/y", "w", "day=1/n=a%2520b/z", "day=1/gone", f"file://{tmp_path}/day=1/x", "none/x"]
    assert [sizes.of(path) for path in asked] == [1, 2, 4, 3, None, 1, None]
    assert Asked.listed == ["day=1", "", "day=1/n=a%20b", "none"]
    assert Asked.named == ["day=1/gone", f"file://{tmp_path}/day=1/x", "none/x"]
