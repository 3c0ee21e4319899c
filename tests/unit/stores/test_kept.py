"""The cache: what a power cut or a disk did to it is seen before it is used, and what is put there is on disk first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.spark import jars
from exporter.spark import java_classes as log_store
from exporter.stores import kept
from exporter.stores.file import JAVA

CODE = {"exporter.One": bytes(range(256)) * 40, "exporter.Two": b"two"}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda body: b"",
    "cut short": lambda body: body[:-1],
    "zeros": lambda body: bytes(len(body)),
    "a block of zeros": lambda body: body[:4096] + bytes(4096) + body[8192:],
    "zeros at its end": lambda body: body[:-30] + bytes(30),
}


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[bytes, int]]:
    """Asks for the compiled classes: what they are and how often they have been compiled."""
    monkeypatch.setenv("EXPORTER_CACHE_DIR", str(tmp_path / "cache"))
    made: list[int] = []

    def compile_(*_: Any) -> dict[str, bytes]:
        made.append(1)
        return CODE

    monkeypatch.setattr(log_store, "compiled", compile_)
    return lambda: (log_store._classes(None, None, JAVA.sources).read_bytes(), len(made))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_compiled_classes_that_are_damaged_are_compiled_again(
    classes: Callable[[], tuple[bytes, int]], damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """They are no table's trouble and no storage's; what is whole is not compiled again."""
    whole, times = classes()
    assert times == 1 and classes() == (whole, 1)
    (path,) = (tmp_path / "cache" / "classes").iterdir()
    path.write_bytes(damage(whole))
    assert classes() == (whole, 2) == classes()
    assert [*path.parent.iterdir()] == [path]


def test_classes_are_used_also_where_the_cache_cannot_be_written(
    classes: Callable[[], tuple[bytes, int]], tmp_path: Path
) -> None:
    """From a folder of this process; each start compiles them then."""
    whole, _ = classes()
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("a file")
    assert classes() == (whole, 2) and classes() == (whole, 3)


def test_what_is_put_into_the_cache_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its name is synced as well; a power cut at any moment leaves it whole or not there."""
    done: list[str] = []
    fsync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append("folder" if path == tmp_path else f"{path.stat().st_size} bytes")

    def renamed(*names: Any) -> None:
        rename(*names)
        done.append("renamed")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    kept.put(tmp_path / "a", b"12345")
    assert done == ["5 bytes", "renamed", "folder"] and (tmp_path / "a").read_bytes() == b"12345"


@pytest.mark.parametrize("writable", [True, False])
def test_after_each_start_of_the_machine_all_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    """A size alone does not tell zeros; where nobody can write, as in an image, no power cut has met a write."""
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(kept, "BOOT_ID", boot)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"12345")
    boot.write_text("first\n")
    kept.note(folder, {"a": kept.sha256(folder / "a")})
    read: list[Path] = []
    sha256 = kept.sha256
    monkeypatch.setattr(kept, "sha256", lambda path: (read.append(path), sha256(path))[1])
    monkeypatch.setattr(os, "access", lambda path, mode: writable)
    assert kept.intact(folder) and not read
    boot.write_text("second\n")
    assert kept.intact(folder) and len(read) == writable and kept.intact(folder) and len(read) == writable
    boot.write_text("third\n")
    (folder / "a").write_bytes(bytes(5))
    assert kept.intact(folder) is not writable
    (folder / "a").unlink()
    assert not kept.intact(folder)


def test_a_jar_of_zeros_is_missing_once_the_machine_was_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is right, its bytes are none; so it is fetched again."""
    monkeypatch.setenv("EXPORTER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept, "BOOT_ID", tmp_path / "boot_id")
    body = b"a jar"
    place = jars.cache_folder("a")
    place.mkdir(parents=True)
    (place / "one-1.jar").write_bytes(body)
    listed = [jars.Jar("a", "org", "one", "1", kept.sha256(place / "one-1.jar"))]
    monkeypatch.setattr(jars, "all_listed", lambda: listed)
    (tmp_path / "boot_id").write_text("first")
    assert jars.missing("a") == []
    (tmp_path / "boot_id").write_text("second")
    (place / "one-1.jar").write_bytes(bytes(len(body)))
    assert jars.missing("a") == listed
